//! The node registry: what the council says of the nodes. From it follows who votes in which partition ([`crate::placement`]).

use base::limits::VOTERS_MAX;
use base::{NodeId, PartitionId};
use data::{EntryContext, Failure, KeyRef, Tree, Value};
use paxos::Roster;
use wire::{Malformed, Reader, Writer};

use crate::placement;

/// The key that it stands under in the council's state.
const KEY: &[u8] = b"nodes";
const VERSION: u8 = 1;

/// See the file's head. The default: all nodes serve, and all vote.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Registry {
    /// How many vote in each partition; 0: all.
    pub voters: u8,
    /// Who shall lead nothing, and vote nowhere where others can; sorted.
    pub drained: Vec<NodeId>,
}

/// What an entry asks of the registry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// A node is drained, or serves again.
    Drain {
        node: NodeId,
        drained: bool,
        /// How many nodes there are.
        nodes: u16,
    },
    /// How many vote in each partition; 0: all.
    Voters { count: u8 },
}

const DRAIN: u8 = 1;
const VOTERS: u8 = 2;

impl Change {
    pub(crate) fn encode(self, w: &mut Writer<'_>) {
        match self {
            Change::Drain { node, drained, nodes } => {
                w.u8(DRAIN);
                w.node(node);
                w.bool(drained);
                w.u16(nodes);
            }
            Change::Voters { count } => {
                w.u8(VOTERS);
                w.u8(count);
            }
        }
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Change, Malformed> {
        Ok(match r.u8()? {
            DRAIN => Change::Drain { node: r.node()?, drained: r.bool()?, nodes: r.u16()? },
            VOTERS => Change::Voters { count: r.u8()? },
            _ => return Err(Malformed),
        })
    }
}

impl Registry {
    pub(crate) fn read(tree: &Tree) -> Result<Registry, Malformed> {
        let Some(record) = tree.get(KeyRef::new(KEY)) else { return Ok(Registry::default()) };
        let Value::String(bytes) = &record.value else { return Err(Malformed) };
        let mut r = Reader::from_slice(bytes);
        if r.u8()? != VERSION {
            return Err(Malformed);
        }
        let mut registry = Registry { voters: r.u8()?, drained: Vec::new() };
        for _ in 0..r.count(1)? {
            registry.drained.push(r.node()?);
        }
        r.finish()?;
        Ok(registry)
    }

    pub(crate) fn write(&self, tree: &mut Tree, context: &EntryContext) {
        let mut bytes = Vec::new();
        let mut w = Writer::new(&mut bytes);
        w.u8(VERSION);
        w.u8(self.voters);
        w.count(self.drained.len());
        self.drained.iter().for_each(|node| w.node(*node));
        data::apply(tree, context, &[b"set", KEY, &bytes]);
    }

    pub(crate) fn carry_out(&mut self, change: Change) -> Result<(), Failure> {
        match change {
            Change::Drain { node, drained: false, .. } => self.drained.retain(|other| *other != node),
            Change::Drain { node, nodes, .. } if !self.drained.contains(&node) => {
                if self.drained.len() + 1 >= usize::from(nodes) {
                    return Err(Failure::Text(
                        "ERR it is the last node that serves: nobody could take over what it leads",
                    ));
                }
                self.drained.push(node);
                self.drained.sort_unstable();
            }
            Change::Drain { .. } => {}
            Change::Voters { count } if usize::from(count) > VOTERS_MAX => {
                let text = format!("ERR no more than {VOTERS_MAX} nodes can vote in a partition");
                return Err(Failure::built(text.as_bytes()));
            }
            Change::Voters { count } => self.voters = count,
        }
        Ok(())
    }

    pub(crate) fn serves(&self, node: NodeId) -> bool {
        !self.drained.contains(&node)
    }

    /// Who shall vote in a partition of a cluster of so many nodes, and who shall lead it. `may_change`: not of those whose voters have to stay
    /// (the ephemeral ones), where only the leader is chosen.
    pub(crate) fn roster(&self, partition: PartitionId, nodes: usize, may_change: bool) -> Roster {
        let nodes: Vec<NodeId> = (0..nodes as u16).map(NodeId).collect();
        let count = if self.voters == 0 || !may_change { nodes.len() } else { usize::from(self.voters) };
        let (voters, preferred) = placement::voters(partition, &nodes, |node| self.serves(node), count);
        let learners = nodes.into_iter().filter(|node| !voters.contains(node)).collect();
        let voters = if may_change { voters } else { Vec::new() };
        Roster { voters, learners, preferred, spared: self.drained.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::council::COUNCIL;

    #[test]
    fn somebody_always_serves() {
        let mut registry = Registry::default();
        let drain = |node, drained| Change::Drain { node: NodeId(node), drained, nodes: 3 };
        assert_eq!(registry.carry_out(drain(2, true)), Ok(()));
        assert_eq!(registry.carry_out(drain(2, true)), Ok(()), "said again");
        assert_eq!(registry.carry_out(drain(0, true)), Ok(()));
        assert!(registry.carry_out(drain(1, true)).is_err());
        assert_eq!(registry.drained, [0, 2].map(NodeId));
        assert_eq!(registry.carry_out(drain(0, false)), Ok(()));
        assert!(registry.carry_out(Change::Voters { count: 8 }).is_err());
        let roster = registry.roster(COUNCIL, 3, true);
        assert_eq!((roster.voters.len(), roster.preferred), (3, NodeId(0)), "a drained node votes where it is needed");
    }

    #[test]
    fn it_is_kept_in_the_state_and_its_changes_in_entries() {
        let mut tree = Tree::new();
        assert_eq!(Registry::read(&tree), Ok(Registry::default()));
        let registry = Registry { voters: 3, drained: vec![NodeId(1), NodeId(4)] };
        registry.write(&mut tree, &EntryContext::default());
        assert_eq!(Registry::read(&tree), Ok(registry));
        for change in [Change::Drain { node: NodeId(4), drained: true, nodes: 5 }, Change::Voters { count: 3 }] {
            let mut bytes = Vec::new();
            change.encode(&mut Writer::new(&mut bytes));
            assert_eq!(Change::decode(&mut Reader::from_slice(&bytes)), Ok(change));
        }
    }
}
