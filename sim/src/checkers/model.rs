//! The small sequential model that histories are compared with: a few keys, each absent or with a value and
//! perhaps a time to live.
//!
//! A key with a time to live may become absent by itself from a certain moment on, and stays so until it is
//! written again. So a command may lead to more than one next state.

#![allow(clippy::disallowed_types, reason = "these tables are looked things up in and never walked through")]

use std::collections::HashMap;

use crate::history::{Command, Op, Operation, Outcome, Reply, TOKEN_BYTES, bytes_of};

/// A value's number in [`Values`]; 0 means absent.
pub type ValueId = u32;

/// "There is nothing."
pub const ABSENT: ValueId = 0;

/// What "never expires" is for [`Slot::expires`].
pub const NEVER: u64 = u64::MAX;

/// A deadline after the last answer of a history.
const LATE: u64 = u64::MAX - 1;

/// One key's state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Slot {
    /// Its value, or [`ABSENT`].
    pub value: ValueId,
    /// The earliest nanosecond at which it may disappear, or [`NEVER`].
    pub expires: u64,
    /// Perhaps it has no time to live after all.
    pub unsure: bool,
}

impl Slot {
    /// Nothing.
    pub const ABSENT: Slot = Slot::lasting(ABSENT);

    /// A value without a time to live.
    const fn lasting(value: ValueId) -> Slot {
        Slot { value, expires: NEVER, unsure: false }
    }
}

/// The state of a group of keys, by the keys' numbers within the group.
pub type State = Vec<Slot>;

/// Values by number, so that states are small and quickly compared.
#[derive(Debug)]
pub struct Values {
    numbers: HashMap<Vec<u8>, ValueId>,
    values: Vec<Vec<u8>>,
    appended: HashMap<(ValueId, ValueId), ValueId>,
}

impl Default for Values {
    fn default() -> Values {
        Values { numbers: HashMap::new(), values: vec![Vec::new()], appended: HashMap::new() }
    }
}

impl Values {
    /// The number of a value, the same for equal values.
    pub fn number(&mut self, value: &[u8]) -> ValueId {
        if let Some(&number) = self.numbers.get(value) {
            return number;
        }
        let number = u32::try_from(self.values.len()).expect("fewer values than 2^32 fit into memory");
        self.numbers.insert(value.to_vec(), number);
        self.values.push(value.to_vec());
        number
    }

    /// The value that a number stands for; [`ABSENT`] stands for no bytes.
    #[must_use]
    pub fn value(&self, number: ValueId) -> &[u8] {
        &self.values[number as usize]
    }

    fn append(&mut self, first: ValueId, second: ValueId) -> ValueId {
        if let Some(&number) = self.appended.get(&(first, second)) {
            return number;
        }
        let mut joined = self.value(first).to_vec();
        joined.extend_from_slice(self.value(second));
        let number = self.number(&joined);
        self.appended.insert((first, second), number);
        number
    }
}

/// A command with its texts replaced by numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Step {
    op: Op,
    key: usize,
    argument: ValueId,
    expected: ValueId,
    /// What is added.
    addend: i64,
    /// When a time to live that is set here ends at the earliest.
    deadline: u64,
    /// The same of what is made here without one, or [`NEVER`]; and whether it may have none after all.
    usual: (u64, bool),
    /// There may have been no room for it, where there is no reply.
    refusable: bool,
    reply: Option<Seen>,
}

impl Step {
    /// A key that is made without a deadline of its own.
    fn made(&self, value: ValueId) -> Slot {
        Slot { value, expires: self.usual.0, unsure: self.usual.1 }
    }
}

/// A reply with its text replaced by a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seen {
    Nil,
    Integer(i64),
    Value(ValueId),
    Refused,
}

/// An operation made ready for the search.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// When it was asked.
    pub invoke: u64,
    /// When it was over; `u64::MAX` if it may take effect at any later time.
    pub finish: u64,
    /// Whether it took effect for certain.
    pub certain: bool,
    /// Its place in the history, for messages.
    pub index: usize,
    steps: Vec<Step>,
    watched: Vec<(usize, ValueId)>,
    /// Every key that it touches, sorted, and whether it overwrites that key without looking at it first.
    keys: Vec<(usize, bool)>,
}

impl Prepared {
    /// Whether it makes sense that `next` directly follows this operation, which is of uncertain effect.
    ///
    /// If it touches no common key, this operation could as well come later (it has no end); if it blindly overwrites
    /// all of them, this operation could as well never happen. So an order that needs neither exists whenever one
    /// exists at all, and the search looks for no other.
    #[must_use]
    pub fn may_be_followed_by(&self, next: &Prepared) -> bool {
        let found = |key: usize| next.keys.iter().find(|&&(other, _)| other == key);
        let common = self.keys.iter().filter(|&&(key, _)| found(key).is_some()).count();
        let overwritten = self.keys.iter().filter(|&&(key, _)| found(key).is_some_and(|&(_, blind)| blind)).count();
        (common > 0 || !next.certain) && overwritten < self.keys.len()
    }

    /// Whether both do the same to every state. Only of operations of uncertain effect.
    #[must_use]
    pub fn is_like(&self, other: &Prepared) -> bool {
        self.steps == other.steps && self.watched == other.watched
    }

    /// Every value that somebody may notice: those of answers, and those that are compared with.
    pub fn observed(&self) -> impl Iterator<Item = ValueId> {
        let replies = self.steps.iter().filter_map(|step| match step.reply {
            Some(Seen::Value(value)) => Some(value),
            _ => None,
        });
        let compared = self.steps.iter().map(|step| step.expected);
        replies.chain(compared).chain(self.watched.iter().map(|&(_, value)| value))
    }

    /// Whether it makes new values out of old ones.
    #[must_use]
    pub fn computes(&self) -> bool {
        self.steps
            .iter()
            .any(|step| matches!(step.op, Op::Append | Op::Prepend | Op::Push | Op::Pop | Op::Tail | Op::Incr))
    }

    /// Writes `unseen` in place of each value of which `is_seen` is not true.
    pub fn blur(&mut self, unseen: ValueId, is_seen: impl Fn(ValueId) -> bool) {
        for step in &mut self.steps {
            let writes = matches!(step.op, Op::Set | Op::SetPx | Op::SetNx | Op::SetIfEq | Op::GetSet);
            if writes && !is_seen(step.argument) {
                step.argument = unseen;
            }
        }
    }

    /// Puts each deadline off to the next of `moments`, which are sorted.
    pub fn round_deadlines(&mut self, moments: &[u64]) {
        for step in &mut self.steps {
            let round = |deadline: u64| {
                let next = moments.partition_point(|&moment| moment < deadline);
                moments.get(next).copied().unwrap_or(LATE)
            };
            step.deadline = round(step.deadline);
            if step.usual.0 != NEVER {
                step.usual.0 = round(step.usual.0);
            }
        }
    }

    /// How values grow here, if all that it does with keys is to read them and to let them grow: by
    /// appending or by adding.
    #[must_use]
    pub fn grows(&self) -> Option<Growth> {
        let of = |step: &Step| match step.op {
            Op::Get => Some(Growth::None),
            _ if step.usual.0 != NEVER => None,
            Op::Append => Some(Growth::Appends),
            Op::Incr if step.addend > 0 => Some(Growth::Adds),
            _ => None,
        };
        self.steps.iter().try_fold(Growth::None, |sum, step| match (sum, of(step)?) {
            (Growth::None, other) | (other, Growth::None) => Some(other),
            (one, other) => (one == other).then_some(one),
        })
    }

    /// The value that its only command read, if that is what it did.
    #[must_use]
    pub fn read(&self) -> Option<ValueId> {
        match self.steps.as_slice() {
            [Step { op: Op::Get, reply: Some(Seen::Value(value)), .. }] => Some(*value),
            [Step { op: Op::Get, reply: Some(Seen::Nil), .. }] => Some(ABSENT),
            _ => None,
        }
    }

    /// The sum that its only command answered, if it added something, and what it had added.
    #[must_use]
    pub fn sum(&self) -> Option<(i64, i64)> {
        match self.steps.as_slice() {
            [Step { op: Op::Incr, addend, reply: Some(Seen::Integer(sum)), .. }] => Some((*sum, *addend)),
            _ => None,
        }
    }

    /// Whether it changes nothing in whatever state it fits: it only reads, or its answers say that it did nothing.
    ///
    /// It is not enough that it changes nothing in some state: a transaction may write and remove again.
    #[must_use]
    pub fn never_changes(&self) -> bool {
        self.steps.iter().all(|step| match step.op {
            _ if step.reply == Some(Seen::Refused) => true,
            Op::Get | Op::Tail | Op::Exists | Op::Pttl => true,
            Op::SetNx | Op::Del | Op::Pexpire => step.reply == Some(Seen::Integer(0)),
            Op::SetIfEq | Op::GetDel | Op::Pop => step.reply == Some(Seen::Nil),
            Op::Set | Op::SetPx | Op::GetSet | Op::Append | Op::Prepend | Op::Push | Op::Incr | Op::Persist => false,
        })
    }
}

/// How the values of a group of keys grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Growth {
    /// Not at all.
    None,
    /// Something is put behind what is there.
    Appends,
    /// Something positive is added to what is there.
    Adds,
}

/// Makes an operation ready; `key` numbers the keys of its group. `None` if it certainly had no effect.
///
/// `clock_error` is how many nanoseconds too early any node may take a time to live for over.
pub fn prepare(
    operation: &Operation,
    index: usize,
    clock_error: u64,
    values: &mut Values,
    key: &mut dyn FnMut(&str) -> usize,
) -> Option<Prepared> {
    let certain = match operation.outcome {
        Outcome::Done => true,
        Outcome::Maybe => false,
        Outcome::Failed => return None,
    };
    let mut text = |text: &Option<String>| text.as_ref().map_or(ABSENT, |text| values.number(&bytes_of(text)));
    let watched: Vec<(usize, ValueId)> =
        operation.watched.iter().map(|watched| (key(&watched.key), text(&watched.value))).collect();
    let steps: Vec<Step> = operation
        .commands
        .iter()
        .enumerate()
        .map(|(at, command)| Step {
            op: command.op,
            key: key(&command.key),
            argument: text(&command.argument),
            expected: text(&command.expected),
            addend: if matches!(command.op, Op::Incr | Op::Pop | Op::Tail) { command.number.unwrap_or(1) } else { 0 },
            deadline: if matches!(command.op, Op::SetPx | Op::Pexpire) {
                let lifetime = u64::try_from(command.number.unwrap_or(1)).unwrap_or(0).saturating_mul(1_000_000);
                operation.invoke.saturating_add(lifetime).saturating_sub(clock_error)
            } else {
                0
            },
            usual: command.lifetime.map_or((NEVER, false), |lifetime| {
                let least = lifetime.least.saturating_mul(1_000_000);
                (operation.invoke.saturating_add(least).saturating_sub(clock_error), !lifetime.certain)
            }),
            refusable: command.refusable && !certain,
            reply: certain.then(|| match &operation.replies[at] {
                Reply::Refused { .. } => Seen::Refused,
                Reply::Nil => Seen::Nil,
                Reply::Integer(number) => Seen::Integer(*number),
                Reply::Text(_) if answers_ok(command) => Seen::Value(ABSENT),
                Reply::Text(value) => Seen::Value(text(&Some(value.clone()))),
            }),
        })
        .collect();
    let finish = if certain { operation.finish.unwrap_or(u64::MAX) } else { u64::MAX };
    let mut keys: Vec<(usize, bool)> = watched.iter().map(|&(key, _)| (key, false)).collect();
    for step in &steps {
        if !keys.iter().any(|&(key, _)| key == step.key) {
            let overwrites = match step.op {
                _ if step.refusable || step.reply == Some(Seen::Refused) => false,
                Op::Set | Op::SetPx => true,
                // Their answers show what was there before; without an answer nothing does.
                Op::GetSet | Op::GetDel | Op::Del => !certain,
                _ => false,
            };
            keys.push((step.key, overwrites));
        }
    }
    keys.sort_unstable();
    Some(Prepared { invoke: operation.invoke, finish, certain, index, steps, watched, keys })
}

fn answers_ok(command: &Command) -> bool {
    matches!(command.op, Op::Set | Op::SetPx | Op::SetIfEq | Op::Push)
}

/// Puts into `next` every state to which `operation` may lead from `state`, the unchanged one first.
///
/// `latest` is the latest moment at which it can be happening: the end of that operation still to be ordered that is
/// over first. What is over by then may have disappeared.
pub fn step(state: &State, operation: &Prepared, latest: u64, values: &mut Values, next: &mut Vec<State>) {
    next.clear();
    // Every choice of which of the touched keys, whose time may have come, are gone by now.
    let mut touched: Vec<usize> = Vec::new();
    for key in operation.steps.iter().map(|step| step.key).chain(operation.watched.iter().map(|&(key, _)| key)) {
        let slot = state[key];
        if slot.value != ABSENT && slot.expires <= latest && !touched.contains(&key) {
            touched.push(key);
        }
    }
    // Every choice of which of the commands had no room, where that is possible and nobody knows.
    let refusable = operation.steps.iter().filter(|step| step.refusable).count().min(8);
    for gone in 0..(1u32 << touched.len().min(16)) {
        let mut before = state.clone();
        for (bit, &key) in touched.iter().enumerate() {
            if gone & (1 << bit) != 0 {
                before[key] = Slot::ABSENT;
            }
        }
        if !operation.watched.iter().all(|&(key, value)| before[key].value == value) {
            continue;
        }
        for refused in 0..(1u32 << refusable) {
            let (mut after, mut place) = (before.clone(), 0);
            let fits = operation.steps.iter().all(|step| {
                let is_refused = step.refusable && refused & (1 << place) != 0;
                place += u32::from(step.refusable);
                is_refused || apply(&mut after, step, values)
            });
            if fits && !next.contains(&after) {
                next.push(after);
            }
        }
    }
}

/// Applies one command; false if its reply was another one.
fn apply(state: &mut State, step: &Step, values: &mut Values) -> bool {
    if step.reply == Some(Seen::Refused) {
        return true;
    }
    let slot = &mut state[step.key];
    let before = *slot;
    let present = before.value != ABSENT;
    let of_value = |value: ValueId| if value == ABSENT { Seen::Nil } else { Seen::Value(value) };
    let flag = |yes: bool| Seen::Integer(i64::from(yes));
    let ok = Seen::Value(ABSENT);
    let answer = match step.op {
        Op::Get => of_value(before.value),
        Op::Tail => {
            let all: &[u8] = if present { values.value(before.value) } else { &[] };
            let seen = match step.reply {
                None => return true,
                Some(Seen::Value(seen)) => values.value(seen),
                Some(_) => &[],
            };
            let wanted = usize::try_from(step.addend).ok().map(|tokens| all.get(tokens * TOKEN_BYTES..).unwrap_or(&[]));
            return wanted.map_or(all.ends_with(seen), |wanted| wanted == seen);
        }
        Op::Exists => flag(present),
        Op::Pttl => {
            // How much is left is not part of the model; whether the key is there, and has a deadline, is.
            return match step.reply {
                None => true,
                Some(Seen::Integer(-2)) => !present,
                Some(Seen::Integer(-1)) => present && (before.expires == NEVER || before.unsure),
                Some(Seen::Integer(left)) => left >= 0 && present && before.expires != NEVER,
                Some(_) => false,
            };
        }
        Op::Set => {
            *slot = step.made(step.argument);
            ok
        }
        Op::SetPx => {
            *slot = Slot { value: step.argument, expires: step.deadline, unsure: false };
            ok
        }
        Op::SetNx => {
            if !present {
                *slot = step.made(step.argument);
            }
            flag(!present)
        }
        Op::SetIfEq => {
            if present && before.value == step.expected {
                *slot = step.made(step.argument);
                ok
            } else {
                Seen::Nil
            }
        }
        Op::GetSet => {
            *slot = step.made(step.argument);
            of_value(before.value)
        }
        Op::GetDel => {
            *slot = Slot::ABSENT;
            of_value(before.value)
        }
        Op::Append => {
            let value = if present { values.append(before.value, step.argument) } else { step.argument };
            *slot = if present { Slot { value, ..before } } else { step.made(value) };
            Seen::Integer(i64::try_from(values.value(value).len()).unwrap_or(i64::MAX))
        }
        Op::Push => {
            let value = if present { values.append(before.value, step.argument) } else { step.argument };
            *slot = if present { Slot { value, ..before } } else { step.made(value) };
            Seen::Value(ABSENT)
        }
        Op::Prepend => {
            let value = if present { values.append(step.argument, before.value) } else { step.argument };
            *slot = if present { Slot { value, ..before } } else { step.made(value) };
            Seen::Integer(i64::try_from(values.value(value).len()).unwrap_or(i64::MAX))
        }
        Op::Pop if !present => Seen::Nil,
        Op::Pop => {
            let all = values.value(before.value).to_vec();
            let at = if step.addend < 0 { all.len().saturating_sub(TOKEN_BYTES) } else { all.len().min(TOKEN_BYTES) };
            let (taken, left) = if step.addend < 0 { (&all[at..], &all[..at]) } else { all.split_at(at) };
            *slot = if left.is_empty() { Slot::ABSENT } else { Slot { value: values.number(left), ..before } };
            Seen::Value(values.number(taken))
        }
        Op::Incr => {
            let number = if present {
                std::str::from_utf8(values.value(before.value)).ok().and_then(|text| text.parse::<i64>().ok())
            } else {
                Some(0)
            };
            // What is not a number makes the command fail; the workloads never increment anything else.
            let Some(sum) = number.and_then(|number| number.checked_add(step.addend)) else { return false };
            let value = values.number(sum.to_string().as_bytes());
            *slot = if present { Slot { value, ..before } } else { step.made(value) };
            Seen::Integer(sum)
        }
        Op::Del => {
            *slot = Slot::ABSENT;
            flag(present)
        }
        Op::Pexpire => {
            if present {
                *slot = Slot { expires: step.deadline, unsure: false, ..before };
            }
            flag(present)
        }
        Op::Persist => {
            *slot = Slot::lasting(before.value);
            if present && before.unsure {
                return matches!(step.reply, None | Some(Seen::Integer(0 | 1)));
            }
            flag(present && before.expires != NEVER)
        }
    };
    step.reply.is_none_or(|reply| reply == answer)
}
