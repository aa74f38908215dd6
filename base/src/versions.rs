//! Versions: what nodes can know, and since when.
//!
//! One number counts them all: what nodes say to each other, what they write into logs and states, which commands there are. A build speaks all
//! versions from [`OLDEST`] to [`NEWEST`]. What came later than [`OLDEST`] stands in [`FEATURES`] or [`COMMANDS`], and nowhere else is a version
//! compared with a number. There are two reasons to be allowed to do something new, and each feature has one of them:
//! - [`By::Link`]: the node at the other end understands it. A link speaks the newest version that both of its ends speak ([`Versions::common`]).
//! - [`By::Cluster`]: every node understands it, those that are down among them. Whatever is written into a log or a state comes to all of them,
//!   sooner or later, so it waits for the *cluster's version*, which stands in the council's registry of nodes and only rises
//!   (`node/src/versions.rs`).
//!
//! To add a feature: raise [`NEWEST`] if that version is released already, add a row, and ask for it where the new thing is written. Reading it needs
//! nothing: who reads it speaks it.

use std::fmt;

/// The oldest version that this build speaks. Those before it could not tell how far they go.
pub const OLDEST: u16 = 6;
/// The newest.
pub const NEWEST: u16 = 8;

/// Which versions somebody speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Versions {
    /// From this one.
    pub oldest: u16,
    /// Up to this one, `oldest <= newest`.
    pub newest: u16,
}

impl Versions {
    /// All that this build speaks.
    pub const ALL: Versions = Versions { oldest: OLDEST, newest: NEWEST };

    /// All that this build speaks up to `newest`, which is one of them.
    #[must_use]
    pub fn up_to(newest: u16) -> Versions {
        Versions { oldest: OLDEST, newest: newest.clamp(OLDEST, NEWEST) }
    }

    /// Only this one.
    #[must_use]
    pub fn only(version: u16) -> Versions {
        Versions { oldest: version, newest: version }
    }

    /// The newest that both speak; none if they do not understand each other.
    #[must_use]
    pub fn common(self, other: Versions) -> Option<u16> {
        let newest = self.newest.min(other.newest);
        (newest >= self.oldest.max(other.oldest)).then_some(newest)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.oldest == self.newest {
            write!(f, "version {}", self.newest)
        } else {
            write!(f, "versions {} to {}", self.oldest, self.newest)
        }
    }
}

/// What came after [`OLDEST`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Feature {
    /// A node that does not talk to another one says why.
    SaidRefusals,
    /// A ping says what does not change in the life of a process only where it says everything.
    ShortPings,
    /// The council's order that raises the cluster's version, and the registry that has one. The order itself is the first that is written in the version
    /// that it raises to.
    RaisedVersion,
    /// Entries say by which version they are applied, and are shorter.
    VersionedEntries,
    /// The order by which a node joins says up to which version that node speaks.
    JoinVersion,
    /// Whoever asks a leader for a read position says which ballot it has promised; and the answer says that the position is decided.
    VouchingQuestions,
    /// Reads of a node that has no state go to the leader by way of one who follows it, and vouches for it.
    CarriedThrough,
    /// The council's orders that move the votes of buckets in memory, and entries about voters that name the order which they follow.
    MovingMemories,
    /// Entries have a budget of work and of answers; past it they have done nothing.
    Budgets,
    /// A node that is at one long piece of work says so, while it cannot say anything else.
    Busy,
    /// What scripts, functions and sums of infinities answer is what a Redis 7.4 answers, where it was something else.
    AsRedis,
    /// Commands of more than 1,048,576 words.
    ManyWords,
    /// Cursors of `SCAN` and its kin are below 2^53.
    SmallCursors,
    /// The council's order that makes a database, and buckets' names that are numbers. Named buckets get numbers behind those of databases.
    Databases,
    /// The council's order that changes settings of the cluster.
    Settings,
    /// Votes of a bucket in memory move only to nodes of which most remember it.
    RememberedMoves,
    /// Entries at which replicas compare their states.
    Comparisons,
    /// The digests that they have come to.
    ToldDigests,
    /// An entry of expiry removes more keys, up to a bound of work.
    LargeExpiries,
    /// Fields of hashes and members of sets and sorted sets that are longer than keys may be.
    LongNames,
    /// An entry that was stepped over has an entry without effect in its place; and the council's order that keeps the trace of it.
    SteppedOver,
    /// Nodes tell each other how they stand to an entry that is to be stepped over.
    StandsToEntries,
    /// A ping tells a disk that is full from one that has room left for what frees some.
    LowDisks,
    /// A ping tells what its sender's clocks show.
    ToldClocks,
    /// The council's order that gives a node another address.
    Addresses,
    /// The journal's frames tell a write that a power cut broke off from damage.
    StampedSectors,
    /// The council's orders about users.
    Users,
    /// An entry brings the time of a log back that is ahead of the cluster's.
    TimeSet,
    /// The council's orders about the keys of nodes.
    NodeKeys,
    /// What the scripts of an entry may call, for users who may not do everything.
    ScriptPermits,
    /// The council's order that notes how far a node has signed its audit trail.
    TrailMarks,
    /// Nodes tell each other what nodes have signed of their folders.
    SignedClaims,
    /// Entries that have changes recorded, and the stamps of entries in states.
    Recording,
    /// Nodes without a state are told changes, with their values, by those that have one.
    FedChanges,
    /// Passwords of users under argon2id.
    HashedPasswords,
}

/// Who has to know a feature before it is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// The other end of the link.
    Link,
    /// Every node of the cluster.
    Cluster,
}

/// All features: since which version there is each, and who has to know it.
pub const FEATURES: [(Feature, u16, By); 35] = [
    (Feature::SaidRefusals, 7, By::Link),
    (Feature::ShortPings, 7, By::Link),
    (Feature::RaisedVersion, 7, By::Cluster),
    (Feature::VersionedEntries, 7, By::Cluster),
    (Feature::JoinVersion, 7, By::Cluster),
    (Feature::VouchingQuestions, 7, By::Link),
    (Feature::CarriedThrough, 7, By::Link),
    (Feature::MovingMemories, 7, By::Cluster),
    (Feature::Budgets, 8, By::Cluster),
    (Feature::Busy, 8, By::Link),
    (Feature::AsRedis, 8, By::Cluster),
    (Feature::ManyWords, 8, By::Cluster),
    (Feature::SmallCursors, 8, By::Cluster),
    (Feature::Databases, 8, By::Cluster),
    (Feature::Settings, 8, By::Cluster),
    (Feature::RememberedMoves, 8, By::Cluster),
    (Feature::Comparisons, 8, By::Cluster),
    (Feature::ToldDigests, 8, By::Link),
    (Feature::LargeExpiries, 8, By::Cluster),
    (Feature::LongNames, 8, By::Cluster),
    (Feature::SteppedOver, 8, By::Cluster),
    (Feature::StandsToEntries, 8, By::Link),
    (Feature::LowDisks, 8, By::Link),
    (Feature::ToldClocks, 8, By::Link),
    (Feature::TimeSet, 8, By::Cluster),
    (Feature::NodeKeys, 8, By::Cluster),
    (Feature::ScriptPermits, 8, By::Cluster),
    (Feature::TrailMarks, 8, By::Cluster),
    (Feature::SignedClaims, 8, By::Link),
    (Feature::StampedSectors, 8, By::Cluster),
    (Feature::Addresses, 8, By::Cluster),
    (Feature::Users, 8, By::Cluster),
    (Feature::Recording, 8, By::Cluster),
    (Feature::FedChanges, 8, By::Cluster),
    (Feature::HashedPasswords, 8, By::Cluster),
];

/// Commands on keys that came after [`OLDEST`], by their names in lower case: a node from before would find them unknown where others carry them out, and
/// its copy would be another from then on. So they are refused until the cluster has the version, and unknown in entries of earlier ones.
pub const COMMANDS: &[(&str, u16)] = &[
    ("dictum.ack", 8),
    ("dictum.attach", 8),
    ("dictum.forget", 8),
    ("dictum.named", 8),
    ("dictum.revision", 8),
    ("dictum.sub", 8),
    ("dictum.unsub", 8),
    ("pfdebug", 8),
];

impl Feature {
    /// The first version that has it.
    #[must_use]
    pub fn since(self) -> u16 {
        FEATURES.iter().find(|(feature, ..)| *feature == self).map_or(NEWEST, |(_, since, _)| *since)
    }

    /// Whether there is such a thing in this version: that of the link or that of the cluster.
    #[must_use]
    pub fn is_in(self, version: u16) -> bool {
        version >= self.since()
    }
}

/// The first version that has a command of this name.
#[must_use]
pub fn command_since(name: &str) -> u16 {
    since_in(COMMANDS, name)
}

fn since_in(table: &[(&str, u16)], name: &str) -> u16 {
    table.iter().find(|(known, _)| *known == name).map_or(OLDEST, |(_, since)| *since)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_speak_the_newest_that_both_know() {
        let range = |oldest, newest| Versions { oldest, newest };
        assert_eq!(range(6, 7).common(range(6, 6)), Some(6));
        assert_eq!(range(6, 7).common(range(7, 9)), Some(7));
        assert_eq!(range(6, 9).common(range(7, 8)), Some(8));
        assert_eq!(range(6, 7).common(range(8, 9)), None);
        assert_eq!(range(8, 9).common(range(6, 7)), None);
        assert_eq!(range(6, 7).to_string(), "versions 6 to 7");
        assert_eq!(Versions::only(6).to_string(), "version 6");
        assert_eq!((Versions::up_to(0).newest, Versions::up_to(99).newest), (OLDEST, NEWEST));
    }

    #[test]
    fn every_feature_stands_in_the_table_once_and_came_after_the_oldest_version() {
        for (feature, since, _) in FEATURES {
            assert!((OLDEST + 1..=NEWEST).contains(&since), "{feature:?}");
            assert_eq!(FEATURES.iter().filter(|(other, ..)| *other == feature).count(), 1, "{feature:?}");
            assert_eq!(feature.since(), since);
            assert!(feature.is_in(since) && !feature.is_in(since - 1));
        }
        assert!(COMMANDS.iter().all(|(_, since)| (OLDEST + 1..=NEWEST).contains(since)));
        assert_eq!(since_in(&[("new", 9)], "new"), 9);
        assert_eq!(since_in(&[("new", 9)], "old"), OLDEST);
    }
}
