//! The low-disk mark: a node stops taking writes while there is still room for what it has to do anyway.
//!
//! A journal that meets a full disk waits, and a store that does has to be opened again; neither loses anything, but it is better not to get there.
//! So once a second a thread looks how much room is left on the file system of the data folder. Below the mark the node is told what it is told
//! when its disk is full: it refuses writes, goes on reading, and hands its leadership over. With a tenth more than the mark it takes writes again.

use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use rustix::fs::statvfs;

/// The mark unless told otherwise: room for compaction, and for the journal of the others' writes.
const MARK_DEFAULT: u64 = 512 << 20;
/// On a small disk the mark is this part of it, so that it is not refused from the start.
const MARK_PART_MAX: u64 = 20;
/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// What there is on a file system, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Room {
    /// What a process without privileges may still take.
    pub(crate) free: u64,
    /// All of it.
    pub(crate) total: u64,
}

/// The room of a folder's disk has passed the mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Passed {
    /// There is less than the mark now; otherwise there is enough again.
    pub(crate) low: bool,
    /// What is left, in bytes.
    pub(crate) free: u64,
    /// The mark, in bytes.
    pub(crate) mark: u64,
}

/// The mark, and on which side of it the disk was when last looked at.
#[derive(Clone, Copy, Debug)]
struct LowMark {
    mark: u64,
    low: bool,
}

impl LowMark {
    /// `asked` is the setting, if it was given.
    fn new(asked: Option<u64>, room: Room) -> LowMark {
        LowMark { mark: asked.unwrap_or(MARK_DEFAULT.min(room.total / MARK_PART_MAX)), low: false }
    }

    /// What has changed.
    fn look(&mut self, room: Room) -> Option<Passed> {
        let LowMark { mark, low } = *self;
        // Little by little it would go back and forth otherwise.
        let wanted = if low { mark.saturating_add(mark / 10) } else { mark };
        self.low = room.free < wanted;
        (self.low != low).then_some(Passed { low: self.low, free: room.free, mark })
    }
}

/// Looks at once, and from then on once a second for as long as the process lives. `tell` is called when the mark is passed.
///
/// # Errors
/// The file system cannot be asked, or there can be no thread.
pub(crate) fn watch(folder: PathBuf, asked: Option<u64>, tell: impl Fn(Passed) + Send + 'static) -> io::Result<()> {
    if asked == Some(0) {
        return Ok(());
    }
    let look = move || {
        let found = statvfs(&folder)?;
        Ok::<_, io::Error>(Room { free: found.f_bavail * found.f_frsize, total: found.f_blocks * found.f_frsize })
    };
    let room = look()?;
    let mut mark = LowMark::new(asked, room);
    if let Some(passed) = mark.look(room) {
        tell(passed);
    }
    let run = move || {
        loop {
            thread::sleep(PAUSE);
            // A folder that has gone is found out by those who write to it.
            if let Some(passed) = look().ok().and_then(|room| mark.look(room)) {
                tell(passed);
            }
        }
    };
    thread::Builder::new().name("disk-room".to_owned()).spawn(run)?;
    Ok(())
}

/// Why a node may not take writes: each for itself.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Refusals {
    /// The journal finds no room.
    pub(crate) journal_full: bool,
    /// There is less room than the mark.
    pub(crate) low: bool,
}

impl Refusals {
    /// Whether it is told that its disk is full.
    pub(crate) fn any(self) -> bool {
        self.journal_full || self.low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(free: u64) -> Room {
        Room { free, total: 1 << 40 }
    }

    #[test]
    fn the_way_back_is_a_tenth_longer() {
        let mut mark = LowMark::new(Some(1000), room(0));
        assert_eq!(mark.look(room(1000)), None);
        assert_eq!(mark.look(room(999)), Some(Passed { low: true, free: 999, mark: 1000 }));
        assert_eq!(mark.look(room(0)), None);
        assert_eq!(mark.look(room(1099)), None);
        assert_eq!(mark.look(room(1100)), Some(Passed { low: false, free: 1100, mark: 1000 }));
        assert_eq!(mark.look(room(1001)), None);
        let mut never = LowMark::new(Some(0), room(0));
        assert_eq!(never.look(room(0)), None);
        let mut always = LowMark::new(Some(u64::MAX), room(0));
        assert!(always.look(room(5)).is_some_and(|passed| passed.low) && always.look(room(1 << 40)).is_none());
    }

    #[test]
    fn a_small_disk_has_a_smaller_mark() {
        assert_eq!(LowMark::new(None, Room { free: 0, total: 100 << 30 }).mark, 512 << 20);
        assert_eq!(LowMark::new(None, Room { free: 0, total: 1 << 30 }).mark, (1 << 30) / 20);
    }

    #[test]
    fn a_disk_that_is_low_at_the_start_is_told_of_at_once() {
        let (sender, told) = std::sync::mpsc::channel();
        let tell = move |passed| sender.send(passed).expect("it is listened to");
        watch(std::env::temp_dir(), Some(u64::MAX), tell).expect("there is such a folder");
        assert!(told.try_recv().is_ok_and(|passed: Passed| passed.low && passed.mark == u64::MAX));
        watch("/there/is/no/such/folder".into(), None, |_| ()).expect_err("it cannot be asked");
    }
}
