//! The cluster map: whose votes each partition shall have, and who shall lead it.
//!
//! It says what shall be, not what is: who votes is an entry of each partition's own log, and whoever leads a partition brings it to what the map says.
//! It is made by whoever leads the council ([`crate::planner`]), from the map before, so that nothing moves that need not; and stands in the council's
//! log as a whole, so that no two versions of Dictum need to come to the same plan.

use std::collections::BTreeMap;

use base::limits::{PARTITIONS_ALL_MAX, VOTERS_MAX};
use base::{NodeId, PartitionId};
use data::{EntryContext, KeyRef, Tree, Value};
use wire::{Malformed, Reader, Writer};

use super::{MAP_KEY, read_nodes, seats_of_founders, write_nodes};

const VERSION: u8 = 1;

/// See the file's head.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Map {
    /// Grows with every change.
    pub epoch: u64,
    /// Who shall vote, whoever shall lead first. What is not in here is as its founders have it.
    pub seats: BTreeMap<PartitionId, Vec<NodeId>>,
}

impl Map {
    /// Who shall vote in a partition that these have founded; the first shall lead.
    pub(crate) fn seats(&self, partition: PartitionId, founders: &[NodeId]) -> Vec<NodeId> {
        self.seats.get(&partition).cloned().unwrap_or_else(|| seats_of_founders(partition, founders))
    }

    pub(crate) fn encode(&self, w: &mut Writer<'_>) {
        w.u64(self.epoch);
        w.count(self.seats.len());
        for (partition, seats) in &self.seats {
            w.partition(*partition);
            write_nodes(w, seats);
        }
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Map, Malformed> {
        let mut map = Map { epoch: r.u64()?, seats: BTreeMap::new() };
        for _ in 0..r.count(4)? {
            let (partition, seats) = (r.partition()?, read_nodes(r)?);
            if seats.is_empty() || seats.len() > VOTERS_MAX || map.seats.len() > PARTITIONS_ALL_MAX {
                return Err(Malformed);
            }
            map.seats.insert(partition, seats);
        }
        Ok(map)
    }

    pub(crate) fn read(tree: &Tree) -> Result<Map, Malformed> {
        let Some(record) = tree.get(KeyRef::new(MAP_KEY)) else { return Ok(Map::default()) };
        let Value::String(bytes) = &record.value else { return Err(Malformed) };
        let mut r = Reader::from_slice(bytes);
        if r.u8()? != VERSION {
            return Err(Malformed);
        }
        let map = Map::decode(&mut r)?;
        r.finish()?;
        Ok(map)
    }

    pub(crate) fn write(&self, tree: &mut Tree, context: &EntryContext) {
        let mut bytes = Vec::new();
        let mut w = Writer::new(&mut bytes);
        w.u8(VERSION);
        self.encode(&mut w);
        data::apply(tree, context, &[b"set", MAP_KEY, &bytes]);
    }
}

#[cfg(test)]
mod tests {
    use base::BucketId;

    use super::*;

    #[test]
    fn it_is_kept_in_the_state_and_founders_vote_where_it_says_nothing() {
        let mut tree = Tree::new();
        assert_eq!(Map::read(&tree), Ok(Map::default()));
        let at = |index| PartitionId { bucket: BucketId(3), index };
        let map = Map { epoch: 7, seats: [(at(0), vec![NodeId(4), NodeId(1)])].into() };
        map.write(&mut tree, &EntryContext::default());
        assert_eq!(Map::read(&tree), Ok(map.clone()));
        assert_eq!(map.seats(at(0), &[NodeId(0)]), [NodeId(4), NodeId(1)]);
        let mut founders = map.seats(at(1), &[0, 1, 2].map(NodeId));
        founders.sort_unstable();
        assert_eq!(founders, [0, 1, 2].map(NodeId));
    }
}
