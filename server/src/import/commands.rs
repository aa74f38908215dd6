//! A file of commands: an export, or an append-only file of a Redis that has no RDB file in front.
//!
//! Each command leaves as `DICTUM.ONCE`, and many are on their way at once, of which no two have a key in common: so their order does not matter. After a failure those without an
//! answer are said again, to another node, under the same identifiers: so each is carried out once. An identifier is the import's name and the command's number; an import
//! that was broken off goes on under its name (`--name`).

use std::collections::{BTreeSet, VecDeque};
use std::io::Read;
use std::time::{SystemTime, UNIX_EPOCH};

use base::limits::{COMMAND_BYTES_MAX, VALUE_BYTES_MAX};
use wire::{Request, RequestLimits, RequestParser};

use super::{Import, READ_BYTES, unread};
use crate::backup::nodes::{Tries, Trouble};

/// Commands that leave together: so many, or so many bytes.
const BATCH_COMMANDS: usize = 256;
const BATCH_BYTES: usize = 512 * 1024;
/// Commands that were refused of which people are told, at one time.
const TOLD_MAX: usize = 10;

/// Commands that are to leave together.
#[derive(Default)]
struct Batch {
    commands: VecDeque<Command>,
    /// The keys of all of them.
    keys: BTreeSet<Vec<u8>>,
    bytes: usize,
}

struct Command {
    number: u64,
    /// As it was, and as it leaves.
    plain: Vec<u8>,
    once: Vec<u8>,
}

/// A name that no other import has.
pub(super) fn new_name() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    format!("import-{}-{since}", std::process::id())
}

impl Import<'_> {
    /// Carries out all commands of the source.
    pub(super) fn commands(&mut self, mut source: impl Read) -> Result<(), String> {
        let limits = RequestLimits {
            argument_bytes_max: VALUE_BYTES_MAX,
            command_bytes_max: COMMAND_BYTES_MAX,
            is_for_strangers: false,
        };
        let (mut parser, mut buffer) = (RequestParser::new(limits), vec![0; READ_BYTES]);
        let (mut batch, mut number) = (Batch::default(), 0u64);
        loop {
            let count = source.read(&mut buffer).map_err(unread)?;
            if count == 0 {
                self.carry_out(&mut batch)?;
                return if parser.is_idle() {
                    Ok(())
                } else {
                    Err(format!("the source ends in the middle of command {}", number + 1))
                };
            }
            let mut input = &buffer[..count];
            let about = |number: u64, text: String| format!("command {number}: {text}");
            while let Some(request) = parser.next(&mut input).map_err(|error| about(number + 1, error.to_string()))? {
                number += 1;
                let Request::Command(words) = request else {
                    return Err(about(number, "it is longer than a command may be".to_owned()));
                };
                let words: Vec<&[u8]> = words.iter().collect();
                self.command(number, &words, &mut batch)?;
            }
        }
    }

    /// Takes the next command.
    fn command(&mut self, number: u64, words: &[&[u8]], batch: &mut Batch) -> Result<(), String> {
        let name = words.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
        match (name.as_slice(), words.get(1)) {
            (b"select", Some(database)) => {
                let database = std::str::from_utf8(database).ok().and_then(|text| text.parse().ok());
                self.carry_out(batch)?;
                self.enter(database.ok_or_else(|| format!("command {number} selects no database"))?)?;
                self.imported.seen = number;
                return Ok(());
            }
            // Those of a transaction are carried out one by one; a Redis notes the time between commands.
            (b"multi" | b"exec", None) | ([b'#', ..], _) => return Ok(()),
            _ if number <= self.arguments.skip => {
                self.imported.seen = number;
                return Ok(());
            }
            _ => {}
        }
        if self.database.is_none() {
            self.enter(0)?;
        }
        // Libraries are the same in all partitions; done twice they are as they were.
        if name == b"function" {
            self.carry_out(batch)?;
            self.nodes.ask_any(words)?;
            self.imported.written += 1;
            self.imported.seen = number;
            return Ok(());
        }
        let keys = node::keys_of(words);
        if keys.is_empty() || keys.iter().any(|key| batch.keys.contains(*key)) {
            self.carry_out(batch)?;
        }
        let (mut plain, mut once) = (Vec::new(), Vec::new());
        wire::encode_command(&mut plain, words);
        let identifier = format!("{}-{number}", self.name);
        let head: [&[u8]; 2] = [b"DICTUM.ONCE", identifier.as_bytes()];
        wire::encode_command(&mut once, [&head[..], words].concat());
        batch.bytes += once.len();
        batch.keys.extend(keys.iter().map(|key| key.to_vec()));
        batch.commands.push_back(Command { number, plain, once });
        let is_full = batch.commands.len() >= BATCH_COMMANDS || batch.bytes >= BATCH_BYTES;
        if keys.is_empty() || is_full { self.carry_out(batch) } else { Ok(()) }
    }

    /// Says the commands of a batch until all are answered. The error names those that were refused for good.
    fn carry_out(&mut self, batch: &mut Batch) -> Result<(), String> {
        let mut tries = Tries::new();
        let mut refused = Vec::new();
        while !batch.commands.is_empty() {
            let before = batch.commands.len();
            if let Err(text) = self.try_batch(batch, &mut refused) {
                if batch.commands.len() < before {
                    tries.begin_anew();
                }
                self.nodes.turn();
                tries.wait(text)?;
            }
        }
        *batch = Batch::default();
        if refused.is_empty() {
            return Ok(());
        }
        let more = refused.len().saturating_sub(TOLD_MAX);
        refused.truncate(TOLD_MAX);
        let more = if more == 0 { String::new() } else { format!("; and {more} more") };
        Err(format!(
            "refused: {}{more}. With --rejects FILE such commands are left out, and kept there",
            refused.join("; ")
        ))
    }

    /// Says them to one node, and takes away those that it answers. An error if the others may be carried out elsewhere; `refused` gets those that are refused for good.
    fn try_batch(&mut self, batch: &mut Batch, refused: &mut Vec<String>) -> Result<(), String> {
        let all: Vec<u8> = batch.commands.iter().flat_map(|command| &command.once).copied().collect();
        let lost = |error: std::io::Error| format!("the connection was lost: {error}");
        self.nodes.connection().map_err(Trouble::text)?.send_encoded(&all).map_err(lost)?;
        self.progress.read(all.len() as u64);
        while let Some(Command { number, plain, .. }) = batch.commands.front() {
            let reply = self.nodes.connection().map_err(Trouble::text)?.receive().map_err(lost)?;
            match reply.as_error().filter(|error| !error.starts_with("NOTALL")).map(Trouble::of) {
                None => self.imported.written += 1,
                Some(Trouble::Passing(text)) => return Err(text),
                Some(Trouble::Lasting(_)) if self.arguments.rejects.is_some() => {
                    let plain = plain.clone();
                    self.reject(&plain)?;
                    self.imported.rejected += 1;
                }
                Some(Trouble::Lasting(text)) => refused.push(format!("command {number}: {text}")),
            }
            self.imported.seen = self.imported.seen.max(*number);
            batch.commands.pop_front();
        }
        Ok(())
    }
}
