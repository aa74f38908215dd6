//! The keys by which nodes are known to each other under TLS, as the council has them: by their hashes.
//!
//! A node tells its key itself, once: the first one counts. From then on only an operator gives it another one beside that (to change it), or has its keys forgotten
//! (after its folder was lost with the key in it); then the next one that it tells counts.

use std::collections::BTreeMap;

use base::NodeId;
use data::Failure;
use wire::{Malformed, Reader, Writer};

/// The SHA-256 of a public key.
pub type NodeKey = [u8; 32];

/// Most keys of a node: the one that it has, and the one that it changes to.
const KEYS_MAX: usize = 2;

/// See the file's head. A node without a key is not in it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Keys(BTreeMap<NodeId, Vec<NodeKey>>);

/// What happens to a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeyChange {
    /// The node says that it has this key.
    Tell(NodeKey),
    /// An operator says that the node is to have this key, too.
    Add(NodeKey),
    /// An operator says that the node has none of the keys any more.
    Forget,
}

const TELL: u8 = 1;
const ADD: u8 = 2;
const FORGET: u8 = 3;

impl KeyChange {
    pub(super) fn encode(&self, w: &mut Writer<'_>) {
        match self {
            KeyChange::Tell(key) => {
                w.u8(TELL);
                w.raw(key);
            }
            KeyChange::Add(key) => {
                w.u8(ADD);
                w.raw(key);
            }
            KeyChange::Forget => w.u8(FORGET),
        }
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<KeyChange, Malformed> {
        Ok(match r.u8()? {
            TELL => KeyChange::Tell(read_key(r)?),
            ADD => KeyChange::Add(read_key(r)?),
            FORGET => KeyChange::Forget,
            _ => return Err(Malformed),
        })
    }
}

fn read_key(r: &mut Reader<'_>) -> Result<NodeKey, Malformed> {
    let mut key = [0; 32];
    for byte in &mut key {
        *byte = r.u8()?;
    }
    Ok(key)
}

impl Keys {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Keys, Malformed> {
        let mut keys = BTreeMap::new();
        for _ in 0..r.count(3)? {
            let node = r.node()?;
            let of_node = (0..r.count(32)?).map(|_| read_key(r)).collect::<Result<Vec<NodeKey>, _>>()?;
            if of_node.is_empty() || of_node.len() > KEYS_MAX {
                return Err(Malformed);
            }
            keys.insert(node, of_node);
        }
        Ok(Keys(keys))
    }

    pub(super) fn write(&self, w: &mut Writer<'_>) {
        w.count(self.0.len());
        for (node, keys) in &self.0 {
            w.node(*node);
            w.count(keys.len());
            keys.iter().for_each(|key| w.raw(key));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys of a node; empty: any key is taken.
    pub(crate) fn of(&self, node: NodeId) -> &[NodeKey] {
        self.0.get(&node).map_or(&[], Vec::as_slice)
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = (NodeId, &[NodeKey])> {
        self.0.iter().map(|(node, keys)| (*node, keys.as_slice()))
    }

    pub(super) fn forget(&mut self, node: NodeId) {
        self.0.remove(&node);
    }

    pub(super) fn change(&mut self, node: NodeId, change: KeyChange) -> Result<(), Failure> {
        let known = self.of(node);
        match change {
            KeyChange::Forget => self.forget(node),
            KeyChange::Tell(key) | KeyChange::Add(key) if known.contains(&key) => {}
            KeyChange::Tell(_) if !known.is_empty() => {
                return Err(Failure::Text(
                    "ERR the node has another key: DICTUM.NODE FORGETKEYS says that it has lost that",
                ));
            }
            KeyChange::Add(_) if known.len() >= KEYS_MAX => {
                return Err(Failure::Text(
                    "ERR a node has two keys at the most: DICTUM.NODE FORGETKEYS takes them away",
                ));
            }
            KeyChange::Tell(key) | KeyChange::Add(key) => self.0.entry(node).or_default().push(key),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(1);

    fn written(keys: &Keys) -> Vec<u8> {
        let mut bytes = Vec::new();
        keys.write(&mut Writer::new(&mut bytes));
        bytes
    }

    #[test]
    fn the_first_key_counts_until_an_operator_says_otherwise() {
        let mut keys = Keys::default();
        assert_eq!(keys.change(NODE, KeyChange::Tell([1; 32])), Ok(()));
        assert_eq!(keys.change(NODE, KeyChange::Tell([1; 32])), Ok(()), "it may say so again");
        assert!(keys.change(NODE, KeyChange::Tell([2; 32])).is_err());
        assert_eq!(keys.of(NODE), [[1; 32]]);
        assert_eq!(keys.change(NODE, KeyChange::Add([2; 32])), Ok(()));
        assert_eq!(keys.change(NODE, KeyChange::Tell([2; 32])), Ok(()));
        assert!(keys.change(NODE, KeyChange::Add([3; 32])).is_err(), "two are enough");
        let bytes = written(&keys);
        assert_eq!(Keys::read(&mut Reader::from_slice(&bytes)), Ok(keys.clone()));
        assert_eq!(keys.change(NODE, KeyChange::Forget), Ok(()));
        assert!(keys.is_empty());
        assert_eq!(keys.change(NODE, KeyChange::Tell([3; 32])), Ok(()));
    }

    #[test]
    fn a_node_without_a_key_or_with_many_is_no_state() {
        for count in [0, 3] {
            let keys = Keys(BTreeMap::from([(NODE, vec![[1; 32]; count])]));
            assert_eq!(Keys::read(&mut Reader::from_slice(&written(&keys))), Err(Malformed));
        }
    }
}
