//! Histories that are linearizable, and forged ones that are not.

use super::*;
use crate::history::{Command, Op, Outcome, Reply, Watched};

fn done(invoke: u64, finish: u64, command: Command, reply: Reply) -> Operation {
    Operation {
        client: 0,
        commands: vec![command],
        watched: vec![],
        invoke,
        finish: Some(finish),
        outcome: Outcome::Done,
        replies: vec![reply],
    }
}

fn maybe(invoke: u64, command: Command) -> Operation {
    Operation {
        client: 0,
        commands: vec![command],
        watched: vec![],
        invoke,
        finish: None,
        outcome: Outcome::Maybe,
        replies: vec![],
    }
}

fn set(key: &str, value: &str) -> Command {
    Command::new(Op::Set, key).with_argument(value)
}

fn get(key: &str) -> Command {
    Command::new(Op::Get, key)
}

fn ok() -> Reply {
    Reply::Text("OK".into())
}

fn text(value: &str) -> Reply {
    Reply::Text(value.into())
}

/// Whether the history is linearizable, its operations being of as many clients.
fn linearizable_between_strangers(history: &[Operation]) -> bool {
    let mut history = history.to_vec();
    for (client, operation) in history.iter_mut().enumerate() {
        operation.client = client as u64;
    }
    linearizable(&history)
}

fn linearizable(history: &[Operation]) -> bool {
    let verdict = check(history, Limits::default());
    assert!(verdict.undecided.is_empty());
    verdict.violations.is_empty()
}

#[test]
fn reads_see_what_was_written_before() {
    let mut history = vec![done(0, 10, set("k", "a"), ok()), done(20, 30, get("k"), text("a"))];
    assert!(linearizable_between_strangers(&history));
    history[1].replies = vec![Reply::Nil];
    assert!(!linearizable_between_strangers(&history), "an acknowledged write was lost");
}

#[test]
fn a_read_may_see_either_side_of_a_write_under_way_but_not_back_and_forth() {
    let write = [done(0, 1, set("k", "a"), ok()), done(10, 100, set("k", "b"), ok())];
    let reads = |first: &str, second: &str| {
        let mut history = write.to_vec();
        history.push(done(20, 30, get("k"), text(first)));
        history.push(done(40, 50, get("k"), text(second)));
        history
    };
    assert!(linearizable_between_strangers(&reads("a", "a")));
    assert!(linearizable_between_strangers(&reads("a", "b")));
    assert!(linearizable_between_strangers(&reads("b", "b")));
    assert!(!linearizable_between_strangers(&reads("b", "a")), "a stale read");
}

#[test]
fn an_uncertain_write_happens_late_or_never_but_not_twice() {
    let start = [done(0, 1, set("k", "a"), ok()), maybe(10, set("k", "b"))];
    let reads = |seen: &[&str]| {
        let mut history = start.to_vec();
        for (index, value) in seen.iter().enumerate() {
            history.push(done(100 + 10 * index as u64, 105 + 10 * index as u64, get("k"), text(value)));
        }
        history
    };
    assert!(linearizable_between_strangers(&reads(&["a", "a", "a"])));
    assert!(linearizable_between_strangers(&reads(&["a", "b", "b"])));
    assert!(!linearizable_between_strangers(&reads(&["a", "b", "a"])));
    let counters = |total: i64| {
        vec![
            maybe(0, Command::new(Op::Incr, "c")),
            done(10, 20, Command::new(Op::Incr, "c"), Reply::Integer(total)),
            done(30, 40, get("c"), text(&total.to_string())),
        ]
    };
    assert!(linearizable_between_strangers(&counters(1)) && linearizable_between_strangers(&counters(2)));
    assert!(!linearizable_between_strangers(&counters(3)), "a retry was applied twice");
}

#[test]
fn chains_of_uncertain_appends_are_found() {
    let append = |value: &str| Command::new(Op::Append, "k").with_argument(value);
    let mut history: Vec<Operation> = "abcdefgh".chars().map(|c| maybe(5, append(&c.to_string()))).collect();
    history.push(done(10, 20, get("k"), text("hc")));
    history.push(done(30, 40, append("x"), Reply::Integer(4)));
    history.push(done(50, 60, get("k"), text("hcax")));
    assert!(linearizable_between_strangers(&history));
    history.push(done(70, 80, get("k"), text("hcxa")));
    assert!(!linearizable_between_strangers(&history));
}

#[test]
fn a_client_sees_its_own_pipeline_in_order() {
    // All asked at once and answered at once; only the order of asking tells what is right.
    let pipeline = |replies: [Reply; 3]| {
        let [first, second, third] = replies;
        [done(0, 10, get("k"), first), done(0, 10, set("k", "a"), second), done(0, 10, get("k"), third)]
    };
    assert!(linearizable(&pipeline([Reply::Nil, ok(), text("a")])));
    assert!(!linearizable(&pipeline([text("a"), ok(), text("a")])), "a read that saw what was asked after it");
    assert!(!linearizable(&pipeline([Reply::Nil, ok(), Reply::Nil])), "a read that missed what was asked before it");
    let mut others = pipeline([text("a"), ok(), Reply::Nil]);
    for (client, operation) in others.iter_mut().enumerate() {
        operation.client = client as u64;
    }
    assert!(linearizable(&others), "different clients have no order");
}

#[test]
fn a_failed_write_must_not_be_seen() {
    let mut failed = maybe(0, set("k", "a"));
    failed.outcome = Outcome::Failed;
    let history = [failed, done(10, 20, get("k"), text("a"))];
    assert!(!linearizable_between_strangers(&history));
}

#[test]
fn conditional_writes_tell_the_truth() {
    let compare = |reply| {
        let command = Command::new(Op::SetIfEq, "k").with_argument("b").with_expected("a");
        [done(0, 1, set("k", "a"), ok()), done(2, 3, command, reply), done(4, 5, get("k"), text("b"))]
    };
    assert!(linearizable_between_strangers(&compare(ok())));
    assert!(!linearizable_between_strangers(&compare(Reply::Nil)));
    let absent = [
        done(0, 1, Command::new(Op::SetNx, "k").with_argument("a"), Reply::Integer(1)),
        done(2, 3, Command::new(Op::SetNx, "k").with_argument("b"), Reply::Integer(1)),
    ];
    assert!(!linearizable_between_strangers(&absent), "a lock was given twice");
}

#[test]
fn transactions_are_whole() {
    let transaction = Operation {
        commands: vec![set("x", "1"), set("y", "1")],
        replies: vec![ok(), ok()],
        ..done(0, 100, get("x"), Reply::Nil)
    };
    let read = |seen: [Reply; 2], at: u64| Operation {
        commands: vec![get("x"), get("y")],
        replies: seen.to_vec(),
        ..done(at, at + 5, get("x"), Reply::Nil)
    };
    assert!(linearizable_between_strangers(&[
        transaction.clone(),
        read([Reply::Nil, Reply::Nil], 10),
        read([text("1"), text("1")], 20)
    ]));
    assert!(
        !linearizable_between_strangers(&[transaction.clone(), read([text("1"), Reply::Nil], 10)]),
        "half a transaction"
    );
    // Keys are joined: seen separately they would each be in order.
    let separate = [transaction, done(10, 11, get("x"), text("1")), done(20, 21, get("y"), Reply::Nil)];
    assert!(!linearizable_between_strangers(&separate));
}

#[test]
fn a_transaction_that_removes_what_it_wrote_has_its_place() {
    // Where nothing is, it changes nothing; yet it has to stand behind the write that it removes.
    let write = done(0, 100, set("x", "a"), ok());
    let transaction = Operation {
        commands: vec![set("x", "b"), Command::new(Op::GetDel, "x")],
        replies: vec![ok(), text("b")],
        ..done(0, 100, get("x"), Reply::Nil)
    };
    assert!(linearizable_between_strangers(&[transaction, write, done(200, 201, get("x"), Reply::Nil)]));
}

#[test]
fn an_executed_transaction_found_its_watched_keys_unchanged() {
    let transaction = |seen: Option<&str>| Operation {
        watched: vec![Watched { key: "k".into(), value: seen.map(str::to_string) }],
        ..done(20, 30, set("k", "b"), ok())
    };
    let start = done(0, 10, set("k", "a"), ok());
    assert!(linearizable_between_strangers(&[start.clone(), transaction(Some("a"))]));
    assert!(!linearizable_between_strangers(&[start.clone(), transaction(None)]));
    assert!(
        !linearizable_between_strangers(&[start, done(12, 15, set("k", "c"), ok()), transaction(Some("a"))]),
        "a lost update"
    );
}

#[test]
fn keys_expire_not_too_early_and_once() {
    const MS: u64 = 1_000_000;
    let start = done(0, MS, Command::new(Op::SetPx, "k").with_argument("a").with_number(100), ok());
    let see = |at: u64, reply: Reply| done(at * MS, (at + 1) * MS, get("k"), reply);
    let check_with = |history: &[Operation], clock_error: u64| {
        check(history, Limits { clock_error: clock_error * MS, ..Limits::default() }).violations.is_empty()
    };
    assert!(check_with(&[start.clone(), see(50, text("a")), see(150, Reply::Nil)], 0));
    assert!(!check_with(&[start.clone(), see(50, Reply::Nil)], 0), "too early");
    assert!(check_with(&[start.clone(), see(50, Reply::Nil)], 60), "clocks may be wrong by that much");
    assert!(!check_with(&[start.clone(), see(150, Reply::Nil), see(160, text("a"))], 60), "undone");
    let persist = done(20 * MS, 21 * MS, Command::new(Op::Persist, "k"), Reply::Integer(1));
    assert!(!check_with(&[start, persist, see(500, Reply::Nil)], 0), "permanent keys stay");
}

#[test]
fn long_histories_are_quick() {
    // Many clients write and read one key at once; every third write is uncertain and every other of those happened.
    let (mut history, mut rng, mut value) = (Vec::new(), base::Rng::new(1), String::from("start"));
    history.push(done(0, 1, set("k", "start"), ok()));
    for turn in 0..3000u64 {
        let at = 100 + turn * 10;
        let start = at - rng.below(60).min(at - 2);
        let end = at + 1 + rng.below(60);
        match turn % 3 {
            0 => {
                let written = format!("v{turn}");
                if turn % 30 == 0 {
                    let happened = rng.chance(1, 2);
                    history.push(maybe(start, set("k", &written)));
                    if happened {
                        value = written;
                    }
                } else {
                    history.push(done(start, end, set("k", &written), ok()));
                    value = written;
                }
            }
            _ => history.push(done(start, end, get("k"), text(&value))),
        }
    }
    for (client, operation) in history.iter_mut().enumerate() {
        operation.client = client as u64;
    }
    let verdict = check(&history, Limits::default());
    assert!(verdict.violations.is_empty() && verdict.undecided.is_empty(), "{verdict:?}");
    assert!(verdict.configurations < 200_000, "{}", verdict.configurations);
}

/// Commands of one pipeline for keys of two partitions have no order; that a transaction over both was refused does not give them one.
#[test]
fn what_was_refused_joins_no_keys() {
    let pipeline = [done(0, 50, get("x"), text("1")), done(0, 50, get("y"), Reply::Nil)];
    let other = |at: u64, command| Operation { client: 1, ..done(at, at + 1, command, ok()) };
    let refused = Operation { outcome: Outcome::Failed, commands: vec![get("x"), get("y")], ..maybe(60, get("x")) };
    let history = [&pipeline[..], &[other(10, set("y", "1")), other(20, set("x", "1")), refused.clone()]].concat();
    assert!(linearizable(&history));
    let done = Operation { outcome: Outcome::Done, replies: vec![text("1"), text("1")], ..refused };
    let history = [&history[..4], &[done]].concat();
    assert!(!linearizable(&history), "one that was done does");
}
