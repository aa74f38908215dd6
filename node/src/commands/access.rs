//! `ACL …`: users, and what each of them may do ([`crate::access`]).

use std::sync::Arc;

use base::versions::Feature;
use bytes::Bytes;
use data::spec::Group;
use data::{Failure, Reply};

use super::known::{self, CATEGORIES};
use super::{ADMIN, ALWAYS, Context, Entry, Local, answers, container, helps, spec, special};
use crate::access::compiled::check;
use crate::access::roles::expanded;
use crate::access::rules::{Refusal, Rules, Selector, has_spaces, joined};
use crate::access::stored::{NAME_BYTES_MAX, RULES_BYTES_MAX, UserChange};
use crate::access::{self, DEFAULT, User};
use crate::council::{COUNCIL, Order};
use crate::entry::Kind;
use crate::node::Node;
use crate::passwords;
use crate::session::{Block, Session};

const GROUP: Group = Group::Server;

/// The table of this family.
pub(super) static ENTRIES: &[Entry] =
    &[container("acl", GROUP, "6.0.0", "Tells of users and of what they may do.", SUBCOMMANDS)];

static SUBCOMMANDS: &[Entry] = &[
    answers(
        spec(
            "acl|cat",
            -2,
            GROUP,
            "6.0.0",
            "Lists the categories of commands, or the commands of a category.",
            "[category]",
        ),
        &["noscript", "loading", "stale"],
        categories,
    ),
    special(
        spec(
            "acl|deluser",
            -3,
            GROUP,
            "6.0.0",
            "Deletes users, and closes their connections.",
            "username [username ...]",
        ),
        ADMIN,
        Local::User(Wanted::Delete),
    ),
    answers(
        spec(
            "acl|dryrun",
            -4,
            GROUP,
            "7.0.0",
            "Says whether a user may run a command, without running it.",
            "username command [arg [arg ...]]",
        ),
        ADMIN,
        dry_run,
    ),
    answers(
        spec("acl|genpass", -2, GROUP, "6.0.0", "Generates a password that cannot be guessed.", "[bits]"),
        &["noscript", "loading", "stale"],
        generate,
    ),
    answers(spec("acl|getuser", 3, GROUP, "6.0.0", "Lists the rules of a user.", "username"), ADMIN, user),
    answers(spec("acl|load", 2, GROUP, "6.0.0", "Would read users from a file; there is none.", ""), ADMIN, no_file),
    answers(spec("acl|log", -2, GROUP, "6.0.0", "Lists what was refused.", "[count | RESET]"), ADMIN, log),
    answers(spec("acl|save", 2, GROUP, "6.0.0", "Would write users to a file; there is none.", ""), ADMIN, no_file),
    special(
        spec(
            "acl|setuser",
            -3,
            GROUP,
            "6.0.0",
            "Makes a user, or changes what it may do.",
            "username [rule [rule ...]]",
        ),
        ADMIN,
        Local::User(Wanted::Set),
    ),
    answers(spec("acl|list", 2, GROUP, "6.0.0", "Lists the users and their rules.", ""), ADMIN, list),
    answers(spec("acl|users", 2, GROUP, "6.0.0", "Lists the users.", ""), ADMIN, users),
    answers(
        spec("acl|whoami", 2, GROUP, "6.0.0", "Returns the user of the connection.", ""),
        &["noscript", "loading", "stale"],
        who_am_i,
    ),
    helps("acl|help", GROUP, ALWAYS),
];

fn categories(_: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    match words {
        [_, _] => Ok(Reply::Array(CATEGORIES.iter().map(|name| Reply::bulk(*name)).collect())),
        [_, _, wanted] => {
            let Some(wanted) = CATEGORIES.iter().find(|name| name.as_bytes().eq_ignore_ascii_case(wanted)) else {
                return Err(Failure::built(&[b"ERR Unknown category '", *wanted, b"'"].concat()));
            };
            let chosen = known::all_with_subcommands()
                .filter(|command| command.acl_categories().iter().any(|category| category[1..] == **wanted));
            Ok(Reply::Array(chosen.map(|command| Reply::bulk(command.spec().name)).collect()))
        }
        _ => Err(Failure::WrongArity("acl|cat")),
    }
}

fn list(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    let line = |user: &Arc<User>| {
        let rules = shown(context.node, user).line();
        Reply::bulk([b"user ", user.name.as_slice(), b" ", rules.as_slice()].concat())
    };
    Ok(Reply::Array(context.node.access.iter().map(line).collect()))
}

/// The rules of a user without anything that is derived from the password that this node was started with: that does not leave its process.
fn shown(node: &Node, user: &User) -> Rules {
    let mut rules = user.rules.clone();
    if user.name == DEFAULT && !node.access.has_stored_default() {
        rules.passwords.clear();
    }
    rules
}

fn users(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    Ok(Reply::Array(context.node.access.iter().map(|user| Reply::bulk(user.name.as_slice())).collect()))
}

fn who_am_i(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    Ok(Reply::bulk(context.session.user.name.as_slice()))
}

fn user(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    let Some(user) = context.node.access.get(words[2]) else { return Ok(Reply::Nil) };
    let rules = shown(context.node, user);
    let pair = |key: &str, value: Reply| (Reply::bulk(key), value);
    let of_selector = |selector: &Selector| {
        let mut pairs = vec![
            pair("commands", Reply::bulk(selector.commands_text())),
            pair("keys", Reply::bulk(selector.key_rules().join(&b' '))),
            pair("channels", Reply::bulk(selector.channel_rules().join(&b' '))),
        ];
        // Not in Redis, so only where there is something to tell.
        if selector.buckets.is_some() {
            pairs.push(pair("buckets", Reply::bulk(selector.bucket_rules().join(&b' '))));
        }
        pairs
    };
    let mut pairs = vec![
        pair("flags", Reply::Set(rules.flags().into_iter().map(Reply::bulk).collect())),
        pair("passwords", Reply::Array(rules.passwords.iter().map(|digest| Reply::bulk(digest.as_str())).collect())),
    ];
    pairs.extend(of_selector(&rules.root));
    let others = rules.selectors.iter().map(|selector| Reply::Map(of_selector(selector))).collect();
    pairs.push(pair("selectors", Reply::Array(others)));
    Ok(Reply::Map(pairs))
}

fn generate(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    const WRONG: Failure = Failure::Text(
        "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
    );
    let bits = match words.get(2) {
        None => 256,
        Some(_) if words.len() > 3 => return Err(Failure::WrongArity("acl|genpass")),
        Some(bits) => data::args::parse_integer(bits).ok_or(Failure::NotAnInteger)?,
    };
    if !(1..=4096).contains(&bits) {
        return Err(WRONG);
    }
    let digits = (bits as usize).div_ceil(4);
    let mut password = String::new();
    while password.len() < digits {
        password.push_str(&context.node.secret_digits());
    }
    password.truncate(digits);
    Ok(Reply::bulk(password))
}

fn log(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    const USUAL: usize = 10;
    let now = context.node.clock.own();
    let most = match words.get(2) {
        None => USUAL,
        Some(_) if words.len() > 3 => return Err(Failure::WrongArity("acl|log")),
        Some(word) if word.eq_ignore_ascii_case(b"reset") => {
            context.node.access.log.clear();
            return Ok(Reply::Ok);
        }
        Some(count) => {
            let count = data::args::parse_integer(count).ok_or(Failure::NotAnInteger)?;
            usize::try_from(count).map_err(|_| Failure::Text("ERR value is out of range, must be positive"))?
        }
    };
    Ok(context.node.access.log.tell(most, now))
}

fn dry_run(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    let (name, command) = (words[2], &words[3..]);
    let node = &*context.node;
    let Some(user) = node.access.get(name) else {
        return Err(Failure::built(&[b"ERR User '", name, b"' not found"].concat()));
    };
    let found = known::named(command[0]).and_then(|known| match command.get(1) {
        Some(sub) if !known.subcommands().is_empty() => known.subcommand(sub),
        _ => Some(known),
    });
    let Some(known) = found else {
        return Err(Failure::built(&[b"ERR Command '", command[0], b"' not found"].concat()));
    };
    let spec = known.spec();
    if !spec.arity_fits(command.len()) {
        return Err(spec.wrong_arity());
    }
    Ok(match user.rights.check(command, || access::bucket_name(node, context.session)) {
        Ok(()) => Reply::Ok,
        Err(denied) => Reply::bulk(access::text(&denied, name, true)),
    })
}

fn no_file(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    Err(Failure::Text(
        "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command: the council keeps them, and all nodes have them",
    ))
}

/// An order about users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    Set,
    Delete,
}

/// Carries `ACL SETUSER` and `ACL DELUSER` out; the connection is aimed at the council.
pub(crate) fn order(node: &mut Node, session: &mut Session, wanted: Wanted, words: &[&[u8]]) {
    if !node.has(Feature::Users) {
        let text = "ERR users cannot be changed yet: not all nodes are known to be of this version, which takes a new cluster some seconds, and one that is upgraded until its last node";
        return node.refuse(session, &Failure::Text(text));
    }
    let order = match wanted {
        Wanted::Set => set_order(node, session, words),
        Wanted::Delete => delete_order(words),
    };
    let order = match order {
        Ok(order) => order,
        Err(failure) => return node.refuse(session, &failure),
    };
    let slot = node.submit_write(session, COUNCIL, (Kind::Council, false), Bytes::from(order.encode()));
    session.block = slot.map(Block::Slot).or(session.block);
}

fn set_order(node: &Node, session: &Session, words: &[&[u8]]) -> Result<Order, Failure> {
    let name = words[2];
    if has_spaces(name) {
        return Err(Failure::Text("ERR Usernames can't contain spaces or null characters"));
    }
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Failure::Text("ERR Usernames have 1 to 256 bytes"));
    }
    let rules = joined(&words[3..]).map_err(|begin| {
        Failure::built(&[b"ERR Unmatched parenthesis in acl selector starting at '", begin, b"'."].concat())
    })?;
    if rules.iter().map(Vec::len).sum::<usize>() > RULES_BYTES_MAX {
        return Err(Failure::Text("ERR the rules of one ACL SETUSER have 65536 bytes at the most"));
    }
    let mut plain: Vec<Vec<u8>> = Vec::new();
    for rule in rules {
        // A word that is no rule for any user is refused here: it may have a password in it, and must not come into the log.
        let of_any = |rule: &[u8]| match Rules::default().change(rule) {
            Err(Refusal::NoSuchPassword) | Ok(()) => Ok(()),
            Err(refusal) => Err(refusal),
        };
        let judged = expanded(rule.clone())
            .and_then(|rules| rules.iter().try_for_each(|rule| check(rule).and(of_any(rule))).map(|()| rules));
        plain.extend(judged.map_err(|refusal| {
            let is_secret = rule.contains(&b'>') || rule.contains(&b'<');
            let shown = if is_secret { b"(redacted)" } else { rule.as_slice() };
            let text = [b"ERR Error in ACL SETUSER modifier '", shown, b"': ", refusal.text().as_bytes()].concat();
            Failure::built(&text)
        })?);
    }
    let mut rules = Vec::new();
    for rule in plain {
        rules.extend(passwords::rules_of(node, session, name, &rule)?);
    }
    if rules.iter().any(|rule| rule.starts_with(b"$")) && !node.has(Feature::HashedPasswords) {
        return Err(Failure::Text(
            "ERR passwords under argon2id have to wait until all nodes are of a version that knows them",
        ));
    }
    // The council does not know the rules of `default` until somebody has changed them. It knows all others.
    let first = if name == DEFAULT { node.access.default().rules.write_one() } else { Vec::new() };
    Ok(Order::Users(UserChange::Set { name: name.to_vec(), first, rules }))
}

fn delete_order(words: &[&[u8]]) -> Result<Order, Failure> {
    if words[2..].contains(&DEFAULT) {
        return Err(Failure::Text("ERR The 'default' user cannot be removed"));
    }
    Ok(Order::Users(UserChange::Drop(words[2..].iter().map(|name| name.to_vec()).collect())))
}
