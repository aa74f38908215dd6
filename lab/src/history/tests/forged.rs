//! Histories made by hand: those that a correct store cannot show, and those that look odd and are right.

use super::*;

#[test]
fn a_stale_read_is_drawn_with_the_two_sets() {
    let mut history = vec![set(1, 0, 10, "k", "a"), set(2, 20, 30, "k", "b"), get(3, 40, 50, "k", "a")];
    // Things around it that have nothing to do with it.
    for number in 0..200u32 {
        let at = 1_000 + u64::from(number) * 100;
        history.push(set(4, at, at + 10, "k", &format!("n{number}")));
        history.push(get(5, at + 5, at + 15, "k", &format!("n{number}")));
    }
    let checked = checked(&history);
    assert!(!checked.verdict.holds);
    assert_eq!(drawn(&checked), ["1: set k a → done", "2: set k b → done", "3: get k → a"]);
    assert!(checked.verdict.properties[0].detail.contains("403 operations on 1 key; broken on one group of keys"));
    assert!(checked.verdict.properties[0].detail.contains("no order explains 3 operations on k"));
}

#[test]
fn a_long_history_before_the_fault_is_not_drawn() {
    let mut history: Vec<Operation> = Vec::new();
    for number in 0..500u64 {
        history.push(set(1, number * 100, number * 100 + 50, "k", &format!("v{number}")));
        history.push(get(2, number * 100 + 60, number * 100 + 90, "k", &format!("v{number}")));
    }
    history.push(get(3, 60_000, 60_010, "k", "v498"));
    let checked = checked(&history);
    let shown = ["1: set k v498 → done", "1: set k v499 → done", "2: get k → v499", "3: get k → v498"];
    assert_eq!(drawn(&checked), shown);
}

#[test]
fn a_lost_write_is_found_by_the_last_read_alone() {
    let history = [set(1, 0, 10, "k", "a"), set(1, 20, 30, "k", "b"), set(1, 20, 30, "other", "x")];
    let last = [(b"k".to_vec(), Some(value("a"))), (b"other".to_vec(), Some(value("x")))];
    let checked = check(&history, &last, Limits::default());
    assert!(checked.violations[0].lost && checked.violations.len() == 1);
    let names: Vec<(&str, bool)> =
        checked.verdict.properties.iter().map(|property| (property.name.as_str(), property.holds)).collect();
    assert_eq!(
        names,
        [
            ("every operation on a key happens at one moment between its request and its answer", true),
            ("nothing acknowledged is lost", false)
        ]
    );
    assert!(checked.verdict.properties[1].detail.contains("2 of 2 keys read at the end"));
    assert_eq!(drawn(&checked).last().map(String::as_str), Some("4294967295: get k → a"));
    // Nothing at all is there any more, which is as bad.
    let empty = [(b"k".to_vec(), None)];
    assert!(check(&history, &empty, Limits::default()).violations[0].lost);
    // And what is there.
    let right = [(b"k".to_vec(), Some(value("b")))];
    assert!(check(&history, &right, Limits::default()).verdict.holds);
}

#[test]
fn two_writers_that_both_found_nothing() {
    let if_absent = |client, text: &str, put| {
        Operation::done(client, 0, 10, b"lock", Ask::SetIfAbsent(value(text)), Answer::Flag(put))
    };
    assert!(!holds(&[if_absent(1, "a", true), if_absent(2, "b", true)]));
    assert!(holds(&[if_absent(1, "a", true), if_absent(2, "b", false)]));
    let swap = |client, text: &str| {
        let ask = Ask::CompareAndSet { expected: Some(value("a")), new: Some(value(text)) };
        Operation::done(client, 20, 30, b"lock", ask, Answer::Flag(true))
    };
    assert!(!holds(&[if_absent(1, "a", true), swap(1, "b"), swap(2, "c")]));
    assert!(holds(&[if_absent(1, "a", true), swap(1, "b")]));
    // Two writers of one register: whoever is last, is last for everybody.
    let both = [set(1, 0, 100, "k", "a"), set(2, 0, 100, "k", "b")];
    let after = |first: &str, second: &str| {
        let mut history = both.to_vec();
        history.extend([get(3, 110, 120, "k", first), get(4, 130, 140, "k", second)]);
        holds(&history)
    };
    assert!(after("a", "a") && after("b", "b") && !after("a", "b") && !after("b", "a"));
}

#[test]
fn reads_in_the_wrong_order() {
    let history = [set(1, 0, 10, "k", "a"), set(1, 20, 100, "k", "b")];
    let with = |reads: [Operation; 2]| [history.to_vec(), reads.to_vec()].concat();
    // While the second set is under way either may be seen, but not the old one after the new one.
    assert!(holds(&with([get(2, 30, 40, "k", "a"), get(3, 50, 60, "k", "b")])));
    assert!(!holds(&with([get(2, 30, 40, "k", "b"), get(3, 50, 60, "k", "a")])));
    // Unless the two reads overlap.
    assert!(holds(&with([get(2, 30, 55, "k", "b"), get(3, 50, 60, "k", "a")])));
    assert!(!holds(&[get(1, 0, 10, "k", "from nowhere")]));
    assert!(!holds(&[get(1, 0, 10, "k", "a"), set(2, 20, 30, "k", "a")]));
}

#[test]
fn an_unknown_write_may_appear_later_once() {
    let unknown = Operation::unknown(1, 10, b"k", Ask::Set(value("b")));
    let with = |reads: &[Operation]| [&[set(1, 0, 5, "k", "a"), unknown.clone()], reads].concat();
    assert!(holds(&with(&[get(2, 20, 30, "k", "a"), get(2, 1_000, 1_010, "k", "b")])));
    assert!(holds(&with(&[get(2, 20, 30, "k", "a"), get(2, 1_000, 1_010, "k", "a")])));
    // It flickers: there, gone and there again.
    assert!(!holds(&with(&[get(2, 20, 30, "k", "b"), get(2, 40, 50, "k", "a")])));
    assert!(!holds(&with(&[get(2, 20, 30, "k", "b"), get(2, 40, 50, "k", "a"), get(2, 60, 70, "k", "b")])));
    // It was seen before it was asked.
    assert!(!holds(&with(&[get(2, 6, 8, "k", "b")])));
    // An error is a promise: it was not done.
    let failed = Operation { outcome: Outcome::Failed, ..unknown.clone() };
    assert!(!holds(&[failed, get(2, 20, 30, "k", "b")]));
}

#[test]
fn increments_lost_and_doubled() {
    let last = |sum: &str| get(9, 1_000, 1_010, "n", sum);
    let adds = |sums: &[i64]| -> Vec<Operation> {
        sums.iter().enumerate().map(|(at, &sum)| add(at as u32, 0, 100, "n", sum)).collect()
    };
    let with = |sums: &[i64], sum: &str| holds(&[adds(sums), vec![last(sum)]].concat());
    assert!(with(&[3, 1, 2], "3"));
    assert!(!with(&[1, 2, 2], "3"), "two clients got the same sum");
    assert!(!with(&[3, 1, 2], "2"), "one is lost");
    assert!(!with(&[3, 1, 2], "4"), "one was done twice");
    // One of which nothing is known may be the fourth.
    let unknown = Operation::unknown(7, 50, b"n", Ask::Add(1));
    assert!(holds(&[adds(&[3, 1, 2]), vec![unknown.clone(), last("4")]].concat()));
    assert!(holds(&[adds(&[4, 1, 2]), vec![unknown.clone(), last("4")]].concat()));
    assert!(!holds(&[adds(&[3, 1, 2]), vec![unknown, last("5")]].concat()));
    let text = [set(1, 0, 1, "t", "x"), Operation::done(1, 2, 3, b"t", Ask::Add(1), Answer::Refused)];
    assert!(holds(&text));
    assert!(!holds(&[set(1, 0, 1, "t", "4"), text[1].clone()]));
}

#[test]
fn many_unknown_increments_are_no_work() {
    // 64 clients lose their connections; 40 of their increments were done.
    let mut history: Vec<Operation> = (0..64).map(|client| Operation::unknown(client, 10, b"n", Ask::Add(1))).collect();
    history.extend([add(70, 0, 5, "n", 1), add(71, 100, 110, "n", 42), get(72, 200, 210, "n", "42")]);
    let checked = checked(&history);
    assert!(checked.verdict.holds && checked.configurations < 10_000, "{}", checked.configurations);
    history.push(get(72, 220, 230, "n", "67"));
    assert!(!holds(&history));
}

#[test]
fn appended_values_are_followed_by_their_length_and_by_their_bytes() {
    let append = |client, from, text: &str, length| {
        Operation::done(client, from, from + 10, b"l", Ask::Append(value(text)), Answer::Integer(length))
    };
    let history = |seen: &str| vec![append(1, 0, "ab", 2), append(2, 5, "cde", 5), get(3, 100, 110, "l", seen)];
    assert!(holds(&history("abcde")) && !holds(&history("cdeab")) && !holds(&history("ab")));
    let long: String = "0123456789".repeat(40);
    let longer = [append(1, 0, &long, 400), append(2, 20, &long, 800), get(3, 40, 50, "l", &long.repeat(2))];
    assert!(holds(&longer));
    let torn = [append(1, 0, &long, 400), append(2, 20, &long, 800), get(3, 40, 50, "l", &(long.repeat(2) + "x"))];
    assert!(!holds(&torn));
}

#[test]
fn deletes_are_seen_and_stay() {
    let delete = |from, was_there| Operation::done(1, from, from + 5, b"k", Ask::Delete, Answer::Flag(was_there));
    assert!(holds(&[set(1, 0, 5, "k", "a"), delete(10, true), get(2, 20, 25, "k", ""), delete(30, false)]));
    assert!(!holds(&[set(1, 0, 5, "k", "a"), delete(10, true), get(2, 20, 25, "k", "a")]));
    assert!(!holds(&[set(1, 0, 5, "k", "a"), delete(10, false)]));
    assert!(!holds(&[set(1, 0, 5, "k", "a"), delete(10, true), delete(20, true)]));
}

#[test]
fn a_torn_transaction_is_told_from_a_whole_one() {
    let put = |client, from, until, text: &str| {
        let ask = Ask::Set(value(text));
        transaction(client, from, until, &[("x", ask, Answer::Done), ("y", ask, Answer::Done)])
    };
    let both = |client, from, until, x: &str, y: &str| {
        let answers = [x, y].map(|text| Answer::Value(value(text)));
        transaction(client, from, until, &[("x", Ask::Get, answers[0]), ("y", Ask::Get, answers[1])])
    };
    let history = |x: &str, y: &str| vec![put(1, 0, 10, "a"), put(2, 20, 60, "b"), both(3, 30, 40, x, y)];
    assert!(holds(&history("a", "a")) && holds(&history("b", "b")));
    for (x, y) in [("a", "b"), ("b", "a")] {
        let checked = checked(&history(x, y));
        let property = &checked.verdict.properties[0];
        assert!(!property.holds && property.name.starts_with("every transaction"), "{property:?}");
        assert_eq!(checked.violations[0].keys, [b"x".to_vec(), b"y".to_vec()]);
        assert!(drawn(&checked).contains(&format!("3: get x; get y → {x}; {y}")));
    }
    // Two single reads may each be right and yet not fit together.
    let apart = |x: &str, y: &str| {
        vec![put(1, 0, 10, "a"), put(2, 20, 90, "b"), get(3, 30, 40, "x", x), get(3, 50, 60, "y", y)]
    };
    assert!(holds(&apart("a", "b")) && holds(&apart("b", "b")) && !holds(&apart("b", "a")));
    // Read, and written by what was read: both saw the same balance, and both took from it.
    let take = |client, from, until, seen: &str, left: &str| {
        let read = ("x", Ask::Get, Answer::Value(value(seen)));
        transaction(client, from, until, &[read, ("x", Ask::Set(value(left)), Answer::Done)])
    };
    let begin = set(1, 0, 5, "x", "100");
    assert!(holds(&[begin.clone(), take(1, 10, 50, "100", "90"), take(2, 10, 50, "90", "80")]));
    assert!(!holds(&[begin, take(1, 10, 50, "100", "90"), take(2, 10, 50, "100", "80")]));
}

#[test]
fn what_is_too_hard_is_called_undecided_and_not_wrong() {
    // Sixteen sets at once of values that come twice, and a read that nothing explains: every subset would have to be tried.
    let mut history: Vec<Operation> =
        (0..24).map(|client| set(client, 0, 1_000, "k", &(client / 2).to_string())).collect();
    history.push(get(90, 1_100, 1_110, "k", "nothing wrote this"));
    let limits = Limits { configurations_max: 1_000, ..Limits::default() };
    let checked = check(&history, &[], limits);
    assert_eq!((checked.violations.len(), checked.undecided), (0, vec![b"k".to_vec()]));
    assert_eq!((checked.verdict.operations, checked.verdict.decided, checked.verdict.keys), (25, 0, 1));
    let property = &checked.verdict.properties[0];
    assert!(!checked.verdict.holds && !property.holds && property.undecided);
    assert!(property.detail.contains("not decided within 1\u{202f}000 configurations"), "{}", property.detail);
}

#[test]
fn odd_histories_are_no_trouble() {
    assert!(holds(&[]));
    let nothing = Operation { client: 1, from: 5, until: None, outcome: Outcome::Done, steps: Vec::new() };
    assert!(holds(&[nothing.clone(), Operation { outcome: Outcome::Unknown, ..nothing.clone() }]));
    // Answers that no store gives to these questions.
    assert!(!holds(&[Operation::done(1, 0, 1, b"k", Ask::Get, Answer::Integer(3))]));
    assert!(!holds(&[Operation::done(1, 0, 1, b"k", Ask::Add(1), Answer::Done)]));
    // Times at the very end of time, and an answer before its question.
    assert!(holds(&[set(1, u64::MAX - 1, u64::MAX, "k", "a"), get(1, u64::MAX, u64::MAX, "k", "a")]));
    let mut backwards = set(1, 10, 20, "k", "a");
    backwards.until = Some(3);
    let _ = checked(&[backwards]);
}

#[test]
fn a_job_that_is_taken_twice_or_lost_is_found() {
    let push = |client, from, item: &str, count| {
        Operation::done(client, from, from + 5, b"q", Ask::Push(End::Left, value(item)), Answer::Integer(count))
    };
    let take = |client, from, item: Answer| Operation::done(client, from, from + 5, b"q", Ask::Pop(End::Right), item);
    let mut history = vec![push(1, 0, "a", 1), push(1, 10, "b", 2), take(2, 20, Answer::Value(value("a")))];
    let left = |items: &[&str]| {
        let items: Vec<Value> = items.iter().map(|item| value(item)).collect();
        vec![(b"q".to_vec(), (!items.is_empty()).then(|| Value::list(&items)))]
    };
    let verdict = |history: &[Operation], last: &[&str]| check(history, &left(last), Limits::default()).verdict;
    assert!(verdict(&history, &["b"]).holds);
    let lost = verdict(&history, &[]);
    assert!(!lost.holds && lost.properties.iter().any(|it| it.name == "nothing acknowledged is lost" && !it.holds));
    // Out of its turn.
    history[2] = take(2, 20, Answer::Value(value("b")));
    assert!(!verdict(&history, &["a"]).holds);
    history[2] = take(2, 20, Answer::Value(value("a")));
    history.push(take(3, 30, Answer::Value(value("a"))));
    let twice = verdict(&history, &["b"]);
    assert!(!twice.holds && twice.offending.iter().any(|event| event.asked == "take from the right of q"), "{twice:?}");
    // Of a push that was not answered nobody knows, until somebody takes it.
    let maybe = Operation::unknown(4, 25, b"q", Ask::Push(End::Left, value("c")));
    let history =
        [push(1, 0, "a", 1), maybe, take(2, 40, Answer::Value(value("a"))), take(2, 50, Answer::Value(value("c")))];
    assert!(verdict(&history, &[]).holds && !verdict(&history[2..], &[]).holds);
}
