//! How many more nodes may fail before something is not served any more: so that a status says it before it is needed.

use base::NodeId;
use paxos::RoleName;

use crate::node::{IS_OUTLIVED, LEADS_OUTLIVED, Node, news_of, role_number};

/// The failures that the partition with the fewest votes to spare bears, as one node sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Borne {
    /// So many more voters may fail, and a majority is left.
    pub failures: usize,
    /// For people: which voters are missing in which partition, and what that means; empty if none is.
    pub lacking: String,
}

/// How many voters may be missing where so many vote and so many are there.
fn spare(voters: usize, there: usize) -> usize {
    there.saturating_sub(voters / 2 + 1)
}

/// None while the node knows of no partition who votes.
pub(crate) fn borne(node: &Node) -> Option<Borne> {
    let by_partition = (0..node.groups.len()).filter_map(|g| borne_by(node, g));
    // Of two that bear as little, the one that lacks something.
    by_partition.min_by_key(|borne| (borne.failures, borne.lacking.is_empty()))
}

fn borne_by(node: &Node, g: usize) -> Option<Borne> {
    let voters = node.voters_of(g);
    let missing: Vec<String> = voters
        .iter()
        .filter_map(|voter| Some(format!("{} {}", node.name_of(*voter), why_missing(node, g, *voter)?)))
        .collect();
    let there = voters.len() - missing.len();
    let failures = spare(voters.len(), there);
    let lacking = if missing.is_empty() {
        String::new()
    } else {
        let borne = match failures {
            _ if there * 2 <= voters.len() => "there is no majority".to_owned(),
            0 => "no further failure is borne".to_owned(),
            1 => "one further failure is borne".to_owned(),
            more => format!("{more} further failures are borne"),
        };
        let group = &node.groups[g];
        let (name, index, all) = (group.name(), group.id().index, voters.len());
        format!("{borne}: partition {name}/{index} has {there} of {all} votes ({})", missing.join(", "))
    };
    (!voters.is_empty()).then_some(Borne { failures, lacking })
}

/// The reason why nobody can count on a voter's vote now, as far as the node knows; none if one can.
fn why_missing(node: &Node, g: usize, voter: NodeId) -> Option<&'static str> {
    let id = node.groups[g].id();
    let role = if voter == node.config.me {
        node.outlived.role_of(id, node.groups[g].partition.replica.role())
    } else if node.is_up(voter) {
        node.news.get(&voter).and_then(|ping| news_of(ping, id)).map(|news| news.role)?
    } else {
        return Some("is down");
    };
    match role {
        IS_OUTLIVED | LEADS_OUTLIVED => Some("is to recover"),
        role if role == role_number(RoleName::Recovering) => Some("recovers"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::spare;

    #[test]
    fn a_majority_of_all_voters_is_left() {
        let of_three: Vec<usize> = (0..=3).map(|there| spare(3, there)).collect();
        assert_eq!(of_three, [0, 0, 0, 1]);
        assert_eq!((spare(1, 1), spare(2, 2), spare(4, 4), spare(4, 3), spare(5, 4), spare(5, 5)), (0, 0, 1, 0, 1, 2));
    }
}
