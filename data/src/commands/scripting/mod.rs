//! Scripts and functions: how they are called, and how they are kept.

pub mod eval;
pub mod fcall;
pub mod function;
pub mod script;

use crate::commands::prelude::*;
use crate::permit::Permit;
use crate::script::{Call, Code, Host, Rules, run};
use crate::slots::Slots;
use crate::transaction::{Scripted, own_command};
use std::sync::Arc;

/// The keys of a script: counted by the second argument.
pub(crate) const KEYS: Keys = Keys::Counted { count: 2, first: 3, step: 1 };

/// What all calls of scripts may do.
pub(crate) const FLAGS: Flags =
    Flags::WRITE.and(Flags::RUNS).and(Flags::GROWS).and(Flags::NOSCRIPT).and(Flags::MOVABLE_KEYS);
/// The same of those that only read.
pub(crate) const READ_FLAGS: Flags = Flags::READONLY.and(Flags::RUNS).and(Flags::NOSCRIPT).and(Flags::MOVABLE_KEYS);

/// The arguments behind what is called: keys, and others.
pub(crate) struct Words<'a> {
    pub keys: &'a [&'a [u8]],
    pub args: &'a [&'a [u8]],
}

impl<'a> Words<'a> {
    pub(crate) fn parse(args: Args<'a>) -> Result<Words<'a>, Failure> {
        let count = args.integer(2)?;
        let rest = args.from(3);
        if count > rest.len() as i64 {
            return Err(Failure::Text("ERR Number of keys can't be greater than number of args"));
        }
        let count = usize::try_from(count).map_err(|_| Failure::Text("ERR Number of keys can't be negative"))?;
        let (keys, args) = rest.split_at(count);
        Ok(Words { keys, args })
    }
}

/// Runs code in an entry.
pub(crate) fn run_in(tx: &mut Transaction<'_>, code: Code<'_>, words: &Words<'_>, read_only: bool) -> Reply {
    let seed = tx.rng().next_u64();
    let rules = Rules::of(tx.version());
    let call = Call { code, keys: words.keys, args: words.args, read_only, seed, rules };
    run(&call, &mut Scripted::new(tx))
}

/// Runs code on a view, where nothing can be changed.
pub(crate) fn run_on(view: &View<'_>, code: Code<'_>, words: &Words<'_>) -> Reply {
    let seed = view.rng().next_u64();
    // A read is no part of the log: it goes by the newest rules.
    let call = Call { code, keys: words.keys, args: words.args, read_only: true, seed, rules: Rules::Work };
    view.set_in_script(true);
    let (spent, called) = (view.meter().spent(), view.tree().called().len());
    let reply = run(&call, &mut Reading { view, spent, called });
    view.set_in_script(false);
    reply
}

/// What a script that only reads runs on.
struct Reading<'s, 'v> {
    view: &'s View<'v>,
    /// Units of work that the read had spent before the script.
    spent: u64,
    /// How many calls of earlier scripts of the read are noted.
    called: usize,
}

impl Host for Reading<'_, '_> {
    fn call(&mut self, words: &[&[u8]]) -> Reply {
        self.view.tree().called().note(words);
        // What the script has of it, its own limit of bytes counts.
        self.view.meter().next_answer();
        let entry = crate::commands::lookup(words[0]);
        if let Err(failure) = self.view.tree().under_way.check(entry, words, self.view.meter()) {
            return Reply::Error(failure);
        }
        match entry {
            Some(_) => crate::apply::read_on(self.view, words),
            None if ["PUBLISH", "SPUBLISH"].iter().any(|name| words[0].eq_ignore_ascii_case(name.as_bytes())) => {
                Reply::Error(Failure::Text("ERR Write commands are not allowed from read-only scripts."))
            }
            None => own_command(words, self.view.time())
                .unwrap_or(Reply::Error(Failure::Text("ERR Unknown Redis command called from script"))),
        }
    }

    fn permit(&self) -> Option<Arc<Permit>> {
        self.view.tree().under_way.permit()
    }

    fn slots(&self) -> Slots {
        self.view.slots()
    }

    fn may_publish_nothing(&self) -> bool {
        true
    }

    fn restore(&mut self) {}

    fn is_over_budget(&self) -> bool {
        self.view.meter().is_over()
    }

    fn pay(&mut self, units: u64) {
        self.view.meter().spend(units);
    }

    fn begin(&mut self) {
        self.view.meter().rewind(self.spent);
        self.view.tree().called().forget_since(self.called);
    }
}
