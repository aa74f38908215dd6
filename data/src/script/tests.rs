//! What no page shows: limits, and that nothing of a script is left for the next.

mod work;

use super::*;
use crate::{EntryContext, Tree, apply};
use base::WallTime;
use base::versions::{NEWEST, OLDEST};

fn context() -> EntryContext {
    EntryContext { time: WallTime(1_700_000_000_123), seed: 7, version: NEWEST, ..EntryContext::default() }
}

fn eval_in(tree: &mut Tree, script: &str) -> Reply {
    apply(tree, &context(), &[b"EVAL", script.as_bytes(), b"0"]).reply
}

fn eval(script: &str) -> Reply {
    eval_in(&mut Tree::new(), script)
}

fn failure(script: &str) -> String {
    match eval(script) {
        Reply::Error(failure) => failure.to_string(),
        other => panic!("{script}: {other:?}"),
    }
}

fn text(script: &str) -> String {
    match eval(script) {
        Reply::Bulk(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        other => panic!("{script}: {other:?}"),
    }
}

/// As if nothing had been run in this thread before.
fn forget_machine() {
    USED.with_borrow_mut(|used| *used = [None, None]);
}

#[test]
fn a_script_that_breaks_a_limit_has_done_nothing() {
    let mut tree = Tree::new();
    eval_in(&mut tree, "redis.call('SET', 'k', 'before') redis.call('RPUSH', 'list', 'a')");
    let revision = tree.revision();
    for (body, limit) in [
        ("while true do end", "instructions"),
        ("while true do pcall(function() while true do end end) end", "instructions"),
        (
            "while true do local co = coroutine.create(function() while true do end end) coroutine.resume(co) end",
            "instructions",
        ),
        ("local function f() return xpcall(f, f) end while true do f() end", "more than"),
        ("while true do redis.call('GET', 'k') end", "instructions"),
        ("return string.find(('a'):rep(5000), '.-.-.-.-b')", "instructions"),
        ("return (('a'):rep(5000)):gsub('.-.-.-b', '')", "instructions"),
        ("local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end", "bytes"),
        ("local t = {} while true do pcall(function() t[#t + 1] = ('x'):rep(100000) .. #t end) end", "bytes"),
        ("local s = 'x' while true do s = s .. s end", "bytes"),
        ("return ('x'):rep(1000000000)", "bytes"),
        ("local s = ('x'):rep(1000000) while true do redis.call('APPEND', 'k', s) end", "bytes"),
        ("local t = {1} for i = 1, 60 do t = {t, t} end return t", "bytes"),
        ("local t = {('x'):rep(100)} for i = 1, 60 do t = {t, t} end return cjson.encode(t)", "bytes"),
        ("local t = {} t[{}] = 1 for k in pairs(t) do return 1 end", "replica"),
        ("local t = {} t[{}] = 1 return next(t)", "replica"),
    ] {
        let script = format!(
            "redis.call('SET', 'k', 'after') redis.call('RPUSH', 'list', 'b') redis.call('FLUSHALL') redis.call('PUBLISH', 'c', 'm') {body}"
        );
        let applied = apply(&mut tree, &context(), &[b"EVAL", script.as_bytes(), b"0"]);
        match applied.reply {
            Reply::Error(failure) => assert!(failure.to_string().contains(limit), "{body}: {failure}"),
            other => panic!("{body}: {other:?}"),
        }
        assert!(applied.changes.is_empty() && applied.published.is_empty(), "{body}");
        assert_eq!(tree.revision(), revision, "{body}");
        assert_eq!(eval_in(&mut tree, "return redis.call('GET', 'k')"), Reply::bulk("before"), "{body}");
        assert_eq!(eval_in(&mut tree, "return redis.call('LLEN', 'list')"), Reply::Integer(1), "{body}");
    }
}

#[test]
fn a_script_in_a_transaction_that_breaks_a_limit_takes_back_its_own_alone() {
    let mut tree = Tree::new();
    let set: &[&[u8]] = &[b"SET", b"a", b"1"];
    let broken: &[&[u8]] = &[b"EVAL", b"redis.call('SET', 'a', 2) while true do end", b"0"];
    let read: &[&[u8]] = &[b"GET", b"a"];
    let applied = crate::apply_transaction(&mut tree, &context(), &[], &[set, broken, read]);
    let Reply::Array(replies) = applied.reply else { panic!("{:?}", applied.reply) };
    assert!(matches!(replies[1], Reply::Error(_)));
    assert_eq!(replies[2], Reply::bulk("1"));
    assert_eq!(applied.changes.len(), 1);
}

#[test]
fn what_a_script_does_is_named_as_its_commands() {
    let mut tree = Tree::new();
    let context = EntryContext { names_events: true, ..context() };
    let script = b"redis.call('SET', 'a', 1) redis.call('INCR', 'a') redis.call('DEL', 'a')";
    let applied = apply(&mut tree, &context, &[b"EVAL", script, b"0"]);
    let names: Vec<&str> = applied.events.iter().map(|event| event.name).collect();
    assert_eq!(names.join(" "), "new set incrby del");
}

#[test]
fn a_script_publishes() {
    let applied = apply(
        &mut Tree::new(),
        &context(),
        &[b"EVAL", b"redis.call('PUBLISH', 'c', 'm') redis.call('SPUBLISH', 's', 'n')", b"0"],
    );
    let told: Vec<(bool, &[u8], &[u8])> =
        applied.published.iter().map(|of| (of.sharded, of.channel.as_slice(), of.message.as_slice())).collect();
    assert_eq!(told, [(false, &b"c"[..], &b"m"[..]), (true, b"s", b"n")]);
}

#[test]
fn time_and_chance_are_the_entrys() {
    assert_eq!(text("return redis.call('TIME')[1]"), "1700000000");
    assert_eq!(text("return redis.call('TIME')[2]"), "123000");
    let drawn = text("return tostring(math.random())");
    assert_eq!(text("return tostring(math.random())"), drawn, "equal entries");
    forget_machine();
    assert_eq!(text("return tostring(math.random())"), drawn, "in a new machine");
    let other = EntryContext { seed: 8, ..context() };
    let reply = apply(&mut Tree::new(), &other, &[b"EVAL", b"return tostring(math.random())", b"0"]).reply;
    assert_ne!(reply, Reply::bulk(drawn));
    eval("math.randomseed(1) return math.random()");
    assert_eq!(eval("math.randomseed(5) return math.random(100)"), eval("math.randomseed(5) return math.random(100)"));
}

#[test]
fn nothing_is_left_for_the_next_script() {
    for leak in [
        "rawset(_G, 'x', 1)",
        "x = 1",
        "table.insert(math, 1)",
        "table.insert(_G, 1)",
        "cjson.encode_sparse_array(true)",
        "redis.setresp(3)",
        "getmetatable('').__index.x = 1",
        "setmetatable(_G, nil)",
        "string.x = 1",
        "math.randomseed(3)",
        "redis.call = nil",
        "KEYS = {}",
    ] {
        let _ = eval(leak);
        assert!(failure("return x").contains("nonexistent global variable 'x'"), "{leak}");
        assert_eq!(eval("return {#math, #_G, #KEYS}"), Reply::Array(vec![Reply::Integer(0); 3]), "{leak}");
        assert!(failure("return cjson.encode({[1] = 1, [50] = 5})").contains("sparse"), "{leak}");
        assert_eq!(eval("return redis.call('GET', 'absent') == false"), Reply::Integer(1), "{leak}");
        assert_eq!(eval("return ('x').x == nil"), Reply::Integer(1), "{leak}");
    }
}

#[test]
fn nothing_shows_an_address() {
    for script in [
        "return tostring({})",
        "return tostring(print == nil)",
        "return tostring(function() end)",
        "return tostring(coroutine.create(function() end))",
    ] {
        if let Reply::Bulk(bytes) = eval(script) {
            let shown = String::from_utf8_lossy(&bytes).into_owned();
            assert!(!shown.contains("0x") || shown.ends_with("0x0"), "{script}: {shown}");
        }
    }
    assert_eq!(text("return tostring(cjson.null)"), "userdata: (nil)");
}

#[test]
fn compiled_code_is_refused() {
    assert_eq!(eval("return loadstring('\\27Lua') == nil"), Reply::Integer(1));
    assert_eq!(eval("return string.dump == nil"), Reply::Integer(1));
    assert!(matches!(eval("\u{1b}Lua"), Reply::Error(_)));
}

#[test]
fn a_used_machine_and_a_new_one_come_to_the_same_end() {
    // Just below and above the limit of bytes: what the used machine cannot decide the new one does.
    let scripts: Vec<String> = (40..56)
        .step_by(5)
        .chain(56..68)
        .map(|mebibytes| {
            format!("local t = {{}} for i = 1, {mebibytes} do t[i] = ('x'):rep(1048576 - 64) .. i end return #t")
        })
        .collect();
    let mut outcomes = Vec::new();
    for script in &scripts {
        forget_machine();
        let fresh = eval(script);
        eval("return 1");
        let used = eval(script);
        assert_eq!(fresh, used, "{script}");
        assert_eq!(eval(script), used, "{script}");
        outcomes.push(matches!(used, Reply::Error(_)));
    }
    assert!(outcomes.contains(&true) && outcomes.contains(&false));
}

#[test]
fn scripts_survive_what_empties_the_state() {
    let mut tree = Tree::new();
    let sha = sha1(b"return 5");
    let mut run = |words: &[&[u8]]| apply(&mut tree, &context(), words).reply;
    assert_eq!(run(&[b"SCRIPT", b"LOAD", b"return 5"]), Reply::bulk(sha.clone()));
    run(&[b"SET", b"a", b"b"]);
    run(&[b"FLUSHALL"]);
    assert_eq!(run(&[b"EVALSHA", sha.as_bytes(), b"0"]), Reply::Integer(5));
    run(&[b"SCRIPT", b"FLUSH"]);
    assert!(matches!(run(&[b"EVALSHA", sha.as_bytes(), b"0"]), Reply::Error(_)));
}

#[test]
fn what_eval_leaves_behind_has_a_limit() {
    let mut tree = Tree::new();
    let body = |number: usize| format!("return {number} --{}", "x".repeat(CODE_BYTES_MAX - 100));
    for number in 0..20 {
        assert_eq!(eval_in(&mut tree, &body(number)), Reply::Integer(number as i64));
    }
    let kept = |tree: &Tree, number: usize| tree.collections.script(&sha1(body(number).as_bytes())).is_some();
    assert!(kept(&tree, 0) && !kept(&tree, 19));
    assert!(matches!(eval_in(&mut tree, &"x".repeat(CODE_BYTES_MAX + 1)), Reply::Error(_)));
}

#[test]
fn libraries_begin_anew_with_each_call() {
    let mut tree = Tree::new();
    let mut run = |words: &[&[u8]]| apply(&mut tree, &context(), words).reply;
    let code = b"#!lua name=l\nlocal n = 0 redis.register_function('count', function() n = n + 1 return n end)";
    run(&[b"FUNCTION", b"LOAD", code]);
    assert_eq!(run(&[b"FCALL", b"count", b"0"]), Reply::Integer(1));
    assert_eq!(run(&[b"FCALL", b"count", b"0"]), Reply::Integer(1));
}

#[test]
fn no_number_of_arguments_ends_the_process() {
    let many = "local t = {} for i = 1, 7990 do t[i] = 'key' .. i end ";
    assert_eq!(eval(&format!("{many} return redis.call('DEL', unpack(t, 1, 7750))")), Reply::Integer(0));
    assert!(matches!(eval(&format!("{many} return redis.call('DEL', unpack(t))")), Reply::Error(_)));
    assert!(matches!(
        eval(&format!("{many} return redis.call('DEL', unpack(t, 1, 7000), unpack(t))")),
        Reply::Integer(_) | Reply::Error(_)
    ));
    assert_eq!(eval("return #{cmsgpack.unpack(('\\161a'):rep(6999))}"), Reply::Integer(6999));
    assert!(matches!(eval("return #{cmsgpack.unpack(('\\161a'):rep(100000))}"), Reply::Error(_)));
    assert_eq!(eval("return #{struct.unpack(('B'):rep(6990), ('a'):rep(6990))}"), Reply::Integer(6991));
    assert!(matches!(
        eval("local function f(n) return redis.call('GET', 'k' .. n) or f(n + 1) end return f(1)"),
        Reply::Error(_)
    ));
    assert!(matches!(
        eval("local function f(n) local t = {redis.call('GET', 'k')} return 1 + f(n + 1) end return f(1)"),
        Reply::Error(_)
    ));
    assert!(matches!(
        eval("local t = {} for i = 1, 200000 do t[i] = cjson.decode('[[1]]') end return cjson.encode(t)"),
        Reply::Bulk(_) | Reply::Error(_)
    ));
    assert!(matches!(eval("local s = ('['):rep(2000) return cjson.decode(s)"), Reply::Error(_)));
    assert!(matches!(eval("return cmsgpack.unpack(('\\145'):rep(5000))"), Reply::Error(_)));
    assert!(matches!(eval("local t = {} for i = 1, 2000 do t = {t} end return cjson.encode(t)"), Reply::Error(_)));
    assert!(matches!(eval("local t = {} for i = 1, 2000 do t = {t} end return t"), Reply::Array(_)));
    assert!(matches!(eval("return xpcall(function() return unpack({}, 1, 7900) end, print)"), Reply::Error(_)));
}
