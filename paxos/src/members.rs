//! Who votes, and how that changes while the log goes on.
//!
//! Who votes is itself an entry of the log. A replica goes by the last such entry in its log, decided or not; where there is none, by the
//! founders. A change takes two entries: the first makes the group **joint**, and then whatever needs a majority needs one of the old
//! voters and one of the new; when it is decided, the second ends that, and the new ones are alone. So at every moment any two quorums
//! that can decide anything meet. A leader begins a change only when the last one, and its own opening entry, are decided: of all such
//! entries at most one is undecided in any log, and a log that is cut goes back one step.
//!
//! A **learner** has the log and the state and no vote. Whoever shall vote learns first: it is made a voter when its log is close behind.
//! Replicas outside the group are told what shall be by their owner ([`Roster`]), which may change its mind at any time.
//!
//! Where others count who votes ([`Roster::number`]), an entry says for which of their orders it was written, and a leader that knows an older one changes nothing.
//!
//! An entry names each voter with the incarnation under which it was admitted (see [`crate::recovery`]). A replica that has not voted yet, and finds
//! itself named with another incarnation than its own, has voted and forgotten it: it goes and recovers before it votes.

use std::sync::Arc;

use base::limits::{CLOSE_ENTRIES, VOTERS_MAX};
use base::{NodeId, Position, Time};
use bytes::Bytes;

use crate::door::{Output, Planted};
use crate::proposer::Follower;
use crate::replica::{Replica, Role};

/// The first byte of an entry that says who votes. No other payload may begin with it.
pub const MARK: u8 = 0xfe;
/// The version of such entries.
const VERSION: u8 = 1;
/// With the number of an order, which is not 0, behind it.
const VERSION_NUMBERED: u8 = 2;

/// One voter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Member {
    /// Its node.
    pub node: NodeId,
    /// The highest incarnation of it that was known when the entry was written; 0 if none was (founders).
    pub incarnation: u64,
}

/// Who votes from some position on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Members {
    /// The position of the entry that says so; 0 for the founders.
    pub at: Position,
    /// Sorted by node, never empty.
    pub voters: Vec<Member>,
    /// While the group is joint: who shall vote alone afterwards. Sorted by node; empty otherwise.
    pub incoming: Vec<Member>,
    /// The number of the order that it follows: see [`Roster::number`].
    pub number: u64,
}

/// Bytes that say nothing about members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

impl Members {
    /// Those who found a group.
    #[must_use]
    pub fn founders(nodes: &[NodeId]) -> Members {
        let voters = nodes.iter().map(|node| Member { node: *node, incarnation: 0 }).collect();
        Members { voters, ..Members::default() }
    }

    /// Whether this payload says who votes.
    #[must_use]
    pub fn is_in(payload: &[u8]) -> bool {
        payload.first() == Some(&MARK)
    }

    /// As the payload of an entry; where it stands is not in it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![MARK];
        if self.number == 0 {
            out.push(VERSION);
        } else {
            out.push(VERSION_NUMBERED);
            out.extend_from_slice(&self.number.to_le_bytes());
        }
        for list in [&self.voters, &self.incoming] {
            out.push(list.len() as u8);
            for member in list {
                out.extend_from_slice(&member.node.0.to_le_bytes());
                out.extend_from_slice(&member.incarnation.to_le_bytes());
            }
        }
        out
    }

    /// What the payload of the entry at `at` says.
    ///
    /// # Errors
    /// If it is not of this version, or no group: without voters, with too many, or not in order.
    pub fn decode(at: Position, payload: &[u8]) -> Result<Members, Malformed> {
        let (number, rest) = match payload {
            [MARK, VERSION, rest @ ..] => (0, rest),
            [MARK, VERSION_NUMBERED, rest @ ..] => {
                let (number, rest) = rest.split_first_chunk::<8>().ok_or(Malformed)?;
                (u64::from_le_bytes(*number), rest)
            }
            _ => return Err(Malformed),
        };
        let (voters, rest) = decode_list(rest)?;
        let (incoming, rest) = decode_list(rest)?;
        if voters.is_empty() || !rest.is_empty() {
            return Err(Malformed);
        }
        Ok(Members { at, voters, incoming, number })
    }

    /// Whether two sets of voters have to agree.
    #[must_use]
    pub fn is_joint(&self) -> bool {
        !self.incoming.is_empty()
    }

    /// Whether the node has a vote now.
    #[must_use]
    pub fn names(&self, node: NodeId) -> bool {
        self.admitted(node).is_some()
    }

    /// Whether the node has a vote once the change that is under way is over.
    #[must_use]
    pub fn keeps(&self, node: NodeId) -> bool {
        self.last_list().iter().any(|member| member.node == node)
    }

    /// The incarnation under which a voter is named.
    #[must_use]
    pub fn admitted(&self, node: NodeId) -> Option<u64> {
        let named = self.voters.iter().chain(&self.incoming).find(|member| member.node == node);
        named.map(|member| member.incarnation)
    }

    /// All who have a vote now, each once, sorted.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.voters.iter().chain(&self.incoming).map(|member| member.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Whether these (sorted, each once) are all who have a vote now.
    fn are(&self, nodes: &[NodeId]) -> bool {
        let has_vote = |node: &NodeId| self.voters.iter().any(|member| member.node == *node);
        !self.is_joint() && self.voters.len() == nodes.len() && nodes.iter().all(has_vote)
    }

    /// Who votes once the change that is under way is over; without one, who votes.
    #[must_use]
    pub fn last_list(&self) -> &[Member] {
        if self.is_joint() { &self.incoming } else { &self.voters }
    }

    /// Whether those whom `has` chooses can decide: a majority of the voters, and of the incoming ones.
    #[must_use]
    pub fn is_quorum(&self, has: impl Fn(NodeId) -> bool) -> bool {
        self.lists().all(|list| count(list, &has) > list.len() / 2)
    }

    /// Whether those whom `has` chooses, with one more who asks, have a part of every quorum that this one is in.
    #[must_use]
    pub fn meets_every_quorum(&self, has: impl Fn(NodeId) -> bool) -> bool {
        self.lists().all(|list| count(list, &has) > (list.len() - 1) / 2)
    }

    /// The highest position that a quorum has, where `of` says how far each one is.
    #[must_use]
    pub fn quorum_has(&self, of: impl Fn(NodeId) -> Position) -> Position {
        let of_list = |list: &[Member]| {
            let mut copies: Vec<Position> = list.iter().map(|member| of(member.node)).collect();
            copies.sort_unstable_by(|a, b| b.cmp(a));
            copies[list.len() / 2]
        };
        self.lists().map(of_list).min().unwrap_or_default()
    }

    fn lists(&self) -> impl Iterator<Item = &[Member]> {
        [&self.voters[..], &self.incoming[..]].into_iter().filter(|list| !list.is_empty())
    }
}

fn count(list: &[Member], has: &impl Fn(NodeId) -> bool) -> usize {
    list.iter().filter(|member| has(member.node)).count()
}

fn decode_list(bytes: &[u8]) -> Result<(Vec<Member>, &[u8]), Malformed> {
    let (count, mut rest) = bytes.split_first().ok_or(Malformed)?;
    let mut list = Vec::new();
    for _ in 0..*count {
        let (node, after) = rest.split_first_chunk::<2>().ok_or(Malformed)?;
        let (incarnation, after) = after.split_first_chunk::<8>().ok_or(Malformed)?;
        rest = after;
        list.push(Member { node: NodeId(u16::from_le_bytes(*node)), incarnation: u64::from_le_bytes(*incarnation) });
    }
    let ascends = list.windows(2).all(|pair| pair[0].node < pair[1].node);
    if ascends && list.len() <= VOTERS_MAX { Ok((list, rest)) } else { Err(Malformed) }
}

/// Who votes by the log of one replica, and who did before: the last entry may be cut off as long as it is not decided.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Membership {
    /// By the last entry of the log that says so.
    pub now: Members,
    /// By the one before it, which is decided.
    pub before: Members,
}

impl Membership {
    /// Nothing was ever changed.
    #[must_use]
    pub fn of(members: Members) -> Membership {
        Membership { before: members.clone(), now: members }
    }

    /// The log ends here now. Whether that took something back.
    pub(crate) fn cut(&mut self, last: Position) -> bool {
        let cuts = self.now.at > last;
        if cuts {
            self.now = self.before.clone();
        }
        cuts
    }
}

/// What the owner wants: who shall vote, who shall have a copy without a vote, who shall lead when all is well, and who shall not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Roster {
    /// Who shall vote, sorted. Empty: whoever votes now.
    pub voters: Vec<NodeId>,
    /// Who else has a replica.
    pub learners: Vec<NodeId>,
    /// Who shall lead when all is well; further voters follow in circular order.
    pub preferred: NodeId,
    /// Who shall not lead as long as others can.
    pub spared: Vec<NodeId>,
    /// Of orders that somebody counts, the number of the one that says who shall vote; 0 where nobody counts. A change of voters carries it into the log, so that
    /// whoever leads later with an older order changes nothing; and what is decided under it is known never to be changed by an older one again.
    pub number: u64,
}

impl Replica {
    /// The log's entry at `at` was appended just now: does it say who votes?
    pub(crate) fn notice_members(&mut self, at: Position, payload: &[u8]) {
        if !Members::is_in(payload) {
            return;
        }
        // Whoever wrote or sent it has looked: see `Replica::on_accept`.
        let Ok(members) = Members::decode(at, payload) else { return };
        if at <= self.membership.now.at {
            // A replica that lost its memory has cut its log below what it knows to be decided. It goes by that, while the log grows there again.
            return;
        }
        let before = self.membership.now.clone();
        self.membership = Arc::new(Membership { now: members, before });
    }

    /// A log was cut, or begins anew: goes by what is left of it.
    pub(crate) fn members_after_cut(&mut self) {
        if self.membership.now.at > self.log.last() && Arc::make_mut(&mut self.membership).cut(self.log.last()) {
            self.probe("paxos: a change of voters is cut off");
        }
    }

    /// What the log says now concerns this replica itself, perhaps: it has a vote, or finds that it has had one that it has forgotten.
    pub(crate) fn follow_members(&mut self, now: Time, out: &mut Vec<Output>) {
        let Some(admitted) = self.membership.now.admitted(self.config.me) else { return };
        let forgot = if self.joins { admitted != self.incarnation } else { admitted > self.incarnation };
        let joined = std::mem::replace(&mut self.joins, false);
        if matches!(self.role, Role::Blank(_) | Role::Amnesiac(_)) {
            return;
        }
        if joined {
            for member in self.membership.now.voters.iter().chain(&self.membership.now.incoming) {
                note_incarnation(&mut self.incarnations, *member);
            }
        }
        if forgot {
            self.probe("paxos: learner finds that it has voted");
            self.incarnation = self.incarnation.max(admitted);
            self.become_amnesiac(true, now, out);
        } else if joined {
            self.probe("paxos: learner votes");
            out.push(Output::Event("has a vote now".to_owned()));
        }
    }

    /// What the owner wants from now on.
    pub(crate) fn on_roster(&mut self, now: Time, roster: Roster) {
        self.config.preferred = roster.preferred;
        self.roster = roster;
        self.follow_roster(now);
    }

    /// The leader begins or goes on with a change of voters, as far as it may.
    pub(crate) fn change_members(&mut self, now: Time) {
        let Role::Leader(leader) = &self.role else { return };
        let members = &self.membership.now;
        let undecided = members.at > self.decided || leader.opening > self.decided;
        if undecided || leader.hand_over.is_some() || self.held_back {
            return;
        }
        if members.is_joint() {
            let (voters, number) = (members.incoming.clone(), members.number);
            return self.append_members(now, &Members { voters, number, ..Members::default() });
        }
        let (wanted, number) = (&self.roster.voters, self.roster.number);
        let is_old = number < members.number;
        if wanted.is_empty() || wanted.len() > VOTERS_MAX || is_old || members.are(wanted) {
            if !members.names(self.config.me) {
                // Its work is done: somebody who has a vote goes on.
                self.start_hand_over(now, None);
            } else if number > members.number && !wanted.is_empty() {
                // They vote already: that it is so by this order must be in the log.
                let same = Members { number, ..members.clone() };
                self.append_members(now, &same);
            }
            return;
        }
        // Whoever is new must be there; and so many of all that the group can go on without those who leave.
        let votes = |node| self.follower(node).is_some_and(|follower| follower.recovers_at.is_none());
        let is_ready = |node: NodeId| node == self.config.me || (self.is_close(node) && votes(node));
        let enough = Members::founders(wanted).is_quorum(is_ready);
        let Some(incoming) = wanted.iter().map(|node| self.ready(*node)).collect() else { return };
        if !enough {
            return;
        }
        let known = |member: &Member| Member { incarnation: self.incarnation_of(member.node), ..*member };
        let voters = members.voters.iter().map(known).collect();
        let (voters, incoming) = match self.config.planted {
            Some(Planted::VotersChangeAtOnce) => (incoming, Vec::new()),
            _ => (voters, incoming),
        };
        self.probe("paxos: change of voters begins");
        self.append_members(now, &Members { voters, incoming, number, ..Members::default() });
    }

    fn append_members(&mut self, now: Time, members: &Members) {
        self.append_own(Bytes::from(members.encode()));
        self.follow_roster(now);
    }

    /// A replica that could vote from the next entry on; none while it is too far behind for that, or not heard.
    fn ready(&self, node: NodeId) -> Option<Member> {
        if node == self.config.me || self.membership.now.names(node) {
            return Some(Member { node, incarnation: self.incarnation_of(node) });
        }
        let follower = self.follower(node).filter(|_| self.is_close(node))?;
        Some(Member { node, incarnation: follower.learns_as? })
    }

    /// Whether a follower is heard, and has said that it lacks little.
    fn is_close(&self, node: NodeId) -> bool {
        let is_up = self.peer(node).is_some_and(|peer| peer.up);
        let (last, base) = (self.log.last(), self.log.base());
        let has_most = |follower: &Follower| follower.matched.0 + CLOSE_ENTRIES >= last.0 && follower.matched >= base;
        is_up && self.follower(node).is_some_and(|follower| follower.answers && has_most(follower))
    }

    pub(crate) fn follower(&self, node: NodeId) -> Option<&Follower> {
        let Role::Leader(leader) = &self.role else { return None };
        leader.followers.iter().find(|follower| follower.id == node)
    }

    pub(crate) fn incarnation_of(&self, node: NodeId) -> u64 {
        if node == self.config.me {
            return self.incarnation;
        }
        let admitted = self.membership.now.admitted(node).unwrap_or_default();
        known_incarnation(&self.incarnations, node).max(admitted)
    }
}

/// The highest incarnation of a node in a list that is ordered by the nodes' numbers; 0 where none is known.
pub(crate) fn known_incarnation(incarnations: &[u64], node: NodeId) -> u64 {
    incarnations.get(usize::from(node.0)).copied().unwrap_or_default()
}

/// Notes an incarnation in such a list. Whether it is news.
pub(crate) fn note_incarnation(incarnations: &mut Vec<u64>, member: Member) -> bool {
    let place = usize::from(member.node.0);
    if incarnations.len() <= place {
        incarnations.resize(place + 1, 0);
    }
    let news = member.incarnation > incarnations[place];
    incarnations[place] = incarnations[place].max(member.incarnation);
    news
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(voters: &[u16], incoming: &[u16]) -> Members {
        let list = |nodes: &[u16]| nodes.iter().map(|node| Member { node: NodeId(*node), incarnation: 7 }).collect();
        Members { at: Position(5), voters: list(voters), incoming: list(incoming), number: 0 }
    }

    fn among(nodes: &[u16]) -> impl Fn(NodeId) -> bool {
        move |node| nodes.contains(&node.0)
    }

    #[test]
    fn a_joint_group_needs_both_majorities() {
        let joint = members(&[0, 1, 2], &[2, 3, 4]);
        assert!(!joint.is_quorum(among(&[0, 1])) && !joint.is_quorum(among(&[0, 1, 3])));
        assert!(joint.is_quorum(among(&[0, 2, 3])) && joint.is_quorum(among(&[0, 1, 3, 4])));
        assert_eq!(joint.nodes(), [0, 1, 2, 3, 4].map(NodeId));
        let far = |node: NodeId| Position([9, 8, 7, 2, 1][usize::from(node.0)]);
        assert_eq!((members(&[0, 1, 2], &[]).quorum_has(far), joint.quorum_has(far)), (Position(8), Position(2)));
    }

    /// By trying all sets: whoever is asked by one of the group, and meets every quorum that this one is in.
    #[test]
    fn what_meets_every_quorum_does() {
        for (group, me) in
            [(members(&[0, 1, 2], &[]), 1), (members(&[0, 1, 2, 3], &[]), 0), (members(&[0, 1, 2], &[1, 2, 3, 4]), 2)]
        {
            let all = 1u16 << 5;
            let of = |set: u16| move |node: NodeId| set >> node.0 & 1 == 1;
            for noted in (0..all).filter(|set| set >> me & 1 == 0) {
                let quorums = (0..all).filter(|set| set >> me & 1 == 1 && group.is_quorum(of(*set)));
                let meets = quorums.clone().all(|quorum| quorum & noted != 0);
                assert!(meets || !group.meets_every_quorum(of(noted)), "{group:?}: {noted:05b}");
            }
            assert!(group.meets_every_quorum(|node| node.0 != me));
        }
    }

    #[test]
    fn bytes_that_are_no_group_are_refused() {
        let group = members(&[0, 1, 2], &[2, 3]);
        for group in [group.clone(), Members { number: 300, ..group }] {
            let bytes = group.encode();
            assert_eq!(bytes[1] == VERSION, group.number == 0, "nodes from before read it where nobody counts");
            assert_eq!(Members::decode(Position(5), &bytes), Ok(group));
            for length in 0..bytes.len() {
                assert_eq!(Members::decode(Position(5), &bytes[..length]), Err(Malformed));
            }
        }
        assert_eq!(Members::decode(Position(5), &members(&[], &[1]).encode()), Err(Malformed));
        assert_eq!(Members::decode(Position(5), &members(&[1, 0], &[]).encode()), Err(Malformed));
        assert_eq!(Members::decode(Position(5), &members(&[1, 1], &[]).encode()), Err(Malformed));
    }
}
