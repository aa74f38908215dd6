//! Who votes in a bucket that is in memory only, and how that changes.
//!
//! The voters of all other buckets are their groups' own matter. Here the council has to know them: it counts who has lost its memory of the bucket, and once a majority
//! has, nothing can be decided any more, and the bucket begins anew, empty, under another number. If it counted others than those who vote, it would give up a bucket that
//! is well, or wait for one that is lost. So all partitions of such a bucket have the same voters, and these move by orders of the council:
//!
//! 1. Whoever leads the council orders a *move*: who shall vote from now on. Moves are numbered. From here on the group of each partition may be the former one, the next one,
//!    or both (joint), and the council counts the memories of both.
//! 2. Each leader changes the voters of its partition; the entries carry the move's number (`paxos::Roster::number`), so that a leader that knows only of an earlier move
//!    changes nothing behind them. It tells the council when the change is decided.
//! 3. When the council has heard that of all partitions, the next voters are the voters, and nothing is left of the others.
//! 4. If one of the next voters goes away meanwhile, another move leads back to the former ones. It ends in the same way.
//!
//! While a move is under way the bucket is lost with a majority of *either* group. The groups may be well that are given up then: if a majority of the former voters has lost
//! its memory, those of the next group may go on without it. So the bucket begins anew with the other group as its founders ([`Bucket::lost`]): nothing is decided in the
//! new one before a majority of these have followed the council, and so have given up the old one, in which then nothing can be decided any more.

use base::versions::Feature;
use base::{BucketId, NodeId};
use data::Failure;
use wire::{Malformed, Reader, Writer};

use crate::bucket::{Bucket, BucketKind};
use crate::registry::{read_nodes, write_nodes};

const NO_SUCH_MOVE: Failure =
    Failure::Text("ERR that move of the bucket's voters is over, or another one is under way");

const TOO_FEW_REMEMBER: Failure =
    Failure::Text("ERR too few of those who would vote in the bucket remember it; they recover, or it begins anew");

/// The voters of a bucket in memory, as moves have left them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Voting {
    /// Who votes by the last move that is over, sorted; nobody: who has founded the bucket.
    pub voters: Vec<NodeId>,
    /// While a move is under way: who may vote besides, sorted.
    pub next: Vec<NodeId>,
    /// It leads back to `voters`.
    pub back: bool,
    /// How many moves were ordered.
    pub moves: u64,
    /// Who was given a vote by a move, sorted: its memory was listed then, and not when the bucket was founded.
    pub came: Vec<NodeId>,
    /// The partitions that have not carried out the last one, ascending.
    pub unsettled: Vec<u16>,
}

impl Voting {
    pub(crate) fn encode(&self, w: &mut Writer<'_>) {
        write_nodes(w, &self.voters);
        write_nodes(w, &self.next);
        w.bool(self.back);
        w.varint(self.moves);
        write_nodes(w, &self.came);
        w.count(self.unsettled.len());
        self.unsettled.iter().for_each(|index| w.u16(*index));
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Voting, Malformed> {
        let (voters, next) = (read_nodes(r)?, read_nodes(r)?);
        let (back, moves, came) = (r.bool()?, r.varint()?, read_nodes(r)?);
        let unsettled = (0..r.count(2)?).map(|_| r.u16()).collect::<Result<_, _>>()?;
        Ok(Voting { voters, next, back, moves, came, unsettled })
    }
}

/// Of a bucket in memory.
impl Bucket {
    /// Who votes, by the last move that is over.
    pub(crate) fn voters(&self) -> Vec<NodeId> {
        if self.voting.voters.is_empty() { self.founded_by(self.memories.len()) } else { self.voting.voters.clone() }
    }

    /// Who shall vote.
    pub(crate) fn wanted_voters(&self) -> Vec<NodeId> {
        if self.is_moving() && !self.voting.back { self.voting.next.clone() } else { self.voters() }
    }

    /// Whether a move is under way.
    pub(crate) fn is_moving(&self) -> bool {
        !self.voting.next.is_empty()
    }

    /// Whether it is in memory only, and a part of that memory is this node's.
    pub(crate) fn is_remembered_by(&self, node: NodeId) -> bool {
        let is_in_memory = self.settings.kind == BucketKind::Ephemeral;
        is_in_memory && (self.voting.next.contains(&node) || self.voters().contains(&node))
    }

    /// True if a voter has all of it, as far as the council has heard.
    pub(crate) fn remembers(&self, node: NodeId) -> bool {
        self.memories.get(usize::from(node.0)).is_some_and(|memory| *memory)
    }

    /// True if most of these nodes remember it. Nodes that do not vote yet get a copy before their vote.
    pub(crate) fn may_go_to(&self, nodes: &[NodeId]) -> bool {
        let voters = self.voters();
        let will_remember = |node: &&NodeId| !voters.contains(node) || self.remembers(**node);
        nodes.iter().filter(will_remember).count() > nodes.len() / 2
    }

    /// Where in the lists of memories whoever votes, or may vote, stands.
    fn place_of_voter(&self, node: NodeId) -> Option<usize> {
        let place = usize::from(node.0);
        let is_listed = place < self.memories.len() && place < self.identities.len();
        (is_listed && self.is_remembered_by(node)).then_some(place)
    }

    /// Orders a move to these voters, with the memories that they have, of which none has forgotten anything of this bucket.
    ///
    /// # Errors
    /// If it is not the next one, or leads anywhere else than back while another is under way. If most of them do not remember the bucket: they could never recover, as
    /// that takes a majority of each group. (Orders of versions without [`Feature::RememberedMoves`] led there, too.)
    pub(crate) fn order_move(&mut self, number: u64, to: &[(NodeId, u64)], version: u16) -> Result<(), Failure> {
        let nodes: Vec<NodeId> = to.iter().map(|(node, _)| *node).collect();
        let voters = self.voters();
        let leads_back = self.is_moving() && nodes == voters && !self.voting.back;
        let leads_on = !self.is_moving() && nodes != voters && !nodes.is_empty() && nodes.is_sorted();
        if self.settings.kind != BucketKind::Ephemeral || number != self.voting.moves + 1 || !(leads_back || leads_on) {
            return Err(NO_SUCH_MOVE);
        }
        if leads_on {
            if Feature::RememberedMoves.is_in(version) && !self.may_go_to(&nodes) {
                return Err(TOO_FEW_REMEMBER);
            }
            for (node, identity) in to.iter().filter(|(node, _)| !voters.contains(node)) {
                let place = usize::from(node.0);
                if self.memories.len() <= place {
                    self.memories.resize(place + 1, false);
                }
                if self.identities.len() <= place {
                    self.identities.resize(place + 1, 0);
                }
                (self.memories[place], self.identities[place]) = (true, *identity);
                if let Err(at) = self.voting.came.binary_search(node) {
                    self.voting.came.insert(at, *node);
                }
            }
            self.voting.next = nodes;
        }
        self.voting.voters = voters;
        self.voting.back = leads_back;
        self.voting.moves = number;
        self.voting.unsettled = (0..self.settings.partitions).collect();
        Ok(())
    }

    /// In these partitions the move of this number is carried out.
    ///
    /// # Errors
    /// If it is not the one that is under way.
    pub(crate) fn settle_move(&mut self, number: u64, partitions: &[u16]) -> Result<(), Failure> {
        if !self.is_moving() || number != self.voting.moves {
            return Err(NO_SUCH_MOVE);
        }
        self.voting.unsettled.retain(|index| !partitions.contains(index));
        if self.voting.unsettled.is_empty() {
            let next = std::mem::take(&mut self.voting.next);
            if !std::mem::take(&mut self.voting.back) {
                self.voting.voters = next;
            }
            self.forget_all_but(&self.voters());
        }
        Ok(())
    }

    /// A node has a new memory of it, which is empty. Returns whether that is news.
    ///
    /// # Errors
    /// If it is none of those that are counted.
    pub(crate) fn note_loss(&mut self, node: NodeId, identity: u64) -> Result<bool, Failure> {
        let place = self.place_of_voter(node).ok_or(NO_SUCH_REPLICA)?;
        if self.identities[place] == identity {
            // Said again: it may even have recovered since.
            return Ok(false);
        }
        (self.identities[place], self.memories[place]) = (identity, false);
        Ok(true)
    }

    /// It has all of the bucket in that memory.
    ///
    /// # Errors
    /// If it is none of those that are counted, or has another memory by now.
    pub(crate) fn note_recovery(&mut self, node: NodeId, identity: u64) -> Result<(), Failure> {
        let place = self.place_of_voter(node).ok_or(NO_SUCH_REPLICA)?;
        if self.identities[place] != identity {
            return Err(Failure::Text("ERR that memory is lost again"));
        }
        self.memories[place] = true;
        Ok(())
    }

    /// Whether too few have its memory for the others to recover from, so that what was acknowledged may be lost; and who shall found it anew, as soon as these are enough.
    pub(crate) fn lost(&self) -> Option<Vec<NodeId>> {
        let lacks = |node: &&NodeId| !self.remembers(**node);
        let is_known = |node: &&NodeId| self.identities.get(usize::from(node.0)).is_some_and(|identity| *identity != 0);
        let is_majority = |count: usize, list: &[NodeId]| count > list.len() / 2;
        let is_lost = |list: &[NodeId]| !is_majority(list.len() - list.iter().filter(lacks).count(), list);
        let (voters, next) = (self.voters(), &self.voting.next);
        if !self.is_moving() {
            // By those who have lost it: of the others nobody knows whether they are there.
            let founders = voters.iter().filter(lacks).filter(is_known).count();
            return (is_lost(&voters) && is_majority(founders, &voters)).then_some(voters);
        }
        let may_found = |list: &[NodeId]| is_majority(list.iter().filter(is_known).count(), list);
        let other = match (is_lost(&voters), is_lost(next)) {
            (false, false) => return None,
            (true, false) => next.clone(),
            (false, true) => voters,
            // Nothing can be decided by either.
            (true, true) if may_found(next) => next.clone(),
            (true, true) => voters,
        };
        may_found(&other).then_some(other)
    }

    /// Founded anew by these. Whoever else had a part of it is told by its number.
    pub(crate) fn begin_anew(&mut self, id: BucketId, founders: &[NodeId]) {
        self.id = id;
        let was_moving = self.is_moving();
        for (memory, identity) in self.memories.iter_mut().zip(&mut self.identities) {
            // Of whoever remembers nobody knows whether it is there still, unless there is no choice: it comes back empty.
            *memory = (was_moving || !*memory) && *identity != 0;
            if !*memory {
                *identity = 0;
            }
        }
        if self.voting.moves > 0 {
            self.founders = founders.to_vec();
            self.voting = Voting::default();
            self.forget_all_but(founders);
        }
    }

    /// It has no memory left but that of one node, which is stopped: it begins anew as soon as that says that it is there.
    pub(crate) fn belong_to(&mut self, node: NodeId) {
        if self.settings.kind == BucketKind::Ephemeral {
            self.founders = vec![node];
            self.voting = Voting::default();
            self.identities = vec![0; usize::from(node.0) + 1];
            self.memories = vec![false; usize::from(node.0) + 1];
        }
    }

    fn forget_all_but(&mut self, voters: &[NodeId]) {
        for place in 0..self.memories.len().min(self.identities.len()) {
            if !voters.contains(&NodeId(place as u16)) {
                (self.memories[place], self.identities[place]) = (false, 0);
            }
        }
    }
}

/// What is said of a bucket that is not there, or of a node whose memory is not counted.
pub(crate) const NO_SUCH_REPLICA: Failure = Failure::Text("ERR there is no such replica");

/// The highest odd number up to this one: half of an even number of voters that remember could neither go on, nor could the other half begin anew.
pub(crate) fn odd(count: usize) -> usize {
    if count.is_multiple_of(2) { count.saturating_sub(1).max(1) } else { count }
}

/// Who should vote instead of those who do, if that is better: whoever does not serve is replaced, in the order of the `others`, from zones that have fewest; and there are
/// as many as are wanted, an odd number, if there are so many, and never fewer than before unless fewer are wanted. Those who remember the bucket remain before
/// those who are recovering. Where nobody can take their place, those remain who stay and do not serve.
pub(crate) fn better_voters<'a>(
    now: &[NodeId],
    wanted: usize,
    (serves, stays): (impl Fn(NodeId) -> bool, impl Fn(NodeId) -> bool),
    remembers: impl Fn(NodeId) -> bool,
    others: &[NodeId],
    zone_of: impl Fn(NodeId) -> &'a str,
) -> Option<Vec<NodeId>> {
    // Of how many of them a node is, or would be, in the zone.
    let crowd = |to: &[NodeId], id: NodeId| {
        let zone = zone_of(id);
        to.iter().filter(|it| **it == id || (!zone.is_empty() && zone_of(**it) == zone)).count()
    };
    let mut to: Vec<NodeId> = now.iter().copied().filter(|id| serves(*id)).collect();
    to.sort_by_key(|id| !remembers(*id));
    to.truncate(wanted);
    while to.len() < wanted {
        let candidates = others.iter().copied().filter(|id| !to.contains(id));
        let Some(next) = candidates.min_by_key(|id| crowd(&to, *id)) else { break };
        to.push(next);
    }
    let remain = now.iter().copied().filter(|id| !serves(*id) && stays(*id));
    to.extend(remain.take(wanted - to.len()));
    if to.len().is_multiple_of(2) {
        to.pop();
    }
    // From zones that have more than they need have to others.
    while let Some(place) = (0..to.len()).max_by_key(|place| crowd(&to, to[*place]))
        && let Some(other) = others.iter().copied().filter(|id| !to.contains(id)).min_by_key(|id| crowd(&to, *id))
        && crowd(&to, other) + 1 < crowd(&to, to[place])
    {
        to[place] = other;
    }
    to.sort_unstable();
    (to.len() >= now.len().min(wanted) && to != now).then_some(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_does_not_stay_is_replaced_and_no_vote_is_given_up_for_nothing() {
        let ids = |list: &[u16]| list.iter().copied().map(NodeId).collect::<Vec<_>>();
        let zone_of = |id: NodeId| if id.0 % 2 == 1 { "odd" } else { "" };
        let better_without = |now: &[u16], wanted, gone: &[u16], drained: &[u16], others: &[u16]| {
            let stays = |id: NodeId| !gone.contains(&id.0);
            let serves = |id: NodeId| stays(id) && !drained.contains(&id.0);
            let to = better_voters(&ids(now), wanted, (serves, stays), |id| id != NodeId(8), &ids(others), zone_of);
            to.map(|to| to.iter().map(|id| id.0).collect::<Vec<_>>())
        };
        let better = |now: &[u16], wanted, gone: &[u16], others: &[u16]| better_without(now, wanted, gone, &[], others);
        assert_eq!(better(&[0, 2, 4], 3, &[], &[6, 8]), None, "all is well");
        assert_eq!(better(&[0, 2, 4], 3, &[2], &[8, 6]), Some(vec![0, 4, 8]), "the first of the others");
        assert_eq!(better(&[0, 1, 4], 3, &[4], &[3, 6]), Some(vec![0, 1, 6]), "not twice in a zone");
        assert_eq!(better(&[0, 1, 4], 3, &[4], &[3]), Some(vec![0, 1, 3]), "but where there is no other");
        assert_eq!(better(&[0, 1, 3], 3, &[], &[5, 8, 6]), Some(vec![0, 1, 8]), "out of a crowd");
        assert_eq!(better(&[1, 3, 5], 3, &[], &[8, 6]), Some(vec![1, 6, 8]));
        assert_eq!(better(&[0, 2, 4], 3, &[2], &[]), None, "two are no better than three of which one leaves");
        assert_eq!(better(&[0, 2, 4, 6, 8], 5, &[2], &[]), None);
        assert_eq!(better(&[0], 3, &[], &[2]), None, "two are worse than one");
        assert_eq!(better(&[0], 3, &[], &[2, 4]), Some(vec![0, 2, 4]));
        assert_eq!(better(&[0], 3, &[0], &[2]), Some(vec![2]));
        assert_eq!(better(&[0, 2, 4], 5, &[2], &[6, 8]), Some(vec![0, 4, 6]), "there are no five");
        assert_eq!(better(&[0, 2, 4, 6, 8], 3, &[2], &[]), Some(vec![0, 4, 6]), "fewer are wanted");
        assert_eq!(better(&[0, 2, 4, 6], 3, &[], &[]), Some(vec![0, 2, 4]), "an even number");
        assert_eq!(better(&[0, 4, 8, 10, 12], 3, &[], &[]), Some(vec![0, 4, 10]), "one of them is recovering");
        assert_eq!(better(&[0, 4, 8, 10, 12], 3, &[10, 12], &[]), Some(vec![0, 4, 8]), "it is better than nobody");
        assert_eq!(better_without(&[0, 2, 4], 3, &[], &[2], &[6]), Some(vec![0, 4, 6]), "it shall serve no more");
        assert_eq!(better_without(&[0, 2, 4], 3, &[], &[2], &[]), None, "nobody else could");
        assert_eq!(better_without(&[0, 2, 4], 3, &[4], &[2], &[6]), Some(vec![0, 2, 6]), "who leaves goes first");
        assert_eq!((odd(0), odd(1), odd(2), odd(5)), (1, 1, 1, 5));
    }

    #[test]
    fn it_is_read_as_it_is_written() {
        let nodes = |list: &[u16]| list.iter().copied().map(NodeId).collect::<Vec<_>>();
        let voting = Voting {
            voters: nodes(&[0, 2]),
            next: nodes(&[300]),
            back: true,
            moves: 900,
            came: nodes(&[4]),
            unsettled: vec![7, 400],
        };
        for voting in [voting, Voting::default()] {
            let mut bytes = Vec::new();
            voting.encode(&mut Writer::new(&mut bytes));
            assert_eq!(Voting::decode(&mut Reader::from_slice(&bytes)), Ok(voting.clone()));
            for length in 0..bytes.len() {
                assert!(Voting::decode(&mut Reader::from_slice(&bytes[..length])).is_err());
            }
        }
    }
}
