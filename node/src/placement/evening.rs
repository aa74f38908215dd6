//! Votes and leaderships are evened out: one at a time goes from a node with many to a node with few, perhaps by way of others. `x` gives one to `y` in one
//! partition, `y` gives one to `z` in another: so whatever zones allow is reached, though `x` and `z` may have no partition in which one could take the
//! place of the other.
//!
//! Why that is so: the sets of voters that the rule of zones allows for a partition are the bases of a matroid (and so are its leaders), and what nodes can
//! have in all partitions together is a sum of these. There a load that could be more even can be made so by giving *one* from some node to another, and
//! the shortest way of doing that breaks the rule in no partition, even if it comes by one of them twice.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};

use base::NodeId;

use super::zones::Zone;
use super::{COUNCIL, Nodes, Seats, leads, votes};

/// What is evened out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Load {
    Votes,
    Leads,
}

/// One node gives to another, in the partition at that place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Step {
    place: usize,
    giver: usize,
    taker: usize,
}

/// By which partition each node could give to each other.
struct Steps {
    /// Those that serve. In here nodes are numbered by their places in this list.
    nodes: Vec<NodeId>,
    /// By the giver and then the taker.
    by: Vec<Vec<Option<usize>>>,
}

/// Evens out as far as it goes, if somebody who could give to somebody else has clearly more: more by this, and by a quarter; or without this, in any case.
/// Whether something was moved.
pub(super) fn even_out(seats: &mut [Seats], nodes: &Nodes<'_>, load: Load, slack: Option<usize>) -> bool {
    let loads = if load == Load::Votes { votes(seats, nodes) } else { leads(seats, nodes) };
    let mut loads: Vec<usize> = loads.into_values().collect();
    let mut slack = slack;
    let mut moved = false;
    loop {
        let differ = |most: usize, least: usize| match slack {
            Some(slack) => most > least + slack && 4 * most > 5 * least,
            None => most > least + 1,
        };
        let is_over = |loads: &[usize]| {
            loads.iter().max().zip(loads.iter().min()).is_none_or(|(most, least)| !differ(*most, *least))
        };
        if is_over(&loads) {
            return moved;
        }
        let mut steps = Steps::new(seats, nodes, load);
        let Some(mut way) = steps.steepest(&loads, usize::MAX, differ) else { return moved };
        let begins_with = difference(&way, &loads);
        // The table is good for all partitions that have not been touched since; a way over several of them needs a new one.
        let mut touched = BTreeSet::new();
        loop {
            for step in &way {
                touched.insert(step.place);
                carry_out(&mut seats[step.place].now, load, steps.nodes[step.giver], steps.nodes[step.taker]);
            }
            loads[way[0].giver] -= 1;
            loads[way[way.len() - 1].taker] += 1;
            steps.forget(&touched);
            let next = steps.steepest(&loads, 1, |most, least| most > least + 1);
            let Some(next) = next.filter(|next| difference(next, &loads) + 1 >= begins_with) else { break };
            way = next;
        }
        (slack, moved) = (None, true);
    }
}

fn difference(way: &[Step], loads: &[usize]) -> usize {
    loads[way[0].giver] - loads[way[way.len() - 1].taker]
}

fn carry_out(now: &mut [NodeId], load: Load, giver: NodeId, taker: NodeId) {
    match load {
        Load::Votes => {
            if let Some(seat) = now.iter_mut().find(|id| **id == giver) {
                *seat = taker;
            }
        }
        Load::Leads => {
            if let Some(place) = now.iter().position(|id| *id == taker) {
                now.swap(0, place);
            }
        }
    }
}

impl Steps {
    fn new(seats: &[Seats], nodes: &Nodes<'_>, load: Load) -> Steps {
        let serving: Vec<NodeId> = nodes.serving().collect();
        let mut steps = Steps { by: vec![vec![None; serving.len()]; serving.len()], nodes: serving };
        let places = || seats.iter().enumerate().filter(|(_, it)| it.partition != COUNCIL);
        match load {
            Load::Votes => {
                let zones: Vec<Zone<'_>> = steps.nodes.iter().map(|id| nodes.zone(*id)).collect();
                let first_of = |zone: &Zone<'_>| zones.iter().position(|other| other == zone);
                let zones: Vec<Option<usize>> = zones.iter().map(first_of).collect();
                // Not its leaderships, if there is a choice: votes move without anybody noticing.
                for leads in [false, true] {
                    places().for_each(|(place, it)| steps.note_votes(place, it, &zones, leads));
                }
            }
            Load::Leads => places().for_each(|(place, it)| steps.note_leads(place, it)),
        }
        steps
    }

    fn number(&self, id: NodeId) -> Option<usize> {
        self.nodes.binary_search(&id).ok()
    }

    /// What can be given of a partition's votes without breaking the rule of zones: that of its leader, or those of the others. Nodes of one zone have the
    /// same number in `zones`.
    fn note_votes(&mut self, place: usize, it: &Seats, zones: &[Option<usize>], leads: bool) {
        let voters: Vec<usize> = it.now.iter().filter_map(|id| self.number(*id)).collect();
        let crowd = |of: usize| voters.iter().filter(|voter| zones[**voter] == zones[of]).count();
        let crowds: Vec<usize> = (0..self.nodes.len()).map(crowd).collect();
        for giver in voters.iter().copied().filter(|giver| (it.now.first() == Some(&self.nodes[*giver])) == leads) {
            for taker in (0..self.nodes.len()).filter(|taker| !voters.contains(taker)) {
                if zones[giver] == zones[taker] || crowds[taker] < crowds[giver] {
                    self.by[giver][taker].get_or_insert(place);
                }
            }
        }
    }

    fn note_leads(&mut self, place: usize, it: &Seats) {
        let Some(giver) = it.now.first().and_then(|id| self.number(*id)) else { return };
        let takers: Vec<usize> = it.now[1..].iter().filter_map(|id| self.number(*id)).collect();
        for taker in takers {
            self.by[giver][taker].get_or_insert(place);
        }
    }

    fn forget(&mut self, touched: &BTreeSet<usize>) {
        for by in self.by.iter_mut().flatten() {
            *by = by.filter(|place| !touched.contains(place));
        }
    }

    /// The shortest way between two nodes that differ so, and by as much as any that there is a way between.
    fn steepest(&self, loads: &[usize], steps_max: usize, differ: impl Fn(usize, usize) -> bool) -> Option<Vec<Step>> {
        let most = loads.iter().max().copied()?;
        let mut takers: Vec<usize> = (0..loads.len()).collect();
        takers.sort_by_key(|taker| loads[*taker]);
        let mut best: Option<(usize, Reverse<usize>, Vec<Step>)> = None;
        for taker in takers {
            let could_be = most - loads[taker];
            if !differ(most, loads[taker]) || best.as_ref().is_some_and(|(by, _, _)| could_be < *by) {
                break;
            }
            let ways = self.ways_to(taker, steps_max);
            for giver in (0..loads.len()).filter(|giver| differ(loads[*giver], loads[taker])) {
                let by = loads[giver] - loads[taker];
                let Some(length) = ways[giver].map(|(length, _)| Reverse(length)) else { continue };
                if best.as_ref().is_none_or(|(most, least, _)| (by, length) > (*most, *least)) {
                    best = Some((by, length, follow(&ways, giver, taker)));
                }
            }
        }
        best.map(|(_, _, way)| way)
    }

    /// Of each node that can give to `to`, perhaps by way of others: over how many steps, and the first of them.
    fn ways_to(&self, to: usize, steps_max: usize) -> Vec<Option<(usize, Step)>> {
        let mut ways: Vec<Option<(usize, Step)>> = vec![None; self.nodes.len()];
        let mut reached = VecDeque::from([(to, 0)]);
        while let Some((taker, length)) = reached.pop_front() {
            if length == steps_max {
                break;
            }
            for giver in (0..self.nodes.len()).filter(|giver| *giver != to) {
                if let (Some(place), None) = (self.by[giver][taker], ways[giver]) {
                    ways[giver] = Some((length + 1, Step { place, giver, taker }));
                    reached.push_back((giver, length + 1));
                }
            }
        }
        ways
    }
}

fn follow(ways: &[Option<(usize, Step)>], from: usize, to: usize) -> Vec<Step> {
    let mut way = Vec::new();
    let mut at = from;
    while at != to
        && let Some((_, step)) = ways[at]
    {
        way.push(step);
        at = step.taker;
    }
    way
}
