//! What replicas of one partition say to each other. Any message may be lost, repeated, delayed or overtaken.

use base::{Ballot, Position};
use bytes::Bytes;

use crate::members::Members;

/// One unit of the log.
///
/// The ballot is that of the leader who first proposed it and never changes, so (position, ballot) names
/// the entry and, with it, everything before it: two logs that agree there agree up to there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Under which leadership the entry was first proposed.
    pub ballot: Ballot,
    /// Opaque to this crate. Empty in the entry that opens a leadership.
    pub payload: Bytes,
}

impl Entry {
    /// What the entry counts for in limits, in bytes: the payload and a constant for what goes around it.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.payload.len() + 32
    }
}

/// How far a log reaches. Compared by the last entry's ballot first: the greater tail has seen more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Tail {
    /// The ballot of the last entry.
    pub ballot: Ballot,
    /// Its position.
    pub last: Position,
}

/// A message from one replica of a partition to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// "Would you promise this ballot?" Asks without changing anything, so that a replica that cannot win
    /// does not disturb a leader that works.
    PreVote {
        /// The ballot that the sender would run for.
        ballot: Ballot,
    },
    /// The answer to [`Message::PreVote`].
    PreVoteReply {
        /// The ballot that was asked for.
        ballot: Ballot,
        /// Whether the sender would promise it now.
        granted: bool,
        /// What the sender has promised, so that a refused candidate can choose a higher round.
        promised: Ballot,
        /// How far the sender's log reaches.
        tail: Tail,
    },
    /// Phase 1a, once per leadership, for the whole tail of the log.
    Prepare {
        /// The ballot to promise.
        ballot: Ballot,
    },
    /// Phase 1b. Sent after the promise is on disk.
    Promise {
        /// The promised ballot.
        ballot: Ballot,
        /// How far the sender's log reaches. The candidate fetches what it lacks.
        tail: Tail,
        /// The sender's incarnation when it promised.
        incarnation: u64,
        /// The incarnations that the sender knows, as in [`crate::HardState::incarnations`]: a promise by an earlier
        /// incarnation of a replica that has since lost its memory does not count. Empty: the sender has never voted.
        incarnations: Vec<u64>,
    },
    /// "I have promised a higher ballot." The answer to whatever comes under a lower one.
    Refuse {
        /// What the sender has promised.
        promised: Ballot,
    },
    /// Phase 2a for `entries`, which follow `previous`. Without entries: a sign of life and a question
    /// whether the logs agree.
    Accept {
        /// The leader's ballot.
        ballot: Ballot,
        /// The position before the first entry.
        previous: Position,
        /// The ballot of the entry there.
        previous_ballot: Ballot,
        /// What to accept.
        entries: Vec<Entry>,
        /// Everything up to here is decided.
        decided: Position,
    },
    /// Phase 2b: the sender's log agrees with the leader's up to `last`, and all of that is on its disk.
    Accepted {
        /// The leader's ballot.
        ballot: Ballot,
        /// Up to where.
        last: Position,
    },
    /// The sender's log agrees with the leader's up to `last`, but its disk has stood still for a while and does not have
    /// all of that. Counts towards nothing: it lets the leader go on sending, so that a replica with a slow or full disk
    /// still learns what is decided and can serve reads.
    Held {
        /// The leader's ballot.
        ballot: Ballot,
        /// Up to where.
        last: Position,
    },
    /// What is decided, for a follower that waits for it and would otherwise learn it with the next entries.
    Decided {
        /// The leader's ballot.
        ballot: Ballot,
        /// Everything up to here is decided.
        decided: Position,
    },
    /// The sender's log does not hold what an [`Message::Accept`] follows.
    Mismatch {
        /// The leader's ballot.
        ballot: Ballot,
        /// The position that did not agree.
        previous: Position,
        /// The last position of the sender's log.
        last: Position,
        /// What the sender knows to be decided: there the logs agree for certain.
        decided: Position,
    },
    /// "Am I still the leader?" One round serves every read that waits.
    Confirm {
        /// The leader's ballot.
        ballot: Ballot,
        /// Counts this leader's rounds.
        round: u64,
    },
    /// "Nobody with a higher ballot has asked me."
    Confirmed {
        /// The leader's ballot.
        ballot: Ballot,
        /// The round.
        round: u64,
    },
    /// Asks for entries: by a candidate that lacks what a promise told of, or by a replica whose disk lost
    /// decided ones.
    Fetch {
        /// The candidate's ballot; none when only decided entries are wanted.
        ballot: Option<Ballot>,
        /// The position before the first wanted one.
        previous: Position,
        /// The ballot of the sender's entry there.
        previous_ballot: Ballot,
        /// What the sender knows to be decided: there the logs agree for certain.
        decided: Position,
        /// The last wanted position.
        until: Position,
    },
    /// The answer to [`Message::Fetch`], as much as one message takes.
    Fetched {
        /// The ballot of the request.
        ballot: Option<Ballot>,
        /// The position before the first entry.
        previous: Position,
        /// The ballot of the entry there.
        previous_ballot: Ballot,
        /// The entries.
        entries: Vec<Entry>,
    },
    /// The leader gives its leadership to the receiver, whose log is complete.
    HandOver {
        /// The leader's ballot.
        ballot: Ballot,
    },
    /// "I have no vote; this is the memory that I learn with."
    Learns {
        /// The leader's ballot.
        ballot: Ballot,
        /// The sender's incarnation.
        incarnation: u64,
    },
    /// From a replica without a vote to the leader that it follows: it would begin anew, without a log, and not as the one that it is.
    Leaves {
        /// The leadership that it follows.
        ballot: Ballot,
        /// As whom it has learned, or voted.
        incarnation: u64,
    },
    /// The leader's answer: it may, and is nobody any more until it says as whom it learns.
    Left {
        /// As in the question.
        ballot: Ballot,
        /// As in the question.
        incarnation: u64,
        /// Who votes, as is decided.
        members: Box<Members>,
    },
    /// Asked by a replica that has no memory, or cannot prove that it has all of it.
    Recover {
        /// The sender's incarnation.
        incarnation: u64,
        /// The sender's folder was empty: perhaps it is new, perhaps it was emptied.
        blank: bool,
    },
    /// The answer to [`Message::Recover`].
    RecoverReply {
        /// The incarnation that asked.
        incarnation: u64,
        /// What the sender knows.
        knowledge: Knowledge,
    },
}

/// What a replica can tell one that has no memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Knowledge {
    /// "I am blank too; this is my incarnation."
    Blank {
        /// The sender's incarnation.
        incarnation: u64,
    },
    /// "You have not voted yet: the group was founded with this incarnation of yours."
    Original {
        /// The incarnations that the sender knows, by the nodes' numbers.
        incarnations: Vec<u64>,
    },
    /// "I have lost memory myself and am recovering." Told to blank replicas only, which shall not wait for more.
    Amnesiac,
    /// "I know another incarnation of you: you have lost your memory. Come back with a higher one."
    Lost {
        /// The highest incarnation of the asking replica that the sender knows.
        known: u64,
    },
    /// "I have noted your new incarnation, on disk. This is what I have promised."
    Noted {
        /// The sender's promise.
        promised: Ballot,
        /// The incarnations that the sender knows, by the nodes' numbers.
        incarnations: Vec<u64>,
        /// If the sender leads: what it has.
        leads: Option<Leading>,
        /// Who votes by the sender's log; none while it is the founders.
        members: Option<Box<Members>>,
    },
}

/// What a leader has, when it is asked by one that has no memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Leading {
    /// The ballot under which it leads.
    pub ballot: Ballot,
    /// The end of its log.
    pub last: Position,
    /// The end of what anybody can know to be decided by then: what it knows itself, and what it had before its opening entry.
    pub knowable: Position,
}
