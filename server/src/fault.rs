//! A disk that is made slow on purpose: what one slow node costs its cluster can only be measured with one.
//!
//! `dictum start --fault-sync-delay MS`, which the laboratory gives and nobody else should, adds so many milliseconds to every sync
//! of the journal. Only with the flag (0 for none at first) a file in the node's folder changes it while the node runs:
//! `fault-sync-delay`, with a number of milliseconds in it. Clients cannot write files there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::log;

/// The file in the node's folder.
const FILE: &str = "fault-sync-delay";
/// Between two looks at the file.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Longest delay: a leader whose disk is slower than this is no use to anybody.
pub(crate) const DELAY_MAX: Duration = Duration::from_secs(60);

/// What every sync of the journal is made to take longer; shared between those who set it and those who wait.
#[derive(Clone, Debug, Default)]
pub(crate) struct SyncDelay(Arc<AtomicU64>);

impl SyncDelay {
    /// From now on syncs take so much longer; as a rule nothing.
    pub(crate) fn set(&self, delay: Duration) {
        self.0.store(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Waits as long as a sync is to take longer.
    pub(crate) fn wait(&self) {
        let nanoseconds = self.0.load(Ordering::Relaxed);
        if nanoseconds > 0 {
            thread::sleep(Duration::from_nanos(nanoseconds));
        }
    }
}

/// Begins with the delay of the flag, and follows the file in `folder` on a thread; without the flag nothing is ever slow.
///
/// # Errors
/// When no thread can be started.
pub(crate) fn watch(flag: Option<Duration>, folder: &Path) -> io::Result<SyncDelay> {
    let delay = SyncDelay::default();
    let Some(first) = flag else { return Ok(delay) };
    log::warning(&format!(
        "FAULT INJECTION: --fault-sync-delay is given; every sync of the journal takes {} ms longer until the file {} says otherwise. \
         This node is for tests, not for data that matters",
        first.as_millis(),
        folder.join(FILE).display()
    ));
    delay.set(first);
    let (watched, file) = (delay.clone(), folder.join(FILE));
    thread::Builder::new().name("fault".to_owned()).spawn(move || follow(&watched, first, &file))?;
    Ok(delay)
}

/// Looks at the file again and again; while there is none, the flag's delay holds.
fn follow(delay: &SyncDelay, first: Duration, file: &PathBuf) {
    let (mut now, mut complained) = (first, false);
    loop {
        thread::sleep(LOOK_EVERY);
        let wanted = match fs::read_to_string(file) {
            Ok(text) => parse(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(first),
            Err(_) => None,
        };
        let Some(wanted) = wanted else {
            if !std::mem::replace(&mut complained, true) {
                log::warning(&format!("{} holds no number of milliseconds; the delay stays as it is", file.display()));
            }
            continue;
        };
        complained = false;
        if wanted != now {
            log::warning(&format!(
                "FAULT INJECTION: every sync of the journal now takes {} ms longer",
                wanted.as_millis()
            ));
            delay.set(wanted);
            now = wanted;
        }
    }
}

/// A number of milliseconds, at most [`DELAY_MAX`].
fn parse(text: &str) -> Option<Duration> {
    let delay = Duration::from_millis(text.trim().parse().ok()?);
    (delay <= DELAY_MAX).then_some(delay)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_holds_milliseconds_up_to_a_limit() {
        assert_eq!(parse("10\n"), Some(Duration::from_millis(10)));
        assert_eq!(parse("0"), Some(Duration::ZERO));
        assert_eq!(parse("60000"), Some(DELAY_MAX));
        assert!([parse(""), parse("-1"), parse("60001"), parse("10ms")].iter().all(Option::is_none));
    }

    #[test]
    fn without_the_flag_the_file_means_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join(FILE), "1000").expect("a file");
        let delay = watch(None, folder.path()).expect("no thread is needed");
        assert_eq!(delay.0.load(Ordering::Relaxed), 0);
        let begun = watch(Some(Duration::from_millis(7)), Path::new("/nowhere")).expect("a thread");
        assert_eq!(begun.0.load(Ordering::Relaxed), 7_000_000);
    }
}
