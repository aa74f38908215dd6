//! Subscriptions: what a subscriber is told is what has changed, in order, each change of his keys once, with nothing left out between where he began and where he is; a token
//! that was answered goes on from there on every node; and at the end those who are connected have been told everything.
//!
//! The truth is what the nodes record: each record is looked at on every node that has it, and has to be the same on all. A record that no node has was not to be told to anybody.

mod walks;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use walks::Walks;
use wire::Value;

/// The keys that a subscriber wants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// All of the bucket.
    All,
    /// Those that begin so.
    Prefix(String),
    /// These.
    Keys(Vec<String>),
    /// Those that begin and end so, with anything between.
    Matching(String, String),
    /// Of all keys, what takes them away one by one.
    Removals,
}

impl Wanted {
    /// Puts the words for it behind those of the command.
    pub fn say(&self, words: &mut Vec<String>) {
        match self {
            Wanted::All => words.push("ALL".to_owned()),
            Wanted::Prefix(prefix) => words.extend(["PREFIX".to_owned(), prefix.clone()]),
            Wanted::Keys(keys) => {
                words.extend(["KEYS".to_owned(), keys.len().to_string()]);
                words.extend(keys.iter().cloned());
            }
            Wanted::Matching(begin, end) => words.extend(["MATCH".to_owned(), format!("{begin}*{end}")]),
            Wanted::Removals => words.extend(["ALL", "KIND", "del", "KIND", "expire"].map(str::to_owned)),
        }
    }

    pub(super) fn wants(&self, change: &Change) -> bool {
        match self {
            Wanted::Removals => matches!(change.kind(), b"del" | b"expire"),
            _ => change.is_of_all_keys || self.has(&change.key),
        }
    }

    pub(super) fn has(&self, key: &[u8]) -> bool {
        match self {
            Wanted::All | Wanted::Removals => true,
            Wanted::Prefix(prefix) => key.starts_with(prefix.as_bytes()),
            Wanted::Keys(keys) => keys.iter().any(|wanted| wanted.as_bytes() == key),
            Wanted::Matching(begin, end) => {
                let rest = key.strip_prefix(begin.as_bytes());
                rest.is_some_and(|rest| rest.ends_with(end.as_bytes()))
            }
        }
    }
}

/// What a token says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The bucket and its history.
    pub history: String,
    /// By partition.
    pub revisions: Vec<Option<u64>>,
}

impl Place {
    /// Reads a token.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> Result<Place, String> {
        let (history, revisions) = text.split_once(':').ok_or_else(|| format!("no token: {text}"))?;
        let number = |part: &str| match part {
            "" => Ok(None),
            part => part.parse().map(Some).map_err(|_| format!("no token: {text}")),
        };
        let revisions = revisions.split(',').map(number).collect::<Result<Vec<_>, _>>()?;
        Ok(Place { history: history.to_owned(), revisions })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let revision = |revision: &Option<u64>| revision.map_or(String::new(), |revision| revision.to_string());
        write!(f, "{}:{}", self.history, self.revisions.iter().map(revision).collect::<Vec<_>>().join(","))
    }
}

/// What a subscriber was told. Times are nanoseconds.
#[derive(Clone, PartialEq, Debug)]
pub enum Told {
    /// A change: the two arrays of its message.
    Change {
        /// Where.
        partition: usize,
        /// Which one.
        revision: u64,
        /// As it was told.
        parts: Vec<Value>,
    },
    /// A key that is there: the two arrays of its message.
    State {
        /// Where.
        partition: usize,
        /// That of its last change.
        revision: u64,
        /// Which one.
        key: Vec<u8>,
        /// As it was told.
        parts: Vec<Value>,
    },
    /// How far the subscriber is, who has been told all that was to be told when he began.
    Live(Place),
    /// How far the subscriber is.
    Place(Place),
    /// What cannot be told, and why.
    Gap {
        /// Where.
        partition: usize,
        /// From behind this revision.
        from: u64,
        /// Up to this one.
        to: u64,
        /// The reason.
        reason: String,
        /// When.
        at: u64,
        /// What is there is told next; otherwise the subscription is over.
        restates: bool,
    },
}

fn numbers(value: Option<&Value>) -> Option<Vec<u64>> {
    let Some(Value::Array(items)) = value else { return None };
    items
        .iter()
        .map(|item| if let Value::Integer(number) = item { u64::try_from(*number).ok() } else { None })
        .collect()
}

impl Told {
    /// Reads a message to the subscription of this number; and whether that is over with it.
    ///
    /// # Errors
    /// It is none that there is.
    pub fn read(parts: &[Value], number: i64, at: u64) -> Result<(Told, bool), String> {
        let odd = || format!("unexpected message {parts:?}");
        let text = |value: &Value| value.as_bytes().map(|text| String::from_utf8_lossy(text).into_owned());
        let (Some(word), Some(Value::Integer(of))) = (parts.first().and_then(text), parts.get(1)) else {
            return Err(odd());
        };
        if *of != number {
            return Err(format!("a message for subscription {of}, which is {number}"));
        }
        let where_it_is = numbers(parts.get(2));
        match (word.as_str(), parts.len(), where_it_is.as_deref()) {
            ("dictum.change", 4, Some([partition, revision, _])) => {
                let parts = parts[2..].to_vec();
                Ok((Told::Change { partition: *partition as usize, revision: *revision, parts }, false))
            }
            ("dictum.state", 4, Some([partition, revision])) => {
                let Value::Array(words) = &parts[3] else { return Err(odd()) };
                let key = words.get(1).and_then(Value::as_bytes).ok_or_else(odd)?.to_vec();
                let (partition, parts) = (*partition as usize, parts[2..].to_vec());
                Ok((Told::State { partition, revision: *revision, key, parts }, false))
            }
            ("dictum.live" | "dictum.progress", 3, _) => {
                let place = Place::parse(&text(&parts[2]).ok_or_else(odd)?)?;
                Ok((if word == "dictum.live" { Told::Live(place) } else { Told::Place(place) }, false))
            }
            ("dictum.gap", 5, Some([partition, from, to])) => {
                let (reason, what_now) = (text(&parts[3]).ok_or_else(odd)?, text(&parts[4]).ok_or_else(odd)?);
                let restates = what_now == "restate";
                let told = Told::Gap { partition: *partition as usize, from: *from, to: *to, reason, at, restates };
                Ok((told, !restates))
            }
            _ => Err(odd()),
        }
    }

    /// Takes a subscriber's place to where this puts it.
    pub fn move_place(&self, place: &mut Place) {
        match self {
            Told::Change { partition, revision, .. } => {
                if let Some(at) = place.revisions.get_mut(*partition) {
                    *at = Some(*revision);
                }
            }
            Told::Live(to) | Told::Place(to) => *place = to.clone(),
            Told::State { .. } | Told::Gap { .. } => {}
        }
    }
}

/// One subscription, from its answer to its end.
#[derive(Clone, PartialEq, Debug)]
pub struct Stream {
    /// Whose.
    pub caller: u64,
    /// Who tells.
    pub node: u16,
    /// Which keys.
    pub wanted: Wanted,
    /// The place that was to be gone on from; none: it began with what was new, or with what was there.
    pub from: Option<Place>,
    /// It wants to be told what is there behind a gap.
    pub restates: bool,
    /// The token that was answered; none to one that is told what is there first.
    pub began: Option<Place>,
    /// When it was asked for.
    pub asked: u64,
    /// When it was answered.
    pub answered: u64,
    /// When anything was last heard on its connection: before, nobody knows whether that still stands.
    pub heard: u64,
    /// In the order of arrival.
    pub told: Vec<Told>,
    /// When it was ended, or the connection known to be lost.
    pub until: Option<u64>,
}

impl Stream {
    /// It is at its end, and was to be live by then.
    fn is_to_be_live(&self, settled: u64) -> bool {
        // Behind a gap that is told late it is told late what is there.
        let begins_late = |told: &Told| matches!(told, Told::Gap { at, .. } if *at >= settled);
        self.until.is_none()
            && self.answered < settled
            && self.heard >= settled
            && !self.told.iter().rev().any(begins_late)
    }

    /// Whether it was told last that it is live.
    fn is_live(&self) -> bool {
        let is_one = |told: &&Told| matches!(told, Told::Live(_) | Told::Gap { .. });
        matches!(self.told.iter().rev().find(is_one), Some(Told::Live(_)))
    }
}

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
    fn kind(&self) -> &[u8] {
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
    /// Up to where the state of a partition is known, by a state that a node had and the changes behind it.
    known_until: BTreeMap<Where, u64>,
    /// What nodes kept: of each node and partition from behind which revision on, each time that this has risen, and when.
    pub floors: BTreeMap<(u16, usize), Vec<(u64, u64)>>,
    /// In the order of their answers.
    pub streams: Vec<Stream>,
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
        return check_beginning(stream, promised);
    };
    let nothing = BTreeMap::new();
    let truth = |partition: usize| changes.truth.get(&(history.clone(), partition)).unwrap_or(&nothing);
    let mut at = stream.began.as_ref().map(|place| place.revisions.clone()).unwrap_or_default();
    let is_other = stream.from.as_ref().is_some_and(|from| from.history != *history);
    if is_other && is_one_history {
        return Err(format!("the history is {history}, and was another one"));
    }
    // Partitions of which nothing but a gap may follow.
    let mut foreign = BTreeSet::new();
    match (&stream.from, &stream.began) {
        (Some(_), Some(began)) if is_other => {
            foreign.extend((0..at.len()).filter(|partition| began.revisions[*partition].is_some()));
        }
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
    let mut walks = Walks::new(stream.began.is_none());
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
                if *restates && !stream.restates {
                    return Err(format!("told what is there behind a gap of {partition}, and did not want it"));
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
fn check_beginning(stream: &Stream, promised: Promised) -> Result<(), String> {
    let mut walks = Walks::new(true);
    for told in &stream.told {
        match told {
            Told::State { key, parts, .. } if !stream.wanted.has(key) => {
                return Err(format!("told {parts:?}, which it does not want"));
            }
            Told::State { partition, revision, key, parts } => walks.state(*partition, (key, *revision), parts)?,
            Told::Change { partition, revision, parts } => walks.change(*partition, *revision, parts)?,
            Told::Gap { .. } => {}
            Told::Live(_) | Told::Place(_) => return Err(format!("told {told:?}, and was not live")),
        }
    }
    if stream.is_to_be_live(promised.settled) {
        Err("at the end it was not told that it is live".to_owned())
    } else {
        Ok(())
    }
}

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
        // A change that was not recorded is not known here.
        if truth(partition).get(began).is_some_and(|change| change.at >= stream.answered) {
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
mod tests {
    use super::*;

    const PROMISED: Promised = Promised { settled: 1000, is_one_history: true, nodes_stay: true };
    const HISTORY: &str = "0~00000000000000fe";

    fn parts(revision: u64, key: &str) -> Vec<Value> {
        let numbers = [0, revision as i64, 9].map(Value::Integer).to_vec();
        vec![
            Value::Array(numbers),
            Value::Array([b"set", b"set", key.as_bytes()].map(|word| Value::Bulk(word.to_vec())).to_vec()),
        ]
    }

    fn changes() -> Changes {
        let mut changes = Changes::default();
        for (revision, key) in [(1, "k1"), (2, "x"), (3, "k2"), (4, "k1")] {
            let change = Change {
                key: key.as_bytes().to_vec(),
                is_of_all_keys: false,
                parts: parts(revision, key),
                at: revision * 100,
            };
            changes.note((HISTORY.to_owned(), 0), revision, change);
        }
        changes
    }

    fn place(revision: u64) -> Place {
        Place { history: HISTORY.to_owned(), revisions: vec![Some(revision)] }
    }

    fn told(revision: u64, key: &str) -> Told {
        Told::Change { partition: 0, revision, parts: parts(revision, key) }
    }

    fn stream(from: Option<u64>, began: u64, told: Vec<Told>) -> Stream {
        Stream {
            caller: 1,
            node: 0,
            wanted: Wanted::Prefix("k".to_owned()),
            from: from.map(place),
            restates: false,
            began: Some(place(began)),
            asked: 50,
            answered: 150,
            heard: 1000,
            told,
            until: None,
        }
    }

    fn judged(stream: Stream) -> Vec<String> {
        let mut changes = changes();
        changes.floors.insert((0, 0), vec![(0, 0), (300, 2)]);
        changes.streams.push(stream);
        check(&changes, PROMISED)
    }

    #[test]
    fn what_is_right_is_right() {
        let all = || vec![told(1, "k1"), told(3, "k2"), Told::Live(place(3)), told(4, "k1"), Told::Place(place(4))];
        assert_eq!(judged(stream(None, 0, all())), [""; 0]);
        assert_eq!(judged(stream(Some(0), 0, all())), [""; 0]);
        assert_eq!(judged(stream(Some(2), 2, all()[1..].to_vec())), [""; 0]);
        let gone = Stream { until: Some(500), ..stream(Some(0), 0, vec![told(1, "k1")]) };
        assert_eq!(judged(gone), [""; 0]);
        let silent = Stream { heard: 900, ..stream(Some(0), 0, vec![told(1, "k1")]) };
        assert_eq!(judged(silent), [""; 0]);
    }

    #[test]
    fn forged_streams_are_seen() {
        let is_told = |stream: Stream, what: &str| {
            let found = judged(stream);
            assert!(found.iter().any(|text| text.contains(what)), "{what}: {found:?}");
        };
        is_told(stream(Some(0), 0, vec![told(1, "k1"), told(4, "k1")]), "never told revision 3");
        is_told(stream(Some(0), 0, vec![Told::Live(place(1))]), "never told revision 1");
        is_told(
            stream(Some(0), 0, vec![told(1, "k1"), told(3, "k2"), Told::Live(place(3))]),
            "at the end it is at 3 of 0 and was not told 4",
        );
        is_told(stream(Some(0), 0, vec![told(1, "k1"), told(1, "k1")]), "told revision 1 of 0 behind 1");
        is_told(stream(Some(0), 0, vec![told(1, "k9")]), "and it was");
        is_told(stream(Some(1), 1, vec![told(2, "x")]), "does not want");
        is_told(stream(Some(4), 4, vec![told(5, "k1")]), "no node has recorded");
        is_told(stream(Some(4), 4, vec![Told::Live(place(5))]), "no node has recorded");
        is_told(stream(Some(1), 2, vec![]), "asked to go on from");
        is_told(stream(Some(2), 2, vec![told(3, "k2"), Told::Live(place(2))]), "behind 3");
        is_told(stream(Some(4), 4, vec![]), "not told that it is live");
        is_told(stream(Some(4), 4, vec![Told::Place(place(4))]), "was not live");
        is_told(stream(Some(4), 4, vec![Told::Live(place(4)), Told::Live(place(4))]), "was already live");
        is_told(Stream { asked: 250, answered: 260, ..stream(None, 1, vec![]) }, "more had changed");
        is_told(stream(None, 3, vec![]), "not there yet");
        let gap = |from, reason: &str, at| Told::Gap {
            partition: 0,
            from,
            to: 2,
            reason: reason.to_owned(),
            at,
            restates: false,
        };
        is_told(stream(Some(0), 0, vec![gap(1, "retention", 400)]), "never told revision 1");
        is_told(stream(Some(2), 2, vec![gap(1, "retention", 400)]), "and was at");
        is_told(stream(Some(0), 0, vec![gap(0, "retention", 200)]), "that its node had");
        is_told(stream(Some(0), 0, vec![gap(0, "begun-anew", 400)]), "nothing has begun anew");
        is_told(stream(Some(0), 0, vec![gap(0, "bucket-dropped", 400)]), "bucket that is there");
        let right = Stream { until: Some(400), ..stream(Some(0), 0, vec![gap(0, "retention", 400)]) };
        assert_eq!(judged(right), [""; 0]);
        let mut two = changes();
        two.note(
            (HISTORY.to_owned(), 0),
            1,
            Change { parts: parts(1, "z"), ..two.truth[&(HISTORY.to_owned(), 0)][&1].clone() },
        );
        assert!(check(&two, PROMISED)[0].contains("two nodes"));
    }

    /// Of a subscriber who begins with what is there, behind a state at revision 2 with keys of other times.
    fn judged_with_state(told: Vec<Told>) -> Vec<String> {
        let mut changes = changes();
        let key = |key: &str, revision: u64| (key.as_bytes().to_vec(), (revision, standing(key, revision)));
        changes.note_state((HISTORY.to_owned(), 0), 2, [key("k0", 0), key("k1", 1), key("x", 2)].into());
        changes.streams.push(Stream { began: None, restates: true, ..stream(None, 0, told) });
        check(&changes, PROMISED)
    }

    fn standing(key: &str, revision: u64) -> Vec<Value> {
        let words = [Value::Bulk(b"string".to_vec()), Value::Bulk(key.as_bytes().to_vec())].into_iter();
        let left = [Value::Bulk(revision.to_string().into_bytes()), Value::Null, Value::Array(Vec::new())];
        vec![Value::Array([0, revision as i64].map(Value::Integer).to_vec()), Value::Array(words.chain(left).collect())]
    }

    fn has(key: &str, revision: u64) -> Told {
        Told::State { partition: 0, revision, key: key.as_bytes().to_vec(), parts: standing(key, revision) }
    }

    #[test]
    fn who_is_told_what_is_there_has_it_when_it_is_live() {
        let right = [
            vec![has("k0", 0), has("k1", 1), told(3, "k2"), told(4, "k1"), Told::Live(place(4))],
            vec![has("k1", 1), told(4, "k1"), has("k2", 3), has("k0", 0), Told::Live(place(4))],
            vec![has("k0", 0), has("k1", 1), Told::Live(place(2)), told(3, "k2"), told(4, "k1")],
        ];
        right.into_iter().for_each(|told| assert_eq!(judged_with_state(told), [""; 0]));
        let is_told = |told: Vec<Told>, what: &str| {
            let found = judged_with_state(told);
            assert!(found.iter().any(|text| text.contains(what)), "{what}: {found:?}");
        };
        is_told(vec![has("k0", 0), has("k1", 1), told(3, "k2"), Told::Live(place(4))], "as it was at 1");
        is_told(vec![has("k0", 0), Told::Live(place(2))], "lacks k1");
        is_told(vec![has("k0", 0), has("k1", 1), has("k9", 1), Told::Live(place(2))], "has k9, which is not there");
        is_told(vec![told(4, "k1"), has("k1", 4)], "twice");
        is_told(vec![has("k1", 4), told(4, "k1")], "again");
        is_told(vec![told(4, "k1"), told(3, "k2")], "behind");
        is_told(vec![has("x", 2), Told::Live(place(2))], "does not want");
        is_told(vec![has("k0", 0), has("k1", 1), told(3, "k9"), told(4, "k1"), Told::Live(place(4))], "and it was");
        is_told(vec![has("k0", 0), has("k1", 1)], "not told that it is live");
        let late = Told::State { partition: 0, revision: 1, key: b"k1".to_vec(), parts: standing("k1", 2) };
        is_told(vec![has("k0", 0), late, Told::Live(place(2))], "and it is");
        is_told(vec![has("k0", 0), has("k1", 1), Told::Live(place(2)), has("k2", 3)], "was not to be");
        // One that did not want that.
        let gap = Told::Gap { partition: 0, from: 1, to: 2, reason: "retention".to_owned(), at: 400, restates: true };
        assert!(judged(stream(Some(1), 1, vec![gap]))[0].contains("did not want it"));
    }

    #[test]
    fn a_token_of_another_history_is_followed_by_a_gap_alone() {
        let other = Place { history: "0~0000000000000001".to_owned(), ..place(1) };
        let goes_on = |told: Vec<Told>| {
            let mut changes = changes();
            changes.streams.push(Stream { from: Some(other.clone()), until: Some(10), ..stream(None, 1, told) });
            check(&changes, Promised { is_one_history: false, ..PROMISED })
        };
        let gap = Told::Gap { partition: 0, from: 1, to: 4, reason: "begun-anew".to_owned(), at: 9, restates: false };
        assert_eq!(goes_on(vec![gap]), [""; 0]);
        assert!(goes_on(vec![told(3, "k2")])[0].contains("another history"));
    }
}
