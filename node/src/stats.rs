//! Figures that INFO and the metrics show.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use base::{Now, Time, WallTime};
use data::Failure;

/// How often a sample for the rate of commands is taken.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
/// Samples in the rate: as Redis, the mean of the last 16.
const SAMPLES: usize = 16;

/// Names of errors that are counted: scripts can make up any number of them.
const ERROR_NAMES_MAX: usize = 128;

/// Counters since the start, or since `CONFIG RESETSTAT`.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub connections_received: u64,
    pub commands: u64,
    pub reads: u64,
    pub errors: u64,
    /// The same by the first word of each, as `ERR` and `WRONGTYPE`; [`ERROR_NAMES_MAX`] of them at the most.
    pub errors_by_name: BTreeMap<String, u64>,
    /// Keys that reads looked for, found and not found.
    pub keyspace_hits: u64,
    pub keyspace_misses: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// Clients that were cut off because all together held too much.
    pub evicted_clients: u64,
    /// Connections that were closed because they spoke HTTP or TLS at the port for RESP.
    pub foreign_connections: u64,
    /// Wrong passwords, and names of no user.
    pub auth_failures: u64,
    pub peer_messages_in: u64,
    /// Bytes of those messages, without their frames.
    pub peer_bytes_in: u64,
    /// The most processor time that the loop has taken between two looks at it ([`crate::Input::Worked`]): that of its longest turn, and up to
    /// [`base::limits::WORK_TOLD_EVERY`] of those before it. What takes less than [`base::limits::WORK_TOLD_FROM`] is not seen.
    pub longest_turn: Duration,
    pub last_snapshot: Option<WallTime>,
    pub snapshot_running: bool,
    samples: VecDeque<(Time, u64)>,
}

impl Stats {
    /// Notes how many commands there have been, for the rate.
    pub(crate) fn sample(&mut self, now: Now) {
        if self.samples.back().is_none_or(|(at, _)| now.time.since(*at) >= SAMPLE_EVERY) {
            self.samples.push_back((now.time, self.commands));
            if self.samples.len() > SAMPLES {
                self.samples.pop_front();
            }
        }
    }

    /// A client gets an error.
    pub(crate) fn note_error(&mut self, failure: &Failure) {
        self.errors += 1;
        let text = failure.to_string();
        let name = text.split(' ').next().unwrap_or_default();
        let is_name = name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
        if let Some(count) = self.errors_by_name.get_mut(name) {
            *count += 1;
        } else if is_name && self.errors_by_name.len() < ERROR_NAMES_MAX {
            self.errors_by_name.insert(name.to_owned(), 1);
        }
    }

    /// Commands a second, over about the last second and a half.
    pub(crate) fn commands_per_second(&self) -> u64 {
        match (self.samples.front(), self.samples.back()) {
            (Some((first, before)), Some((last, after))) if last > first => {
                let seconds = last.since(*first).as_secs_f64();
                (after.saturating_sub(*before) as f64 / seconds) as u64
            }
            _ => 0,
        }
    }

    /// As `CONFIG RESETSTAT`: the counters, not what describes the present.
    pub(crate) fn reset(&mut self) {
        let kept = (self.last_snapshot, self.snapshot_running);
        *self = Stats::default();
        (self.last_snapshot, self.snapshot_running) = kept;
    }
}
