//! Every kind is drawn, and what is left out leaves the rest as it is.

use super::*;

#[test]
fn every_fault_is_drawn_sometimes() {
    let mut seen = vec![false; FAULTS.len()];
    for seed in 0..300 {
        let chaos = Chaos::draw(&Options { seed, ..Options::default() });
        for planned in &chaos.plan {
            seen[FAULTS.iter().position(|&fault| fault == planned.fault).expect("listed")] = true;
        }
        for (fault, on) in [
            (Fault::Loss, chaos.loss > 0),
            (Fault::Duplicate, chaos.duplicate > 0),
            (Fault::Reorder, chaos.reorder > 0),
            (Fault::SlowNetwork, chaos.delay_min >= 2 * MS),
            (Fault::ClientReset, chaos.client_reset > 0),
            (Fault::CommitHere, chaos.commit_here > 0),
            (Fault::TransferCrash, chaos.transfer_crash > 0),
            (Fault::ValueCache, chaos.cache.is_some()),
            (Fault::BucketTerms, chaos.terms_seed.is_some()),
            (Fault::Hashes, chaos.hashes_seed.is_some()),
            (Fault::Sets, chaos.sets_seed.is_some()),
            (Fault::SortedSets, chaos.sorted_sets_seed.is_some()),
            (Fault::Documents, chaos.documents_seed.is_some()),
            (Fault::Lists, chaos.lists_seed.is_some()),
            (Fault::PubSub, chaos.pubsub_seed.is_some()),
            (Fault::HyperLogLogs, chaos.sketches_seed.is_some()),
            (Fault::Places, chaos.places_seed.is_some()),
            (Fault::FieldExpiry, chaos.fading_seed.is_some()),
            (Fault::Streams, chaos.streams_seed.is_some()),
            (Fault::Pauses, chaos.pauses_seed.is_some()),
            (Fault::Scripts, chaos.scripts_seed.is_some()),
            (Fault::Partitions, chaos.partitions_seed.is_some()),
            (Fault::Observers, chaos.observers_seed.is_some()),
            (Fault::CostlyCommands, chaos.costly_seed.is_some()),
            (Fault::Routers, chaos.routers_seed.is_some()),
            (Fault::Restless, chaos.restless_seed.is_some()),
            (Fault::ClockOffset, chaos.clock_offsets.iter().any(|&offset| offset != 0)),
            (Fault::ClockRate, chaos.clock_rates.iter().any(|&rate| rate != 1_000_000)),
        ] {
            seen[FAULTS.iter().position(|&other| other == fault).expect("listed")] |= on;
        }
    }
    // These are only there where somebody asks for them.
    let asked_for = [
        Fault::StepOver,
        Fault::Moves,
        Fault::Backups,
        Fault::FolderAway,
        Fault::WildClock,
        Fault::TornSectors,
        Fault::Addresses,
        Fault::Keys,
        Fault::SecondProcess,
        Fault::Impostor,
        Fault::DiskLow,
        Fault::Users,
        Fault::Subscriptions,
    ];
    let is_drawn = |fault: &Fault| !asked_for.contains(fault);
    for (fault, seen) in FAULTS.iter().zip(seen).filter(|(fault, _)| is_drawn(fault)) {
        assert!(seen, "{} is never drawn", fault.name());
    }
}

#[test]
fn leaving_a_kind_out_leaves_the_rest() {
    let all = Chaos::draw(&Options { seed: 5, ..Options::default() });
    let without = Chaos::draw(&Options { seed: 5, without: vec![Fault::Kill], ..Options::default() });
    let expected: Vec<Planned> = all.plan.into_iter().filter(|planned| planned.fault != Fault::Kill).collect();
    assert_eq!(without.plan, expected);
}

#[test]
fn who_never_rests_changes_nothing_else_that_is_drawn() {
    let mut drawn = 0;
    for seed in 0..300 {
        let all = Chaos::draw(&Options { seed, ..Options::default() });
        let without = Chaos::draw(&Options { seed, without: vec![Fault::Restless], ..Options::default() });
        drawn += u64::from(all.restless_seed.is_some());
        assert_eq!(Chaos { restless_seed: None, ..all }, without);
    }
    assert!((80..120).contains(&drawn), "{drawn} of 300");
}
