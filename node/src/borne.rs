//! How many more nodes may fail before something is not served any more: so that a status says it before it is needed.

use base::NodeId;
use paxos::RoleName;

use crate::node::{IS_OUTLIVED, LEADS_OUTLIVED, Node, news_of, role_number};

/// What the partition with the fewest votes to spare bears, as one node sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Borne {
    /// So many voters may fail, and a majority is left.
    pub failures: usize,
    /// Why that is less than its voters are for, for people; empty if it is not.
    pub lacking: String,
}

/// How many voters may be missing where so many vote and so many are there.
fn spare(voters: usize, there: usize) -> usize {
    there.saturating_sub(voters / 2 + 1)
}

impl Node {
    /// None while this node knows of no partition who votes.
    pub(crate) fn borne(&self) -> Option<Borne> {
        let by_partition = (0..self.groups.len()).filter_map(|g| self.borne_by(g));
        // Of two that bear as little, the one that lacks something.
        by_partition.min_by_key(|borne| (borne.failures, borne.lacking.is_empty()))
    }

    fn borne_by(&self, g: usize) -> Option<Borne> {
        let voters = self.voters_of(g);
        let missing: Vec<String> = voters
            .iter()
            .filter_map(|voter| Some(format!("{} {}", self.name_of(*voter), self.why_missing(g, *voter)?)))
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
            let group = &self.groups[g];
            let (name, index, all) = (group.name(), group.id().index, voters.len());
            format!("{borne}: partition {name}/{index} has {there} of {all} votes ({})", missing.join(", "))
        };
        (!voters.is_empty()).then_some(Borne { failures, lacking })
    }

    /// Why nobody can count on a voter's vote now, as far as this node knows; none if that is not so.
    fn why_missing(&self, g: usize, voter: NodeId) -> Option<&'static str> {
        let id = self.groups[g].id();
        let role = if voter == self.config.me {
            self.outlived.role_of(id, self.groups[g].partition.replica.role())
        } else if self.is_up(voter) {
            self.news.get(&voter).and_then(|ping| news_of(ping, id)).map(|news| news.role)?
        } else {
            return Some("is down");
        };
        match role {
            IS_OUTLIVED | LEADS_OUTLIVED => Some("is to recover"),
            role if role == role_number(RoleName::Recovering) => Some("recovers"),
            _ => None,
        }
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
