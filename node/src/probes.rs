//! Rare branches, by name: the simulator's coverage table tells how often each was reached, and which never.

/// Rare branches of this crate that the simulator must report as reached.
const NODE_PROBES: &[&str] = &[
    "node: damaged past found at start",
    "node: log behind a state that the journal does not know",
    "node: peer suspected",
    "node: stood still",
    "node: forwarded writes out of order",
    "node: snapshot received",
    "node: snapshot installed",
    "node: snapshot sent",
    "node: snapshot failed",
    "node: snapshot resumed",
    "node: snapshot throttled",
    "node: reception throttled",
    "node: movement gives way",
    "node: movement goes faster",
    "node: movement paused",
    "node: snapshot given up",
    "node: snapshot overtaken by the log",
    "node: log held for a peer",
    "node: log not held any longer",
    "node: snapshot broken off and begun again",
    "node: sent snapshot begun again",
    "node: reception not written",
    "node: flush repeated",
    "node: flushed since all partitions together had much",
    "node: all partitions together too far ahead of the store",
    "node: store too far behind",
    "node: disk full",
    "node: write outcome unknown",
    "node: write refused without a leader",
    "node: read refused without a leader",
    "node: read met an expired key",
    "node: key expired by the clock",
    "node: elements of a collection reclaimed",
    "node: writes sent again",
    "node: reads asked again",
    "node: reply from an installed snapshot",
    "node: stopped in order",
    "node: replica made",
    "node: replica made without its memory",
    "node: replica made whole under an older memory's name",
    "node: replica of a dropped bucket removed",
    "node: ephemeral bucket begins anew",
    "node: reply waited for all replicas",
    "node: write not on all replicas in time",
    "node: read waited for its token",
    "node: key evicted by fifo",
    "node: key evicted by lru",
    "node: key evicted by lfu",
    "node: key evicted by s3-fifo",
    "node: told what a follower has read",
    "node: bulletin heard before",
    "node: link does not keep up with what is published",
    "node: listeners told anew",
    "node: everything invalidated",
    "node: invalidation waited for a reply",
    "node: client waits for a key",
    "node: waiting client found something",
    "node: client waits for the end of a pause",
    "node: write looked and found nothing to do",
    "node: write looked and found something",
    "node: command of several partitions",
    "node: replica made that learns",
    "node: a node has joined",
    "node: met an unknown node",
    "node: a node of another cluster refused",
    "node: a node with an earlier copy of its folder refused",
    "node: has an earlier copy of its folder",
    "node: the cluster named",
    "node: the cluster's version raised",
    "node: an older node holds the cluster's version back",
    "node: a link in an older version",
    "node: told in which zone it is",
    "node: an earlier life outlived",
    "node: a node was removed",
    "node: a removed node was told so",
    "node: was removed",
    "node: a new map",
    "node: leaderships change hands for their load",
    "node: a node counts as absent",
    "node: an absent node is back",
    "node: nothing needs a leaving node any more",
    "node: slow",
    "node: well again",
    "node: slow leader gives way",
    "node: reads carried",
    "node: reads carried again",
    "node: served reads of a node without the state",
    "node: told what became of a write",
    "node: a replica answers itself",
    "node: told what changes elsewhere",
    "node: a feed has a gap",
    "node: a replica given up",
];

const COUNT: usize = NODE_PROBES.len() + paxos::replica::PROBES.len();

/// Every probe that exists, so that the simulator can tell which were never reached.
pub const PROBES: &[&str] = &{
    let mut all = [""; COUNT];
    let mut place = 0;
    while place < NODE_PROBES.len() {
        all[place] = NODE_PROBES[place];
        place += 1;
    }
    while place < COUNT {
        all[place] = paxos::replica::PROBES[place - NODE_PROBES.len()];
        place += 1;
    }
    all
};
