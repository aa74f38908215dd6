//! Messages: nobody hears what was not published, or on another channel, or what he does not listen to; nobody hears a message twice by one
//! subscription; what one connection publishes is heard in its order; and nothing is lost while nothing happens to the two nodes or the link
//! between them.
//!
//! The last one needs to know when nothing happened: [`Troubles`] are written down where they are made.

use std::collections::{BTreeMap, BTreeSet};

use super::copies::Copies;
use super::notes::Notes;
use super::subscriptions::Changes;

/// What is listened to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A channel.
    Channel,
    /// A pattern of channels.
    Pattern,
    /// A shard channel.
    Shard,
}

/// A message as its publisher knows it. Times are nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Publication {
    /// The caller, and which of its connections.
    pub publisher: (u64, u64),
    /// Counts what the caller publishes.
    pub sequence: u64,
    /// Whom it was given to.
    pub node: u16,
    /// [`Kind::Channel`] or [`Kind::Shard`].
    pub kind: Kind,
    /// Where.
    pub channel: String,
    /// What; different from every other.
    pub message: String,
    /// When it was sent.
    pub asked: u64,
    /// When the publisher was told that it is done.
    pub answered: Option<u64>,
}

/// Listening to one name on one connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subscription {
    /// The caller, and which of its connections.
    pub connection: (u64, u64),
    /// Who tells it.
    pub node: u16,
    /// To what.
    pub kind: Kind,
    /// Its name, or the pattern.
    pub name: String,
    /// When the connection began. A process that has died since then tells nothing on it, though its last answers may still arrive.
    pub opened: u64,
    /// When it was confirmed.
    pub from: u64,
    /// When it was given up, or the connection known to be lost.
    pub until: Option<u64>,
    /// Channels and messages, as they were heard.
    pub heard: Vec<(String, String)>,
}

/// What callers wrote down.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    /// In the order in which they were sent.
    pub publications: Vec<Publication>,
    /// In the order in which they were confirmed.
    pub subscriptions: Vec<Subscription>,
    /// What no caller should ever hear.
    pub violations: Vec<String>,
    /// Keys that were made, and what was told of them.
    pub notes: Notes,
    /// Keys that were written and kept.
    pub copies: Copies,
    /// Restores of a caller's keys that came to their end.
    pub restored: u64,
    /// What became of subscriptions to changes.
    pub changes: Changes,
}

/// When something happened to nodes and links.
#[derive(Clone, Debug, Default)]
pub struct Troubles {
    /// A node died (its connections with it).
    deaths: Vec<(u16, u64)>,
    /// A node stood still, from when to when.
    pauses: Vec<(u16, u64, u64)>,
    /// Of each pair, lower node first: when its link came up and when it broke.
    links: BTreeMap<(u16, u16), Vec<(u64, bool)>>,
    /// A node installed a snapshot, and so has not applied all entries.
    installs: Vec<(u16, u64)>,
    /// By direction: when a message was lost or held up, or overtaken by another.
    harmed: BTreeMap<(u16, u16), Vec<u64>>,
}

impl Troubles {
    /// A node died.
    pub fn died(&mut self, node: u16, at: u64) {
        self.deaths.push((node, at));
    }

    /// A node stands still.
    pub fn paused(&mut self, node: u16, from: u64, until: u64) {
        self.pauses.push((node, from, until));
    }

    /// A node has installed a snapshot, or what changes is told to its clients by another node now.
    pub fn installed(&mut self, node: u16, at: u64) {
        self.installs.push((node, at));
    }

    /// Whether a node dies at that time or later.
    pub(super) fn dies(&self, node: u16, from: u64) -> bool {
        self.deaths.iter().any(|(other, at)| *other == node && *at >= from)
    }

    /// Whether a node died between two times.
    fn has_died(&self, node: u16, from: u64, until: u64) -> bool {
        self.deaths.iter().any(|(other, at)| *other == node && (from..=until).contains(at))
    }

    /// Whether a node has applied every entry one after the other for all this time, as far as it has come.
    pub(super) fn applies_all(&self, node: u16, from: u64, until: u64) -> bool {
        !self.installs.iter().any(|(other, at)| *other == node && (from..=until).contains(at))
    }

    /// A link has come up, or has broken.
    pub fn link(&mut self, one: u16, other: u16, at: u64, up: bool) {
        self.links.entry((one.min(other), one.max(other))).or_default().push((at, up));
    }

    /// A message was not delivered in time and order.
    pub fn harmed(&mut self, from: u16, to: u16, at: u64) {
        self.harmed.entry((from, to)).or_default().push(at);
    }

    /// Whether nothing happened to any of so many nodes, nor to a link between two of them.
    pub(crate) fn all_is_calm(&self, nodes: u16, from: u64, until: u64) -> bool {
        let pairs = (0..nodes).flat_map(|one| (0..nodes).map(move |other| (one, other)));
        (0..nodes).all(|node| self.node_is_calm(node, from, until) && self.applies_all(node, from, until))
            && pairs.into_iter().all(|(one, other)| self.link_is_calm(one, other, from, until))
    }

    fn node_is_calm(&self, node: u16, from: u64, until: u64) -> bool {
        !self.has_died(node, from, until)
            && !self.pauses.iter().any(|(other, start, end)| *other == node && *start <= until && from <= *end)
    }

    fn link_is_calm(&self, from_node: u16, to_node: u16, from: u64, until: u64) -> bool {
        if from_node == to_node {
            return true;
        }
        let changes = self.links.get(&(from_node.min(to_node), from_node.max(to_node))).map_or(&[][..], |all| all);
        let after = changes.partition_point(|(at, _)| *at < from);
        let is_up = after.checked_sub(1).is_some_and(|last| changes[last].1);
        let harmed = self.harmed.get(&(from_node, to_node)).map_or(&[][..], |all| all);
        let first = harmed.partition_point(|at| *at < from);
        is_up && changes.get(after).is_none_or(|(at, _)| *at > until) && harmed.get(first).is_none_or(|at| *at > until)
    }
}

/// How far from a message trouble may still reach it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// A message arrives within this after its publisher was told, where nothing happens.
    pub delivered_within: u64,
    /// What happened earlier than so long before has no effects.
    pub settled_after: u64,
    /// When the run ended.
    pub end: u64,
}

/// How many violations of one kind are told.
const TOLD_MAX: usize = 5;

/// Judges what callers wrote down. Texts of violations.
#[must_use]
pub fn check(messages: &Messages, troubles: &Troubles, limits: Limits) -> Vec<String> {
    let mut found = messages.violations.clone();
    let by_text: BTreeMap<&str, &Publication> =
        messages.publications.iter().map(|publication| (publication.message.as_str(), publication)).collect();
    let mut heard_by: Vec<BTreeSet<&str>> = Vec::new();
    for subscription in &messages.subscriptions {
        let mut heard = BTreeSet::new();
        let mut last: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for (channel, text) in &subscription.heard {
            let Some(publication) = by_text.get(text.as_str()).filter(|it| fits(subscription, it)) else {
                found.push(format!("{} hears {text} on {channel}, which was not published there", who(subscription)));
                continue;
            };
            if publication.channel != *channel {
                found.push(format!("{} hears {text} as of {channel}", who(subscription)));
            }
            if !heard.insert(text.as_str()) {
                found.push(format!("{} hears {text} twice", who(subscription)));
            }
            let before = last.insert(publication.publisher, publication.sequence);
            if before.is_some_and(|before| before > publication.sequence) {
                found.push(format!("{} hears {text} out of order", who(subscription)));
            }
        }
        heard_by.push(heard);
    }
    found.truncate(TOLD_MAX);
    found.extend(lost(messages, &heard_by, troubles, limits).into_iter().take(TOLD_MAX));
    found
}

fn lost(messages: &Messages, heard: &[BTreeSet<&str>], troubles: &Troubles, limits: Limits) -> Vec<String> {
    let mut found = Vec::new();
    for (subscription, heard) in messages.subscriptions.iter().zip(heard) {
        // They are in the order of time.
        let first = messages.publications.partition_point(|publication| publication.asked < subscription.from);
        for publication in messages.publications[first..].iter().filter(|it| fits(subscription, it)) {
            let Some(answered) = publication.answered else { continue };
            let (from, until) =
                (publication.asked.saturating_sub(limits.settled_after), answered + limits.delivered_within);
            let listens = subscription.until.unwrap_or(limits.end) > until;
            if listens
                && !heard.contains(publication.message.as_str())
                && !troubles.has_died(subscription.node, subscription.opened, subscription.from)
                && troubles.node_is_calm(subscription.node, subscription.from.min(from), until)
                && troubles.node_is_calm(publication.node, from, until)
                && troubles.link_is_calm(publication.node, subscription.node, from, until)
            {
                let Publication { message, channel, node, asked, .. } = publication;
                found.push(format!(
                    "{} never hears {message}, published on {channel} at n{} at {asked}",
                    who(subscription),
                    node + 1
                ));
            }
        }
    }
    found
}

/// How many messages were certain to be heard, for the report: a run in which that is none has shown little.
#[must_use]
pub fn heard_count(messages: &Messages) -> usize {
    messages.subscriptions.iter().map(|subscription| subscription.heard.len()).sum()
}

fn who(subscription: &Subscription) -> String {
    let Subscription { connection: (caller, number), node, kind, name, from, .. } = subscription;
    format!("caller {caller} (connection {number} to n{}, {kind:?} {name} since {from})", node + 1)
}

fn fits(subscription: &Subscription, publication: &Publication) -> bool {
    match (subscription.kind, publication.kind) {
        (Kind::Channel, Kind::Channel) | (Kind::Shard, Kind::Shard) => subscription.name == publication.channel,
        (Kind::Pattern, Kind::Channel) => matches(subscription.name.as_bytes(), publication.channel.as_bytes()),
        _ => false,
    }
}

/// The patterns that callers use, taken literally: `*`, `?` and `[…]` without ranges.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, _) => text.is_empty(),
        (Some((b'*', rest)), _) => (0..=text.len()).any(|taken| matches(rest, &text[taken..])),
        (Some((b'?', rest)), Some((_, text))) => matches(rest, text),
        (Some((b'[', rest)), Some((byte, text))) => {
            let end = rest.iter().position(|it| *it == b']').unwrap_or(rest.len());
            rest[..end].contains(byte) && matches(rest.get(end + 1..).unwrap_or_default(), text)
        }
        (Some((own, rest)), Some((byte, text))) => own == byte && matches(rest, text),
        (Some(_), None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { delivered_within: 10, settled_after: 5, end: 1000 };

    fn published(sequence: u64, channel: &str, asked: u64) -> Publication {
        Publication {
            publisher: (1, 1),
            sequence,
            node: 0,
            kind: Kind::Channel,
            channel: channel.to_owned(),
            message: format!("m{sequence}"),
            asked,
            answered: Some(asked + 1),
        }
    }

    fn listening(kind: Kind, name: &str, heard: &[(&str, &str)]) -> Subscription {
        let heard = heard.iter().map(|(channel, text)| ((*channel).to_owned(), (*text).to_owned())).collect();
        let (connection, name) = ((2, 1), name.to_owned());
        Subscription { connection, node: 1, kind, name, opened: 40, from: 50, until: None, heard }
    }

    fn judged(subscription: Subscription, troubles: &Troubles) -> Vec<String> {
        let publications = vec![published(1, "c0", 100), published(2, "c0", 200), published(3, "d0", 300)];
        let messages = Messages { publications, subscriptions: vec![subscription], ..Messages::default() };
        check(&messages, troubles, LIMITS)
    }

    fn linked() -> Troubles {
        let mut troubles = Troubles::default();
        troubles.link(1, 0, 10, true);
        troubles
    }

    #[test]
    fn what_is_right_is_right() {
        let all = [("c0", "m1"), ("c0", "m2")];
        assert_eq!(judged(listening(Kind::Channel, "c0", &all), &linked()), [""; 0]);
        assert_eq!(judged(listening(Kind::Pattern, "c*", &all), &linked()), [""; 0]);
        assert_eq!(judged(listening(Kind::Pattern, "[cx]?", &all), &linked()), [""; 0]);
        assert_eq!(judged(listening(Kind::Shard, "c0", &[]), &linked()), [""; 0]);
    }

    #[test]
    fn forged_messages_are_seen() {
        let is_told = |heard: &[(&str, &str)], what: &str| {
            let found = judged(listening(Kind::Channel, "c0", heard), &linked());
            assert!(found.iter().any(|text| text.contains(what)), "{what}: {found:?}");
        };
        is_told(&[("c0", "m1"), ("c0", "m2"), ("c0", "m9")], "not published");
        is_told(&[("c0", "m1"), ("c0", "m2"), ("d0", "m3")], "not published");
        is_told(&[("c0", "m1"), ("c0", "m2"), ("c0", "m2")], "twice");
        is_told(&[("c0", "m2"), ("c0", "m1")], "out of order");
        is_told(&[("c0", "m1"), ("d0", "m2")], "as of d0");
        is_told(&[("c0", "m1")], "never hears m2");
    }

    #[test]
    fn what_trouble_may_have_taken_is_excused() {
        let heard = [("c0", "m1")];
        let excuses = |change: fn(&mut Troubles)| {
            let mut troubles = linked();
            change(&mut troubles);
            judged(listening(Kind::Channel, "c0", &heard), &troubles).is_empty()
        };
        assert!(!excuses(|_| ()));
        assert!(excuses(|troubles| troubles.harmed(0, 1, 201)));
        assert!(!excuses(|troubles| troubles.harmed(1, 0, 201)), "the other direction");
        assert!(!excuses(|troubles| troubles.harmed(0, 1, 100)), "long before");
        assert!(excuses(|troubles| troubles.died(1, 60)), "whoever it was connected to is gone");
        assert!(excuses(|troubles| troubles.died(1, 45)), "and was gone when its confirmation arrived");
        assert!(!excuses(|troubles| troubles.died(1, 35)), "but not whoever died before there was the connection");
        assert!(!excuses(|troubles| troubles.died(2, 200)), "another node");
        assert!(excuses(|troubles| troubles.paused(0, 150, 205)));
        assert!(excuses(|troubles| troubles.link(0, 1, 205, false)));
        assert!(excuses(|troubles| {
            troubles.link(0, 1, 150, false);
            troubles.link(0, 1, 198, true);
        }));
        let mut troubles = linked();
        troubles.link(0, 1, 150, false);
        troubles.link(0, 1, 160, true);
        assert_eq!(judged(listening(Kind::Channel, "c0", &heard), &troubles).len(), 1, "it was up again in time");
        let mut gone = listening(Kind::Channel, "c0", &heard);
        gone.until = Some(208);
        assert!(judged(gone, &linked()).is_empty());
    }
}
