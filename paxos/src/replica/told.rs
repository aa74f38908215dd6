//! What a replica tells of itself: to its owner, to whoever sends a heartbeat, to people. Nothing here changes anything.

use std::sync::Arc;

use base::{Ballot, NodeId, Position};

use super::{Replica, Role, RoleName};
use crate::door::HardState;
use crate::log::Log;
use crate::members::{Members, Membership};
use crate::message::Tail;

impl Replica {
    /// Who votes, and who did before, as far as this replica's log knows.
    #[must_use]
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// What it is about, in a line, for whoever looks why a group does not go on.
    #[must_use]
    pub fn portrait(&self) -> String {
        let list = |members: &[crate::members::Member]| {
            let one = |member: &crate::members::Member| format!("{}@{:x}", member.node, member.incarnation);
            members.iter().map(one).collect::<Vec<_>>().join(" ")
        };
        let now = &self.membership.now;
        let up: Vec<String> = self.peers.iter().filter(|peer| peer.up).map(|peer| peer.id.to_string()).collect();
        let (joins, recovering) =
            (if self.joins { " joins" } else { "" }, if self.recovering { " recovering" } else { "" });
        let known: Vec<String> = self.incarnations.iter().map(|known| format!("{known:x}")).collect();
        format!(
            "{:?}{joins}{recovering} promised {} decided {} last {} as {:x}, knows [{}], by {} vote [{}] then [{}], up [{}]",
            self.role(),
            self.promised,
            self.decided,
            self.log.last(),
            self.incarnation,
            known.join(" "),
            now.at,
            list(&now.voters),
            list(&now.incoming),
            up.join(" "),
        )
    }

    /// Who votes, as far as this replica's log knows.
    #[must_use]
    pub fn members(&self) -> &Members {
        &self.membership.now
    }

    /// The latest incarnation of a node's replica that this one has noted, or under which that one votes; 0 if none is known.
    #[must_use]
    pub fn incarnation_known_of(&self, node: NodeId) -> u64 {
        self.incarnation_of(node)
    }

    /// Whether this replica decides everything alone.
    pub(crate) fn is_alone(&self) -> bool {
        self.membership.now.is_quorum(|id| id == self.config.me)
    }

    /// Whether enough voters are up, by the failure detector; this one is.
    pub(crate) fn reaches_majority(&self) -> bool {
        self.membership.now.is_quorum(|id| id == self.config.me || self.peer(id).is_some_and(|peer| peer.up))
    }

    /// The current state that must survive; stored by the owner with every batch of records.
    #[must_use]
    pub fn hard_state(&self) -> HardState {
        HardState {
            promised: self.promised,
            decided: self.decided,
            incarnation: self.incarnation,
            incarnations: self.incarnations.clone(),
            recovering: self.recovering,
            forgotten_until: self.forgotten_until,
            joins: self.joins,
            membership: {
                let is_news = self.membership.now.at > Position(0) || self.config.stores_founders;
                is_news.then(|| Arc::clone(&self.membership))
            },
        }
    }

    /// Which life of this replica's memory this is: see [`HardState::incarnation`].
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The replica has never had a vote.
    #[must_use]
    pub fn joins(&self) -> bool {
        self.joins
    }

    /// The leader that this replica follows, or is, with its ballot; none while it knows of none that works.
    #[must_use]
    pub fn leader(&self) -> Option<(NodeId, Ballot)> {
        match &self.role {
            Role::Leader(_) => Some((self.config.me, self.promised)),
            Role::Follower | Role::Amnesiac(_) => self.live_leader().map(|id| (id, self.promised)),
            Role::Blank(_) | Role::PreCandidate(_) | Role::Candidate(_) => None,
        }
    }

    /// The leader of the promised ballot, if it is up and says that it leads.
    pub(crate) fn live_leader(&self) -> Option<NodeId> {
        let peer = self.peer(self.promised.node)?;
        let speaks = peer.heard.is_some_and(|(ballot, _)| ballot == self.promised);
        (peer.up && (speaks || peer.leads == Some(self.promised))).then_some(peer.id)
    }

    /// The ballot under which this replica leads, for the failure detector's messages.
    #[must_use]
    pub fn leads(&self) -> Option<Ballot> {
        matches!(self.role, Role::Leader(_)).then_some(self.promised)
    }

    /// See [`Replica::hold_back`].
    #[must_use]
    pub fn is_held_back(&self) -> bool {
        self.held_back
    }

    /// Whether [`crate::Input::Propose`] would be taken now.
    #[must_use]
    pub fn can_propose(&self) -> bool {
        match &self.role {
            Role::Leader(leader) => leader.takes_proposals(self),
            _ => false,
        }
    }

    /// The role, for people.
    #[must_use]
    pub fn role(&self) -> RoleName {
        match self.role {
            Role::Leader(_) => RoleName::Leader,
            Role::Follower => RoleName::Follower,
            Role::PreCandidate(_) | Role::Candidate(_) => RoleName::Candidate,
            Role::Blank(_) | Role::Amnesiac(_) => RoleName::Recovering,
        }
    }

    /// Everything up to here is decided.
    #[must_use]
    pub fn decided(&self) -> Position {
        self.decided
    }

    /// The highest ballot that this replica has promised.
    #[must_use]
    pub fn promised(&self) -> Ballot {
        self.promised
    }

    /// The log.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// How far the log reaches.
    pub(crate) fn tail(&self) -> Tail {
        self.log.tail()
    }
}
