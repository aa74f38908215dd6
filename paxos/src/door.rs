//! The replica's one door: inputs, outputs, and what must survive a crash.

use std::sync::Arc;
use std::time::Duration;

use base::{Ballot, NodeId, Position};
use bytes::Bytes;

use crate::log::Log;
use crate::members::{Members, Membership, Roster};
use crate::message::{Entry, Message};

/// What a replica is told once.
#[derive(Clone, Debug)]
pub struct Config {
    /// This replica's node.
    pub me: NodeId,
    /// The voters that the group is founded with, sorted. Later ones stand in the log: see [`crate::members`].
    pub founders: Vec<NodeId>,
    /// The founders go to the disk with everything else: the owner may not know them when it starts again.
    pub stores_founders: bool,
    /// Where the disk has nothing: this replica is new in a group that others have founded, and learns. Otherwise it is a founder.
    pub joins: bool,
    /// Who shall lead when all is well; further voters follow in circular order. See [`Input::Roster`].
    pub preferred: NodeId,
    /// Seed of the jitter that keeps candidates from running at once.
    pub seed: u64,
    /// How often a leader with nothing to say speaks, and how often unanswered questions are asked again.
    pub heartbeat: Duration,
    /// How long a candidate waits for a majority before it tries again.
    pub candidacy: Duration,
    /// How long the preferred replica must have been up before leadership moves back to it.
    pub settle: Duration,
    /// Most bytes of entries proposed and not yet decided, and at a follower of those that are not on its disk. As much, but no more than
    /// [`base::limits::LOG_BYTES_KEPT`], is kept for followers that are a little behind.
    pub undecided_bytes_max: usize,
    /// A replica that has lost its memory and recovered it does not vote before [`crate::Replica::let_vote`]: its owner keeps account of who
    /// has memory.
    pub asks_to_vote: bool,
    /// Breaks a rule, to prove that the simulator notices.
    pub planted: Option<Planted>,
}

/// Rules of this crate that the simulator can have broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// The leader counts its own copy of an entry before it is on its disk.
    CountUnsyncedSelf,
    /// A follower cuts its log wherever a leader's message ends, decided or not.
    TruncateDecided,
    /// A group is never joint: the new voters decide alone as soon as they are named.
    VotersChangeAtOnce,
    /// Whoever asks whether it may begin anew is told that it may, whatever vote it has.
    LeavesTooSoon,
    /// A replica promises whatever round it is asked for.
    AnyRound,
}

/// Something that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// A message arrived.
    Message {
        /// From which node.
        from: NodeId,
        /// What it says.
        message: Message,
    },
    /// Append this to the log. Ignored unless [`crate::Replica::can_propose`].
    Propose {
        /// Opaque.
        payload: Bytes,
    },
    /// Everything up to this token is on disk.
    Persisted {
        /// The token of an [`Output::Persist`].
        token: Token,
    },
    /// What the failure detector thinks of a node that has a replica, or may get one, and what that last said of itself. May be given at any
    /// time, and is given whenever it changes. Nodes of which nothing was ever said are not listened to, unless they vote.
    Peer {
        /// The node.
        peer: NodeId,
        /// Whether both hear each other.
        up: bool,
        /// The ballot under which the peer says that it leads.
        leads: Option<Ballot>,
        /// What it says of its rest: [`crate::Replica::rests`].
        rests: Option<(Ballot, Position)>,
    },
    /// Give the leadership to somebody else: to the preferred replica if it can, or to the best.
    HandOver,
    /// Begin anew, without a log, as a replica that has never had a vote: as soon as the leader says that nothing depends on what this one has. Followed by
    /// [`Output::Left`], or by nothing: then it is asked for again.
    Leave,
    /// Others take it for a replica that may have promised and accepted what this one knows nothing of: it recovers before it votes, and then asks whether it may
    /// ([`Config::asks_to_vote`]).
    Lost,
    /// Others know a later incarnation of this replica: its folder was away, and another one has recovered, or begun to, in its place. What that one has promised
    /// this one does not know, and no candidate who knows of it counts a promise of this one. It recovers before it votes. Nothing happens unless it has a
    /// vote and follows a leader, who decides without it meanwhile: then it is to be given again.
    Outlived,
    /// The owner's state is not that of the others: give up all that there is, and recover as a replica that has lost its memory. Followed by [`Output::Left`]; by nothing
    /// unless it follows a leader and has a vote.
    Discard,
    /// Who shall have a replica and a vote from now on. It is not stored: whoever leads needs to be told.
    Roster(Roster),
    /// A snapshot up to `position` is on this node's disk: the log may be cut, keeping `keep` entries.
    SnapshotTaken {
        /// The last position that it covers.
        position: Position,
        /// How many entries to keep for followers.
        keep: u64,
    },
    /// A snapshot from a peer is on this node's disk and is the state from now on.
    SnapshotInstalled {
        /// The last position that it covers.
        position: Position,
        /// The ballot of the entry there.
        ballot: Ballot,
        /// Who votes, by the last entry that it covers that says so; none if there is none.
        members: Option<Members>,
    },
    /// Send what was gathered; once in a turn or more often, and then [`crate::Replica::end_turn`].
    Flush,
}

/// Numbers what was given to the disk; grows by one with each [`Output::Persist`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Token(pub u64);

/// What the owner shall do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Put this on disk, after everything before it; then say [`Input::Persisted`].
    Persist {
        /// Names it.
        token: Token,
        /// What.
        record: Record,
    },
    /// Send at once.
    Send {
        /// To whom.
        to: NodeId,
        /// What.
        message: Message,
    },
    /// Send, but not before everything up to `token` is on disk.
    SendAfter {
        /// What must be on disk first.
        token: Token,
        /// To whom.
        to: NodeId,
        /// What.
        message: Message,
    },
    /// The peer needs a snapshot: what it lacks is not in the log any more.
    SendSnapshot {
        /// To whom.
        to: NodeId,
    },
    /// All reads that were waiting for this round or an earlier one are confirmed.
    Confirmed {
        /// The round.
        round: u64,
    },
    /// The disk had lost decided entries, and peers have given them back: a snapshot should be taken soon.
    Repaired,
    /// This replica has begun anew: nothing of its log is needed, nor of the state, and nothing that waits to be sent is true any more.
    Left,
    /// What an operator should know.
    Event(String),
    /// A rule that must hold does not. The node must not go on.
    Fatal(String),
}

/// What goes to the journal. Replayed in order, records rebuild the replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// Only the [`HardState`] has changed. (It accompanies every record anyway.)
    State,
    /// The log now ends with `entries` right after `previous`; whatever was there before is replaced.
    Append {
        /// The position before the first entry.
        previous: Position,
        /// The entries.
        entries: Vec<Entry>,
    },
    /// The log begins anew after `position`, which a snapshot on disk covers.
    Reset {
        /// The last covered position.
        position: Position,
        /// The ballot of the entry there.
        ballot: Ballot,
        /// The last entry that the log held behind it and keeps; `position` if none. What the disk holds of the log may not tell
        /// by itself: the entry at `position` may be gone from it.
        last: Position,
    },
    /// The entry at `position`, which is decided, has this payload from now on; its ballot stays. See [`crate::Replica::replace`].
    Replace {
        /// Where it stands.
        position: Position,
        /// In the place of the former.
        payload: Bytes,
    },
}

/// What a replica must never forget. The owner stores the current one with every batch of records.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HardState {
    /// No ballot below this is obeyed.
    pub promised: Ballot,
    /// Known to be decided. May lag behind the truth.
    pub decided: Position,
    /// Which life of this replica's memory this is. Grows when the memory is lost.
    pub incarnation: u64,
    /// The highest known incarnation of each node, in the order of their numbers, 0 where none is known; empty until the group is founded,
    /// and in a replica that has never voted.
    pub incarnations: Vec<u64>,
    /// The replica has lost memory and has not yet recovered: it must not vote.
    pub recovering: bool,
    /// See [`crate::Replica::forgotten_until`]; none before a loss has been recovered.
    pub forgotten_until: Option<Position>,
    /// The replica has never had a vote.
    pub joins: bool,
    /// Who votes; none while it is the founders, and these are known ([`Config::stores_founders`]).
    pub membership: Option<Arc<Membership>>,
}

/// What the disk remembered.
#[derive(Debug, Default)]
pub struct Restored {
    /// The last stored state; none on an empty folder.
    pub state: Option<HardState>,
    /// The log, with a hole where decided entries were lost.
    pub log: Log,
    /// The disk cannot prove that it holds everything this replica ever promised or accepted.
    pub unprovable: bool,
    /// This folder's incarnation, drawn when it was made.
    pub incarnation: u64,
    /// The last position that the snapshot covers: applied, so decided.
    pub applied: Position,
    /// Who votes by the snapshot, as of `applied`; none without one, or while it is the founders.
    pub members: Option<Members>,
}
