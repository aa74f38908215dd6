//! Property: once faults stop, no zone has two more of a partition's voters than another one that could have one more. So where there are as many zones
//! that serve as voters are wanted, no two are in the same one.

use std::collections::BTreeMap;

use base::NodeId;

/// A node that serves, with the label of its zone; an empty one stands for a zone of its own.
pub type Labelled = (NodeId, String);

/// What is wrong with who shall vote in a partition, given all that serve; none if all is well.
#[must_use]
pub fn crowded(voters: &[NodeId], serving: &[Labelled]) -> Option<String> {
    let zone = |(id, label): &Labelled| if label.is_empty() { id.to_string() } else { format!("zone {label}") };
    let mut crowds: BTreeMap<String, usize> = BTreeMap::new();
    for node in serving.iter().filter(|(id, _)| voters.contains(id)) {
        *crowds.entry(zone(node)).or_default() += 1;
    }
    let (most, of) = crowds.iter().map(|(zone, crowd)| (*crowd, zone)).max()?;
    let has = |node: &Labelled| crowds.get(&zone(node)).copied().unwrap_or(0);
    let others = serving.iter().filter(|(id, _)| !voters.contains(id));
    let another = others.min_by_key(|node| has(node)).filter(|node| has(node) + 2 <= most)?;
    Some(format!(
        "{most} of {voters:?} are in {of}, and {} in {} could vote, of which {} do",
        another.0,
        zone(another),
        has(another)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_beside_an_empty_zone_is_seen() {
        let node = |(id, label): (u16, &str)| (NodeId(id), label.to_owned());
        let serving = [(0, "a"), (1, "a"), (2, "b"), (3, "b"), (4, "c"), (5, "")].map(node);
        let check = |voters: &[u16]| crowded(&voters.iter().map(|id| NodeId(*id)).collect::<Vec<_>>(), &serving);
        assert_eq!((check(&[0, 2, 4]), check(&[1, 3, 5]), check(&[0, 1, 2, 4, 5])), (None, None, None));
        assert!(check(&[0, 1, 2]).is_some() && check(&[2, 3, 5]).is_some());
        assert_eq!(crowded(&[NodeId(0), NodeId(1), NodeId(2)], &serving[..4]), None, "two zones for three");
    }
}
