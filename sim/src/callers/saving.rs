//! A caller that makes backups, and knows what has to be in them.
//!
//! It writes the next number to two keys of its own by one command, over and over. The state that a backup freezes has in both of them the last number that was acknowledged before it was
//! asked for, whatever node is asked: not an earlier one, and not one that the caller writes between two blocks. As soon as nobody knows what became of a write the caller takes other keys.

use base::{Rng, WallTime};
use data::{Reply, View};
use node::Restorer;
use wire::{ReplyLimits, ReplyParser, Value, encode_command};

/// The question of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    Write,
    Open,
    Next,
    Close,
}

/// A backup that is being made.
#[derive(Debug)]
struct Backup {
    /// The number that both keys must have.
    number: u64,
    restorer: Restorer,
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct Saver {
    id: u64,
    parser: Option<ReplyParser>,
    asked: Option<Asked>,
    pub(super) asked_at: u64,
    /// Which keys it has, and the last number that was acknowledged; 0: none.
    generation: u64,
    number: u64,
    backup: Option<Backup>,
}

impl Saver {
    pub(super) fn new(id: u64) -> Saver {
        Saver { id, parser: None, asked: None, asked_at: 0, generation: 0, number: 0, backup: None }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.parser.is_some()
    }

    pub(super) fn connected(&mut self) {
        self.parser = Some(ReplyParser::new(ReplyLimits::default()));
    }

    /// Its connection is gone, and with it the backup.
    pub(super) fn disconnected(&mut self) {
        self.parser = None;
        self.backup = None;
        if self.asked.take() == Some(Asked::Write) {
            self.take_other_keys();
        }
    }

    /// Something is awaited.
    pub(super) fn waits(&self) -> bool {
        self.asked.is_some()
    }

    fn take_other_keys(&mut self) {
        self.generation += 1;
        self.number = 0;
        // Nobody knows any more which number it must have.
        self.backup = None;
    }

    fn keys(&self) -> [String; 2] {
        ["a", "b"].map(|name| format!("{{saved:{}-{}}}:{name}", self.id, self.generation))
    }

    pub(super) fn act(&mut self, now: u64, rng: &mut Rng, send: &mut Vec<u8>) {
        if self.waits() {
            return;
        }
        let asked = match &self.backup {
            None if rng.chance(1, 3) => Asked::Open,
            Some(_) if rng.chance(1, 30) => Asked::Close,
            Some(_) if rng.chance(2, 3) => Asked::Next,
            _ => Asked::Write,
        };
        match asked {
            Asked::Write => {
                let ([one, other], number) = (self.keys(), (self.number + 1).to_string());
                encode_command(send, ["MSET", &one, &number, &other, &number]);
            }
            Asked::Open => encode_command(send, ["DICTUM.BACKUP", "OPEN", "0"]),
            Asked::Next => encode_command(send, ["DICTUM.BACKUP", "NEXT"]),
            Asked::Close => encode_command(send, ["DICTUM.BACKUP", "CLOSE"]),
        }
        (self.asked, self.asked_at) = (Some(asked), now);
    }

    /// Bytes have come.
    pub(super) fn on_bytes(&mut self, bytes: &[u8], now: u64) -> Result<(), String> {
        let Some(parser) = &mut self.parser else { return Ok(()) };
        parser.push(bytes);
        while let Some(value) = self
            .parser
            .as_mut()
            .and_then(|it| it.next().transpose())
            .transpose()
            .map_err(|error| format!("not RESP: {error}"))?
        {
            let asked = self.asked.take().ok_or_else(|| format!("{value:?} is an answer to nothing"))?;
            self.asked_at = now;
            self.on_answer(asked, value)?;
        }
        Ok(())
    }

    fn on_answer(&mut self, asked: Asked, value: Value) -> Result<(), String> {
        match (asked, value) {
            (Asked::Write, Value::Error(_)) => self.take_other_keys(),
            (Asked::Open, Value::Error(text)) if !text.starts_with("ERR") || text.contains("four backups") => {}
            (Asked::Write, Value::Simple(_)) => self.number += 1,
            (Asked::Open, Value::Array(_)) => {
                self.backup = Some(Backup { number: self.number, restorer: Restorer::default() });
            }
            (Asked::Close, Value::Simple(_)) => self.backup = None,
            (Asked::Next, Value::Array(items)) => match <[Value; 2]>::try_from(items) {
                Ok([Value::Bulk(block), Value::Integer(more)]) => self.on_block(&block, more != 0)?,
                other => return Err(format!("a block of a backup: {other:?}")),
            },
            // The node has no copy of the partition any more, or stood still for a minute.
            (Asked::Next | Asked::Close, Value::Error(text))
                if self.backup.is_none()
                    || text.starts_with("ERR the state cannot be read")
                    || text.starts_with("ERR this connection has no backup open") =>
            {
                self.backup = None;
            }
            (asked, value) => return Err(format!("{asked:?} was answered {value:?}")),
        }
        Ok(())
    }

    fn on_block(&mut self, block: &[u8], more: bool) -> Result<(), String> {
        let Some(backup) = &mut self.backup else { return Ok(()) };
        backup.restorer.push_block(block).map_err(|text| format!("a block of a backup: {text}"))?;
        if more {
            return Ok(());
        }
        let Some(Backup { number, restorer }) = self.backup.take() else { return Ok(()) };
        let tree = restorer.into_tree().map_err(|text| format!("a backup: {text}"))?;
        let view = View::new(&tree, WallTime(0), 0);
        let expected = if number == 0 { Reply::Nil } else { Reply::bulk(number.to_string()) };
        for key in self.keys() {
            let found = data::read(&view, &[b"GET", key.as_bytes()]);
            if found != expected {
                return Err(format!(
                    "a backup has {found:?} under {key}, and {expected:?} was acknowledged last before it"
                ));
            }
        }
        Ok(())
    }
}
