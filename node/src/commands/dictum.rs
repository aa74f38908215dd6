//! Dictum's own commands about the server and about outcomes.

use data::spec::Group;
use data::{Failure, Reply};

use super::{ALWAYS, Context, Entry, Local, answers, spec, special};
use crate::status;

const GROUP: Group = Group::Dictum;
/// The command that contains another.
pub(super) const ONCE: &str = "dictum.once";

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
];

fn status(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    Ok(Reply::bulk(status::json(context.node).as_bytes()))
}
