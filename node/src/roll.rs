//! The nodes of the cluster, as one of them knows them: the founders by its configuration, those that have joined by what it was told when it
//! joined itself, and by the council's registry.
//!
//! A node's number is its own for ever: whoever joins gets the next one, and one that was removed never comes back under its old one. So
//! whatever an old log says of a number is about the same node.

use std::collections::BTreeMap;

use base::NodeId;

use crate::door::{Config, Member};
use crate::registry::Registry;
use crate::registry::keys::Keys;

/// See the file's head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Roll {
    members: BTreeMap<NodeId, Member>,
    /// By which keys they are known.
    keys: Keys,
}

/// What has come and gone.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Changes {
    pub came: Vec<NodeId>,
    pub went: Vec<NodeId>,
    /// They are reached at another address.
    pub moved: Vec<NodeId>,
    /// Some are known by other keys.
    pub keys: bool,
}

impl Roll {
    /// What a node knows before it has looked at the council's registry.
    pub(crate) fn new(config: &Config) -> Roll {
        let founders = config.members.iter().enumerate().map(|(place, member)| (NodeId(place as u16), member.clone()));
        Roll { members: founders.chain(config.joined.iter().cloned()).collect(), keys: Keys::default() }
    }

    /// Takes over what the registry says. It may be an old one, as long as its log is behind: who is not in it may be new, and stays; who was removed
    /// is so for ever.
    pub(crate) fn follow(&mut self, registry: &Registry) -> Changes {
        let mut changes = Changes::default();
        for joined in &registry.joined {
            match self.members.insert(joined.id, joined.member.clone()) {
                None => changes.came.push(joined.id),
                Some(before) if before != joined.member => changes.moved.push(joined.id),
                Some(_) => {}
            }
        }
        for (id, address) in &registry.addresses {
            if let Some(member) = self.members.get_mut(id).filter(|member| member.peer_address != *address) {
                member.peer_address.clone_from(address);
                changes.moved.push(*id);
            }
        }
        if self.keys != registry.keys {
            self.keys.clone_from(&registry.keys);
            changes.keys = true;
        }
        for id in &registry.removed {
            if self.members.remove(id).is_some() {
                changes.went.push(*id);
            }
        }
        changes
    }

    /// Somebody has come whom no registry has named yet. Whether that is news.
    pub(crate) fn meet(&mut self, id: NodeId, member: Member) -> bool {
        let is_new = !self.members.contains_key(&id);
        self.members.entry(id).or_insert(member);
        is_new
    }

    /// All numbers, ascending.
    pub(crate) fn ids(&self) -> impl Iterator<Item = NodeId> + Clone + '_ {
        self.members.keys().copied()
    }

    /// All nodes by their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, &Member)> {
        self.members.iter().map(|(id, member)| (*id, member))
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn get(&self, id: NodeId) -> Option<&Member> {
        self.members.get(&id)
    }

    /// One more than the highest number.
    pub(crate) fn bound(&self) -> usize {
        self.members.last_key_value().map_or(0, |(id, _)| usize::from(id.0) + 1)
    }

    /// The node of that name.
    pub(crate) fn named(&self, name: &[u8]) -> Option<NodeId> {
        self.iter().find(|(_, member)| member.name.as_bytes() == name).map(|(id, _)| id)
    }

    /// All names, for people.
    pub(crate) fn names(&self) -> String {
        self.iter().map(|(_, member)| &member.name[..]).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Joined;

    fn member(name: &str) -> Member {
        Member { name: name.to_owned(), peer_address: format!("{name}:9001") }
    }

    #[test]
    fn what_an_old_registry_does_not_know_stays_and_what_was_removed_goes() {
        let founders = ["n1", "n2"].into_iter().enumerate().map(|(place, name)| (NodeId(place as u16), member(name)));
        let mut roll = Roll { members: founders.chain([(NodeId(3), member("n4"))]).collect(), keys: Keys::default() };
        let old = Registry { joined: vec![Joined::new(NodeId(2), member("n3"))], ..Registry::default() };
        assert_eq!(roll.follow(&old), Changes { came: vec![NodeId(2)], ..Changes::default() });
        assert_eq!((roll.len(), roll.bound(), roll.names().as_str()), (4, 4, "n1, n2, n3, n4"));
        let new = Registry { removed: vec![NodeId(0), NodeId(2)], ..Registry::default() };
        assert_eq!(roll.follow(&new), Changes { went: vec![NodeId(0), NodeId(2)], ..Changes::default() });
        assert_eq!(roll.follow(&new), Changes::default());
        assert_eq!((roll.named(b"n4"), roll.named(b"n1"), roll.bound()), (Some(NodeId(3)), None, 4));
    }
}
