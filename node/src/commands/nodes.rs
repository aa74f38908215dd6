//! `DICTUM.NODE …`: what each node is for. Orders go through the council's log; what is listed is read there as linearizably as any key,
//! beside what the node that answers knows of the others.

use base::{NodeId, Time};
use bytes::Bytes;
use data::spec::Group;
use data::{Failure, Reply};

use super::{ADMIN, Entry, Local, container, helps, spec, special};
use crate::council::{COUNCIL, Order};
use crate::detector::Detector;
use crate::door::Config;
use crate::entry::Kind;
use crate::groups::Groups;
use crate::node::Node;
use crate::registry::{Change, Registry};
use crate::router::ReadKind;
use crate::session::Session;

const GROUP: Group = Group::Dictum;

/// The table of this family.
pub(super) static ENTRIES: &[Entry] =
    &[container("dictum.node", GROUP, "0.1.0", "Lists nodes, and says what they are for.", SUBCOMMANDS)];

static SUBCOMMANDS: &[Entry] = &[
    special(
        spec("dictum.node|list", 2, GROUP, "0.1.0", "Lists all nodes, with what they lead and where they vote.", ""),
        ADMIN,
        Local::Node(Wanted::List),
    ),
    special(
        spec(
            "dictum.node|drain",
            3,
            GROUP,
            "0.1.0",
            "Takes leaderships from a node, and votes as far as other nodes can have them.",
            "name",
        ),
        ADMIN,
        Local::Node(Wanted::Drain),
    ),
    special(
        spec("dictum.node|promote", 3, GROUP, "0.1.0", "Lets a drained node lead and vote again.", "name"),
        ADMIN,
        Local::Node(Wanted::Promote),
    ),
    special(
        spec(
            "dictum.node|voters",
            3,
            GROUP,
            "0.1.0",
            "Sets how many nodes vote in each partition; the others learn. 0: all vote.",
            "number",
        ),
        ADMIN,
        Local::Node(Wanted::Voters),
    ),
    helps("dictum.node|help", GROUP, super::ALWAYS),
];

/// Which of the subcommands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    List,
    Drain,
    Promote,
    Voters,
}

/// Carries `DICTUM.NODE` out; the connection is aimed at the council.
pub(crate) fn run(node: &mut Node, session: &mut Session, wanted: Wanted, words: &[&[u8]]) {
    let change = match wanted {
        Wanted::List => {
            node.submit_read(session, COUNCIL, ReadKind::Nodes, |_| {});
            return;
        }
        Wanted::Drain | Wanted::Promote => drain(node, words[2], wanted == Wanted::Drain),
        Wanted::Voters => voters(node, words[2]),
    };
    match change {
        Ok(change) => {
            node.submit_write(session, COUNCIL, Kind::Council, Bytes::from(Order::Nodes(change).encode()));
        }
        Err(failure) => node.refuse(session, &failure),
    }
}

fn drain(node: &Node, name: &[u8], drained: bool) -> Result<Change, Failure> {
    let members = &node.config.members;
    let place = members.iter().position(|member| member.name.as_bytes() == name).ok_or_else(|| {
        let names: Vec<&str> = members.iter().map(|member| &member.name[..]).collect();
        let text = format!("ERR there is no node '{}'; there are {}", String::from_utf8_lossy(name), names.join(", "));
        Failure::built(text.as_bytes())
    })?;
    Ok(Change::Drain { node: NodeId(place as u16), drained, nodes: members.len() as u16 })
}

fn voters(node: &Node, count: &[u8]) -> Result<Change, Failure> {
    let nodes = node.config.members.len();
    let count = data::args::parse_integer(count).and_then(|count| u8::try_from(count).ok());
    let count = count.filter(|count| usize::from(*count) <= nodes).ok_or_else(|| {
        Failure::built(
            format!("ERR the number of voters is from 1 to {nodes}, the number of nodes; or 0 for all").as_bytes(),
        )
    })?;
    Ok(Change::Voters { count })
}

/// What the council's registry says of all nodes, with what this node knows of them besides.
pub(crate) fn answer(
    registry: &Registry,
    (config, detectors): (&Config, &[Detector]),
    groups: &Groups,
    now: Time,
) -> Reply {
    let text = |name: &str, value: &str| (Reply::bulk(name.as_bytes()), Reply::bulk(value.as_bytes()));
    let number = |name: &str, value: usize| (Reply::bulk(name.as_bytes()), Reply::Integer(value as i64));
    let one = |(place, member): (usize, &crate::Member)| {
        let id = NodeId(place as u16);
        let up = id == config.me || detectors.iter().any(|it| it.peer == id && it.is_up(now));
        let replicas = || groups.iter().map(|group| &group.partition.replica);
        let leads = replicas().filter(|replica| replica.leader().is_some_and(|(leader, _)| leader == id)).count();
        let votes = replicas().filter(|replica| replica.members().names(id)).count();
        Reply::Map(vec![
            text("name", &member.name),
            number("id", place),
            text("peer-address", &member.peer_address),
            text("state", if registry.serves(id) { "serves" } else { "drained" }),
            text("seen", if up { "up" } else { "down" }),
            number("leads", leads),
            number("votes", votes),
            number("replicas", groups.len()),
        ])
    };
    Reply::Array(config.members.iter().enumerate().map(one).collect())
}
