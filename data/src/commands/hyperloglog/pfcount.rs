//! `PFCOUNT key [key ...]`

use super::{REGISTERS_PRICE, as_one};
use crate::algorithms::hyperloglog::{self, REGISTERS};
use crate::commands::prelude::*;

/// About how many different elements HyperLogLogs were told of.
pub struct PfCount<'a> {
    keys: &'a [&'a [u8]],
}

impl<'a> ReadCommand<'a> for PfCount<'a> {
    const SPEC: Spec = Spec {
        name: "pfcount",
        arity: -2,
        flags: Flags::READONLY,
        keys: Keys::ALL,
        group: Group::HyperLogLog,
        since: "2.8.9",
        complexity: "O(1) with a large constant, O(N) for N keys",
        summary: "Returns the approximate number of different elements in one or several HyperLogLogs.",
        arguments: "key [key ...]",
        example: "PFCOUNT visitors",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(PfCount { keys: args.from(1) })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let read = |key: &&[u8]| view.string(KeyRef::new(key))?.map(as_one).transpose();
        if let [key] = self.keys {
            let Some(bytes) = read(key)? else { return Ok(Reply::Integer(0)) };
            // A count that is not there is not written back: that would make an entry of the log of a read.
            view.meter().spend(REGISTERS_PRICE);
            let count = hyperloglog::cached(&bytes).map_or_else(|| hyperloglog::count(&bytes), Ok)?;
            return Ok(Reply::Integer(count as i64));
        }
        let mut registers = [0; REGISTERS];
        for key in self.keys {
            if let Some(bytes) = read(key)? {
                view.meter().spend(REGISTERS_PRICE);
                view.meter().check()?;
                hyperloglog::raise(&mut registers, &bytes)?;
            }
        }
        Ok(Reply::Integer(hyperloglog::count_registers(&registers) as i64))
    }
}
