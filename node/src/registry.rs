//! The node registry: what the council says of the nodes. Who is there, what each is for, which tokens let others in; and the map, which says whose
//! votes each partition shall have ([`map`]). How it changes is in [`change`].

pub(crate) mod change;
pub(crate) mod keys;
pub(crate) mod map;
pub(crate) mod stepped;
pub(crate) mod trails;

use std::collections::BTreeMap;
use std::time::Duration;

use base::limits::REPLACE_AFTER;
use base::versions::{Feature, OLDEST};
use base::{NodeId, PartitionId, WallTime};
use data::{EntryContext, KeyRef, Tree, Value};
use paxos::Roster;
use wire::{Malformed, Reader, Writer};

use crate::bucket::Bucket;
use crate::door::Member;
use crate::placement;
pub(crate) use change::Change;
pub use change::is_zone;
use keys::Keys;
pub use keys::NodeKey;
pub(crate) use map::Map;
pub(crate) use stepped::SteppedOver;
pub use trails::TrailMark;
use trails::Trails;

/// The keys that it stands under in the council's state.
const KEY: &[u8] = b"nodes";
const MAP_KEY: &[u8] = b"map";
/// What was written before nodes could join.
const VERSION: u8 = 1;
/// With everything else behind that.
const VERSION_NODES: u8 = 2;
/// With the zones behind that, where nodes have some.
const VERSION_ZONES: u8 = 3;
/// With those who have gone on alone behind that, where somebody has.
const VERSION_ALONE: u8 = 4;
/// With the version of the cluster behind all of these, where that was raised.
const VERSION_RAISED: u8 = 5;
/// With the entries that were stepped over behind that, where some were.
const VERSION_STEPPED: u8 = 6;
/// With addresses of founders behind that, where these have changed.
const VERSION_ADDRESSES: u8 = 7;
/// With the keys of nodes behind that, where the council knows some.
const VERSION_KEYS: u8 = 8;
/// With the marks of audit trails behind that, where nodes have told some.
const VERSION_TRAILS: u8 = 9;

/// A node that has joined a cluster that others have founded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Joined {
    pub id: NodeId,
    pub member: Member,
    /// Drawn by whoever asked to join: it may ask again without becoming two.
    pub nonce: u64,
}

#[cfg(test)]
impl Joined {
    pub(crate) fn new(id: NodeId, member: Member) -> Joined {
        Joined { id, member, nonce: 0 }
    }
}

/// What lets one node join.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Token {
    /// The token's SHA-1: who reads the council's state cannot join with what is there.
    pub digest: [u8; 20],
    pub until: WallTime,
}

/// One node has gone on without all others ([`crate::alone`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Alone {
    /// The name of the cluster that it comes from.
    pub former: u64,
    pub node: NodeId,
    /// All other nodes of lower numbers are of that cluster, whoever they are: nobody gets such a number any more.
    pub below: u16,
}

/// See the file's head. The default: the founders, who all serve and all vote.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Registry {
    /// How many vote in each partition; 0: as many as have founded the cluster.
    pub voters: u8,
    /// Who shall lead nothing, and vote nowhere where others can; sorted.
    pub drained: Vec<NodeId>,
    /// The founders, as the node knew them that took in the first node that joined; empty until then.
    pub founders: Vec<Member>,
    /// Who has joined since, and has not been removed; by their numbers.
    pub joined: Vec<Joined>,
    /// Who is to leave as soon as nothing needs it any more; sorted.
    pub leaving: Vec<NodeId>,
    /// Who was removed; sorted.
    pub removed: Vec<NodeId>,
    /// Who has been gone for so long that others take its place; sorted.
    pub absent: Vec<NodeId>,
    /// Who may join.
    pub tokens: Vec<Token>,
    /// After a node has been gone for so long it counts as absent; none: never.
    pub replace_after: Option<Duration>,
    /// Votes and leaderships stay where they are, whatever the map would have.
    pub paused: bool,
    /// Tells this cluster from others, whose nodes may have the same names; 0 until its council has drawn it.
    pub cluster: u64,
    /// The clusters that this one comes from, the oldest first.
    pub alone: Vec<Alone>,
    /// The zones of those that have one, by the labels that they were started with.
    pub zones: BTreeMap<NodeId, String>,
    /// Where founders are reached, if not as they were when the cluster was founded.
    pub addresses: BTreeMap<NodeId, String>,
    /// By which keys nodes are known.
    pub keys: Keys,
    /// How far nodes have signed their audit trails.
    pub trails: Trails,
    /// The version of the cluster, which all of its nodes speak: see [`crate::versions`]. It only rises.
    pub version: u16,
    /// The newest entries that were stepped over, and how many there ever were.
    pub stepped: Vec<SteppedOver>,
    pub stepped_total: u64,
}

impl Default for Registry {
    fn default() -> Registry {
        Registry {
            voters: 0,
            drained: Vec::new(),
            founders: Vec::new(),
            joined: Vec::new(),
            leaving: Vec::new(),
            removed: Vec::new(),
            absent: Vec::new(),
            tokens: Vec::new(),
            replace_after: Some(REPLACE_AFTER),
            paused: false,
            cluster: 0,
            alone: Vec::new(),
            zones: BTreeMap::new(),
            addresses: BTreeMap::new(),
            keys: Keys::default(),
            trails: Trails::default(),
            version: OLDEST,
            stepped: Vec::new(),
            stepped_total: 0,
        }
    }
}

impl Registry {
    pub(crate) fn read(tree: &Tree) -> Result<Registry, Malformed> {
        let Some(record) = tree.get(KeyRef::new(KEY)) else { return Ok(Registry::default()) };
        let Value::String(bytes) = &record.value else { return Err(Malformed) };
        let mut r = Reader::from_slice(bytes);
        let version = r.u8()?;
        if !(VERSION..=VERSION_TRAILS).contains(&version) {
            return Err(Malformed);
        }
        let mut registry = Registry { voters: r.u8()?, drained: read_nodes(&mut r)?, ..Registry::default() };
        if version >= VERSION_NODES {
            for _ in 0..r.count(2)? {
                registry.founders.push(read_member(&mut r)?);
            }
            for _ in 0..r.count(12)? {
                registry.joined.push(Joined { id: r.node()?, member: read_member(&mut r)?, nonce: r.u64()? });
            }
            registry.leaving = read_nodes(&mut r)?;
            registry.removed = read_nodes(&mut r)?;
            registry.absent = read_nodes(&mut r)?;
            for _ in 0..r.count(28)? {
                registry.tokens.push(Token { digest: read_digest(&mut r)?, until: WallTime(r.u64()?) });
            }
            registry.replace_after = r.option(Reader::u64)?.map(Duration::from_millis);
            registry.paused = r.bool()?;
            registry.cluster = r.u64()?;
        }
        if version >= VERSION_ZONES {
            for _ in 0..r.count(2)? {
                registry.zones.insert(r.node()?, r.text()?.to_owned());
            }
        }
        if version >= VERSION_ALONE {
            for _ in 0..r.count(11)? {
                registry.alone.push(Alone { former: r.u64()?, node: r.node()?, below: r.u16()? });
            }
        }
        if version >= VERSION_RAISED {
            registry.version = r.u16()?;
        }
        if version >= VERSION_STEPPED {
            stepped::read(&mut r, &mut registry)?;
        }
        if version >= VERSION_ADDRESSES {
            for _ in 0..r.count(2)? {
                registry.addresses.insert(r.node()?, r.text()?.to_owned());
            }
        }
        if version >= VERSION_KEYS {
            registry.keys = Keys::read(&mut r)?;
        }
        if version >= VERSION_TRAILS {
            registry.trails = Trails::read(&mut r)?;
        }
        r.finish()?;
        Ok(registry)
    }

    pub(crate) fn write(&self, tree: &mut Tree, context: &EntryContext) {
        let mut bytes = Vec::new();
        let mut w = Writer::new(&mut bytes);
        let plain = Registry { voters: self.voters, drained: self.drained.clone(), ..Registry::default() };
        let is_plain = *self == plain;
        let version = match (is_plain, self.alone.is_empty(), self.zones.is_empty()) {
            _ if !self.trails.is_empty() => VERSION_TRAILS,
            _ if !self.keys.is_empty() => VERSION_KEYS,
            _ if !self.addresses.is_empty() => VERSION_ADDRESSES,
            _ if !self.stepped.is_empty() => VERSION_STEPPED,
            _ if Feature::RaisedVersion.is_in(self.version) => VERSION_RAISED,
            (true, ..) => VERSION,
            (false, false, _) => VERSION_ALONE,
            (false, true, false) => VERSION_ZONES,
            (false, true, true) => VERSION_NODES,
        };
        w.u8(version);
        w.u8(self.voters);
        write_nodes(&mut w, &self.drained);
        if !is_plain {
            w.count(self.founders.len());
            self.founders.iter().for_each(|member| write_member(&mut w, member));
            w.count(self.joined.len());
            for Joined { id, member, nonce } in &self.joined {
                w.node(*id);
                write_member(&mut w, member);
                w.u64(*nonce);
            }
            write_nodes(&mut w, &self.leaving);
            write_nodes(&mut w, &self.removed);
            write_nodes(&mut w, &self.absent);
            w.count(self.tokens.len());
            for token in &self.tokens {
                w.raw(&token.digest);
                w.u64(token.until.0);
            }
            w.option(self.replace_after, |w, after| w.u64(after.as_millis() as u64));
            w.bool(self.paused);
            w.u64(self.cluster);
        }
        if version >= VERSION_ZONES {
            w.count(self.zones.len());
            for (node, zone) in &self.zones {
                w.node(*node);
                w.bytes(zone.as_bytes());
            }
        }
        if version >= VERSION_ALONE {
            w.count(self.alone.len());
            for Alone { former, node, below } in &self.alone {
                w.u64(*former);
                w.node(*node);
                w.u16(*below);
            }
        }
        if version >= VERSION_RAISED {
            w.u16(self.version);
        }
        if version >= VERSION_STEPPED {
            stepped::write(&mut w, self);
        }
        if version >= VERSION_ADDRESSES {
            w.count(self.addresses.len());
            for (node, address) in &self.addresses {
                w.node(*node);
                w.bytes(address.as_bytes());
            }
        }
        if version >= VERSION_KEYS {
            self.keys.write(&mut w);
        }
        if version >= VERSION_TRAILS {
            self.trails.write(&mut w);
        }
        data::apply(tree, context, &[b"set", KEY, &bytes]);
    }

    /// Whether a node may lead and vote wherever it is wanted.
    pub(crate) fn serves(&self, node: NodeId) -> bool {
        ![&self.drained, &self.leaving, &self.removed, &self.absent].iter().any(|list| list.contains(&node))
    }

    /// Whether a node is of a cluster that this one has left behind, by its number. What it knows must not be heard here.
    pub(crate) fn left_behind(&self, id: NodeId) -> bool {
        self.alone.last().is_some_and(|last| id.0 < last.below && id != last.node)
    }

    /// Whether nobody asks any more what a node speaks, says or holds.
    pub(crate) fn is_out(&self, id: NodeId) -> bool {
        self.removed.contains(&id) || self.left_behind(id)
    }

    /// Whether this cluster comes from the one of that name.
    pub(crate) fn comes_from(&self, cluster: u64) -> bool {
        cluster != 0 && self.alone.iter().any(|alone| alone.former == cluster)
    }

    /// Where a node is reached, if it was said to the council.
    pub(crate) fn address_of(&self, node: NodeId) -> Option<&str> {
        let joined = self.joined.iter().find(|joined| joined.id == node).map(|joined| &joined.member.peer_address);
        joined.or_else(|| self.addresses.get(&node)).map(String::as_str)
    }

    /// The label of a node; empty: it is a zone of its own.
    pub(crate) fn zone_of(&self, node: NodeId) -> &str {
        self.zones.get(&node).map_or("", |zone| zone)
    }

    /// What the registry says of a node, in a word.
    pub(crate) fn state_of(&self, node: NodeId) -> &'static str {
        let of = [(&self.removed, "removed"), (&self.leaving, "leaving"), (&self.drained, "drained")];
        let absent = (&self.absent, "absent");
        of.into_iter().chain([absent]).find(|(list, _)| list.contains(&node)).map_or("serves", |(_, state)| state)
    }

    /// Who shall lead nothing as long as others can.
    pub(crate) fn spared(&self) -> Vec<NodeId> {
        let mut spared = [&self.drained[..], &self.leaving, &self.absent].concat();
        spared.sort_unstable();
        spared.dedup();
        spared
    }

    /// How many of so many founders' cluster shall vote in a partition.
    pub(crate) fn voters_wanted(&self, founders: usize) -> usize {
        if self.voters == 0 { founders } else { usize::from(self.voters) }
    }

    /// Who shall vote in a partition, who shall lead it, and who shall learn; `founders` have founded it, `nodes` are all there are, of whom
    /// `learns` says who has a copy, given who has a seat. Of a bucket in memory the `founders` are those who shall vote, by so many `moves`.
    pub(crate) fn roster(
        &self,
        map: &Map,
        partition: PartitionId,
        founders: &[NodeId],
        nodes: impl Iterator<Item = NodeId>,
        learns: impl Fn(&NodeId, &[NodeId]) -> bool,
        moves: Option<u64>,
    ) -> Roster {
        let seats = map.seats(partition, founders);
        let (spared, paused) = (self.spared(), self.paused);
        let leads = seats.iter().copied().find(|id| !spared.contains(id));
        let preferred = leads.or(seats.first().copied()).unwrap_or_default();
        let learners = nodes.filter(|id| learns(id, &seats)).collect();
        let voters = if paused || moves == Some(0) {
            Vec::new()
        } else {
            let mut voters = seats;
            voters.sort_unstable();
            voters
        };
        Roster { voters, learners, preferred, spared, number: moves.unwrap_or_default() }
    }
}

impl Bucket {
    /// Who has founded it, where so many have founded the cluster.
    pub(crate) fn founded_by(&self, founders: usize) -> Vec<NodeId> {
        let all = || (0..founders as u16).map(NodeId).collect();
        if self.founders.is_empty() { all() } else { self.founders.clone() }
    }
}

/// Where a partition's votes are as long as the map does not say: all of its founders vote, and lead in turn.
pub(crate) fn seats_of_founders(partition: PartitionId, founders: &[NodeId]) -> Vec<NodeId> {
    placement::order(partition, founders)
}

pub(super) fn write_nodes(w: &mut Writer<'_>, nodes: &[NodeId]) {
    w.count(nodes.len());
    nodes.iter().for_each(|node| w.node(*node));
}

pub(super) fn read_nodes(r: &mut Reader<'_>) -> Result<Vec<NodeId>, Malformed> {
    (0..r.count(1)?).map(|_| r.node()).collect()
}

pub(super) fn write_member(w: &mut Writer<'_>, member: &Member) {
    w.bytes(member.name.as_bytes());
    w.bytes(member.peer_address.as_bytes());
}

pub(super) fn read_member(r: &mut Reader<'_>) -> Result<Member, Malformed> {
    Ok(Member { name: r.text()?.to_owned(), peer_address: r.text()?.to_owned() })
}

pub(super) fn read_digest(r: &mut Reader<'_>) -> Result<[u8; 20], Malformed> {
    r.raw(20)?.try_into().map_err(|_| Malformed)
}

#[cfg(test)]
mod tests {
    use base::Position;

    use super::*;

    #[test]
    fn it_is_kept_in_the_state() {
        let mut tree = Tree::new();
        assert_eq!(Registry::read(&tree), Ok(Registry::default()));
        let plain = Registry { voters: 3, drained: vec![NodeId(1), NodeId(4)], ..Registry::default() };
        let member = |name: &str| Member { name: name.to_owned(), peer_address: format!("{name}:9001") };
        let full = Registry {
            founders: vec![member("n1"), member("n2")],
            joined: vec![Joined { id: NodeId(2), member: member("n3"), nonce: 7 }],
            leaving: vec![NodeId(0)],
            removed: vec![NodeId(3)],
            absent: vec![NodeId(1)],
            tokens: vec![Token { digest: [9; 20], until: WallTime(5) }],
            replace_after: None,
            paused: true,
            cluster: 77,
            ..plain.clone()
        };
        let zones = [(NodeId(0), "a".to_owned()), (NodeId(2), "b".to_owned())].into();
        let with_zones = Registry { zones, ..full.clone() };
        let zones_alone = Registry { zones: with_zones.zones.clone(), ..Registry::default() };
        let alone =
            vec![Alone { former: 77, node: NodeId(1), below: 9 }, Alone { former: 78, node: NodeId(12), below: 20 }];
        let alone = Registry { alone, cluster: 79, ..full.clone() };
        let both = Registry { zones: with_zones.zones.clone(), ..alone.clone() };
        let raised = Registry { version: 7, ..both.clone() };
        let only_raised = Registry { version: 7, ..Registry::default() };
        let stepped =
            SteppedOver { partition: PartitionId::default(), position: Position(3), digest: 4, at: WallTime(5) };
        let stepped = Registry { stepped: vec![stepped], stepped_total: 9, version: 8, ..both.clone() };
        let moved = Registry { addresses: [(NodeId(0), "c:2".to_owned())].into(), ..stepped.clone() };
        let only_moved = Registry { addresses: moved.addresses.clone(), version: 8, ..Registry::default() };
        let mut signed = Registry { version: 8, ..both.clone() };
        signed.trails.note(NodeId(1), TrailMark { sequence: u64::MAX, hash: [7; 32] });
        let versions = [
            plain,
            full,
            with_zones,
            zones_alone,
            alone,
            both,
            raised,
            only_raised,
            stepped,
            moved,
            only_moved,
            signed,
        ];
        for registry in versions {
            registry.write(&mut tree, &EntryContext::default());
            assert_eq!(Registry::read(&tree), Ok(registry));
        }
    }

    /// Bytes as nodes have written them, kept for ever: each is read, and each is written still where nothing has come since that needs a later version.
    #[test]
    fn older_versions_are_read() {
        let plain = Registry { voters: 3, drained: vec![NodeId(1)], ..Registry::default() };
        let member = |name: &str| Member { name: name.to_owned(), peer_address: format!("{name}:1") };
        let joined = vec![Joined { id: NodeId(1), member: member("b"), nonce: 7 }];
        let nodes = Registry { founders: vec![member("a")], joined, replace_after: None, cluster: 9, ..plain.clone() };
        let zones = Registry { zones: [(NodeId(1), "z".to_owned())].into(), ..nodes.clone() };
        let recovered = vec![Alone { former: 8, node: NodeId(1), below: 300 }];
        let alone = Registry { alone: recovered.clone(), ..nodes.clone() };
        let both = Registry { alone: recovered, ..zones.clone() };
        let raised = Registry { version: 7, ..both.clone() };
        let second =
            b"\x03\x01\x01\0\x01\x01a\x03a:1\x01\x01\0\x01b\x03b:1\x07\0\0\0\0\0\0\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0";
        let fourth = b"\x01\x08\0\0\0\0\0\0\0\x01\0\x2c\x01";
        let versions: [(Registry, Vec<u8>); 6] = [
            (plain, b"\x01\x03\x01\x01\0".to_vec()),
            (nodes, [b"\x02", &second[..]].concat()),
            (zones, [b"\x03", &second[..], b"\x01\x01\0\x01z"].concat()),
            (alone, [b"\x04", &second[..], b"\0", fourth].concat()),
            (both, [b"\x04", &second[..], b"\x01\x01\0\x01z", fourth].concat()),
            (raised, [b"\x05", &second[..], b"\x01\x01\0\x01z", fourth, b"\x07\0"].concat()),
        ];
        let context = EntryContext::default();
        for (registry, bytes) in versions {
            let mut tree = Tree::new();
            data::apply(&mut tree, &context, &[b"set", KEY, &bytes]);
            assert_eq!(Registry::read(&tree), Ok(registry.clone()));
            let mut written = Tree::new();
            registry.write(&mut written, &context);
            let Some(Value::String(again)) = written.get(KeyRef::new(KEY)).map(|record| record.value.clone()) else {
                panic!("it is a string")
            };
            assert_eq!(&again[..], bytes);
        }
    }
}
