use std::collections::BTreeSet;

use base::Rng;

use super::tests::{PARTITIONS, all, founded, moved};
use super::zones::Zone;
use super::*;

fn zones(labels: &[(u16, &str)]) -> BTreeMap<NodeId, String> {
    labels.iter().map(|(id, zone)| (NodeId(*id), (*zone).to_owned())).collect()
}

/// Nodes by turns in zones `a`, `b`, `c` …
fn in_turn(nodes: u16, zones: u16) -> BTreeMap<NodeId, String> {
    (0..nodes).map(|id| (NodeId(id), char::from(b'a' + (id % zones) as u8).to_string())).collect()
}

/// What the rule comes to for a partition of so many voters, reckoned from the sizes of zones alone.
struct Rule<'a> {
    /// Who serves of each zone.
    sizes: BTreeMap<Zone<'a>, usize>,
    /// How many vote who serve.
    voters: usize,
    /// The most that a zone has to have, and how many zones have to have that many.
    most: usize,
    full: usize,
}

impl<'a> Rule<'a> {
    fn new(count: usize, nodes: &'a Nodes<'_>) -> Rule<'a> {
        let mut sizes: BTreeMap<Zone<'_>, usize> = BTreeMap::new();
        nodes.serving().for_each(|id| *sizes.entry(nodes.zone(id)).or_default() += 1);
        let voters = count.min(nodes.serving().count());
        let room = |level: usize| sizes.values().map(|size| *size.min(&level)).sum::<usize>();
        let most = (0..).find(|level| room(*level) >= voters).unwrap();
        let full = if most == 0 { 0 } else { voters - room(most - 1) };
        Rule { sizes, voters, most, full }
    }

    /// The least and the most that a zone may have.
    fn bounds(&self, zone: &Zone<'_>) -> (usize, usize) {
        let size = self.sizes[zone];
        let able = self.sizes.values().filter(|size| **size >= self.most).count();
        let least = if able == self.full { self.most } else { self.most - 1 };
        (size.min(least), size.min(self.most))
    }

    #[track_caller]
    fn check(&self, it: &Seats, nodes: &Nodes<'_>) {
        let mut crowds: BTreeMap<Zone<'_>, usize> = BTreeMap::new();
        let serving = it.now.iter().filter(|id| nodes.serves(**id));
        serving.clone().for_each(|id| *crowds.entry(nodes.zone(*id)).or_default() += 1);
        assert_eq!(serving.count(), self.voters, "{it:?}");
        let unlike = it.now.iter().collect::<BTreeSet<_>>();
        assert_eq!((it.now.len(), unlike.len()), (it.count.min(nodes.all.len()), it.now.len()), "{it:?}");
        if self.sizes.len() >= it.count {
            assert!(crowds.values().all(|crowd| *crowd == 1), "{it:?}: {crowds:?}");
        }
        for (zone, crowd) in &crowds {
            let (least, most) = self.bounds(zone);
            assert!((least..=most).contains(crowd), "{it:?}: {crowds:?}");
        }
    }

    /// How many votes of a partition have to move, whoever plans.
    fn forced(&self, before: &Seats, nodes: &Nodes<'_>) -> usize {
        let mut held: BTreeMap<Zone<'_>, usize> = BTreeMap::new();
        let serving = before.now.iter().filter(|id| nodes.serves(**id));
        serving.for_each(|id| *held.entry(nodes.zone(*id)).or_default() += 1);
        let held_of = |zone: &Zone<'_>| held.get(zone).copied().unwrap_or(0);
        let stay = |(zone, size): (&Zone<'_>, &usize)| {
            if *size < self.most { held_of(zone) } else { held_of(zone).min(self.most.saturating_sub(1)) }
        };
        let over = self
            .sizes
            .keys()
            .filter(|zone| self.most > 0 && held_of(zone) >= self.most && self.sizes[zone] >= self.most);
        let stays = self.sizes.iter().map(stay).sum::<usize>() + over.count().min(self.full);
        self.voters - stays.min(self.voters)
    }

    /// Nodes have as many votes as zones allow. By this alone, without looking at any partition: whatever zones may have of each partition they may
    /// have of all together, and whoever is below that may have more.
    #[track_caller]
    fn check_loads(&self, loads: &BTreeMap<NodeId, usize>, partitions: usize, nodes: &Nodes<'_>, seed: u64) {
        let mut of_zones: BTreeMap<Zone<'_>, usize> = BTreeMap::new();
        loads.iter().for_each(|(id, load)| *of_zones.entry(nodes.zone(*id)).or_default() += load);
        for (giver, most) in loads {
            for (taker, least) in loads {
                let (from, to) = (nodes.zone(*giver), nodes.zone(*taker));
                let may_give = from == to || of_zones[&from] > partitions * self.bounds(&from).0;
                let may_take = from == to || of_zones[&to] < partitions * self.bounds(&to).1;
                let differ = *most > least + VOTES_SLACK && 4 * most > 5 * least;
                assert!(
                    !(differ && may_give && may_take && *least < partitions),
                    "seed {seed}: {loads:?}, {of_zones:?}"
                );
            }
        }
    }
}

/// A plan for nodes in zones, with all that has to hold of any.
#[track_caller]
fn planned(before: &[Seats], nodes: &Nodes<'_>, seed: u64) -> Vec<Seats> {
    let after = plan(before.to_vec(), nodes);
    assert_eq!(plan(after.clone(), nodes), after, "seed {seed}: a plan is one that stays");
    let mut forced = 0;
    for (before, after) in before.iter().zip(&after) {
        let rule = Rule::new(after.count, nodes);
        rule.check(after, nodes);
        forced += rule.forced(before, nodes);
    }
    // Votes that nobody has to give up move only where that makes loads more even; twice as many where that takes ways over several nodes.
    let (had, has) = (votes(before, nodes), votes(&after, nodes));
    let gained: usize = has.iter().map(|(id, load)| load.saturating_sub(had[id])).sum();
    // Those who only fill seats until enough serve are not counted.
    let new = |(before, after): (&Seats, &Seats)| {
        after.now.iter().filter(|id| nodes.serves(**id) && !before.now.contains(id)).count()
    };
    let moved: usize = before.iter().zip(&after).map(new).sum();
    assert!(moved <= 2 * (forced + gained), "seed {seed}: {moved} votes moved, {forced} had to, {gained} were gained");
    let rule = Rule::new(after[0].count, nodes);
    rule.check_loads(&has, after.iter().filter(|it| it.partition != COUNCIL).count(), nodes, seed);
    after
}

#[test]
fn no_two_voters_are_in_one_zone_if_there_are_enough() {
    let labels = in_turn(6, 3);
    let nodes = all(0..6, &[]);
    let nodes = Nodes { all: &nodes, zones: &labels };
    let after = planned(&founded(3), &nodes, 0);
    assert_eq!(votes(&after, &nodes).into_values().collect::<Vec<_>>(), [32; 6]);
    // The founders were in one zone each: whoever has joined took over from the one in its own.
    assert_eq!(moved(&founded(3), &after), 96);
}

#[test]
fn a_zone_with_one_node_has_a_vote_in_each_partition() {
    let labels = zones(&[(0, "a"), (1, "b"), (2, "c"), (3, "c"), (4, "c"), (5, "c")]);
    let nodes = all(0..6, &[]);
    let nodes = Nodes { all: &nodes, zones: &labels };
    let after = planned(&founded(3), &nodes, 0);
    assert_eq!(votes(&after, &nodes).into_values().collect::<Vec<_>>(), [64, 64, 16, 16, 16, 16]);
    let leads = leads(&after, &nodes);
    assert!(leads.values().all(|leads| (10..=11).contains(leads)), "{leads:?}");
}

#[test]
fn two_zones_share_three_votes_and_a_third_one_gets_its_own() {
    let labels = in_turn(5, 2);
    let four = all(0..4, &[]);
    let seats = planned(&founded(3), &Nodes { all: &four, zones: &labels }, 0);
    let five = all(0..5, &[]);
    let labels = BTreeMap::from_iter(labels.into_iter().chain(zones(&[(4, "c")])));
    let after = planned(&seats, &Nodes { all: &five, zones: &labels }, 0);
    assert_eq!(moved(&seats, &after), 64, "one vote of each partition, and no other");
    // The label was wrong: its votes are none of a zone of their own any more.
    let labels = BTreeMap::from_iter(labels.into_iter().chain(zones(&[(4, "a")])));
    let nodes = Nodes { all: &five, zones: &labels };
    planned(&after, &nodes, 0);
}

#[test]
fn a_label_that_changes_moves_only_what_it_has_to() {
    let labels = in_turn(6, 3);
    let six = all(0..6, &[]);
    let seats = planned(&founded(3), &Nodes { all: &six, zones: &labels }, 0);
    let labels = BTreeMap::from_iter(labels.into_iter().chain(zones(&[(0, "b")])));
    let nodes = Nodes { all: &six, zones: &labels };
    let rule = Rule::new(3, &nodes);
    let forced: usize = seats.iter().map(|it| rule.forced(it, &nodes)).sum();
    assert!(forced > 0);
    planned(&seats, &nodes, 0);
}

#[test]
fn the_council_is_spread_as_well() {
    let labels = in_turn(6, 3);
    let six = all(0..6, &[]);
    let nodes = Nodes { all: &six, zones: &labels };
    for (count, founders) in [(3, [0, 3, 1]), (3, [0, 3, 2]), (5, [0, 3, 1])] {
        let mut seats = founded(3);
        seats.push(Seats { partition: COUNCIL, count, now: founders.map(NodeId).to_vec() });
        planned(&seats, &nodes, 0);
    }
}

/// Whatever comes and goes, is drained and labelled anew: the rule holds, a plan stays, and no more moves than has to or makes loads more even.
#[test]
fn any_sequence_of_changes_keeps_the_rule() {
    for seed in 0..150 {
        let mut rng = Rng::new(seed);
        let count = *rng.pick(&[3, 3, 3, 5, 2]);
        let names = &["a", "b", "c", "d", "e"][..rng.between(1, 5) as usize];
        let mut labels: BTreeMap<NodeId, String> = BTreeMap::new();
        let label = |labels: &mut BTreeMap<NodeId, String>, id: NodeId, rng: &mut Rng| {
            if rng.chance(1, 8) {
                labels.remove(&id);
            } else {
                labels.insert(id, (*rng.pick(names)).to_owned());
            }
        };
        let mut seats: Vec<Seats> = founded(3).into_iter().map(|it| Seats { count, ..it }).collect();
        seats.truncate(rng.between(1, u64::from(PARTITIONS)) as usize);
        let mut nodes = all(0..3, &[]);
        for (id, _) in &nodes {
            label(&mut labels, *id, &mut rng);
        }
        for _ in 0..20 {
            match rng.below(6) {
                0 | 1 if nodes.len() < 12 => {
                    let id = NodeId(nodes.last().unwrap().0.0 + 1);
                    nodes.push((id, true));
                    label(&mut labels, id, &mut rng);
                }
                2 if nodes.len() > 1 => drop(nodes.remove(rng.below(nodes.len() as u64) as usize)),
                3 => label(&mut labels, rng.pick(&nodes).0, &mut rng),
                _ => {
                    let place = rng.below(nodes.len() as u64) as usize;
                    nodes[place].1 = !nodes[place].1;
                }
            }
            if !nodes.iter().any(|(_, serves)| *serves) {
                nodes[0].1 = true;
            }
            seats = planned(&seats, &Nodes { all: &nodes, zones: &labels }, seed);
        }
    }
}
