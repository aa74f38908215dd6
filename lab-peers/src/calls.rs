//! What the laboratory's commands are on a store of whole values: `SET` and `HSET` become a put of the whole value, `GET` and `HGETALL` a
//! get of it, and the index that a sorted set keeps elsewhere is left out.

use lab::workload::Words;

/// A single call.
pub enum Call {
    /// Writes a value under a key.
    Put(Vec<u8>, Vec<u8>),
    /// Reads the value under a key.
    Get(Vec<u8>),
}

/// What a command is; nothing for the index, which such a store has by itself.
///
/// # Errors
/// For a command that is not on a single key.
pub fn call_of(words: &Words<'_>, record_bytes: usize) -> Result<Option<Call>, String> {
    let word = |index: usize| words.get(index).unwrap_or_default();
    match word(0) {
        b"SET" => Ok(Some(Call::Put(word(1).to_vec(), word(2).to_vec()))),
        b"GET" | b"HGETALL" => Ok(Some(Call::Get(word(1).to_vec()))),
        b"HSET" => {
            let fields: Vec<u8> = words.clone().skip(3).step_by(2).flatten().copied().collect();
            // An update of one field writes the whole record, as there are no fields; its bytes stand for the others'.
            Ok(Some(Call::Put(word(1).to_vec(), fields.iter().cycle().take(record_bytes).copied().collect())))
        }
        b"ZADD" => Ok(None),
        other => {
            let name = String::from_utf8_lossy(other);
            Err(format!("{name} cannot be done on this side, which has single keys only: choose another workload"))
        }
    }
}
