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
    ErrandAnswer, Heard, LOOK_REPLIES, Say, Seen, Side, error_in, greeted, greeting, look_at, orders, queued_error,
    seen, strange,
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

/// The client's wishes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub removes: bool,
    pub replaces: bool,
    /// The level of its connection, if that has one of its own.
    pub durability: Option<&'static str>,
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct Relocation {
    /// Database and key.
    from: (Vec<u8>, Vec<u8>),
    to: (Vec<u8>, Vec<u8>),
    wish: Wish,
    target_is_selected: bool,
    /// Another client has removed or taken the copy before it could be taken back.
    copy_is_gone: bool,
    rounds: u32,
    step: Step,
}

impl Relocation {
    pub(super) fn new(from: (&[u8], &[u8]), to: (&[u8], &[u8]), wish: Wish) -> Relocation {
        let owned = |(database, key): (&[u8], &[u8])| (database.to_vec(), key.to_vec());
        Relocation {
            from: owned(from),
            to: owned(to),
            wish,
            target_is_selected: false,
            copy_is_gone: false,
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
        let last = |replies: Vec<Value>| replies.into_iter().next_back().unwrap_or(Value::Null);
        match step {
            Step::Begin => {
                let (bytes, count) = greeting(&self.from.0, self.wish.durability);
                self.step = Step::SourceSelected;
                Say::To(Side::Source, bytes, count)
            }
            Step::SourceSelected => match greeted(&replies) {
                Ok(()) => self.look(),
                Err(text) => error(text),
            },
            Step::Looked => match seen(replies) {
                Ok(None) => Say::Done(ErrandAnswer::Integer(0)),
                // A copy that another client has taken would be there a second time.
                Ok(Some(_)) if self.copy_is_gone => error(
                    "ERR the key was changed while it was moved, and its copy was taken by another client; it is where it was"
                        .to_owned(),
                ),
                Ok(Some(seen)) if self.target_is_selected => self.create(seen),
                Ok(Some(seen)) => {
                    let (bytes, count) = greeting(&self.to.0, self.wish.durability);
                    self.step = Step::TargetSelected(seen);
                    Say::To(Side::Target, bytes, count)
                }
                Err(text) => error(text),
            },
            Step::TargetSelected(seen) => match greeted(&replies) {
                Ok(()) => {
                    self.target_is_selected = true;
                    self.create(seen)
                }
                Err(text) => error(text),
            },
            Step::Created(seen) => self.created(&replies, &seen),
            Step::Removed { copied_at } => match last(replies) {
                Value::Integer(1) => Say::Done(ErrandAnswer::Integer(1)),
                // It is gone, or another one: somebody was faster.
                Value::Integer(_) | Value::Null => self.undo(copied_at, None),
                Value::Error(text) if !is_in_doubt(&text) => self.undo(copied_at, Some(text)),
                Value::Error(text) => in_both(&text),
                _ => in_both(&strange()),
            },
            Step::Undone(answer) => match (last(replies), answer) {
                (Value::Integer(_), Some(text)) => error(text),
                (Value::Integer(1), None) if self.rounds >= ROUNDS_MAX => error(
                    "ERR the key changes all the time, so it could not be moved; it is where it was".to_owned(),
                ),
                (Value::Integer(removed), None) => {
                    self.copy_is_gone = removed != 1;
                    self.look()
                }
                (Value::Error(text), _) => in_both(&text),
                (_, Some(text)) => error(format!("{text}; its copy was changed by another client: it is in both now")),
                (_, None) => error(
                    "ERR the key was changed in both databases while it was moved: it is in both now".to_owned(),
                ),
            },
            Step::Over => error(strange()),
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
        restore.extend(self.wish.replaces.then_some(&b"REPLACE"[..]));
        let commands: [&[&[u8]]; 4] = [&[b"MULTI"], &restore, &[b"DICTUM.REVISION", &self.to.1], &[b"EXEC"]];
        let said = Say::To(Side::Target, orders(&commands), commands.len());
        // The value is on its way and not needed any more.
        self.step = Step::Created(Seen { payload: Vec::new(), ..seen });
        said
    }

    fn created(&mut self, replies: &[Value], seen: &Seen) -> Say {
        let items = match replies.last() {
            Some(Value::Array(items)) => items,
            Some(Value::Error(text)) if is_in_doubt(text) && self.wish.removes => return in_both(text),
            Some(Value::Error(text)) => {
                let text = replies.iter().find_map(queued_error).unwrap_or_else(|| text.clone());
                return error(text);
            }
            _ => return in_both(&strange()),
        };
        match items.as_slice() {
            // Its deadline had passed when it came: there is no such key any more.
            [Value::Simple(_), Value::Integer(0)] => Say::Done(ErrandAnswer::Integer(0)),
            [Value::Simple(_), Value::Integer(_)] if !self.wish.removes => Say::Done(ErrandAnswer::Integer(1)),
            [Value::Simple(_), Value::Integer(copied_at)] => {
                let revision = seen.revision.to_string();
                let remove: [&[u8]; 4] = [b"DICTUM.DEL", &self.from.1.clone(), b"IFREVISION", revision.as_bytes()];
                self.say(Side::Source, &[&remove], Step::Removed { copied_at: *copied_at })
            }
            [Value::Error(text), _] if text.starts_with("BUSYKEY") => Say::Done(ErrandAnswer::Integer(0)),
            items => error(error_in(items).unwrap_or_else(strange)),
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
            Step::Created(_) | Step::Removed { .. } | Step::Undone(_) if self.wish.removes => {
                in_both("UNKNOWN the node broke it off")
            }
            Step::Created(_) => error("UNKNOWN the node broke it off; the copy may be there".to_owned()),
            _ => error("CLUSTERDOWN the node broke it off; the command was not done".to_owned()),
        }
    }
}

/// True if an error leaves open whether the command was carried out.
fn is_in_doubt(text: &str) -> bool {
    text.starts_with("UNKNOWN")
}

fn in_both(text: &str) -> Say {
    error(format!("{text}; the key may be in both databases now, and is in one of them"))
}

fn error(text: String) -> Say {
    Say::Done(ErrandAnswer::Error(text))
}
