//! Commands that clients send inside scripts: they must do and answer what they do by themselves, several of them as one.

use base::Rng;
use wire::encode_command;

use crate::history::Command;

/// Runs its arguments as a command.
const ONE: &str = "return redis.pcall(unpack(ARGV))";
/// Its SHA1.
const ONE_SHA: &str = "b72d50ecdcafd5e07f3fca2060a111de46c547f9";
/// Does the same, and then breaks a limit: nothing has happened.
const BROKEN: &str = "redis.pcall(unpack(ARGV)) local t = {} t[t] = 1 for _ in pairs(t) do end";
/// Runs several: the number of words stands before the words of each.
const SEVERAL: &str = "local answers, at = {}, 1 while at <= #ARGV do local count = tonumber(ARGV[at]) \
     answers[#answers + 1] = redis.pcall(unpack(ARGV, at + 1, at + count)) at = at + count + 1 end return answers";
/// How an answer ends to a script that has broken a limit.
const NOTHING: &str = "nothing that it did has happened";

/// Commands whose answers a script hands on as they are.
const PLAIN: [&str; 31] = [
    "append",
    "decr",
    "decrby",
    "del",
    "exists",
    "get",
    "getdel",
    "getset",
    "hdel",
    "hexists",
    "hget",
    "hincrby",
    "hlen",
    "hset",
    "incr",
    "incrby",
    "llen",
    "lpop",
    "lpush",
    "rpop",
    "rpush",
    "sadd",
    "scard",
    "set",
    "setnx",
    "sismember",
    "srem",
    "strlen",
    "xadd",
    "xlen",
    "zrem",
];

/// How a client uses scripts.
#[derive(Clone, Debug)]
pub struct Scripts {
    rng: Rng,
    /// Of sixteen tasks; 0: none.
    often: u64,
}

impl Scripts {
    /// Those of one client.
    #[must_use]
    pub fn new(seed: u64, often: u64) -> Scripts {
        Scripts { rng: Rng::new(seed), often }
    }

    fn is_wanted(&mut self) -> bool {
        self.often > 0 && self.rng.chance(self.often, 16)
    }

    /// Sends one command, perhaps in a script. Whether in one. `declares`: which keys a script uses has to be said.
    pub fn send(&mut self, command: &Command, declares: bool, send: &mut Vec<u8>) -> bool {
        let words = command.words();
        if !is_plain(&words) || !self.is_wanted() {
            encode_command(send, words);
            return false;
        }
        let start: [&[u8]; 2] = match self.rng.below(8) {
            0 => [b"EVAL", BROKEN.as_bytes()],
            1..4 => [b"EVALSHA", ONE_SHA.as_bytes()],
            _ => [b"EVAL", ONE.as_bytes()],
        };
        let keys = keys_of([&words].into_iter(), declares);
        encode_command(send, start.into_iter().map(<[u8]>::to_vec).chain(keys).chain(words).collect::<Vec<_>>());
        true
    }

    /// Sends several as one script, or does not.
    pub fn send_several(&mut self, commands: &[Command], declares: bool, send: &mut Vec<u8>) -> bool {
        if !commands.iter().all(|command| is_plain(&command.words())) || !self.is_wanted() {
            return false;
        }
        let mut words = vec![b"EVAL".to_vec(), SEVERAL.as_bytes().to_vec()];
        let all: Vec<Vec<Vec<u8>>> = commands.iter().map(Command::words).collect();
        words.extend(keys_of(all.iter(), declares));
        for of in all {
            words.push(of.len().to_string().into_bytes());
            words.extend(of);
        }
        encode_command(send, words);
        true
    }
}

/// How many keys commands have that are in a script, and which: the first word of each.
fn keys_of<'a>(commands: impl Iterator<Item = &'a Vec<Vec<u8>>>, declares: bool) -> Vec<Vec<u8>> {
    let keys: Vec<Vec<u8>> = commands.filter(|_| declares).filter_map(|words| words.get(1).cloned()).collect();
    [vec![keys.len().to_string().into_bytes()], keys].concat()
}

fn is_plain(words: &[Vec<u8>]) -> bool {
    words.first().is_some_and(|name| PLAIN.iter().any(|plain| name.eq_ignore_ascii_case(plain.as_bytes())))
}

/// Whether an error says that a script has done nothing, or is not known.
#[must_use]
pub fn is_undone(error: &str) -> bool {
    error.ends_with(NOTHING) || error.starts_with("NOSCRIPT")
}
