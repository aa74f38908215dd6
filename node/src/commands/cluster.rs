//! `CLUSTER …`, `READONLY`, `READWRITE`, `ASKING`: for clients that route by themselves, as a Redis Cluster answers them. What they are told of is the
//! bucket of their connection, as [`crate::topology`] shows it.
//!
//! On other connections everything here is refused as by a Redis that is not in cluster mode. What would change a cluster is refused on these as well:
//! Dictum places its partitions and elects their leaders by itself.

use std::fmt::Write;
use std::ops::Bound;

use base::NodeId;
use base::limits::{HASH_SLOTS, SLOT_KEYS_MAX, TURN_READ_BYTES_MAX};
use base::slots::hash_slot;
use data::args::parse_integer;
use data::spec::Group;
use data::store::{KeyRef, first_order};
use data::{Failure, Reply, View};

use super::info::identifier;
use super::{Context, Entry, Function, Marks, answers, container, spec};
use crate::bucket::Bucket;
use crate::door::Planted;
use crate::node::{Node, place_of};
use crate::session::Session;
use crate::topology::{Shown, Topology, parts};

const GROUP: Group = Group::Server;
const TELLS: Marks = &["stale"];
const TELLS_ADMIN: Marks = &["admin", "stale"];
const CHANGES: Marks = &["admin", "stale", "no_async_loading"];

// Redis's texts, which clients know.
const NO_CLUSTER: Failure = Failure::Text("ERR This instance has cluster support disabled");
const NO_SELECT: Failure = Failure::Text("ERR SELECT is not allowed in cluster mode");
const NO_SLOT: Failure = Failure::Text("ERR Invalid slot");
const NO_SLOT_OR_COUNT: Failure = Failure::Text("ERR Invalid slot or number of keys");
const TOO_MANY: Failure =
    Failure::Text("ERR the hash slot has more keys than are counted at once (100000): count them with SCAN");
const NO_MASTER: Failure = Failure::Text("ERR The specified node is not a master");

const BY_ITSELF: Failure = Failure::Text(
    "ERR this is not for clients to say: Dictum places its partitions, elects their leaders and replaces them by itself",
);

/// The table of this family.
pub(super) static ENTRIES: &[Entry] = &[
    container("cluster", GROUP, "3.0.0", "Tells clients that route by themselves where keys are.", SUBCOMMANDS),
    answers(
        spec("readonly", 1, Group::Connection, "3.0.0", "Lets replicas answer what the connection reads.", ""),
        &["loading", "stale", "fast"],
        |context, _| read_only(context, true),
    ),
    answers(
        spec("readwrite", 1, Group::Connection, "3.0.0", "Has only leaders answer what the connection reads.", ""),
        &["loading", "stale", "fast"],
        |context, _| read_only(context, false),
    ),
    answers(
        spec("asking", 1, Group::Connection, "3.0.0", "Would follow an ASK, which is never said here.", ""),
        &["fast"],
        |context, _| mode_only(context).map(|()| Reply::Ok),
    ),
];

/// A subcommand that tells something.
const fn tells(
    name: &'static str,
    arity: i32,
    since: &'static str,
    summary: &'static str,
    arguments: &'static str,
    function: Function,
) -> Entry {
    answers(spec(name, arity, GROUP, since, summary, arguments), TELLS, function)
}

/// A subcommand by which a Redis Cluster is changed.
const fn changes(name: &'static str, arity: i32, since: &'static str, arguments: &'static str) -> Entry {
    answers(spec(name, arity, GROUP, since, "Is refused: this happens by itself.", arguments), CHANGES, |context, _| {
        mode_only(context).and(Err(BY_ITSELF))
    })
}

static SUBCOMMANDS: &[Entry] = &[
    changes("cluster|addslots", -3, "3.0.0", "slot [slot ...]"),
    changes("cluster|addslotsrange", -4, "7.0.0", "start-slot end-slot [start-slot end-slot ...]"),
    changes("cluster|bumpepoch", 2, "3.0.0", ""),
    answers(
        spec(
            "cluster|count-failure-reports",
            3,
            GROUP,
            "3.0.0",
            "Returns how many of the nodes that are heard do not hear a node.",
            "node-id",
        ),
        TELLS_ADMIN,
        count_failure_reports,
    ),
    tells("cluster|countkeysinslot", 3, "3.0.0", "Returns how many keys a hash slot has here.", "slot", count_keys),
    changes("cluster|delslots", -3, "3.0.0", "slot [slot ...]"),
    changes("cluster|delslotsrange", -4, "7.0.0", "start-slot end-slot [start-slot end-slot ...]"),
    changes("cluster|failover", -2, "3.0.0", "[FORCE | TAKEOVER]"),
    changes("cluster|flushslots", 2, "3.0.0", ""),
    changes("cluster|forget", 3, "3.0.0", "node-id"),
    tells("cluster|getkeysinslot", 4, "3.0.0", "Returns keys that a hash slot has here.", "slot count", get_keys),
    answers(spec("cluster|help", 2, GROUP, "5.0.0", "Lists the subcommands.", ""), super::ALWAYS, |context, words| {
        mode_only(context)?;
        super::help(context, words)
    }),
    tells("cluster|info", 2, "3.0.0", "Tells how the cluster is.", "", info),
    tells("cluster|keyslot", 3, "3.0.0", "Returns the hash slot of a key.", "key", |context, words| {
        mode_only(context)?;
        Ok(Reply::Integer(i64::from(hash_slot(words[2]))))
    }),
    tells("cluster|links", 2, "7.0.0", "Lists the links to other nodes.", "", links),
    changes("cluster|meet", -4, "3.0.0", "ip port [cluster-bus-port]"),
    tells("cluster|myid", 2, "3.0.0", "Returns the identifier of this node.", "", |context, _| {
        mode_only(context)?;
        Ok(Reply::bulk(id_of(context.node, context.node.config.me)))
    }),
    tells("cluster|myshardid", 2, "7.2.0", "Returns the identifier of this node's shard.", "", |context, _| {
        let topology = shown(context)?.1;
        Ok(Reply::bulk(shard_id(context.node, topology.master_of(context.node.config.me))))
    }),
    tells("cluster|nodes", 2, "3.0.0", "Describes the nodes and who has which hash slots.", "", |context, _| {
        let topology = shown(context)?.1;
        let lines = topology.nodes.iter().map(|node| line_of(context.node, &topology, node) + "\n");
        Ok(Reply::bulk(lines.collect::<String>()))
    }),
    answers(
        spec("cluster|replicas", 3, GROUP, "5.0.0", "Describes the replicas of a master.", "node-id"),
        TELLS_ADMIN,
        replicas,
    ),
    changes("cluster|replicate", 3, "3.0.0", "node-id"),
    changes("cluster|reset", -2, "3.0.0", "[HARD | SOFT]"),
    changes("cluster|saveconfig", 2, "3.0.0", ""),
    changes("cluster|set-config-epoch", 3, "3.0.0", "config-epoch"),
    changes("cluster|setslot", -4, "3.0.0", "slot <IMPORTING node-id | MIGRATING node-id | NODE node-id | STABLE>"),
    tells("cluster|shards", 2, "7.0.0", "Tells which nodes have which hash slots, by shard.", "", shards),
    answers(
        spec("cluster|slaves", 3, GROUP, "3.0.0", "Describes the replicas of a master.", "node-id"),
        TELLS_ADMIN,
        replicas,
    ),
    tells("cluster|slots", 2, "3.0.0", "Tells which nodes have which hash slots, by range.", "", slots),
];

/// Refuses what is for clients that route by themselves on any other connection.
fn mode_only(context: &Context<'_>) -> Result<(), Failure> {
    context.session.redirected.map(|_| ()).ok_or(NO_CLUSTER)
}

/// The bucket that the connection sees, and how.
fn shown<'a>(context: &'a Context<'_>) -> Result<(&'a Bucket, Topology), Failure> {
    mode_only(context)?;
    let bucket = context.node.bucket_shown(context.session)?;
    Ok((bucket, context.node.topology(bucket)))
}

/// What `HELLO` and `INFO` call the mode.
pub(super) fn mode(session: &Session) -> &'static str {
    if session.redirected.is_some() { "cluster" } else { "standalone" }
}

/// What `HELLO` calls this node's role: where commands are forwarded, any node is a master to its clients.
pub(super) fn role(context: &Context<'_>) -> &'static str {
    let is_replica = shown(context).is_ok_and(|(_, topology)| topology.is_replica(context.node.config.me));
    if is_replica { "replica" } else { "master" }
}

/// `SELECT` where buckets are not selected.
pub(crate) fn select(word: &[u8]) -> Result<Reply, Failure> {
    match parse_integer(word) {
        Some(0) => Ok(Reply::Ok),
        _ => Err(NO_SELECT),
    }
}

fn read_only(context: &mut Context<'_>, wanted: bool) -> Result<Reply, Failure> {
    let stays = context.node.config.planted == Some(Planted::ReadwriteForgotten);
    let redirected = context.session.redirected.as_mut().ok_or(NO_CLUSTER)?;
    redirected.read_only = wanted || redirected.read_only && stays;
    Ok(Reply::Ok)
}

/// Forty hexadecimal digits that follow from the cluster's members and these names.
fn id(node: &Node, kind: &[u8], name: &str) -> String {
    let members = node.config.members.iter().map(|member| member.name.as_bytes());
    let parts: Vec<&[u8]> = [kind, name.as_bytes()].into_iter().chain(members).collect();
    identifier(&parts)
}

fn id_of(node: &Node, of: NodeId) -> String {
    id(node, b"node", &node.name_of(of))
}

fn shard_id(node: &Node, master: NodeId) -> String {
    id(node, b"shard", &node.name_of(master))
}

/// The member that an identifier names.
fn member_of(node: &Node, wanted: &[u8]) -> Result<NodeId, Failure> {
    let found = node.roll.ids().find(|it| id_of(node, *it).as_bytes().eq_ignore_ascii_case(wanted));
    found.ok_or_else(|| Failure::built(&[b"ERR Unknown node ", wanted].concat()))
}

/// A line of `CLUSTER NODES`, without its end.
fn line_of(node: &Node, topology: &Topology, of: &Shown) -> String {
    let mut flags = if of.node == node.config.me { "myself," } else { "" }.to_owned();
    flags += if of.master.is_some() { "slave" } else { "master" };
    flags += if of.up { "" } else { ",fail" };
    let master = of.master.map_or("-".to_owned(), |master| id_of(node, master));
    let silence = node.detectors.iter().find(|it| it.peer == of.node).and_then(|it| it.silence(node.now.time));
    // Redis: 0 for the node itself.
    let heard = silence.map_or(0, |silence| node.now.wall.0.saturating_sub(silence.as_millis() as u64));
    let link = if of.up { "connected" } else { "disconnected" };
    let bus = node.roll.get(of.node).map_or(0, |member| parts(&member.peer_address).1);
    let (host, port, epoch) = (&of.host, of.port, of.epoch);
    let mut line = format!("{} {host}:{port}@{bus} {flags} {master} 0 {heard} {epoch} {link}", id_of(node, of.node));
    for (first, last) in topology.ranges_of(of.node) {
        // Writing to a string cannot fail.
        let _ = if first == last { write!(line, " {first}") } else { write!(line, " {first}-{last}") };
    }
    line
}

fn replicas(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    let (node, topology) = (&*context.node, shown(context)?.1);
    let master = member_of(node, words[2])?;
    if topology.is_replica(master) {
        return Err(NO_MASTER);
    }
    Ok(Reply::Array(topology.replicas_of(master).map(|it| Reply::bulk(line_of(node, &topology, it))).collect()))
}

fn count_failure_reports(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    mode_only(context)?;
    let node = &*context.node;
    let of = member_of(node, words[2])?;
    let reports = node.news.iter().filter(|(reporter, ping)| {
        let hears = ping.hears.contains(&of);
        **reporter != of && !hears && node.is_up(**reporter)
    });
    Ok(Reply::count(reports.count()))
}

fn slots(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    let (node, topology) = (&*context.node, shown(context)?.1);
    let one = |it: &Shown| {
        let id = Reply::bulk(id_of(node, it.node));
        Reply::Array(vec![
            Reply::bulk(it.host.as_str()),
            Reply::Integer(i64::from(it.port)),
            id,
            Reply::Array(Vec::new()),
        ])
    };
    let range = |(first, last, owner): &(u16, u16, NodeId)| {
        let master = topology.get(*owner)?;
        // As Redis: replicas that are away are not named.
        let replicas = topology.replicas_of(*owner).filter(|replica| replica.up && !replica.recovering);
        let bounds = [*first, *last].map(|slot| Reply::Integer(i64::from(slot)));
        Some(Reply::Array(bounds.into_iter().chain(std::iter::once(master).chain(replicas).map(one)).collect()))
    };
    Ok(Reply::Array(topology.ranges.iter().filter_map(range).collect()))
}

fn shards(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    let (node, topology) = (&*context.node, shown(context)?.1);
    let field = |name: &str, value: Reply| (Reply::bulk(name), value);
    let one = |it: &Shown| {
        let health = match (it.up, it.recovering) {
            (false, _) => "fail",
            (true, true) => "loading",
            (true, false) => "online",
        };
        Reply::Map(vec![
            field("id", Reply::bulk(id_of(node, it.node))),
            field("port", Reply::Integer(i64::from(it.port))),
            field("ip", Reply::bulk(it.host.as_str())),
            field("endpoint", Reply::bulk(it.host.as_str())),
            field("role", Reply::bulk(if it.master.is_some() { "replica" } else { "master" })),
            field("replication-offset", Reply::Integer(i64::try_from(it.offset).unwrap_or(i64::MAX))),
            field("health", Reply::bulk(health)),
        ])
    };
    let shard = |master: &Shown| {
        let ranges = topology.ranges_of(master.node).flat_map(|(first, last)| [first, last]);
        let nodes = std::iter::once(master).chain(topology.replicas_of(master.node)).map(one);
        Reply::Map(vec![
            field("slots", Reply::Array(ranges.map(|slot| Reply::Integer(i64::from(slot))).collect())),
            field("nodes", Reply::Array(nodes.collect())),
        ])
    };
    Ok(Reply::Array(topology.masters().map(shard).collect()))
}

fn info(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    let (bucket, topology) = shown(context)?;
    let node = &*context.node;
    let count = |wanted: &dyn Fn(base::PartitionId) -> bool| -> u64 {
        let slots = bucket.partitions().filter(|it| wanted(*it)).map(|it| bucket.slots_of(it));
        slots.map(|slots| u64::from(slots.end - slots.first)).sum()
    };
    let assigned = topology.ranges.iter().map(|(first, last, _)| u64::from(last - first) + 1).sum::<u64>();
    let served = count(&|partition| node.leader(partition).is_some());
    let epoch = topology.nodes.iter().map(|it| it.epoch).max().unwrap_or_default();
    let own_epoch = topology.get(node.config.me).map_or(0, |it| it.epoch);
    let state = if served == u64::from(HASH_SLOTS) { "ok" } else { "fail" };
    let received = node.stats.peer_messages_in;
    let fields: [(&str, &dyn std::fmt::Display); 11] = [
        ("cluster_state", &state),
        ("cluster_slots_assigned", &assigned),
        ("cluster_slots_ok", &served),
        ("cluster_slots_pfail", &0),
        ("cluster_slots_fail", &assigned.saturating_sub(served)),
        ("cluster_known_nodes", &topology.nodes.len()),
        ("cluster_size", &topology.masters().count()),
        ("cluster_current_epoch", &epoch),
        ("cluster_my_epoch", &own_epoch),
        ("cluster_stats_messages_received", &received),
        ("total_cluster_links_buffer_limit_exceeded", &0),
    ];
    Ok(Reply::bulk(fields.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect::<String>()))
}

/// One link to each node that is heard: what is told of a Redis's socket has no meaning here but for whom it joins.
fn links(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    mode_only(context)?;
    let node = &*context.node;
    let heard = node.detectors.iter().filter(|detector| detector.is_up(node.now.time));
    let link = |peer: NodeId, direction: &str| {
        let waiting = node.peers_out.get(usize::from(peer.0)).filter(|_| direction == "to");
        let field = |name: &str, value: Reply| (Reply::bulk(name), value);
        Reply::Map(vec![
            field("direction", Reply::bulk(direction)),
            field("node", Reply::bulk(id_of(node, peer))),
            field("create-time", Reply::Integer(node.started.wall.0 as i64)),
            field("events", Reply::bulk(if direction == "to" { "rw" } else { "r" })),
            field("send-buffer-allocated", Reply::count(waiting.map_or(0, Vec::capacity))),
            field("send-buffer-used", Reply::count(waiting.map_or(0, Vec::len))),
        ])
    };
    Ok(Reply::Array(heard.flat_map(|it| ["to", "from"].map(|direction| link(it.peer, direction))).collect()))
}

fn slot_of(word: &[u8]) -> Result<Option<u16>, Failure> {
    let number = parse_integer(word).ok_or(Failure::NotAnInteger)?;
    Ok(u16::try_from(number).ok().filter(|slot| *slot < HASH_SLOTS))
}

/// The keys of a slot as this node's replica has them now.
fn keys_of<T>(
    context: &Context<'_>,
    slot: u16,
    take: impl FnOnce(&mut dyn Iterator<Item = data::Blob>) -> T,
) -> Result<T, Failure> {
    let node = &*context.node;
    let partition = node.bucket_shown(context.session)?.partition_of(slot);
    let Some(g) = place_of(&node.groups, partition) else { return Ok(take(&mut std::iter::empty())) };
    let view = View::new(&node.groups[g].partition.tree, node.now.wall, 0);
    let records = view.records(Bound::Included(KeyRef { order: first_order(slot), key: b"" }));
    let mut keys = records.take_while(|(key, _)| key.as_ref().hash_slot() == slot).map(|(key, _)| key.key);
    Ok(take(&mut keys))
}

fn count_keys(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    mode_only(context)?;
    let slot = slot_of(words[2])?.ok_or(NO_SLOT)?;
    // Nobody counts them as they come and go, and a leader that is silent for long is deposed.
    match keys_of(context, slot, |keys| keys.take(SLOT_KEYS_MAX + 1).count())? {
        counted if counted > SLOT_KEYS_MAX => Err(TOO_MANY),
        counted => Ok(Reply::count(counted)),
    }
}

fn get_keys(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    mode_only(context)?;
    let slot = slot_of(words[2])?;
    let count = usize::try_from(parse_integer(words[3]).ok_or(Failure::NotAnInteger)?).ok();
    let (slot, count) = slot.zip(count).ok_or(NO_SLOT_OR_COUNT)?;
    let keys = keys_of(context, slot, |keys| {
        let mut bytes = 0;
        // No more than a turn may answer.
        let fits = |key: &data::Blob| {
            bytes += key.len();
            bytes <= TURN_READ_BYTES_MAX
        };
        keys.take(count.min(SLOT_KEYS_MAX)).take_while(fits).map(Reply::Bulk).collect()
    });
    keys.map(Reply::Array)
}
