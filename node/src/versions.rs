//! Which versions the nodes of this cluster speak, and what follows: in which version a link's messages are, and the version of the cluster.
//!
//! The cluster's version stands in the council's registry and says what may be written into logs and states ([`base::versions`]). Where it stands, every
//! node that is in the cluster speaks it:
//! 1. A node says which versions it speaks when it makes a link. Whoever leads the council orders the version to be raised as soon as every node is known
//!    to speak a newer one, whether or not it is up now; one that was not heard since this leader's start holds it back.
//! 2. The order names those nodes. It has no effect if another one is in the cluster when it is applied: that one joined meanwhile, and may be older.
//! 3. A node that speaks less is not let in: not by the order that lets nodes join, not by the handshake of a link, and not by its own folder at a start.
//! 4. If it finds out from the log, it stops before it applies anything of that version.

use base::NodeId;
use base::versions::{By, FEATURES, Feature, OLDEST};
use bytes::Bytes;
use data::Failure;
use paxos::{Entry, Message};

use crate::council::{COUNCIL, Order};
use crate::door::{LinkTerms, Planted};
use crate::entry::{Header, Kind, Unreadable};
use crate::node::Node;
use crate::peer::PeerMessage;
use crate::registry::Change;

/// Why a node does not take part.
pub(crate) fn too_old(version: u16, newest: u16) -> String {
    format!(
        "the cluster has version {version}, and this node speaks {newest} at the most: a newer Dictum has to be started here{}",
        if newest < base::versions::NEWEST { ", or this one without --speak-at-most" } else { "" }
    )
}

impl Node {
    /// The version of the cluster, as far as this node follows the council's log.
    #[must_use]
    pub fn cluster_version(&self) -> u16 {
        self.registry.version
    }

    /// Whether something may be written into a log or a state.
    pub(crate) fn has(&self, feature: Feature) -> bool {
        debug_assert!(FEATURES.iter().any(|(other, _, by)| *other == feature && *by == By::Cluster), "{feature:?}");
        feature.is_in(self.entries_in)
    }

    /// Goes by the version that the registry has now.
    pub(crate) fn follow_version(&mut self) {
        let (version, newest) = (self.registry.version, self.config.newest);
        if version > newest {
            self.fatal.get_or_insert_with(|| too_old(version, newest));
        }
        let too_soon = self.config.planted == Some(Planted::FeatureTooSoon);
        let entries_in = if too_soon { newest } else { version };
        if self.entries_in != entries_in {
            self.entries_in = entries_in;
            self.roll_told = false;
        }
    }

    /// In which version a peer is spoken to, and speaks.
    pub(crate) fn version_with(&self, peer: NodeId) -> u16 {
        self.links.get(&peer).map_or(self.config.newest, |versions| versions.spoken)
    }

    /// A link was made.
    pub(crate) fn note_terms(&mut self, peer: NodeId, terms: LinkTerms) {
        if terms.spoken < self.config.newest {
            self.probe("node: a link in an older version");
        }
        let before = self.links.insert(peer, terms);
        if before.is_some_and(|before| before.spoken != terms.spoken)
            && let Some(out) = self.peers_out.get_mut(usize::from(peer.0))
        {
            // It was for the link before this one.
            out.clear();
        }
    }

    /// The newest version that a node speaks, if this one knows it.
    pub(crate) fn newest_of(&self, id: NodeId) -> Option<u16> {
        if id == self.config.me { Some(self.config.newest) } else { self.links.get(&id).map(|terms| terms.newest) }
    }

    /// The order that raises the cluster's version, if all speak more.
    pub(crate) fn raising(&mut self) -> Option<Change> {
        if self.config.newest <= self.registry.version {
            return None;
        }
        let members: Vec<NodeId> = self.roll.ids().filter(|id| !self.registry.left_behind(*id)).collect();
        let all = members
            .iter()
            .map(|id| self.newest_of(*id))
            .try_fold(self.config.newest, |least, newest| Some(least.min(newest?)));
        match all {
            Some(version) if version > self.registry.version => {
                let founders = self.config.members.len() as u16;
                Some(Change::Version { version, speak: members, founders })
            }
            Some(_) => {
                self.probe("node: an older node holds the cluster's version back");
                None
            }
            None => None,
        }
    }

    /// Refuses a command that not all nodes know yet, or one with a name that not all nodes take.
    pub(crate) fn check_version(&self, entry: &data::Entry, words: &[&[u8]]) -> Result<(), Failure> {
        let spec = entry.spec;
        data::check_names(entry, words, self.entries_in).map_err(|failure| {
            let since = Feature::LongNames.since();
            let text = format!(
                "{failure}; longer ones came with version {since}, and the cluster has version {}: they can be used when every node speaks that (dictum node list)",
                self.entries_in
            );
            Failure::built(text.as_bytes())
        })?;
        let since = base::versions::command_since(spec.name);
        if since <= self.entries_in {
            return Ok(());
        }
        let text = format!(
            "ERR '{}' came with version {since}, and the cluster has version {}: it can be used when every node speaks that (dictum node list)",
            spec.name, self.entries_in
        );
        Err(Failure::built(text.as_bytes()))
    }

    /// Refuses an order of the council that not all nodes can carry out yet.
    pub(crate) fn check_order(&self, order: &Order) -> Result<(), Failure> {
        let since = order.version();
        if since <= self.entries_in {
            return Ok(());
        }
        let text = format!(
            "ERR a setting came with version {since}, and the cluster has version {}: it can be used when every node speaks that (dictum node list)",
            self.entries_in
        );
        Err(Failure::built(text.as_bytes()))
    }
}

/// The newest version that whoever takes this message from a link of the version `spoken` has to speak, entries in it included; none if it is no message of
/// that version at all. For checkers.
#[must_use]
pub fn version_of_message(bytes: &Bytes, spoken: u16) -> Option<u16> {
    let of_entry = |entry: &Entry, is_council: bool| match Header::decode(&entry.payload, u16::MAX) {
        Ok((header, body)) if is_council && header.kind == Kind::Council => {
            header.version.max(Order::decode(body).map_or(OLDEST, |order| order.version()))
        }
        Ok((header, _)) => header.version,
        Err(Unreadable::Version(version)) => version,
        Err(Unreadable::Malformed) => OLDEST,
    };
    let message = PeerMessage::decode(bytes, spoken).ok()?;
    let of_entries = match &message {
        PeerMessage::Paxos {
            partition,
            message: Message::Accept { entries, .. } | Message::Fetched { entries, .. },
        } => entries.iter().map(|entry| of_entry(entry, *partition == COUNCIL)).max(),
        _ => None,
    };
    Some(spoken.max(of_entries.unwrap_or(OLDEST)))
}
