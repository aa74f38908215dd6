//! Commands and answers as they go over the wire.

use super::*;

const ASKED: Asked = Asked { client: 1, from: 10, until: Some(20) };

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// What a command and its answer make, in words.
fn told(line: &str, answer: Option<Reply>) -> String {
    match operation(ASKED, &words(line), answer.as_ref()) {
        Ok(Some(operation)) => {
            let event = operation.event();
            format!("{} → {}", event.asked, if event.answered.is_empty() { "?" } else { &event.answered })
        }
        Ok(None) => "nothing".into(),
        Err(error) => error,
    }
}

#[test]
fn commands_and_answers_are_understood() {
    let bulk = |text: &str| Some(Reply::bulk(text));
    let (integer, ok) = (|number| Some(Reply::Integer(number)), || Some(Reply::ok()));
    assert_eq!(told("GET k", bulk("v")), "get k → v");
    assert_eq!(told("get k", Some(Reply::Null)), "get k → absent");
    assert_eq!(told("SET k v", ok()), "set k v → done");
    assert_eq!(told("SET k v NX", ok()), "set k v if absent → yes");
    assert_eq!(told("SET k v nx", Some(Reply::Null)), "set k v if absent → no");
    assert_eq!(told("SETNX k v", integer(0)), "set k v if absent → no");
    assert_eq!(told("SET k v GET", bulk("u")), "get k; set k v → u; done");
    assert_eq!(told("GETDEL k", Some(Reply::Null)), "get k; delete k → absent; done");
    assert_eq!(told("DEL k", integer(1)), "delete k → yes");
    assert_eq!(told("DEL a b", integer(2)), "delete a; delete b → yes; yes");
    assert_eq!(told("DEL a b", integer(1)), "delete a; delete b → done; done");
    assert_eq!(told("INCRBY n -3", integer(4)), "add -3 to n → 4");
    assert_eq!(told("DECR n", integer(4)), "add -1 to n → 4");
    assert_eq!(told("APPEND k xy", integer(4)), "append xy to k → 4");
    assert_eq!(told("MSET a 1 b 2", ok()), "set a 1; set b 2 → done; done");
    assert_eq!(told("MGET a b", Some(Reply::Array(vec![Reply::bulk("1"), Reply::Null]))), "get a; get b → 1; absent");
    assert_eq!(told("LPUSH q a b", integer(7)), "push a to the left of q; push b to the left of q → done; 7");
    assert_eq!(told("RPOP q", bulk("a")), "take from the right of q → a");
    assert_eq!(told("LPOP q", Some(Reply::Null)), "take from the left of q → absent");
    assert_eq!(told("LRANGE q 0 -1", Some(Reply::Array(vec![Reply::bulk("a"), Reply::bulk("b")]))), "list q → 1:a1:b");
    assert_eq!(told("LRANGE q 0 -1", Some(Reply::Array(Vec::new()))), "list q → absent");
    assert!(told("LRANGE q 0 3", integer(1)).contains("cannot be checked"));
    assert_eq!(told("PING", Some(Reply::Simple("PONG".into()))), "nothing");
}

#[test]
fn scripts_of_this_module_are_understood_and_no_others() {
    let eval = |script: &str, rest: &[&str]| {
        let mut words: Vec<Vec<u8>> = [b"EVAL".to_vec(), script.as_bytes().to_vec(), b"1".to_vec()].to_vec();
        words.extend(rest.iter().map(|word| word.as_bytes().to_vec()));
        operation(ASKED, &words, Some(&Reply::Integer(1)))
    };
    let asked = |made: Result<Option<Operation>, String>| made.ok().flatten().map(|operation| operation.event().asked);
    assert_eq!(asked(eval(COMPARE_AND_SET, &["k", "a", "b"])).as_deref(), Some("set k b if it is a"));
    assert_eq!(asked(eval(COMPARE_AND_DELETE, &["k", "a"])).as_deref(), Some("delete k if it is a"));
    assert!(eval("return 1", &["k", "a"]).unwrap_err().contains("cannot be checked"));
    assert!(eval(COMPARE_AND_SET, &["k", "a"]).is_err());
}

#[test]
fn errors_tell_whether_it_may_have_been_done() {
    let outcome = |line: &str, answer: Option<&str>| {
        let answer = answer.map(|text| Reply::Error(text.into()));
        operation(ASKED, &words(line), answer.as_ref()).ok().flatten().map(|operation| operation.outcome)
    };
    assert_eq!(outcome("SET k v", None), Some(Outcome::Unknown));
    assert_eq!(outcome("SET k v", Some("UNKNOWN timeout")), Some(Outcome::Unknown));
    assert_eq!(outcome("SET k v", Some("CLUSTERDOWN no leader")), Some(Outcome::Failed));
    assert_eq!(outcome("SET k v", Some("SOMETHING never heard of")), Some(Outcome::Unknown));
    assert_eq!(outcome("INCR k", Some("ERR value is not an integer or out of range")), Some(Outcome::Done));
    assert_eq!(
        told("INCR k", Some(Reply::Error("ERR value is not an integer or out of range".into()))),
        "add 1 to k → refused"
    );
}

#[test]
fn what_cannot_be_checked_says_so() {
    for line in
        ["SET k v EX 10", "HSET h f v", "GET", "MSET a", "INCRBY n x", "DECRBY n -9223372036854775808", "EVAL x 0"]
    {
        assert!(told(line, None).contains("cannot be checked"), "{line}: {}", told(line, None));
    }
    assert!(operation(ASKED, &[], None).is_err());
    assert!(told("GET k", Some(Reply::Integer(3))).contains("`GET k` answered"));
    assert!(told("DEL k", Some(Reply::Integer(7))).contains("`DEL k` answered"));
}

#[test]
fn a_transaction_is_one_operation() {
    let commands = [words("GET a"), words("INCR b"), words("SET c 1")];
    let made = |answer: Option<Reply>| transaction(ASKED, &commands, answer.as_ref());
    let whole = Reply::Array(vec![Reply::bulk("x"), Reply::Integer(4), Reply::ok()]);
    let event = made(Some(whole)).ok().flatten().expect("is understood").event();
    assert_eq!((event.asked.as_str(), event.answered.as_str()), ("get a; add 1 to b; set c 1", "x; 4; done"));
    let outcome = |answer| made(answer).ok().flatten().map(|operation| operation.outcome);
    assert_eq!(outcome(None), Some(Outcome::Unknown));
    assert_eq!(outcome(Some(Reply::NullArray)), Some(Outcome::Failed));
    assert_eq!(outcome(Some(Reply::Error("EXECABORT Transaction discarded".into()))), Some(Outcome::Failed));
    assert_eq!(outcome(Some(Reply::Error("UNKNOWN timeout".into()))), Some(Outcome::Unknown));
    assert!(made(Some(Reply::Array(vec![Reply::ok()]))).is_err());
    // A command that failed by itself within it did nothing; the others did.
    let wrong = Reply::Array(vec![Reply::bulk("x"), Reply::Error("WRONGTYPE no".into()), Reply::ok()]);
    assert_eq!(made(Some(wrong)).ok().flatten().map(|operation| operation.steps.len()), Some(2));
}
