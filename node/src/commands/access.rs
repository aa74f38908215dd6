//! `ACL …`: there is one user, `default`, who may do everything.

use data::spec::Group;
use data::{Failure, Reply};

use super::known;
use super::{ADMIN, ALWAYS, Context, Entry, answers, container, helps, spec};

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
    answers(spec("acl|list", 2, GROUP, "6.0.0", "Lists the users and their rules.", ""), ADMIN, list),
    answers(spec("acl|users", 2, GROUP, "6.0.0", "Lists the users.", ""), ADMIN, users),
    answers(
        spec("acl|whoami", 2, GROUP, "6.0.0", "Returns the user of the connection.", ""),
        &["noscript", "loading", "stale"],
        who_am_i,
    ),
    helps("acl|help", GROUP, ALWAYS),
];

/// The categories of Redis.
const CATEGORIES: &[&str] = &[
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

fn categories(_: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    match words {
        [_, _] => Ok(Reply::Array(CATEGORIES.iter().map(|name| Reply::bulk(*name)).collect())),
        [_, _, wanted] => {
            let Some(wanted) = CATEGORIES.iter().find(|name| name.as_bytes().eq_ignore_ascii_case(wanted)) else {
                return Err(Failure::built(&[b"ERR Unknown category '", *wanted, b"'"].concat()));
            };
            let chosen = known::all_with_subcommands()
                .filter(|command| command.categories().iter().any(|category| category[1..] == **wanted));
            Ok(Reply::Array(chosen.map(|command| Reply::bulk(command.spec().name)).collect()))
        }
        _ => Err(Failure::WrongArity("acl|cat")),
    }
}

fn list(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    // Redis shows a digest of each password here; nothing derived from the password leaves this process.
    let secret = if context.node.config.password.is_some() { "" } else { " nopass" };
    Ok(Reply::Array(vec![Reply::bulk(format!("user default on{secret} sanitize-payload ~* &* +@all"))]))
}

fn users(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    Ok(Reply::Array(vec![Reply::bulk("default")]))
}

fn who_am_i(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    Ok(Reply::bulk("default"))
}
