//! What a replayed journal must and must not say.

use super::*;
use base::NodeId;
use paxos::Entry;

const PARTITION: PartitionId = crate::group::DEFAULT_PARTITION;

fn ballot(round: u64) -> Ballot {
    Ballot { round, node: NodeId(0) }
}

fn append(previous: u64, rounds: &[u64]) -> Record {
    let entries = rounds.iter().map(|round| Entry { ballot: ballot(*round), payload: Bytes::from_static(b"x") });
    Record::Append { previous: Position(previous), entries: entries.collect() }
}

fn reset(position: u64, round: u64, last: u64) -> Record {
    Record::Reset { position: Position(position), ballot: ballot(round), last: Position(last) }
}

/// A journal whose payloads hold one record each, with the hard state, numbered from `first` on.
fn journal(first: u64, records: &[Record], decided: u64) -> storage::Recovered {
    let state = HardState { decided: Position(decided), incarnations: vec![1, 1, 1], ..HardState::default() };
    let payload = |record: &Record| {
        let mut batch = Batch::default();
        batch.record(PARTITION, record);
        batch.state(PARTITION, &state);
        batch.take()
    };
    storage::Recovered {
        payloads: (first..).zip(records.iter().map(payload)).collect(),
        damage: Vec::new(),
        tail: storage::Tail::Clean,
        next_number: first + records.len() as u64,
        floor: first,
        fresh: false,
    }
}

fn one(rebuilt: Result<BTreeMap<PartitionId, Rebuilt>, String>) -> Restored {
    rebuilt.unwrap().remove(&PARTITION).unwrap().restored
}

fn rebuilt(records: &[Record], snapshot: Option<(u64, u64)>) -> Restored {
    let snapshot = snapshot.map(|(position, round)| (Position(position), ballot(round)));
    one(rebuild(&[PARTITION], &journal(5, records, 0), |_| snapshot, 1, false))
}

/// The log as (base, its round) and the rounds of its entries.
fn shape(restored: &Restored) -> (u64, u64, Vec<u64>) {
    let log = &restored.log;
    let rounds = log.slice(log.first(), log.last(), usize::MAX).iter().map(|entry| entry.ballot.round).collect();
    assert!(!restored.unprovable);
    (log.base().0, log.tail().ballot.round.min(log.ballot_at(log.base()).unwrap().round), rounds)
}

/// A snapshot was installed below entries that were accepted already, and then the journal was discarded up to these: the
/// entry whose ballot the record names is not there any more.
#[test]
fn what_stood_behind_an_installed_snapshot_stays() {
    let restored = rebuilt(&[append(88, &[3, 3]), reset(88, 2, 90)], Some((88, 2)));
    assert_eq!(shape(&restored), (88, 2, vec![3, 3]));
    // The same where a later snapshot of its own has moved the log on.
    let restored = rebuilt(&[append(90, &[3]), reset(88, 2, 91)], Some((90, 3)));
    assert_eq!(shape(&restored), (90, 3, vec![3]));
    // Where it was in the way of what was decided, it went.
    let restored = rebuilt(&[append(88, &[3, 3]), reset(88, 4, 88), append(88, &[5])], Some((88, 4)));
    assert_eq!(shape(&restored), (88, 4, vec![5]));
    let restored = rebuilt(&[append(80, &[1]), reset(88, 4, 88)], Some((88, 4)));
    assert_eq!(shape(&restored), (88, 4, vec![]));
}

#[test]
fn the_bases_ballot_is_known_wherever_the_snapshot_stands() {
    assert_eq!(shape(&rebuilt(&[append(88, &[3, 3])], Some((88, 2)))), (88, 2, vec![3, 3]));
    // Ahead of the base that the journal was discarded up to.
    assert_eq!(shape(&rebuilt(&[append(88, &[3, 3, 4])], Some((89, 3)))), (89, 3, vec![3, 4]));
    assert_eq!(shape(&rebuilt(&[append(88, &[3])], Some((95, 7)))), (95, 7, vec![]));
    // Nothing was discarded: what lies below the snapshot may be wanted by others.
    assert_eq!(shape(&rebuilt(&[append(0, &[3, 3, 4])], Some((2, 3)))), (0, 0, vec![3, 3, 4]));
}

/// Old records of a log that was cut far back are kept longer than needed: what they say is over.
#[test]
fn a_log_that_was_cut_back_begins_where_it_was_cut() {
    let records = [append(25, &[3, 3]), append(1, &[]), append(1, &[4, 4, 5])];
    assert_eq!(shape(&rebuilt(&records, Some((2, 4)))), (2, 4, vec![4, 5]));
    assert_eq!(shape(&rebuilt(&records, Some((1, 1)))), (1, 1, vec![4, 4, 5]));
}

/// A snapshot from a peer was on disk, and the node died before its journal said so: entries that were never decided are in its way.
#[test]
fn entries_that_a_snapshot_proves_wrong_go() {
    assert_eq!(shape(&rebuilt(&[append(0, &[1, 1, 1])], Some((2, 4)))), (2, 4, vec![]));
}

/// What a reset kept and the disk has lost since was accepted: the replica cannot prove what it promised.
#[test]
fn what_a_reset_kept_and_is_lost_is_in_doubt() {
    let rebuild = |records: &[Record], hole: storage::Damage| {
        let recovered = storage::Recovered { damage: vec![hole], ..journal(5, records, 0) };
        one(rebuild(&[PARTITION], &recovered, |_| Some((Position(88), ballot(2))), 1, false))
    };
    let restored = rebuild(&[reset(88, 2, 90)], storage::Damage { after: 3, before: 5 });
    assert!(restored.unprovable);
    let restored = rebuild(&[append(88, &[3]), reset(88, 2, 90)], storage::Damage { after: 5, before: 6 });
    assert!(restored.unprovable);
    // It was discarded because a later snapshot covers it.
    assert_eq!(shape(&rebuilt(&[reset(88, 2, 90)], Some((90, 3)))), (90, 3, vec![]));
    assert_eq!(shape(&rebuilt(&[reset(88, 2, 90), append(90, &[4])], Some((90, 3)))), (90, 3, vec![4]));
    // Lost below the snapshot, and nothing kept: nothing is in doubt.
    let restored = rebuild(&[reset(88, 2, 88)], storage::Damage { after: 3, before: 5 });
    assert!(!restored.unprovable);
}

/// A state was installed, and the power went before the journal knew. What the journal has before it was never decided: it is said at the start,
/// or the loss of the state as well would make it so.
#[test]
fn what_a_state_takes_the_place_of_is_to_be_said() {
    let says = |records: &[Record], snapshot: Option<(u64, u64)>| {
        let snapshot = snapshot.map(|(position, round)| (Position(position), ballot(round)));
        let mut all = rebuild(&[PARTITION], &journal(5, records, 0), |_| snapshot, 1, false).unwrap();
        all.remove(&PARTITION).unwrap().leaves_entries
    };
    assert!(says(&[append(0, &[1])], Some((2, 3))), "it lies beyond");
    assert!(says(&[append(0, &[1, 1, 1])], Some((2, 3))), "another entry stands there");
    assert!(!says(&[append(0, &[1, 3, 3])], Some((2, 3))) && !says(&[append(0, &[1])], None));
    assert!(!says(&[append(0, &[1]), reset(2, 3, 2)], Some((2, 3))), "it knows");
    assert!(!says(&[append(2, &[])], Some((2, 3))) && !says(&[], Some((2, 3))), "there is nothing before it");
    let lost = rebuilt(&[append(0, &[1]), reset(2, 3, 2)], None);
    assert!(lost.unprovable && lost.log.last() == Position(0), "nothing of it is taken for decided");
}

#[test]
fn a_payload_of_a_later_version_ends_the_start() {
    let mut found = journal(1, &[append(0, &[1])], 0);
    found.payloads.push((2, Bytes::from_static(&[99, 1, 2])));
    found.next_number = 3;
    let rebuilt = rebuild(&[PARTITION], &found, |_| None, 1, false);
    assert_eq!(rebuilt.err().as_deref(), Some("journal payload 2 is not of this format"));
}

/// A replaced entry stays replaced, as long as the log holds it; and the payload that says so stays as long.
#[test]
fn a_replaced_entry_is_found_again() {
    let replace = |position| Record::Replace { position: Position(position), payload: Bytes::from_static(b"void") };
    let payloads = |restored: &Restored| {
        let log = &restored.log;
        log.slice(log.first(), log.last(), usize::MAX).into_iter().map(|entry| entry.payload).collect::<Vec<_>>()
    };
    let records = [append(0, &[1, 1, 2]), replace(2), append(3, &[2])];
    let restored = rebuilt(&records, None);
    assert_eq!(shape(&restored), (0, 0, vec![1, 1, 2, 2]));
    assert_eq!(payloads(&restored), ["x", "void", "x", "x"]);
    // A snapshot may cover it: the entry stays as it is as long as the log holds it.
    assert_eq!(payloads(&rebuilt(&records, Some((2, 1)))), ["x", "void", "x", "x"]);
    // What was before it was discarded.
    assert_eq!(payloads(&rebuilt(&[append(2, &[2]), replace(2), replace(9)], Some((2, 1)))), ["x"]);
    let mut rebuilt = rebuild(&[PARTITION], &journal(5, &records, 0), |_| None, 1, false).unwrap();
    let places = &mut rebuilt.get_mut(&PARTITION).unwrap().places;
    assert_eq!([0, 2, 3, 4].map(|base| places.needed_from(Position(base))), [Some(5), Some(5), Some(7), None]);
}
