use base::{BucketId, Rng};

use super::*;

pub(super) const PARTITIONS: u16 = 64;

/// A bucket of 64 partitions of three voters each, as these nodes have founded it.
pub(super) fn founded(nodes: u16) -> Vec<Seats> {
    let founders: Vec<NodeId> = (0..nodes).map(NodeId).collect();
    let partitions = (0..PARTITIONS).map(|index| PartitionId { bucket: BucketId(3), index });
    partitions.map(|partition| Seats { partition, count: 3, now: order(partition, &founders) }).collect()
}

pub(super) fn all(ids: impl IntoIterator<Item = u16>, drained: &[u16]) -> Vec<(NodeId, bool)> {
    ids.into_iter().map(|id| (NodeId(id), !drained.contains(&id))).collect()
}

/// Nodes none of which has a label.
fn alike(all: &[(NodeId, bool)]) -> Nodes<'_> {
    static NONE: BTreeMap<NodeId, String> = BTreeMap::new();
    Nodes { all, zones: &NONE }
}

fn planned(seats: &[Seats], nodes: &[(NodeId, bool)]) -> Vec<Seats> {
    let planned = plan(seats.to_vec(), &alike(nodes));
    assert_eq!(plan(planned.clone(), &alike(nodes)), planned, "a plan is one that stays");
    planned
}

/// Whether somebody has clearly more than somebody else: by more than this, and by more than a quarter.
fn is_uneven(loads: &BTreeMap<NodeId, usize>, slack: usize) -> bool {
    let (least, most) = range(loads);
    most > least + slack && 4 * most > 5 * least
}

fn range(loads: &BTreeMap<NodeId, usize>) -> (usize, usize) {
    (loads.values().copied().min().unwrap(), loads.values().copied().max().unwrap())
}

/// How many votes are others' after than before.
pub(super) fn moved(before: &[Seats], after: &[Seats]) -> usize {
    let new = |(before, after): (&Seats, &Seats)| after.now.iter().filter(|id| !before.now.contains(id)).count();
    before.iter().zip(after).map(new).sum()
}

#[track_caller]
fn check_even(seats: &[Seats], nodes: &[(NodeId, bool)]) {
    let nodes = alike(nodes);
    for loads in [votes(seats, &nodes), leads(seats, &nodes)] {
        let (least, most) = range(&loads);
        assert!(most <= least + 1, "{loads:?}");
    }
}

/// Votes as even as they come without moving more than has to, leaderships entirely.
#[track_caller]
fn check_fairly_even(seats: &[Seats], nodes: &[(NodeId, bool)]) {
    let nodes = alike(nodes);
    assert!(
        !is_uneven(&votes(seats, &nodes), VOTES_SLACK) && !is_uneven(&leads(seats, &nodes), LEADS_SLACK),
        "{:?}",
        votes(seats, &nodes)
    );
}

#[test]
fn founders_that_all_vote_stay_as_they_are() {
    for nodes in 1..=3 {
        assert_eq!(planned(&founded(nodes), &all(0..nodes, &[])), founded(nodes));
    }
}

#[test]
fn a_node_that_joins_gets_its_share_and_nothing_else_moves() {
    let mut before = founded(3);
    for nodes in 4..=9 {
        let now = all(0..nodes, &[]);
        let after = planned(&before, &now);
        check_even(&after, &now);
        let share = usize::from(PARTITIONS) * 3 / usize::from(nodes);
        assert!((share..=share + 1).contains(&moved(&before, &after)), "{nodes} nodes: {}", moved(&before, &after));
        let to_others = |(before, after): (&Seats, &Seats)| {
            after.now.iter().any(|id| id.0 != nodes - 1 && !before.now.contains(id))
        };
        assert!(!before.iter().zip(&after).any(to_others));
        before = after;
    }
}

#[test]
fn what_a_node_gives_up_goes_to_all_others_alike_and_nothing_else_moves() {
    let five = planned(&planned(&founded(3), &all(0..4, &[])), &all(0..5, &[]));
    for (gone, nodes) in [(1, all(0..5, &[1])), (4, all(0..4, &[])), (0, all(1..5, &[]))] {
        let after = planned(&five, &nodes);
        check_fairly_even(&after, &nodes);
        let had = five.iter().filter(|it| it.now.contains(&NodeId(gone))).count();
        assert_eq!(moved(&five, &after), had, "without {gone}");
        assert!(after.iter().all(|it| !it.now.contains(&NodeId(gone)) && it.now.len() == 3));
    }
}

/// On a ring of so many points for each node a partition would be at the next three nodes. What moves there is as little as here, but what it comes to
/// is far from even.
#[test]
fn a_ring_moves_no_less_and_is_less_even() {
    let ring = |nodes: u16| -> Vec<Seats> {
        let mut points: Vec<(u64, NodeId)> = (0..nodes)
            .flat_map(|id| (0..100u64).map(move |point| (Rng::new(u64::from(id) << 32 | point).next_u64(), NodeId(id))))
            .collect();
        points.sort_unstable();
        let mut seats = founded(1);
        for (number, it) in seats.iter_mut().enumerate() {
            let at = Rng::new(0x51_0000 + number as u64).next_u64();
            let from = points.partition_point(|(point, _)| *point < at);
            it.now.clear();
            for (_, id) in points[from..].iter().chain(&points) {
                if it.now.len() < 3 && !it.now.contains(id) {
                    it.now.push(*id);
                }
            }
        }
        seats
    };
    let (four, five) = (ring(4), ring(5));
    let nodes = all(0..5, &[]);
    let (least, most) = range(&votes(&five, &alike(&nodes)));
    assert!(most > least + 4, "{least} to {most}");
    let planned_four = planned(&founded(3), &all(0..4, &[]));
    let here = moved(&planned_four, &planned(&planned_four, &nodes));
    assert!(here <= moved(&four, &five) + 4, "{here} here, {} there", moved(&four, &five));
}

#[test]
fn who_does_not_serve_votes_where_too_few_are_left() {
    let seats = planned(&founded(3), &all(0..3, &[0]));
    assert_eq!(seats, founded(3), "all vote, and who leads meanwhile is no matter of the map");
    assert!(planned(&founded(3), &all(0..3, &[0, 1, 2])).iter().all(|it| it.now.len() == 3), "somebody has to");
    // With another one to take its place it votes no more.
    let seats = planned(&seats, &all(0..4, &[0]));
    assert!(seats.iter().all(|it| it.now.len() == 3 && !it.now.contains(&NodeId(0))));
}

#[test]
fn who_serves_again_leads_again_though_there_are_few_partitions() {
    let few = |seats: Vec<Seats>| seats.into_iter().take(5).collect::<Vec<_>>();
    let all_serve = all(0..5, &[]);
    let drained = planned(&few(founded(5)), &all(0..5, &[0]));
    let again = planned(&drained, &all_serve);
    assert_eq!(leads(&again, &alike(&all_serve)), (0..5).map(|id| (NodeId(id), 1)).collect());
}

#[test]
fn more_votes_than_nodes_wait_for_nodes() {
    let five_wanted = |seats: Vec<Seats>| seats.into_iter().map(|it| Seats { count: 5, ..it }).collect::<Vec<_>>();
    let three = planned(&five_wanted(founded(3)), &all(0..3, &[]));
    assert!(three.iter().all(|it| it.now.len() == 3));
    assert!(planned(&three, &all(0..6, &[])).iter().all(|it| it.now.len() == 5));
}

/// Whatever comes and goes: as many vote as shall, evenly, and a plan stays until something changes.
#[test]
fn any_sequence_of_changes_ends_even() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut seats = founded(3);
        let mut nodes = all(0..3, &[]);
        for _ in 0..20 {
            match rng.below(4) {
                0 if nodes.len() < 9 => nodes.push((NodeId(nodes.last().unwrap().0.0 + 1), true)),
                1 if nodes.len() > 1 => drop(nodes.remove(rng.below(nodes.len() as u64) as usize)),
                _ => {
                    let place = rng.below(nodes.len() as u64) as usize;
                    nodes[place].1 = !nodes[place].1;
                }
            }
            if !nodes.iter().any(|(_, serves)| *serves) {
                nodes[0].1 = true;
            }
            let serving = nodes.iter().filter(|(_, serves)| *serves).count();
            seats = planned(&seats, &nodes);
            for it in &seats {
                let serve = it.now.iter().filter(|id| nodes.contains(&(**id, true))).count();
                assert_eq!((it.now.len(), serve), (3.min(nodes.len()), 3.min(serving)), "seed {seed}: {it:?}");
            }
            check_fairly_even(&seats, &nodes);
        }
    }
}
