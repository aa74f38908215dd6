//! The journal thread over real files: order, numbers, a full disk that gets room again.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc;

use storage::{Files, JournalOptions};

use super::*;

/// Real files that can be told to be full.
#[derive(Clone)]
struct Limited {
    files: Files,
    full: Arc<AtomicBool>,
}

impl Disk for Limited {
    type File = <Files as Disk>::File;

    fn open(&self, name: &str) -> io::Result<Self::File> {
        self.files.open(name)
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Self::File> {
        if self.full.load(Ordering::SeqCst) {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            self.files.create(name, bytes)
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.files.rename(from, to)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.files.list()
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.files.sync_folder()
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Told {
    Persisted,
    Full(bool),
}

struct Teller(mpsc::Sender<Told>);

impl JournalEvents for Teller {
    fn persisted(&self) {
        let _ = self.0.send(Told::Persisted);
    }

    fn disk_full(&self, full: bool) {
        let _ = self.0.send(Told::Full(full));
    }
}

struct Rig {
    handle: JournalHandle<Limited>,
    told: mpsc::Receiver<Told>,
    disk: Limited,
    folder: tempfile::TempDir,
    delay: SyncDelay,
}

/// Segments of 64 KiB, so that they are soon used up.
fn rig() -> Rig {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let files = Files::open(folder.path()).expect("an empty folder");
    let disk = Limited { files, full: Arc::new(AtomicBool::new(false)) };
    let (journal, recovered) = Journal::open(disk.clone(), options()).expect("a new journal");
    let (sender, told) = mpsc::channel();
    let delay = SyncDelay::default();
    let handle = start(journal, recovered.next_number - 1, delay.clone(), Teller(sender)).expect("a thread");
    Rig { handle, told, disk, folder, delay }
}

fn options() -> JournalOptions {
    JournalOptions { first_segment_bytes: 1 << 16, segment_bytes: 1 << 16, ..JournalOptions::default() }
}

fn writes(numbers: std::ops::RangeInclusive<u64>) -> Vec<JournalWrite> {
    numbers.map(|number| JournalWrite { number, payload: vec![number as u8; 3000].into() }).collect()
}

impl Rig {
    fn wait_for(&self, number: u64) {
        while self.handle.persisted() < number {
            assert_eq!(self.told.recv(), Ok(Told::Persisted));
        }
    }

    /// The numbers that the next opening finds, the payloads checked.
    fn found(self) -> Vec<u64> {
        drop(self.handle);
        let (_, recovered) = Journal::open(self.disk, options()).expect("it can be read");
        drop(self.folder);
        assert!(recovered.payloads.iter().all(|(number, payload)| payload[..] == vec![*number as u8; 3000][..]));
        recovered.payloads.into_iter().map(|(number, _)| number).collect()
    }
}

#[test]
fn payloads_are_on_disk_in_order_whoever_commits() {
    let rig = rig();
    rig.handle.submit(&mut writes(1..=20), None);
    rig.wait_for(20);
    for number in 21..=60 {
        // The thread may be busy with its segments; then it commits this one as well.
        let mut one = writes(number..=number);
        rig.handle.commit_here(&mut one);
        assert!(one.is_empty());
        rig.wait_for(number);
    }
    rig.handle.submit(&mut writes(61..=80), None);
    rig.handle.commit_here(&mut writes(81..=81));
    rig.wait_for(81);
    assert_eq!(rig.found(), (1..=81).collect::<Vec<_>>());
}

#[test]
fn syncs_are_counted_and_can_be_made_slow() {
    let rig = rig();
    let syncs = rig.handle.syncs();
    for number in 1..=10 {
        rig.handle.submit(&mut writes(number..=number), None);
        rig.wait_for(number);
    }
    assert_eq!(syncs.within().1, 10);
    let slow = Duration::from_millis(20);
    rig.delay.set(slow);
    let begin = Instant::now();
    for number in 11..=15 {
        rig.handle.submit(&mut writes(number..=number), None);
        rig.wait_for(number);
    }
    assert!(begin.elapsed() >= 5 * slow);
    assert_eq!(syncs.within().1, 15);
    assert!(!rig.handle.is_quick(), "the loop does not wait for such a disk");
    assert_eq!(rig.found(), (1..=15).collect::<Vec<_>>());
}

#[test]
fn what_is_discarded_makes_room() {
    let rig = rig();
    for number in 1..=100 {
        // One by one, so that they fill many segments.
        rig.handle.submit(&mut writes(number..=number), None);
        rig.wait_for(number);
    }
    rig.handle.submit(&mut Vec::new(), Some(90));
    rig.handle.submit(&mut writes(101..=140), None);
    rig.wait_for(140);
    let found = rig.found();
    assert!(found.first().is_some_and(|&first| first > 1) && found.ends_with(&[139, 140]), "{found:?}");
}

#[test]
fn a_full_disk_is_waited_out() {
    let rig = rig();
    rig.disk.full.store(true, Ordering::SeqCst);
    let mut submitted = 0;
    let refused = loop {
        submitted += 20;
        rig.handle.submit(&mut writes(submitted - 19..=submitted), None);
        match rig.told.recv().expect("the thread lives") {
            Told::Persisted => {}
            other => break other,
        }
        assert!(submitted < 1000, "it never becomes full");
    };
    assert_eq!(refused, Told::Full(true));
    let persisted = rig.handle.persisted();
    assert!(persisted < submitted);
    // Neither way in lets a later payload overtake those that wait.
    rig.handle.submit(&mut writes(submitted + 1..=submitted + 1), None);
    assert!(!rig.handle.commit_here(&mut writes(submitted + 2..=submitted + 2)));
    assert_eq!(rig.handle.persisted(), persisted);
    rig.disk.full.store(false, Ordering::SeqCst);
    while rig.told.recv().expect("the thread lives") != Told::Full(false) {}
    rig.wait_for(submitted + 2);
    assert_eq!(rig.found(), (1..=submitted + 2).collect::<Vec<_>>());
}

#[test]
fn a_batch_fills_a_frame_and_no_more() {
    let write = |number, bytes| JournalWrite { number, payload: vec![0; bytes].into() };
    let mut waiting: VecDeque<_> =
        [write(1, FRAME_BYTES_TARGET + 1), write(2, FRAME_BYTES_TARGET - 10), write(3, 10), write(4, 1)].into();
    let mut batch = Vec::new();
    let mut numbers = || {
        batch.clear();
        take_batch(&mut waiting, &mut batch);
        batch.iter().map(|write| write.number).collect::<Vec<_>>()
    };
    assert_eq!(numbers(), [1], "one payload may be larger than a frame shall be");
    assert_eq!(numbers(), [2, 3]);
    assert_eq!(numbers(), [4]);
    assert_eq!(numbers(), [0; 0]);
}
