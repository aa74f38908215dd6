//! Says commands to a cluster, many on their way at once, until all of them are done.
//!
//! When a node fails nobody may know what became of a command, and one that was given up may be carried out later, behind others that were said to another node. Commands say how they
//! bear that ([`Manner`]):
//! - Those that may be said again are on their way by the hundred. After a failure the source goes on with the first key of which not everything was answered, at another node.
//! - The others are said alone, behind everything before them, and again with the same identifier until they are known to be done: one that is carried out late is then no more than a repetition.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use node::Manner;
use wire::{Value, encode_command};

use super::nodes::{Nodes, Tries, Trouble};
use crate::check::Progress;

/// Commands that leave together: so many, or so many bytes. Two such batches are on their way at once.
const BATCH_COMMANDS: usize = 256;
const BATCH_BYTES: usize = 512 * 1024;

/// Takes a key, and one command that makes it.
pub(crate) type Say<'s> = dyn FnMut(&[u8], Manner, &[&[u8]]) -> Result<(), Trouble> + 's;

/// See the file's head.
pub(crate) struct Writer<'w> {
    nodes: &'w mut Nodes,
    progress: &'w mut Progress,
    /// The beginning of this writer's identifiers, and how many there were.
    name: String,
    identifiers: u64,
    tries: Tries,
    way: Way,
}

/// The commands on their way over one connection.
#[derive(Default)]
struct Way {
    /// Commands that have not left yet.
    out: Vec<u8>,
    out_commands: usize,
    /// Batches without answers, by how many commands they have.
    batches: VecDeque<usize>,
    /// Keys of which not everything was answered, with how many commands that is. The last one may get further commands.
    keys: VecDeque<(Vec<u8>, usize)>,
    /// Keys of which everything was.
    done: u64,
    /// Commands that have to be carried out in their order.
    in_order: Vec<u8>,
    in_order_commands: usize,
}

impl<'w> Writer<'w> {
    pub(crate) fn new(nodes: &'w mut Nodes, progress: &'w mut Progress) -> Writer<'w> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let name = format!("restore-{}-{since}", std::process::id());
        Writer { nodes, progress, name, identifiers: 0, tries: Tries::new(), way: Way::default() }
    }

    /// Has `source` say all commands, from the key on that it is given; it is asked again, with a later key, after each failure that passes. Returns how many keys there were.
    pub(crate) fn write(
        &mut self,
        mut source: impl FnMut(Option<&[u8]>, &mut Say<'_>) -> Result<(), Trouble>,
    ) -> Result<u64, String> {
        let mut from: Option<Vec<u8>> = None;
        let mut done = 0;
        self.tries.begin_anew();
        loop {
            self.way = Way::default();
            let outcome = source(from.as_deref(), &mut |key, manner, words| self.say(key, manner, words));
            let outcome = outcome.and_then(|()| self.finish());
            done += self.way.done;
            let text = match outcome {
                Ok(()) => return Ok(done + self.way.keys.len() as u64),
                Err(Trouble::Lasting(text)) => {
                    // Answers are still to come on that connection.
                    self.nodes.turn();
                    return Err(text);
                }
                Err(Trouble::Passing(text)) => text,
            };
            if self.way.done > 0 {
                self.tries.begin_anew();
            }
            from = self.way.keys.pop_front().map(|(key, _)| key).or(from);
            self.nodes.turn();
            self.tries.wait(text)?;
        }
    }

    fn say(&mut self, key: &[u8], manner: Manner, words: &[&[u8]]) -> Result<(), Trouble> {
        if self.way.keys.back().is_none_or(|(last, _)| last != key) {
            self.say_in_order()?;
            self.way.close_last();
            self.way.keys.push_back((key.to_vec(), 0));
        }
        match manner {
            Manner::Again => {
                self.say_in_order()?;
                encode_command(&mut self.way.out, words);
                self.way.out_commands += 1;
                if let Some((_, waiting)) = self.way.keys.back_mut() {
                    *waiting += 1;
                }
                if self.way.out_commands >= BATCH_COMMANDS || self.way.out.len() >= BATCH_BYTES {
                    self.leave(1)?;
                }
                Ok(())
            }
            Manner::InOrder => {
                encode_command(&mut self.way.in_order, words);
                self.way.in_order_commands += 1;
                if self.way.in_order_commands >= BATCH_COMMANDS || self.way.in_order.len() >= BATCH_BYTES {
                    self.say_in_order()?;
                }
                Ok(())
            }
            Manner::Once => {
                self.say_in_order()?;
                self.leave(0)?;
                self.identifiers += 1;
                let identifier = format!("{}-{}", self.name, self.identifiers);
                let once: [&[u8]; 2] = [b"DICTUM.ONCE", identifier.as_bytes()];
                let mut command = Vec::new();
                encode_command(&mut command, [&once[..], words].concat());
                self.insist(&command, 1)
            }
        }
    }

    /// Everything is said: waits for all answers.
    fn finish(&mut self) -> Result<(), Trouble> {
        self.say_in_order()?;
        self.leave(0)
    }

    /// Has those that have to be carried out in their order carried out by one transaction. Done a second time each of them is refused.
    fn say_in_order(&mut self) -> Result<(), Trouble> {
        let count = std::mem::take(&mut self.way.in_order_commands);
        if count == 0 {
            return Ok(());
        }
        self.leave(0)?;
        let mut commands = Vec::with_capacity(self.way.in_order.len() + 64);
        encode_command(&mut commands, ["MULTI"]);
        commands.append(&mut self.way.in_order);
        encode_command(&mut commands, ["EXEC"]);
        self.insist(&commands, count + 2)
    }

    /// Says these until they are known to be done, and there is nothing else on its way.
    fn insist(&mut self, commands: &[u8], count: usize) -> Result<(), Trouble> {
        self.tries.begin_anew();
        let mut is_again = false;
        loop {
            match self.try_once(commands, count, std::mem::replace(&mut is_again, true)) {
                Err(Trouble::Passing(text)) => {
                    self.nodes.turn();
                    self.tries.wait(text).map_err(Trouble::Lasting)?;
                }
                Ok(()) => {
                    self.progress.read(commands.len() as u64);
                    return Ok(());
                }
                lasting => return lasting,
            }
        }
    }

    /// `is_again`: they may have been done before.
    fn try_once(&mut self, commands: &[u8], count: usize, is_again: bool) -> Result<(), Trouble> {
        let connection = self.nodes.connection()?;
        connection.send_encoded(commands).map_err(lost)?;
        let mut refused = Ok(());
        for _ in 0..count {
            let reply = connection.receive().map_err(lost)?;
            refused = refused.and_then(|()| self.way.judge(&reply, is_again));
        }
        refused
    }

    /// Sends what was gathered, and waits until no more than so many batches are without answers.
    fn leave(&mut self, batches_max: usize) -> Result<(), Trouble> {
        if self.way.out_commands > 0 {
            self.nodes.connection()?.send_encoded(&self.way.out).map_err(lost)?;
            self.progress.read(self.way.out.len() as u64);
            self.way.out.clear();
            let count = std::mem::take(&mut self.way.out_commands);
            self.way.batches.push_back(count);
        }
        while self.way.batches.len() > batches_max {
            let Some(count) = self.way.batches.pop_front() else { break };
            let connection = self.nodes.connection()?;
            for _ in 0..count {
                let reply = connection.receive().map_err(lost)?;
                self.way.judge(&reply, false)?;
                self.way.answered();
            }
        }
        Ok(())
    }
}

impl Way {
    /// An error unless an answer is a good one.
    fn judge(&self, reply: &Value, is_again: bool) -> Result<(), Trouble> {
        let items = if let Value::Array(items) = reply { items.as_slice() } else { std::slice::from_ref(reply) };
        match items.iter().filter_map(Value::as_error).find(|error| !is_done(error, is_again)) {
            None => Ok(()),
            Some(error) => Err(match Trouble::of(error) {
                Trouble::Lasting(text) => {
                    let key = self.keys.front().map_or_else(String::new, |(key, _)| wire::quote(key));
                    Trouble::Lasting(format!("key {key} was refused: {text}"))
                }
                passing => passing,
            }),
        }
    }

    /// A command of the first key that waits was answered.
    fn answered(&mut self) {
        while self.keys.len() > 1 && self.keys.front().is_some_and(|(_, waiting)| *waiting == 0) {
            self.keys.pop_front();
            self.done += 1;
        }
        if let Some((_, waiting)) = self.keys.front_mut() {
            *waiting = waiting.saturating_sub(1);
        }
        while self.keys.len() > 1 && self.keys.front().is_some_and(|(_, waiting)| *waiting == 0) {
            self.keys.pop_front();
            self.done += 1;
        }
    }

    /// Nothing further is said of the last key. If everything was answered it is done.
    fn close_last(&mut self) {
        if self.keys.len() == 1 && self.keys.front().is_some_and(|(_, waiting)| *waiting == 0) {
            self.keys.pop_front();
            self.done += 1;
        }
    }
}

/// It was done, and not every replica had it in time; or it was done before,.
fn is_done(error: &str, is_again: bool) -> bool {
    error.starts_with("NOTALL")
        || is_again && (error.starts_with("BUSYGROUP") || error.contains("XADD is equal or smaller"))
}

fn lost(error: std::io::Error) -> Trouble {
    Trouble::Passing(format!("the connection was lost: {error}"))
}
