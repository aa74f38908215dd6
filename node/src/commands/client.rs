//! `CLIENT …`: the connections of this node.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use data::spec::Group;
use data::{Failure, Reply};

use super::{
    ADMIN, ALWAYS, Context, Entry, Local, Marks, answers, connection, container, helps, spec, special, tracking,
};
use crate::door::ConnectionId;
use crate::node::Node;
use crate::pubsub::audience::Kind;
use crate::session::{ReplyMode, Session};
use crate::waiting::Unblock;

const GROUP: Group = Group::Connection;
const OWN: Marks = &["noscript", "loading", "stale"];

/// The table of this family.
pub(super) static ENTRIES: &[Entry] =
    &[container("client", GROUP, "2.4.0", "Tells of connections and changes them.", SUBCOMMANDS)];

static SUBCOMMANDS: &[Entry] = &[
    answers(
        spec("client|caching", 3, GROUP, "6.0.0", "Says whether to track the keys of the next command.", "YES | NO"),
        OWN,
        tracking::caching,
    ),
    answers(spec("client|getname", 2, GROUP, "2.6.9", "Returns the connection's name.", ""), OWN, get_name),
    answers(
        spec("client|getredir", 2, GROUP, "6.0.0", "Returns who is told when tracked keys change.", ""),
        OWN,
        tracking::get_redirection,
    ),
    answers(spec("client|id", 2, GROUP, "5.0.0", "Returns the connection's number.", ""), OWN, id),
    answers(spec("client|info", 2, GROUP, "6.2.0", "Describes the connection.", ""), OWN, info),
    answers(
        spec(
            "client|kill",
            -3,
            GROUP,
            "2.4.0",
            "Closes connections.",
            "[ip:port] [ID client-id] [TYPE client-type] [USER username] [ADDR ip:port] [LADDR ip:port] [SKIPME yes/no] \
             [MAXAGE seconds]",
        ),
        ADMIN,
        kill,
    ),
    answers(
        spec("client|list", -2, GROUP, "2.4.0", "Describes connections.", "[TYPE client-type] [ID client-id ...]"),
        ADMIN,
        list,
    ),
    answers(
        spec("client|no-evict", 3, GROUP, "7.0.0", "Marks the connection as not to be evicted.", "ON | OFF"),
        ADMIN,
        no_evict,
    ),
    answers(
        spec("client|no-touch", 3, GROUP, "7.2.0", "Marks the connection's reads as no use of a key.", "ON | OFF"),
        OWN,
        no_touch,
    ),
    answers(
        spec(
            "client|pause",
            -3,
            GROUP,
            "3.0.0",
            "Lets clients of this node wait with their commands.",
            "timeout [WRITE | ALL]",
        ),
        ADMIN,
        pause,
    ),
    special(
        spec("client|reply", 3, GROUP, "3.2.0", "Says which commands are answered.", "ON | OFF | SKIP"),
        OWN,
        Local::ClientReply,
    ),
    answers(
        spec(
            "client|setinfo",
            4,
            GROUP,
            "7.2.0",
            "Notes what library speaks on the connection.",
            "LIB-NAME libname | LIB-VER libver",
        ),
        OWN,
        set_info,
    ),
    answers(
        spec("client|setname", 3, GROUP, "2.6.9", "Names the connection.", "connection-name"),
        OWN,
        |context, words| connection::set_name(context, words[2]).map(|()| Reply::Ok),
    ),
    answers(
        spec(
            "client|tracking",
            -3,
            GROUP,
            "6.0.0",
            "Says whether and how to tell the connection, or another one, when keys change that it has read.",
            "<ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
        ),
        OWN,
        tracking::tracking,
    ),
    answers(
        spec("client|trackinginfo", 2, GROUP, "6.2.0", "Returns what keys are tracked for the connection.", ""),
        OWN,
        tracking::tracking_info,
    ),
    answers(spec("client|unpause", 2, GROUP, "6.2.0", "Ends a pause.", ""), ADMIN, |context, _| {
        context.node.end_pause();
        Ok(Reply::Ok)
    }),
    answers(
        spec(
            "client|unblock",
            -3,
            GROUP,
            "5.0.0",
            "Lets a connection that waits for keys or replicas wait no more.",
            "client-id [TIMEOUT | ERROR]",
        ),
        ADMIN,
        unblock,
    ),
    helps("client|help", GROUP, ALWAYS),
];

fn get_name(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    let name = &context.session.name;
    Ok(if name.is_empty() { Reply::Nil } else { Reply::bulk(name.as_slice()) })
}

fn id(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    Ok(Reply::Integer(context.session.id.0 as i64))
}

fn set_info(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    let (what, value) = (words[2], words[3]);
    let session = &mut *context.session;
    let place = if what.eq_ignore_ascii_case(b"lib-name") {
        &mut session.library_name
    } else if what.eq_ignore_ascii_case(b"lib-ver") {
        &mut session.library_version
    } else {
        return Err(Failure::built(&[b"ERR Unrecognized option '", what, b"'"].concat()));
    };
    if !connection::is_plain(value) {
        let complaint = &b" cannot contain spaces, newlines or special characters."[..];
        return Err(Failure::built(&[b"ERR ", what, complaint].concat()));
    }
    *place = value.to_vec();
    Ok(Reply::Ok)
}

/// `ON` or `OFF`.
fn switch(word: &[u8]) -> Result<bool, Failure> {
    if word.eq_ignore_ascii_case(b"on") {
        Ok(true)
    } else if word.eq_ignore_ascii_case(b"off") {
        Ok(false)
    } else {
        Err(Failure::Syntax)
    }
}

/// `CLIENT PAUSE timeout [WRITE | ALL]`: milliseconds.
fn pause(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    let all = match words.get(3..).unwrap_or_default() {
        [] => true,
        [word] if word.eq_ignore_ascii_case(b"all") => true,
        [word] if word.eq_ignore_ascii_case(b"write") => false,
        [_] => return Err(Failure::Text("ERR CLIENT PAUSE mode must be WRITE or ALL")),
        _ => return Err(Failure::Syntax),
    };
    let length =
        data::args::parse_integer(words[2]).ok_or(Failure::Text("ERR timeout is not an integer or out of range"))?;
    let length = u64::try_from(length).map_err(|_| Failure::Text("ERR timeout is negative"))?;
    context.node.pause(Duration::from_millis(length), all);
    Ok(Reply::Ok)
}

/// `CLIENT UNBLOCK client-id [TIMEOUT | ERROR]`
fn unblock(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    let how = match words.get(3..).unwrap_or_default() {
        [] => Unblock::Timeout,
        [word] if word.eq_ignore_ascii_case(b"timeout") => Unblock::Timeout,
        [word] if word.eq_ignore_ascii_case(b"error") => Unblock::Error,
        [_] => return Err(Failure::Text("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
        _ => return Err(Failure::Syntax),
    };
    let id = data::args::parse_integer(words[2]).ok_or(Failure::NotAnInteger)?;
    let id = u64::try_from(id).map(ConnectionId);
    Ok(Reply::Integer(i64::from(id.is_ok_and(|id| context.node.unblock(id, how)))))
}

fn no_evict(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    context.session.no_evict = switch(words[2])?;
    Ok(Reply::Ok)
}

fn no_touch(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    context.session.no_touch = switch(words[2])?;
    Ok(Reply::Ok)
}

/// `CLIENT REPLY ON | OFF | SKIP`: only ON is answered.
pub(crate) fn client_reply(node: &mut Node, session: &mut Session, words: &[&[u8]]) {
    let mode = words[2];
    if mode.eq_ignore_ascii_case(b"on") {
        session.reply_mode = ReplyMode::On;
        session.reply(|writer| writer.ok());
    } else if mode.eq_ignore_ascii_case(b"off") {
        session.reply_mode = ReplyMode::Off;
    } else if mode.eq_ignore_ascii_case(b"skip") {
        if session.reply_mode != ReplyMode::Off {
            session.reply_mode = ReplyMode::SkipNext;
        }
    } else {
        node.refuse(session, &Failure::Syntax);
    }
}

/// The line that describes a connection, in Redis 7.4's fields; those that mean nothing here have their idle values.
fn describe(node: &Node, session: &Session, name_bytes_max: usize, out: &mut Vec<u8>) {
    let mut flags = String::new();
    let tracked = session.tracked.as_deref();
    let marks = [
        (node.monitors.contains(&session.id), 'O'),
        (session.listens(), 'P'),
        (tracked.is_some(), 't'),
        (tracked.is_some_and(|it| it.broken), 'R'),
        (tracked.is_some_and(|it| it.broadcast), 'B'),
        (session.queue.is_some(), 'x'),
        (session.is_waiting(), 'b'),
        (session.closing, 'c'),
        (session.no_evict, 'e'),
        (session.no_touch, 'T'),
    ];
    flags.extend(marks.into_iter().filter(|(set, _)| *set).map(|(_, mark)| mark));
    if flags.is_empty() {
        flags.push('N');
    }
    let db = node.number_of(session.bucket);
    let seconds_since = |time| node.now.time.since(time).as_secs();
    let burden = session.burden();
    let (output, output_room) = (session.out.len(), session.out.capacity());
    let name = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(name_bytes_max)]).into_owned();
    let mut line = String::new();
    // Writing to a string cannot fail.
    let _ = write!(line, "id={} addr={} laddr={} fd=-1", session.id.0, session.address, session.local_address);
    let _ = write!(line, " name={} age={}", name(&session.name), seconds_since(session.opened_time));
    let _ = write!(line, " idle={} flags={flags} db={db}", seconds_since(session.last_active));
    let [sub, psub, ssub] = Kind::ALL.map(|kind| session.subscribed(kind));
    let _ = write!(line, " sub={sub} psub={psub} ssub={ssub}");
    let multi = session.queue.as_ref().map_or(-1, |queue| queue.commands.len() as i64);
    let _ = write!(line, " multi={multi} watch={}", session.watches.len());
    let _ = write!(line, " qbuf={} qbuf-free={}", burden.query, burden.query_free);
    let _ = write!(line, " argv-mem={} multi-mem={}", burden.arguments, burden.multi);
    // In whole KiB: who asks moves it by what is asked.
    let peak = session.out_peak.next_multiple_of(1024);
    let _ = write!(line, " rbs={output_room} rbp={peak} obl={output}");
    let _ = write!(line, " oll={} omem={}", session.unread_blocks, burden.unread);
    let events = [(!session.paused, 'r'), (session.unread > 0, 'w')].into_iter();
    let events: String = events.filter(|(set, _)| *set).map(|(_, event)| event).collect();
    let _ = write!(line, " tot-mem={} events={events} cmd={}", burden.total(), session.last_command);
    let (user, redirection) = (name(&session.user.name), tracking::redirection(tracked));
    let _ = write!(line, " user={user} redir={redirection} resp={}", session.protocol.number());
    let _ = write!(line, " lib-name={} lib-ver={}", name(&session.library_name), name(&session.library_version));
    let _ = writeln!(line, " tls={}", session.tls.as_deref().unwrap_or("none"));
    out.extend_from_slice(line.as_bytes());
}

/// The same without the end of the line, as `ACL LOG` shows it. A client calls itself as it likes, so its names are cut off after so many bytes.
pub(crate) fn line_of(node: &Node, session: &Session, name_bytes_max: usize) -> Vec<u8> {
    let mut line = Vec::new();
    describe(node, session, name_bytes_max, &mut line);
    line.truncate(line.trim_ascii_end().len());
    line
}

fn info(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    let mut text = Vec::new();
    describe(context.node, context.session, usize::MAX, &mut text);
    Ok(Reply::Verbatim(text.into()))
}

impl Context<'_> {
    /// The connection of this number, be it the one that asks or another.
    fn session_of(&self, id: ConnectionId) -> Option<&Session> {
        if id == self.session.id { Some(self.session) } else { self.node.sessions.get(&id)?.as_deref() }
    }
}

/// A number of a connection.
fn parse_id(word: &[u8]) -> Option<ConnectionId> {
    let number = data::args::parse_integer(word).filter(|number| *number > 0)?;
    u64::try_from(number).ok().map(ConnectionId)
}

/// The types of connections that there are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Normal,
    /// It listens to channels.
    PubSub,
    /// Of these there is none.
    Other,
}

fn type_of(session: &Session) -> Type {
    if session.listens() { Type::PubSub } else { Type::Normal }
}

fn parse_type(kind: &[u8]) -> Result<Type, Failure> {
    let others: [&[u8]; 3] = [b"master", b"replica", b"slave"];
    if kind.eq_ignore_ascii_case(b"normal") {
        Ok(Type::Normal)
    } else if kind.eq_ignore_ascii_case(b"pubsub") {
        Ok(Type::PubSub)
    } else if others.iter().any(|other| kind.eq_ignore_ascii_case(other)) {
        Ok(Type::Other)
    } else {
        Err(Failure::built(&[b"ERR Unknown client type '", kind, b"'"].concat()))
    }
}

fn list(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    let everybody = || context.node.sessions.keys().copied().collect::<Vec<_>>();
    let chosen = match words {
        [_, _] => everybody(),
        [_, _, option, kind] if option.eq_ignore_ascii_case(b"type") => {
            let wanted = parse_type(kind)?;
            let fits = |id: &ConnectionId| context.session_of(*id).is_some_and(|it| type_of(it) == wanted);
            everybody().into_iter().filter(fits).collect()
        }
        [_, _, option, ids @ ..] if option.eq_ignore_ascii_case(b"id") && !ids.is_empty() => {
            // In their order and each once, however often it is named: lines are longer than numbers.
            let mut seen = BTreeSet::new();
            let ids: Option<Vec<ConnectionId>> = ids.iter().map(|word| parse_id(word)).collect();
            let ids = ids.ok_or(Failure::Text("ERR Invalid client ID"))?;
            ids.into_iter().filter(|id| seen.insert(*id)).collect()
        }
        _ => return Err(Failure::Syntax),
    };
    let mut text = Vec::new();
    for session in chosen.into_iter().filter_map(|id| context.session_of(id)) {
        describe(context.node, session, usize::MAX, &mut text);
    }
    Ok(Reply::Verbatim(text.into()))
}

/// Which connections a `CLIENT KILL` means; what is not said lets everybody pass.
struct Filter<'a> {
    id: Option<ConnectionId>,
    kind: Option<Type>,
    address: Option<&'a [u8]>,
    local_address: Option<&'a [u8]>,
    seconds_min: Option<u64>,
    skip_own: bool,
}

impl<'a> Filter<'a> {
    /// Reads pairs of option and value.
    fn parse(options: &[&'a [u8]]) -> Result<Filter<'a>, Failure> {
        let mut filter =
            Filter { id: None, kind: None, address: None, local_address: None, seconds_min: None, skip_own: true };
        for pair in options.chunks(2) {
            let [option, value] = pair else { return Err(Failure::Syntax) };
            let is = |name: &[u8]| option.eq_ignore_ascii_case(name);
            if is(b"id") {
                let id = parse_id(value).ok_or(Failure::Text("ERR client-id should be greater than 0"))?;
                filter.id = Some(id);
            } else if is(b"type") {
                filter.kind = Some(parse_type(value)?);
            } else if is(b"user") {
                if *value != b"default" {
                    return Err(Failure::built(&[b"ERR No such user '", *value, b"'"].concat()));
                }
            } else if is(b"addr") {
                filter.address = Some(value);
            } else if is(b"laddr") {
                filter.local_address = Some(value);
            } else if is(b"skipme") {
                filter.skip_own = match value {
                    _ if value.eq_ignore_ascii_case(b"yes") => true,
                    _ if value.eq_ignore_ascii_case(b"no") => false,
                    _ => return Err(Failure::Syntax),
                };
            } else if is(b"maxage") {
                let seconds = data::args::parse_integer(value)
                    .ok_or(Failure::Text("ERR maxage is not an integer or out of range"))?;
                let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
                filter.seconds_min = Some(seconds.ok_or(Failure::Text("ERR maxage should be greater than 0"))?);
            } else {
                return Err(Failure::Syntax);
            }
        }
        Ok(filter)
    }

    fn fits(&self, node: &Node, session: &Session) -> bool {
        self.kind.is_none_or(|kind| kind == type_of(session))
            && self.id.is_none_or(|id| id == session.id)
            && self.address.is_none_or(|address| address == session.address.as_bytes())
            && self.local_address.is_none_or(|address| address == session.local_address.as_bytes())
            && self.seconds_min.is_none_or(|least| node.now.time.since(session.opened_time).as_secs() >= least)
    }
}

fn kill(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    // The old form names an address, the connection's own included.
    let old_form = words.len() == 3;
    let filter = if old_form {
        Filter { address: Some(words[2]), skip_own: false, ..Filter::parse(&[])? }
    } else {
        Filter::parse(&words[2..])?
    };
    let own = context.session.id;
    let everybody = || context.node.sessions.keys().copied().collect();
    let meant: Vec<ConnectionId> = filter.id.map_or_else(everybody, |id| vec![id]);
    let mut killed = 0;
    for id in meant {
        let fits = context.session_of(id).is_some_and(|session| filter.fits(context.node, session));
        if !fits || (filter.skip_own && id == own) {
            continue;
        }
        killed += 1;
        if id == own {
            // It is told first.
            context.session.closing = true;
        } else {
            context.node.throw_out(id);
        }
    }
    match (old_form, killed) {
        (true, 0) => Err(Failure::Text("ERR No such client")),
        (true, _) => Ok(Reply::Ok),
        (false, killed) => Ok(Reply::Integer(killed)),
    }
}
