//! The council: the replicated group that holds what all nodes must agree on: the list of buckets, and the node registry ([`crate::registry`]).
//!
//! It is a partition like any other, with a log and a state of its own; only what its entries mean is told here. Each list is the
//! value of one key, so snapshots, transfers, digests and the store need not know that it is special. A node copies the list whenever
//! it has applied an entry, and makes and removes its replicas accordingly (`node/buckets.rs`).

use base::limits::{BUCKETS_MAX, DATABASES_MAX, PARTITIONS_ALL_MAX, PARTITIONS_MAX};
use base::versions::{Feature, NEWEST, OLDEST};
use base::{BucketId, NodeId, PartitionId, Position};
use data::{EntryContext, Failure, KeyRef, Reply, Tree, Value};
use wire::{Malformed, Reader, Writer};

use crate::access::stored::{UserChange, Users};
use crate::bucket::{Bucket, BucketKind, DEFAULT_NAME, Settings, check_name, database_number};
use crate::door::Planted;
use crate::memories::{NO_SUCH_REPLICA, Voting};
use crate::registry::change::Surroundings;
use crate::registry::{Alone, Change, Map, Registry, SteppedOver, read_nodes, write_nodes};
use crate::settings::{ClusterSettings, Pairs, read_pairs, write_pairs};

/// The council's own partition. No bucket ever has this number.
pub(crate) const COUNCIL: PartitionId = PartitionId { bucket: BucketId(u32::MAX), index: 0 };

/// Who was removed remembers nothing.
const FOUNDER_GONE: Failure = Failure::Text(
    "CLUSTERDOWN a node was removed that was to have a part of the bucket; the command was not done, try again",
);

/// The key that the list stands under.
const LIST: &[u8] = b"buckets";
/// What is written while every bucket has one partition, as before there were more: nodes of then can go on.
const VERSION: u8 = 1;
/// With the buckets' numbers of partitions at the end.
const VERSION_PARTITIONS: u8 = 2;
/// With the buckets' founders behind these, where some were not founded by those who have founded the cluster.
const VERSION_FOUNDERS: u8 = 3;
/// With the voters of buckets in memory behind these, where some have moved.
const VERSION_VOTING: u8 = 4;
/// With the buckets' budgets of work behind these, where some have one of their own.
const VERSION_WORK: u8 = 5;

const CREATE: u8 = 1;
const SET: u8 = 2;
const DROP: u8 = 3;
const JOIN: u8 = 4;
const RECOVERED: u8 = 5;
/// As [`CREATE`], behind the number of partitions.
const CREATE_PARTITIONS: u8 = 6;
const NODES: u8 = 7;
/// As [`CREATE_PARTITIONS`], behind the founders.
const CREATE_FOUNDERS: u8 = 8;
const ALONE: u8 = 9;
const MOVE: u8 = 10;
const SETTLED: u8 = 11;
/// As [`CREATE_FOUNDERS`], behind the budget of work.
const CREATE_WORK: u8 = 12;
const DATABASE: u8 = 13;
const SETTINGS: u8 = 14;
const STEPPED_OVER: u8 = 15;
const USERS: u8 = 16;

/// What an entry of the council's log asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// A new bucket; its numbers are given when it is applied. `founders`: as in [`Bucket`].
    Create { name: String, settings: Settings, identities: Vec<u64>, founders: Vec<NodeId> },
    /// The bucket of a database: made with the usual settings, if it is not there. Its identifier is the answer. `identities`, `founders`: as above.
    Database { number: u16, identities: Vec<u64>, founders: Vec<NodeId> },
    /// Settings in the words of the client: applied to what the bucket has then.
    Set { name: String, words: Vec<Vec<u8>> },
    /// Only this very bucket: another of the same name may have taken its place.
    Drop { name: String, id: BucketId },
    /// A voter of an ephemeral bucket has a new memory, which is empty.
    Join { id: BucketId, node: NodeId, identity: u64 },
    /// It has recovered from others, and will vote once this is applied.
    Recovered { id: BucketId, node: NodeId, identity: u64 },
    /// The voters of an ephemeral bucket shall be these, with these memories: see [`crate::memories`].
    Move { id: BucketId, number: u64, to: Vec<(NodeId, u64)> },
    /// In these partitions they are.
    Settled { id: BucketId, number: u64, partitions: Vec<u16> },
    /// Settings of the cluster, by name.
    Settings(Pairs),
    /// Of users: see [`crate::access`].
    Users(UserChange),
    /// Of the node registry.
    Nodes(Change),
    /// The entry with this checksum was stepped over: see [`crate::step_over`].
    SteppedOver { partition: PartitionId, position: Position, digest: u64 },
    /// A node goes on without the `others`, all that there were: see [`crate::alone`].
    Alone { node: NodeId, others: Vec<NodeId>, below: u16, cluster: u64 },
}

impl Order {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut w = Writer::new(&mut out);
        match self {
            Order::Create { name, settings, identities, founders } => {
                if settings.work_max > 0 {
                    w.u8(CREATE_WORK);
                    w.u64(settings.work_max);
                    write_nodes(&mut w, founders);
                    w.u16(settings.partitions);
                } else if !founders.is_empty() {
                    w.u8(CREATE_FOUNDERS);
                    write_nodes(&mut w, founders);
                    w.u16(settings.partitions);
                } else if settings.partitions == 1 {
                    w.u8(CREATE);
                } else {
                    w.u8(CREATE_PARTITIONS);
                    w.u16(settings.partitions);
                }
                let (id, number) = (BucketId::default(), 0);
                let bucket = Bucket {
                    id,
                    number,
                    name: name.clone(),
                    settings: settings.clone(),
                    identities: identities.clone(),
                    founders: Vec::new(),
                    memories: Vec::new(),
                    voting: Voting::default(),
                    born: id,
                    made_at: Position(0),
                };
                bucket.encode(&mut w);
            }
            Order::Database { number, identities, founders } => {
                w.u8(DATABASE);
                w.u16(*number);
                w.count(identities.len());
                identities.iter().for_each(|identity| w.u64(*identity));
                write_nodes(&mut w, founders);
            }
            Order::Settings(pairs) => {
                w.u8(SETTINGS);
                write_pairs(&mut w, pairs.iter().map(|(name, value)| (name, value)));
            }
            Order::Users(change) => {
                w.u8(USERS);
                change.encode(&mut w);
            }
            Order::Set { name, words } => {
                w.u8(SET);
                w.bytes(name.as_bytes());
                w.count(words.len());
                for word in words {
                    w.bytes(word);
                }
            }
            Order::Nodes(change) => {
                w.u8(NODES);
                change.encode(&mut w);
            }
            Order::Alone { node, others, below, cluster } => {
                w.u8(ALONE);
                w.node(*node);
                write_nodes(&mut w, others);
                w.u16(*below);
                w.u64(*cluster);
            }
            Order::SteppedOver { partition, position, digest } => {
                w.u8(STEPPED_OVER);
                w.partition(*partition);
                w.position(*position);
                w.u64(*digest);
            }
            Order::Move { id, number, to } => {
                w.u8(MOVE);
                w.u32(id.0);
                w.varint(*number);
                w.count(to.len());
                for (node, identity) in to {
                    w.node(*node);
                    w.u64(*identity);
                }
            }
            Order::Settled { id, number, partitions } => {
                w.u8(SETTLED);
                w.u32(id.0);
                w.varint(*number);
                w.count(partitions.len());
                partitions.iter().for_each(|index| w.u16(*index));
            }
            Order::Drop { name, id } => {
                w.u8(DROP);
                w.bytes(name.as_bytes());
                w.u32(id.0);
            }
            Order::Join { id, node, identity } | Order::Recovered { id, node, identity } => {
                w.u8(if matches!(self, Order::Join { .. }) { JOIN } else { RECOVERED });
                w.u32(id.0);
                w.node(*node);
                w.u64(*identity);
            }
        }
        out
    }

    /// The version that nodes must speak to read it.
    pub(crate) fn version(&self) -> u16 {
        match self {
            Order::Nodes(change) => change.version(),
            Order::Move { .. } | Order::Settled { .. } => Feature::MovingMemories.since(),
            Order::Create { name, .. } if database_number(name.as_bytes()).is_some() => Feature::Databases.since(),
            Order::Create { settings, .. } if settings.work_max > 0 => Feature::Budgets.since(),
            Order::Set { words, .. } if Settings::names_work_max(words) => Feature::Budgets.since(),
            Order::Database { .. } => Feature::Databases.since(),
            Order::Settings(_) => Feature::Settings.since(),
            Order::Users(_) => Feature::Users.since(),
            Order::SteppedOver { .. } => Feature::SteppedOver.since(),
            _ => OLDEST,
        }
    }

    pub(crate) fn decode(body: &[u8]) -> Result<Order, Malformed> {
        let mut r = Reader::from_slice(body);
        let order = match r.u8()? {
            what @ (CREATE | CREATE_PARTITIONS | CREATE_FOUNDERS | CREATE_WORK) => {
                let work_max = if what == CREATE_WORK { r.u64()? } else { 0 };
                let has_founders = matches!(what, CREATE_FOUNDERS | CREATE_WORK);
                let founders = if has_founders { read_nodes(&mut r)? } else { Vec::new() };
                let partitions = if what == CREATE { 1 } else { partitions(&mut r)? };
                let Bucket { name, settings, identities, .. } = Bucket::decode(&mut r)?;
                Order::Create { name, settings: Settings { partitions, work_max, ..settings }, identities, founders }
            }
            DATABASE => {
                let number = r.u16()?;
                let identities = (0..r.count(8)?).map(|_| r.u64()).collect::<Result<_, _>>()?;
                Order::Database { number, identities, founders: read_nodes(&mut r)? }
            }
            SET => {
                let name = r.text()?.to_owned();
                let mut words = Vec::new();
                for _ in 0..r.count(1)? {
                    words.push(r.slice()?.to_vec());
                }
                Order::Set { name, words }
            }
            JOIN => Order::Join { id: BucketId(r.u32()?), node: r.node()?, identity: r.u64()? },
            RECOVERED => Order::Recovered { id: BucketId(r.u32()?), node: r.node()?, identity: r.u64()? },
            MOVE => {
                let (id, number) = (BucketId(r.u32()?), r.varint()?);
                let to = (0..r.count(10)?).map(|_| Ok((r.node()?, r.u64()?))).collect::<Result<_, Malformed>>()?;
                Order::Move { id, number, to }
            }
            SETTLED => {
                let (id, number) = (BucketId(r.u32()?), r.varint()?);
                let partitions = (0..r.count(2)?).map(|_| r.u16()).collect::<Result<_, _>>()?;
                Order::Settled { id, number, partitions }
            }
            SETTINGS => Order::Settings(read_pairs(&mut r)?),
            USERS => Order::Users(UserChange::decode(&mut r)?),
            STEPPED_OVER => Order::SteppedOver { partition: r.partition()?, position: r.position()?, digest: r.u64()? },
            NODES => Order::Nodes(Change::decode(&mut r)?),
            ALONE => Order::Alone { node: r.node()?, others: read_nodes(&mut r)?, below: r.u16()?, cluster: r.u64()? },
            DROP => Order::Drop { name: r.text()?.to_owned(), id: BucketId(r.u32()?) },
            _ => return Err(Malformed),
        };
        r.finish()?;
        Ok(order)
    }
}

/// The list of buckets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Buckets {
    /// The next bucket's number; every lower one was given.
    pub next_id: u32,
    /// By number; the default bucket is always the first.
    pub list: Vec<Bucket>,
}

impl Default for Buckets {
    fn default() -> Buckets {
        Buckets { next_id: 1, list: vec![Bucket::default_bucket()] }
    }
}

impl Buckets {
    pub(crate) fn named(&self, name: &str) -> Option<&Bucket> {
        self.list.iter().find(|bucket| bucket.name == name)
    }

    pub(crate) fn of(&self, id: BucketId) -> Option<&Bucket> {
        self.list.iter().find(|bucket| bucket.id == id)
    }

    /// The bucket that `SELECT` means by a number or a name.
    pub(crate) fn find(&self, word: &[u8]) -> Result<&Bucket, Failure> {
        if let Some(number) = data::args::parse_integer(word) {
            let found = self.list.iter().find(|bucket| i64::from(bucket.number) == number);
            return found.ok_or(Failure::Text("ERR DB index is out of range"));
        }
        let name = check_name(word).map_err(|_| Failure::Text("ERR invalid DB index"))?;
        self.named(name).ok_or_else(|| no_such_bucket(name))
    }

    /// Whether there was such a bucket and is none any more.
    pub(crate) fn has_dropped(&self, id: BucketId) -> bool {
        id.0 < self.next_id && self.of(id).is_none()
    }

    /// The list in a council's state.
    pub(crate) fn read(tree: &Tree) -> Result<Buckets, Malformed> {
        let Some(record) = tree.get(KeyRef::new(LIST)) else { return Ok(Buckets::default()) };
        let Value::String(bytes) = &record.value else { return Err(Malformed) };
        let mut r = Reader::from_slice(bytes);
        let version = r.u8()?;
        if !(VERSION..=VERSION_WORK).contains(&version) {
            return Err(Malformed);
        }
        let mut buckets = Buckets { next_id: r.u32()?, list: Vec::new() };
        for _ in 0..r.count(40)? {
            buckets.list.push(Bucket::decode(&mut r)?);
        }
        if version >= VERSION_PARTITIONS {
            for bucket in &mut buckets.list {
                bucket.settings.partitions = partitions(&mut r)?;
            }
        }
        if version >= VERSION_FOUNDERS {
            for bucket in &mut buckets.list {
                bucket.founders = read_nodes(&mut r)?;
            }
        }
        if version >= VERSION_VOTING {
            for bucket in &mut buckets.list {
                bucket.voting = Voting::decode(&mut r)?;
            }
        }
        if version >= VERSION_WORK {
            for bucket in &mut buckets.list {
                bucket.settings.work_max = r.u64()?;
            }
        }
        r.finish()?;
        Ok(buckets)
    }

    fn write(&self, tree: &mut Tree, context: &EntryContext) {
        let mut bytes = Vec::new();
        let mut w = Writer::new(&mut bytes);
        let one_each = self.list.iter().all(|bucket| bucket.settings.partitions == 1);
        let founded_alike = self.list.iter().all(|bucket| bucket.founders.is_empty());
        let votes_as_founded = self.list.iter().all(|bucket| bucket.voting == Voting::default());
        let budgets_by_default = self.list.iter().all(|bucket| bucket.settings.work_max == 0);
        let version = match (one_each, founded_alike, votes_as_founded, budgets_by_default) {
            (true, true, true, true) => VERSION,
            (false, true, true, true) => VERSION_PARTITIONS,
            (_, false, true, true) => VERSION_FOUNDERS,
            (_, _, false, true) => VERSION_VOTING,
            (_, _, _, false) => VERSION_WORK,
        };
        w.u8(version);
        w.u32(self.next_id);
        w.count(self.list.len());
        for bucket in &self.list {
            bucket.encode(&mut w);
        }
        if version >= VERSION_PARTITIONS {
            self.list.iter().for_each(|bucket| w.u16(bucket.settings.partitions));
        }
        if version >= VERSION_FOUNDERS {
            self.list.iter().for_each(|bucket| write_nodes(&mut w, &bucket.founders));
        }
        if version >= VERSION_VOTING {
            self.list.iter().for_each(|bucket| bucket.voting.encode(&mut w));
        }
        if version >= VERSION_WORK {
            self.list.iter().for_each(|bucket| w.u64(bucket.settings.work_max));
        }
        data::apply(tree, context, &[b"set", LIST, &bytes]);
    }

    /// The bucket of a database: as it is, or a new one. Its identifier.
    fn database(&mut self, order: Order, at: Position, version: u16) -> Result<Reply, Failure> {
        let Order::Database { number, identities, founders } = order else { return Ok(Reply::Nil) };
        let of = |buckets: &Buckets| buckets.list.iter().find(|bucket| bucket.number == number).map(|bucket| bucket.id);
        if of(self).is_none() {
            let (name, settings) = (number.to_string(), Settings::of_kind(BucketKind::Persistent));
            self.carry_out(Order::Create { name, settings, identities, founders }, at, version)?;
        }
        Ok(of(self).map_or(Reply::Nil, |id| Reply::Integer(i64::from(id.0))))
    }

    /// The number of a bucket that is being made. Databases have those that they are called, the others come behind.
    fn new_number(&self, name: &str, version: u16) -> Result<u16, Failure> {
        let holder = |number: u16| self.list.iter().find(|bucket| bucket.number == number);
        if !Feature::Databases.is_in(version) {
            return Ok((1..=u16::MAX).find(|number| holder(*number).is_none()).unwrap_or(u16::MAX));
        }
        match database_number(name.as_bytes()) {
            Some(number) => match holder(number) {
                Some(bucket) => {
                    let text = format!(
                        "ERR database {number} is the bucket '{}', made before there were databases",
                        bucket.name
                    );
                    Err(Failure::built(text.as_bytes()))
                }
                None => Ok(number),
            },
            None => Ok((DATABASES_MAX..=u16::MAX).find(|number| holder(*number).is_none()).unwrap_or(u16::MAX)),
        }
    }

    fn carry_out(&mut self, order: Order, at: Position, version: u16) -> Result<Reply, Failure> {
        match order {
            Order::Create { name, settings, identities, founders } => {
                if self.named(&name).is_some() {
                    return Err(Failure::built(format!("ERR there is a bucket '{name}' already").as_bytes()));
                }
                if self.list.len() >= BUCKETS_MAX || self.next_id == COUNCIL.bucket.0 {
                    let text = format!("ERR there are {BUCKETS_MAX} buckets, and no more are possible");
                    return Err(Failure::built(text.as_bytes()));
                }
                let partitions: usize = self.list.iter().map(|bucket| usize::from(bucket.settings.partitions)).sum();
                if partitions + usize::from(settings.partitions) > PARTITIONS_ALL_MAX {
                    let text = format!(
                        "ERR the buckets have {partitions} partitions, and no more than {PARTITIONS_ALL_MAX} are possible"
                    );
                    return Err(Failure::built(text.as_bytes()));
                }
                let number = self.new_number(&name, version)?;
                let id = BucketId(self.next_id);
                self.next_id += 1;
                let memories = match settings.kind {
                    BucketKind::Ephemeral => identities.iter().map(|identity| *identity != 0).collect(),
                    BucketKind::Persistent | BucketKind::Cache => Vec::new(),
                };
                let made_at = at;
                let voting = Voting::default();
                let bucket =
                    Bucket { id, number, name, settings, identities, founders, memories, voting, born: id, made_at };
                self.list.push(bucket);
                self.list.sort_by_key(|bucket| bucket.number);
            }
            Order::Database { .. } => return self.database(order, at, version),
            Order::Set { name, words } => {
                let Some(bucket) = self.list.iter_mut().find(|bucket| bucket.name == name) else {
                    return Err(no_such_bucket(&name));
                };
                let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                let mut settings = bucket.settings.clone();
                settings.change(&words, false)?;
                bucket.settings = settings;
            }
            // Not about buckets: see `apply`.
            Order::Nodes(_) | Order::Settings(_) | Order::Users(_) | Order::SteppedOver { .. } => {}
            Order::Alone { node, .. } => {
                self.list.iter_mut().for_each(|bucket| bucket.belong_to(node));
            }
            Order::Drop { name, .. } if name == DEFAULT_NAME => {
                return Err(Failure::Text("ERR the default bucket cannot be dropped"));
            }
            Order::Join { id, node, identity } => {
                let next_id = BucketId(self.next_id);
                let bucket = self.in_memory(id)?;
                if bucket.note_loss(node, identity)?
                    && let Some(founders) = bucket.lost()
                {
                    bucket.begin_anew(next_id, &founders);
                    self.next_id += 1;
                }
            }
            Order::Recovered { id, node, identity } => self.in_memory(id)?.note_recovery(node, identity)?,
            Order::Move { id, number, to } => self.in_memory(id)?.order_move(number, &to, version)?,
            Order::Settled { id, number, partitions } => self.in_memory(id)?.settle_move(number, &partitions)?,
            Order::Drop { name, id } => {
                let before = self.list.len();
                self.list.retain(|bucket| bucket.name != name || bucket.id != id);
                if self.list.len() == before {
                    return Err(no_such_bucket(&name));
                }
            }
        }
        Ok(Reply::Ok)
    }
}

impl Buckets {
    fn in_memory(&mut self, id: BucketId) -> Result<&mut Bucket, Failure> {
        self.list.iter_mut().find(|bucket| bucket.id == id).ok_or(NO_SUCH_REPLICA)
    }
}

/// A number of partitions.
fn partitions(r: &mut Reader<'_>) -> Result<u16, Malformed> {
    let count = r.u16()?;
    if (1..=PARTITIONS_MAX).contains(&count) { Ok(count) } else { Err(Malformed) }
}

/// What the council's state says of one bucket (`name`), or of all (no name).
pub(crate) fn answer(tree: &Tree, name: &[u8]) -> Reply {
    let Ok(buckets) = Buckets::read(tree) else {
        return Reply::Error(Failure::Text("ERR the council's list of buckets is malformed"));
    };
    let name = String::from_utf8_lossy(name);
    match buckets.named(&name) {
        _ if name.is_empty() => Reply::Array(buckets.list.iter().map(Bucket::describe).collect()),
        Some(bucket) => bucket.describe(),
        None => Reply::Error(no_such_bucket(&name)),
    }
}

/// What is said of a bucket that is not there.
pub(crate) fn no_such_bucket(name: &str) -> Failure {
    Failure::built(format!("ERR there is no bucket '{name}'").as_bytes())
}

/// Applies an entry of the council's log.
///
/// # Errors
/// When the entry or the state is not one of this version.
pub(crate) fn apply(tree: &mut Tree, context: &EntryContext, at: Position, body: &[u8]) -> Result<Reply, &'static str> {
    apply_planted(tree, context, at, body, (None, NEWEST))
}

/// The same with a planted bug, or by a node that speaks versions up to that one.
///
/// # Errors
/// As above.
pub(crate) fn apply_planted(
    tree: &mut Tree,
    context: &EntryContext,
    at: Position,
    body: &[u8],
    (planted, newest): (Option<Planted>, u16),
) -> Result<Reply, &'static str> {
    let order = Order::decode(body)
        .map_err(|_| "the council's order is malformed, or of a version that this node does not speak")?;
    if order.version() > newest {
        return Err(
            "the council's order is of a version that this node does not speak: a newer Dictum has to be started here",
        );
    }
    let mut buckets = Buckets::read(tree).map_err(|_| "the council's list of buckets is malformed")?;
    if let Order::Settings(pairs) = order {
        let mut stored = ClusterSettings::read(tree).map_err(|_| "the council's settings are malformed")?;
        stored.set(pairs);
        stored.write(tree, context);
        return Ok(Reply::Ok);
    }
    if let Order::Users(change) = order {
        let mut users = Users::read(tree).map_err(|_| "the council's users are malformed")?;
        return Ok(match users.carry_out(&change, at) {
            Ok(reply) => {
                users.write(tree, context);
                reply
            }
            Err(failure) => Reply::Error(failure),
        });
    }
    if let Order::SteppedOver { partition, position, digest } = order {
        let mut registry = Registry::read(tree).map_err(|_| "the council's registry is malformed")?;
        registry.note_stepped_over(SteppedOver { partition, position, digest, at: context.time });
        registry.write(tree, context);
        return Ok(Reply::Ok);
    }
    if let Order::Nodes(Change::Map(map)) = order {
        let before = Map::read(tree).map_err(|_| "the council's map is malformed")?;
        // Whoever led the council may have made another one since.
        if map.epoch == before.epoch + 1 {
            map.write(tree, context);
        }
        return Ok(Reply::Ok);
    }
    if let Order::Alone { node, others, below, cluster } = &order {
        let mut registry = Registry::read(tree).map_err(|_| "the council's registry is malformed")?;
        registry.go_on_alone(Alone { former: registry.cluster, node: *node, below: *below }, others, *cluster);
        registry.write(tree, context);
    }
    if let Order::Nodes(change) = order {
        let mut registry = Registry::read(tree).map_err(|_| "the council's registry is malformed")?;
        let map = Map::read(tree).map_err(|_| "the council's map is malformed")?;
        let surroundings = Surroundings { clock: context.time, buckets: &buckets, map: &map, planted };
        return Ok(match registry.carry_out(change, &surroundings) {
            Ok(reply) => {
                registry.write(tree, context);
                reply
            }
            Err(failure) => Reply::Error(failure),
        });
    }
    let gets_a_part = |id: &NodeId| match &order {
        Order::Create { identities, founders, .. } | Order::Database { identities, founders, .. } => {
            usize::from(id.0) < identities.len() && (founders.is_empty() || founders.contains(id))
        }
        Order::Move { to, .. } => to.iter().any(|(node, _)| node == id),
        _ => false,
    };
    if matches!(order, Order::Create { .. } | Order::Database { .. } | Order::Move { .. }) {
        let registry = Registry::read(tree).map_err(|_| "the council's registry is malformed")?;
        if registry.removed.iter().any(gets_a_part) {
            return Ok(Reply::Error(FOUNDER_GONE));
        }
    }
    Ok(match buckets.carry_out(order, at, context.version) {
        Ok(reply) => {
            buckets.write(tree, context);
            reply
        }
        Err(failure) => Reply::Error(failure),
    })
}

#[cfg(test)]
mod tests;
