//! What commands do with their keys, as `COMMAND INFO` and `COMMAND GETKEYSANDFLAGS` say it: the kind of access (`RO`: the value is only read; `RW`: read and
//! changed; `OW`: overwritten, whatever it was; `RM`: removed), and what of the value is told or changed.

use crate::spec::{Flags, Spec};

/// Flags of one key.
pub type KeyFlags = &'static [&'static str];

/// Whether the command tells something of the value.
#[must_use]
pub fn tells(flags: KeyFlags) -> bool {
    flags.contains(&"access")
}

/// Whether the command changes the value.
#[must_use]
pub fn changes(flags: KeyFlags) -> bool {
    ["insert", "update", "delete"].iter().any(|flag| flags.contains(flag))
}

const READ: KeyFlags = &["RO", "access"];
const LOOK: KeyFlags = &["RO"];
const UPDATE: KeyFlags = &["RW", "update"];
const CHANGE: KeyFlags = &["RW", "access", "update"];
const TAKE: KeyFlags = &["RW", "access", "delete"];
const DELETE: KeyFlags = &["RW", "delete"];
const INSERT: KeyFlags = &["RW", "insert"];
const OVERWRITE: KeyFlags = &["OW", "update"];
const MAKE: KeyFlags = &["OW", "insert"];
const REMOVE: KeyFlags = &["RM", "delete"];

/// Of commands' keys in turn: the last is that of all that follow. What is not here reads (`READ`) or changes (`UPDATE`), as the command's own flags say.
#[rustfmt::skip]
const TABLE: &[(&[KeyFlags], &[&str])] = &[
    (
        &[LOOK],
        &[
            "touch", "watch", "scard", "type", "memory|usage", "llen", "exists", "hexists", "strlen", "hstrlen", "zcard",
            "hlen", "object|freq", "object|idletime", "object|encoding", "object|refcount", "sismember", "xlen",
        ],
    ),
    (
        &[CHANGE],
        &[
            "decr", "incrby", "eval", "hincrbyfloat", "incrbyfloat", "decrby", "evalsha", "getex", "hincrby", "getset",
            "zincrby", "fcall", "incr", "setbit", "dictum.attach", "move", "hgetex", "json.numincrby", "json.nummultby", "json.toggle", "bitfield",
        ],
    ),
    (
        &[TAKE],
        &[
            "rpop", "zpopmax", "spop", "bzpopmin", "zmpop", "brpop", "getdel", "blmpop", "lpop", "bzmpop", "blpop",
            "zpopmin", "bzpopmax", "lmpop", "hgetdel", "json.arrpop",
        ],
    ),
    (
        &[DELETE],
        &[
            "zremrangebyrank", "xtrim", "lrem", "zrem", "xautoclaim", "xgroup|destroy", "xgroup|delconsumer", "ltrim",
            "zremrangebylex", "xdel", "hdel", "zremrangebyscore", "srem", "xdelex", "json.del", "json.forget",
        ],
    ),
    (
        &[INSERT],
        &[
            "sadd", "lpushx", "rpushx", "lpush", "hsetnx", "pfadd", "xgroup|create", "xgroup|createconsumer", "linsert",
            "append", "rpush",
        ],
    ),
    (
        &[OVERWRITE, READ],
        &[
            "bitop", "geosearchstore", "sdiffstore", "zrangestore", "zinterstore", "zdiffstore", "zunionstore",
            "sunionstore",
        ],
    ),
    (&[TAKE, INSERT], &["brpoplpush", "rpoplpush", "blmove", "smove", "lmove"]),
    (&[OVERWRITE], &["restore", "mset", "psetex", "setex", "set", "msetex"]),
    (&[READ, OVERWRITE], &["georadius", "georadiusbymember", "sort", "copy"]),
    (&[&["RW", "access"]], &["pfdebug", "pfcount"]),
    (&[MAKE], &["setnx", "msetnx"]),
    (&[REMOVE], &["unlink", "del", "delex"]),
    (&[&["RW", "access", "insert"], READ], &["pfmerge"]),
    (&[TAKE, OVERWRITE], &["rename"]),
    (&[TAKE, MAKE], &["renamenx"]),
    (&[UPDATE, READ], &["sinterstore"]),
    (&[READ], &["xreadgroup"]),
];

impl Spec {
    /// What is done with the key at this place among the command's keys.
    #[must_use]
    pub fn key_flags(&self, place: usize) -> KeyFlags {
        let listed = TABLE.iter().find(|(_, names)| names.contains(&self.name)).map(|(flags, _)| *flags);
        match listed {
            Some(flags) => flags[place.min(flags.len() - 1)],
            None if self.flags.has(Flags::WRITE) => UPDATE,
            None => READ,
        }
    }

    /// True if the flags of its keys are the same for all words.
    #[must_use]
    pub fn has_constant_key_flags(&self) -> bool {
        !matches!(self.name, "set" | "bitfield")
    }

    /// The same for these words of a client, where it depends on them.
    #[must_use]
    pub fn key_flags_in(&self, place: usize, words: &[&[u8]]) -> KeyFlags {
        let says =
            |from: usize, name: &str| words.iter().skip(from).any(|word| word.eq_ignore_ascii_case(name.as_bytes()));
        match self.name {
            "set" if says(3, "GET") => CHANGE,
            "bitfield" if !says(2, "SET") && !says(2, "INCRBY") => READ,
            _ => self.key_flags(place),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_flags_depend_on_words_is_known() {
        let words: [&[u8]; 5] = [b"x", b"k", b"GET", b"GET", b"SET"];
        for spec in crate::commands::COMMANDS.iter().map(|entry| entry.spec) {
            let depends =
                spec.key_flags_in(0, &words) != spec.key_flags(0) || spec.key_flags_in(0, &[]) != spec.key_flags(0);
            assert!(!depends || !spec.has_constant_key_flags(), "{}", spec.name);
        }
        assert!(TABLE.iter().all(|(flags, _)| flags.len() <= 3));
    }

    #[test]
    fn every_command_stands_in_one_row() {
        let mut names: Vec<&str> = TABLE.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(TABLE.iter().all(|(flags, _)| !flags.is_empty()));
    }
}
