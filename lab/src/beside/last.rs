//! What every key of a history holds at the end: read, of whichever node answers, so that the check sees whether what was acknowledged is there.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::drive::Target;
use crate::drive::blocking::Blocking;
use crate::history::{Operation, Value, format, lists};

/// How long the end may be read.
const READ_PATIENCE: Duration = Duration::from_secs(30);
/// How long one answer may take.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// Before a node that could not be read is asked again.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Keys read at once.
const READ_KEYS: usize = 200;

/// Reads a history that was recorded.
///
/// # Errors
/// When there is none, or it is not whole.
pub fn read_history(path: &Path) -> Result<Vec<Operation>, String> {
    let file = std::fs::File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    format::read(std::io::BufReader::new(file))
}

/// A key, and what was read of it at the end.
pub type LastRead = (Vec<u8>, Option<Value>);

/// Reads every key of the history, of whichever node answers.
///
/// # Errors
/// When one cannot be read for half a minute.
pub fn read_last(target: &Target, history: &[Operation]) -> Result<Vec<LastRead>, String> {
    let lists = lists(history);
    let keys: BTreeSet<&[u8]> =
        history.iter().flat_map(|operation| &operation.steps).map(|step| step.key.as_slice()).collect();
    let (keys, list_keys): (Vec<&[u8]>, Vec<&[u8]>) = keys.into_iter().partition(|key| !lists.contains(key));
    let end = Instant::now() + READ_PATIENCE;
    let mut last = Vec::with_capacity(keys.len() + list_keys.len());
    let mut reader = Reader { target, connection: None, attempts: 0, end };
    for part in keys.chunks(READ_KEYS) {
        let values = reader.read(|connection| read_part(connection, part))?;
        last.extend(part.iter().map(|key| key.to_vec()).zip(values));
    }
    for key in list_keys {
        last.push((key.to_vec(), reader.read(|connection| read_list(connection, key))?));
    }
    Ok(last)
}

/// Asks whichever node answers.
struct Reader<'a> {
    target: &'a Target,
    connection: Option<Blocking>,
    attempts: usize,
    end: Instant,
}

impl Reader<'_> {
    fn read<T>(&mut self, ask: impl Fn(&mut Blocking) -> Result<T, String>) -> Result<T, String> {
        loop {
            match self.connected().and_then(&ask) {
                Ok(answer) => return Ok(answer),
                Err(reason) if Instant::now() >= self.end => {
                    return Err(format!("the keys could not be read at the end: {reason}"));
                }
                Err(_) => {
                    (self.connection, self.attempts) = (None, self.attempts + 1);
                    // A refused connection fails at once: not too often, then.
                    std::thread::sleep(LOOK_EVERY);
                }
            }
        }
    }

    fn connected(&mut self) -> Result<&mut Blocking, String> {
        let addresses = &self.target.addresses;
        let (_, address) = addresses.get(self.attempts % addresses.len().max(1)).ok_or("there is no node")?;
        match &mut self.connection {
            Some(connection) => Ok(connection),
            none => Ok(none.insert(Blocking::open(*address, &self.target.greeting(), ANSWER_PATIENCE)?)),
        }
    }
}

/// Deletes every key of the history: a cluster that is not the laboratory's own shall be as it was.
pub(crate) fn tidy(target: &Target, history: &[Operation]) -> Result<(), String> {
    let keys: BTreeSet<&[u8]> =
        history.iter().flat_map(|operation| &operation.steps).map(|step| step.key.as_slice()).collect();
    let keys: Vec<&[u8]> = keys.into_iter().collect();
    let mut reader = Reader { target, connection: None, attempts: 0, end: Instant::now() + READ_PATIENCE };
    for part in keys.chunks(READ_KEYS) {
        reader.read(|connection| match connection.ask(&words("DEL", part)?)? {
            wire::Value::Integer(_) => Ok(()),
            other => Err(format!("DEL answered {other:?}")),
        })?;
    }
    Ok(())
}

fn words<'a>(command: &'a str, keys: &[&'a [u8]]) -> Result<Vec<&'a str>, String> {
    std::iter::once(Ok(command))
        .chain(keys.iter().map(|key| std::str::from_utf8(key)))
        .collect::<Result<_, _>>()
        .map_err(|error| format!("a key is no text: {error}"))
}

fn read_part(connection: &mut Blocking, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, String> {
    match connection.ask(&words("MGET", keys)?)? {
        wire::Value::Array(values) if values.len() == keys.len() => {
            Ok(values.iter().map(|value| value.as_bytes().map(Value::new)).collect())
        }
        other => Err(format!("MGET answered {other:?}")),
    }
}

fn read_list(connection: &mut Blocking, key: &[u8]) -> Result<Option<Value>, String> {
    let mut words = words("LRANGE", &[key])?;
    words.extend(["0", "-1"]);
    match connection.ask(&words)? {
        wire::Value::Array(items) => {
            let items: Vec<Value> = items.iter().filter_map(|item| item.as_bytes().map(Value::new)).collect();
            Ok((!items.is_empty()).then(|| Value::list(&items)))
        }
        other => Err(format!("LRANGE answered {other:?}")),
    }
}
