//! Publish and subscribe: who listens to what, and what is said.

use data::algorithms::glob::Glob;
use data::meter::Meter;
use data::spec::Group;
use data::{Failure, Reply};
use wire::{Protocol, ReplyWriter};

use super::known::Known;
use super::{ALWAYS, Context, Entry, Local, Marks, Run, answers, container, helps, spec, special};
use crate::node::Node;
use crate::pubsub::audience::{Kind, MATCHING_WORK_MAX, check_name};
use crate::pubsub::names;
use crate::redirect::check_channels;
use crate::session::{ReplyMode, Session};

const GROUP: Group = Group::PubSub;
const LISTENS: Marks = &["pubsub", "noscript", "loading", "stale"];
const PUBLISHES: Marks = &["pubsub", "loading", "stale", "fast"];
const TELLS: Marks = &["pubsub", "loading", "stale"];

/// The table of this family.
pub(super) static ENTRIES: &[Entry] = &[
    special(
        spec("subscribe", -2, GROUP, "2.0.0", "Listens for messages published to channels.", "channel [channel ...]"),
        LISTENS,
        Local::Subscribe(Kind::Channel),
    ),
    special(
        spec(
            "unsubscribe",
            -1,
            GROUP,
            "2.0.0",
            "Stops listening to messages posted to channels.",
            "[channel [channel ...]]",
        ),
        LISTENS,
        Local::Unsubscribe(Kind::Channel),
    ),
    special(
        spec(
            "psubscribe",
            -2,
            GROUP,
            "2.0.0",
            "Listens for messages published to channels that match one or more patterns.",
            "pattern [pattern ...]",
        ),
        LISTENS,
        Local::Subscribe(Kind::Pattern),
    ),
    special(
        spec(
            "punsubscribe",
            -1,
            GROUP,
            "2.0.0",
            "Stops listening to messages published to channels that match one or more patterns.",
            "[pattern [pattern ...]]",
        ),
        LISTENS,
        Local::Unsubscribe(Kind::Pattern),
    ),
    special(
        spec(
            "ssubscribe",
            -2,
            GROUP,
            "7.0.0",
            "Listens for messages published to shard channels.",
            "shardchannel [shardchannel ...]",
        ),
        LISTENS,
        Local::Subscribe(Kind::Shard),
    ),
    special(
        spec(
            "sunsubscribe",
            -1,
            GROUP,
            "7.0.0",
            "Stops listening to messages posted to shard channels.",
            "[shardchannel [shardchannel ...]]",
        ),
        LISTENS,
        Local::Unsubscribe(Kind::Shard),
    ),
    special(
        spec("publish", 3, GROUP, "2.0.0", "Posts a message to a channel.", "channel message"),
        PUBLISHES,
        Local::Publish(Kind::Channel),
    ),
    special(
        spec("spublish", 3, GROUP, "7.0.0", "Posts a message to a shard channel.", "shardchannel message"),
        PUBLISHES,
        Local::Publish(Kind::Shard),
    ),
    container("pubsub", GROUP, "2.8.0", "Tells who listens to what.", PUBSUB),
];

static PUBSUB: &[Entry] = &[
    answers(
        spec("pubsub|channels", -2, GROUP, "2.8.0", "Returns the channels that have listeners.", "[pattern]"),
        TELLS,
        |context, words| channels(context, Kind::Channel, words),
    ),
    answers(
        spec("pubsub|numpat", 2, GROUP, "2.8.0", "Returns how many patterns are listened to.", ""),
        TELLS,
        |context, _| Ok(Reply::count(context.node.pubsub.audience.names_count(Kind::Pattern))),
    ),
    answers(
        spec("pubsub|numsub", -2, GROUP, "2.8.0", "Returns how many listen to channels.", "[channel [channel ...]]"),
        TELLS,
        |context, words| counts(context, Kind::Channel, words),
    ),
    answers(
        spec(
            "pubsub|shardchannels",
            -2,
            GROUP,
            "7.0.0",
            "Returns the shard channels that have listeners.",
            "[pattern]",
        ),
        TELLS,
        |context, words| channels(context, Kind::Shard, words),
    ),
    answers(
        spec(
            "pubsub|shardnumsub",
            -2,
            GROUP,
            "7.0.0",
            "Returns how many listen to shard channels.",
            "[shardchannel [shardchannel ...]]",
        ),
        TELLS,
        |context, words| counts(context, Kind::Shard, words),
    ),
    helps("pubsub|help", GROUP, ALWAYS),
];

const TOO_HARD: Failure = Failure::Text(
    "BUDGET comparing this pattern with all channels would take too long; ask with a pattern that has fewer stars, or is shorter",
);

fn channels(context: &mut Context<'_>, kind: Kind, words: &[&[u8]]) -> Result<Reply, Failure> {
    let glob = match words {
        [_, _] => None,
        [_, _, pattern] => {
            check_name(pattern)?;
            Some(Glob::new(pattern))
        }
        _ => return Err(too_many_words("pubsub", words)),
    };
    let meter = Meter::limited(MATCHING_WORK_MAX);
    let names = context.node.pubsub.audience.names(kind).take_while(|_| !meter.is_over());
    let fitting = names.filter(|name| glob.as_ref().is_none_or(|glob| glob.matches_among_many(name, &meter)));
    let names = fitting.map(|name| Reply::bulk(&name[..])).collect();
    if meter.is_over() { Err(TOO_HARD) } else { Ok(Reply::Array(names)) }
}

fn counts(context: &mut Context<'_>, kind: Kind, words: &[&[u8]]) -> Result<Reply, Failure> {
    let audience = &context.node.pubsub.audience;
    let pair = |name: &&[u8]| {
        let count = audience.count(kind, name);
        [Reply::bulk(*name), Reply::Integer(i64::try_from(count).unwrap_or(i64::MAX))]
    };
    Ok(Reply::Array(words[2..].iter().flat_map(pair).collect()))
}

/// What Redis answers where a subcommand has more words than it knows.
fn too_many_words(container: &str, words: &[&[u8]]) -> Failure {
    Failure::unknown_subcommand(&container.to_ascii_uppercase(), words[1])
}

/// Whether these words are a command of this file that changes or tells something as soon as it is carried out.
pub(crate) fn acts(words: &[&[u8]]) -> bool {
    matches!(
        super::find(words).map(|entry| &entry.run),
        Ok(Run::Special(Local::Subscribe(_) | Local::Unsubscribe(_) | Local::Publish(_)))
    )
}

/// The kind of channels among a command's words, for a command that listens (true: all its words are such) or publishes (false: the first).
pub(crate) fn channels_of(command: Known) -> Option<(Kind, bool)> {
    match command {
        Known::Own(Entry { run: Run::Special(Local::Subscribe(kind)), .. }) => Some((*kind, true)),
        Known::Own(Entry { run: Run::Special(Local::Publish(kind)), .. }) => Some((*kind, false)),
        _ => None,
    }
}

/// Whether these words publish something.
pub(crate) fn publishes(words: &[&[u8]]) -> bool {
    matches!(super::find(words).map(|entry| &entry.run), Ok(Run::Special(Local::Publish(_))))
}

/// Carries such a command out.
pub(crate) fn act(node: &mut Node, session: &mut Session, local: Local, words: &[&[u8]]) {
    let channels = match local {
        Local::Subscribe(Kind::Shard) | Local::Unsubscribe(Kind::Shard) => &words[1..],
        _ => &[],
    };
    if let Err(failure) = check_channels(session, channels) {
        return node.refuse(session, &failure);
    }
    match local {
        Local::Subscribe(kind) => {
            for name in &words[1..] {
                match node.subscribe(session, kind, name) {
                    Ok(count) => confirm(session, ["subscribe", "psubscribe", "ssubscribe"], kind, Some(name), count),
                    Err(failure) => node.refuse(session, &failure),
                }
            }
            skip(session);
        }
        Local::Unsubscribe(kind) => {
            const WORDS: [&str; 3] = ["unsubscribe", "punsubscribe", "sunsubscribe"];
            let all = if words.len() == 1 { names(session, kind) } else { Vec::new() };
            let named = words[1..].iter().copied().chain(all.iter().map(|name| &name[..]));
            let mut told = false;
            for name in named {
                let count = node.unsubscribe(session, kind, name);
                confirm(session, WORDS, kind, Some(name), count);
                told = true;
            }
            if !told {
                let count = node.unsubscribe(session, kind, b"");
                confirm(session, WORDS, kind, None, count);
            }
            skip(session);
        }
        Local::Publish(kind) => match check_name(words[1]) {
            Ok(()) => {
                let count = node.publish(Some(session), kind, words[1], words[2]);
                session.reply(|writer| writer.integer(i64::try_from(count).unwrap_or(i64::MAX)));
            }
            Err(failure) => node.refuse(session, &failure),
        },
        _ => {}
    }
}

/// Tells a client that it listens, or does no more. `CLIENT REPLY` is not for what is pushed.
fn confirm(session: &mut Session, words: [&str; 3], kind: Kind, name: Option<&[u8]>, count: usize) {
    let mut writer = ReplyWriter::new(&mut session.out, session.protocol);
    writer.push(3);
    writer.bulk(words[kind.place()].as_bytes());
    writer.bulk_or_null(name);
    writer.integer(i64::try_from(count).unwrap_or(i64::MAX));
}

fn skip(session: &mut Session) {
    if session.reply_mode == ReplyMode::SkipNext {
        session.reply_mode = ReplyMode::On;
    }
}

/// Why a connection that listens may not have this command, if so: in RESP2 a reply could not be told from a message.
pub(crate) fn refusal(session: &Session, words: &[&[u8]]) -> Option<Failure> {
    if session.protocol != Protocol::Resp2 || !(session.listens() || session.subscribed_to_changes > 0) {
        return None;
    }
    const ALLOWED: [&[u8]; 12] = [
        b"subscribe",
        b"unsubscribe",
        b"psubscribe",
        b"punsubscribe",
        b"ssubscribe",
        b"sunsubscribe",
        b"dictum.subscribe",
        b"dictum.unsubscribe",
        b"dictum.subscriptions",
        b"ping",
        b"quit",
        b"reset",
    ];
    let name = words.first()?;
    if ALLOWED.iter().any(|allowed| name.eq_ignore_ascii_case(allowed)) {
        return None;
    }
    let full = match data::lookup(name) {
        Some(entry) if !entry.spec.arity_fits(words.len()) => return Some(entry.spec.wrong_arity()),
        Some(entry) => {
            let is_second = |sub: &&data::Spec| {
                let second = sub.name.split('|').next_back().unwrap_or_default();
                words.get(1).is_some_and(|word| second.as_bytes().eq_ignore_ascii_case(word))
            };
            entry.spec.subcommands.iter().find(is_second).map_or(entry.spec.name, |sub| sub.name)
        }
        None => match super::find(words) {
            Ok(entry) => entry.spec.name,
            Err(failure) => return Some(failure),
        },
    };
    Some(Failure::Built(
        format!(
            "ERR Can't execute '{full}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
        )
        .into(),
    ))
}
