//! A noisy neighbour: a process that keeps a set share of one processor busy, in slices of ten milliseconds, as a program beside the
//! database would.
//!
//! Busy for share × slice, asleep for the rest. The slices are counted from the beginning, so that what one slice is late the next one makes
//! good, and the share is kept on average.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::cluster::child::MARK;
use crate::cluster::process::{self, Process};

/// Length of a busy and an idle stretch together.
const SLICE: Duration = Duration::from_millis(10);
/// Most neighbours at a time: beyond, a machine does nothing else.
const PROCESSES_MAX: usize = 64;

/// Neighbours that are at work. They end when this is dropped.
#[derive(Debug)]
pub struct Noise {
    processes: Vec<Process>,
}

impl Noise {
    /// Starts one process for each share: `&[0.5, 0.5]` keeps two processors half busy. `program` is the laboratory's own program, which
    /// does it when it is asked for by [`crate::cluster::child`].
    ///
    /// # Errors
    /// A share outside 0 to 1, too many of them, or a program that cannot be started.
    pub fn start(program: &Path, shares: &[f64]) -> Result<Noise, String> {
        if shares.len() > PROCESSES_MAX {
            return Err(format!("{} noisy neighbours are too many; ask for at most {PROCESSES_MAX}", shares.len()));
        }
        let mut processes = Vec::new();
        for share in shares {
            check_share(*share)?;
            let mut command = Command::new(program);
            command.args([MARK, "noise", &std::process::id().to_string(), &share.to_string()]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            processes.push(process::spawn(command, "the noisy neighbour")?);
        }
        Ok(Noise { processes })
    }

    /// Process ids of the neighbours.
    #[must_use]
    pub fn process_ids(&self) -> Vec<u32> {
        self.processes.iter().map(Process::id).collect()
    }
}

/// The neighbours that one system has at the moment, which any thread may change.
#[derive(Debug, Default)]
pub struct Neighbours(Mutex<Option<Noise>>);

impl Neighbours {
    /// Others instead of those before; none for silence. As [`Noise::start`].
    ///
    /// # Errors
    /// As there.
    pub fn set(&self, program: &Path, shares: &[f64]) -> Result<(), String> {
        let mut noise = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *noise = None;
        if !shares.is_empty() {
            *noise = Some(Noise::start(program, shares)?);
        }
        Ok(())
    }
}

/// Reads a share of one processor, 0 to 1; `50%` is 0.5.
///
/// # Errors
/// When it is none.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let wrong = || format!("{text:?} is not a share of a processor; write for example 0.5 or 50%");
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map_err(|_| wrong())? / 100.0,
        None => text.trim().parse().map_err(|_| wrong())?,
    };
    check_share(share).map(|()| share)
}

fn check_share(share: f64) -> Result<(), String> {
    if share > 0.0 && share <= 1.0 {
        return Ok(());
    }
    Err(format!("a noisy neighbour can take more than 0 and at most 1 of a processor, not {share}"))
}

/// Keeps the share of one processor busy until the process ends.
pub(crate) fn eat(share: f64) -> ! {
    let begin = Instant::now();
    let busy = SLICE.mul_f64(share.clamp(0.0, 1.0));
    let mut slice = Duration::ZERO;
    loop {
        while begin.elapsed() < slice + busy {
            std::hint::spin_loop();
        }
        slice += SLICE;
        let now = begin.elapsed();
        if let Some(rest) = slice.checked_sub(now) {
            std::thread::sleep(rest);
        } else if now > slice + 10 * SLICE {
            // The processor was taken away for long: made good all at once, it would be another noise than the one asked for.
            slice = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_and_bounded() {
        assert_eq!(parse_share("0.5"), Ok(0.5));
        assert_eq!(parse_share("25%"), Ok(0.25));
        assert_eq!(parse_share("1"), Ok(1.0));
        for wrong in ["", "half", "0", "1.5", "101%", "NaN", "-0.1"] {
            assert!(parse_share(wrong).is_err(), "{wrong}");
        }
    }
}
