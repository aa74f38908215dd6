//! Scripts: Lua 5.1, as Redis has it, in a way that every replica comes to the same end.
//!
//! A script is one entry of the log and runs anew on every replica. So that it means the same everywhere
//! - time and chance come from the entry;
//! - what it may use up is counted in units of work and bytes, never in seconds, and garbage is collected between scripts only;
//! - nothing that it sees depends on addresses, on the machine's C library, or on the scripts that ran before (`prelude.lua`);
//! - one that breaks a limit has done nothing: whoever runs it puts back what was there ([`Host::restore`]).
//!
//! Machines are kept from script to script, as making one takes longer than most scripts do. One that has been used has strings in it that a new one
//! would have to make. Where that could decide (a limit of bytes is near), the script is run again in a new machine, and that is the outcome that counts.

mod calls;
mod cjson;
mod cmsgpack;
pub(crate) mod fuzzing;
pub(crate) mod library;
mod maths;
mod natives;
mod numbers;
mod packing;
mod patterns;
mod redis_api;
mod text;
mod values;
mod vm;

use crate::failure::Failure;
use crate::meter::Meter;
use crate::permit::Permit;
use crate::reply::Reply;
use crate::slots::Slots;
use base::versions::{Feature, NEWEST};
use cjson::JsonSettings;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use vm::{Broken, Machine};

/// Units of work that a script may take: instructions, and what else takes as long ([`Rules`]). A call of a command counts as [`CALL_INSTRUCTIONS`], and
/// what it touches.
pub const INSTRUCTIONS_MAX: u64 = 50_000_000;
/// Bytes that a script may allocate, whether or not it lets go of them again; and those, besides, that it hands to commands or has built outside of Lua.
pub const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// What a call of a command counts for.
pub const CALL_INSTRUCTIONS: u64 = 100;
/// Longest script or library, in bytes.
pub const CODE_BYTES_MAX: usize = 1024 * 1024;

/// What counts as work of a script. Entries of earlier versions go by what counted then, so that they mean what they meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rules {
    /// Instructions alone, and some library functions; strings have the hashes of Lua 5.1.
    Instructions,
    /// All that takes time.
    Work,
}

impl Rules {
    /// Those of an entry of this version.
    pub(crate) fn of(version: u16) -> Rules {
        if Feature::Budgets.is_in(version) { Rules::Work } else { Rules::Instructions }
    }
}

/// Carries out what a script calls.
pub(crate) trait Host {
    /// Carries a command out.
    fn call(&mut self, words: &[&[u8]]) -> Reply;
    /// The version by which it is run: a build that has a later command says of it what an earlier one says that has it not.
    fn version(&self) -> u16 {
        NEWEST
    }
    /// The rights of the script's user; none: it may call everything.
    fn permit(&self) -> Option<Arc<Permit>> {
        None
    }
    /// The slots whose keys it has.
    fn slots(&self) -> Slots;
    /// Whether one that may change nothing may not publish either.
    fn may_publish_nothing(&self) -> bool;
    /// Puts everything back that calls have changed.
    fn restore(&mut self);
    /// Whether what calls have cost is more than the entry, or the read, may cost: nothing that they answered counts.
    fn is_over_budget(&self) -> bool;
    /// Pays for the script's own work.
    fn pay(&mut self, units: u64);
    /// Before an attempt to run the script: what calls of an earlier one have cost is forgotten, as other replicas may have made none.
    fn begin(&mut self);
}

/// What to run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Code<'a> {
    /// A script, and its SHA1 in hexadecimal.
    Script { body: &'a [u8], sha: &'a str },
    /// A function of a library, whose SHA1 is this.
    Function { library: &'a [u8], sha: &'a str, name: &'a [u8] },
}

/// How to run it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub code: Code<'a>,
    pub keys: &'a [&'a [u8]],
    pub args: &'a [&'a [u8]],
    /// Commands that write are refused.
    pub read_only: bool,
    /// The entry's chance.
    pub seed: u64,
    pub rules: Rules,
}

thread_local! {
    /// Machines that have run scripts before, one for each kind of rules. They are no part of any state: see the head of this file.
    static USED: RefCell<[Option<Machine>; 2]> = const { RefCell::new([None, None]) };
}

/// Runs something in the used machine if there is one, and in a new one if there is none or if what came of it means nothing yet. What has broken a limit is put back.
fn with_machine<R>(
    rules: Rules,
    run: impl Fn(&mut Machine) -> Result<R, Broken>,
    mut restore: impl FnMut(),
) -> Result<R, Failure> {
    let place = usize::from(rules == Rules::Work);
    let mut attempt = |mut machine: Machine| {
        let outcome = run(&mut machine);
        if machine.tidy() {
            USED.with_borrow_mut(|used| used[place] = Some(machine));
        }
        if outcome.is_err() {
            restore();
        }
        outcome
    };
    let mut outcome = USED.with_borrow_mut(|used| used[place].take()).map(&mut attempt);
    if !matches!(outcome, Some(Ok(_) | Err(Broken::Limit(_)))) {
        let machine = Machine::new(rules).map_err(|error| internal(&error.to_string()))?;
        outcome = Some(attempt(machine));
    }
    outcome.unwrap_or_else(|| Err(Broken::Bytes)).map_err(|broken| match broken {
        Broken::Limit(failure) => failure,
        Broken::Bytes if rules == Rules::Work => OUT_OF_BYTES,
        Broken::Bytes => OUT_OF_BYTES_ONCE,
        Broken::Machine(text) => internal(&text),
    })
}

const OUT_OF_BYTES: Failure = Failure::Text(
    "ERR the script used more than 67108864 bytes; nothing that it did has happened: let several scripts do a part each",
);
/// In entries of earlier versions.
const OUT_OF_BYTES_ONCE: Failure =
    Failure::Text("ERR the script used more than 67108864 bytes; nothing that it did has happened");

fn internal(text: &str) -> Failure {
    Failure::built(format!("ERR the script could not be run: {text}").as_bytes())
}

/// Runs a script.
pub(crate) fn run(call: &Call<'_>, host: &mut dyn Host) -> Reply {
    let host = RefCell::new(host);
    let units = Cell::new(0);
    let attempt = |machine: &mut Machine| {
        let mut host = host.borrow_mut();
        host.begin();
        let outcome = machine.run(call, &mut **host);
        units.set(machine.spent());
        outcome
    };
    let outcome = with_machine(call.rules, attempt, || host.borrow_mut().restore());
    if call.rules == Rules::Work {
        host.borrow_mut().pay(units.get());
    }
    // The door that limits the work answers the refusal (`apply.rs`).
    if host.borrow().is_over_budget() {
        host.borrow_mut().restore();
    }
    outcome.unwrap_or_else(Reply::Error)
}

/// Whether a script can be read, and if not, what is wrong with it.
pub(crate) fn check(body: &[u8], rules: Rules, meter: &Meter) -> Result<(), Failure> {
    library::script_head(body)?;
    with_payment(rules, meter, |machine| machine.check(body))
}

/// The functions that a library registers.
pub(crate) fn functions_of(code: &[u8], rules: Rules, meter: &Meter) -> Result<Vec<library::Registered>, Failure> {
    with_payment(rules, meter, |machine| machine.functions_of(code))
}

/// Runs something without commands, and pays for it.
fn with_payment<R>(
    rules: Rules,
    meter: &Meter,
    run: impl Fn(&mut Machine) -> Result<Result<R, Failure>, Broken>,
) -> Result<R, Failure> {
    let units = Cell::new(0);
    let attempt = |machine: &mut Machine| {
        let outcome = run(machine);
        units.set(machine.spent());
        outcome
    };
    let outcome = with_machine(rules, attempt, || {});
    if rules == Rules::Work {
        meter.spend(units.get());
    }
    outcome?
}

/// SHA1 in hexadecimal: the name of a script.
pub(crate) fn sha1(bytes: &[u8]) -> String {
    use sha1::Digest;
    let digest = sha1::Sha1::digest(bytes);
    digest.iter().fold(String::with_capacity(40), |mut text, byte| {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
        text
    })
}

#[cfg(test)]
mod tests;
