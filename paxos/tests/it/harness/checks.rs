//! What must hold, whatever happens.

use base::{Ballot, NodeId, Position};

use super::words::node_name;
use super::{Truth, World};

impl World {
    /// A linearizable read asks a replica that believes to lead.
    pub fn ask(&mut self, index: usize) {
        let before = self.truth.last_key_value().map_or(0, |(position, _)| *position);
        let Some(replica) = &mut self.nodes[index].replica else { return };
        let (Some(round), Some(ballot)) = (replica.request_confirmation(), replica.leads()) else { return };
        let sees = replica.decided().max(replica.opening().unwrap_or_default());
        self.asked.push((index, ballot, round, sees.0, before));
        self.turn(index, Vec::new());
    }

    /// A confirmed read sees everything that was decided when it was asked.
    pub(super) fn check_reads(&mut self, index: usize, confirmed: u64) {
        let leads = self.replica(index).leads();
        for (_, ballot, round, sees, before) in self.asked.iter().filter(|asked| asked.0 == index) {
            let answered = Some(*ballot) == leads && *round <= confirmed;
            assert!(
                !answered || sees >= before,
                "a read at {sees} is confirmed although {before} was decided before it"
            );
        }
        self.asked.retain(|(node, _, round, _, _)| *node != index || *round > confirmed);
    }

    /// What must hold after every turn of `index`:
    /// - agreement: what two replicas know as decided at a position is the same entry;
    /// - immutability: what was ever decided stays so, in every log that says so;
    /// - leader completeness: a leader's log has everything that was decided under lower ballots;
    /// - durability: when a leader decides an entry, the disks of a majority have it;
    /// - order: base ≤ decided ≤ last, and ballots never fall along a log.
    pub fn check(&mut self, index: usize) {
        let Some(replica) = &self.nodes[index].replica else { return };
        let name = node_name(index);
        let (log, decided) = (replica.log(), replica.decided());
        assert!(log.base() <= decided && decided <= log.last(), "{name}: base ≤ decided ≤ last");
        let mut previous = Ballot::default();
        let mut fresh = Vec::new();
        for position in log.first().0..=log.last().0 {
            let Some(entry) = log.get(Position(position)) else { continue };
            assert!(entry.ballot >= previous, "{name}: ballots fall at {position}");
            previous = entry.ballot;
            if position <= decided.0 {
                match self.truth.get(&position) {
                    Some(truth) => {
                        assert_eq!(truth.entry.ballot, entry.ballot, "{name}: {position} was decided otherwise");
                        let may_differ = self.replaced.contains(&position);
                        assert!(may_differ || truth.entry == *entry, "{name}: {position} was decided otherwise");
                    }
                    None => fresh.push((position, entry.clone())),
                }
            }
        }
        if let Some(ballot) = replica.leads() {
            for (position, truth) in self.truth.range(log.first().0..).filter(|(_, truth)| truth.by < ballot) {
                let held = log.get(Position(*position)).map(|entry| entry.ballot);
                let decided = Some(truth.entry.ballot);
                assert_eq!(held, decided, "{name} leads {ballot} without the decided entry {position}");
            }
        }
        let by = replica.promised();
        let counted = replica.leads().is_some() && self.disks_whole;
        for (position, entry) in fresh {
            if counted {
                let holds = |id: NodeId| self.nodes[usize::from(id.0)].disk.holds(Position(position), &entry);
                // The group may have changed in the same turn, behind the decision.
                let membership = replica.membership();
                let enough = membership.now.is_quorum(holds) || membership.before.is_quorum(holds);
                assert!(enough, "{name} decided {position}, which is on too few disks");
            }
            self.truth.insert(position, Truth { entry, by });
        }
    }
}
