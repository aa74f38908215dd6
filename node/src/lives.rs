//! Which lives of which nodes were heard of: so a folder is found out that was set back to an earlier copy, or that two processes have.
//!
//! A folder's identity says who it is, and not how old it is. A copy of it that is started after the node has gone on has forgotten what was promised since, and does
//! not know that. But the others know: each node says in its pings up to which number its journal is on the disk, and a start has a number above all that was on the
//! disk before. So:
//!
//! 1. Each node keeps of every other the newest *claim*: incarnation, start, journal; and passes on what it knows.
//! 2. A process whose start has a number that some other process of the same incarnation had on its disk was begun from an earlier copy (or another was begun
//!    from a copy of its own). Nobody listens to it, and it is told, as everybody is, what is known of its node.
//! 3. It stops. What it lacks it cannot know: its folder is of no use any more.
//!
//! Incarnations are a replica's matter: one that has lost its memory, and knows it, has another one (`paxos/src/recovery.rs`), and claims of different ones are
//! not compared here: a folder from before such a loss recovers ([`crate::outlived`]). (docs/decisions/2026-11-25-restored-folders.md)

use std::collections::BTreeMap;

use base::NodeId;
use wire::{Malformed, Reader, Writer};

/// What a process says of its folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Claim {
    /// That of the council's replica; 0 as long as this one has no memory that counts.
    pub incarnation: u64,
    /// Tells processes apart: drawn at each start.
    pub process: u64,
    /// The number of the start: see [`crate::entry::Life::boot`].
    pub boot: u64,
    /// Up to this number the journal is on the disk.
    pub journal: u64,
}

impl Claim {
    pub(crate) fn encode(&self, w: &mut Writer<'_>) {
        w.u64(self.incarnation);
        w.u64(self.process);
        w.varint(self.boot);
        w.varint(self.journal);
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Claim, Malformed> {
        Ok(Claim { incarnation: r.u64()?, process: r.u64()?, boot: r.varint()?, journal: r.varint()? })
    }

    /// True if `self` says more than `known`, of the same node. In one incarnation the longest journal is that of the newest life: a later start is behind all of it.
    pub(crate) fn is_news_after(&self, known: &Claim) -> bool {
        (self.incarnation, self.journal) > (known.incarnation, known.journal)
    }

    /// Whether `self` is of another process of the same folder, or of a copy, that had on its disk what `other` began without.
    pub(crate) fn outdates(&self, other: &Claim) -> bool {
        let same = self.incarnation == other.incarnation && self.incarnation != 0;
        same && self.process != other.process && self.journal >= other.boot
    }
}

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Lives {
    known: BTreeMap<NodeId, Claim>,
}

impl Lives {
    /// A node says it of itself. Whether it may be listened to.
    pub(crate) fn hear(&mut self, node: NodeId, claim: Claim) -> bool {
        if self.known.get(&node).is_some_and(|known| known.outdates(&claim)) {
            return false;
        }
        self.note(node, claim);
        true
    }

    /// Takes a claim about a node that another one tells, and that this node believes: see [`crate::testimony`].
    pub(crate) fn hear_of(&mut self, node: NodeId, claim: Claim) {
        self.note(node, claim);
    }

    fn note(&mut self, node: NodeId, claim: Claim) {
        let known = self.known.entry(node).or_default();
        if claim.incarnation > known.incarnation
            || claim.incarnation == known.incarnation && claim.journal >= known.journal && claim.incarnation != 0
        {
            *known = claim;
        }
    }

    /// Up to where a node's journal has come under this incarnation.
    pub(crate) fn journal_of(&self, node: NodeId, incarnation: u64) -> u64 {
        self.known.get(&node).filter(|claim| claim.incarnation == incarnation).map_or(0, |claim| claim.journal)
    }

    /// The newest claim about a node that was heard of; all of it 0 if none was.
    pub(crate) fn of(&self, node: NodeId) -> Claim {
        self.known.get(&node).copied().unwrap_or_default()
    }

    /// The latest incarnation of a node that was heard of; 0 if none was.
    pub(crate) fn incarnation_of(&self, node: NodeId) -> u64 {
        self.known.get(&node).map_or(0, |claim| claim.incarnation)
    }

    /// A node was removed.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.known.remove(&node);
    }

    /// All that is known, to be passed on.
    pub(crate) fn all(&self) -> Vec<(NodeId, Claim)> {
        self.known.iter().filter(|(_, claim)| claim.incarnation != 0).map(|(node, claim)| (*node, *claim)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(2);

    fn claim(process: u64, boot: u64, journal: u64) -> Claim {
        Claim { incarnation: 7, process, boot, journal }
    }

    #[test]
    fn a_node_that_starts_again_goes_on() {
        let mut lives = Lives::default();
        assert!(lives.hear(NODE, claim(1, 1, 0)));
        assert!(lives.hear(NODE, claim(1, 1, 40)));
        // What was written and not said to be on the disk may be there or not.
        assert!(lives.hear(NODE, claim(2, 41, 40)));
        assert!(lives.hear(NODE, claim(2, 41, 55)));
        // A start that was not on the disk leaves its number to the next one.
        assert!(lives.hear(NODE, claim(3, 56, 55)));
        assert!(lives.hear(NODE, claim(4, 56, 60)));
        assert!(lives.hear(NODE, claim(4, 56, 61)));
    }

    #[test]
    fn an_earlier_copy_is_found_out_by_whoever_has_heard_of_what_it_lacks() {
        let mut lives = Lives::default();
        assert!(lives.hear(NODE, claim(1, 1, 100)));
        assert!(lives.hear(NODE, claim(2, 101, 200)));
        assert!(!lives.hear(NODE, claim(3, 50, 49)), "of the life before");
        assert!(!lives.hear(NODE, claim(3, 150, 149)), "of this life");
        assert!(!lives.hear(NODE, claim(3, 200, 199)));
        assert!(lives.hear(NODE, claim(3, 201, 200)), "all that is known of was in it");
        // And by one that was told.
        let mut other = Lives::default();
        assert!(other.hear(NODE, claim(4, 150, 149)), "it does not know better");
        lives.all().into_iter().for_each(|(node, claim)| other.hear_of(node, claim));
        assert!(!other.hear(NODE, claim(4, 150, 152)));
    }

    #[test]
    fn of_two_processes_with_one_folder_one_is_refused() {
        // It goes on while its folder is copied: the copy lacks that.
        let mut lives = Lives::default();
        assert!(lives.hear(NODE, claim(1, 1, 100)));
        assert!(!lives.hear(NODE, claim(2, 91, 90)));
        assert!(lives.hear(NODE, claim(1, 1, 101)));
        // It has done nothing since: then the copy is what has all of it, and goes on.
        assert!(lives.hear(NODE, claim(2, 102, 102)));
        assert!(!lives.hear(NODE, claim(1, 1, 101)));
        assert!(claim(2, 102, 102).outdates(&claim(1, 1, 101)), "and it is told so");
        assert!(!claim(1, 1, 101).outdates(&claim(2, 102, 102)));
    }

    #[test]
    fn whoever_knows_that_it_has_lost_its_memory_is_another() {
        let mut lives = Lives::default();
        assert!(lives.hear(NODE, claim(1, 1, 100)));
        assert!(lives.hear(NODE, Claim { incarnation: 0, ..claim(2, 1, 0) }), "it has none yet");
        assert!(
            lives.hear(NODE, Claim { incarnation: 6, ..claim(2, 1, 5) }),
            "the replicas tell it that this is too low"
        );
        assert!(lives.hear(NODE, Claim { incarnation: 9, ..claim(2, 1, 6) }));
        assert_eq!(lives.all(), [(NODE, Claim { incarnation: 9, ..claim(2, 1, 6) })]);
        lives.forget(NODE);
        assert_eq!(lives.all(), []);
    }

    #[test]
    fn a_claim_is_read_as_it_is_written() {
        let mut bytes = Vec::new();
        claim(u64::MAX, 300, 1 << 40).encode(&mut Writer::new(&mut bytes));
        assert_eq!(Claim::decode(&mut Reader::from_slice(&bytes)), Ok(claim(u64::MAX, 300, 1 << 40)));
    }
}
