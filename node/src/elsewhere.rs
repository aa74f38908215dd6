//! A partition of which this node has no state to answer from: it has no replica of it, or one that has yet to catch up. Its clients need not know: their
//! commands are carried to a node that has it, the leader.
//!
//! | of a client | becomes |
//! |---|---|
//! | a write | a forwarded one like any other, numbered here and sent until it is known to be applied; what became of it the leader tells ([`PeerMessage::Outcomes`]), or the next leader, since replies stand in the state until this node has them ([`crate::origins`]) |
//! | reads | one question, one at a time for each partition; those that arrive meanwhile are the next one. It goes to the leader by way of one who follows it and vouches for it, so that the leader need not ask whether it still leads ([`paxos::confirm`]). The leader serves them from its state as it serves its own clients', and sends the answers (`turn/guests.rs`) |
//! | waiting for a key, keeping copies, listening to what becomes of keys | what each entry changes is fed to this node for as long as anybody here wants to know (`turn/feeds.rs`) |
//!
//! Commands of one connection for one such partition keep their order in the plainest way: where reads follow writes, or writes reads, the later ones wait for the answers
//! of the earlier ones ([`crate::node::Node::turns_around`]). As this node sees no log there, nothing else could tell what came first.
//!
//! [`PeerMessage::Outcomes`]: crate::peer::PeerMessage::Outcomes

use std::time::Duration;

use base::{Ballot, NodeId, Position, Revision, Time};

use crate::door::ConnectionId;
use crate::peer::carried::{CarriedAnswer, CarriedRead, FedEntry};

/// A feed is asked for so often, and ends where it has not been for twice as long.
pub(crate) const FOLLOW_EVERY: Duration = Duration::from_millis(500);
/// A feed of which nothing was heard for so long is broken.
pub(crate) const FEED_SILENT: Duration = Duration::from_secs(2);
/// Of so many voters the leader and one other are a majority.
pub(crate) const VOTERS_TO_VOUCH: usize = 3;
/// For so long after a question got lost by the way questions go straight to the leader.
pub(crate) const STRAIGHT_FOR: Duration = Duration::from_secs(5);
/// Reads in one question.
pub(crate) const CARRIED_READS_MAX: usize = 1024;

/// Reads that were carried away and have no answer yet.
#[derive(Debug)]
pub(crate) struct Question {
    pub ticket: u64,
    /// The leader, as it was known.
    pub host: NodeId,
    /// By way of whom it went, if not straight to the leader.
    pub by: Option<NodeId>,
    /// When they were asked for first: the answers are not older.
    pub asked_at: Time,
    pub sent_at: Time,
    /// The connections, and the slots of the replies.
    pub reads: Vec<(ConnectionId, u64)>,
}

/// What changes in the partition, as the leader tells it.
#[derive(Debug)]
pub(crate) struct Following {
    pub feed: u64,
    pub leader: NodeId,
    pub asked_at: Time,
    /// When it was heard of last, and up to which entry it has told what changed; none before the first word.
    pub heard: Option<(Time, Position)>,
}

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Elsewhere {
    /// Who leads it, as the nodes say of themselves.
    pub leader: Option<(NodeId, Ballot)>,
    pub question: Option<Question>,
    /// Until then questions go straight to the leader: whoever was to pass one on did not.
    pub straight_until: Option<Time>,
    /// What clients have seen of it: no state that is older may answer them.
    pub seen: Revision,
    pub following: Option<Following>,
}

impl Elsewhere {
    /// Up to which entry the leader has told what changes; none before its first word. Whoever led before says nothing more, and that may have been less than what
    /// it had sent of its log: nobody is to wait for the rest.
    pub(crate) fn fed_until(&self, leader: NodeId) -> Option<Position> {
        let following = self.following.as_ref().filter(|following| following.leader == leader)?;
        following.heard.map(|(_, until)| until)
    }
}

/// Reads of a node that has no state, waiting for their confirmation.
#[derive(Debug)]
pub(crate) struct GuestBatch {
    pub peer: NodeId,
    pub ticket: u64,
    pub reads: Vec<CarriedRead>,
    /// Of the first ones.
    pub answers: Vec<CarriedAnswer>,
    /// Its node has given them up by then.
    pub deadline: Time,
}

/// A node that is told what changes.
#[derive(Debug)]
pub(crate) struct Follower {
    pub peer: NodeId,
    pub feed: u64,
    /// It has asked for it.
    pub wants_word: bool,
    /// Told up to here.
    pub after: Position,
    pub until: Time,
    pub entries: Vec<FedEntry>,
    pub bytes: usize,
    /// There was more than it could be told.
    pub is_torn: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_led_before_says_nothing_more() {
        let following = |heard| Following { feed: 7, leader: NodeId(4), asked_at: Time(1), heard };
        let fed = |heard, leader| Elsewhere { following: heard, ..Elsewhere::default() }.fed_until(leader);
        let heard = Some((Time(2), Position(310)));
        assert_eq!(fed(Some(following(heard)), NodeId(4)), Some(Position(310)));
        assert_eq!(fed(Some(following(None)), NodeId(4)), None);
        assert_eq!(fed(None, NodeId(4)), None);
        // This node leads itself, with a state that was sent up to 313.
        assert_eq!(fed(Some(following(heard)), NodeId(0)), None);
    }
}
