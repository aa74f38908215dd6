//! What functions of ours that Lua calls have in common: how they answer, what they read their arguments with, and what they spend.

use super::{JsonSettings, Rules};
use crate::permit::Permit;
use base::Rng;
use base::versions::NEWEST;
use mlua::{Error, Function, Lua, LuaString, MultiValue, Table, Value, Variadic};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// A limit that a script may break.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Limit {
    /// [`super::INSTRUCTIONS_MAX`].
    Instructions,
    /// [`super::BYTES_MAX`].
    Bytes,
    /// It goes through keys in an order that differs from replica to replica.
    Order,
}

/// What a machine and its functions share.
#[derive(Debug)]
pub(super) struct Shared {
    /// What counts.
    rules: Rules,
    /// Units of work that are left: instructions, and what counts as much.
    instructions: Cell<u64>,
    /// Bytes that may still be handed to commands or be built outside of Lua.
    bytes: Cell<u64>,
    /// What Lua may have in use while a script's own code runs, in bytes.
    pub memory_limit: Cell<usize>,
    pub broken: Cell<Option<Limit>>,
    pub rng: RefCell<Rng>,
    pub resp3: Cell<bool>,
    pub json: Cell<JsonSettings>,
    /// The version by which the script is run, and what it may call.
    pub version: Cell<u16>,
    pub permit: RefCell<Option<Arc<Permit>>>,
}

/// Why a function of ours does not answer.
pub(super) enum Refusal {
    /// An error for the script, raised where it called.
    Text(String),
    /// The script ends.
    Lua(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Lua(error)
    }
}

impl From<String> for Refusal {
    fn from(text: String) -> Refusal {
        Refusal::Text(text)
    }
}

impl From<&str> for Refusal {
    fn from(text: &str) -> Refusal {
        Refusal::Text(text.to_owned())
    }
}

/// What a function of ours answers.
pub(super) type Answer = Result<Vec<Value>, Refusal>;

/// A function of ours.
pub(super) type Call = fn(&Shared, &Arguments<'_>) -> Answer;

impl Shared {
    pub(super) fn new(rules: Rules) -> Shared {
        Shared {
            rules,
            instructions: Cell::new(0),
            bytes: Cell::new(0),
            memory_limit: Cell::new(0),
            broken: Cell::new(None),
            rng: RefCell::new(Rng::new(0)),
            resp3: Cell::new(false),
            json: Cell::new(JsonSettings::default()),
            version: Cell::new(NEWEST),
            permit: RefCell::new(None),
        }
    }

    /// Before a script: nothing is left of the one before.
    pub(super) fn reset(&self, instructions: u64, bytes: u64, seed: u64) {
        self.instructions.set(instructions);
        self.bytes.set(bytes);
        self.broken.set(None);
        *self.rng.borrow_mut() = Rng::new(seed);
        self.resp3.set(false);
        self.json.set(JsonSettings::default());
        self.version.set(NEWEST);
        self.permit.take();
    }

    /// Breaks a limit: an error that nothing catches.
    pub(super) fn break_limit(&self, limit: Limit) -> Error {
        if self.broken.get().is_none() {
            self.broken.set(Some(limit));
        }
        Error::runtime("a limit is broken")
    }

    /// Whether work counts, and not only what counted before there were budgets.
    pub(super) fn is_metered(&self) -> bool {
        self.rules == Rules::Work
    }

    /// Counts what a function of ours does and what did not count before there were budgets. A unit stands for some twenty nanoseconds: an
    /// instruction, 16 bytes copied, 8 looked at one by one, a third of a value that goes from Lua to Rust or back. What counts and how much is told to users in
    /// docs/scripts.md.
    pub(super) fn work(&self, units: usize) -> Result<(), Error> {
        if self.is_metered() { self.spend(units as u64) } else { Ok(()) }
    }

    /// So many instructions were carried out.
    pub(super) fn spend(&self, instructions: u64) -> Result<(), Error> {
        let left = self.instructions.get().checked_sub(instructions);
        self.instructions.set(left.unwrap_or(0));
        if left.is_none() || self.broken.get().is_some() {
            return Err(self.break_limit(Limit::Instructions));
        }
        Ok(())
    }

    /// All units of work are there again.
    pub(super) fn refill(&self, instructions: u64) {
        self.instructions.set(instructions);
    }

    pub(super) fn instructions_left(&self) -> u64 {
        self.instructions.get()
    }

    /// So many bytes were handed out or built.
    pub(super) fn spend_bytes(&self, bytes: usize) -> Result<(), Error> {
        let left = self.bytes.get().checked_sub(bytes as u64);
        self.bytes.set(left.unwrap_or(0));
        if left.is_none() { Err(self.break_limit(Limit::Bytes)) } else { Ok(()) }
    }

    /// Whether what a script caught comes from a limit.
    pub(super) fn is_broken(&self, caught: &Value) -> bool {
        let out_of_memory = match caught {
            Value::Error(error) => is_memory(error),
            Value::String(text) => &*text.as_bytes() == b"not enough memory",
            _ => false,
        };
        if out_of_memory {
            let _ = self.break_limit(Limit::Bytes);
        }
        self.broken.get().is_some()
    }
}

/// Whether memory ran out, however deep that is told.
pub(super) fn is_memory(error: &Error) -> bool {
    match error {
        Error::MemoryError(_) => true,
        Error::CallbackError { cause, .. } => is_memory(cause),
        Error::RuntimeError(text) => text.starts_with("not enough memory"),
        other => other.to_string().contains("not enough memory"),
    }
}

/// Arguments of a function that Lua calls by `name`.
pub(super) struct Arguments<'a> {
    pub lua: &'a Lua,
    pub shared: &'a Shared,
    pub name: &'static str,
    pub values: &'a [Value],
}

impl Arguments<'_> {
    fn bad(&self, index: usize, expected: &str) -> Refusal {
        let got = self.values.get(index).map_or("no value", type_name);
        self.bad_because(index, &format!("{expected} expected, got {got}"))
    }

    /// The error that Lua's own functions raise.
    pub(super) fn bad_because(&self, index: usize, why: &str) -> Refusal {
        Refusal::Text(format!("bad argument #{} to '{}' ({why})", index + 1, self.name))
    }

    /// A string; a number is one, too.
    pub(super) fn text(&self, index: usize) -> Result<LuaString, Refusal> {
        match self.values.get(index) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(value @ (Value::Integer(_) | Value::Number(_))) => {
                self.lua.coerce_string(value.clone())?.ok_or_else(|| self.bad(index, "string"))
            }
            _ => Err(self.bad(index, "string")),
        }
    }

    /// A number; a string that reads as one is one, too.
    pub(super) fn number(&self, index: usize) -> Result<f64, Refusal> {
        match self.values.get(index) {
            Some(Value::Integer(number)) => Ok(*number as f64),
            Some(Value::Number(number)) => Ok(*number),
            Some(value @ Value::String(_)) => {
                self.lua.coerce_number(value.clone())?.ok_or_else(|| self.bad(index, "number"))
            }
            _ => Err(self.bad(index, "number")),
        }
    }

    /// A whole number, cut off; or what stands for one that is absent.
    pub(super) fn integer_or(&self, index: usize, absent: i64) -> Result<i64, Refusal> {
        match self.values.get(index) {
            None | Some(Value::Nil) => Ok(absent),
            _ => Ok(self.number(index)? as i64),
        }
    }

    pub(super) fn is_true(&self, index: usize) -> bool {
        !matches!(self.values.get(index), None | Some(Value::Nil | Value::Boolean(false)))
    }

    pub(super) fn string(&self, bytes: &[u8]) -> Result<Value, Refusal> {
        self.shared.work(1 + bytes.len() / 16)?;
        Ok(Value::String(self.lua.create_string(bytes)?))
    }
}

/// A number, whole or not.
pub(super) fn as_number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    }
}

/// The name of a value's type, as Lua has it.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nil",
        Value::Boolean(_) => "boolean",
        Value::Integer(_) | Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Table(_) => "table",
        Value::Function(_) => "function",
        Value::Thread(_) => "thread",
        _ => "userdata",
    }
}

/// An error that a function of ours raises in Lua. Lua sees it as a string, or as a table with `err` (`told`).
#[derive(Debug)]
struct Raised {
    text: Vec<u8>,
    /// It is one of Redis's, rather than of Lua's.
    is_table: bool,
}

impl std::fmt::Display for Raised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.text))
    }
}

impl std::error::Error for Raised {}

/// An error as Lua's own functions raise it: the caller's place stands before it.
fn raised(lua: &Lua, text: &str) -> Error {
    let place = match position(lua, false) {
        Some((source, line)) => format!("{}:{line}: ", source.trim_start_matches(['@', '='])),
        None => String::new(),
    };
    Error::external(Raised { text: format!("{place}{text}").into_bytes(), is_table: false })
}

/// An error as Redis's functions raise it: its code stands before it.
pub(super) fn raised_as_table(text: &[u8]) -> Error {
    Error::external(Raised { text: text.to_vec(), is_table: true })
}

/// What Lua sees of an error of ours; anything else stays what it is.
pub(super) fn told(lua: &Lua, caught: Value) -> Result<Value, Error> {
    let Value::Error(error) = &caught else { return Ok(caught) };
    match error.chain().find_map(|cause| cause.downcast_ref::<Raised>()) {
        Some(raised) if raised.is_table => super::values::error(lua, &raised.text),
        Some(raised) => Ok(Value::String(lua.create_string(&raised.text)?)),
        None => Ok(Value::String(lua.create_string(error.to_string())?)),
    }
}

/// Where a script is: the source and the line of the first frame that is not ours. Functions in C have no line; they count only if `passes_c` is not set.
pub(super) fn position(lua: &Lua, passes_c: bool) -> Option<(String, usize)> {
    const LEVELS_MAX: usize = 50;
    for level in 1..LEVELS_MAX {
        let (source, line) = lua.inspect_stack(level, |debug| {
            (debug.source().source.map(std::borrow::Cow::into_owned).unwrap_or_default(), debug.current_line())
        })?;
        match line {
            _ if source == "=dictum" || source == "=(tail call)" => {}
            Some(line) => return Some((source, line)),
            None if passes_c => {}
            None => return None,
        }
    }
    None
}

/// What a call of a function of ours counts for, whatever it does.
const CALL_WORK: usize = 10;
/// What an error of such a function counts for: the stack is described for it.
pub(super) const ERROR_WORK: usize = 500;

/// Makes a function of ours one of Lua's.
fn native(lua: &Lua, shared: &Rc<Shared>, name: &'static str, call: Call) -> Result<Function, Error> {
    let shared = Rc::clone(shared);
    lua.create_function(move |lua, values: Variadic<Value>| {
        let arguments = Arguments { lua, shared: &shared, name, values: &values };
        shared.work(CALL_WORK + 3 * values.len())?;
        let answer = call(&shared, &arguments);
        shared.work(answer.as_ref().map_or(ERROR_WORK, |values| 3 * values.len()))?;
        match answer {
            Ok(values) => Ok(MultiValue::from_vec(values)),
            Err(Refusal::Text(text)) => Err(raised(lua, &text)),
            Err(Refusal::Lua(error)) => Err(error),
        }
    })
}

/// A table of such functions.
pub(super) fn natives_table(lua: &Lua, shared: &Rc<Shared>, calls: &[(&'static str, Call)]) -> Result<Table, Error> {
    let table = lua.create_table()?;
    for (name, call) in calls {
        table.raw_set(*name, native(lua, shared, name, *call)?)?;
    }
    Ok(table)
}
