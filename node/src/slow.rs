//! Commands that took long, and moments of latency: what `SLOWLOG` and `LATENCY` tell. Of this node alone, kept in memory.
//!
//! A command's time runs from the turn in which it was taken to the turn in which it is answered, by the time that the
//! inputs carry: waiting for the leader, for the log and for other commands counts. How long the last turn itself took shows
//! only in the commands that had to wait for it, and what is answered at once took no time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use base::{Time, WallTime};

use crate::durations::Durations;

/// Words of a slow command that are kept, and bytes of each: those of Redis.
const WORDS_MAX: usize = 32;
const WORD_BYTES_MAX: usize = 128;
/// Most slow commands that may be kept: some four kilobytes each.
pub(crate) const SLOW_COMMANDS_MAX: usize = 16 * 1024;
/// Samples that are kept of each event: those of Redis.
const SAMPLES_MAX: usize = 160;
/// Events are named as in Redis: a command, one that should be fast, and the way to the disk and back.
const COMMAND: &str = "command";
const FAST_COMMAND: &str = "fast-command";
const FSYNC: &str = "aof-fsync-always";

/// From when on something is worth keeping; CONFIG SET changes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Thresholds {
    /// Microseconds from which on a command is kept; negative: none is.
    pub slow_us_min: i64,
    /// How many slow commands are kept.
    pub slow_len_max: usize,
    /// Milliseconds from which on an event is kept; 0: none is.
    pub latency_ms_min: u64,
    /// The durations of all commands are kept.
    pub durations_kept: bool,
}

impl Default for Thresholds {
    /// Those of Redis.
    fn default() -> Thresholds {
        Thresholds { slow_us_min: 10_000, slow_len_max: 128, latency_ms_min: 0, durations_kept: true }
    }
}

/// A command that took long.
#[derive(Debug)]
pub(crate) struct SlowCommand {
    /// Counts on while the process lives.
    pub id: u64,
    /// When it was answered.
    pub at: WallTime,
    pub took: Duration,
    /// Its words, shortened as Redis shortens them.
    pub words: Vec<Vec<u8>>,
    pub address: String,
    pub name: Vec<u8>,
}

/// The latest samples of an event: the second of the wall clock, and the most milliseconds in it.
#[derive(Debug, Default)]
pub(crate) struct Event {
    pub samples: VecDeque<(u64, u64)>,
    /// The most milliseconds since the event was first kept.
    pub most_ms: u64,
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Slow {
    thresholds: Thresholds,
    /// The least time of a command that either log asks for.
    least: Duration,
    /// The latest last.
    pub commands: VecDeque<SlowCommand>,
    next_id: u64,
    pub events: BTreeMap<&'static str, Event>,
    /// Of all commands, slow or not.
    pub durations: Durations,
    /// Journal payloads that are under way, if the way to the disk is watched.
    sealed: VecDeque<(u64, Time)>,
}

impl Default for Slow {
    fn default() -> Slow {
        let mut slow = Slow {
            thresholds: Thresholds::default(),
            least: Duration::MAX,
            commands: VecDeque::new(),
            next_id: 0,
            events: BTreeMap::new(),
            durations: Durations::default(),
            sealed: VecDeque::new(),
        };
        slow.set_thresholds(Thresholds::default());
        slow
    }
}

impl Slow {
    pub(crate) fn thresholds(&self) -> Thresholds {
        self.thresholds
    }

    pub(crate) fn set_thresholds(&mut self, thresholds: Thresholds) {
        let slow = u64::try_from(thresholds.slow_us_min).map(Duration::from_micros).ok();
        let latency = (thresholds.latency_ms_min > 0).then(|| Duration::from_millis(thresholds.latency_ms_min));
        self.least = slow.into_iter().chain(latency).min().unwrap_or(Duration::MAX);
        self.durations.kept = thresholds.durations_kept;
        self.thresholds = thresholds;
        if thresholds.latency_ms_min == 0 {
            self.sealed.clear();
        }
    }

    /// Whether a command that took so long is to be told of: asked once per command, so it is one comparison.
    pub(crate) fn wants(&self, took: Duration) -> bool {
        took >= self.least
    }

    /// Keeps a command that [`Slow::wants`] let through.
    pub(crate) fn note(&mut self, at: WallTime, took: Duration, words: &[&[u8]], address: &str, name: &[u8]) {
        let is_fast = words.first().and_then(|name| data::lookup(name)).is_some_and(|entry| {
            let flags = entry.spec.flags;
            flags.has(data::spec::Flags::FAST)
        });
        self.note_event(at, if is_fast { FAST_COMMAND } else { COMMAND }, took);
        let least = u64::try_from(self.thresholds.slow_us_min).map(Duration::from_micros);
        if least.is_ok_and(|least| took >= least) {
            let (address, name) = (address.to_owned(), name.to_vec());
            self.commands.push_back(SlowCommand { id: self.next_id, at, took, words: shortened(words), address, name });
            self.next_id += 1;
            while self.commands.len() > self.thresholds.slow_len_max {
                self.commands.pop_front();
            }
        }
    }

    fn note_event(&mut self, at: WallTime, event: &'static str, took: Duration) {
        let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        if self.thresholds.latency_ms_min == 0 || milliseconds < self.thresholds.latency_ms_min {
            return;
        }
        let event = self.events.entry(event).or_default();
        event.most_ms = event.most_ms.max(milliseconds);
        let second = at.0 / 1000;
        match event.samples.back_mut() {
            Some((latest, most)) if *latest == second => *most = milliseconds.max(*most),
            _ => event.samples.push_back((second, milliseconds)),
        }
        if event.samples.len() > SAMPLES_MAX {
            event.samples.pop_front();
        }
    }

    /// A journal payload is on its way.
    pub(crate) fn on_sealed(&mut self, number: u64, now: Time) {
        if self.thresholds.latency_ms_min > 0 {
            self.sealed.push_back((number, now));
        }
    }

    /// Everything up to this journal payload is on disk.
    pub(crate) fn on_persisted(&mut self, number: u64, now: Time, at: WallTime) {
        while let Some((_, sealed)) = self.sealed.front().copied().filter(|(sealed, _)| *sealed <= number) {
            self.sealed.pop_front();
            self.note_event(at, FSYNC, now.since(sealed));
        }
    }
}

/// A command as it is kept: not all of its words, not all of a long one, and no password.
fn shortened(words: &[&[u8]]) -> Vec<Vec<u8>> {
    let secret = crate::commands::secrets(words);
    let kept = if words.len() > WORDS_MAX { WORDS_MAX - 1 } else { words.len() };
    let mut out: Vec<Vec<u8>> = Vec::with_capacity(kept + 1);
    for (place, word) in words[..kept].iter().enumerate() {
        out.push(if secret.contains(&place) {
            b"(redacted)".to_vec()
        } else {
            match word.split_at_checked(WORD_BYTES_MAX) {
                Some((start, rest)) if !rest.is_empty() => {
                    [start, format!("... ({} more bytes)", rest.len()).as_bytes()].concat()
                }
                _ => word.to_vec(),
            }
        });
    }
    if kept < words.len() {
        out.push(format!("... ({} more arguments)", words.len() - kept).into_bytes());
    }
    out
}
