//! The shipping node under drawn faults: a fixed list of seeds, one that changes with every commit, and all that once
//! failed. Some are run twice, to see that a seed is all there is to know of a run.

use std::process::Command;

use sim::chaos::{Fault, Options};
use sim::report::Report;
use sim::run::{Outcome, run};

use crate::is_long;

/// Of so many seeds those that are run: all by `./check long`, half of them by `./check`. More are run by `dictum sim --minutes`.
fn count(all: u64) -> u64 {
    if is_long() { all } else { all / 2 }
}

/// Seeds of the fixed list, in each of its halves.
const HALF: u64 = 300;

/// Of each half those that are run: a third by `./check`, which has twenty minutes for everything.
fn fixed() -> u64 {
    if is_long() { HALF } else { HALF / 3 }
}

/// Seeds in which something happens for certain: nodes join and leave, zones are lost, folders are set back, most nodes are lost, nodes of two versions are upgraded.
const CERTAIN: u64 = 40;

/// Runs a seed; fails with the command that does the same again.
fn must_pass(options: &Options) -> Outcome {
    let outcome = run(options, false);
    for violation in &outcome.violations {
        eprintln!("{}: {}", violation.property, violation.text);
    }
    assert!(outcome.violations.is_empty(), "something was found; to see it again: dictum sim {}", options.to_words());
    outcome
}

fn seeds(from: u64, to: u64) -> Report {
    let mut report = Report::default();
    for seed in from..to {
        report.add(&must_pass(&Options { seed, ..Options::default() }));
    }
    // Less than one in thousands is too hard to judge; the other checkers have seen it all the same.
    assert!(report.undecided <= 1, "{} histories are too hard to judge", report.undecided);
    report
}

fn probes() -> Vec<&'static str> {
    [node::PROBES, &sim::probes()].concat()
}

// Two halves, because tests run side by side.

#[test]
fn the_first_half_of_the_fixed_seeds_passes() {
    println!("{}", seeds(10_000, 10_000 + fixed()).text(&probes(), 1));
}

#[test]
fn the_second_half_of_the_fixed_seeds_passes() {
    println!("{}", seeds(10_000 + HALF, 10_000 + HALF + fixed()).text(&probes(), 1));
}

#[test]
fn runs_in_which_nodes_join_and_leave_pass() {
    for seed in 8000..8000 + count(CERTAIN) {
        must_pass(&Options { seed, with: vec![Fault::MembersChange], ..Options::default() });
    }
}

#[test]
fn runs_in_which_zones_are_lost_pass() {
    let (mut lost, seeds) = (0, count(CERTAIN));
    // More seeds, up to half as many again, if too few zones are lost: none is where that would leave no majority.
    for seed in 8400..8400 + seeds * 3 / 2 {
        if seed >= 8400 + seeds && lost >= seeds {
            break;
        }
        let outcome =
            must_pass(&Options { seed, with: vec![Fault::MembersChange, Fault::ZoneLost], ..Options::default() });
        lost += outcome.injected.get(&Fault::ZoneLost).copied().unwrap_or(0);
    }
    assert!(lost >= seeds, "only {lost} zones were lost");
}

#[test]
fn runs_in_which_folders_are_set_back_pass() {
    let (mut set_back, seeds) = (0, count(CERTAIN));
    for seed in 8100..8100 + seeds {
        let outcome = must_pass(&Options { seed, with: vec![Fault::SetBack], ..Options::default() });
        set_back += outcome.injected.get(&Fault::SetBack).copied().unwrap_or(0);
    }
    assert!(set_back >= seeds / 4, "only {set_back} folders were set back");
}

#[test]
fn runs_in_which_folders_are_away_pass() {
    let (mut away, mut outlived, seeds) = (0, 0, count(CERTAIN));
    for seed in 8500..8500 + seeds {
        let outcome = must_pass(&Options { seed, with: vec![Fault::FolderAway], ..Options::default() });
        away += outcome.injected.get(&Fault::FolderAway).copied().unwrap_or(0);
        outlived += outcome.probes.get("paxos: replica was outlived").copied().unwrap_or(0);
    }
    assert!(away >= seeds / 2, "only {away} folders were away");
    assert!(outlived >= seeds / 4, "only {outlived} replicas were outlived");
}

#[test]
fn runs_in_which_clocks_are_wild_pass() {
    let (mut set, seeds) = (0, count(CERTAIN));
    for seed in 8600..8600 + seeds {
        let outcome = must_pass(&Options { seed, with: vec![Fault::WildClock], ..Options::default() });
        set += outcome.injected.get(&Fault::WildClock).copied().unwrap_or(0);
    }
    assert!(set >= seeds, "clocks were set {set} times only");
}

#[test]
fn runs_in_which_sectors_are_torn_pass() {
    let (mut torn, seeds) = (0, count(CERTAIN));
    for seed in 8700..8700 + seeds {
        let with = vec![Fault::TornSectors, Fault::PowerCut, Fault::PowerCutAll];
        let outcome = must_pass(&Options { seed, with, ..Options::default() });
        torn += outcome.injected.get(&Fault::TornSectors).copied().unwrap_or(0);
    }
    assert!(torn >= seeds, "only {torn} blocks were torn");
}

#[test]
fn runs_in_which_one_goes_on_alone_pass() {
    let mut report = Report::default();
    for seed in 8200..8200 + count(CERTAIN) {
        report.add(&must_pass(&Options { seed, with: vec![Fault::UnsafeRecover], ..Options::default() }));
    }
    println!("{}", report.text(&probes(), 1));
}

#[test]
fn runs_in_which_nodes_are_upgraded_pass() {
    let (mut upgraded, mut held_back, mut risen) = (0, 0, 0);
    let seeds = count(CERTAIN);
    for seed in 8300..8300 + seeds {
        let outcome = must_pass(&Options { seed, with: vec![Fault::Versions], ..Options::default() });
        upgraded += outcome.injected.get(&Fault::Versions).copied().unwrap_or(0);
        let reached = |name| outcome.probes.get(name).copied().unwrap_or(0);
        held_back += u64::from(reached("node: an older node holds the cluster's version back") > 0);
        risen += u64::from(reached("node: the cluster's version raised") > 0);
    }
    assert!(upgraded >= seeds, "only {upgraded} nodes were upgraded");
    assert!(held_back >= seeds / 2, "only in {held_back} runs an older node held the version back");
    assert!(risen >= seeds / 2, "only in {risen} runs the version has risen");
}

#[test]
fn the_seed_of_this_commit_passes() {
    // Every commit adds one that nobody has chosen. Outside a repository there is none to add.
    let given = std::env::var("DICTUM_COMMIT").ok();
    let asked = || Command::new("git").args(["rev-parse", "HEAD"]).output().ok();
    let hash = given.or_else(|| asked().and_then(|output| String::from_utf8(output.stdout).ok())).unwrap_or_default();
    let seed = hash.trim().get(..15).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(1);
    must_pass(&Options { seed, ..Options::default() });
}

#[test]
fn runs_that_once_failed_pass() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/regressions");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder is part of the sources")
        .map(|entry| entry.expect("readable").path())
        .collect();
    files.sort();
    let mut runs = 0;
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "txt")) {
        let text = std::fs::read_to_string(file).expect("it is text");
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            must_pass(&Options::parse(line).unwrap_or_else(|error| panic!("{}: {line}: {error}", file.display())));
            runs += 1;
        }
    }
    assert!(runs > 0);
}

/// Whether a value was in memory above the store makes no difference to anything that happens, however many stay there and by which
/// policy: so a run is the same, event by event, without any.
#[test]
fn values_in_memory_change_nothing_in_a_run() {
    let cached = [Fault::ValueCache];
    for seed in 30_000..30_000 + count(20) {
        let with = Options { seed, with: cached.to_vec(), ..Options::default() };
        let without = Options { seed, without: cached.to_vec(), ..Options::default() };
        let (first, second) = (run(&with, false), run(&without, false));
        assert_eq!((first.digest, first.events), (second.digest, second.events), "dictum sim {}", with.to_words());
    }
}

#[test]
fn a_seed_is_all_there_is_to_know_of_a_run() {
    for seed in 20_000..20_000 + count(10) {
        let options = Options { seed, ..Options::default() };
        let (first, second) = (run(&options, false), run(&options, true));
        assert_eq!((first.digest, first.events), (second.digest, second.events), "dictum sim {}", options.to_words());
        assert_eq!(first.violations, second.violations);
    }
}
