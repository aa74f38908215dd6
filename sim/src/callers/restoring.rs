//! A restore: a caller makes keys of its backup anew in another database, beside everything else that the cluster does.
//!
//! The caller says one command at a time. If nobody knows what became of a command the caller says it again until it is known to be done, also over other connections and to other nodes; it says
//! commands that do not bear to be carried out twice by `DICTUM.ONCE`. At the end the keys are what they were when the caller asked for the backup, though some commands are carried out late.

use node::{Archive, Manner, RebuildError};
use wire::{Value, encode_command};

/// The database into which keys are restored. Those of the backup are in database 0.
const TARGET: &str = "5";

/// The value that a key must have afterwards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Expected {
    Text(String),
    List(Vec<String>),
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct Restoring {
    /// Of the identifiers of `DICTUM.ONCE`.
    name: String,
    commands: Vec<(Manner, Vec<Vec<u8>>)>,
    expected: Vec<(String, Expected)>,
    /// Commands that are done, and then keys that were looked at.
    done: usize,
    /// The connection is in the database.
    is_there: bool,
}

impl Restoring {
    /// From the newest backup and those that it builds on, the newest first.
    ///
    /// # Errors
    /// The backup cannot be read.
    pub(super) fn new(name: String, chain: &[Archive], expected: Vec<(String, Expected)>) -> Result<Restoring, String> {
        let mut commands = Vec::new();
        for (place, archive) in chain.iter().enumerate() {
            let said: Result<u64, RebuildError<()>> =
                // No value is made as a whole: the commands that make a list bit by bit do not bear to be carried out twice.
                archive.keys_whole_up_to(0, None, &chain[..place], |key, manner, words| {
                    if expected.iter().any(|(name, _)| name.as_bytes() == key) {
                        commands.push((manner, words.iter().map(|word| word.to_vec()).collect()));
                    }
                    Ok(())
                });
            said.map_err(|error| format!("a backup: {error:?}"))?;
        }
        Ok(Restoring { name, commands, expected, done: 0, is_there: false })
    }

    /// The connection is gone: another one begins in database 0.
    pub(super) fn disconnected(&mut self) {
        self.is_there = false;
    }

    /// Asks what comes next.
    pub(super) fn ask(&self, send: &mut Vec<u8>) {
        if !self.is_there {
            return encode_command(send, ["SELECT", TARGET]);
        }
        let Some((manner, words)) = self.commands.get(self.done) else {
            return match self.expected.get(self.done - self.commands.len()) {
                Some((key, Expected::Text(_))) => encode_command(send, ["GET", key]),
                Some((key, Expected::List(_))) => encode_command(send, ["LRANGE", key, "0", "-1"]),
                None => encode_command(send, ["SELECT", "0"]),
            };
        };
        match manner {
            Manner::Again => encode_command(send, words),
            Manner::InOrder | Manner::Once => {
                let once = [b"DICTUM.ONCE".to_vec(), format!("{}-{}", self.name, self.done).into_bytes()];
                encode_command(send, [&once[..], words].concat());
            }
        }
    }

    /// The answer to that. True if all is done and the connection is in database 0 again.
    ///
    /// # Errors
    /// A command was refused, or a key is not what it was; the text says which.
    pub(super) fn on_answer(&mut self, value: &Value) -> Result<bool, String> {
        if let Some(text) = value.as_error().filter(|text| !text.starts_with("NOTALL")) {
            // Nobody knows what became of it, or it was not done: it is said again.
            return if text.starts_with("ERR") { Err(format!("a restore is refused: {text}")) } else { Ok(false) };
        }
        if !self.is_there {
            self.is_there = true;
            return Ok(false);
        }
        if self.done >= self.commands.len() {
            let Some((key, expected)) = self.expected.get(self.done - self.commands.len()) else { return Ok(true) };
            let text = |value: &Value| value.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            let is_it = match expected {
                Expected::Text(expected) => text(value).as_ref() == Some(expected),
                Expected::List(expected) => {
                    let found = value.as_array().map(|items| items.iter().filter_map(text).collect::<Vec<_>>());
                    found.as_ref() == Some(expected)
                }
            };
            if !is_it {
                return Err(format!("{key} was restored as {value:?}, and was {expected:?}"));
            }
        }
        self.done += 1;
        Ok(false)
    }
}
