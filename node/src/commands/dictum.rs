//! Dictum's own commands about the server and about outcomes.

use data::spec::Group;
use data::{Failure, Reply};

use super::{ADMIN, ALWAYS, Context, Entry, Local, answers, container, helps, spec, special};
use crate::backup::Wanted;
use crate::status;

const GROUP: Group = Group::Dictum;
/// The command that contains another.
pub(crate) const ONCE: &str = "dictum.once";

/// The table of this family.
pub(super) static ENTRIES: &[Entry] = &[
    special(
        spec(ONCE, -3, GROUP, "0.1.0", "Applies a command once, however often it is sent.", "id command [arg ...]"),
        &["write", "denyoom", "no_multi", "movablekeys"],
        Local::Once,
    ),
    special(
        spec("dictum.outcome", 2, GROUP, "0.1.0", "Says what became of a DICTUM.ONCE.", "id"),
        &["readonly", "no_multi", "fast"],
        Local::Outcome,
    ),
    answers(
        spec("dictum.status", 1, GROUP, "0.1.0", "Describes the cluster as this node sees it, in JSON.", ""),
        ALWAYS,
        status,
    ),
    answers(
        spec("dictum.settime", 1, GROUP, "0.1.0", "Sets the cluster's time to what the clocks of a majority show.", ""),
        ADMIN,
        set_time,
    ),
    container("dictum.backup", GROUP, "0.1.0", "Reads the state of a partition, as of one moment.", BACKUP),
];

const fn of_backup(
    name: &'static str,
    arity: i32,
    summary: &'static str,
    syntax: &'static str,
    wanted: Wanted,
) -> Entry {
    special(spec(name, arity, GROUP, "0.1.0", summary, syntax), ADMIN, Local::Backup(wanted))
}

static BACKUP: &[Entry] = &[
    of_backup(
        "dictum.backup|open",
        -3,
        "Freezes the state of a partition of the selected bucket: its position, revision, keys, and time. With a revision, what has changed since is given out.",
        "partition [SINCE revision]",
        Wanted::Open,
    ),
    of_backup("dictum.backup|next", 2, "The next block of the frozen state, and 1 if others follow.", "", Wanted::Next),
    of_backup("dictum.backup|close", 2, "Lets the frozen state go.", "", Wanted::Close),
    helps("dictum.backup|help", GROUP, super::ALWAYS),
];

/// The time that the cluster has since then, in milliseconds since 1970, as this node's clock shows it.
fn set_time(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    if !context.node.clock.set() {
        return Err(Failure::Text("ERR no majority of the nodes' clocks agrees: set them right, or start the others"));
    }
    context.node.look_at_clocks();
    Ok(Reply::Integer(i64::try_from(context.node.now.wall.0).unwrap_or(i64::MAX)))
}

fn status(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    Ok(Reply::bulk(status::json(context.node).as_bytes()))
}
