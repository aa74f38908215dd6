//! A caller that makes backups, and knows what has to be in them.
//!
//! It writes the next number to two keys of its own by one command, over and over. The state that a backup freezes has in both of them the last number that was acknowledged before it was
//! asked for, whatever node is asked: not an earlier one, and not one that the caller writes between two blocks. As soon as nobody knows what became of a write the caller takes other keys.
//!
//! Some backups are of what has changed since the last one. With those before them, down to a whole one, they have the same. Some are restored ([`super::restoring`]).
//!
//! A list of its own gets further elements: that is what is restored bit by bit.

use std::sync::Arc;

use super::restoring::{Expected, Restoring};
use base::{BucketId, PartitionId, Rng};
use node::{Archive, ArchiveReader, Below, RebuildError};
use storage::MemoryStore;
use wire::{ReplyLimits, ReplyParser, Value, encode_command};

/// The question of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    Write,
    Push,
    Restore,
    Open { since: Option<u64> },
    Next,
    Close,
}

/// A backup that is being made.
#[derive(Debug)]
struct Backup {
    /// The number that both keys must have.
    number: u64,
    /// So many elements the list must have.
    pushed: u64,
    /// The partition's revision.
    revision: u64,
    reader: ArchiveReader,
    store: MemoryStore,
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
    /// Elements of the list, which count up from 1.
    pushed: u64,
    backup: Option<Backup>,
    /// The last backup and those that it builds on, the newest first, and the revision of that one.
    chain: Vec<Archive>,
    revision: u64,
    /// The restore under way. It stays when the connection goes.
    restoring: Option<Restoring>,
    /// Restores that came to their end.
    pub(super) restored: u64,
}

/// So many build on each other.
const CHAIN_MAX: usize = 6;
/// Of so many backups about one is restored; which, the partition's revision says.
const RESTORED_EVERY: u64 = 2;
const PARTITION: PartitionId = PartitionId { bucket: BucketId(0), index: 0 };

impl Saver {
    pub(super) fn new(id: u64) -> Saver {
        Saver {
            id,
            parser: None,
            asked: None,
            asked_at: 0,
            generation: 0,
            number: 0,
            pushed: 0,
            backup: None,
            chain: Vec::new(),
            revision: 0,
            restoring: None,
            restored: 0,
        }
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
        if let Some(restoring) = &mut self.restoring {
            restoring.disconnected();
        }
        if matches!(self.asked.take(), Some(Asked::Write | Asked::Push)) {
            self.take_other_keys();
        }
    }

    /// Something is awaited.
    pub(super) fn waits(&self) -> bool {
        self.asked.is_some()
    }

    fn take_other_keys(&mut self) {
        self.generation += 1;
        (self.number, self.pushed) = (0, 0);
        // Nobody knows any more which number it must have.
        self.backup = None;
    }

    fn keys(&self) -> [String; 2] {
        ["a", "b"].map(|name| self.key(name))
    }

    fn key(&self, name: &str) -> String {
        format!("{{saved:{}-{}}}:{name}", self.id, self.generation)
    }

    pub(super) fn act(&mut self, now: u64, rng: &mut Rng, send: &mut Vec<u8>) {
        if self.waits() {
            return;
        }
        let asked = match &self.backup {
            _ if self.restoring.is_some() => Asked::Restore,
            None if rng.chance(1, 3) => {
                let builds_on = (1..CHAIN_MAX).contains(&self.chain.len()) && rng.chance(2, 3);
                Asked::Open { since: builds_on.then_some(self.revision) }
            }
            Some(_) if rng.chance(1, 30) => Asked::Close,
            Some(_) if rng.chance(2, 3) => Asked::Next,
            _ if rng.chance(1, 3) => Asked::Push,
            _ => Asked::Write,
        };
        match asked {
            Asked::Restore => {
                if let Some(restoring) = &self.restoring {
                    restoring.ask(send);
                }
            }
            Asked::Push => encode_command(send, ["RPUSH", &self.key("l"), &(self.pushed + 1).to_string()]),
            Asked::Write => {
                let ([one, other], number) = (self.keys(), (self.number + 1).to_string());
                encode_command(send, ["MSET", &one, &number, &other, &number]);
            }
            Asked::Open { since: None } => encode_command(send, ["DICTUM.BACKUP", "OPEN", "0"]),
            Asked::Open { since: Some(since) } => {
                encode_command(send, ["DICTUM.BACKUP", "OPEN", "0", "SINCE", &since.to_string()]);
            }
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
            (Asked::Restore, value) => {
                let Some(restoring) = &mut self.restoring else { return Ok(()) };
                let outcome = restoring.on_answer(&value);
                if outcome != Ok(false) {
                    self.restoring = None;
                }
                self.restored += u64::from(outcome?);
            }
            (Asked::Write | Asked::Push, Value::Error(_)) => self.take_other_keys(),
            (Asked::Push, Value::Integer(_)) => self.pushed += 1,
            (Asked::Open { .. }, Value::Error(text)) if !text.starts_with("ERR") || text.contains("four backups") => {}
            (Asked::Write, Value::Simple(_)) => self.number += 1,
            (Asked::Open { since }, Value::Array(numbers)) => {
                let revision = numbers.get(1).and_then(Value::as_integer).and_then(|it| u64::try_from(it).ok());
                let revision = revision.ok_or_else(|| format!("the beginning of a backup: {numbers:?}"))?;
                if since.is_none() {
                    self.chain.clear();
                }
                let store = MemoryStore::new();
                let reader = ArchiveReader::new(PARTITION, &Below::new(Arc::new(store.clone()), 1));
                self.backup = Some(Backup { number: self.number, pushed: self.pushed, revision, reader, store });
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
        let pushed = backup.reader.push_block(block, Some(&backup.store));
        pushed.map_err(|text| format!("a block of a backup: {text}"))?;
        if more {
            return Ok(());
        }
        let Some(Backup { number, pushed, revision, reader, store }) = self.backup.take() else { return Ok(()) };
        if reader.is_part() == self.chain.is_empty() {
            return Err("a backup is whole where what has changed was asked for, or the other way round".to_owned());
        }
        self.chain.insert(0, reader.finish(&store).map_err(|text| format!("a backup: {text}"))?);
        self.revision = revision;
        let expected = (number > 0).then(|| number.to_string());
        for key in self.keys() {
            let found = self.found(&key)?;
            if found != expected {
                return Err(format!(
                    "a backup has {found:?} under {key}, and {expected:?} was acknowledged last before it"
                ));
            }
        }
        if number > 0 && pushed > 0 && revision.is_multiple_of(RESTORED_EVERY) {
            let list = Expected::List((1..=pushed).map(|element| element.to_string()).collect());
            let texts = self.keys().map(|key| (key, Expected::Text(number.to_string())));
            let expected = texts.into_iter().chain([(self.key("l"), list)]).collect();
            let name = format!("restore-{}-{}", self.id, self.generation);
            self.restoring = Some(Restoring::new(name, &self.chain, expected)?);
            // A command of this restore that is carried out late must meet no other restore.
            self.take_other_keys();
        }
        Ok(())
    }

    /// The value of a key by the last backup and those that it builds on.
    fn found(&self, key: &str) -> Result<Option<String>, String> {
        let mut found = None;
        for (place, archive) in self.chain.iter().enumerate() {
            let said = archive.keys(Some(key.as_bytes()), &self.chain[..place], |name, _, words| {
                if name != key.as_bytes() {
                    // There is nothing more to look for.
                    return Err(());
                }
                found = words.get(2).map(|value| String::from_utf8_lossy(value).into_owned());
                Ok(())
            });
            if let Err(RebuildError::Unreadable(text)) = said {
                return Err(format!("a backup: {text}"));
            }
        }
        Ok(found)
    }
}
