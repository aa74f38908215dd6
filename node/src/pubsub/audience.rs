//! Who listens to what: the connections of this node by channel and pattern, and how many listeners each other node has said to have.
//!
//! Plain state without I/O. Both are in one table, so that a message is looked up once. What has changed on this node since the others were
//! told is noted, by name; they are told counts, not changes, so hearing one twice does no harm.

use std::collections::{BTreeMap, BTreeSet};

use base::NodeId;
use base::limits::{KEY_BYTES_MAX, SUBSCRIPTION_BYTES_MAX};
use bytes::Bytes;
use data::Failure;
use data::algorithms::glob::Glob;
use data::meter::Meter;

use crate::door::ConnectionId;

/// Bytes that a subscription counts beside its name.
const SUBSCRIPTION_OVERHEAD_BYTES: usize = 128;

/// Units of work (`data/src/meter.rs`) that one message may cost while its channel is compared with patterns: half a second, or two million patterns
/// that are easy to compare. A channel of 32 KiB and a pattern of 16 KiB with a star could take a second, and there may be many of both.
pub(crate) const MATCHING_WORK_MAX: u64 = 50_000_000;

const TOO_LONG: Failure = Failure::Text("ERR the name of a channel or a pattern is longer than 32768 bytes");
const _: () = assert!(KEY_BYTES_MAX == 32768, "the text says so");
const TOO_MANY: Failure = Failure::Text("ERR too many subscriptions on this node; this one was not made");

/// What a subscription is to. Each kind has names of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    /// What `PUBLISH` names.
    Channel,
    /// A pattern that the names of such channels may fit.
    Pattern,
    /// What `SPUBLISH` names.
    Shard,
}

impl Kind {
    pub(crate) const ALL: [Kind; 3] = [Kind::Channel, Kind::Pattern, Kind::Shard];

    pub(crate) fn place(self) -> usize {
        match self {
            Kind::Channel => 0,
            Kind::Pattern => 1,
            Kind::Shard => 2,
        }
    }
}

/// Everybody who listens to one name.
#[derive(Debug, Default)]
struct Entry {
    /// Of a pattern.
    glob: Option<Glob>,
    /// Connections of this node, ascending.
    here: Vec<ConnectionId>,
    /// How many connections other nodes have; none of the counts is 0.
    elsewhere: Vec<(NodeId, u32)>,
}

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Audience {
    entries: [BTreeMap<Bytes, Entry>; 3],
    /// How many names of each kind have listeners here.
    names_here: [usize; 3],
    /// Bytes of the subscriptions of this node, and of what each other node has told.
    bytes_here: usize,
    bytes_elsewhere: BTreeMap<NodeId, usize>,
    changed: BTreeSet<(Kind, Bytes)>,
}

/// What a name counts. A pattern is kept compiled as well.
fn weight(kind: Kind, name: &[u8]) -> usize {
    let factor = if kind == Kind::Pattern { 24 } else { 1 };
    name.len() * factor + SUBSCRIPTION_OVERHEAD_BYTES
}

fn new_entry(kind: Kind, name: &[u8]) -> Entry {
    Entry { glob: (kind == Kind::Pattern).then(|| Glob::new(name)), ..Entry::default() }
}

impl Audience {
    /// A connection of this node listens from now on; it did not before.
    ///
    /// # Errors
    /// The name is too long, or the node has as many subscriptions as it takes.
    pub(crate) fn add(&mut self, kind: Kind, name: &Bytes, listener: ConnectionId) -> Result<(), Failure> {
        check_name(name)?;
        if self.bytes_here + weight(kind, name) > SUBSCRIPTION_BYTES_MAX {
            return Err(TOO_MANY);
        }
        let entry = self.entries[kind.place()].entry(name.clone()).or_insert_with(|| new_entry(kind, name));
        if let Err(place) = entry.here.binary_search(&listener) {
            self.names_here[kind.place()] += usize::from(entry.here.is_empty());
            entry.here.insert(place, listener);
            self.bytes_here += weight(kind, name);
            self.changed.insert((kind, name.clone()));
        }
        Ok(())
    }

    /// A connection of this node listens no more.
    pub(crate) fn remove(&mut self, kind: Kind, name: &Bytes, listener: ConnectionId) {
        let Some(entry) = self.entries[kind.place()].get_mut(name) else { return };
        let Ok(place) = entry.here.binary_search(&listener) else { return };
        entry.here.remove(place);
        self.names_here[kind.place()] -= usize::from(entry.here.is_empty());
        if entry.here.is_empty() && entry.elsewhere.is_empty() {
            self.entries[kind.place()].remove(name);
        }
        self.bytes_here -= weight(kind, name);
        self.changed.insert((kind, name.clone()));
    }

    /// Shows every connection of this node that a message on `channel` is for: first those of the channel, then those of each pattern, with it.
    /// One that has several subscriptions to it is shown for each.
    ///
    /// False if the patterns were too many, or too hard to compare with it: then it is for none of those behind.
    pub(crate) fn listeners(
        &self,
        kind: Kind,
        channel: &[u8],
        mut show: impl FnMut(Option<&Bytes>, &[ConnectionId]),
    ) -> bool {
        let meter = Meter::limited(MATCHING_WORK_MAX);
        for (pattern, entry) in self.fitting(kind, channel, &meter).filter(|(_, entry)| !entry.here.is_empty()) {
            show(pattern, &entry.here);
        }
        !meter.is_over()
    }

    /// How many listeners other nodes have for a message on `channel`, of those nodes that it reaches.
    pub(crate) fn count_elsewhere(&self, kind: Kind, channel: &[u8], reached: impl Fn(NodeId) -> bool) -> u64 {
        let meter = Meter::limited(MATCHING_WORK_MAX);
        let counts = self.fitting(kind, channel, &meter).flat_map(|(_, entry)| &entry.elsewhere);
        counts.filter(|(node, _)| reached(*node)).map(|(_, count)| u64::from(*count)).sum()
    }

    /// The entry of the channel, and those of the patterns that it fits, as far as the meter lets it be compared.
    fn fitting<'a>(
        &'a self,
        kind: Kind,
        channel: &'a [u8],
        meter: &'a Meter,
    ) -> impl Iterator<Item = (Option<&'a Bytes>, &'a Entry)> {
        let own = self.entries[kind.place()].get(channel).map(|entry| (None, entry));
        let patterns = (kind == Kind::Channel).then(|| self.entries[Kind::Pattern.place()].iter());
        let fits = |entry: &Entry| entry.glob.as_ref().is_some_and(|glob| glob.matches_among_many(channel, meter));
        let within = patterns.into_iter().flatten().take_while(|_| !meter.is_over());
        let fitting = within.filter(move |(_, entry)| fits(entry));
        own.into_iter().chain(fitting.map(|(pattern, entry)| (Some(pattern), entry)))
    }

    /// Names of a kind that anybody in the cluster listens to, in order.
    pub(crate) fn names(&self, kind: Kind) -> impl Iterator<Item = &Bytes> {
        self.entries[kind.place()].keys()
    }

    /// How many names of a kind anybody in the cluster listens to.
    pub(crate) fn names_count(&self, kind: Kind) -> usize {
        self.entries[kind.place()].len()
    }

    /// How many names of a kind have listeners on this node.
    pub(crate) fn names_here(&self, kind: Kind) -> usize {
        self.names_here[kind.place()]
    }

    /// How many connections of the cluster listen to a name.
    pub(crate) fn count(&self, kind: Kind, name: &[u8]) -> u64 {
        self.entries[kind.place()].get(name).map_or(0, |entry| {
            entry.here.len() as u64 + entry.elsewhere.iter().map(|(_, count)| u64::from(*count)).sum::<u64>()
        })
    }

    /// What other nodes do not know yet: names, and how many listen to them here.
    pub(crate) fn take_changed(&mut self) -> Vec<(Kind, Bytes, u32)> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|(kind, name)| self.here(kind, name)).collect()
    }

    fn here(&self, kind: Kind, name: Bytes) -> (Kind, Bytes, u32) {
        let count = self.entries[kind.place()].get(&name).map_or(0, |entry| entry.here.len());
        (kind, name, u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// Everything that another node has to know of this one's listeners.
    pub(crate) fn all_here(&self) -> impl Iterator<Item = (Kind, &Bytes, u32)> {
        Kind::ALL.into_iter().flat_map(|kind| {
            let with_listeners = self.entries[kind.place()].iter().filter(|(_, entry)| !entry.here.is_empty());
            with_listeners.map(move |(name, entry)| (kind, name, u32::try_from(entry.here.len()).unwrap_or(u32::MAX)))
        })
    }

    /// Whether anybody listens on this node.
    pub(crate) fn is_empty_here(&self) -> bool {
        self.names_here == [0; 3]
    }

    /// Another node says how many of its connections listen to a name.
    pub(crate) fn hear(&mut self, node: NodeId, kind: Kind, name: &[u8], count: u32) {
        let entries = &mut self.entries[kind.place()];
        let bytes = self.bytes_elsewhere.entry(node).or_default();
        if count > 0 {
            // A node keeps to this itself; what it says beyond would only make counts better.
            let known = entries.get(name).is_some_and(|entry| entry.elsewhere.iter().any(|(other, _)| *other == node));
            if check_name(name).is_err() || (!known && *bytes + weight(kind, name) > SUBSCRIPTION_BYTES_MAX) {
                return;
            }
            if !entries.contains_key(name) {
                entries.insert(Bytes::copy_from_slice(name), new_entry(kind, name));
            }
        }
        let Some(entry) = entries.get_mut(name) else { return };
        let place = entry.elsewhere.iter().position(|(other, _)| *other == node);
        match place {
            Some(place) if count == 0 => {
                entry.elsewhere.swap_remove(place);
                *bytes -= weight(kind, name);
                if entry.here.is_empty() && entry.elsewhere.is_empty() {
                    entries.remove(name);
                }
            }
            Some(place) => entry.elsewhere[place].1 = count,
            None if count > 0 => {
                entry.elsewhere.push((node, count));
                *bytes += weight(kind, name);
            }
            None => {}
        }
    }

    /// Nothing is known any more of another node's listeners.
    pub(crate) fn forget(&mut self, node: NodeId) {
        if self.bytes_elsewhere.remove(&node).is_none_or(|bytes| bytes == 0) {
            return;
        }
        for entries in &mut self.entries {
            entries.retain(|_, entry| {
                entry.elsewhere.retain(|(other, _)| *other != node);
                !(entry.here.is_empty() && entry.elsewhere.is_empty())
            });
        }
    }
}

/// Refuses names of channels and patterns that are too long.
pub(crate) fn check_name(name: &[u8]) -> Result<(), Failure> {
    if name.len() > KEY_BYTES_MAX { Err(TOO_LONG) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ConnectionId = ConnectionId(1);
    const B: ConnectionId = ConnectionId(2);

    fn shown(audience: &Audience, kind: Kind, channel: &[u8]) -> Vec<(Option<Bytes>, Vec<ConnectionId>)> {
        let mut all = Vec::new();
        audience.listeners(kind, channel, |pattern, listeners| all.push((pattern.cloned(), listeners.to_vec())));
        all
    }

    #[test]
    fn a_pattern_that_is_hard_to_compare_holds_nobody_up() {
        let mut audience = Audience::default();
        let name = Bytes::from_static;
        let hard = Bytes::from(["*", &"a".repeat(16_000), "b"].concat());
        audience.add(Kind::Channel, &name(b"aaa"), A).expect("it is short");
        audience.add(Kind::Pattern, &name(b"*"), A).expect("it is short");
        audience.add(Kind::Pattern, &hard, A).expect("it is not too long");
        audience.add(Kind::Pattern, &name(b"a*"), B).expect("it is short");
        let channel = [b'a'; 32_000];
        let mut shown = Vec::new();
        // Two billion comparisons would decide it.
        assert!(!audience.listeners(Kind::Channel, &channel, |pattern, _| shown.extend(pattern.cloned())));
        assert_eq!(shown, [name(b"*")], "those before it get the message");
        assert!(audience.listeners(Kind::Channel, b"aaa", |_, _| {}), "other channels are as they were");
    }

    #[test]
    fn listeners_are_found_by_name_and_by_pattern() {
        let mut audience = Audience::default();
        let name = Bytes::from_static;
        audience.add(Kind::Channel, &name(b"news"), B).expect("it is short");
        audience.add(Kind::Channel, &name(b"news"), A).expect("it is short");
        audience.add(Kind::Channel, &name(b"news"), A).expect("twice is once");
        audience.add(Kind::Pattern, &name(b"n*"), A).expect("it is short");
        audience.add(Kind::Pattern, &name(b"m*"), A).expect("it is short");
        audience.add(Kind::Shard, &name(b"news"), B).expect("it is short");
        assert_eq!(
            shown(&audience, Kind::Channel, b"news"),
            [(None, vec![A, B]), (Some(name(b"n*")), vec![A])],
            "the channel first"
        );
        assert_eq!(shown(&audience, Kind::Shard, b"news"), [(None, vec![B])], "patterns are not for shard channels");
        assert_eq!(shown(&audience, Kind::Channel, b"nothing"), [(Some(name(b"n*")), vec![A])]);
        assert_eq!(audience.names_here(Kind::Pattern), 2);
        let changed = audience.take_changed();
        assert_eq!(changed.len(), 4);
        assert_eq!(changed[0], (Kind::Channel, name(b"news"), 2));
        for listener in [A, B] {
            audience.remove(Kind::Channel, &name(b"news"), listener);
        }
        assert_eq!(audience.take_changed(), [(Kind::Channel, name(b"news"), 0)]);
        assert_eq!(audience.all_here().count(), 3);
        for (kind, pattern, listener) in [(Kind::Pattern, "n*", A), (Kind::Pattern, "m*", A), (Kind::Shard, "news", B)]
        {
            audience.remove(kind, &Bytes::from(pattern), listener);
        }
        assert!(audience.is_empty_here() && audience.bytes_here == 0);
        assert!(audience.entries.iter().all(BTreeMap::is_empty));
    }

    #[test]
    fn counts_of_other_nodes_come_and_go() {
        let (one, other) = (NodeId(1), NodeId(2));
        let mut audience = Audience::default();
        audience.hear(one, Kind::Channel, b"news", 3);
        audience.hear(other, Kind::Channel, b"news", 4);
        audience.hear(other, Kind::Pattern, b"n*", 10);
        audience.hear(one, Kind::Channel, b"news", 2);
        assert_eq!(audience.count_elsewhere(Kind::Channel, b"news", |_| true), 16);
        assert_eq!(audience.count_elsewhere(Kind::Channel, b"news", |node| node == one), 2);
        assert_eq!(audience.count(Kind::Channel, b"news"), 6);
        audience.forget(other);
        assert_eq!(audience.count_elsewhere(Kind::Channel, b"news", |_| true), 2);
        assert_eq!(audience.names_count(Kind::Pattern), 0);
        audience.hear(one, Kind::Channel, b"news", 0);
        audience.hear(one, Kind::Channel, b"never", 0);
        assert_eq!(audience.names_count(Kind::Channel), 0);
        assert!(audience.bytes_elsewhere.values().all(|bytes| *bytes == 0));
    }

    #[test]
    fn there_is_a_limit_to_subscriptions() {
        let mut audience = Audience::default();
        assert_eq!(audience.add(Kind::Channel, &Bytes::from(vec![b'x'; KEY_BYTES_MAX + 1]), A), Err(TOO_LONG));
        let name = |number: u64| {
            let mut name = vec![b'x'; KEY_BYTES_MAX];
            name[..8].copy_from_slice(&number.to_le_bytes());
            Bytes::from(name)
        };
        let most = (SUBSCRIPTION_BYTES_MAX / weight(Kind::Channel, &name(0))) as u64;
        for number in 0..most {
            audience.add(Kind::Channel, &name(number), A).expect("there is room");
        }
        assert_eq!(audience.add(Kind::Channel, &name(most), A), Err(TOO_MANY));
        audience.remove(Kind::Channel, &name(0), A);
        assert_eq!(audience.add(Kind::Channel, &name(most), A), Ok(()));
    }
}
