//! Commands that concern the server.

use data::spec::Group;
use data::{Failure, Reply};

use super::{Context, Entry, Local, Run, spec};

/// The version of Redis whose behaviour clients may expect.
pub(super) const COMPATIBLE_VERSION: &str = "7.4.0";

const GROUP: Group = Group::Server;

/// The table of this family.
pub(super) static ENTRIES: &[Entry] = &[
    Entry { spec: spec("time", 1, GROUP, "2.6.0", "Returns the server time.", ""), run: Run::Reply(time) },
    Entry {
        spec: spec(
            "wait",
            3,
            GROUP,
            "3.0.0",
            "Blocks until the writes of the connection are on the disks of so many replicas.",
            "numreplicas timeout",
        ),
        run: Run::Special(Local::Wait),
    },
    Entry {
        spec: spec(
            "shutdown",
            -1,
            GROUP,
            "1.0.0",
            "Hands over leadership and stops the node.",
            "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
        ),
        run: Run::Special(Local::Shutdown),
    },
];

fn time(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    let wall = context.node.now.wall.0;
    let (seconds, microseconds) = (wall / 1000, wall % 1000 * 1000);
    let text = |number: u64| Reply::bulk(number.to_string().as_bytes());
    Ok(Reply::Array(vec![text(seconds), text(microseconds)]))
}
