//! Wall clocks that are wrong by more than a cluster has to bear of all of them; and whether its time is right all the same.

use base::{NodeId, Rng};
use node::CLOCK_TOLERATED;

use super::{Cluster, Machine};
use crate::chaos::{MS, SECOND};
use crate::checkers::time;
use crate::clock::Clock;
use crate::door::Door;
use crate::process::name_of;

const PROPERTY: &str = "time";
const HOUR: i64 = 3600 * SECOND as i64;
/// How wrong a clock may be made.
const ERRORS: [i64; 5] = [10 * SECOND as i64, HOUR, 48 * HOUR, 24 * 365 * HOUR, 24 * 365 * 50 * HOUR];
/// The error that pings add: they are under way for a while, and timers err meanwhile.
const MEASURED: u64 = 2 * SECOND;
/// While less than a majority agrees a node that starts begins at the log's time, which stands still while all are down.
const BEHIND_MAX: u64 = 100 * SECOND;

impl<N> Machine<N> {
    /// Sets its wall clock, that of a running process among them.
    pub(super) fn set_clock(&mut self, offset: i64, stopped: Option<u64>) {
        (self.clock_offset, self.clock_stopped) = (offset, stopped);
        if let Some(running) = &mut self.running {
            running.clock.set(offset, stopped);
        }
    }

    /// Whether its clock is wrong by more than clocks usually are.
    pub(super) fn is_wild(&self, error: u64) -> bool {
        self.clock_stopped.is_some() || self.clock_offset.unsigned_abs() > error
    }
}

impl<N: Door> Cluster<N> {
    /// A node's clock becomes wrong, or right again. Fewer than half of all are wrong at once: more cannot be told from those that are right.
    pub(super) fn set_clock_wild(&mut self, node: NodeId, rng: &mut Rng) -> bool {
        let (now, error) = (self.now, self.chaos.clock_error);
        let (sign, size, kind) = (rng.chance(1, 2), *rng.pick(&ERRORS), rng.below(4));
        let others = self.members().filter(|other| *other != node);
        let wild = others.filter(|other| self.machines[usize::from(other.0)].is_wild(error)).count();
        let may = (wild + 1) * 2 < self.members().count();
        let machine = self.machine(node);
        match kind {
            0 if machine.is_wild(error) => machine.set_clock(0, None),
            1 if may => machine.set_clock(machine.clock_offset, Some(now)),
            _ if may => machine.set_clock(if sign { size } else { -size }, None),
            _ => return false,
        }
        self.trace.event(now, [23, u64::from(node.0), kind, size.unsigned_abs()], || {
            format!("the clock of {} is set by {} s, or stopped, or right", name_of(node), size / SECOND as i64)
        });
        true
    }

    /// How wrong the cluster's time may be, in nanoseconds, either way.
    pub fn clock_error_max(&self) -> u64 {
        let tolerated = u64::try_from(CLOCK_TOLERATED.as_nanos()).unwrap_or(u64::MAX);
        self.chaos.clock_error + if self.chaos.wild_clocks { tolerated + MEASURED } else { 0 }
    }

    /// No log is ever ahead of the time, nor is a node far from it.
    pub(super) fn watch_time(&mut self, node: NodeId) {
        // Nodes of earlier versions do not tell what their clocks show, and one that goes on alone has no clock but its own.
        let is_excused = self.chaos.versions_seed.is_some() || self.recovery.is_done;
        if is_excused || self.violations.iter().any(|(property, _)| *property == PROPERTY) {
            return;
        }
        let Some(running) = &self.machines[usize::from(node.0)].running else { return };
        let (cluster, log) = running.node.times();
        let tolerated = u64::try_from(CLOCK_TOLERATED.as_nanos()).unwrap_or(u64::MAX);
        let ahead = self.chaos.clock_error + tolerated + MEASURED;
        let behind = if self.chaos.wild_clocks { BEHIND_MAX } else { ahead };
        let truth = Clock::true_wall(self.now);
        if let Some(text) = time::check(truth, (cluster, log), (ahead / MS, behind / MS)) {
            self.violate(PROPERTY, format!("{}: {text}", name_of(node)));
        }
    }
}
