//! Dictum's own commands about the server and about outcomes.

use data::spec::Group;
use data::{Failure, Reply};

use super::{Context, Entry, Local, Run, spec};
use crate::status;

const GROUP: Group = Group::Dictum;

/// The table of this family.
pub(super) static ENTRIES: &[Entry] = &[
    Entry {
        spec: spec(
            "dictum.once",
            -3,
            GROUP,
            "0.1.0",
            "Applies a command once, however often it is sent.",
            "id command [arg ...]",
        ),
        run: Run::Special(Local::Once),
    },
    Entry {
        spec: spec("dictum.outcome", 2, GROUP, "0.1.0", "Says what became of a DICTUM.ONCE.", "id"),
        run: Run::Special(Local::Outcome),
    },
    Entry {
        spec: spec("dictum.status", 1, GROUP, "0.1.0", "Describes the cluster as this node sees it, in JSON.", ""),
        run: Run::Reply(status),
    },
];

fn status(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    Ok(Reply::bulk(status::json(context.node).as_bytes()))
}
