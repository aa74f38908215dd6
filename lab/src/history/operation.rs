//! One thing that a client asked for, and what came of it.

use crate::record::Event;

use super::value::Value;

/// Steps of one operation at most.
pub const STEPS_MAX: usize = 4_096;

/// Bytes of a key at most, in a history.
pub const KEY_BYTES_MAX: usize = 65_536;

/// An operation of a client: one step, or the steps of a transaction, which happen at once and in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The client's number, below 2^32−1, which the last reads have. Clients matter to nobody but the reader of a violation.
    pub client: u32,
    /// When it was sent: nanoseconds since the history began.
    pub from: u64,
    /// When its answer was there, not before `from`; none if it never was. Of an operation that is not
    /// [`Outcome::Done`] it is only shown.
    pub until: Option<u64>,
    /// What is known of it.
    pub outcome: Outcome,
    /// What it asks; none is the same as nothing asked.
    pub steps: Vec<Step>,
}

/// What is known of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done; its answers are in its steps.
    Done,
    /// It was surely not done: refused before anything was changed, or never sent.
    Failed,
    /// It may have been done, may yet be done at any later time, or never: a connection broke, a time ran out.
    Unknown,
}

/// One key's part of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The key.
    pub key: Vec<u8>,
    /// What is asked of it.
    pub ask: Ask,
    /// The answer; none if there was none, or nobody looked at it.
    pub answer: Option<Answer>,
}

/// What is asked of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The value. Answer: [`Answer::Value`] or [`Answer::Absent`].
    Get,
    /// Put this value. Answer: [`Answer::Done`].
    Set(Value),
    /// Put this value if there is none. Answer: [`Answer::Flag`], whether it was put.
    SetIfAbsent(Value),
    /// If the present value is the expected one, put the new one in its place. Answer: [`Answer::Flag`], whether it was.
    CompareAndSet {
        /// What must be there; none: nothing.
        expected: Option<Value>,
        /// What is put; none: the value is taken away.
        new: Option<Value>,
    },
    /// Add to the integer that is there, or to 0. Answer: [`Answer::Integer`], the sum; [`Answer::Refused`] if the value is no
    /// integer or the sum is out of range.
    Add(i64),
    /// Put this behind the value that is there, or nothing. Answer: [`Answer::Integer`], the new length.
    Append(Value),
    /// Take the value away. Answer: [`Answer::Flag`], whether there was one.
    Delete,
    /// Put this at an end of the list that is there, or of an empty one. Answer: [`Answer::Integer`], how many it has then.
    Push(End, Value),
    /// Take what stands at an end of the list away. Answer: [`Answer::Value`], or [`Answer::Absent`] if there is no list.
    Pop(End),
    /// All that the list has. Answer: [`Answer::Value`], the [`list`](super::Value::list) of it, or [`Answer::Absent`].
    Items,
}

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// Where LPUSH and LPOP are.
    Left,
    /// Where RPUSH and RPOP are.
    Right,
}

impl Ask {
    /// Whether it is for lists only.
    #[must_use]
    pub fn is_of_list(&self) -> bool {
        matches!(self, Ask::Push(..) | Ask::Pop(_) | Ask::Items)
    }
}

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// There is no value.
    Absent,
    /// The value.
    Value(Value),
    /// A number.
    Integer(i64),
    /// Yes or no.
    Flag(bool),
    /// It is done.
    Done,
    /// The key's value is not of the kind that this takes; nothing was changed.
    Refused,
}

impl Operation {
    /// An operation of one step that was answered.
    #[must_use]
    pub fn done(client: u32, from: u64, until: u64, key: &[u8], ask: Ask, answer: Answer) -> Operation {
        let step = Step { key: key.to_vec(), ask, answer: Some(answer) };
        Operation { client, from, until: Some(until.max(from)), outcome: Outcome::Done, steps: vec![step] }
    }

    /// An operation of one step of which nobody knows whether it was done.
    #[must_use]
    pub fn unknown(client: u32, from: u64, key: &[u8], ask: Ask) -> Operation {
        let step = Step { key: key.to_vec(), ask, answer: None };
        Operation { client, from, until: None, outcome: Outcome::Unknown, steps: vec![step] }
    }

    /// The operation for people, as one event of a drawing.
    #[must_use]
    pub fn event(&self) -> Event {
        let asked: Vec<String> = self.steps.iter().map(Step::asked).collect();
        let answered = match self.outcome {
            Outcome::Failed => "an error: not done".into(),
            Outcome::Unknown => String::new(),
            Outcome::Done => self.steps.iter().map(Step::answered).collect::<Vec<_>>().join("; "),
        };
        let until = if self.outcome == Outcome::Unknown { None } else { self.until };
        Event { client: self.client, asked: asked.join("; "), answered, from: self.from, until }
    }
}

impl End {
    fn word(self) -> &'static str {
        match self {
            End::Left => "left",
            End::Right => "right",
        }
    }
}

impl Step {
    fn asked(&self) -> String {
        let key = self.key.escape_ascii();
        match self.ask {
            Ask::Get => format!("get {key}"),
            Ask::Set(value) => format!("set {key} {value}"),
            Ask::SetIfAbsent(value) => format!("set {key} {value} if absent"),
            Ask::CompareAndSet { expected, new } => {
                let done = new.map_or(format!("delete {key}"), |new| format!("set {key} {new}"));
                expected.map_or(format!("{done} if absent"), |expected| format!("{done} if it is {expected}"))
            }
            Ask::Add(number) => format!("add {number} to {key}"),
            Ask::Append(value) => format!("append {value} to {key}"),
            Ask::Delete => format!("delete {key}"),
            Ask::Push(end, value) => format!("push {value} to the {} of {key}", end.word()),
            Ask::Pop(end) => format!("take from the {} of {key}", end.word()),
            Ask::Items => format!("list {key}"),
        }
    }

    fn answered(&self) -> String {
        match self.answer {
            None => "done".into(),
            Some(Answer::Absent) => "absent".into(),
            Some(Answer::Value(value)) => value.to_string(),
            Some(Answer::Integer(number)) => number.to_string(),
            Some(Answer::Flag(true)) => "yes".into(),
            Some(Answer::Flag(false)) => "no".into(),
            Some(Answer::Done) => "done".into(),
            Some(Answer::Refused) => "refused".into(),
        }
    }
}
