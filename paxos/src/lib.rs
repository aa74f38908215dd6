//! One replicated log, decided by Multi-Paxos. Knows no clock, disk, network or keys.
//!
//! # The protocol in one page
//! A **ballot** is a leadership. A replica that wants to lead makes sure that a majority would have it
//! ([`election`]: pre-vote), then asks all to promise its ballot (phase 1, once for the whole tail of the log).
//! Each promise says how far that log reaches; the candidate fetches what the greatest tail among a majority has
//! and it has not ([`catchup`]; without a majority it fetches the greatest that it was told of, which may say who
//! else votes), and then leads: it appends an **opening entry** under its ballot, and its
//! followers make their logs like its own ([`proposer`], [`acceptor`]).
//!
//! An entry keeps the ballot under which it was first proposed, so (position, ballot) names an entry and all
//! before it. To accept an entry of ballot *b* is to accept under *b* everything before it, which is how the
//! adopted tail is proposed anew without being sent anew. A leader counts copies only from its opening entry on:
//! an entry is **decided** when a majority has it on disk and the opening entry lies at or before it.
//!
//! Why no decided entry is lost: what ballot *b* decided is on the disks of a majority, in logs whose tail is at least *b*.
//! The next leader's promises come from a majority, so one of them comes from such a log; the candidate takes the greatest
//! tail, and by induction over ballots every log with a tail of *b* or more has the entry.
//!
//! Reads are confirmed in rounds ([`confirm`]): a majority that has promised nothing higher. A replica that cannot
//! prove what it promised or accepted does not vote until a majority has told it enough ([`recovery`]). Where nothing
//! happens nothing is said ([`rest`]). Who votes is an entry of the log, too ([`members`]);
//! those without a vote follow, or give up what they have ([`learners`]).
//!
//! # The door
//! [`Replica::step`] takes an [`Input`] and pushes [`Output`]s. What must be on disk before a message leaves is
//! in the type of the output; there is no other mode.

pub mod acceptor;
pub mod catchup;
pub mod confirm;
pub mod door;
pub mod election;
pub mod far;
pub mod handover;
pub mod learners;
pub mod log;
pub mod members;
pub mod message;
pub mod proposer;
pub mod recovery;
pub mod replace;
pub mod replica;
pub mod rest;

pub use confirm::Answer;
pub use door::{Config, HardState, Input, Output, Planted, Record, Restored, Token};
pub use log::Log;
pub use members::{Member, Members, Membership, Roster};
pub use message::{Entry, Knowledge, Leading, Message, Tail};
pub use replica::{Replica, RoleName};
