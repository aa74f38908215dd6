//! Whether a node is slow, by its figures and those of the others, window by window.
//!
//! It is slow by a part if its figure is above a floor, and several times the middle one (of an even number the lower) of all nodes that are up, in some
//! windows in a row. So never more than half of the nodes can be slow by one part, and where all are alike nobody is. Windows that show nothing of a part
//! (nothing was written) count for nothing.
//!
//! It is well again when its figure has been near the others' for a while; and each time that it becomes slow soon after it was well,
//! that while is twice as long.

use std::time::Duration;

use base::Time;

use super::{Pace, Part};

/// So many windows make it well, at first, and at most.
const GOOD_WINDOWS: u32 = 10;
const GOOD_WINDOWS_MAX: u32 = 160;
/// A node that is slow again within such a time was not really well.
const RELAPSE: Duration = Duration::from_secs(60);

/// From where on a part counts as slow.
struct Bounds {
    /// Microseconds below which nobody minds.
    floor: u32,
    /// How many times the middle figure.
    times: u32,
    /// So many windows in a row make a node slow: a stall of a second is none.
    windows: u32,
}

/// A disk is told most easily, and nothing else is in its figure. A loop and a link are measured on a node that leads, and so is busier than others. Queues and a crowded processor make
/// the ways of a leader long for a second or two; a slow link stays.
const fn bounds(part: Part) -> Bounds {
    match part {
        Part::Disk => Bounds { floor: 3_000, times: 3, windows: 3 },
        Part::Processor => Bounds { floor: 20_000, times: 4, windows: 3 },
        Part::Link => Bounds { floor: 10_000, times: 4, windows: 6 },
    }
}

/// What has come of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    /// The node is slow by this part.
    Slow(Part),
    /// It is not any more.
    Well(Part),
}

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Judge {
    /// Of each part, in how many windows in a row it was bad.
    bad: [u32; Part::ALL.len()],
    slow: Option<Part>,
    /// Since it is slow: in how many windows it was not.
    good: u32,
    /// How many of these it takes, and when it was last well again; none before it was slow.
    patience: u32,
    well_since: Option<Time>,
}

impl Judge {
    pub(super) fn slow(&self) -> Option<Part> {
        self.slow
    }

    /// A window is over, in which the figures of these parts were measured anew.
    pub(super) fn on_window(
        &mut self,
        now: Time,
        own: [u32; Part::ALL.len()],
        is_new: [bool; Part::ALL.len()],
        others: &[Pace],
    ) -> Option<Change> {
        let is_bad = |part: Part| is_bad(part, own[part as usize], others, self.slow.is_some());
        let shown = Part::ALL.map(|part| if is_new[part as usize] { is_bad(part) } else { None });
        for (bad, shown) in self.bad.iter_mut().zip(shown) {
            *bad = match shown {
                Some(true) => bad.saturating_add(1),
                Some(false) => 0,
                None => *bad,
            };
        }
        let Some(part) = self.slow else {
            let slow = Part::ALL.into_iter().find(|part| self.bad[*part as usize] >= bounds(*part).windows)?;
            // Somebody has to be there who is not.
            others.iter().find(|pace| pace.slow.is_none())?;
            let relapse = self.well_since.is_some_and(|since| now.since(since) < RELAPSE);
            self.patience = if relapse { (self.patience * 2).min(GOOD_WINDOWS_MAX) } else { GOOD_WINDOWS };
            (self.slow, self.good) = (Some(slow), 0);
            return Some(Change::Slow(slow));
        };
        if shown.contains(&Some(true)) {
            self.good = 0;
        } else if shown[part as usize] == Some(false) {
            self.good += 1;
        }
        if self.good < self.patience {
            return None;
        }
        (self.slow, self.well_since, self.bad) = (None, Some(now), Default::default());
        Some(Change::Well(part))
    }
}

/// Whether a figure is far above the middle one; none if nobody else says one. Of a node that `was` slow more is asked.
fn is_bad(part: Part, own: u32, others: &[Pace], was: bool) -> Option<bool> {
    let place = part as usize;
    let mut figures: Vec<u32> = others.iter().map(|pace| pace.figures[place]).filter(|figure| *figure > 0).collect();
    if figures.is_empty() {
        return None;
    }
    figures.push(own);
    figures.sort_unstable();
    let middle = figures[(figures.len() - 1) / 2];
    let Bounds { floor, times, .. } = bounds(part);
    let (floor, times) = if was { (floor / 3 * 2, times - 1) } else { (floor, times) };
    Some(own >= floor && own >= middle.saturating_mul(times))
}
