//! Commands that concern the connection that sends them.

use std::sync::Arc;

use base::BucketId;
use data::spec::{Group, Keys};
use data::{Failure, Reply, Spec};
use wire::Protocol;

use super::{Context, Entry, Local, Marks, answers, spec, special};
use crate::access::log::Refused;
use crate::access::{self, DEFAULT, Judged, User};
use crate::audit;
use crate::door::Planted;
use crate::node::Node;
use crate::redirect::Redirected;
use crate::session::{ReplyMode, Session};

const GROUP: Group = Group::Connection;
const TRANSACTIONS: Group = Group::Transactions;

/// Marks of what a connection must always be able to say, before its password and inside scripts that hang.
const HANDSHAKE: Marks = &["noscript", "loading", "stale", "fast", "no_auth", "allow_busy"];
const TRANSACTION: Marks = &["noscript", "loading", "stale", "fast", "allow_busy"];

/// The table of this family.
pub(super) static ENTRIES: &[Entry] = &[
    answers(spec("ping", -1, GROUP, "1.0.0", "Returns the server's liveliness.", "[message]"), &["fast"], ping),
    answers(
        spec("echo", 2, GROUP, "1.0.0", "Returns the given string.", "message"),
        &["loading", "stale", "fast"],
        echo,
    ),
    special(
        spec("select", 2, GROUP, "1.0.0", "Changes the selected bucket.", "index | name"),
        &["loading", "stale", "fast"],
        Local::Select,
    ),
    answers(
        spec(
            "hello",
            -1,
            GROUP,
            "6.0.0",
            "Handshakes with the server.",
            "[protover [AUTH username password] [SETNAME clientname]]",
        ),
        HANDSHAKE,
        hello,
    ),
    answers(spec("auth", -2, GROUP, "1.0.0", "Authenticates the connection.", "[username] password"), HANDSHAKE, auth),
    answers(spec("reset", 1, GROUP, "6.2.0", "Resets the connection.", ""), HANDSHAKE, reset),
    special(spec("quit", -1, GROUP, "1.0.0", "Closes the connection.", ""), HANDSHAKE, Local::Quit),
    special(spec("multi", 1, TRANSACTIONS, "1.2.0", "Starts a transaction.", ""), TRANSACTION, Local::Multi),
    special(
        spec("exec", 1, TRANSACTIONS, "1.2.0", "Executes all commands in a transaction.", ""),
        &["noscript", "loading", "stale", "skip_slowlog"],
        Local::Exec,
    ),
    special(spec("discard", 1, TRANSACTIONS, "2.0.0", "Discards a transaction.", ""), TRANSACTION, Local::Discard),
    special(
        Spec {
            keys: Keys::ALL,
            ..spec(
                "watch",
                -2,
                TRANSACTIONS,
                "2.2.0",
                "Monitors changes to keys to determine the execution of a transaction.",
                "key [key ...]",
            )
        },
        TRANSACTION,
        Local::Watch,
    ),
    special(
        spec("unwatch", 1, TRANSACTIONS, "2.2.0", "Forgets about watched keys of a transaction.", ""),
        TRANSACTION,
        Local::Unwatch,
    ),
];

fn ping(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    // In RESP2 everything that a connection hears which listens has the form of a message.
    let as_message = context.session.listens() && context.session.protocol == Protocol::Resp2;
    match words {
        [_] if as_message => Ok(Reply::Array(vec![Reply::bulk("pong"), Reply::bulk("")])),
        [_, message] if as_message => Ok(Reply::Array(vec![Reply::bulk("pong"), Reply::bulk(*message)])),
        [_] => Ok(Reply::Simple("PONG")),
        [_, message] => Ok(Reply::bulk(*message)),
        _ => Err(Failure::WrongArity("ping")),
    }
}

fn echo(_: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    Ok(Reply::bulk(words[1]))
}

/// Lets a connection be another user, if the password is right. A name of no user that is that of a bucket says which bucket `default` wants
/// ([`crate::choice`]); so does `user@bucket`. At the listener for cluster clients `default` itself means the listener's.
fn authenticate(context: &mut Context<'_>, (name, by_name): (&[u8], bool), password: &[u8]) -> Result<(), Failure> {
    let found = context.node.login(context.session, name, password);
    let Some((user, Some(bucket))) = found else {
        if found.is_some() {
            context.session.has_not_logged_in();
        }
        context.node.note_wrong_password(context.session);
        audit::login_failed(context.node, context.session, name);
        let command = context.session.last_command.to_ascii_uppercase().into_bytes();
        let refused = Refused { reason: "auth", context: "toplevel", object: command, user: name.to_vec() };
        access::note(context.node, context.session, refused);
        return Err(Failure::Text("WRONGPASS invalid username-password pair or user is disabled."));
    };
    context.session.select_named(bucket, by_name)?;
    let is_usual = !context.node.names_bucket(name);
    if let Some(redirected) = &mut context.session.redirected {
        redirected.has_chosen = !is_usual;
    }
    context.session.authenticated = true;
    context.session.has_logged_in = true;
    if !context.session.is_own() {
        audit::logged_in(context.node, context.session, &user.name);
        context.session.become_user(user);
        if context.session.is_limited {
            // It may not be told any more what its keys become.
            context.node.track_no_more(context.session);
        }
    }
    Ok(())
}

impl Node {
    /// The user that a name and a password make a connection, and the bucket that the name means: none if there is no bucket of that name. None at all if the
    /// password is wrong.
    pub(crate) fn login(
        &self,
        session: &Session,
        name: &[u8],
        password: &[u8],
    ) -> Option<(Arc<User>, Option<BucketId>)> {
        let (user, bucket) = self.access.meant(name);
        let is_right = self.judge_login(name, password) == Judged::Right;
        is_right.then(|| (Arc::clone(user), self.bucket_of_user(session, bucket.unwrap_or(DEFAULT))))
    }

    /// Whether the password of a login is right.
    pub(crate) fn judge_login(&self, name: &[u8], password: &[u8]) -> Judged {
        let user = self.access.meant(name).0;
        match user.judge(password) {
            Judged::Wrong if self.config.planted == Some(Planted::AnyPasswordOnceShown) && user.has_shown_hash() => {
                Judged::Right
            }
            judged => judged,
        }
    }

    /// True if a name that is said to `AUTH` is that of a bucket, or ends with one.
    fn names_bucket(&self, name: &[u8]) -> bool {
        self.access.get(name).is_none()
    }
}

/// The two parts of `user@bucket`.
pub(crate) fn split_user_name(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = name.iter().rposition(|byte| *byte == b'@')?;
    Some((&name[..at], &name[at + 1..]))
}

fn auth(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    match words {
        [_, password] => {
            if context.node.access.default().rules.no_password {
                return Err(Failure::Text(
                    "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
                ));
            }
            authenticate(context, (DEFAULT, false), password)?;
        }
        [_, user, password] => authenticate(context, (user, true), password)?,
        _ => return Err(Failure::Syntax),
    }
    Ok(Reply::Ok)
}

/// What `HELLO` says.
pub(crate) struct Hello<'a> {
    protocol: Option<Protocol>,
    /// Name and password.
    pub login: Option<(&'a [u8], &'a [u8])>,
    name: Option<&'a [u8]>,
}

impl<'a> Hello<'a> {
    /// Reads it wholly before anything of it is done. Of several logins the last one counts, as in a Redis.
    ///
    /// # Errors
    /// In Redis's words.
    pub(crate) fn parse(words: &[&'a [u8]]) -> Result<Hello<'a>, Failure> {
        let mut rest = words[1..].iter().copied();
        let mut hello = Hello { protocol: None, login: None, name: None };
        if let Some(version) = rest.next() {
            let Some(number) = data::args::parse_integer(version) else {
                return Err(Failure::Text("ERR Protocol version is not an integer or out of range"));
            };
            let protocol = Protocol::from_number(number).ok_or(Failure::Text("NOPROTO unsupported protocol version"));
            hello.protocol = Some(protocol?);
        }
        while let Some(option) = rest.next() {
            let mut value = || rest.next().ok_or_else(|| syntax_error_in_hello(option));
            if option.eq_ignore_ascii_case(b"auth") {
                hello.login = Some((value()?, value()?));
            } else if option.eq_ignore_ascii_case(b"setname") {
                hello.name = Some(value()?);
            } else {
                return Err(syntax_error_in_hello(option));
            }
        }
        Ok(hello)
    }
}

fn hello(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    let Hello { protocol, login, name } = Hello::parse(words)?;
    let protocol = protocol.unwrap_or(context.session.protocol);
    if let Some((user, password)) = login {
        authenticate(context, (user, true), password)?;
    }
    if !context.session.authenticated {
        return Err(Failure::Text(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        set_name(context, name)?;
    }
    context.session.protocol = protocol;
    let pair = |key: &str, value: Reply| (Reply::bulk(key.as_bytes()), value);
    let version = super::server::COMPATIBLE_VERSION;
    Ok(Reply::Map(vec![
        pair("server", Reply::bulk(&b"redis"[..])),
        pair("version", Reply::bulk(version.as_bytes())),
        pair("proto", Reply::Integer(i64::from(protocol.number()))),
        pair("id", Reply::Integer(context.session.id.0 as i64)),
        pair("mode", Reply::bulk(super::cluster::mode(context.session))),
        pair("role", Reply::bulk(super::cluster::role(context))),
        pair("modules", Reply::Array(Vec::new())),
    ]))
}

fn syntax_error_in_hello(option: &[u8]) -> Failure {
    let option = String::from_utf8_lossy(option);
    Failure::Built(format!("ERR Syntax error in HELLO option '{option}'").into())
}

/// Whether a client may call itself so: printable ASCII without blanks, so that `CLIENT LIST` stays readable.
pub(super) fn is_plain(name: &[u8]) -> bool {
    name.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

/// `CLIENT SETNAME` and `HELLO … SETNAME`.
pub(super) fn set_name(context: &mut Context<'_>, name: &[u8]) -> Result<(), Failure> {
    if !is_plain(name) {
        return Err(Failure::Text("ERR Client names cannot contain spaces, newlines or special characters."));
    }
    context.session.name = name.to_vec();
    Ok(())
}

fn reset(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    let authenticated = context.node.access.is_open() || (context.session.is_inside && context.session.authenticated);
    if !context.session.is_inside {
        let default = Arc::clone(context.node.access.default());
        context.session.become_user(default);
    }
    context.node.unsubscribe_all(context.session);
    context.node.subscriptions.reset(context.session.id);
    context.session.subscribed_to_changes = 0;
    context.node.track_no_more(context.session);
    context.node.monitors.remove(&context.session.id);
    let bucket = context.node.usual_bucket(context.session);
    let session = &mut *context.session;
    session.queue = None;
    session.watches.clear();
    session.levels.reset();
    session.begin_in(bucket);
    session.redirected = session.redirected.map(|_| Redirected::default());
    session.name.clear();
    session.protocol = Protocol::Resp2;
    session.reply_mode = ReplyMode::On;
    session.no_evict = false;
    session.no_touch = false;
    session.authenticated = authenticated;
    session.has_logged_in &= session.acts_for_user;
    Ok(Reply::Simple("RESET"))
}
