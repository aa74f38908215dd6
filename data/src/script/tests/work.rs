//! What scripts use up is counted in units that are the same on every replica, and no unit takes much longer than another: so these tests count
//! units, not seconds. What costs what is told in docs/scripts.md.

use super::*;
use crate::script::vm::Machine;
use std::collections::{BTreeMap, BTreeSet};

/// Answers every command alike.
struct NoCommands;

impl Host for NoCommands {
    fn call(&mut self, _: &[&[u8]]) -> Reply {
        Reply::Ok
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

/// What a script uses up in this machine, and how it ends.
fn work_in(machine: &mut Machine, script: &str, args: &[&[u8]]) -> (u64, String) {
    let sha = sha1(script.as_bytes());
    let code = Code::Script { body: script.as_bytes(), sha: &sha };
    let call = Call { code, keys: &[], args, read_only: false, seed: 1, rules: Rules::Work };
    let end = match machine.run(&call, &mut NoCommands) {
        Ok(reply) => format!("{reply:?}"),
        Err(broken) => broken.text(),
    };
    (machine.work_done(), end)
}

fn work_with(script: &str, args: &[&[u8]]) -> (u64, String) {
    let mut machine = Machine::new(Rules::Work).unwrap();
    let outcome = work_in(&mut machine, script, args);
    assert!(machine.tidy());
    outcome
}

fn work(script: &str) -> u64 {
    work_with(script, &[]).0
}

/// What one round of a loop over this costs, beside the loop.
fn cost(before: &str, once: &str, rounds: u64) -> u64 {
    let script = |rounds| format!("{before} for i = 1, {rounds} do {once} end");
    let (all, none) = (work(&script(rounds)), work(&script(0)));
    assert!(all < INSTRUCTIONS_MAX, "{once}: too many rounds");
    (all - none) / rounds
}

#[test]
fn operators_and_library_functions_count_what_they_touch() {
    const MEGABYTE: u64 = 1 << 20;
    let long = "local s = ('x'):rep(1048576) local a, b = s .. 'a', s .. 'b' ";
    let digits = "local s = ('1'):rep(1048576) ";
    let list = "local t = {} for i = 1, 100000 do t[i] = i end ";
    let formats = "local f = (' '):rep(1048576) ";
    let values = "local t = {} for i = 1, 7000 do t[i] = i end local function f(...) return select('#', ...) end local function g(...) return f(...) end ";
    let chain = "local t = {} for i = 1, 90 do t = setmetatable({}, {__index = t, __newindex = t}) end ";
    for (before, once, least) in [
        (long, "local x = a < b", MEGABYTE / 16),
        (long, "local x = a >= b", MEGABYTE / 16),
        ("local s = ('\\0'):rep(1048576) local a, b = s .. 'a', s .. 'b' ", "local x = a < b", MEGABYTE / 16),
        (long, "local x = s .. 'x'", MEGABYTE / 16),
        (long, "local x = s:upper()", MEGABYTE / 16),
        (long, "local x = s:lower()", MEGABYTE / 16),
        (long, "local x = s:reverse()", MEGABYTE / 16),
        (long, "local x = s:sub(2)", MEGABYTE / 16),
        (long, "local x = ('%s!'):format(s)", MEGABYTE / 16),
        (long, "local x = s:find('y', 1, true)", MEGABYTE / 16),
        (long, "local x = ('y'):find(s, 1, true)", MEGABYTE / 16),
        (long, "local x = table.concat({s, 'x'})", MEGABYTE / 16),
        (long, "local x = redis.sha1hex(s)", MEGABYTE / 4),
        (long, "local x = redis.error_reply(s)", MEGABYTE / 16),
        (long, "local x = redis.call('ECHO', s)", MEGABYTE / 16),
        (long, "local x = cmsgpack.pack(s)", MEGABYTE / 16),
        (long, "local x = cjson.encode(s)", MEGABYTE / 8),
        (long, "local x = loadstring(s)", MEGABYTE),
        (digits, "local x = s + 0", MEGABYTE / 4),
        (digits, "local x = tonumber(s)", MEGABYTE / 4),
        (digits, "local x = tonumber(s, 16)", MEGABYTE / 8),
        (formats, "local x = struct.size(f)", MEGABYTE / 4),
        (formats, "local x = struct.pack(f)", MEGABYTE / 4),
        (formats, "local x = struct.unpack(f, '')", MEGABYTE / 4),
        (list, "table.insert(t, 1, 1)", 200_000),
        (list, "table.remove(t, 1)", 199_000),
        (list, "table.maxn(t)", 100_000),
        (list, "table.concat(t)", 1_300_000),
        (list, "table.foreachi({1, 2, 3, 4, 5, 6, 7, 8}, function() end)", 16),
        (list, "table.foreach(t, function() end)", 200_000),
        (list, "local x = cjson.encode(t)", 1_000_000),
        (list, "local x = cmsgpack.pack(t)", 700_000),
        (list, "table.sort(t)", 3_000_000),
        // A list that the search for its end has to walk through.
        (
            "local b = {} for i = 1, 4096 do b[i] = i end local t = {unpack(b)} for i = 1, 33 do t['k' .. i] = 1 end local j = 4097 while j < 2 ^ 31 do t[j] = 1 j = j * 2 end",
            "local x = #t",
            4000,
        ),
        // A table that is full, so that each new key has it built anew; and one whose first key is far behind.
        (
            "local t = {} for i = 1, 2 ^ 14 - 1 do t['k' .. i] = i end t.x = 1",
            "t.x = nil t.y = 1 t.y = nil t.x = 1",
            20_000,
        ),
        (
            "local t = {} for i = 1, 50000 do t[i] = i end for i = 1, 50000 do t[i] = nil end",
            "local x = next(t)",
            50_000,
        ),
        (values, "f(unpack(t))", 7000 / 8 * 2),
        (values, "g(unpack(t))", 7000 / 8 * 4),
        (values, "bit.band(unpack(t))", 7000 * 3),
        (values, "local x = {('x'):rep(7000):byte(1, 7000)}", 7000 / 8),
        (chain, "local x = t.absent", 170),
        (chain, "t.absent = nil", 170),
        (
            "local function f(n) if n > 0 then return (f(n - 1)) end for i = 1, 100 do pcall(error, 'x', 5000) end end",
            "f(5000)",
            500_000,
        ),
        ("", "local x = i .. i", 24),
        ("", "local x = ('%d %d'):format(i, i)", 24),
        ("", "pcall(error)", 20),
        ("", "pcall(bit.band)", 500),
        ("", "pcall(redis.call, 'GET')", 500),
        // Captures that catch nothing, put in for each byte: nothing is made.
        ("local s, by = ('a'):rep(100), ('%1'):rep(10000)", "s:gsub('(b*)', by)", 500_000),
        ("local s, set = ('a'):rep(100), '[' .. ('b'):rep(100000) .. ']'", "s:find(set)", 1_250_000),
    ] {
        let cost = cost(before, once, (5_000_000 / least).clamp(2, 40));
        assert!(cost >= least, "{once}: {cost} units, expected at least {least}");
    }
}

#[test]
fn nothing_goes_on_without_being_counted() {
    for body in [
        "table.insert({}, -2^31, 1)",
        "while true do table.insert({}, -2^31, 1) end",
        "while true do pcall(table.insert, {}, -2^31, 1) end",
        "local t = setmetatable({}, {__lt = function() return true end}) while true do local x = t < t end",
        "while true do coroutine.wrap(function() for i = 1, 100 do end end)() end",
        "local co = coroutine.wrap(function() while true do coroutine.yield() end end) while true do co() end",
        "while true do pcall(string.rep) end",
        "while true do ('x'):rep(0) end",
        "cjson.encode_sparse_array(false, 0) cjson.encode({[2 ^ 40] = 1})",
    ] {
        let (units, end) = work_with(body, &[]);
        assert!(end.contains("units of work") || end.contains("bytes"), "{body}: {end} after {units}");
        assert!(end.contains("let several scripts do a part each"), "{end}");
    }
}

#[test]
fn memory_stays_whole() {
    for (script, answer) in [
        ("return pcall(unpack, {}, -2147483648, 2147483647)", "nil"),
        ("local ok, why = pcall(unpack, {}, -2147483648, 2147483647) return why", "too many results to unpack"),
        ("local ok, why = pcall(unpack, {}, 0, 2147483647) return why", "too many results to unpack"),
        ("local ok, why = pcall(unpack, {}, -2147483648, -1) return why", "too many results to unpack"),
        ("return select('#', unpack({}, 2147483640, 2147483647))", "8"),
        ("return select('#', unpack({}, -2147483648, -2147483647))", "2"),
        ("return select('#', unpack({}, 1, 2^31))", "0"),
        ("return bit.tohex(1, -2147483648)", "00000001"),
        ("return loadstring('return [' .. ('='):rep(100000) .. '[x]' .. ('='):rep(100000) .. ']')()", "x"),
        ("return string.format('%d %u %x', 2^63, -1, -2^70)", "-9223372036854775808 18446744073709551615"),
        ("return #('x'):rep(10):sub(-2^53, 2^53)", "10"),
        ("local t = {} t[2^31] = 1 t[-2^31] = 2 t[2^53] = 3 return t[2^31] + t[-2^31] + t[2^53]", "6"),
    ] {
        let shown = match eval(script) {
            Reply::Bulk(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Reply::Integer(number) => number.to_string(),
            Reply::Nil => "nil".to_owned(),
            other => format!("{other:?}"),
        };
        assert!(shown.contains(answer) || answer == "nil", "{script}: {shown}");
    }
}

/// Strings whose hashes in tables are equal: that hash is known. It goes through a string from its end; for each four bytes two are found that bring it
/// to the same sum, and all ways to choose among them are as many strings.
fn colliding(pairs: usize) -> Vec<Vec<u8>> {
    let mut sum = 4 * pairs as u32;
    let mut strings = vec![Vec::new()];
    for _ in 0..pairs {
        let mut seen = BTreeMap::new();
        let (one, other, next) = (0u32..)
            .find_map(|block| {
                let after = block
                    .to_le_bytes()
                    .iter()
                    .rev()
                    .fold(sum, |sum, byte| sum ^ (sum << 5).wrapping_add(sum >> 2).wrapping_add(u32::from(*byte)));
                Some((seen.insert(after, block)?, block, after))
            })
            .unwrap();
        sum = next;
        let longer = |block: u32| strings.iter().map(move |end| [&block.to_le_bytes()[..], end].concat());
        strings = longer(one).chain(longer(other)).collect();
    }
    strings
}

#[test]
fn keys_that_collide_count() {
    let script = "local t = {} for i = 1, #ARGV do t[ARGV[i]] = i end for i = 1, #ARGV do if t[ARGV[i]] ~= i then return 'lost' end end return #ARGV";
    let keys = colliding(11);
    let args: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let (together, end) = work_with(script, &args);
    assert!(end.contains("2048"), "{end}");
    assert!(together > 2048 * 2000, "{together}: each is compared with those that came before");
    let others: Vec<String> = (0..2000).map(|number| format!("{number:08}")).collect();
    let args: Vec<&[u8]> = others.iter().map(|key| key.as_bytes()).collect();
    let (apart, _) = work_with(script, &args);
    assert!(apart < 100_000, "{apart}");
    // As many as fit into a command: the script is refused, after as much work as any.
    let keys = colliding(14);
    let args: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    assert!(work_with(script, &args).1.contains("units of work"));
}

#[test]
fn strings_that_differ_in_few_bytes_are_different() {
    // Lua 5.1 looks at each 32nd byte of these, and so had them all in one place.
    let script = "local t = {} for i = 1, 30000 do t[('%08d'):format(i) .. ('x'):rep(1000)] = i end local n = 0 for _ in pairs(t) do n = n + 1 end return n";
    let (units, end) = work_with(script, &[]);
    assert!(end.contains("30000"), "{end}");
    assert!(units < 10_000_000, "{units}");
}

#[test]
fn reading_a_script_has_a_limit() {
    let nested = (0..150).fold(String::new(), |code, level| {
        let names: Vec<String> = (0..150).map(|name| format!("a{level}_{name}")).collect();
        format!("{code} local function f{level}() local {} ", names.join(", "))
    });
    let names = "x = x ".repeat(100_000);
    let ends = "end ".repeat(150);
    let branches = format!("local a if a then {} end", "elseif a then ".repeat(40_000));
    let conditions = format!("local x = a {}", "and a ".repeat(60_000));
    for (code, is_refused) in [(format!("{nested} {names} {ends}"), true), (branches, true), (conditions, true)] {
        assert!(code.len() <= CODE_BYTES_MAX, "{}", code.len());
        let refused = |text: String| text.contains("units of work") || text.contains("bytes");
        assert_eq!(refused(failure(&code)), is_refused, "{}", &code[..60]);
        assert!(matches!(
            apply(&mut Tree::new(), &context(), &[b"SCRIPT", b"LOAD", code.as_bytes()]).reply,
            Reply::Error(_)
        ));
        // Out of a script as well.
        let args: &[&[u8]] = &[code.as_bytes()];
        assert!(refused(work_with("return tostring(loadstring(ARGV[1]))", args).1), "{}", &code[..60]);
    }
    let honest = format!("local t = {{}} {}", "t[#t + 1] = redis.call('PING') ".repeat(5000));
    assert!(!matches!(eval(&format!("if false then {honest} end")), Reply::Error(_)));
}

/// Scripts that go through all kinds of keys and errors.
const MIXED: &[&str] = &[
    "local t = {} for i = 1, 3000 do t[{}] = i t['k' .. i] = i t[function() end] = i t[i * 1.5] = i end local n = 0 for i = 1, 3000 do n = n + t['k' .. i] end return n",
    "for i = 1, 300 do pcall(bit.band) pcall(error, {}) pcall(redis.call) end return 1",
    "for i = 1, 3000 do local s = cjson.encode({a = i, b = {i}}) cjson.decode(s) end return redis.call('PING')",
    "local t = {} for i = 1, 300 do t[coroutine.create(function() end)] = i t[i] = tostring(i) end return table.concat(t, ',')",
    "local t = {} for i = 1, 5000 do t[i] = ('%04d'):format(i * 7919 % 5000) end table.sort(t) return t[1]",
    "return #ARGV + #KEYS",
];

#[test]
fn work_is_the_same_in_every_machine() {
    let mut used = Machine::new(Rules::Work).unwrap();
    for round in 0..2 {
        for script in MIXED {
            let mut new = Machine::new(Rules::Work).unwrap();
            let fresh = work_in(&mut new, script, &[b"a"]);
            assert_eq!(work_in(&mut used, script, &[b"a"]), fresh, "{script} in round {round}");
            assert_eq!(work_in(&mut new, script, &[b"a"]), fresh, "{script} again");
            assert!(used.tidy());
        }
    }
}

#[test]
fn work_of_functions_is_the_same_in_every_machine() {
    let library = b"#!lua name=l\nlocal t = {} for i = 1, 100 do t[{}] = i t['k' .. i] = i end redis.register_function('f', function(keys, args) for i = 1, 100 do pcall(error) t[i * 7] = args[1] end return #args end)";
    let sha = sha1(library);
    let code = Code::Function { library, sha: &sha, name: b"f" };
    let call = Call { code, keys: &[], args: &[b"x"], read_only: false, seed: 1, rules: Rules::Work };
    let mut used = Machine::new(Rules::Work).unwrap();
    for round in 0..30 {
        work_in(&mut used, MIXED[round % MIXED.len()], &[b"a"]);
        let mut new = Machine::new(Rules::Work).unwrap();
        let work_of = |machine: &mut Machine| {
            assert!(matches!(machine.run(&call, &mut NoCommands), Ok(Reply::Integer(1))));
            machine.work_done()
        };
        let fresh = work_of(&mut new);
        assert_eq!(work_of(&mut used), fresh, "round {round}");
        assert!(used.tidy());
    }
}

#[test]
fn entries_of_earlier_versions_mean_what_they_meant() {
    let run = |version, script: &str| {
        let context = EntryContext { version, ..context() };
        apply(&mut Tree::new(), &context, &[b"EVAL", script.as_bytes(), b"0"]).reply
    };
    // The order of `pairs`, as Lua 5.1 has it, and as a Redis has it, by the rules of now. It decides what scripts write, so neither may change.
    let order = "local t, keys = {}, {} for _, k in ipairs({'alpha', 'beta', 'gamma', 'delta', 'epsilon', 'zeta', ('long'):rep(30), ('other'):rep(31)}) do t[k] = 1 end for k in pairs(t) do keys[#keys + 1] = k:sub(1, 4) end return table.concat(keys, ' ')";
    assert_eq!(run(OLDEST, order), Reply::bulk("delt beta long zeta epsi othe gamm alph"));
    assert_eq!(run(NEWEST, order), Reply::bulk("long beta epsi zeta othe delt gamm alph"));
    // What was not counted is not.
    let costly = "local a, b = ('x'):rep(1000000) .. 'a', ('x'):rep(1000000) .. 'b' local n = 0 for i = 1, 1000 do if a < b then n = n + 1 end end return n";
    assert_eq!(run(OLDEST, costly), Reply::Integer(1000));
    assert!(matches!(run(NEWEST, costly), Reply::Error(failure) if failure.to_string().contains("units of work")));
    let Reply::Error(failure) = run(OLDEST, "while true do end") else { panic!("it ends") };
    assert_eq!(
        failure.to_string(),
        "ERR the script took more than 50000000 instructions; nothing that it did has happened"
    );
}

#[test]
fn every_function_of_scripts_is_reviewed() {
    let walk = "local seen, names = {}, {} \
        local function walk(of, path) if seen[of] then return end seen[of] = true \
        for name, value in pairs(of) do local at = path .. name \
        if type(value) == 'function' then names[#names + 1] = at elseif type(value) == 'table' then walk(value, at .. '.') end end end \
        walk(_G, '') return names";
    let Reply::Array(names) = eval(walk) else { panic!("{:?}", eval(walk)) };
    let mut found: BTreeSet<String> = names
        .iter()
        .map(|name| match name {
            Reply::Bulk(name) => String::from_utf8_lossy(name).into_owned(),
            other => panic!("{other:?}"),
        })
        .collect();
    // Only while a library is loaded.
    found.insert("redis.register_function".to_owned());
    let docs = include_str!("../../../../docs/scripts.md");
    let table = docs.split("## Every function").nth(1).expect("docs/scripts.md has the table");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let told: BTreeSet<String> = rows.map(|(name, _)| name.to_owned()).collect();
    assert_eq!(
        found.difference(&told).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "review these: cost, overflow, determinism; then docs/scripts.md"
    );
    assert_eq!(told.difference(&found).collect::<Vec<_>>(), Vec::<&String>::new(), "these are not there any more");
}

#[test]
fn an_entry_pays_for_its_scripts() {
    let context = EntryContext { work_max: 200_000_000, ..context() };
    // Each is within the limits of a script.
    let busy: &[&[u8]] = &[b"EVAL", b"for i = 1, 40000000 do end", b"0"];
    let conditions = |number: usize| format!("local x = a {} -- {number}", "and a ".repeat(9000));
    let costly: Vec<String> = (0..20).map(conditions).collect();
    let loads: Vec<Vec<&[u8]>> = costly.iter().map(|code| vec![&b"SCRIPT"[..], b"LOAD", code.as_bytes()]).collect();
    let loads: Vec<&[&[u8]]> = loads.iter().map(|words| &words[..]).collect();
    let set: &[&[u8]] = &[b"SET", b"k", b"v"];
    for commands in [vec![set, busy, busy, busy, busy, busy, busy], [&[set][..], &loads].concat()] {
        let mut tree = Tree::new();
        let applied = crate::apply_transaction(&mut tree, &context, &[], &commands);
        assert!(
            matches!(&applied.reply, Reply::Error(failure) if failure.to_string().starts_with("BUDGET")),
            "{:?}",
            applied.reply
        );
        assert!(applied.changes.is_empty());
    }
}

#[test]
fn what_an_entry_pays_does_not_depend_on_the_machine() {
    // The last one passes the bytes of a used machine and not those of a new one, so it runs twice there.
    let big = "for i = 1, 100 do redis.call('SET', 'k' .. i, 'v') end local t = {} for i = 1, 56 do t[i] = ('x'):rep(1048576 - 64) .. i end return #t";
    for script in
        ["return redis.call('INCR', 'n')", "return x", "while true do redis.call('INCR', 'n') end", "x = = 1", big]
    {
        let pays = || {
            let mut tree = Tree::new();
            let reply = eval_in(&mut tree, script);
            (tree.meter().spent(), format!("{reply:?}"))
        };
        forget_machine();
        let fresh = pays();
        assert_eq!(pays(), fresh, "{script}");
        assert!(fresh.0 > 0 || script == "x = = 1", "{script}");
    }
}
