//! Property: once faults stop, the cluster heals by itself in bounded time: every request succeeds, and all replicas
//! have applied the same entries, have the same state, and those vote who shall, in zones as the rule has it.

use std::collections::BTreeMap;

use base::{NodeId, PartitionId, Position};
use node::Voters;

/// What one node looks like at the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ending {
    /// Which node.
    pub node: NodeId,
    /// How far it has applied each log and the digest of its state then; `None` if it is not running.
    pub state: Option<Vec<(PartitionId, Position, u64)>>,
    /// Where those who vote, as far as it knows, are not those who shall.
    pub unsettled: Vec<(PartitionId, Voters)>,
    /// What is wrong with the zones of those who shall vote, as far as it knows.
    pub misplaced: Vec<String>,
}

/// What one run looks like when its time for healing is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Nanoseconds that the cluster had for healing.
    pub allowed: u64,
    /// Whether every client got through with everything.
    pub clients_served: bool,
    /// What went wrong last for a client, and when, in nanoseconds since the faults stopped.
    pub last_failure: Option<(u64, String)>,
    /// All nodes.
    pub endings: Vec<Ending>,
}

/// Whether all nodes run, and those that have a partition have the same state of it.
#[must_use]
pub fn converged(endings: &[Ending]) -> bool {
    let settled =
        |ending: &Ending| ending.unsettled.is_empty() && ending.misplaced.is_empty() && ending.state.is_some();
    let mut states = BTreeMap::new();
    let mut agrees = |(partition, applied, digest): &(PartitionId, Position, u64)| {
        *states.entry(*partition).or_insert((*applied, *digest)) == (*applied, *digest)
    };
    endings.iter().all(|ending| settled(ending) && ending.state.iter().flatten().all(&mut agrees))
}

/// What was found wrong.
#[must_use]
pub fn check(facts: &Facts) -> Vec<String> {
    let seconds = facts.allowed / 1_000_000_000;
    let mut violations = Vec::new();
    if !facts.clients_served {
        let last = match &facts.last_failure {
            Some((at, reason)) => format!("; the last failure, {:.3} s after the faults: {reason}", *at as f64 / 1e9),
            None => String::new(),
        };
        violations.push(format!("clients are not served {seconds} s after the last fault{last}"));
    }
    if !converged(&facts.endings) {
        violations.push(format!("replicas differ {seconds} s after the last fault: {:?}", facts.endings));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unserved_clients_and_different_replicas_are_seen() {
        let ending = |node: u16, state: Option<(u64, u64)>| Ending {
            node: NodeId(node),
            state: state.map(|(position, digest)| vec![(PartitionId::default(), Position(position), digest)]),
            unsettled: Vec::new(),
            misplaced: Vec::new(),
        };
        let facts = |clients_served: bool, second: Option<(u64, u64)>| Facts {
            allowed: 30_000_000_000,
            clients_served,
            last_failure: Some((1, "CLUSTERDOWN".into())),
            endings: vec![ending(0, Some((9, 1))), ending(1, second)],
        };
        assert!(check(&facts(true, Some((9, 1)))).is_empty());
        assert_eq!(check(&facts(false, Some((9, 1)))).len(), 1);
        for other in [None, Some((8, 1)), Some((9, 2))] {
            assert_eq!(check(&facts(true, other)).len(), 1);
        }
    }
}
