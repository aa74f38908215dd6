//! `LATENCY …` and `SLOWLOG …`: what [`crate::slow`] keeps, in Redis's forms.

use std::fmt::Write;

use data::spec::Group;
use data::{Failure, Reply};

use super::{ADMIN, ALWAYS, Context, Entry, Marks, answers, container, helps, spec};
use crate::durations::Histogram;
use crate::slow::{Event, Slow};

const GROUP: Group = Group::Server;
const SLOW: Marks = &["admin", "loading", "stale"];
/// Slow commands that are told of unless a number is given: that of Redis.
const SLOW_COMMANDS_TOLD: usize = 10;

/// The table of this family.
pub(super) static ENTRIES: &[Entry] = &[
    container("latency", GROUP, "2.8.13", "Tells of moments of latency.", LATENCY),
    container("slowlog", GROUP, "2.2.12", "Tells of slow commands.", SLOWLOG),
];

static LATENCY: &[Entry] = &[
    answers(spec("latency|doctor", 2, GROUP, "2.8.13", "Returns a report on latency.", ""), ADMIN, doctor),
    answers(spec("latency|graph", 3, GROUP, "2.8.13", "Draws the latency of an event.", "event"), ADMIN, graph),
    answers(
        spec(
            "latency|histogram",
            -2,
            GROUP,
            "7.0.0",
            "Returns how the durations of commands are spread.",
            "[command ...]",
        ),
        ADMIN,
        histogram,
    ),
    answers(
        spec("latency|history", 3, GROUP, "2.8.13", "Returns the latest samples of an event.", "event"),
        ADMIN,
        history,
    ),
    answers(spec("latency|latest", 2, GROUP, "2.8.13", "Returns the latest sample of every event.", ""), ADMIN, latest),
    answers(spec("latency|reset", -2, GROUP, "2.8.13", "Forgets the samples of events.", "[event ...]"), ADMIN, reset),
    helps("latency|help", GROUP, ALWAYS),
];

static SLOWLOG: &[Entry] = &[
    answers(spec("slowlog|get", -2, GROUP, "2.2.12", "Returns the slow commands.", "[count]"), SLOW, slow_commands),
    answers(
        spec("slowlog|len", 2, GROUP, "2.2.12", "Returns how many slow commands there are.", ""),
        SLOW,
        |context, _| Ok(Reply::count(context.node.slow.commands.len())),
    ),
    answers(spec("slowlog|reset", 2, GROUP, "2.2.12", "Forgets the slow commands.", ""), SLOW, |context, _| {
        context.node.slow.commands.clear();
        Ok(Reply::Ok)
    }),
    helps("slowlog|help", GROUP, ALWAYS),
];

fn integer(number: u64) -> Reply {
    Reply::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

/// The samples of an event in any case.
fn event<'a>(slow: &'a Slow, name: &[u8]) -> Option<(&'static str, &'a Event)> {
    let found = slow.events.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name));
    found.map(|(name, event)| (*name, event))
}

/// How often each command took less than so many microseconds: of all commands, or of those that are named, in that order.
fn histogram(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    let durations = &context.node.slow.durations;
    let told = |(name, histogram): (&'static str, &Histogram)| {
        let spread = histogram.cumulative().into_iter().map(|(bound, below)| (integer(bound), integer(below)));
        let fields = vec![
            (Reply::bulk("calls"), integer(histogram.calls)),
            (Reply::bulk("histogram_usec"), Reply::Map(spread.collect())),
        ];
        (Reply::bulk(name), Reply::Map(fields))
    };
    let Some(names) = words.get(2..).filter(|names| !names.is_empty()) else {
        return Ok(Reply::Map(durations.of(|_| true).into_iter().map(told).collect()));
    };
    // A container stands for its subcommands.
    let is_meant = |wanted: &[u8], known: &str| {
        let is = |known: &str| known.as_bytes().eq_ignore_ascii_case(wanted);
        is(known) || known.split_once('|').is_some_and(|(container, _)| is(container))
    };
    let found = names.iter().flat_map(|wanted| durations.of(|known| is_meant(wanted, known)));
    Ok(Reply::Map(found.map(told).collect()))
}

fn latest(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    let events = context.node.slow.events.iter();
    let lines = events.filter_map(|(name, event)| {
        let (second, milliseconds) = event.samples.back()?;
        let figures = [*second, *milliseconds, event.most_ms].map(integer);
        Some(Reply::Array(std::iter::once(Reply::bulk(*name)).chain(figures).collect()))
    });
    Ok(Reply::Array(lines.collect()))
}

fn history(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    let samples = event(&context.node.slow, words[2]).into_iter().flat_map(|(_, event)| &event.samples);
    let pairs = samples.map(|(second, milliseconds)| Reply::Array(vec![integer(*second), integer(*milliseconds)]));
    Ok(Reply::Array(pairs.collect()))
}

fn reset(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    let events = &mut context.node.slow.events;
    let before = events.len();
    let asked = &words[2..];
    events.retain(|name, _| !asked.is_empty() && !asked.iter().any(|it| it.eq_ignore_ascii_case(name.as_bytes())));
    Ok(Reply::count(before - events.len()))
}

/// What LATENCY HISTORY tells, as bars: the highest is the event's latest maximum, below stands how long ago each sample was.
fn graph(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    const COLUMNS: usize = 80;
    const ROWS: u64 = 4;
    let Some((name, event)) = event(&context.node.slow, words[2]) else {
        return Err(Failure::built(&[b"ERR No samples available for event '", words[2], b"'"].concat()));
    };
    let samples: Vec<(u64, u64)> = event.samples.iter().rev().take(COLUMNS).rev().copied().collect();
    let of = samples.iter().map(|(_, milliseconds)| *milliseconds);
    let (high, low) = (of.clone().max().unwrap_or(0), of.min().unwrap_or(0));
    let most = event.most_ms;
    let mut text =
        format!("{name} - high {high} ms, low {low} ms (all time high {most} ms)\n{}\n", "-".repeat(COLUMNS));
    for row in (0..ROWS).rev() {
        // A bar reaches into this row if it is higher than the row's foot.
        let bar = |(_, milliseconds): &(u64, u64)| {
            let reaches = u128::from(*milliseconds) * u128::from(ROWS) > u128::from(high) * u128::from(row);
            if reaches { '#' } else { ' ' }
        };
        text.push_str(samples.iter().map(bar).collect::<String>().trim_end());
        text.push('\n');
    }
    let now = context.node.clock.own().0 / 1000;
    let ages: Vec<Vec<u8>> = samples.iter().map(|(second, _)| age(now.saturating_sub(*second)).into_bytes()).collect();
    for place in 0..ages.iter().map(Vec::len).max().unwrap_or(0) {
        let line: String = ages.iter().map(|age| age.get(place).map_or(' ', |byte| char::from(*byte))).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    Ok(Reply::bulk(text))
}

/// Seconds as people say them: `59s`, `3m`, `2h`, `8d`.
fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn doctor(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    let slow = &context.node.slow;
    let threshold = slow.thresholds().latency_ms_min;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = match (threshold, slow.events.is_empty()) {
        (0, true) => writeln!(
            text,
            "Nothing is watched: CONFIG SET latency-monitor-threshold <milliseconds> says from when on a moment is kept."
        ),
        (_, true) => writeln!(text, "Nothing has taken {threshold} ms or longer."),
        _ => writeln!(text, "Moments of latency, as this node has seen them:"),
    };
    for (name, event) in &slow.events {
        let sum: u128 = event.samples.iter().map(|(_, milliseconds)| u128::from(*milliseconds)).sum();
        let mean = sum / event.samples.len().max(1) as u128;
        let (count, most) = (event.samples.len(), event.most_ms);
        let _ = writeln!(text, "{name}: {count} seconds with such moments, on average {mean} ms, at most {most} ms.");
    }
    Ok(Reply::bulk(text))
}

fn slow_commands(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    let commands = &context.node.slow.commands;
    let count = match words {
        [_, _] => SLOW_COMMANDS_TOLD,
        [_, _, count] => match data::args::parse_integer(count) {
            Some(-1) => commands.len(),
            Some(count @ 0..) => usize::try_from(count).unwrap_or(usize::MAX),
            _ => return Err(Failure::Text("ERR count should be greater than or equal to -1")),
        },
        _ => return Err(Failure::WrongArity("slowlog|get")),
    };
    let one = |command: &crate::slow::SlowCommand| {
        Reply::Array(vec![
            integer(command.id),
            integer(command.at.0 / 1000),
            integer(u64::try_from(command.took.as_micros()).unwrap_or(u64::MAX)),
            Reply::Array(command.words.iter().map(|word| Reply::bulk(&word[..])).collect()),
            Reply::bulk(command.address.as_bytes()),
            Reply::bulk(&command.name[..]),
        ])
    };
    Ok(Reply::Array(commands.iter().rev().take(count).map(one).collect()))
}
