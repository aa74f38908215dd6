//! Commands that concern the connection or the server, not keys. One function per command, in a file per family.
//!
//! Most only compute a reply ([`Run::Reply`]) and may stand inside a MULTI. A few change how the connection itself goes on
//! ([`Run::Special`]); `dispatch` carries those out.

mod connection;
mod dictum;
mod server;

use data::spec::{Flags, Group, Keys};
use data::{Failure, Reply, Spec};

use crate::node::Node;
use crate::session::{ReplyMode, Session};

/// What a command that only computes a reply is given.
pub(crate) struct Context<'a> {
    pub node: &'a mut Node,
    /// The connection that asks. It is not among `node.sessions` while its command runs.
    pub session: &'a mut Session,
}

/// A function that computes a reply. `words[0]` is the command's name; their number has been checked.
pub(crate) type Function = fn(&mut Context<'_>, &[&[u8]]) -> Result<Reply, Failure>;

/// A command of this file's kind.
#[derive(Debug)]
pub(crate) struct Entry {
    pub spec: Spec,
    pub run: Run,
}

/// How a command is carried out.
#[derive(Debug)]
pub(crate) enum Run {
    Reply(Function),
    Special(Local),
}

/// Commands that change how the connection goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Local {
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
    Quit,
    ClientReply(ReplyMode),
    Wait,
    Shutdown,
    Once,
    Outcome,
}

/// A description with what these commands have in common.
pub(crate) const fn spec(
    name: &'static str,
    arity: i32,
    group: Group,
    since: &'static str,
    summary: &'static str,
    arguments: &'static str,
) -> Spec {
    Spec {
        name,
        arity,
        flags: Flags::FAST,
        keys: Keys::None,
        group,
        since,
        complexity: "O(1)",
        summary,
        arguments,
        example: "",
        subcommands: &[],
    }
}

/// All tables, one per family.
pub(crate) static TABLES: &[&[Entry]] = &[connection::ENTRIES, server::ENTRIES, dictum::ENTRIES];

/// The command that `words` name, if there is one and so many words suit it.
pub(crate) fn find(words: &[&[u8]]) -> Result<&'static Entry, Failure> {
    let name = words.first().copied().unwrap_or_default();
    let mut all = TABLES.iter().flat_map(|table| table.iter());
    let Some(entry) = all.find(|entry| entry.spec.name.as_bytes().eq_ignore_ascii_case(name)) else {
        return Err(Failure::unknown_command(words));
    };
    if !entry.spec.arity_fits(words.len()) {
        return Err(entry.spec.wrong_arity());
    }
    Ok(entry)
}

/// Runs a command that only computes a reply.
pub(crate) fn run_local(node: &mut Node, session: &mut Session, words: &[&[u8]]) -> Reply {
    let run = find(words).map(|entry| &entry.run);
    match run {
        Ok(Run::Reply(function)) => function(&mut Context { node, session }, words).into(),
        Ok(Run::Special(_)) => Reply::Error(Failure::Text("ERR this command is not allowed inside a transaction")),
        Err(failure) => Reply::Error(failure),
    }
}

/// Commands that are allowed before the password.
pub(crate) fn without_password(name: &[u8]) -> bool {
    [&b"auth"[..], b"hello", b"quit", b"reset"].iter().any(|allowed| name.eq_ignore_ascii_case(allowed))
}

/// Commands that are carried out, not queued, inside MULTI.
pub(crate) fn runs_inside_multi(name: &[u8]) -> bool {
    let these: [&[u8]; 7] = [b"multi", b"exec", b"discard", b"watch", b"quit", b"reset", b"shutdown"];
    these.iter().any(|allowed| name.eq_ignore_ascii_case(allowed))
}

/// `CLIENT REPLY ON | OFF | SKIP`: only ON is answered.
pub(crate) fn client_reply(session: &mut Session, mode: ReplyMode) {
    session.reply_mode = mode;
    if mode == ReplyMode::On {
        session.reply(|writer| writer.ok());
    }
}
