//! Kinds of faults whose effect is more than that something stops: each really happens, in each of its forms.

use sim::chaos::{Fault, Options};
use sim::run::run;

/// Runs seeds in which `fault` is frequent until every text has been in some event and the fault has been counted. First of all the seeds where rare texts were found last.
fn shows(fault: Fault, found_last: &[u64], within: u64, texts: &[&str]) {
    let mut missing: Vec<&str> = texts.to_vec();
    let mut counted = 0;
    for seed in found_last.iter().copied().chain(1..=within) {
        let options = Options { seed, nodes: Some(3), with: vec![fault], ..Options::default() };
        let outcome = run(&options, true);
        assert!(outcome.violations.is_empty(), "dictum sim {}: {:?}", options.to_words(), outcome.violations);
        counted += outcome.injected.get(&fault).copied().unwrap_or(0);
        missing.retain(|text| {
            let is_seen = outcome.lines.iter().any(|line| line.contains(text));
            if is_seen {
                println!("seed {seed} shows {text:?}");
            }
            !is_seen
        });
        if missing.is_empty() && counted > 0 {
            return;
        }
    }
    panic!("{}: counted {counted} times within {within} seeds, never seen: {missing:?}", fault.name());
}

#[test]
fn unreadable_blocks_are_met_in_journals_and_snapshots() {
    shows(
        Fault::ReadError,
        &[6, 89],
        120,
        &["damage [Damage", ", a newer one damaged", "cannot be read", "mends the cable"],
    );
}

#[test]
fn a_rotten_identity_is_refused_and_its_operator_helps() {
    shows(Fault::IdentityRot, &[], 60, &["checksum is wrong", "puts the identity back", "deletes the folder"]);
}

#[test]
fn the_loop_commits_by_itself() {
    shows(Fault::CommitHere, &[], 5, &[]);
}

#[test]
fn machines_move() {
    shows(
        Fault::Addresses,
        &[],
        20,
        &["and is told of others", "is at 127.0.0.1:9002 from now on", "is reached at 127.0.0.1:9001 now"],
    );
}

#[test]
fn users_come_and_go_and_guests_get_what_is_theirs() {
    shows(Fault::Users, &[], 20, &["ACL SETUSER guest", "ACL DELUSER guest"]);
}

#[test]
fn keys_are_lost_and_changed_and_the_cluster_knows_them() {
    shows(
        Fault::Keys,
        &[],
        20,
        &[
            "has lost its key",
            "is to change its key",
            "DICTUM.NODE FORGETKEYS",
            "DICTUM.NODE ADDKEY",
            "ended, to begin with another key",
        ],
    );
}

#[test]
fn disks_sink_below_their_marks_and_fill_up() {
    shows(
        Fault::DiskLow,
        &[],
        20,
        &[
            "the disk has too little room: only what frees room is taken",
            "the disk is full: no writes are taken until there is room",
            "has too little room: the command was not done",
            "the disk has room again: writes go on",
        ],
    );
}

#[test]
fn second_processes_of_a_name_are_refused_and_end_or_take_its_place() {
    shows(
        Fault::SecondProcess,
        &[4, 11],
        60,
        &[
            "begins, folder: Empty",
            "begins, folder: Copied",
            "begins, folder: Moved",
            "begins, folder: Alone",
            "ends: its operator ends it",
            "it is an earlier copy, put back",
            "it is started again in the node's place",
        ],
    );
}
