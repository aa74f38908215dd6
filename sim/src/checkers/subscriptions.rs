//! Subscriptions: what a subscriber is told is what has changed, in order, each change of his keys once, with nothing left out between where he began and where he is; a token
//! that was answered goes on from there on every node; and at the end those who are connected have been told everything.
//!
//! The truth is what the nodes record: each record is looked at on every node that has it, and has to be the same on all. A record that no node has was not to be told to anybody.

mod names;
mod told;
mod walks;

use std::collections::{BTreeMap, BTreeSet};

pub use names::Names;
pub use told::{Place, Stream, Told, Wanted};
use walks::Walks;
use wire::Value;

/// A change, as nodes have recorded it.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// Its key.
    pub key: Vec<u8>,
    /// It is a flush.
    pub is_of_all_keys: bool,
    /// The two arrays of its message.
    pub parts: Vec<Value>,
    /// When the first node had it.
    pub at: u64,
}

impl Change {
    /// The name of its kind.
    pub(super) fn kind(&self) -> &[u8] {
        let Some(Value::Array(parts)) = self.parts.get(1) else { return &[] };
        parts.first().and_then(Value::as_bytes).unwrap_or_default()
    }
}

/// The keys of a state: of each its last change's revision, and how it is told.
pub type Keys = BTreeMap<Vec<u8>, (u64, Vec<Value>)>;

/// By what a history and its partitions are told apart.
type Where = (String, usize);

/// The changes that nodes have recorded, and the messages that callers were told.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// By revision.
    pub truth: BTreeMap<Where, BTreeMap<u64, Change>>,
    /// States that nodes had, by their revisions.
    states: BTreeMap<Where, BTreeMap<u64, Keys>>,
    /// What changes have left under their keys, as it is told to those who begin with what is there.
    left: BTreeMap<(Where, u64), Vec<Value>>,
    /// Up to where the state of a partition is known, by a state that a node had and the changes behind it.
    known_until: BTreeMap<Where, u64>,
    /// What nodes kept: of each node and partition from behind which revision on, each time that this has risen, and when.
    pub floors: BTreeMap<(u16, usize), Vec<(u64, u64)>>,
    /// In the order of their answers.
    pub streams: Vec<Stream>,
    /// What was done under names.
    pub names: Names,
    /// Violations that show at once.
    pub violations: Vec<String>,
}

/// How many violations are told.
const TOLD_MAX: usize = 5;

impl Changes {
    /// A node has this change.
    pub fn note(&mut self, place: Where, revision: u64, change: Change) {
        let known = self.truth.entry(place).or_default().entry(revision).or_insert_with(|| change.clone());
        let is_same = (&known.key, &known.parts) == (&change.key, &change.parts);
        if !is_same && self.violations.len() < TOLD_MAX {
            let text =
                format!("two nodes have recorded revision {revision} as {:?} and {:?}", known.parts, change.parts);
            self.violations.push(text);
        }
    }

    /// A node had this under the key that was changed at this revision.
    pub fn note_key(&mut self, change: (Where, u64), parts: Vec<Value>) {
        let known = self.left.entry(change).or_insert_with(|| parts.clone());
        if *known != parts && self.violations.len() < TOLD_MAX {
            self.violations.push(format!("two nodes have {known:?} and {parts:?} at the same revision"));
        }
    }

    /// Whether the state of this revision is not known by what nodes had before.
    pub fn lacks_state(&mut self, place: &Where, revision: u64) -> bool {
        let Some(known) = self.known_until.get_mut(place) else { return true };
        let truth = self.truth.get(place);
        while truth.is_some_and(|truth| truth.contains_key(&(*known + 1))) {
            *known += 1;
        }
        *known < revision
    }

    /// A node has this state.
    pub fn note_state(&mut self, place: Where, revision: u64, keys: Keys) {
        self.known_until.insert(place.clone(), revision);
        self.states.entry(place).or_default().insert(revision, keys);
    }

    /// The state of a revision; none if it is not known.
    pub(super) fn state_at(&self, place: &Where, revision: u64) -> Option<Keys> {
        let (from, keys) = self.states.get(place)?.range(..=revision).next_back()?;
        let mut keys = keys.clone();
        for next in from + 1..=revision {
            let change = self.truth.get(place)?.get(&next)?;
            walks::apply(&mut keys, &change.parts, next);
            if let Some(left) = self.left.get(&(place.clone(), next))
                && let Some((_, parts)) = keys.get_mut(&change.key).filter(|(revision, _)| *revision == next)
            {
                parts.clone_from(left);
            }
        }
        Some(keys)
    }

    /// Whether all are live that have subscribed before that time.
    #[must_use]
    pub fn are_all_live(&self, settled: u64) -> bool {
        self.streams.iter().all(|stream| !stream.is_to_be_live(settled) || stream.is_live())
    }

    /// A node keeps what is behind this revision.
    pub fn note_floor(&mut self, place: (u16, usize), floor: u64, now: u64) {
        let floors = self.floors.entry(place).or_default();
        if floors.last().is_none_or(|(_, last)| *last != floor) {
            floors.push((now, floor));
        }
    }
}

/// The promises that hold in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Promised {
    /// At the end all that changed before this has been told.
    pub settled: u64,
    /// Nothing has happened that begins another history.
    pub is_one_history: bool,
    /// Each node is the one that it was at the beginning: what it keeps can be told by its number.
    pub nodes_stay: bool,
}

/// Judges what callers wrote down.
#[must_use]
pub fn check(changes: &Changes, promised: Promised) -> Vec<String> {
    let mut found = changes.violations.clone();
    for stream in &changes.streams {
        if let Err(text) = check_stream(changes, stream, promised) {
            found.push(format!("caller {} at n{} since {}: {text}", stream.caller, stream.node + 1, stream.asked));
        }
    }
    found.extend(names::check(changes, promised));
    found.truncate(TOLD_MAX);
    found
}

/// How many changes were told, for the report: a run in which that is none has shown little.
#[must_use]
pub fn told_count(changes: &Changes) -> usize {
    let is_change = |told: &&Told| matches!(told, Told::Change { .. });
    changes.streams.iter().map(|stream| stream.told.iter().filter(is_change).count()).sum()
}

fn check_stream(changes: &Changes, stream: &Stream, promised: Promised) -> Result<(), String> {
    let Promised { settled, is_one_history, .. } = promised;
    // The first place that is told is the first thing that is known of one that begins with what is there.
    let first = stream.told.iter().find_map(|told| if let Told::Live(place) = told { Some(place) } else { None });
    let Some(history) = stream.began.as_ref().or(first).map(|place| &place.history) else {
        return check_beginning(changes, stream, promised);
    };
    let nothing = BTreeMap::new();
    let truth = |partition: usize| changes.truth.get(&(history.clone(), partition)).unwrap_or(&nothing);
    let began = stream.began.as_ref().or(stream.from.as_ref());
    let mut at = began.map(|place| place.revisions.clone()).unwrap_or_default();
    let is_nowhere = stream.from.is_some() && stream.began.is_none();
    let is_other = is_nowhere || stream.from.as_ref().is_some_and(|from| from.history != *history);
    if is_other && is_one_history {
        return Err(format!("the history is {history}, and was another one"));
    }
    // Partitions of which nothing but a gap may follow.
    let mut foreign = BTreeSet::new();
    match (&stream.from, &stream.began) {
        (Some(_), _) if is_other => foreign.extend((0..at.len()).filter(|partition| at[*partition].is_some())),
        (Some(from), Some(began)) => {
            let is_same = |(from, began): (&Option<u64>, &Option<u64>)| began.is_none() || from == began;
            if !from.revisions.iter().zip(&at).all(is_same) {
                return Err(format!("asked to go on from {from}, and begins at {began}"));
            }
        }
        (None, Some(began)) => check_now(&truth, stream, began)?,
        (_, None) => {}
    }
    // All from behind `from` up to `to` is known, and nothing of it is wanted.
    let passes = |partition: usize, from: u64, to: u64| {
        for revision in from + 1..=to {
            match truth(partition).get(&revision) {
                None => return Err(format!("passes revision {revision} of {partition}, which no node has recorded")),
                Some(change) if stream.wanted.wants(change) => {
                    return Err(format!("is never told revision {revision} of {partition}: {:?}", change.parts));
                }
                Some(_) => {}
            }
        }
        Ok(())
    };
    let mut walks = Walks::new(began.is_none());
    let mut is_live = false;
    for told in &stream.told {
        let is_foreign = match told {
            Told::Change { partition, .. } | Told::State { partition, .. } => foreign.contains(partition),
            Told::Live(_) | Told::Place(_) => !foreign.is_empty(),
            Told::Gap { partition, reason, .. } => foreign.remove(partition) && reason != "begun-anew",
        };
        if is_foreign {
            return Err(format!("goes on from a token of another history with {told:?}"));
        }
        match told {
            Told::State { partition, revision, key, parts } => {
                if !stream.wanted.has(key) {
                    return Err(format!("told {parts:?}, which it does not want"));
                }
                walks.state(*partition, (key, *revision), parts)?;
            }
            Told::Change { partition, revision, parts } if walks.is_walking(*partition) => {
                walks.change(*partition, *revision, parts)?;
            }
            Told::Change { partition, revision, parts } => {
                let Some(Some(before)) = at.get(*partition).copied() else {
                    return Err(format!("told of partition {partition}, of which it wants nothing"));
                };
                if *revision <= before {
                    return Err(format!("told revision {revision} of {partition} behind {before}"));
                }
                passes(*partition, before, revision - 1)?;
                let Some(change) = truth(*partition).get(revision) else {
                    return Err(format!("told revision {revision} of {partition}, which no node has recorded"));
                };
                if change.parts != *parts {
                    return Err(format!("told {parts:?}, and it was {:?}", change.parts));
                }
                if !stream.wanted.wants(change) {
                    return Err(format!("told {parts:?}, which it does not want"));
                }
                at[*partition] = Some(*revision);
            }
            Told::Live(place) | Told::Place(place) => {
                if is_live == matches!(told, Told::Live(_)) {
                    return Err(format!("told {told:?}, and was {} live", if is_live { "already" } else { "not" }));
                }
                is_live = true;
                if at.is_empty() {
                    at.clone_from(&place.revisions);
                }
                if place.history != *history || place.revisions.len() != at.len() {
                    return Err(format!("told to be at {place}, which is of another history"));
                }
                for (partition, (to, from)) in place.revisions.iter().zip(at.clone()).enumerate() {
                    match (from, *to) {
                        _ if walks.is_walking(partition) => {}
                        (Some(from), Some(to)) if to < from => {
                            return Err(format!("told to be at {to} of {partition} behind {from}"));
                        }
                        (Some(from), Some(to)) => passes(partition, from, to)?,
                        (None, None) => {}
                        _ => return Err(format!("told to be at {place}, which says nothing of some partition")),
                    }
                }
                walks.end(changes, place, &stream.wanted)?;
                at.clone_from(&place.revisions);
            }
            Told::Gap { partition, from, to, reason, at: when, restates } => {
                if !walks.is_walking(*partition) {
                    match at.get(*partition).copied().flatten().filter(|before| before <= from) {
                        Some(before) => passes(*partition, before, *from)?,
                        None => return Err(format!("told of a gap of {partition} from {from}, and was at {at:?}")),
                    }
                }
                check_gap(changes, stream, (*partition, *from, *to), reason, (*when, promised))?;
                // Where one bucket took the place of another, or a node has no copy any more, there is nothing to be told.
                let can_be = ["retention", "too-slow"].contains(&&reason[..]);
                if *restates && (!stream.restates || walks.is_walking(*partition)) {
                    return Err(format!("told what is there behind a gap of {partition}, and was not to be"));
                }
                if !*restates && can_be && stream.restates && !walks.is_walking(*partition) {
                    return Err(format!("a gap of {partition} ends it, though it is to be told what is there"));
                }
                if *restates {
                    walks.begin(*partition);
                    is_live = false;
                }
            }
        }
    }
    if stream.is_to_be_live(settled) {
        if !is_live {
            return Err("at the end it was not told that it is live".to_owned());
        }
        for (partition, from) in at.iter().enumerate() {
            let Some(from) = from else { continue };
            let missed = truth(partition).range(from + 1..).find(|(_, it)| it.at < settled && stream.wanted.wants(it));
            if let Some((revision, change)) = missed {
                return Err(format!(
                    "at the end it is at {from} of {partition} and was not told {revision}, of {}: {:?}",
                    change.at, change.parts
                ));
            }
        }
    }
    Ok(())
}

/// One that begins with what is there, and is never told that it is live.
fn check_beginning(changes: &Changes, stream: &Stream, promised: Promised) -> Result<(), String> {
    // A place in another history is told as a gap first.
    let mut walks = Walks::new(stream.from.is_none());
    for told in &stream.told {
        match told {
            Told::State { key, parts, .. } if !stream.wanted.has(key) => {
                return Err(format!("told {parts:?}, which it does not want"));
            }
            Told::State { partition, revision, key, parts } => walks.state(*partition, (key, *revision), parts)?,
            Told::Change { partition, .. } if !walks.is_walking(*partition) => {
                return Err(format!("goes on from a token of another history with {told:?}"));
            }
            Told::Change { partition, revision, parts } => {
                // Of one history it is known which one it is.
                let history =
                    changes.truth.keys().next().filter(|_| promised.is_one_history).map(|(history, _)| history);
                let truth = history.and_then(|history| changes.truth.get(&(history.clone(), *partition)));
                match truth.map(|truth| truth.get(revision)) {
                    Some(Some(change)) if change.parts != *parts || !stream.wanted.wants(change) => {
                        return Err(format!("told {parts:?}, and it was {:?}", change.parts));
                    }
                    Some(None) => {
                        return Err(format!("told revision {revision} of {partition}, which no node has recorded"));
                    }
                    _ => {}
                }
                walks.change(*partition, *revision, parts)?;
            }
            Told::Gap { partition, restates: true, reason, .. }
                if stream.restates && reason == "begun-anew" && !walks.is_walking(*partition) =>
            {
                walks.begin(*partition);
            }
            Told::Gap { restates: true, .. } => return Err(format!("told {told:?} in the middle of what is there")),
            Told::Gap { partition, from, to, reason, at, .. } => {
                check_gap(changes, stream, (*partition, *from, *to), reason, (*at, promised))?;
            }
            Told::Live(_) | Told::Place(_) => return Err(format!("told {told:?}, and was not live")),
        }
    }
    if stream.is_to_be_live(promised.settled) {
        Err("at the end it was not told that it is live".to_owned())
    } else {
        Ok(())
    }
}

/// A change that was made may be seen so much later, in nanoseconds.
const SEEN_LATE: u64 = 2_000_000_000;

/// A subscriber who begins with what is new begins at a place between question and answer.
fn check_now<'a>(
    truth: &impl Fn(usize) -> &'a BTreeMap<u64, Change>,
    stream: &Stream,
    began: &Place,
) -> Result<(), String> {
    for (partition, began) in began.revisions.iter().enumerate() {
        let Some(began) = began else { continue };
        let latest = |before: u64| truth(partition).iter().filter(|(_, it)| it.at < before).map(|(it, _)| *it).max();
        if latest(stream.asked).is_some_and(|before| *began < before) {
            return Err(format!("begins at {began} of {partition}, and more had changed when it was asked for"));
        }
        // A change that was not recorded is not known here. Where a node without a copy has answered, the one that has made the change may have told its checker nothing yet, as it
        // does not know how its cluster is called.
        if truth(partition).get(began).is_some_and(|change| change.at >= stream.answered + SEEN_LATE) {
            return Err(format!("begins at {began} of {partition}, which was not there yet"));
        }
    }
    Ok(())
}

/// Gaps are told where something is gone, and nowhere else.
fn check_gap(
    changes: &Changes,
    stream: &Stream,
    (partition, from, to): (usize, u64, u64),
    reason: &str,
    (at, promised): (u64, Promised),
) -> Result<(), String> {
    let told = || format!("a gap of {partition} from {from} to {to} ({reason})");
    match reason {
        "retention" | "too-slow" if !promised.nodes_stay => Ok(()),
        "retention" | "too-slow" => {
            let floors = changes.floors.get(&(stream.node, partition)).map_or(&[][..], Vec::as_slice);
            // What held when it was asked for counts as well.
            let before = floors.iter().rposition(|(since, _)| *since <= stream.asked).unwrap_or(0);
            let is_gone = floors[before..].iter().any(|(since, floor)| *since <= at && *floor > from);
            if is_gone {
                Ok(())
            } else {
                Err(format!("{} at {at}, that its node had: {:?}", told(), &floors[before..]))
            }
        }
        "begun-anew" if promised.is_one_history => Err(format!("{} though nothing has begun anew", told())),
        "begun-anew" | "moved" => Ok(()),
        _ => Err(format!("{} of a bucket that is there", told())),
    }
}

#[cfg(test)]
mod tests;
