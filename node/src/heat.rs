//! Which partitions are busy, as whoever leads the council sees it, and which leaderships change hands for that reason.
//!
//! Placement ([`crate::placement`]) spreads leaderships by number. Where a few partitions have most of the work, one node may lead all of these; so
//! 1. the council's leader counts what is decided in each partition, window by window;
//! 2. a node is *hot* when the partitions that it shall lead have half as many entries again as the nodes have on average, and enough for it to matter;
//! 3. when one has been hot for two windows, one of its busy partitions changes leaders with a quieter one of another node that votes in both; or simply
//!    goes over, where numbers allow it. Numbers stay as even as placement has made them, so that it has nothing to take back;
//! 4. then nothing moves until the new rates are known.
//!
//! What is decided is most of what only a leader does; reads are served where they arrive, and are not counted.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{NodeId, PartitionId, Position, Time};

use crate::council::COUNCIL;
use crate::placement::Seats;

/// How long what is decided is counted.
const WINDOW: Duration = Duration::from_secs(5);
/// Windows in which nothing moves after something has: the first one has seen the move.
const REST_WINDOWS: u32 = 3;
/// Windows in which a node has to be hot before something moves.
const HOT_WINDOWS: u32 = 2;

/// How busy each partition was in the last window.
#[derive(Debug, Default)]
pub(crate) struct Heat {
    /// When the window began, and what was decided then.
    begun: Option<(Time, BTreeMap<PartitionId, Position>)>,
    /// Entries a second in the last window.
    rates: BTreeMap<PartitionId, u64>,
    /// Windows for which somebody has been hot.
    hot_for: u32,
    /// Windows until something may move again.
    rests_for: u32,
}

impl Heat {
    /// Whether a window is over, or the first one is to begin.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.begun.as_ref().is_none_or(|(at, _)| now.since(*at) >= WINDOW)
    }

    /// Ends a window, in which so much was decided by now, and begins the next. Whether there was one.
    pub(crate) fn end_window(&mut self, now: Time, decided: BTreeMap<PartitionId, Position>) -> bool {
        let Some((began, before)) = &self.begun else {
            self.begun = Some((now, decided));
            return false;
        };
        let began = *began;
        let ms = (now.since(began).as_millis() as u64).max(1);
        let rate = |(id, at): (&PartitionId, &Position)| {
            let since = before.get(id).map_or(0, |before| at.0.saturating_sub(before.0));
            (*id, since.saturating_mul(1000) / ms)
        };
        self.rates = decided.iter().map(rate).collect();
        self.begun = Some((now, decided));
        self.rests_for = self.rests_for.saturating_sub(1);
        true
    }

    /// At the end of a window: the seats as they shall be, if leaderships are to change hands. `may_lead` has all nodes that serve and are up,
    /// `matters` is how many entries a second a hot node has at least.
    pub(crate) fn cooled(&mut self, seats: &[Seats], may_lead: &[NodeId], matters: u64) -> Option<Vec<Seats>> {
        let cooled = cool(seats, &self.rates, may_lead, matters);
        self.hot_for = if cooled.is_some() { self.hot_for + 1 } else { 0 };
        if self.rests_for > 0 || self.hot_for < HOT_WINDOWS {
            return None;
        }
        self.hot_for = 0;
        self.rests_for = REST_WINDOWS;
        cooled
    }
}

/// A leadership that may go over.
struct Change {
    /// The higher of both nodes' loads afterwards.
    higher: u64,
    /// How many partitions the other node leads before it.
    led: usize,
    /// The place of the partition.
    goes: usize,
    /// Who is to lead it.
    to: NodeId,
    /// The place of the partition that the hot node leads in its stead.
    comes: Option<usize>,
}

/// The seats with the one change that makes the hottest node coolest; none if nobody is hot, or no change makes it a tenth cooler.
fn cool(seats: &[Seats], rates: &BTreeMap<PartitionId, u64>, may_lead: &[NodeId], matters: u64) -> Option<Vec<Seats>> {
    let rate = |it: &Seats| rates.get(&it.partition).copied().unwrap_or_default();
    let is_led_by = |it: &Seats, id: NodeId| it.partition != COUNCIL && it.now.first() == Some(&id);
    let led_by = |id: NodeId| seats.iter().enumerate().filter(move |(_, it)| is_led_by(it, id));
    let load = |id: NodeId| led_by(id).map(|(_, it)| rate(it)).sum::<u64>();
    let loads: BTreeMap<NodeId, u64> = may_lead.iter().map(|id| (*id, load(*id))).collect();
    let (hot, hottest) = loads.iter().map(|(id, load)| (*id, *load)).max_by_key(|(id, load)| (*load, *id))?;
    let all: u64 = loads.values().sum();
    if hottest < matters.max(1) || 2 * hottest * loads.len() as u64 <= 3 * all {
        return None;
    }
    let mut best: Option<Change> = None;
    for (goes, it) in led_by(hot) {
        for to in it.now.iter().copied().filter(|to| *to != hot && loads.contains_key(to)) {
            let led = led_by(to).count();
            let plain = (led_by(hot).count() > led).then_some((None, 0));
            let back = led_by(to).filter(|(_, back)| back.now.contains(&hot));
            for (comes, comes_with) in back.map(|(place, it)| (Some(place), rate(it))).chain(plain) {
                let after = (hottest + comes_with).saturating_sub(rate(it));
                let higher = after.max((loads[&to] + rate(it)).saturating_sub(comes_with));
                if best.as_ref().is_none_or(|best| (higher, led) < (best.higher, best.led)) {
                    best = Some(Change { higher, led, goes, to, comes });
                }
            }
        }
    }
    let Change { goes, to, comes, .. } = best.filter(|best| 10 * best.higher <= 9 * hottest)?;
    let mut cooled = seats.to_vec();
    let mut lead = |place: usize, id: NodeId| {
        let now = &mut cooled[place].now;
        if let Some(at) = now.iter().position(|other| *other == id) {
            now.swap(0, at);
        }
    };
    lead(goes, to);
    comes.into_iter().for_each(|place| lead(place, hot));
    Some(cooled)
}

#[cfg(test)]
mod tests {
    use base::{BucketId, Rng};

    use super::*;
    use crate::placement::{Nodes, plan};

    fn id(index: u16) -> PartitionId {
        PartitionId { bucket: BucketId(1), index }
    }

    /// Partitions whose voters are these, the first one leads.
    fn seats(all: &[[u16; 3]]) -> Vec<Seats> {
        let one = |(index, now): (usize, &[u16; 3])| Seats {
            partition: id(index as u16),
            count: 3,
            now: now.map(NodeId).to_vec(),
        };
        all.iter().enumerate().map(one).collect()
    }

    fn rates(all: &[u64]) -> BTreeMap<PartitionId, u64> {
        all.iter().enumerate().map(|(index, rate)| (id(index as u16), *rate)).collect()
    }

    fn leaders(seats: &[Seats]) -> Vec<u16> {
        seats.iter().map(|it| it.now[0].0).collect()
    }

    const THREE: [NodeId; 3] = [NodeId(0), NodeId(1), NodeId(2)];

    #[test]
    fn busy_partitions_of_one_node_change_leaders_with_quiet_ones() {
        let all = seats(&[[0, 1, 2], [0, 1, 2], [1, 2, 0], [1, 2, 0], [2, 0, 1], [2, 0, 1]]);
        let cooled = cool(&all, &rates(&[900, 800, 10, 20, 0, 30]), &THREE, 100).expect("n1 is hot");
        assert_eq!(leaders(&cooled), [2, 0, 1, 1, 2, 0], "as many as before for each");
        assert_eq!(cool(&cooled, &rates(&[900, 800, 10, 20, 0, 30]), &THREE, 100), None, "better it does not get");
    }

    #[test]
    fn nothing_moves_for_little_or_for_nothing() {
        let all = seats(&[[0, 1, 2], [0, 1, 2], [1, 2, 0], [1, 2, 0]]);
        assert_eq!(cool(&all, &rates(&[90, 80, 1, 2]), &THREE, 1000), None, "too little to matter");
        assert_eq!(cool(&all, &rates(&[0, 0, 0, 0]), &THREE, 0), None);
        let one = seats(&[[0, 1, 2], [1, 2, 0]]);
        assert_eq!(cool(&one, &rates(&[5000, 0]), &THREE, 100), None, "a hot partition makes every leader hot");
        let alone = cool(&all, &rates(&[5000, 4000, 1, 2]), &THREE[..1], 100);
        assert_eq!(alone, None, "there is nobody else");
    }

    #[test]
    fn who_leads_more_than_others_gives_one_away() {
        let all = seats(&[[0, 1, 2], [0, 1, 2], [1, 2, 0]]);
        let cooled = cool(&all, &rates(&[900, 800, 10]), &THREE, 100).expect("n1 is hot");
        assert_eq!(leaders(&cooled), [2, 0, 1]);
    }

    /// Whatever the rates: placement leaves what was cooled as it is, and after a few changes nobody is hot that could be cooler.
    #[test]
    fn placement_takes_nothing_back_and_it_comes_to_an_end() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let count = 3 + rng.below(4) as u16;
            let nodes: Vec<NodeId> = (0..count).map(NodeId).collect();
            let all: Vec<(NodeId, bool)> = nodes.iter().map(|id| (*id, true)).collect();
            let founded = |index| Seats {
                partition: id(index),
                count: 3,
                now: crate::placement::order(id(index), &nodes).into_iter().take(3).collect(),
            };
            let founded = (0..3 + rng.below(40) as u16).map(founded).collect();
            let mut seats = plan(founded, &Nodes { all: &all, zones: &BTreeMap::new() });
            let mut draw = |it: &Seats| {
                let magnitude = rng.below(14);
                (it.partition, rng.below(1 << magnitude))
            };
            let rates: BTreeMap<PartitionId, u64> = seats.iter().map(&mut draw).collect();
            let mut changes = 0;
            while let Some(cooled) = cool(&seats, &rates, &nodes, 10) {
                assert_eq!(plan(cooled.clone(), &Nodes { all: &all, zones: &BTreeMap::new() }), cooled, "seed {seed}");
                seats = cooled;
                changes += 1;
                assert!(changes < 100, "seed {seed}: it goes round");
            }
        }
    }

    #[test]
    fn a_node_is_hot_for_two_windows_before_something_moves_and_then_it_rests() {
        let all = seats(&[[0, 1, 2], [0, 1, 2], [1, 2, 0], [2, 0, 1]]);
        let mut heat = Heat::default();
        let mut moved = Vec::new();
        for window in 0..8u64 {
            let now = Time(0) + WINDOW * window as u32;
            let decided = [(id(0), Position(window * 5000)), (id(1), Position(window * 4000))];
            assert!(heat.is_due(now));
            assert_eq!(heat.end_window(now, decided.into()), window > 0);
            assert!(!heat.is_due(now + WINDOW / 2), "in the middle of a window");
            if window > 0 && heat.cooled(&all, &THREE, 100).is_some() {
                moved.push(window);
            }
        }
        assert_eq!(heat.rates[&id(0)], 1000);
        assert_eq!(moved, [2, 5]);
    }
}
