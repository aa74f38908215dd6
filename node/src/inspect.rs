//! Looking at what a stopped node's folder holds: for `dictum check`. Nothing here changes anything.
//!
//! The journal is replayed, and states are restored, by the code of a start; only the list of what is in a journal is made here.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use base::checksum::xxh3;
use base::ordered::Space;
use base::versions::NEWEST;
use base::{Ballot, PartitionId, Position};
use data::{EntryContext, Tally, Tree};
use paxos::{Entry, Log, Members};
use wire::{Malformed, Reader};

use crate::below::{self, Below};
use crate::council::{self, Buckets, COUNCIL};
use crate::door::Recovered;
use crate::entry::{Header, Kind};
use crate::image::Restorer;
use crate::journal;
use crate::peer::{decode_entries, decode_members};
use crate::words::Terms;

/// What a journal says of one partition, put behind the state that is there.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogSummary {
    /// No ballot below this is obeyed.
    pub promised: Ballot,
    /// Known to be decided.
    pub decided: Position,
    /// How many voters the group has; 0 if it was not founded when this was written.
    pub voters: usize,
    /// The replica had lost memory and had not recovered yet.
    pub recovering: bool,
    /// The log begins behind this position: the state has it, or should have.
    pub base: Position,
    /// The last entry.
    pub last: Position,
    /// Decided entries that are lost and will be asked of the other nodes: from, until.
    pub hole: Option<(Position, Position)>,
    /// The journal cannot prove that it holds everything that was promised: the replica does not vote before it has recovered.
    pub unprovable: bool,
    /// Entries of the log by kind.
    pub entries: BTreeMap<&'static str, u64>,
    /// Positions of entries that are no entry of ours. (The first few.)
    pub malformed: Vec<Position>,
}

/// What a state holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StateSummary {
    /// The last entry that it contains.
    pub position: Position,
    /// The ballot of that.
    pub ballot: Ballot,
    /// Keys, and how many of them have a deadline.
    pub keys: u64,
    /// Those that have a deadline.
    pub with_deadline: u64,
    /// Changes that led there.
    pub revision: u64,
    /// The spaces that it is in.
    pub spaces: Vec<Space>,
}

/// Most malformed entries that are listed.
const MALFORMED_LISTED_MAX: usize = 5;
/// How often progress is told, in records.
const PROGRESS_RECORDS: u64 = 4096;

/// The partitions that a journal speaks of.
///
/// # Errors
/// A payload is not of this format; the text says which.
pub fn partitions_of_journal(recovered: &storage::Recovered) -> Result<BTreeSet<PartitionId>, String> {
    let mut partitions = BTreeSet::new();
    for (number, payload) in &recovered.payloads {
        let found = partitions_of_payload(payload, &mut partitions);
        found.map_err(|_| format!("journal payload {number} is not of this format"))?;
    }
    Ok(partitions)
}

/// The records of one payload, as `journal.rs` writes them: a test below holds the two together.
fn partitions_of_payload(payload: &bytes::Bytes, partitions: &mut BTreeSet<PartitionId>) -> Result<(), Malformed> {
    let mut r = Reader::new(payload);
    while !r.rest().is_empty() {
        match r.u8()? {
            // Append.
            1 => {
                partitions.insert(r.partition()?);
                r.position()?;
                decode_entries(&mut r)?;
            }
            // Reset.
            2 => {
                partitions.insert(r.partition()?);
                r.position()?;
                r.ballot()?;
                r.position()?;
            }
            // State; after a loss with one position more, of a member with more.
            kind @ (3 | 5 | 6) => {
                partitions.insert(r.partition()?);
                r.ballot()?;
                r.position()?;
                r.u64()?;
                for _ in 0..r.count(8)? {
                    r.u64()?;
                }
                r.bool()?;
                if kind == 5 {
                    r.position()?;
                }
                if kind == 6 {
                    r.option(Reader::position)?;
                    r.bool()?;
                    if r.bool()? {
                        decode_members(&mut r)?;
                        decode_members(&mut r)?;
                    }
                }
            }
            // Start.
            4 => {}
            // Replace.
            7 => {
                partitions.insert(r.partition()?);
                r.position()?;
                r.bytes()?;
            }
            _ => return Err(Malformed),
        }
    }
    Ok(())
}

/// What a journal says of a partition whose state is at `state`, as the next start will see it.
///
/// # Errors
/// A payload is not of this format; the text says which.
pub fn log(
    partition: PartitionId,
    recovered: &storage::Recovered,
    state: Option<(Position, Ballot)>,
) -> Result<LogSummary, String> {
    let mut rebuilt = journal::rebuild(&[partition], recovered, |id| state.filter(|_| id == partition), 1, false)?;
    let restored = rebuilt.remove(&partition).unwrap_or_default().restored;
    let hard = restored.state.unwrap_or_default();
    let mut summary = LogSummary {
        promised: hard.promised,
        decided: hard.decided,
        voters: hard.incarnations.len(),
        recovering: hard.recovering,
        base: restored.log.base(),
        last: restored.log.last(),
        hole: restored.log.hole(),
        unprovable: restored.unprovable,
        ..LogSummary::default()
    };
    let mut at = restored.log.base();
    while at < restored.log.last() {
        at = at.next();
        // In a hole there is none.
        let Some(entry) = restored.log.get(at) else { continue };
        let kind = match kind_of(&entry.payload) {
            Some(kind) => kind,
            None => {
                if summary.malformed.len() < MALFORMED_LISTED_MAX {
                    summary.malformed.push(at);
                }
                "malformed"
            }
        };
        *summary.entries.entry(kind).or_default() += 1;
    }
    Ok(summary)
}

/// The checksum of an entry and of the ballot that it stands under.
pub(crate) fn digest_of(entry: &Entry) -> u64 {
    let mut bytes = entry.payload.to_vec();
    bytes.extend_from_slice(&entry.ballot.round.to_le_bytes());
    bytes.extend_from_slice(&entry.ballot.node.0.to_le_bytes());
    xxh3(&bytes)
}

/// What the disk has of a log behind the state that is there: position and checksum of each entry, as
/// [`Node::decided_entry_digest`](crate::Node::decided_entry_digest) says it.
pub type Digests = Vec<(Position, u64)>;

/// The log of each partition, decided or not, as the next start will see it: for checkers.
///
/// # Errors
/// What the disk holds is not of this version; the text says what.
pub fn logs(mut recovered: Recovered) -> Result<BTreeMap<PartitionId, Digests>, String> {
    let states = crate::node::states(&mut recovered)?.states;
    let expected: Vec<PartitionId> = states.keys().copied().collect();
    let place = |id: PartitionId| states.get(&id).map(|state| (state.position, state.ballot));
    let rebuilt = journal::rebuild(&expected, &recovered.journal, place, recovered.incarnation, false)?;
    let digests = |log: &Log| {
        let mut digests = Digests::new();
        let mut at = log.base();
        while at < log.last() {
            at = at.next();
            digests.extend(log.get(at).map(|entry| (at, digest_of(entry))));
        }
        digests
    };
    Ok(rebuilt.into_iter().map(|(id, rebuilt)| (id, digests(&rebuilt.restored.log))).collect())
}

/// The partitions that the journal speaks of and whose buckets were dropped, as the council in the store and the orders behind that
/// say: what the journal still has of these concerns nobody. That the last order was decided is often not in the journal; but it is cut
/// in the middle of a partition only where that was so.
///
/// # Errors
/// The store cannot be read, or a payload of the journal is not of this format; the text says which.
pub fn dropped_partitions(below: &Below, recovered: &storage::Recovered) -> Result<BTreeSet<PartitionId>, String> {
    let state = below::recover(below)?.states.remove(&COUNCIL);
    let place = state.as_ref().map(|state| (state.position, state.ballot));
    let mut tree = state.map(|state| state.tree).unwrap_or_default();
    let mut rebuilt = journal::rebuild(&[COUNCIL], recovered, |id| place.filter(|_| id == COUNCIL), 1, false)?;
    let restored = rebuilt.remove(&COUNCIL).unwrap_or_default().restored;
    let mut at = restored.log.base();
    while at < restored.log.last() {
        at = at.next();
        // Behind a hole nothing is certain, and one that is no order changes nothing.
        let Some(entry) = restored.log.get(at) else { break };
        let Ok((header, body)) = Header::decode(&entry.payload, NEWEST) else { continue };
        if header.kind != Kind::Council {
            continue;
        }
        if let Ok((_, order)) = Terms::split(header.kind, body) {
            let context = EntryContext { time: header.time, seed: header.seed, ..EntryContext::default() };
            // The next start finds out about a malformed one.
            let _ = council::apply(&mut tree, &context, at, order);
        }
    }
    let buckets = Buckets::read(&tree).map_err(|_| "the council's list of buckets is not one of this version")?;
    let mut partitions = partitions_of_journal(recovered)?;
    partitions.retain(|id| *id != COUNCIL && buckets.has_dropped(id.bucket));
    Ok(partitions)
}

/// What kind of entry a payload is, for people; none if it is no entry.
pub(crate) fn kind_of(payload: &[u8]) -> Option<&'static str> {
    if payload.is_empty() {
        return Some("leadership");
    }
    if Members::is_in(payload) {
        return Some("change of voters");
    }
    Some(match Header::decode(payload, NEWEST).ok()?.0.kind {
        Kind::Command => "command",
        Kind::Transaction => "transaction",
        Kind::Once => "once",
        Kind::Expire => "expiry",
        Kind::Council => "order to the council",
        Kind::Evict => "eviction",
        Kind::Compare => "comparison",
        Kind::Record => "recording",
        Kind::Time => "time",
        Kind::Void => "stepped over",
    })
}

/// What a snapshot holds whose blocks the restorer was given.
///
/// # Errors
/// Blocks are missing or contradict each other; the text says what is wrong.
pub fn snapshot(restorer: Restorer) -> Result<StateSummary, String> {
    let state = restorer.finish()?;
    Ok(StateSummary {
        position: state.position,
        ballot: state.ballot,
        keys: state.tree.len(),
        with_deadline: state.tree.volatile_len(),
        revision: state.tree.revision().0,
        spaces: Vec::new(),
    })
}

/// The partitions whose heads are in a store's space 0; those of buckets that the council there knows to be dropped are left out, as at a start,
/// which removes what is left of them.
///
/// # Errors
/// The store cannot be read, or there is something else in that space.
pub fn partitions_of_store(below: &Below) -> Result<Vec<PartitionId>, String> {
    let mut partitions = Vec::new();
    for pair in below.read.range(below::OWN, Bound::Unbounded) {
        let (key, _) = pair.map_err(|error| error.text)?;
        let partition = key.strip_prefix(b"state").and_then(|rest| {
            let (bucket, index) = rest.split_first_chunk::<4>()?;
            let bucket = base::BucketId(u32::from_be_bytes(*bucket));
            Some(PartitionId { bucket, index: u16::from_be_bytes(index.try_into().ok()?) })
        });
        match partition {
            Some(partition) => partitions.push(partition),
            None => return Err(format!("space 0 has a key that is no head: {:?}", String::from_utf8_lossy(&key))),
        }
    }
    // One that cannot be read is told of by whoever looks at it.
    let council = below::recover_one(below, COUNCIL).ok().filter(|_| partitions.contains(&COUNCIL));
    if let Some(buckets) = council.and_then(|council| Buckets::read(&council.tree).ok()) {
        partitions.retain(|partition| *partition == COUNCIL || !buckets.has_dropped(partition.bucket));
    }
    Ok(partitions)
}

/// Reads all of a partition's state in a store: every record is decoded, and counts, deadlines and totals are compared with what the
/// head says of them. `progress` is told of every so many records.
///
/// # Errors
/// The store cannot be read, or what it holds is malformed or contradicts itself; the text says what is wrong.
pub fn state_in_store(
    below: &Below,
    partition: PartitionId,
    progress: &mut dyn FnMut(u64),
) -> Result<StateSummary, String> {
    let state = below::recover_one(below, partition)?;
    let tree = &state.tree;
    // What records and index say of deadlines must be the same set: sums of hashes do not care for the order.
    let (mut keys, mut bytes, mut with_deadline, mut said) = (0, 0, 0, 0_u64);
    let mut newest = 0;
    let mut tally = Tally::default();
    for (key, record) in tree.records(Bound::Unbounded) {
        keys += 1;
        bytes += record.bytes(&key.key);
        newest = newest.max(record.revision.0);
        tally.say(&record.value);
        if let Some(deadline) = record.deadline() {
            with_deadline += 1;
            let due = [&deadline.0.to_be_bytes()[..], &key.order.to_be_bytes(), &key.key].concat();
            said = said.wrapping_add(xxh3(&due));
        }
        if keys % PROGRESS_RECORDS == 0 {
            progress(PROGRESS_RECORDS);
        }
    }
    if let Some(error) = tree.trouble() {
        return Err(error.text.clone());
    }
    let wrong = |what: &str, found: u64, head: u64| Err(format!("{what}: {found} were found, the head says {head}"));
    if keys != tree.len() {
        return wrong("records", keys, tree.len());
    }
    if bytes != tree.bytes() {
        return wrong("bytes of records", bytes, tree.bytes());
    }
    if with_deadline != tree.volatile_len() {
        return wrong("records with a deadline", with_deadline, tree.volatile_len());
    }
    if newest > tree.revision().0 {
        return Err("a record is newer than the state".to_owned());
    }
    let checked = tree.check_elements(tally, progress);
    if let Some(error) = tree.trouble() {
        return Err(error.text.clone());
    }
    checked.map_err(|malformed| malformed.0.to_owned())?;
    let (count, indexed) = deadlines_in_store(below, tree)?;
    if count != with_deadline {
        return wrong("deadlines in the index", count, with_deadline);
    }
    if indexed != said {
        return Err("the index of deadlines is not that of the records".to_owned());
    }
    Ok(StateSummary {
        position: state.position,
        ballot: state.ballot,
        keys,
        with_deadline,
        revision: tree.revision().0,
        spaces: tree.spaces(),
    })
}

/// How many deadlines the index has, and the sum of their hashes.
fn deadlines_in_store(below: &Below, tree: &Tree) -> Result<(u64, u64), String> {
    let (mut count, mut sum) = (0, 0_u64);
    // Records, deadlines, outcomes, elements.
    let Some(space) = tree.spaces().get(1).copied() else { return Ok((0, 0)) };
    for pair in Arc::clone(&below.read).range(space, Bound::Unbounded) {
        let (due, _) = pair.map_err(|error| error.text)?;
        count += 1;
        sum = sum.wrapping_add(xxh3(&due));
    }
    Ok((count, sum))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{self, Origin};
    use crate::journal::Batch;
    use base::{BucketId, NodeId, WallTime};
    use bytes::Bytes;
    use paxos::{Entry, HardState, Membership, Record};

    fn partition(index: u16) -> PartitionId {
        PartitionId { bucket: BucketId(3), index }
    }

    fn recovered(payloads: Vec<Bytes>) -> storage::Recovered {
        storage::Recovered {
            next_number: payloads.len() as u64 + 1,
            payloads: (1..).zip(payloads).collect(),
            damage: Vec::new(),
            tail: storage::Tail::Clean,
            floor: 1,
            fresh: false,
        }
    }

    fn entry_of(kind: Kind) -> Bytes {
        let header =
            Header { version: base::versions::OLDEST, kind, time: WallTime(5), seed: 6, origin: Origin::default() };
        entry::encode(&header, b"body")
    }

    /// Every kind of record that a node writes is read here as the journal's own reading of it does.
    #[test]
    fn all_that_a_node_writes_is_understood() {
        let ballot = Ballot { round: 2, node: NodeId(1) };
        let payloads =
            [Bytes::new(), entry_of(Kind::Command), entry_of(Kind::Once), entry_of(Kind::Expire), Bytes::from("?")];
        let entries = payloads.map(|payload| Entry { ballot, payload }).to_vec();
        let state = HardState {
            promised: ballot,
            decided: Position(4),
            incarnation: 9,
            incarnations: vec![9, 8, 7],
            recovering: false,
            forgotten_until: None,
            joins: false,
            membership: None,
        };
        let mut batch = Batch::default();
        batch.start();
        batch.record(partition(1), &Record::Append { previous: Position(0), entries });
        batch.state(partition(1), &state);
        let first = batch.take();
        batch.record(partition(2), &Record::Reset { position: Position(7), ballot, last: Position(7) });
        batch.record(partition(2), &Record::State);
        batch.record(partition(1), &Record::Replace { position: Position(2), payload: entry_of(Kind::Void) });
        batch.state(partition(2), &HardState { forgotten_until: Some(Position(3)), ..state.clone() });
        let membership = Membership::of(Members::founders(&[NodeId(0), NodeId(2)]));
        batch.state(partition(2), &HardState { membership: Some(std::sync::Arc::new(membership)), ..state.clone() });
        batch.state(partition(2), &HardState { joins: true, ..state });
        let recovered = recovered(vec![first, batch.take()]);
        assert_eq!(partitions_of_journal(&recovered), Ok(BTreeSet::from([partition(1), partition(2)])));

        let summary = log(partition(1), &recovered, None).unwrap();
        let kinds = [("expiry", 1), ("leadership", 1), ("malformed", 1), ("once", 1), ("stepped over", 1)];
        let expected = LogSummary {
            promised: ballot,
            decided: Position(4),
            voters: 3,
            last: Position(5),
            entries: BTreeMap::from(kinds),
            malformed: vec![Position(5)],
            ..LogSummary::default()
        };
        assert_eq!(summary, expected);
        let second = log(partition(2), &recovered, Some((Position(7), ballot))).unwrap();
        assert_eq!((second.base, second.last, second.hole), (Position(7), Position(7), None));
    }

    #[test]
    fn what_a_node_does_not_write_is_told() {
        let recovered = recovered(vec![Bytes::from_static(&[4]), Bytes::from_static(&[9])]);
        assert_eq!(partitions_of_journal(&recovered), Err("journal payload 2 is not of this format".to_owned()));
    }
}
