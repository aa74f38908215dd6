//! `PFDEBUG <ENCODING | DECODE | GETREG | TODENSE> key`: how a HyperLogLog is written down.

use super::as_one;
use crate::algorithms::hyperloglog::{self, REGISTERS};
use crate::commands::prelude::*;

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wanted {
    Encoding,
    Decode,
    Registers,
    Dense,
}

/// Tells of the registers and the runs of one.
pub struct PfDebug<'a> {
    wanted: Result<Wanted, Failure>,
    key: KeyRef<'a>,
}

impl<'a> WriteCommand<'a> for PfDebug<'a> {
    const SPEC: Spec = Spec {
        name: "pfdebug",
        arity: 3,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::DANGEROUS).and(Flags::BOUNDED),
        keys: Keys::Range { first: 2, last: 2, step: 1 },
        group: Group::HyperLogLog,
        since: "2.8.9",
        complexity: "O(1) with a large constant",
        summary: "Tells how a HyperLogLog is written down.",
        arguments: "subcommand key",
        example: "PFDEBUG ENCODING visitors",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let wanted = match args.get(1)?.to_ascii_lowercase().as_slice() {
            b"encoding" => Ok(Wanted::Encoding),
            b"decode" => Ok(Wanted::Decode),
            b"getreg" => Ok(Wanted::Registers),
            b"todense" => Ok(Wanted::Dense),
            _ => Err(Failure::built(&[b"ERR Unknown PFDEBUG subcommand '", args.get(1)?, b"'"].concat())),
        };
        Ok(PfDebug { wanted, key: args.key(2)? })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        // That the key is wrong is said first, as in a Redis.
        let Some(bytes) = tx.string(self.key)? else {
            return Err(Failure::Text("ERR The specified key does not exist"));
        };
        let bytes = as_one(bytes)?;
        let is_dense = hyperloglog::is_dense(&bytes);
        match self.wanted? {
            Wanted::Encoding => Ok(Reply::Simple(if is_dense { "dense" } else { "sparse" })),
            Wanted::Decode if is_dense => Err(Failure::Text("ERR HLL encoding is not sparse")),
            Wanted::Decode => Ok(Reply::bulk(hyperloglog::runs_as_text(&bytes)?)),
            // As in a Redis, whoever asks for the registers makes it dense.
            Wanted::Registers => {
                make_dense(tx, self.key, &bytes)?;
                let mut registers = [0; REGISTERS];
                hyperloglog::raise(&mut registers, &bytes)?;
                Ok(Reply::Array(registers.iter().map(|number| Reply::Integer(i64::from(*number))).collect()))
            }
            Wanted::Dense => Ok(Reply::Integer(i64::from(make_dense(tx, self.key, &bytes)?))),
        }
    }
}

/// Whether it was not dense before.
fn make_dense(tx: &mut Transaction<'_>, key: KeyRef<'_>, bytes: &[u8]) -> Result<bool, Failure> {
    if hyperloglog::is_dense(bytes) {
        return Ok(false);
    }
    let mut dense = bytes.to_vec();
    hyperloglog::make_dense(&mut dense)?;
    tx.check_length(dense.len() as u64)?;
    tx.edit_string(key, |string| *string = dense)?;
    Ok(true)
}
