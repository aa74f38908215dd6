//! Which nodes shall vote in which partition, and who shall lead it: a map is made from the one before, so that nothing moves that need not.
//!
//! 1. Whoever votes and serves stays.
//! 2. A seat that is empty, or whose holder is to serve no more, goes to the node that has the fewest. If too few serve, holders stay all the same:
//!    nobody else could vote in their place.
//! 3. Seats go from whoever has most to whoever has least until these differ by one: after a node has joined just its share moves to it.
//! 4. Of each partition's voters one leads; leaderships are evened out in the same way. That moves no data.
//!
//! Step 3 is taken only where something is clearly uneven, and step 4 also where something has to move anyway: a bucket that comes or goes shall not set
//! all others moving, and a vote that moves costs a copy of the partition. Consistent hashing moves as little, but with 64 partitions on five nodes its
//! shares would be far from even (a test says so).

use std::collections::BTreeMap;

use base::{NodeId, PartitionId};

use crate::council::COUNCIL;

/// By how many votes nodes may differ before votes move for that alone.
const VOTES_SLACK: usize = 2;
/// The same for leaderships. They move more easily, and whoever serves again shall lead again where few partitions are all there is.
const LEADS_SLACK: usize = 1;

/// All nodes in the order in which a partition that these have founded prefers them: the first is next in turn from partition to partition; the others
/// follow in steps whose length changes from round to round, so that what a node gives up is spread over all others.
pub(crate) fn order(partition: PartitionId, nodes: &[NodeId]) -> Vec<NodeId> {
    let count = nodes.len();
    if count < 2 {
        return nodes.to_vec();
    }
    // The council goes with the default bucket.
    let turn = if partition == COUNCIL { 0 } else { partition.bucket.0 as usize + usize::from(partition.index) };
    let steps: Vec<usize> = (1..count).filter(|step| are_coprime(*step, count)).collect();
    let step = steps[turn / count % steps.len()];
    (0..count).map(|place| nodes[(turn + place * step) % count]).collect()
}

/// Whether steps of this length come by every place of a circle.
fn are_coprime(step: usize, count: usize) -> bool {
    (2..=step).all(|divisor| !step.is_multiple_of(divisor) || !count.is_multiple_of(divisor))
}

/// One partition, as it is and as it shall be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seats {
    pub partition: PartitionId,
    /// How many shall vote.
    pub count: usize,
    /// Who does by the map; the first leads.
    pub now: Vec<NodeId>,
}

/// What a plan is made for.
#[derive(Debug)]
pub(crate) struct Nodes<'a> {
    /// Who is there, ascending, and whether each serves.
    pub all: &'a [(NodeId, bool)],
}

impl Nodes<'_> {
    fn serving(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.all.iter().filter(|(_, serves)| *serves).map(|(id, _)| *id)
    }

    fn serves(&self, id: NodeId) -> bool {
        self.all.iter().any(|(other, serves)| *other == id && *serves)
    }

    fn is_there(&self, id: NodeId) -> bool {
        self.all.iter().any(|(other, _)| *other == id)
    }
}

/// Seats as they shall be; the same as they were if nothing has to change.
pub(crate) fn plan(mut seats: Vec<Seats>, nodes: &Nodes<'_>) -> Vec<Seats> {
    let all_fit = seats.iter().all(|it| fits(it, nodes));
    if !all_fit {
        fill(&mut seats, nodes);
    }
    let uneven = is_uneven(&votes(&seats, nodes), VOTES_SLACK);
    if uneven {
        even_out_votes(&mut seats, nodes);
    }
    if !all_fit || uneven || is_uneven(&leads(&seats, nodes), LEADS_SLACK) {
        even_out_leads(&mut seats, nodes);
    }
    seats
}

/// Whether a partition has as many voters as it shall have and can have, and all of them serve that can. Who is only drained, and keeps its seat, keeps
/// its place in their order, too: it leads again when it serves again.
fn fits(it: &Seats, nodes: &Nodes<'_>) -> bool {
    let serving = nodes.serving().count();
    let serve = it.now.iter().filter(|id| nodes.serves(**id)).count();
    it.now.len() == it.count.min(nodes.all.len())
        && it.now.iter().all(|id| nodes.is_there(*id))
        && serve == it.count.min(serving)
}

/// Step 1 and 2.
fn fill(seats: &mut [Seats], nodes: &Nodes<'_>) {
    for it in seats.iter_mut() {
        it.now.retain(|id| nodes.is_there(*id));
        while it.now.len() > it.count {
            // Who does not serve goes first, whoever leads last.
            let idle = it.now.iter().rposition(|id| !nodes.serves(*id));
            it.now.remove(idle.unwrap_or(it.now.len() - 1));
        }
    }
    let mut loads = votes(seats, nodes);
    for it in seats.iter_mut() {
        let lacks = |it: &Seats| it.now.iter().filter(|id| nodes.serves(**id)).count() < it.count;
        while lacks(it) {
            let new = loads.iter().filter(|(id, _)| !it.now.contains(id)).min_by_key(|(id, load)| (**load, **id));
            let Some(new) = new.map(|(id, _)| *id) else { break };
            *loads.entry(new).or_default() += 1;
            // Behind the others: it has a copy to make before it can lead.
            if it.now.len() >= it.count
                && let Some(place) = it.now.iter().position(|id| !nodes.serves(*id))
            {
                it.now.remove(place);
            }
            it.now.push(new);
        }
        // Too few serve: others who are there vote, rather than nobody.
        for (id, _) in nodes.all {
            if it.now.len() < it.count && !it.now.contains(id) {
                it.now.push(*id);
            }
        }
    }
}

/// In how many partitions each node votes that serves.
fn votes(seats: &[Seats], nodes: &Nodes<'_>) -> BTreeMap<NodeId, usize> {
    count(seats.iter().filter(|it| it.partition != COUNCIL).flat_map(|it| it.now.iter().copied()), nodes)
}

/// How many partitions each node shall lead that serves.
fn leads(seats: &[Seats], nodes: &Nodes<'_>) -> BTreeMap<NodeId, usize> {
    count(seats.iter().filter(|it| it.partition != COUNCIL).filter_map(|it| it.now.first().copied()), nodes)
}

fn count(held: impl Iterator<Item = NodeId>, nodes: &Nodes<'_>) -> BTreeMap<NodeId, usize> {
    let mut loads: BTreeMap<NodeId, usize> = nodes.serving().map(|id| (id, 0)).collect();
    for id in held {
        if let Some(load) = loads.get_mut(&id) {
            *load += 1;
        }
    }
    loads
}

/// Whether somebody has clearly more than somebody else: by more than this, and by more than a quarter.
fn is_uneven(loads: &BTreeMap<NodeId, usize>, slack: usize) -> bool {
    let (least, most) = (loads.values().min().copied().unwrap_or(0), loads.values().max().copied().unwrap_or(0));
    most > least + slack && 4 * most > 5 * least
}

/// Step 3.
fn even_out_votes(seats: &mut [Seats], nodes: &Nodes<'_>) {
    let mut loads = votes(seats, nodes);
    // Each round lowers the sum of the squares of all loads.
    while let Some((to, least)) = loads.iter().min_by_key(|(id, load)| (**load, **id)).map(|(id, load)| (*id, *load)) {
        let mut donors: Vec<(NodeId, usize)> = loads.iter().map(|(id, load)| (*id, *load)).collect();
        donors.sort_by_key(|(id, load)| (std::cmp::Reverse(*load), *id));
        let mut moved = false;
        for (from, load) in donors.into_iter().take_while(|(_, load)| *load > least + 1) {
            // Not its leaderships, if there is a choice: votes move without anybody noticing.
            let places = || seats.iter().enumerate().filter(|(_, it)| it.partition != COUNCIL);
            let may = |it: &Seats| it.now.contains(&from) && !it.now.contains(&to);
            let follows = places().find(|(_, it)| may(it) && it.now.first() != Some(&from));
            let Some(place) = follows.or_else(|| places().find(|(_, it)| may(it))).map(|(place, _)| place) else {
                continue;
            };
            if let Some(seat) = seats[place].now.iter_mut().find(|id| **id == from) {
                *seat = to;
            }
            loads.insert(from, load - 1);
            loads.insert(to, least + 1);
            moved = true;
            break;
        }
        if !moved {
            return;
        }
    }
}

/// Step 4: a leadership goes from one with many over to one with few, perhaps by way of others.
fn even_out_leads(seats: &mut [Seats], nodes: &Nodes<'_>) {
    let mut loads = leads(seats, nodes);
    while let Some((to, least)) = loads.iter().min_by_key(|(id, load)| (**load, **id)).map(|(id, load)| (*id, *load)) {
        // From whom leaderships can come to `to`, by how many steps, and over which partition each step goes.
        let mut came: BTreeMap<NodeId, (usize, NodeId)> = BTreeMap::new();
        let mut reached = vec![to];
        let mut next = 0;
        let mut donor = None;
        while let Some(taker) = reached.get(next).copied() {
            next += 1;
            for (place, it) in seats.iter().enumerate().filter(|(_, it)| it.partition != COUNCIL) {
                let Some(giver) = it.now.first().copied().filter(|giver| *giver != taker) else { continue };
                if it.now.contains(&taker) && loads.contains_key(&giver) && !reached.contains(&giver) {
                    came.insert(giver, (place, taker));
                    reached.push(giver);
                    if donor.is_none() && loads[&giver] > least + 1 {
                        donor = Some(giver);
                    }
                }
            }
        }
        let Some(mut giver) = donor else { return };
        *loads.entry(giver).or_default() -= 1;
        *loads.entry(to).or_default() += 1;
        while let Some((place, taker)) = came.get(&giver).copied() {
            let now = &mut seats[place].now;
            if let Some(at) = now.iter().position(|id| *id == taker) {
                now.swap(0, at);
            }
            giver = taker;
        }
    }
}

#[cfg(test)]
mod tests;
