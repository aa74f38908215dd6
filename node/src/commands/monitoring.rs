//! `LATENCY …` and `SLOWLOG …`.
//!
//! A node has one time for all that happens in a turn, so it cannot tell how long a single command took: both logs are
//! empty, and `CONFIG GET slowlog-log-slower-than` says that nothing is logged.

use data::spec::Group;
use data::{Failure, Reply};

use super::{ADMIN, ALWAYS, Context, Entry, Marks, answers, container, helps, spec};

const GROUP: Group = Group::Server;
const SLOW: Marks = &["admin", "loading", "stale"];

/// The table of this family.
pub(super) static ENTRIES: &[Entry] = &[
    container("latency", GROUP, "2.8.13", "Tells of moments of latency, of which none are recorded.", LATENCY),
    container("slowlog", GROUP, "2.2.12", "Tells of slow commands, of which none are recorded.", SLOWLOG),
];

static LATENCY: &[Entry] = &[
    answers(spec("latency|doctor", 2, GROUP, "2.8.13", "Returns a report on latency.", ""), ADMIN, |_, _| {
        Ok(Reply::bulk("Moments of latency are not recorded here. The metrics over HTTP tell how the node is doing.\n"))
    }),
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
        |_, _| Ok(Reply::Map(Vec::new())),
    ),
    answers(
        spec("latency|history", 3, GROUP, "2.8.13", "Returns the latest samples of an event.", "event"),
        ADMIN,
        |_, _| Ok(Reply::Array(Vec::new())),
    ),
    answers(
        spec("latency|latest", 2, GROUP, "2.8.13", "Returns the latest sample of every event.", ""),
        ADMIN,
        |_, _| Ok(Reply::Array(Vec::new())),
    ),
    answers(
        spec("latency|reset", -2, GROUP, "2.8.13", "Forgets the samples of events.", "[event ...]"),
        ADMIN,
        |_, _| Ok(Reply::Integer(0)),
    ),
    helps("latency|help", GROUP, ALWAYS),
];

static SLOWLOG: &[Entry] = &[
    answers(spec("slowlog|get", -2, GROUP, "2.2.12", "Returns the slow commands.", "[count]"), SLOW, slow_commands),
    answers(spec("slowlog|len", 2, GROUP, "2.2.12", "Returns how many slow commands there are.", ""), SLOW, |_, _| {
        Ok(Reply::Integer(0))
    }),
    answers(spec("slowlog|reset", 2, GROUP, "2.2.12", "Forgets the slow commands.", ""), SLOW, |_, _| Ok(Reply::Ok)),
    helps("slowlog|help", GROUP, ALWAYS),
];

fn graph(_: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    Err(Failure::built(&[b"ERR No samples available for event '", words[2], b"'"].concat()))
}

fn slow_commands(_: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    match words {
        [_, _] => Ok(Reply::Array(Vec::new())),
        [_, _, count] => match data::args::parse_integer(count) {
            Some(-1..) => Ok(Reply::Array(Vec::new())),
            _ => Err(Failure::Text("ERR count should be greater than or equal to -1")),
        },
        _ => Err(Failure::WrongArity("slowlog|get")),
    }
}
