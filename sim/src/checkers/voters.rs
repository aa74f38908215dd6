//! Property: no group ever has two majorities that do not meet; and once faults stop, those vote who shall.
//!
//! A majority of one group and one of the next meet if they are majorities of one list of voters that both need. That is what joint
//! groups are for; here it is only said what must be true of any two groups that follow each other in a log.

use node::Voters;

/// What is wrong with two groups that follow each other; none if all is well.
#[must_use]
pub fn disjoint(voters: &Voters) -> Option<String> {
    let Voters { now, before, .. } = voters;
    let meet = now.iter().any(|list| before.contains(list));
    (!meet).then(|| format!("{now:?} votes after {before:?}, and a majority of one need not meet one of the other"))
}

/// Whether those vote who shall, and no change is under way.
#[must_use]
pub fn settled(voters: &Voters) -> bool {
    voters.wanted.is_empty() || voters.now[..] == [voters.wanted.clone()]
}

#[cfg(test)]
mod tests {
    use base::NodeId;

    use super::*;

    fn voters(now: &[&[u16]], before: &[&[u16]], wanted: &[u16]) -> Voters {
        let list = |list: &[u16]| list.iter().map(|node| NodeId(*node)).collect::<Vec<_>>();
        let lists = |lists: &[&[u16]]| lists.iter().map(|it| list(it)).collect();
        Voters { now: lists(now), before: lists(before), wanted: list(wanted) }
    }

    #[test]
    fn a_group_follows_one_that_it_meets() {
        assert_eq!(disjoint(&voters(&[&[0, 1, 2]], &[&[0, 1, 2]], &[])), None);
        assert_eq!(disjoint(&voters(&[&[0, 1, 2], &[2, 3, 4]], &[&[0, 1, 2]], &[])), None);
        assert_eq!(disjoint(&voters(&[&[2, 3, 4]], &[&[0, 1, 2], &[2, 3, 4]], &[])), None);
        assert!(disjoint(&voters(&[&[2, 3, 4]], &[&[0, 1, 2]], &[])).is_some());
        assert!(disjoint(&voters(&[&[0, 1, 3]], &[&[0, 1, 2]], &[])).is_some());
    }

    #[test]
    fn a_change_under_way_is_not_settled() {
        assert!(settled(&voters(&[&[0, 1]], &[&[0, 1]], &[])) && settled(&voters(&[&[0, 1]], &[&[0, 1]], &[0, 1])));
        assert!(!settled(&voters(&[&[0, 1]], &[&[0, 1]], &[0, 2])));
        assert!(!settled(&voters(&[&[0, 1], &[0, 2]], &[&[0, 1]], &[0, 2])));
    }
}
