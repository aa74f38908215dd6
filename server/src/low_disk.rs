//! How much room there is on the disk, and the reserve that is kept on it.
//!
//! A journal that meets a full disk waits, and a store that does has to be opened again; neither loses anything, but a disk that is really full cannot even
//! be emptied: to remove a key takes an entry of the log, a flush and a compaction. So there are two marks, and a file that takes room in order to give
//! it back:
//! - below the *low mark* the node takes no writes that grow ([`DiskRoom::Low`]), goes on with what frees room, reads, and leads nothing that another one with
//!   more room could lead. 512 MiB: what the others' writes may bring until clients have gone elsewhere, a journal segment (64 MiB) or two, and what a
//!   compaction writes before it removes. On a small disk a twentieth of it, but not less than 192 MiB (a segment, a memtable, its table and the
//!   store's own journal, 32 or 64 MiB each), and never more than a quarter;
//! - the file `reserve` is as large as a journal segment (64 MiB; half of the low mark if that is less). When the journal or the store finds no room it is
//!   removed, and when a node starts on a disk with less than that: so what frees room has room itself. Not earlier: another process that fills the disk would
//!   have it. It is made again when there is enough;
//! - below the *last mark*, a quarter of the reserve, when that has been given up, nothing is taken any more ([`DiskRoom::Full`]); nor while the journal finds
//!   no room.
//!
//! A thread looks once a second, and ten times where there is not plenty. With a tenth more than a mark it is passed again, so that it does not go back and forth.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use node::DiskRoom;
use rustix::fs::{FallocateFlags, fallocate, statvfs};

use crate::log;
use crate::options::DiskMark;

/// The low mark unless told otherwise, of a disk that is large enough.
const LOW_MAX: u64 = 512 << 20;
/// Of a smaller one it is this part,
const LOW_PART: u64 = 20;
/// but not less than this,
const LOW_MIN: u64 = 192 << 20;
/// and no more than this part.
const LOW_PART_MAX: u64 = 4;
/// The reserve, if the low mark is at least twice as much.
const RESERVE_MAX: u64 = base::limits::SEGMENT_BYTES;
/// The last mark is this part of it.
const LAST_PART: u64 = 4;
/// The file's name.
pub(crate) const RESERVE: &str = "reserve";
/// With so much above the low mark it does not matter how much it is: a node holds half a gigabyte that its store does not have at the most.
const PLENTY: u64 = 4 << 30;
const SPARE_STEP: u64 = 16 << 20;
/// Between two looks, with plenty of room.
const PAUSE: Duration = Duration::from_secs(1);
/// The same, where a disk of a gigabyte a second could be full by the next look.
const PAUSE_SHORT: Duration = Duration::from_millis(100);
/// So many looks after one at which the reserve could not be made, it is tried again.
const RESERVE_AGAIN: u32 = 600;

/// What there is on a file system, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Room {
    /// What a process without privileges may still take.
    pub(crate) free: u64,
    /// All of it.
    pub(crate) total: u64,
}

pub(crate) fn room_in(folder: &Path) -> io::Result<Room> {
    let found = statvfs(folder)?;
    Ok(Room { free: found.f_bavail * found.f_frsize, total: found.f_blocks * found.f_frsize })
}

/// There is more or less room than when it was last told of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Passed {
    /// For the node.
    pub(crate) room: DiskRoom,
    /// What is left, in bytes.
    pub(crate) free: u64,
    /// The low mark, in bytes.
    pub(crate) mark: u64,
}

/// What the node is told of room above the low mark: in steps, so that it is not told all the time.
fn spare(bytes: u64) -> u64 {
    if bytes >= PLENTY { u64::MAX } else { bytes / SPARE_STEP * SPARE_STEP }
}

/// The marks, and on which side of them the disk was when last looked at.
#[derive(Clone, Copy, Debug)]
struct Marks {
    low: u64,
    reserve: u64,
    last: u64,
    room: DiskRoom,
}

impl Marks {
    /// `asked` is the setting, if it was given.
    fn new(asked: Option<DiskMark>, room: Room) -> Marks {
        let usual = LOW_MAX.min((room.total / LOW_PART).max(LOW_MIN.min(room.total / LOW_PART_MAX)));
        let low = asked.map_or(usual, |mark| mark.of(room.total));
        let reserve = RESERVE_MAX.min(low / 2);
        Marks { low, reserve, last: reserve / LAST_PART, room: DiskRoom::default() }
    }

    /// What has changed. `has_reserve`: it has not been given up.
    fn look(&mut self, room: Room, has_reserve: bool) -> Option<Passed> {
        let before = self.room;
        // Little by little it would go back and forth otherwise.
        let more = |mark: u64| mark.saturating_add(mark / 10);
        let low = if before.is_low() { more(self.low) } else { self.low };
        let last = if before.is_full() { more(self.last) } else { self.last };
        let missing = more(self.low).saturating_sub(room.free);
        self.room = match room.free {
            free if free < last && !has_reserve => DiskRoom::Full { missing },
            free if free < low => DiskRoom::Low { missing },
            free => DiskRoom::Enough { spare: spare(free.saturating_sub(self.low)) },
        };
        let is_news = match (before, self.room) {
            (DiskRoom::Enough { spare: before }, DiskRoom::Enough { spare: now }) => before != now,
            (before, now) => before.name() != now.name() || before.missing() >> 20 != now.missing() >> 20,
        };
        is_news.then_some(Passed { room: self.room, free: room.free, mark: self.low })
    }

    /// Whether there is enough to keep it, and to stay above the low mark.
    fn affords(&self, room: Room) -> bool {
        room.free >= self.low.saturating_add(self.low / 10).saturating_add(self.reserve)
    }
}

/// Whether there is so much room that something beside the node's own may take some: more than the low mark and what a reserve takes. `asked` is the setting, if it was given.
pub(crate) fn has_plenty(folder: &Path, asked: Option<DiskMark>) -> bool {
    room_in(folder).is_ok_and(|room| Marks::new(asked, room).affords(room))
}

/// Before a node starts: if there is less room than the reserve has, that is given up. To be called before anything is written to the folder.
pub(crate) fn make_room_to_start(folder: &Path, asked: Option<DiskMark>) {
    let file = folder.join(RESERVE);
    let (Ok(kept), Ok(room)) = (fs::metadata(&file), room_in(folder)) else { return };
    let is_short = room.free < kept.len();
    let is_wanted = !asked.is_some_and(DiskMark::is_none) && !is_short;
    if is_wanted || fs::remove_file(&file).is_err() {
        return;
    }
    if is_short {
        log::warning(&format!(
            "only {} MiB were left on the disk of {}: the reserve of {} MiB was given up, so that the node can start",
            room.free >> 20,
            folder.display(),
            kept.len() >> 20
        ));
    }
}

/// Takes the room; a file system that cannot promise it keeps none.
fn take_reserve(folder: &Path, bytes: u64) -> bool {
    let file = folder.join(RESERVE);
    let made = storage::private_file().create(true).truncate(true).open(&file);
    let taken = made.and_then(|made| Ok(fallocate(&made, FallocateFlags::empty(), 0, bytes)?));
    if taken.is_err() {
        // A part of it is of no use.
        let _ = fs::remove_file(&file);
    }
    taken.is_ok()
}

/// Gives the room of the reserve back. Whether there was any.
pub(crate) fn give_up_reserve(folder: &Path) -> bool {
    let given = fs::remove_file(folder.join(RESERVE)).is_ok();
    if given {
        log::warning(&format!(
            "the disk of {} is nearly full: its reserve was given up, for what frees room",
            folder.display()
        ));
    }
    given
}

/// Looks at once, and from then on once a second for as long as the process lives. `tell` is called when a mark is passed, and while there is too
/// little room whenever that changes.
///
/// # Errors
/// The file system cannot be asked, or there can be no thread.
pub(crate) fn watch(
    folder: PathBuf,
    asked: Option<DiskMark>,
    tell: impl Fn(Passed) + Send + 'static,
) -> io::Result<()> {
    if asked.is_some_and(DiskMark::is_none) {
        return Ok(());
    }
    let room = room_in(&folder)?;
    let mut marks = Marks::new(asked, room);
    if let Some(passed) = marks.look(room, folder.join(RESERVE).exists()) {
        tell(passed);
    }
    let mut not_before = 0;
    let run = move || {
        loop {
            // A folder that has gone is found out by those who write to it.
            if let Ok(mut room) = room_in(&folder) {
                let mut has_reserve = folder.join(RESERVE).exists();
                not_before -= u32::from(not_before > 0);
                if not_before == 0 && marks.affords(room) && !has_reserve {
                    has_reserve = take_reserve(&folder, marks.reserve);
                    not_before = if has_reserve { 0 } else { RESERVE_AGAIN };
                    room = room_in(&folder).unwrap_or(room);
                }
                if let Some(passed) = marks.look(room, has_reserve) {
                    tell(passed);
                }
            }
            let has_plenty = marks.room == DiskRoom::default();
            thread::sleep(if has_plenty { PAUSE } else { PAUSE_SHORT });
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
    /// What the marks say.
    pub(crate) watched: DiskRoom,
}

impl Refusals {
    /// What the node is told.
    pub(crate) fn room(self) -> DiskRoom {
        if self.journal_full { DiskRoom::Full { missing: self.watched.missing() } } else { self.watched }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn room(free: u64) -> Room {
        Room { free: free * MIB, total: 1 << 40 }
    }

    fn name(passed: Option<Passed>) -> Option<(&'static str, u64)> {
        passed.map(|passed| (passed.room.name(), passed.room.missing() / MIB))
    }

    #[test]
    fn the_way_back_is_a_tenth_longer() {
        let mut marks = Marks::new(Some(DiskMark::Bytes(1000 * MIB)), room(0));
        assert_eq!((marks.reserve, marks.last), (64 * MIB, 16 * MIB));
        assert_eq!(name(marks.look(room(1000), false)), Some(("ok", 0)), "there is not plenty");
        assert_eq!(name(marks.look(room(1001), false)), None);
        assert_eq!(name(marks.look(room(999), false)), Some(("low", 101)));
        assert_eq!(name(marks.look(room(999), false)), None);
        assert_eq!(name(marks.look(room(16), false)), Some(("low", 1084)), "there is a little left");
        assert_eq!(name(marks.look(room(15), true)), Some(("low", 1085)), "the reserve is there");
        assert_eq!(name(marks.look(room(15), false)), Some(("full", 1085)));
        assert_eq!(name(marks.look(room(17), false)), Some(("full", 1083)));
        assert_eq!(name(marks.look(room(18), false)), Some(("low", 1082)));
        assert_eq!(name(marks.look(room(1099), false)), Some(("low", 1)));
        assert_eq!(name(marks.look(room(1100), false)), Some(("ok", 0)));
        assert_eq!(marks.look(room(8000), false).map(|it| it.room), Some(DiskRoom::default()));
        let mut always = Marks::new(Some(DiskMark::Bytes(u64::MAX)), room(0));
        assert!(always.look(room(1 << 15), false).is_some_and(|passed| passed.room.is_low() && !passed.room.is_full()));
        assert!(!always.affords(room(1 << 20)));
    }

    #[test]
    fn a_small_disk_has_a_smaller_mark() {
        let low = |gib_tenths: u64| Marks::new(None, Room { free: 0, total: gib_tenths * (1 << 30) / 10 }).low / MIB;
        assert_eq!([low(1000), low(100), low(50), low(30), low(6), low(1)], [512, 512, 256, 192, 153, 25]);
        let percent = |percent, total| Marks::new(Some(DiskMark::Percent(percent)), Room { free: 0, total }).low;
        assert_eq!([percent(5, 1000 * MIB), percent(99, 10 * MIB + 1)], [50 * MIB, 10_380_903]);
        assert_eq!(percent(50, u64::MAX), u64::MAX / 2, "no disk is too large");
    }

    #[test]
    fn the_reserve_is_kept_with_plenty_and_given_up_when_little_is_left() {
        let marks = Marks::new(Some(DiskMark::Bytes(512 * MIB)), room(0));
        assert!(marks.affords(room(628)) && !marks.affords(room(627)));
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert!(take_reserve(folder.path(), MIB));
        assert_eq!(fs::metadata(folder.path().join(RESERVE)).expect("it is there").len(), MIB);
        make_room_to_start(folder.path(), None);
        assert!(folder.path().join(RESERVE).exists(), "there is room enough");
        make_room_to_start(folder.path(), Some(DiskMark::Percent(0)));
        assert!(!folder.path().join(RESERVE).exists(), "who wants no mark wants no reserve");
        assert!(!give_up_reserve(folder.path()));
    }

    #[test]
    fn a_disk_that_is_low_at_the_start_is_told_of_at_once() {
        let (sender, told) = std::sync::mpsc::channel();
        let tell = move |passed| sender.send(passed).expect("it is listened to");
        watch(std::env::temp_dir(), Some(DiskMark::Bytes(u64::MAX)), tell).expect("there is such a folder");
        assert!(told.try_recv().is_ok_and(|passed: Passed| passed.room.is_low() && passed.mark == u64::MAX));
        watch("/there/is/no/such/folder".into(), None, |_| ()).expect_err("it cannot be asked");
    }
}
