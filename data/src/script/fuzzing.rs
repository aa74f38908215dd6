//! Scripts made of any bytes, for the fuzzer and for ordinary tests.

use super::vm::Machine;
use super::{Call, Code, Host, Rules, sha1};
use crate::reply::Reply;
use crate::slots::Slots;
use std::cell::RefCell;

/// What a fuzzed script may use up: it is over soon, and the limits are met often.
const UNITS: u64 = 200_000;
/// The same in bytes; more than what a used machine has less than a new one.
const BYTES: u64 = 16 * 1024 * 1024;
/// Statements in statements, and values in values.
const DEPTH_MAX: u32 = 5;

thread_local! {
    static USED: RefCell<Option<Machine>> = const { RefCell::new(None) };
}

/// Answers what it is asked, so that scripts get all kinds of values back.
struct Echo;

impl Host for Echo {
    fn call(&mut self, words: &[&[u8]]) -> Reply {
        match words.len() {
            1 => Reply::Nil,
            2 => Reply::bulk(words[1]),
            3 => Reply::Integer(words[1].len() as i64),
            _ => Reply::Array(words.iter().map(|word| Reply::bulk(*word)).collect()),
        }
    }

    fn slots(&self) -> Slots {
        Slots::ALL
    }

    fn may_publish_nothing(&self) -> bool {
        false
    }

    fn restore(&mut self) {}

    fn is_over_budget(&self) -> bool {
        false
    }

    fn pay(&mut self, _: u64) {}

    fn begin(&mut self) {}
}

/// Runs `script` in a machine that ran all scripts before and in a new one.
///
/// # Panics
/// If these come to different ends, or count different work.
pub(crate) fn run_twice(script: &[u8], args: &[&[u8]]) {
    let sha = sha1(script);
    let code = Code::Script { body: script, sha: &sha };
    let call = Call { code, keys: &args[..args.len() / 2], args, read_only: false, seed: 7, rules: Rules::Work };
    let run = |machine: &mut Machine| {
        let end = match machine.run(&call, &mut Echo) {
            Ok(reply) => Ok(format!("{reply:?}")),
            Err(broken) => Err(broken.text()),
        };
        (end, machine.spent())
    };
    let new = || Machine::new(Rules::Work).expect("a machine").with_limits(UNITS, BYTES);
    let mut used = USED.take().unwrap_or_else(new);
    let first = run(&mut used);
    let is_whole = used.tidy();
    let mut fresh = new();
    let second = run(&mut fresh);
    // Bytes are what the two may disagree on: then the new one's outcome counts.
    let is_about_bytes = [&first, &second].iter().any(|(end, _)| end.as_ref().is_err_and(|why| why.contains("bytes")));
    assert!(is_about_bytes || first == second, "a used machine: {first:?}, a new one: {second:?}");
    USED.set(is_whole.then_some(used));
}

/// Makes a script of any bytes: each is a choice of the grammar.
pub(crate) fn script_of(bytes: &[u8]) -> String {
    let mut drawing = Drawing { bytes, out: String::new() };
    drawing.out.push_str("local a, b, c, t = 1, 'x', 2.5, {1, 2, 3, k = 'v'}\n");
    while !drawing.bytes.is_empty() && drawing.out.len() < 20_000 {
        drawing.statement(0);
    }
    drawing.out.push_str("return {a, b, c, tostring(t), t}\n");
    drawing.out
}

struct Drawing<'a> {
    bytes: &'a [u8],
    out: String,
}

const VALUES: &[&str] = &[
    "a",
    "b",
    "c",
    "t",
    "nil",
    "true",
    "0",
    "-1",
    "2^31",
    "-2^31",
    "2^53",
    "-2147483648",
    "2147483647",
    "1/0",
    "0/0",
    "1e308",
    "''",
    "'x'",
    "'%d'",
    "'(.-)%1'",
    "'[^%w]+'",
    "'i4>!8s'",
    "'\\0\\255'",
    "'123'",
    "'0x10'",
    "'__index'",
    "KEYS",
    "ARGV",
    "ARGV[1]",
    "KEYS[1]",
    "{}",
    "{[2^40] = 1}",
    "('ab'):rep(1000)",
    "string",
    "cjson.null",
    "#t",
    "function() return a end",
    "coroutine.create(function(x) a = coroutine.yield(x) end)",
    "setmetatable({}, {__index = t, __newindex = t, __call = function(_, x) return x end, __lt = function() return true end, __tostring = function() return 'm' end})",
];

const CALLS: &[&str] = &[
    "table.insert",
    "table.remove",
    "table.concat",
    "table.sort",
    "table.maxn",
    "table.getn",
    "table.foreach",
    "table.foreachi",
    "unpack",
    "select",
    "next",
    "pairs",
    "ipairs",
    "tonumber",
    "tostring",
    "type",
    "rawget",
    "rawset",
    "rawequal",
    "setmetatable",
    "getmetatable",
    "pcall",
    "xpcall",
    "error",
    "assert",
    "loadstring",
    "load",
    "string.rep",
    "string.sub",
    "string.byte",
    "string.char",
    "string.format",
    "string.find",
    "string.match",
    "string.gsub",
    "string.gmatch",
    "string.upper",
    "string.reverse",
    "string.len",
    "math.floor",
    "math.random",
    "math.max",
    "math.fmod",
    "math.ldexp",
    "bit.band",
    "bit.lshift",
    "bit.tohex",
    "bit.rol",
    "cjson.encode",
    "cjson.decode",
    "cjson.encode_sparse_array",
    "cjson.encode_number_precision",
    "cmsgpack.pack",
    "cmsgpack.unpack",
    "cmsgpack.unpack_limit",
    "struct.pack",
    "struct.unpack",
    "struct.size",
    "redis.call",
    "redis.pcall",
    "redis.sha1hex",
    "redis.error_reply",
    "redis.setresp",
    "coroutine.resume",
    "coroutine.wrap",
    "coroutine.status",
];

const OPERATORS: &[&str] = &["+", "-", "*", "/", "%", "^", "..", "==", "~=", "<", "<=", "and", "or"];

impl Drawing<'_> {
    fn choice(&mut self, count: usize) -> usize {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        usize::from(*first) % count
    }

    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn value(&mut self, depth: u32) {
        if depth >= DEPTH_MAX {
            let index = self.choice(VALUES.len());
            return self.put(VALUES[index]);
        }
        match self.choice(8) {
            0 => self.call(depth + 1),
            1 => {
                self.put("(");
                self.value(depth + 1);
                let operator = OPERATORS[self.choice(OPERATORS.len())];
                self.put(&format!(" {operator} "));
                self.value(depth + 1);
                self.put(")");
            }
            2 => {
                self.put("t[");
                self.value(depth + 1);
                self.put("]");
            }
            3 => {
                self.put("{");
                self.value(depth + 1);
                self.put(", ");
                self.value(depth + 1);
                self.put("}");
            }
            _ => {
                let index = self.choice(VALUES.len());
                self.put(VALUES[index]);
            }
        }
    }

    fn call(&mut self, depth: u32) {
        let name = CALLS[self.choice(CALLS.len())];
        // Most arguments make no sense: an error shall not be the end of each script.
        let is_guarded = self.choice(4) > 0;
        self.put(&if is_guarded { format!("select(2, pcall({name}") } else { format!("{name}(") });
        for index in 0..self.choice(4) {
            self.put(if index > 0 || is_guarded { ", " } else { "" });
            self.value(depth + 1);
        }
        self.put(if is_guarded { "))" } else { ")" });
    }

    fn body(&mut self, depth: u32) {
        for _ in 0..=self.choice(2) {
            self.statement(depth + 1);
        }
    }

    fn statement(&mut self, depth: u32) {
        let nested = if depth < DEPTH_MAX { 8 } else { 4 };
        match self.choice(nested) {
            0 | 1 => {
                let name = ["a", "b", "c", "t[a]", "t.k", "t[#t + 1]"][self.choice(6)];
                self.put(&format!("{name} = "));
                self.value(0);
            }
            2 => {
                self.put("local _ = ");
                self.call(0);
            }
            3 => self.put("t = {1, 2, 3, k = 'v'}"),
            4 => {
                self.put("if ");
                self.value(1);
                self.put(" then\n");
                self.body(depth);
                self.put("end");
            }
            5 => {
                let count = [3, 100, 10_000][self.choice(3)];
                self.put(&format!("for i = 1, {count} do\n"));
                self.body(depth);
                self.put("end");
            }
            6 => {
                self.put("pcall(function()\n");
                self.body(depth);
                self.put("end)");
            }
            _ => {
                self.put("local f = coroutine.wrap(function(...)\n");
                self.body(depth);
                self.put("coroutine.yield(...)\nend) pcall(f, a)");
            }
        }
        self.put("\n");
    }
}
