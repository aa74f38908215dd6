//! Which bucket a connection has chosen, and what a refused choice leaves it with.
//!
//! | a client says | its bucket |
//! |---|---|
//! | nothing | the usual one: `default`, or that of the listener |
//! | `SELECT`, of a bucket that is there | that one |
//! | `AUTH` or `HELLO` with another name than before | the bucket of that name |
//! | a login with a name, behind one with a name that was refused | that of the login |
//! | `AUTH` or `HELLO` with the same name again, or a password alone | the one that it has: a library that renews its password goes on in its database |
//! | a choice that is refused, behind one that was made or behind a command on keys | the one that it has, as in a Redis |
//! | a choice that is refused, as its first | none: [`NOT_CHOSEN`], until it chooses one that is there |
//!
//! The last line is not Redis's. Some libraries tell a refused `SELECT` to a log alone, and would write to `default` from then on.

use base::BucketId;
use data::Failure;
use wire::ArgumentsRef;

use crate::commands;
use crate::council::COUNCIL;
use crate::node::Node;
use crate::router::ReadKind;
use crate::session::{Block, Session};

/// Stands for the bucket of a connection whose first choice was refused. No bucket has this number.
pub(crate) const NOT_CHOSEN: BucketId = BucketId(u32::MAX - 2);

/// Why commands on keys are refused then.
pub(crate) const NOTHING_CHOSEN: &str =
    "ERR no database is selected: the one that this connection asked for first was refused; SELECT one that is there";

const WATCHING: Failure = Failure::Text("ERR keys of the selected bucket are watched; UNWATCH them first");

/// The choices of a connection so far, beside its bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Choice {
    /// The bucket of the name that it has said to `AUTH` or `HELLO`, or the usual one.
    pub named: BucketId,
    /// It has chosen, or had a command on keys: from then on a refused choice changes nothing.
    pub is_made: bool,
    /// The node has refused the name in a login. The next login with a name corrects it, and chooses anew.
    pub is_login_refused: bool,
    /// The council was asked for the name that its waiting command says.
    pub has_asked: bool,
}

impl Choice {
    /// Of a connection that has said nothing, whose bucket is the usual one.
    pub(crate) fn usual(bucket: BucketId) -> Self {
        Self { named: bucket, is_made: false, is_login_refused: false, has_asked: false }
    }
}

impl Node {
    /// `AUTH` and `HELLO` with a name that this node does not know: the user or the bucket may have been created a moment ago, at another node. The council is
    /// asked, and the command carried out once it has answered. False if it can be carried out now.
    pub(crate) fn looks_for_user(
        &mut self,
        session: &mut Session,
        arguments: ArgumentsRef<'_>,
        words: &[&[u8]],
    ) -> bool {
        let Some((user, password)) = commands::user_said(words) else { return false };
        let has_asked = std::mem::take(&mut session.choice.has_asked);
        let is_known = match self.login(session, user, password) {
            Some((_, bucket)) => bucket.is_some(),
            // The name of a bucket with a wrong password, or of a user.
            None => self.access.get(user).is_some() || self.bucket_of_user(session, user).is_some(),
        };
        if has_asked || is_known || user.is_empty() {
            return false;
        }
        if session.aim_at(COUNCIL.bucket, arguments) {
            session.choice.has_asked = self.defers_behind_council(session, arguments);
        }
        true
    }

    /// Asks the council on behalf of a command, which is carried out once there is an answer, or none in time. The answer itself is of no interest: with it this node
    /// has followed the council up to the question. False if the question could not be asked; then the client has its answer.
    pub(crate) fn defers_behind_council(&mut self, session: &mut Session, arguments: ArgumentsRef<'_>) -> bool {
        // The question is no command of the client, and must not take the place of a reply that the client skips.
        let mode = session.reply_mode;
        let asked = self.submit_read(session, COUNCIL, ReadKind::Buckets, |_| ());
        session.reply_mode = mode;
        let Some(slot) = asked else { return false };
        session.silence(slot);
        session.deferred = Some(arguments.to_owned());
        session.block = Some(Block::Slot(slot));
        true
    }
}

impl Session {
    /// Puts it into the bucket that it has when nothing is said.
    pub(crate) fn begin_in(&mut self, bucket: BucketId) {
        self.bucket = bucket;
        self.choice = Choice::usual(bucket);
    }

    /// Turns to another bucket, from the next command on.
    ///
    /// # Errors
    /// If it watches keys of another one.
    pub(crate) fn select(&mut self, bucket: BucketId) -> Result<(), Failure> {
        self.may_select(bucket)?;
        self.has_selected(bucket);
        Ok(())
    }

    /// Whether it may turn to another bucket.
    ///
    /// # Errors
    /// If it watches keys of another one.
    pub(crate) fn may_select(&self, bucket: BucketId) -> Result<(), Failure> {
        if bucket != self.bucket && !self.watches.is_empty() { Err(WATCHING) } else { Ok(()) }
    }

    /// Turns to a bucket for which [`Self::may_select`] was asked.
    pub(crate) fn has_selected(&mut self, bucket: BucketId) {
        self.bucket = bucket;
        self.choice.is_made = true;
    }

    /// Turns to the bucket of a name that was said with a password, unless the connection has said that name before. `by_name`: a name was said, and not a password alone.
    ///
    /// # Errors
    /// If it watches keys of another one.
    pub(crate) fn select_named(&mut self, bucket: BucketId, by_name: bool) -> Result<(), Failure> {
        let corrects = by_name && self.choice.is_login_refused && self.bucket == NOT_CHOSEN;
        self.choice.is_login_refused &= !by_name;
        if bucket == self.choice.named && !corrects {
            return Ok(());
        }
        self.select(bucket)?;
        self.choice.named = bucket;
        Ok(())
    }

    /// The name in a login was refused.
    pub(crate) fn has_not_logged_in(&mut self) {
        let is_only_that = self.bucket != NOT_CHOSEN || self.choice.is_login_refused;
        self.has_not_selected();
        self.choice.is_login_refused = is_only_that && self.bucket == NOT_CHOSEN;
    }

    /// A choice was refused, or is on its way to the council: only a good answer puts it into a bucket.
    pub(crate) fn has_not_selected(&mut self) {
        self.choice.is_login_refused = false;
        if !self.choice.is_made {
            self.bucket = NOT_CHOSEN;
            if let Some(redirected) = &mut self.redirected {
                redirected.has_chosen = true;
            }
        }
    }
}
