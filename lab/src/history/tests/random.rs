//! Histories of a store that is right, with clients that lose their connections: all of them must pass, quickly.

use base::random::Rng;

use super::brute::{Store, any_ask, any_list_ask};
use super::*;

/// How a history is made.
pub(super) struct Shape {
    pub(super) clients: u32,
    pub(super) keys: u64,
    pub(super) operations: usize,
    /// One of so many operations gets no answer.
    pub(super) unknown: u64,
    /// One of so many is a transaction; 0 for none.
    pub(super) transactions: u64,
    /// Kinds of questions, as [`any_ask`] has them; 0 for gets and sets of values of their own.
    pub(super) kinds: u64,
}

/// Kinds of questions that are those of lists.
pub(super) const LISTS: u64 = 99;

/// Runs clients against a store that does everything at one moment.
pub(super) fn legal(shape: &Shape, seed: u64) -> Vec<Operation> {
    let mut chance = Rng::new(seed);
    let mut free_at = vec![0u64; shape.clients as usize];
    // The moment at which each is done, if it is.
    let mut moments = Vec::new();
    for number in 0..shape.operations {
        let client = chance.below(u64::from(shape.clients)) as usize;
        let from = free_at[client] + chance.below(50);
        let moment = from + 1 + chance.below(100);
        let until = moment + 1 + chance.below(100);
        free_at[client] = until + 1;
        let count = if shape.transactions > 0 && chance.chance(1, shape.transactions) { 2 } else { 1 };
        let steps = (0..count).map(|place| {
            let own = value(&format!("{number}.{place}"));
            let ask = match shape.kinds {
                0 if chance.chance(1, 2) => Ask::Get,
                0 => Ask::Set(own),
                LISTS => any_list_ask(&mut chance),
                kinds => any_ask(&mut chance, kinds),
            };
            Step { key: format!("key{}", chance.below(shape.keys)).into_bytes(), ask, answer: None }
        });
        let steps = steps.collect();
        let mut operation =
            Operation { client: client as u32, from, until: Some(until), outcome: Outcome::Done, steps };
        let mut moment = Some(moment);
        if chance.chance(1, shape.unknown) {
            operation.outcome = Outcome::Unknown;
            // It may be done much later, or never.
            moment = chance.chance(1, 2).then(|| from + 1 + chance.below(2_000));
        } else if chance.chance(1, 50) {
            (operation.outcome, moment) = (Outcome::Failed, None);
        }
        moments.push((moment, operation));
    }
    moments.sort_by_key(|(moment, _)| *moment);
    let mut store = Store::default();
    for (moment, operation) in &mut moments {
        if moment.is_none() {
            continue;
        }
        for step in &mut operation.steps {
            let answer = store.step(&step.key, step.ask);
            step.answer = (operation.outcome == Outcome::Done).then_some(answer);
        }
    }
    // The checker must not rely on any order.
    let mut history: Vec<Operation> = moments.into_iter().map(|(_, operation)| operation).collect();
    for place in (1..history.len()).rev() {
        history.swap(place, chance.below(place as u64 + 1) as usize);
    }
    history
}

#[test]
fn what_a_right_store_shows_passes() {
    for seed in 0..60 {
        for kinds in [0, 4, 5, 6, 8, LISTS] {
            let shape =
                Shape { clients: 1 + (seed as u32 % 9), keys: 3, operations: 300, unknown: 20, transactions: 0, kinds };
            let checked = checked(&legal(&shape, seed));
            assert!(checked.verdict.holds, "seed {seed}, {kinds} kinds: {:?}", checked.verdict);
        }
    }
}

#[test]
fn transactions_of_a_right_store_pass() {
    for seed in 0..60 {
        let shape = Shape { clients: 6, keys: 6, operations: 200, unknown: 25, transactions: 4, kinds: 6 };
        let checked = checked(&legal(&shape, seed));
        assert!(checked.verdict.holds, "seed {seed}: {:?}", checked.verdict);
    }
}

#[test]
fn one_wrong_answer_among_many_is_found() {
    // Every value is set once, so an answer that is exchanged for that of a get long before cannot be right.
    let mut seen = 0;
    for seed in 0..30 {
        let shape = Shape { clients: 8, keys: 2, operations: 2_000, unknown: 40, transactions: 0, kinds: 0 };
        let mut history = legal(&shape, seed);
        history.sort_by_key(|operation| operation.from);
        let is_get = |operation: &&mut Operation| {
            operation.outcome == Outcome::Done
                && operation.steps[0].ask == Ask::Get
                && operation.steps[0].key == b"key1"
        };
        let mut gets: Vec<&mut Operation> = history.iter_mut().filter(is_get).collect();
        let count = gets.len();
        let old = gets[count / 4].steps[0].answer;
        gets[count / 2].steps[0].answer = old;
        let checked = checked(&history);
        assert_eq!(checked.violations.len(), 1, "seed {seed}");
        let events = checked.violations[0].events_all;
        assert!(events <= 6, "seed {seed}: {:#?}", drawn(&checked));
        seen += 1;
    }
    assert_eq!(seen, 30);
}

/// A million operations over a thousand keys, and as many on ten. Run with `--ignored --nocapture`, in release.
#[test]
#[ignore = "takes seconds, and is for measuring"]
fn a_million_operations() {
    for (operations, keys, kinds, transactions, unknown, name) in [
        (1_000_000, 1_000, 0, 0, 1_000, "gets and sets of 1,000 keys"),
        (1_000_000, 1_000, 8, 0, 1_000, "all kinds on 1,000 keys"),
        (1_000_000, 10, 0, 0, 1_000, "gets and sets of 10 keys"),
        (1_000_000, 10, 8, 0, 1_000, "all kinds on 10 keys"),
        (1_000_000, 1_000, 0, 10, 1_000, "values of their own, with transactions"),
        (1_000_000, 1_000, 6, 10, 1_000_000, "values that come again, with transactions, all answered"),
        (300_000, 1_000, 6, 10, 1_000, "values that come again, with transactions"),
    ] {
        let shape = Shape { clients: 64, keys, operations, unknown, transactions, kinds };
        let history = legal(&shape, 1);
        let begin = std::time::Instant::now();
        let checked = check(&history, &[], Limits { configurations_max: 20_000_000, ..Limits::default() });
        println!(
            "{name}: {:.2} s, {} configurations, {:?}",
            begin.elapsed().as_secs_f64(),
            checked.configurations,
            checked.verdict.properties
        );
        assert!(checked.violations.is_empty());
    }
}

/// How long it takes to find one wrong answer in a long history, and to make it small. Run as the one above.
#[test]
#[ignore = "takes seconds, and is for measuring"]
fn a_violation_among_many_operations() {
    for (operations, keys, kinds, transactions, name) in [
        (1_000_000, 1_000, 0, 0, "gets and sets of 1,000 keys"),
        (1_000_000, 10, 0, 0, "gets and sets of 10 keys"),
        (1_000_000, 1_000, 8, 0, "all kinds on 1,000 keys"),
        (100_000, 10, 8, 0, "all kinds on 10 keys"),
        (100_000, 1_000, 0, 10, "with transactions"),
        (1_000_000, 1_000, 0, 10, "with transactions"),
    ] {
        let shape = Shape { clients: 64, keys, operations, unknown: 1_000, transactions, kinds };
        let mut history = legal(&shape, 2);
        history.sort_by_key(|operation| operation.from);
        let wrong = history.iter().skip(operations / 2).position(|operation| {
            operation.outcome == Outcome::Done && matches!(operation.steps[0].answer, Some(Answer::Value(_)))
        });
        let wrong = operations / 2 + wrong.expect("a get");
        history[wrong].steps[0].answer = Some(Answer::Value(value("was never set")));
        let begin = std::time::Instant::now();
        let checked = checked(&history);
        let (seconds, shown) = (begin.elapsed().as_secs_f64(), checked.violations.first().map(|one| one.events_all));
        println!("{name}: {seconds:.2} s, {shown:?} events, {} configurations", checked.configurations);
        assert_eq!((checked.violations.len(), checked.undecided.len()), (1, 0));
    }
}

#[test]
fn a_torn_read_among_many_transactions_is_found() {
    // Two keys are read at once, one before and one after both were set at once; each of them alone is right.
    let shape = Shape { clients: 16, keys: 200, operations: 10_000, unknown: 1_000, transactions: 10, kinds: 0 };
    let mut history = legal(&shape, 5);
    let at = history.iter().filter_map(|operation| operation.until).max().expect("operations") / 2;
    let put = |client, from, until, text: &str| {
        let ask = Ask::Set(value(text));
        transaction(client, from, until, &[("x", ask, Answer::Done), ("y", ask, Answer::Done)])
    };
    let both = [("x", "new"), ("y", "old")].map(|(key, text)| (key, Ask::Get, Answer::Value(value(text))));
    history.extend([put(91, at, at + 10, "old"), put(92, at + 20, at + 100, "new")]);
    history.push(transaction(93, at + 30, at + 50, &both));
    // It joins these keys and all others.
    let mut joining = transaction(
        94,
        at,
        at,
        &[("x", Ask::Set(value("a")), Answer::Done), ("key1", Ask::Set(value("b")), Answer::Done)],
    );
    joining.outcome = Outcome::Unknown;
    history.push(joining);
    let checked = check(&history, &[], Limits { configurations_max: 1_000_000, ..Limits::default() });
    assert_eq!(checked.violations.len(), 1, "{:?}", checked.verdict);
    assert_eq!(
        drawn(&checked),
        ["91: set x old; set y old → done; done", "92: set x new; set y new → ", "93: get x; get y → new; old"]
    );
}
