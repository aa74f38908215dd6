//! What a node writes to its journal, and how a partition's replica is rebuilt from it.
//!
//! One payload holds all records of one turn, or several do where these are large. For each partition it ends with the hard state as it is after them,
//! so that the last payload that can be read tells what was promised.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use base::{Ballot, PartitionId, Position};
use bytes::Bytes;
use paxos::{HardState, Log, Membership, Record, Restored};
use wire::{Malformed, Reader, Writer};

use crate::council::COUNCIL;
use crate::peer::{decode_entries, decode_members, encode_entries, encode_members};

const APPEND: u8 = 1;
const RESET: u8 = 2;
const STATE: u8 = 3;
/// The node started here: without content, it gives the start a number of its own.
const START: u8 = 4;
/// As [`STATE`], of a replica that has recovered a loss.
const STATE_AFTER_LOSS: u8 = 5;
/// As [`STATE`], of a replica that has never voted, or in a group whose voters have changed.
const STATE_OF_MEMBER: u8 = 6;
/// Another payload for an entry that stands in the log: see [`crate::step_over`].
const REPLACE: u8 = 7;

/// Payloads whose memory may be filled again once the journal has let go of them.
const LENT_MAX: usize = 4;
/// A payload with more memory than this is not kept for reuse, in bytes.
const KEPT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The records of one turn, being gathered.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// Earlier payloads, the oldest first.
    lent: VecDeque<Bytes>,
}

impl Batch {
    pub(crate) fn start(&mut self) {
        self.bytes.push(START);
    }

    pub(crate) fn record(&mut self, partition: PartitionId, record: &Record) {
        let mut w = Writer::new(&mut self.bytes);
        match record {
            Record::State => {}
            Record::Append { previous, entries } => {
                w.u8(APPEND);
                w.partition(partition);
                w.position(*previous);
                encode_entries(&mut w, entries);
            }
            Record::Reset { position, ballot, last } => {
                w.u8(RESET);
                w.partition(partition);
                w.position(*position);
                w.ballot(*ballot);
                w.position(*last);
            }
            Record::Replace { position, payload } => {
                w.u8(REPLACE);
                w.partition(partition);
                w.position(*position);
                w.bytes(payload);
            }
        }
    }

    pub(crate) fn state(&mut self, partition: PartitionId, state: &HardState) {
        let mut w = Writer::new(&mut self.bytes);
        let kind = match state {
            HardState { membership: Some(_), .. } | HardState { joins: true, .. } => STATE_OF_MEMBER,
            HardState { forgotten_until: Some(_), .. } => STATE_AFTER_LOSS,
            _ => STATE,
        };
        w.u8(kind);
        w.partition(partition);
        w.ballot(state.promised);
        w.position(state.decided);
        w.u64(state.incarnation);
        w.count(state.incarnations.len());
        for incarnation in &state.incarnations {
            w.u64(*incarnation);
        }
        w.bool(state.recovering);
        if kind == STATE_OF_MEMBER {
            w.option(state.forgotten_until, |w, position| w.position(position));
            w.bool(state.joins);
            w.bool(state.membership.is_some());
            if let Some(membership) = &state.membership {
                encode_members(&mut w, &membership.now);
                encode_members(&mut w, &membership.before);
            }
        } else if let Some(position) = state.forgotten_until {
            w.position(position);
        }
    }

    /// Bytes of records that were gathered.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The payload of this turn. Its memory comes back when nobody holds it any more: fresh memory of that size
    /// costs more than what is written into it.
    pub(crate) fn take(&mut self) -> Bytes {
        let free = self.lent.pop_front().map(Bytes::try_into_mut);
        let next = match free {
            Some(Ok(mut memory)) => {
                memory.clear();
                Vec::from(memory)
            }
            Some(Err(held)) => {
                self.lent.push_front(held);
                Vec::new()
            }
            None => Vec::new(),
        };
        let payload = Bytes::from(std::mem::replace(&mut self.bytes, next));
        if self.lent.len() < LENT_MAX && payload.len() <= KEPT_BYTES_MAX {
            self.lent.push_back(payload.clone());
        }
        payload
    }
}

/// One record, read back.
enum Item {
    Record(PartitionId, Record),
    State(PartitionId, HardState),
    Start,
}

fn decode(payload: &Bytes) -> Result<Vec<Item>, Malformed> {
    let mut r = Reader::new(payload);
    let mut items = Vec::new();
    while !r.rest().is_empty() {
        items.push(match r.u8()? {
            APPEND => Item::Record(
                r.partition()?,
                Record::Append { previous: r.position()?, entries: decode_entries(&mut r)? },
            ),
            RESET => {
                let (partition, position, ballot, last) = (r.partition()?, r.position()?, r.ballot()?, r.position()?);
                Item::Record(partition, Record::Reset { position, ballot, last })
            }
            kind @ (STATE | STATE_AFTER_LOSS | STATE_OF_MEMBER) => {
                let partition = r.partition()?;
                let mut state = HardState {
                    promised: r.ballot()?,
                    decided: r.position()?,
                    incarnation: r.u64()?,
                    ..HardState::default()
                };
                for _ in 0..r.count(8)? {
                    state.incarnations.push(r.u64()?);
                }
                state.recovering = r.bool()?;
                if kind == STATE_AFTER_LOSS {
                    state.forgotten_until = Some(r.position()?);
                }
                if kind == STATE_OF_MEMBER {
                    state.forgotten_until = r.option(Reader::position)?;
                    state.joins = r.bool()?;
                    if r.bool()? {
                        let (now, before) = (decode_members(&mut r)?, decode_members(&mut r)?);
                        state.membership = Some(Arc::new(Membership { now, before }));
                    }
                }
                Item::State(partition, state)
            }
            REPLACE => Item::Record(r.partition()?, Record::Replace { position: r.position()?, payload: r.bytes()? }),
            START => Item::Start,
            _ => return Err(Malformed),
        });
    }
    Ok(items)
}

/// Which journal payloads hold the entries of a log: for knowing what may be discarded.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// (payload number, last position of the log after it). Numbers ascend; a cut log's positions may step back, and
    /// then an old payload is kept a little longer than needed.
    places: VecDeque<(u64, Position)>,
}

impl Places {
    pub(crate) fn note(&mut self, number: u64, last: Position) {
        self.places.push_back((number, last));
    }

    /// The lowest payload number that holds an entry after `base`; none if no payload does.
    pub(crate) fn needed_from(&mut self, base: Position) -> Option<u64> {
        while self.places.front().is_some_and(|(_, last)| *last <= base) {
            self.places.pop_front();
        }
        self.places.front().map(|(number, _)| *number)
    }
}

/// What the journal says of one partition.
#[derive(Debug, Default)]
pub(crate) struct Rebuilt {
    pub restored: Restored,
    pub places: Places,
    /// The newest payload with the hard state.
    pub state_in: Option<u64>,
    /// It holds entries that the state has taken the place of, and does not say so: should the state be lost, they would be taken for what was
    /// decided. It has to be said anew.
    pub leaves_entries: bool,
    /// The first payload with the present incarnation, if that was taken because the memory before it was lost.
    pub forgot_in: Option<u64>,
}

/// One partition while the journal is replayed.
///
/// A hole in the journal is a hole in this node's knowledge. What was decided before it is certain, and what is written behind
/// it is certain; entries between are lost, and may even have been replaced by others before they were lost. If all of them
/// are known to be decided, peers can give them back; otherwise the replica cannot prove what it accepted.
#[derive(Debug, Default)]
struct Replay {
    log: Log,
    places: Places,
    state: Option<HardState>,
    state_in: Option<u64>,
    forgot_in: Option<u64>,
    /// Set behind a hole until the next records of this partition: nothing after this position is certain.
    doubt: Option<Position>,
    /// What the snapshot covers, if there is one.
    snapshot: Option<(Position, Ballot)>,
}

/// What the journal says of all partitions; of those in `expected` something, even if it holds nothing of them. `snapshot` says what
/// a partition's snapshot covers.
pub(crate) fn rebuild(
    expected: &[PartitionId],
    recovered: &storage::Recovered,
    snapshot: impl Fn(PartitionId) -> Option<(Position, Ballot)>,
    incarnation: u64,
    damage_is_the_end: bool,
) -> Result<BTreeMap<PartitionId, Rebuilt>, String> {
    let begin = |id: PartitionId| Replay { snapshot: snapshot(id), ..Replay::default() };
    let mut replays: BTreeMap<PartitionId, Replay> = expected.iter().map(|id| (*id, begin(*id))).collect();
    let mut damage = recovered.damage.iter().peekable();
    let mut any_hole = false;
    let mut ended = false;
    for (number, payload) in &recovered.payloads {
        while damage.next_if(|hole| hole.before <= *number).is_some() {
            any_hole = true;
            replays.values_mut().for_each(Replay::meet_hole);
        }
        if any_hole && damage_is_the_end {
            // Planted bug: the journal is taken to end here.
            ended = true;
            break;
        }
        for item in decode(payload).map_err(|_| format!("journal payload {number} is not of this format"))? {
            let (Item::Record(id, _) | Item::State(id, _)) = &item else { continue };
            let replay = replays.entry(*id).or_insert_with(|| {
                let doubt = any_hole.then_some(Position(0));
                Replay { doubt, ..begin(*id) }
            });
            replay.take(*number, item);
        }
    }
    let ends_in_doubt = recovered.tail == storage::Tail::Unprovable || damage.peek().is_some();
    // A folder that was used and has nothing to show for it.
    let used = !(recovered.fresh || recovered.damage.is_empty() && recovered.next_number == 1);
    let finish = |(id, replay): (PartitionId, Replay)| {
        // A journal without a hole has the newest state of every partition that ever had one. Only that of the council is younger than
        // the first folders: they have none, and it is founded when they start.
        let never_was = id == COUNCIL && !any_hole;
        let unprovable = ends_in_doubt || used && replay.state.is_none() && !never_was;
        let mut rebuilt = if ended { replay.finish_early() } else { replay.finish(unprovable) };
        rebuilt.restored.unprovable &= !damage_is_the_end;
        rebuilt.restored.incarnation = incarnation;
        (id, rebuilt)
    };
    Ok(replays.into_iter().map(finish).collect())
}

impl Replay {
    /// Payloads are missing here.
    fn meet_hole(&mut self) {
        let log = &self.log;
        let certain = self.state.as_ref().map_or(Position(0), |state| state.decided).min(log.last()).max(log.base());
        self.doubt = Some(self.doubt.map_or(certain, |earlier| earlier.min(certain)));
    }

    /// The next record of this partition, out of payload `number`.
    fn take(&mut self, number: u64, item: Item) {
        let log = &mut self.log;
        match item {
            Item::Record(_, Record::Append { previous, entries }) => {
                if log.last() == Position(0) || previous < log.base() {
                    // What was before is discarded, and a snapshot covers it; or lost, which `join` finds out. (Or the log
                    // was cut further back than what is left of it began.)
                    *log = Log::new(previous, Ballot::default());
                    self.doubt = None;
                }
                let certain = self.doubt.take().unwrap_or(log.last());
                if certain < previous {
                    log.truncate_after(previous);
                    log.lose(certain.next(), previous);
                }
                log.truncate_after(previous);
                for entry in entries {
                    log.append(entry);
                }
                self.places.note(number, log.last());
            }
            Item::Record(_, Record::Reset { position, ballot, last }) => {
                let covered = self.snapshot.map_or(Position(0), |(position, _)| position);
                self.doubt = replay_reset(log, self.doubt, (position, ballot), last, covered);
                self.places.note(number, log.last());
            }
            Item::Record(_, Record::Replace { position, payload }) => {
                // Where the log does not hold it, a snapshot covers it, or peers give back what they have there.
                if log.replace(position, payload) {
                    self.places.note(number, log.last());
                }
            }
            Item::State(_, new) => {
                if self.state.as_ref().is_none_or(|old| old.incarnation != new.incarnation) {
                    self.forgot_in = new.recovering.then_some(number);
                }
                self.state = Some(new);
                self.state_in = Some(number);
            }
            Item::Record(_, Record::State) | Item::Start => {}
        }
    }

    /// The journal ends here. `unprovable`: it may have gone on.
    fn finish(mut self, mut unprovable: bool) -> Rebuilt {
        let decided = self.state.as_ref().map_or(Position(0), |state| state.decided);
        let log = &mut self.log;
        if let Some(certain) = self.doubt {
            // Nothing behind the hole tells where the log ended: what was lost last is not known.
            unprovable = true;
            log.truncate_after(certain);
            if certain < decided {
                log.lose(certain.next(), decided);
            }
        }
        let leaves = join(log, self.snapshot);
        if log.hole().is_some_and(|(_, until)| until > decided) {
            // An undecided entry is lost: it may have been counted.
            unprovable = true;
            log.truncate_after(decided.max(log.base()));
        }
        Rebuilt { leaves_entries: leaves, ..self.pack(unprovable) }
    }

    /// As it stands, put behind its snapshot.
    fn finish_early(mut self) -> Rebuilt {
        join(&mut self.log, self.snapshot);
        self.pack(false)
    }

    fn pack(self, unprovable: bool) -> Rebuilt {
        let applied = self.snapshot.map_or(Position(0), |(position, _)| position);
        let restored = Restored { state: self.state, log: self.log, unprovable, applied, ..Restored::default() };
        let Replay { places, state_in, forgot_in, .. } = self;
        Rebuilt { restored, places, state_in, forgot_in, leaves_entries: false }
    }
}

/// The log after a `Reset`, and what is in doubt then. The record says what the log kept: it cannot be found out from what is left of
/// the journal, because the entry at the new base may have been discarded, and its ballot with it.
fn replay_reset(
    log: &mut Log,
    doubt: Option<Position>,
    (position, ballot): (Position, Ballot),
    last: Position,
    covered: Position,
) -> Option<Position> {
    if last <= position {
        *log = Log::new(position, ballot);
        return None;
    }
    if position > log.last() {
        // What it kept is not here: lost, unless a later snapshot covers it, and it was discarded.
        *log = Log::new(position, ballot);
        return (last > covered).then_some(position);
    }
    log.truncate_after(last);
    match position.cmp(&log.base()) {
        Ordering::Greater => log.drop_until(position, ballot),
        Ordering::Equal => log.settle_base(ballot),
        // A later snapshot stands there, and everything before it was discarded since.
        Ordering::Less => {}
    }
    let missing = (log.last() < last && last > covered).then_some(log.last());
    let doubt = doubt.map(|certain| certain.max(log.base()));
    doubt.into_iter().chain(missing).min()
}

/// Puts the log behind the snapshot, whichever reaches further. Afterwards the base's ballot is known.
/// Whether entries of the log are none any more.
fn join(log: &mut Log, snapshot: Option<(Position, Ballot)>) -> bool {
    let (applied, ballot) = snapshot.unwrap_or_default();
    let covers_hole = log.hole().is_some_and(|(from, _)| from <= applied);
    // What the log holds there was never decided, if the snapshot has another entry; nor was anything behind it.
    let differs = applied > log.base() && log.ballot_at(applied) != Some(ballot);
    if applied > log.last() || covers_hole || differs {
        let had_any = log.last() > log.base();
        let _ = log.reset(applied, ballot);
        return had_any;
    }
    if applied < log.base() {
        // The snapshot that the log stands on cannot be read: what lies between is lost, and decided.
        *log = behind_hole(log, applied, ballot);
    } else if applied == log.base() {
        log.settle_base(ballot);
    } else if log.base() > Position(0) && log.ballot_at(log.base()) == Some(Ballot::default()) {
        // Its base is that of a snapshot before this one, of which only the position is left.
        log.drop_until(applied, ballot);
    }
    false
}

/// The same entries behind an older base, with everything between marked as lost. A log has one hole: if it has one
/// already, what lies before that counts as lost, too. What lies behind must stay, for it may have been counted.
fn behind_hole(log: &Log, base: Position, ballot: Ballot) -> Log {
    let until = log.hole().map_or(log.base(), |(_, until)| until);
    let mut wider = Log::new(base, ballot);
    wider.lose(base.next(), until);
    for entry in log.slice(until.next(), log.last(), usize::MAX) {
        wider.append(entry);
    }
    wider
}

#[cfg(test)]
mod tests;
