//! The search agrees with one that knows no rules and tries every order, on many small drawn histories.

use base::Rng;

use super::*;
use crate::history::{Command, DefaultLifetime, Op, Outcome, Reply, TOKEN_BYTES, Watched};

const MS: u64 = 1_000_000;
/// Histories that are compared.
const CASES: u64 = 6_000;

/// One key as a server has it, for drawing answers.
#[derive(Clone, Default)]
struct Key {
    value: Option<String>,
    expires: Option<u64>,
}

fn answer(keys: &mut BTreeMap<String, Key>, command: &Command, at: u64) -> Reply {
    let key = keys.entry(command.key.clone()).or_default();
    if key.expires.is_some_and(|expires| expires <= at) {
        *key = Key::default();
    }
    let before = key.value.clone();
    if command.refusable && (at / MS).is_multiple_of(3) {
        return Reply::Refused { refused: "OOM".into() };
    }
    let usual = command.lifetime.filter(|it| it.certain || (at / MS).is_multiple_of(2)).map(|it| at + it.least * MS);
    let old = || before.clone().map_or(Reply::Nil, Reply::Text);
    let flag = |yes: bool| Reply::Integer(i64::from(yes));
    let argument = command.argument.clone();
    let deadline = at + command.number.unwrap_or(1).max(0) as u64 * MS;
    match command.op {
        Op::Get => old(),
        Op::Tail => {
            let behind = command.number.unwrap_or(0) as usize * TOKEN_BYTES;
            let all = before.unwrap_or_default();
            all.get(behind..).filter(|tail| !tail.is_empty()).map_or(Reply::Nil, |tail| Reply::Text(tail.to_owned()))
        }
        Op::Exists => flag(before.is_some()),
        Op::Set | Op::SetPx | Op::GetSet => {
            *key = Key { value: argument, expires: if command.op == Op::SetPx { Some(deadline) } else { usual } };
            if command.op == Op::GetSet { old() } else { Reply::Text("OK".into()) }
        }
        Op::SetNx => {
            if before.is_none() {
                *key = Key { value: argument, expires: usual };
            }
            flag(before.is_none())
        }
        Op::SetIfEq if before.is_some() && before == command.expected => {
            *key = Key { value: argument, expires: usual };
            Reply::Text("OK".into())
        }
        Op::SetIfEq => Reply::Nil,
        Op::Del | Op::GetDel => {
            *key = Key::default();
            if command.op == Op::Del { flag(before.is_some()) } else { old() }
        }
        Op::Append => {
            key.expires = if before.is_some() { key.expires } else { usual };
            let value = before.unwrap_or_default() + &argument.unwrap_or_default();
            key.value = Some(value.clone());
            Reply::Integer(value.len() as i64)
        }
        Op::Push => {
            key.expires = if before.is_some() { key.expires } else { usual };
            key.value = Some(before.unwrap_or_default() + &argument.unwrap_or_default());
            Reply::Text("OK".into())
        }
        Op::Prepend => {
            key.expires = if before.is_some() { key.expires } else { usual };
            let value = argument.unwrap_or_default() + &before.unwrap_or_default();
            key.value = Some(value.clone());
            Reply::Integer(value.len() as i64)
        }
        Op::Pop => {
            let Some(all) = before else { return Reply::Nil };
            let at = if command.number == Some(-1) { all.len() - TOKEN_BYTES } else { TOKEN_BYTES };
            let (left, right) = all.split_at(at);
            let (taken, kept) = if command.number == Some(-1) { (right, left) } else { (left, right) };
            let is_empty = kept.is_empty();
            *key = if is_empty { Key::default() } else { Key { value: Some(kept.to_owned()), ..key.clone() } };
            Reply::Text(taken.to_owned())
        }
        Op::Incr => {
            key.expires = if before.is_some() { key.expires } else { usual };
            let sum = before.map_or(0, |text| text.parse::<i64>().expect("only counters are counted")) + 1;
            key.value = Some(sum.to_string());
            Reply::Integer(sum)
        }
        Op::Pexpire => {
            if before.is_some() {
                key.expires = Some(deadline);
            }
            flag(before.is_some())
        }
        Op::Persist => flag(key.expires.take().is_some()),
        Op::Pttl => Reply::Integer(match (before, key.expires) {
            (None, _) => -2,
            (Some(_), None) => -1,
            (Some(_), Some(expires)) => ((expires - at) / MS) as i64,
        }),
    }
}

fn draw_command(rng: &mut Rng, family: u64, number: usize) -> Command {
    let key = if family == 3 { *rng.pick(&["x", "y"]) } else { "k" };
    let value = if family == 5 { format!("{number:0>TOKEN_BYTES$}") } else { format!("{number}") };
    let lifetime = rng.between(1, 40) as i64;
    let writes = [Op::Set, Op::Set, Op::SetNx, Op::SetIfEq, Op::GetSet, Op::Del, Op::GetDel];
    let op = match family {
        0 => *rng.pick(&[Op::Get, Op::Append]),
        1 => *rng.pick(&[Op::Get, Op::Incr]),
        2 => *rng.pick(&[
            Op::Get,
            Op::SetPx,
            Op::SetPx,
            Op::Pexpire,
            Op::Persist,
            Op::Pttl,
            Op::Exists,
            Op::Set,
            Op::SetNx,
        ]),
        5 => *rng.pick(&[Op::Get, Op::Tail, Op::Append, Op::Push, Op::Prepend, Op::Pop, Op::Pop, Op::GetDel, Op::Del]),
        _ if rng.chance(1, 3) => *rng.pick(&[Op::Get, Op::Exists]),
        _ => *rng.pick(&writes),
    };
    let mut command = Command::new(op, key);
    if matches!(op, Op::SetPx | Op::Pexpire) {
        command = command.with_number(lifetime);
    }
    if op == Op::Pop && rng.chance(1, 2) {
        command = command.with_number(-1);
    }
    if op == Op::Tail {
        command = command.with_number(rng.below(3) as i64);
    }
    if matches!(op, Op::Set | Op::SetPx | Op::SetNx | Op::SetIfEq | Op::GetSet | Op::Append | Op::Prepend | Op::Push) {
        command = command.with_argument(value);
    }
    if op == Op::SetIfEq {
        command = command.with_expected(rng.below(number as u64 + 1).to_string());
    }
    if op.may_grow() && rng.chance(1, 4) {
        command.lifetime = Some(DefaultLifetime { least: rng.between(1, 40), certain: rng.chance(1, 2) });
    }
    command.refusable = family == 3 && op.may_grow() && rng.chance(1, 4);
    command
}

/// A history as a right server would answer it; in some an answer was changed.
fn draw_history(rng: &mut Rng) -> Vec<Operation> {
    let family = rng.below(6);
    let mut drawn: Vec<(u64, Operation)> = Vec::new();
    for number in 0..rng.between(3, 8) as usize {
        let invoke = rng.below(60) * MS;
        let finish = invoke + rng.between(1, 30) * MS;
        let uncertain = rng.chance(1, 3);
        let length = if family == 3 && rng.chance(1, 2) { 2 } else { 1 };
        let commands = (0..length).map(|_| draw_command(rng, family, number)).collect();
        let at = if uncertain { rng.between(invoke, 120 * MS) } else { rng.between(invoke, finish) };
        let outcome = if uncertain { Outcome::Maybe } else { Outcome::Done };
        let finish = (!uncertain).then_some(finish);
        let client = rng.below(3);
        let (watched, replies) = (Vec::new(), Vec::new());
        drawn.push((at, Operation { client, commands, watched, invoke, finish, outcome, replies }));
    }
    drawn.sort_by_key(|(at, _)| *at);
    let mut keys = BTreeMap::new();
    for (at, operation) in &mut drawn {
        if operation.outcome == Outcome::Maybe && rng.chance(1, 2) {
            continue;
        }
        if family == 3 && operation.outcome == Outcome::Done && rng.chance(1, 4) {
            let value = match answer(&mut keys, &Command::new(Op::Get, "x"), *at) {
                Reply::Text(value) => Some(value),
                _ => None,
            };
            operation.watched = vec![Watched { key: "x".into(), value }];
        }
        let replies = operation.commands.iter().map(|command| answer(&mut keys, command, *at)).collect();
        if operation.outcome == Outcome::Done {
            operation.replies = replies;
        }
    }
    let mut history: Vec<Operation> = drawn.into_iter().map(|(_, operation)| operation).collect();
    let done: Vec<usize> = (0..history.len()).filter(|&index| history[index].outcome == Outcome::Done).collect();
    if !done.is_empty() && rng.chance(1, 2) {
        let (one, other) = (*rng.pick(&done), *rng.pick(&done));
        history[one].replies[0] = match &history[one].replies[0] {
            Reply::Integer(number) => Reply::Integer(if rng.chance(1, 2) { number + 1 } else { 1 - number }),
            _ => match &history[other].replies[0] {
                Reply::Integer(_) => Reply::Nil,
                reply => reply.clone(),
            },
        };
    }
    history.sort_by_key(|operation| operation.invoke);
    history
}

/// Whether any order at all explains what is left.
fn any_order(search: &mut Search, done: &mut Vec<bool>, used: &mut Vec<bool>, state: &State) -> bool {
    let waiting: Vec<usize> = (0..done.len()).filter(|&number| !done[number]).collect();
    let Some(horizon) = waiting.iter().map(|&number| search.certain[number].finish).min() else { return true };
    let mut states = Vec::new();
    for number in waiting {
        let is_next = search.certain[number].invoke <= horizon
            && search.certain_after[number].is_none_or(|before| done[before as usize]);
        if is_next {
            let operation = search.certain[number].clone();
            step(state, &operation, horizon, &mut search.values, &mut states);
            done[number] = true;
            if states.iter().any(|state| any_order(search, done, used, state)) {
                return true;
            }
            done[number] = false;
        }
    }
    for number in 0..used.len() {
        let is_next = !used[number]
            && search.uncertain[number].invoke <= horizon
            && search.uncertain_after[number].is_none_or(|before| done[before as usize]);
        if is_next {
            let operation = search.uncertain[number].clone();
            step(state, &operation, horizon, &mut search.values, &mut states);
            used[number] = true;
            if states.iter().any(|state| any_order(search, done, used, state)) {
                return true;
            }
            used[number] = false;
        }
    }
    false
}

#[test]
fn no_rule_loses_an_order() {
    let (mut right, mut wrong) = (0, 0);
    for seed in 0..CASES {
        let history = draw_history(&mut Rng::new(seed));
        let expected = groups(&history).into_iter().all(|(keys, indices)| {
            let mut search = Search::new(&history, &keys, &indices, Limits::default(), false);
            let start = vec![Slot::ABSENT; keys.len()];
            let (mut done, mut used) = (vec![false; search.certain.len()], vec![false; search.uncertain.len()]);
            any_order(&mut search, &mut done, &mut used, &start)
        });
        let verdict = check(&history, Limits::default());
        assert!(verdict.undecided.is_empty());
        assert_eq!(verdict.violations.is_empty(), expected, "seed {seed}:\n{}", to_json_lines(&history));
        if expected { right += 1 } else { wrong += 1 }
    }
    assert!(right > CASES / 4 && wrong > CASES / 10, "{right} right, {wrong} wrong");
}
