//! `COPY … DB` and `MOVE`: a key goes from one database to another.
//!
//! ```text
//! look at the key in the source ─► create it in the target ─► (MOVE) remove it from the source, if it is what it was
//!      ▲                                                                    │ it has changed
//!      └──────────── remove the copy, if it is what was created ◄───────────┘
//! ```
//! Each step is one entry or one read. Revisions say whether a key is what it was: no two changes of a database share one.

use wire::Value;

use super::{
    ErrandAnswer, Heard, LOOK_REPLIES, Say, Seen, Side, error_in, look_at, orders, queued_error, seen, strange,
};

/// How often a key may change while it is moved.
const ROUNDS_MAX: u32 = 8;

#[derive(Clone, PartialEq, Eq, Debug)]
enum Step {
    Begin,
    SourceSelected,
    Looked,
    TargetSelected(Seen),
    Created(Seen),
    Removed {
        copied_at: i64,
    },
    /// The copy is removed: another round, unless there is an answer already.
    Undone(Option<String>),
    Over,
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct Relocation {
    /// Database and key.
    from: (Vec<u8>, Vec<u8>),
    to: (Vec<u8>, Vec<u8>),
    removes: bool,
    replaces: bool,
    target_is_selected: bool,
    rounds: u32,
    step: Step,
}

impl Relocation {
    pub(super) fn new(from: (&[u8], &[u8]), to: (&[u8], &[u8]), removes: bool, replaces: bool) -> Relocation {
        let owned = |(database, key): (&[u8], &[u8])| (database.to_vec(), key.to_vec());
        Relocation {
            from: owned(from),
            to: owned(to),
            removes,
            replaces,
            target_is_selected: false,
            rounds: 0,
            step: Step::Begin,
        }
    }

    pub(super) fn go_on(&mut self, heard: Heard) -> Say {
        let step = std::mem::replace(&mut self.step, Step::Over);
        let replies = match heard {
            Heard::Nothing => Vec::new(),
            Heard::Replies(replies) => replies,
            Heard::NoConnection(_) | Heard::NoAnswer(_) => return self.broken_off(&step),
        };
        let last = replies.last().cloned().unwrap_or(Value::Null);
        match step {
            Step::Begin => self.say(Side::Source, &[&[b"SELECT", &self.from.0.clone()]], Step::SourceSelected),
            Step::SourceSelected => match last {
                Value::Simple(_) => self.look(),
                other => failed(other),
            },
            Step::Looked => match seen(&replies) {
                Ok(Some(seen)) if self.target_is_selected => self.create(seen),
                Ok(Some(seen)) => {
                    self.say(Side::Target, &[&[b"SELECT", &self.to.0.clone()]], Step::TargetSelected(seen))
                }
                Ok(None) => Say::Done(ErrandAnswer::Integer(0)),
                Err(text) => Say::Done(ErrandAnswer::Error(text)),
            },
            Step::TargetSelected(seen) => match last {
                Value::Simple(_) => {
                    self.target_is_selected = true;
                    self.create(seen)
                }
                other => failed(other),
            },
            Step::Created(seen) => self.created(&replies, &seen),
            Step::Removed { copied_at } => match last {
                Value::Integer(1) => Say::Done(ErrandAnswer::Integer(1)),
                // It is gone, or another one: somebody was faster.
                Value::Integer(_) | Value::Null => self.undo(copied_at, None),
                Value::Error(text) if !is_in_doubt(&text) => self.undo(copied_at, Some(text)),
                Value::Error(text) => in_both(&text),
                _ => in_both(&strange()),
            },
            Step::Undone(answer) => match (last, answer) {
                (Value::Integer(_), Some(text)) => Say::Done(ErrandAnswer::Error(text)),
                (Value::Integer(_), None) if self.rounds < ROUNDS_MAX => self.look(),
                (Value::Integer(_), None) => Say::Done(ErrandAnswer::Error(
                    "ERR the key changes all the time, so it could not be moved; it is where it was".to_owned(),
                )),
                (Value::Error(text), _) => in_both(&text),
                _ => Say::Done(ErrandAnswer::Error(
                    "ERR the key was changed in both databases while it was moved: it is in both now".to_owned(),
                )),
            },
            Step::Over => Say::Done(ErrandAnswer::Error(strange())),
        }
    }

    fn say(&mut self, side: Side, commands: &[&[&[u8]]], next: Step) -> Say {
        let said = Say::To(side, orders(commands), commands.len());
        self.step = next;
        said
    }

    fn look(&mut self) -> Say {
        self.rounds += 1;
        self.step = Step::Looked;
        Say::To(Side::Source, look_at(&self.from.1), LOOK_REPLIES)
    }

    fn create(&mut self, seen: Seen) -> Say {
        let deadline = seen.deadline.to_string();
        let mut restore: Vec<&[u8]> = vec![b"RESTORE", &self.to.1, deadline.as_bytes(), &seen.payload, b"ABSTTL"];
        restore.extend(self.replaces.then_some(&b"REPLACE"[..]));
        let commands: [&[&[u8]]; 4] = [&[b"MULTI"], &restore, &[b"DICTUM.REVISION", &self.to.1], &[b"EXEC"]];
        let said = Say::To(Side::Target, orders(&commands), commands.len());
        // The value is on its way and not needed any more.
        self.step = Step::Created(Seen { payload: Vec::new(), ..seen });
        said
    }

    fn created(&mut self, replies: &[Value], seen: &Seen) -> Say {
        let items = match replies.last() {
            Some(Value::Array(items)) => items,
            Some(Value::Error(text)) if is_in_doubt(text) && self.removes => return in_both(text),
            Some(Value::Error(text)) => {
                let text = replies.iter().find_map(queued_error).unwrap_or_else(|| text.clone());
                return Say::Done(ErrandAnswer::Error(text));
            }
            _ => return Say::Done(ErrandAnswer::Error(strange())),
        };
        match items.as_slice() {
            [Value::Simple(_), Value::Integer(_)] if !self.removes => Say::Done(ErrandAnswer::Integer(1)),
            [Value::Simple(_), Value::Integer(copied_at)] => {
                let revision = seen.revision.to_string();
                let remove: [&[u8]; 4] = [b"DICTUM.DEL", &self.from.1.clone(), b"IFREVISION", revision.as_bytes()];
                self.say(Side::Source, &[&remove], Step::Removed { copied_at: *copied_at })
            }
            [Value::Error(text), _] if text.starts_with("BUSYKEY") => Say::Done(ErrandAnswer::Integer(0)),
            items => Say::Done(ErrandAnswer::Error(error_in(items).unwrap_or_else(strange))),
        }
    }

    fn undo(&mut self, copied_at: i64, answer: Option<String>) -> Say {
        let revision = copied_at.to_string();
        let remove: [&[u8]; 4] = [b"DICTUM.DEL", &self.to.1.clone(), b"IFREVISION", revision.as_bytes()];
        self.say(Side::Target, &[&remove], Step::Undone(answer))
    }

    /// A connection is gone: the process stops, most likely.
    fn broken_off(&self, step: &Step) -> Say {
        match step {
            Step::Created(_) | Step::Removed { .. } | Step::Undone(_) if self.removes => {
                in_both("UNKNOWN the node broke it off")
            }
            Step::Created(_) => {
                Say::Done(ErrandAnswer::Error("UNKNOWN the node broke it off; the copy may be there".to_owned()))
            }
            _ => {
                Say::Done(ErrandAnswer::Error("CLUSTERDOWN the node broke it off; the command was not done".to_owned()))
            }
        }
    }
}

/// Whether an error leaves open what has happened.
fn is_in_doubt(text: &str) -> bool {
    text.starts_with("UNKNOWN")
}

fn in_both(text: &str) -> Say {
    Say::Done(ErrandAnswer::Error(format!("{text}; the key may be in both databases now, and is in one of them")))
}

fn failed(reply: Value) -> Say {
    let text = match reply {
        Value::Error(text) => text,
        _ => strange(),
    };
    Say::Done(ErrandAnswer::Error(text))
}
