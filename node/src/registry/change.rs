//! What an entry asks of the node registry, and what that comes to.

use std::time::Duration;

use base::limits::{
    NODE_ADDRESS_BYTES_MAX, NODE_NAME_BYTES_MAX, NODES_EVER_MAX, NODES_MAX, TOKENS_MAX, VOTERS_MAX, ZONE_BYTES_MAX,
};
use base::versions::{Feature, OLDEST};
use base::{NodeId, WallTime};
use data::{Failure, Reply};
use wire::{Malformed, Reader, Writer};

use super::keys::KeyChange;
use super::trails::TrailMark;
use super::{Alone, Joined, Map, Registry, Token, read_digest, read_member, read_nodes, write_member, write_nodes};
use crate::bucket::{Bucket, BucketKind};
use crate::council::{Buckets, COUNCIL};
use crate::door::{Member, Planted};
use crate::memories::odd;

/// See the file's head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// A node is drained, or serves again; it does not leave any more then.
    Drain {
        node: NodeId,
        drained: bool,
        /// How many nodes have founded the cluster.
        nodes: u16,
    },
    /// How many vote in each partition; 0: as many as founded the cluster.
    Voters { count: u8 },
    /// Whoever has this token may join.
    Token(Token),
    /// A node joins, with a token, or asks again whether it has.
    Join {
        digest: [u8; 20],
        member: Member,
        /// Its label; empty: it has none.
        zone: String,
        nonce: u64,
        /// The founders, as the node knows them that was asked.
        founders: Vec<Member>,
        /// The newest version that it speaks.
        newest: u16,
    },
    /// A node is to leave: its votes go to others, then it is removed.
    Leave {
        node: NodeId,
        /// How many nodes have founded the cluster.
        nodes: u16,
    },
    /// Nothing needs a node any more that is to leave.
    Remove {
        node: NodeId,
        /// The map by which that was found. By another one it may have got votes, and left again: then it is to be found anew. None: written by a version
        /// that did not say.
        epoch: Option<u64>,
        /// How many nodes have founded the cluster.
        nodes: u16,
    },
    /// A node has been gone for long, or is back.
    Absent { node: NodeId, absent: bool },
    /// When a node counts as absent.
    ReplaceAfter(Option<Duration>),
    /// Votes and leaderships stay where they are, or move again.
    Pause(bool),
    /// What tells this cluster from others, unless it has a name already.
    Name(u64),
    /// A node was started with this label, or (empty) without one.
    Zone { node: NodeId, zone: String },
    /// A node is reached at this address from now on.
    Address { node: NodeId, address: String },
    /// A node is known by another key, or by none.
    Key { node: NodeId, change: KeyChange },
    /// A node has signed its audit trail up to here.
    Trail { node: NodeId, mark: TrailMark },
    /// From now on the cluster has this version, if those that `speak` it are all of its nodes.
    Version {
        version: u16,
        speak: Vec<NodeId>,
        /// How many nodes have founded the cluster.
        founders: u16,
    },
    /// The map is as follows, if the last one was the one before it.
    Map(Map),
}

const DRAIN: u8 = 1;
const VOTERS: u8 = 2;
const TOKEN: u8 = 3;
const JOIN: u8 = 4;
const LEAVE: u8 = 5;
const REMOVE: u8 = 6;
const ABSENT: u8 = 7;
const REPLACE_AFTER: u8 = 8;
const PAUSE: u8 = 9;
const MAP: u8 = 10;
const NAME: u8 = 11;
/// As [`JOIN`], with the zone behind it: nodes from before understand whoever has none.
const JOIN_ZONE: u8 = 12;
const ZONE: u8 = 13;
/// As [`REMOVE`], with the map's epoch and the number of founders behind it.
const REMOVE_AT: u8 = 14;
/// Understood from version 7 on, and written by those who know that everybody understands it.
const RAISE: u8 = 15;
/// As [`JOIN_ZONE`], with the newest version that the node speaks behind it: since version 7 of the cluster. Who joins by the others speaks the oldest.
const JOIN_NEWEST: u8 = 16;
/// Written in clusters of version 8 and later.
const ADDRESS: u8 = 17;
/// The same.
const KEY: u8 = 18;
/// The same.
const TRAIL: u8 = 19;

impl Change {
    pub(crate) fn encode(&self, w: &mut Writer<'_>) {
        match self {
            Change::Drain { node, drained, nodes } => {
                w.u8(DRAIN);
                w.node(*node);
                w.bool(*drained);
                w.u16(*nodes);
            }
            Change::Voters { count } => {
                w.u8(VOTERS);
                w.u8(*count);
            }
            Change::Token(token) => {
                w.u8(TOKEN);
                w.raw(&token.digest);
                w.u64(token.until.0);
            }
            Change::Join { digest, member, zone, nonce, founders, newest } => {
                let what = match (*newest > OLDEST, zone.is_empty()) {
                    (true, _) => JOIN_NEWEST,
                    (false, false) => JOIN_ZONE,
                    (false, true) => JOIN,
                };
                w.u8(what);
                w.raw(digest);
                write_member(w, member);
                w.u64(*nonce);
                w.count(founders.len());
                founders.iter().for_each(|founder| write_member(w, founder));
                if what != JOIN {
                    w.bytes(zone.as_bytes());
                }
                if what == JOIN_NEWEST {
                    w.u16(*newest);
                }
            }
            Change::Leave { node, nodes } => {
                w.u8(LEAVE);
                w.node(*node);
                w.u16(*nodes);
            }
            Change::Remove { node, epoch: None, .. } => {
                w.u8(REMOVE);
                w.node(*node);
            }
            Change::Remove { node, epoch: Some(epoch), nodes } => {
                w.u8(REMOVE_AT);
                w.node(*node);
                w.u64(*epoch);
                w.u16(*nodes);
            }
            Change::Absent { node, absent } => {
                w.u8(ABSENT);
                w.node(*node);
                w.bool(*absent);
            }
            Change::ReplaceAfter(after) => {
                w.u8(REPLACE_AFTER);
                w.option(*after, |w, after| w.u64(after.as_millis() as u64));
            }
            Change::Pause(paused) => {
                w.u8(PAUSE);
                w.bool(*paused);
            }
            Change::Name(name) => {
                w.u8(NAME);
                w.u64(*name);
            }
            Change::Address { node, address } => {
                w.u8(ADDRESS);
                w.node(*node);
                w.bytes(address.as_bytes());
            }
            Change::Key { node, change } => {
                w.u8(KEY);
                w.node(*node);
                change.encode(w);
            }
            Change::Trail { node, mark } => {
                w.u8(TRAIL);
                w.node(*node);
                mark.write(w);
            }
            Change::Zone { node, zone } => {
                w.u8(ZONE);
                w.node(*node);
                w.bytes(zone.as_bytes());
            }
            Change::Version { version, speak, founders } => {
                w.u8(RAISE);
                w.u16(*version);
                write_nodes(w, speak);
                w.u16(*founders);
            }
            Change::Map(map) => {
                w.u8(MAP);
                map.encode(w);
            }
        }
    }

    /// The version that nodes must speak to read it.
    pub(crate) fn version(&self) -> u16 {
        match self {
            Change::Version { version, .. } => *version,
            Change::Key { .. } => Feature::NodeKeys.since(),
            Change::Trail { .. } => Feature::TrailMarks.since(),
            Change::Join { newest, .. } if *newest > OLDEST => Feature::JoinVersion.since(),
            _ => OLDEST,
        }
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Change, Malformed> {
        Ok(match r.u8()? {
            DRAIN => Change::Drain { node: r.node()?, drained: r.bool()?, nodes: r.u16()? },
            VOTERS => Change::Voters { count: r.u8()? },
            TOKEN => Change::Token(Token { digest: read_digest(r)?, until: WallTime(r.u64()?) }),
            what @ (JOIN | JOIN_ZONE | JOIN_NEWEST) => {
                let (digest, member, nonce) = (read_digest(r)?, read_member(r)?, r.u64()?);
                let founders = (0..r.count(2)?).map(|_| read_member(r)).collect::<Result<_, _>>()?;
                let zone = if what == JOIN { String::new() } else { r.text()?.to_owned() };
                let newest = if what == JOIN_NEWEST { r.u16()? } else { OLDEST };
                Change::Join { digest, member, zone, nonce, founders, newest }
            }
            LEAVE => Change::Leave { node: r.node()?, nodes: r.u16()? },
            REMOVE => Change::Remove { node: r.node()?, epoch: None, nodes: 0 },
            REMOVE_AT => Change::Remove { node: r.node()?, epoch: Some(r.u64()?), nodes: r.u16()? },
            ABSENT => Change::Absent { node: r.node()?, absent: r.bool()? },
            REPLACE_AFTER => Change::ReplaceAfter(r.option(Reader::u64)?.map(Duration::from_millis)),
            PAUSE => Change::Pause(r.bool()?),
            NAME => Change::Name(r.u64()?),
            ADDRESS => Change::Address { node: r.node()?, address: r.text()?.to_owned() },
            KEY => Change::Key { node: r.node()?, change: KeyChange::decode(r)? },
            TRAIL => Change::Trail { node: r.node()?, mark: TrailMark::read(r)? },
            ZONE => Change::Zone { node: r.node()?, zone: r.text()?.to_owned() },
            RAISE => Change::Version { version: r.u16()?, speak: read_nodes(r)?, founders: r.u16()? },
            MAP => Change::Map(Map::decode(r)?),
            _ => return Err(Malformed),
        })
    }
}

/// What a change may depend on besides the registry.
pub(crate) struct Surroundings<'a> {
    /// The clock of the leader that has proposed it.
    pub clock: WallTime,
    pub buckets: &'a Buckets,
    pub map: &'a Map,
    pub planted: Option<Planted>,
}

impl Surroundings<'_> {
    /// Whether a node has a seat anywhere, in a cluster that so many have founded. A bucket that was made while the node served has given it one without a new map.
    fn seats(&self, node: NodeId, founders: u16) -> bool {
        let council: Vec<NodeId> = (0..founders).map(NodeId).collect();
        let has_seat = |bucket: &Bucket| {
            if bucket.settings.kind == BucketKind::Ephemeral {
                return bucket.is_remembered_by(node);
            }
            let founders = bucket.founded_by(usize::from(founders));
            bucket.partitions().any(|id| self.map.seats(id, &founders).contains(&node))
        };
        self.map.seats(COUNCIL, &council).contains(&node) || self.buckets.list.iter().any(has_seat)
    }
}

impl Registry {
    pub(crate) fn carry_out(&mut self, change: Change, around: &Surroundings<'_>) -> Result<Reply, Failure> {
        match change {
            Change::Drain { node, drained: false, .. } => {
                let stays = |other: &NodeId| *other != node;
                self.drained.retain(stays);
                self.leaving.retain(stays);
            }
            Change::Drain { node, nodes, .. } => {
                self.spare_one_more(node, nodes)?;
                add(&mut self.drained, node);
            }
            Change::Voters { count } if usize::from(count) > VOTERS_MAX => {
                let text = format!("ERR no more than {VOTERS_MAX} nodes can vote in a partition");
                return Err(Failure::built(text.as_bytes()));
            }
            Change::Voters { count } => self.voters = count,
            Change::Token(token) => {
                self.tokens.retain(|other| other.until > around.clock && other.digest != token.digest);
                if self.tokens.len() >= TOKENS_MAX {
                    let text =
                        format!("ERR there are {TOKENS_MAX} tokens that nobody has used yet; they end by themselves");
                    return Err(Failure::built(text.as_bytes()));
                }
                self.tokens.push(token);
            }
            Change::Join { newest, member, .. } if newest < self.version => {
                // That was looked at before: the order was written while the cluster had an older version, or by a node that had not heard of this one.
                let text = format!(
                    "CLUSTERDOWN the cluster has version {} by now; ask again for '{}'",
                    self.version, member.name
                );
                return Err(Failure::built(text.as_bytes()));
            }
            Change::Join { digest, member, zone, nonce, founders, .. } => {
                return self.join(digest, (member, zone), nonce, founders, around);
            }
            Change::Version { version, speak, founders } => {
                let joined = self.joined.iter().map(|joined| joined.id);
                let mut all = (0..founders).map(NodeId).chain(joined).filter(|id| !self.is_out(*id));
                // Somebody may have joined since.
                if version > self.version && all.all(|id| speak.contains(&id)) {
                    self.version = version;
                }
            }
            Change::Leave { node, nodes } => {
                self.spare_one_more(node, nodes)?;
                if let Some(bucket) = around.buckets.list.iter().find(|bucket| self.holds_up(bucket, node, nodes)) {
                    let text = format!(
                        "ERR the bucket '{}' is in memory only, and without this node too few are left that could have it; let another node join first, or drop the bucket",
                        bucket.name
                    );
                    return Err(Failure::built(text.as_bytes()));
                }
                add(&mut self.leaving, node);
            }
            Change::Remove { node, epoch, nodes } => {
                // Somebody may have thought better of it, and better of that again.
                let is_old = epoch.is_some_and(|epoch| epoch != around.map.epoch || around.seats(node, nodes));
                if self.leaving.contains(&node) && !is_old {
                    for list in [&mut self.leaving, &mut self.drained, &mut self.absent] {
                        list.retain(|other| *other != node);
                    }
                    self.joined.retain(|joined| joined.id != node);
                    self.zones.remove(&node);
                    self.addresses.remove(&node);
                    self.keys.forget(node);
                    self.trails.forget(node);
                    add(&mut self.removed, node);
                }
            }
            Change::Absent { node, absent: true } if !self.removed.contains(&node) => add(&mut self.absent, node),
            Change::Absent { node, .. } => self.absent.retain(|other| *other != node),
            Change::ReplaceAfter(after) => self.replace_after = after,
            Change::Pause(paused) => self.paused = paused,
            Change::Name(name) if self.cluster == 0 => self.cluster = name,
            Change::Name(_) => {}
            Change::Address { node, address } => self.move_to(node, address)?,
            Change::Key { node, change } => {
                if self.is_there(node) {
                    self.keys.change(node, change)?;
                }
            }
            Change::Trail { node, mark } => {
                if self.is_there(node) {
                    self.trails.note(node, mark);
                }
            }
            Change::Zone { node, zone } => {
                check_zone(&zone)?;
                if !self.removed.contains(&node) {
                    self.label(node, zone);
                }
            }
            // Of the map, which stands by itself.
            Change::Map(_) => {}
        }
        Ok(Reply::Ok)
    }

    /// Whether a bucket in memory would keep a node from leaving a cluster that so many have founded, since nobody could take over its part.
    fn holds_up(&self, bucket: &Bucket, node: NodeId, founders: u16) -> bool {
        if !bucket.is_remembered_by(node) {
            return false;
        }
        let voters = bucket.voters();
        let all = (0..founders).map(NodeId).chain(self.joined.iter().map(|joined| joined.id));
        let is_there = |id: &NodeId| *id != node && !self.is_out(*id) && !self.leaving.contains(id);
        let can = |id: &NodeId| self.serves(*id) || (voters.contains(id) && !self.absent.contains(id));
        let others = all.filter(|id| is_there(id) && can(id)).count();
        let needed = voters.len().min(odd(self.voters_wanted(usize::from(founders))));
        others < needed || !Feature::MovingMemories.is_in(self.version)
    }

    /// A node has gone on without all others, in a cluster of the name `cluster`.
    pub(crate) fn go_on_alone(&mut self, alone: Alone, others: &[NodeId], cluster: u64) {
        for list in [&mut self.leaving, &mut self.drained, &mut self.absent] {
            list.retain(|id| *id != alone.node);
        }
        others.iter().for_each(|other| add(&mut self.absent, *other));
        // Those that these let in might have been let in by the others.
        self.tokens.clear();
        self.cluster = cluster;
        self.alone.push(alone);
    }

    /// Whether one more node of a cluster that so many have founded may stop serving.
    fn spare_one_more(&self, node: NodeId, founders: u16) -> Result<(), Failure> {
        let mut spared = [&self.drained[..], &self.leaving].concat();
        spared.sort_unstable();
        spared.dedup();
        let gone = self.removed.iter().filter(|id| id.0 < founders).count();
        let there = usize::from(founders) - gone + self.joined.len();
        if !spared.contains(&node) && spared.len() + 1 >= there {
            return Err(Failure::Text("ERR it is the last node that serves: nobody could take over what it leads"));
        }
        Ok(())
    }

    fn join(
        &mut self,
        digest: [u8; 20],
        (member, zone): (Member, String),
        nonce: u64,
        founders: Vec<Member>,
        around: &Surroundings<'_>,
    ) -> Result<Reply, Failure> {
        if let Some(joined) = self.joined.iter().find(|joined| joined.nonce == nonce && joined.member == member) {
            return Ok(self.welcome(joined.id));
        }
        let place = self.tokens.iter().position(|token| token.digest == digest && token.until > around.clock);
        let place = place.ok_or(Failure::Text(
            "ERR nobody may join with that token: it was used, or is too old, or is of another cluster; `dictum node token` gives a new one",
        ))?;
        check_member(&member)?;
        check_zone(&zone)?;
        if self.founders.is_empty() {
            self.founders = founders;
            // These are their addresses of the first day. Some may have moved since.
            for (id, address) in &self.addresses {
                if let Some(founder) = self.founders.get_mut(usize::from(id.0)) {
                    founder.peer_address.clone_from(address);
                }
            }
        }
        let gone = |place: usize| self.removed.contains(&NodeId(place as u16));
        let there = self.founders.iter().enumerate().filter(|(place, _)| !gone(*place)).map(|(_, founder)| founder);
        let there: Vec<&Member> = there.chain(self.joined.iter().map(|joined| &joined.member)).collect();
        if there.iter().any(|other| other.name == member.name) {
            let text = format!(
                "ERR there is a node '{}' already; give this one another name, or remove that one first",
                member.name
            );
            return Err(Failure::built(text.as_bytes()));
        }
        if let Some(other) = there.iter().find(|other| other.peer_address == member.peer_address) {
            let text = format!("ERR the node '{}' has the address {}", other.name, member.peer_address);
            return Err(Failure::built(text.as_bytes()));
        }
        let of_joined = self.joined.iter().map(|joined| joined.id.0 + 1).max().unwrap_or(0);
        let forgets = around.planted == Some(Planted::NumberGivenTwice);
        let of_removed = self.removed.last().filter(|_| !forgets).map_or(0, |id| id.0 + 1);
        let of_former = self.alone.last().map_or(0, |alone| alone.below);
        let id = of_joined.max(of_removed).max(of_former).max(self.founders.len() as u16);
        if there.len() >= NODES_MAX || id >= NODES_EVER_MAX {
            let text = format!("ERR a cluster has {NODES_MAX} nodes at the most, and {NODES_EVER_MAX} in all its life");
            return Err(Failure::built(text.as_bytes()));
        }
        self.tokens.remove(place);
        self.joined.push(Joined { id: NodeId(id), member, nonce });
        self.label(NodeId(id), zone);
        Ok(self.welcome(NodeId(id)))
    }

    /// Whether a node is one of the cluster's, as far as the registry can tell: it need not have all founders.
    fn is_there(&self, node: NodeId) -> bool {
        let has_joined = usize::from(node.0) < VOTERS_MAX || self.joined.iter().any(|joined| joined.id == node);
        has_joined && !self.removed.contains(&node)
    }

    fn move_to(&mut self, node: NodeId, address: String) -> Result<(), Failure> {
        check_address(&address)?;
        if self.removed.contains(&node) {
            return Ok(());
        }
        if let Some(joined) = self.joined.iter_mut().find(|joined| joined.id == node) {
            joined.member.peer_address = address;
        } else if usize::from(node.0) < VOTERS_MAX {
            // A node that joins later is told the founders from this list.
            if let Some(founder) = self.founders.get_mut(usize::from(node.0)) {
                founder.peer_address.clone_from(&address);
            }
            self.addresses.insert(node, address);
        }
        Ok(())
    }

    fn label(&mut self, node: NodeId, zone: String) {
        if zone.is_empty() {
            self.zones.remove(&node);
        } else {
            self.zones.insert(node, zone);
        }
    }

    /// What a node is told that has joined: its number, the founders, and who else has joined.
    fn welcome(&self, id: NodeId) -> Reply {
        let node = |id: NodeId, member: &Member| {
            let text = |text: &str| Reply::bulk(text.as_bytes());
            Reply::Array(vec![Reply::Integer(i64::from(id.0)), text(&member.name), text(&member.peer_address)])
        };
        let founders = self.founders.iter().enumerate().map(|(place, member)| node(NodeId(place as u16), member));
        let joined = self.joined.iter().map(|joined| node(joined.id, &joined.member));
        Reply::Map(vec![
            (Reply::bulk("id".as_bytes()), Reply::Integer(i64::from(id.0))),
            (Reply::bulk("founders".as_bytes()), Reply::Array(founders.collect())),
            (Reply::bulk("joined".as_bytes()), Reply::Array(joined.collect())),
        ])
    }
}

fn add(list: &mut Vec<NodeId>, node: NodeId) {
    if let Err(place) = list.binary_search(&node) {
        list.insert(place, node);
    }
}

fn fits_a_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// Whether a node may be labelled so; the empty label says that it is in no zone.
#[must_use]
pub fn is_zone(label: &str) -> bool {
    label.len() <= ZONE_BYTES_MAX && label.chars().all(fits_a_name)
}

fn check_zone(label: &str) -> Result<(), Failure> {
    if is_zone(label) {
        return Ok(());
    }
    let text = format!(
        "ERR '{label}' cannot be the label of a zone; use up to {ZONE_BYTES_MAX} letters, digits, '-', '_', '.'"
    );
    Err(Failure::built(text.as_bytes()))
}

/// Names and addresses are shown to people and clients, and dialled.
fn check_member(member: &Member) -> Result<(), Failure> {
    let (name, address) = (&member.name, &member.peer_address);
    if name.is_empty() || name.len() > NODE_NAME_BYTES_MAX || !name.chars().all(fits_a_name) {
        let text = format!(
            "ERR '{name}' cannot be a node's name; use up to {NODE_NAME_BYTES_MAX} letters, digits, '-', '_', '.'"
        );
        return Err(Failure::built(text.as_bytes()));
    }
    check_address(address)
}

fn check_address(address: &str) -> Result<(), Failure> {
    let (host, port) = address.rsplit_once(':').unwrap_or_default();
    let host_fits = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._:[]%".contains(c));
    if !host_fits || address.len() > NODE_ADDRESS_BYTES_MAX || !port.parse::<u16>().is_ok_and(|port| port > 0) {
        let text = format!("ERR '{address}' is not where other nodes can reach one; write HOST:PORT");
        return Err(Failure::built(text.as_bytes()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
