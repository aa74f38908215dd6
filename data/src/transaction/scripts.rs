//! Scripts inside an entry: they call commands, and if they break a limit nothing has happened.

use super::{Before, Transaction};
use crate::apply::{Published, run};
use crate::args::parse_integer;
use crate::blob::Blob;
use crate::commands;
use crate::failure::Failure;
use crate::permit::{OWN_COMMANDS, Permit};
use crate::reply::Reply;
use crate::script::Host;
use crate::slots::Slots;
use crate::spec::Flags;
use base::versions::Feature;
use base::{Rng, WallTime};
use std::sync::Arc;

/// What a script runs on. What it has done stays, unless [`Host::restore`] is called.
pub(crate) struct Scripted<'s, 't> {
    transaction: &'s mut Transaction<'t>,
    /// What there was before its first command that writes.
    before: Option<Before>,
    rng: Rng,
    /// Units of work that the entry had spent before the script.
    spent: u64,
    /// How many calls of earlier scripts of the entry are noted.
    called: usize,
}

impl<'s, 't> Scripted<'s, 't> {
    pub(crate) fn new(transaction: &'s mut Transaction<'t>) -> Scripted<'s, 't> {
        let rng = transaction.rng.clone();
        let spent = transaction.meter().spent();
        transaction.in_script = true;
        let called = transaction.tree.called.len();
        Scripted { transaction, before: None, rng, spent, called }
    }

    /// Remembers how everything is, to be put back.
    fn remember(&mut self) {
        if self.before.is_none() {
            self.before = Some(self.transaction.begin_undo());
        }
    }
}

impl Drop for Scripted<'_, '_> {
    fn drop(&mut self) {
        self.transaction.in_script = false;
        if let Some(before) = self.before.take() {
            self.transaction.keep(before);
        }
    }
}

/// Answers what a script may ask of the server itself, alike on every replica; `None` if it is no such command.
pub(crate) fn own_command(words: &[&[u8]], time: WallTime) -> Option<Reply> {
    let is = |name: &str| words[0].eq_ignore_ascii_case(name.as_bytes());
    let wrong = Failure::Text("ERR Wrong number of args calling Redis command from script");
    Some(match words.len() {
        1 if is("PING") => Reply::Simple("PONG"),
        2 if is("PING") => Reply::bulk(words[1]),
        1 if is("TIME") => {
            let (seconds, micros) = (time.0 / 1000, time.0 % 1000 * 1000);
            Reply::Array([seconds, micros].map(|number| Reply::bulk(number.to_string())).into())
        }
        2 if is("ECHO") => Reply::bulk(words[1]),
        2 if is("SELECT") => match parse_integer(words[1]) {
            Some(0) => Reply::Ok,
            Some(_) => Reply::Error(Failure::Text("ERR a script stays in its bucket")),
            None => Reply::Error(Failure::Text("ERR invalid DB index")),
        },
        _ if ["PING", "TIME", "ECHO", "SELECT"].iter().any(|name| is(name)) => Reply::Error(wrong),
        _ => return None,
    })
}

/// Whether scripts may call this though it is no command on keys.
pub(crate) fn is_own(name: &[u8]) -> bool {
    OWN_COMMANDS.iter().any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
}

impl Host for Scripted<'_, '_> {
    fn call(&mut self, words: &[&[u8]]) -> Reply {
        self.transaction.tree.called.note(words);
        let entry = commands::lookup(words[0]).filter(|entry| self.transaction.knows(entry));
        if let Err(failure) = self.transaction.tree.under_way.check(entry, words, self.transaction.meter()) {
            return Reply::Error(failure);
        }
        let Some(entry) = entry else {
            if let Some(reply) = own_command(words, self.transaction.time()) {
                return reply;
            }
            let sharded = words[0].eq_ignore_ascii_case(b"SPUBLISH");
            if !sharded && !words[0].eq_ignore_ascii_case(b"PUBLISH") {
                return Reply::Error(Failure::Text("ERR Unknown Redis command called from script"));
            }
            let [_, channel, message] = words else {
                return Reply::Error(Failure::Text("ERR Wrong number of args calling Redis command from script"));
            };
            self.remember();
            let (channel, message) = (Blob::new(channel), Blob::new(message));
            self.transaction.published.push(Published { sharded, channel, message });
            // How many listen is not the same on every replica.
            return Reply::Integer(0);
        };
        if entry.is_write() {
            self.remember();
            let limit = self.transaction.value_bytes_max as usize;
            if entry.spec.flags.has(Flags::DENYOOM) && words.iter().any(|word| word.len() > limit) {
                return Reply::Error(Failure::ValueTooLong);
            }
        }
        run(self.transaction, words)
    }

    fn version(&self) -> u16 {
        self.transaction.version
    }

    fn permit(&self) -> Option<Arc<Permit>> {
        self.transaction.tree.under_way.permit()
    }

    fn slots(&self) -> Slots {
        self.transaction.slots
    }

    fn may_publish_nothing(&self) -> bool {
        Feature::AsRedis.is_in(self.transaction.version)
    }

    fn restore(&mut self) {
        if let Some(before) = self.before.take() {
            self.transaction.undo(before);
        }
        self.transaction.rng = self.rng.clone();
    }

    fn is_over_budget(&self) -> bool {
        self.transaction.meter().is_over()
    }

    fn pay(&mut self, units: u64) {
        self.transaction.meter().spend(units);
    }

    fn begin(&mut self) {
        self.transaction.meter().rewind(self.spent);
        self.transaction.tree.called.forget_since(self.called);
    }
}
