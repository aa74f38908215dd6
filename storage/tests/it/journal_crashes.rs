//! Power cuts at any moment: what was committed is recovered, in order, nothing is invented, nothing called damage.

use std::collections::BTreeMap;

use crate::common::TestDisk;
use base::Rng;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use storage::{CommitError, Disk, Journal, JournalOptions, Recovered, Tail};

const OPTIONS: JournalOptions =
    JournalOptions { first_segment_bytes: 6 * 4096, segment_bytes: 12 * 4096, free_segments_max: 2 };

#[derive(Clone, Debug)]
enum Act {
    /// Payloads of so many bytes.
    Commit(Vec<usize>),
    /// Give up all but so many of the newest payloads.
    Discard(u64),
    PrepareNext,
    /// The slow way round: blank made now, installed after so many commits of one byte.
    PrepareElsewhere(usize),
    /// The power goes after so many operations of the disk.
    CutPowerAfter(u64),
    /// Somewhere in the journal's files one byte changes while the node is down.
    Rot(prop::sample::Index, prop::sample::Index, u8),
    /// The same in what was written last, or a few blocks around it.
    RotAtTheEnd(prop::sample::Index, u8),
    /// An orderly end, or kill -9: all that was written is in the page cache.
    Reopen,
}

fn rot() -> impl Strategy<Value = Act> {
    let index = any::<prop::sample::Index>;
    (index(), index(), 1..=255u8).prop_map(|(file, at, change)| Act::Rot(file, at, change))
}

fn act_or_rot() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => act(),
        1 => rot(),
    ]
}

/// Little else than commits and rot where the last of them are.
fn commit_or_rot_at_the_end() -> impl Strategy<Value = Act> {
    let size = prop_oneof![4 => 0..300usize, 2 => 3900..4200usize, 2 => 0..30_000usize];
    prop_oneof![
        6 => prop::collection::vec(size, 1..4).prop_map(Act::Commit),
        1 => (1..4000usize).prop_map(|count| Act::Commit(vec![0; count])),
        6 => (any::<prop::sample::Index>(), 1..=255u8).prop_map(|(a, c)| Act::RotAtTheEnd(a, c)),
        1 => rot(),
        1 => (0..4u64).prop_map(Act::Discard),
        1 => (0..14u64).prop_map(Act::CutPowerAfter),
        1 => Just(Act::Reopen),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let size = prop_oneof![4 => 0..300usize, 2 => 3900..4200usize, 2 => 0..30_000usize, 1 => 40_000..80_000usize];
    prop_oneof![
        10 => prop::collection::vec(size, 1..4).prop_map(Act::Commit),
        2 => (0..12u64).prop_map(Act::Discard),
        2 => Just(Act::PrepareNext),
        1 => (0..4usize).prop_map(Act::PrepareElsewhere),
        4 => (0..14u64).prop_map(Act::CutPowerAfter),
        1 => Just(Act::Reopen),
    ]
}

/// What must be true of the disk, as the caller of the journal knows it.
#[derive(Default)]
struct Model {
    acknowledged: BTreeMap<u64, Vec<u8>>,
    /// Sent to the disk, never acknowledged.
    doubtful: Vec<Vec<u8>>,
    floor_wanted: u64,
    next: u64,
    /// The highest number ever acknowledged, or found at a recovery.
    top: u64,
    made: u64,
    rotted: bool,
}

impl Model {
    fn payload(&mut self, length: usize) -> Vec<u8> {
        // No two payloads are alike, unless they are too short to differ.
        self.made += 1;
        let mut rng = Rng::new(self.made);
        (0..length).map(|_| rng.next_u64() as u8).collect()
    }

    fn check(&mut self, recovered: &Recovered) {
        if !self.rotted {
            assert_eq!(recovered.damage, []);
            assert_ne!(recovered.tail, Tail::Unprovable);
        }
        assert!(recovered.floor <= self.floor_wanted.max(1), "given up without having been asked to");
        let found: BTreeMap<u64, Vec<u8>> = recovered.payloads.iter().map(|(n, p)| (*n, p.to_vec())).collect();
        assert_eq!(found.len(), recovered.payloads.len(), "a number twice");
        assert!(recovered.payloads.is_sorted_by_key(|payload| payload.0));
        let last_found = found.range(..=self.top).next_back().map_or(0, |found| *found.0);
        for (number, payload) in self.acknowledged.range(recovered.floor..) {
            let excused = recovered.damage.iter().any(|damage| damage.after < *number && *number < damage.before)
                || (recovered.tail == Tail::Unprovable && *number > last_found);
            match found.get(number) {
                None if excused => {}
                other => assert_eq!(other, Some(payload), "payload {number}"),
            }
        }
        let holes: Vec<u64> = recovered.damage.iter().flat_map(|damage| [damage.after, damage.before]).collect();
        assert!(holes.is_sorted(), "{holes:?}");
        let extra: Vec<&Vec<u8>> = found.range(self.top + 1..).map(|(_, payload)| payload).collect();
        if !extra.is_empty() {
            assert!(extra.iter().copied().eq(self.doubtful.iter()), "found what nobody wrote");
        }
        // What was given up, or could not be read, may be back if rot hit what said so; but only as it was.
        assert!(found.range(..=self.top).all(|(number, payload)| self.acknowledged.get(number) == Some(payload)));
        if let Some((last, _)) = found.last_key_value() {
            self.top = self.top.max(*last);
        }
        // Rot makes holes in the numbering; nothing else does. And no number is given twice, however often it rots.
        assert!(recovered.next_number > self.top);
        assert!(self.rotted || recovered.next_number == self.top + 1);
        self.acknowledged.extend(found);
        self.doubtful.clear();
        self.next = recovered.next_number;
    }

    /// Answers whether the journal can go on.
    fn commit(&mut self, journal: &mut Journal<TestDisk>, sizes: &[usize]) -> bool {
        let payloads: Vec<Vec<u8>> = sizes.iter().map(|size| self.payload(*size)).collect();
        match journal.commit(&payloads) {
            Ok(numbers) => {
                assert_eq!(numbers, self.next..self.next + payloads.len() as u64);
                self.next = numbers.end;
                self.top = numbers.end - 1;
                self.acknowledged.extend(numbers.zip(payloads));
                true
            }
            Err(CommitError::Broken(_)) => {
                self.doubtful = payloads;
                assert!(matches!(journal.commit(&[[0]]), Err(CommitError::Broken(_))), "broken stays broken");
                false
            }
            Err(other) => panic!("{other}"),
        }
    }
}

fn open(disk: &TestDisk, model: &mut Model) -> Option<Journal<TestDisk>> {
    let (journal, recovered) = Journal::open(disk.clone(), OPTIONS).ok()?;
    model.check(&recovered);
    Some(journal)
}

fn play(acts: &[Act], seed: u64) {
    let mut rng = Rng::new(seed);
    let disk = TestDisk::default();
    let mut model = Model { next: 1, ..Model::default() };
    let mut journal = open(&disk, &mut model);
    for act in acts.iter().chain([&Act::Reopen]) {
        // A power cut can hit the opening as well; then only the next one is sure to succeed.
        let usable = if let Some(journal) = &mut journal {
            match act {
                Act::Commit(sizes) => model.commit(journal, sizes),
                Act::Discard(kept) => {
                    let before = model.next.saturating_sub(*kept).max(1);
                    model.floor_wanted = model.floor_wanted.max(before);
                    journal.discard_before(before).is_ok()
                }
                Act::PrepareNext => journal.prepare_next().is_ok() && journal.next_is_ready(),
                Act::PrepareElsewhere(commits) => match journal.preparation() {
                    None => true,
                    Some(preparation) => {
                        assert!(journal.preparation().is_none(), "one at a time");
                        let prepared = preparation.run();
                        (0..*commits).all(|_| model.commit(journal, &[1])) && journal.install(prepared).is_ok()
                    }
                },
                Act::CutPowerAfter(operations) => {
                    disk.cut_power_after(*operations);
                    true
                }
                Act::Reopen | Act::Rot(..) | Act::RotAtTheEnd(..) => false,
            }
        } else {
            false
        };
        if !usable {
            drop(journal.take());
            let orderly = matches!(act, Act::Reopen) && rng.chance(1, 2);
            if !orderly {
                disk.restart(&mut rng);
            }
            if let Act::Rot(file, at, change) = act {
                let names = disk.list().unwrap();
                disk.rot(&names[file.index(names.len())], |bytes| {
                    // Half of the time near the beginning, where the frames are.
                    let most = if *change % 2 == 0 { bytes.len() } else { bytes.len().min(20_000) };
                    if most > 0 {
                        bytes[at.index(most)] ^= *change;
                    }
                });
                model.rotted = true;
            }
            if let Act::RotAtTheEnd(at, change) = act {
                let names = disk.list().unwrap();
                if let Some(write) = disk.writes().iter().rfind(|write| names.contains(&write.name)) {
                    disk.rot(&write.name, |bytes| {
                        let around =
                            write.offset.saturating_sub(2 * 4096)..bytes.len().min(write.offset + write.length + 4096);
                        if !around.is_empty() {
                            bytes[around.start + at.index(around.len())] ^= *change;
                        }
                    });
                    model.rotted = true;
                }
            }
            if rng.chance(1, 4) {
                disk.cut_power_after(rng.below(6));
            }
            journal = open(&disk, &mut model);
            if journal.is_none() {
                disk.restart(&mut rng);
                journal = open(&disk, &mut model);
                assert!(journal.is_some(), "with power, the journal opens");
            }
        }
    }
}

/// The cases are the same in every run, so that a red test can be seen again; but so many others, chosen by chance, if
/// `DICTUM_JOURNAL_CASES` names a number.
fn cases() -> ProptestConfig {
    let fixed = RngSeed::Fixed(20_261_121);
    let asked = std::env::var("DICTUM_JOURNAL_CASES").ok().and_then(|text| text.parse().ok());
    let (cases, rng_seed) = asked.map_or((3000, fixed), |cases| (cases, RngSeed::Random));
    ProptestConfig { cases, failure_persistence: None, rng_seed, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn what_was_committed_is_recovered(acts in prop::collection::vec(act(), 1..40), seed in any::<u64>()) {
        play(&acts, seed);
    }

    #[test]
    fn with_rot_what_was_committed_is_recovered_or_reported(
        acts in prop::collection::vec(act_or_rot(), 1..40),
        seed in any::<u64>(),
    ) {
        play(&acts, seed);
    }

    #[test]
    fn rot_at_the_end_again_and_again_is_reported(
        acts in prop::collection::vec(commit_or_rot_at_the_end(), 1..12),
        seed in any::<u64>(),
    ) {
        play(&acts, seed);
    }
}

#[test]
fn what_is_recovered_after_a_failed_sync_is_really_on_the_disk() {
    let disk = TestDisk::default();
    let (mut journal, _) = Journal::open(disk.clone(), OPTIONS).unwrap();
    journal.commit(&[b"one"]).unwrap();
    disk.fail_next_sync();
    assert!(matches!(journal.commit(&[b"two"]), Err(CommitError::Broken(_))));
    assert!(matches!(journal.commit(&[b"three"]), Err(CommitError::Broken(_))), "never again");
    assert!(matches!(journal.prepare_next(), Err(CommitError::Broken(_))));
    assert!(matches!(journal.discard_before(2), Err(CommitError::Broken(_))));
    // A new process reads it from the page cache, and acts on it; then the power goes.
    let (_, recovered) = Journal::open(disk.clone(), OPTIONS).unwrap();
    assert_eq!(recovered.payloads.len(), 2);
    disk.restart_with_nothing_unsynced();
    let (_, recovered) = Journal::open(disk.clone(), OPTIONS).unwrap();
    assert_eq!(recovered.payloads.len(), 2);
}

#[test]
fn a_full_disk_refuses_and_recovers() {
    let disk = TestDisk::default();
    let (mut journal, _) = Journal::open(disk.clone(), OPTIONS).unwrap();
    disk.set_bytes_max(Some(disk.bytes() + 12 * 4096));
    let mut committed = 0;
    let fill = |journal: &mut Journal<TestDisk>, committed: &mut u64| {
        loop {
            match journal.commit(&[vec![1; 3000]]) {
                Ok(numbers) => *committed = numbers.start,
                Err(CommitError::Full) => return,
                Err(other) => panic!("{other}"),
            }
        }
    };
    fill(&mut journal, &mut committed);
    // All of three small segments but their last blocks.
    assert_eq!(committed, 5 + 5 + 5);
    assert_eq!(journal.free_bytes(), 0);
    assert!(matches!(journal.commit(&[vec![1; 3000]]), Err(CommitError::Full)));
    assert!(matches!(journal.prepare_next(), Err(CommitError::Full)));
    let preparation = journal.preparation().unwrap();
    assert!(matches!(journal.install(preparation.run()), Err(CommitError::Full)));
    // Giving space back needs none: again and again, on a disk that stays full.
    for _ in 0..20 {
        let before = committed;
        journal.discard_before(committed + 1).unwrap();
        fill(&mut journal, &mut committed);
        assert!(committed > before, "space was given back");
    }
    let (mut journal, recovered) = Journal::open(disk.clone(), OPTIONS).unwrap();
    assert_eq!((recovered.damage.len(), recovered.tail), (0, Tail::Clean));
    assert_eq!(recovered.next_number, committed + 1);
    // And with room again, as if nothing had been.
    assert!(matches!(journal.commit(&[vec![1; 3000]]), Err(CommitError::Full)));
    disk.set_bytes_max(None);
    journal.commit(&[vec![1; 3000]]).unwrap();
}

/// A caller that has the next payload on its way asks for everything before that; if it then dies, there must be something left.
#[test]
fn the_newest_payload_is_never_given_up() {
    let disk = TestDisk::default();
    let (mut journal, _) = Journal::open(disk.clone(), OPTIONS).unwrap();
    for number in 1..=20u64 {
        journal.commit(&[vec![number as u8; 3000]]).unwrap();
        journal.discard_before(number + 1).unwrap();
        journal.discard_before(number + 5).unwrap();
        let (reopened, recovered) = Journal::open(disk.clone(), OPTIONS).unwrap();
        assert_eq!(recovered.payloads.last().map(|(number, _)| *number), Some(number));
        journal = reopened;
    }
}

#[test]
fn segments_are_reused_and_the_folder_stays_small() {
    let disk = TestDisk::default();
    let (mut journal, _) = Journal::open(disk.clone(), OPTIONS).unwrap();
    for round in 0..500u64 {
        journal.commit(&[vec![round as u8; 3000]]).unwrap();
        journal.discard_before(journal.next_number().saturating_sub(5)).unwrap();
        if !journal.next_is_ready() {
            journal.prepare_next().unwrap();
        }
        assert!(disk.bytes() <= 6 * 12 * 4096, "{}", disk.bytes());
        assert_eq!(disk.bytes(), journal.bytes_on_disk());
    }
    // One far larger than a segment; and going on behind it.
    journal.commit(&[vec![9; 500_000]]).unwrap();
    journal.commit(&[vec![10; 3000]]).unwrap();
    let (_, recovered) = Journal::open(disk.clone(), OPTIONS).unwrap();
    assert_eq!(recovered.payloads.iter().rev().nth(1).unwrap().1.len(), 500_000);
    assert_eq!((recovered.damage.len(), recovered.tail, recovered.floor), (0, Tail::Clean, 496));
}

#[test]
fn two_segments_are_kept_ready() {
    let disk = TestDisk::default();
    let (mut journal, _) = Journal::open(disk.clone(), OPTIONS).unwrap();
    let prepare_all = |journal: &mut Journal<TestDisk>| {
        let mut made = 0;
        while let Some(preparation) = journal.preparation() {
            assert!(!journal.next_is_ready());
            journal.install(preparation.run()).unwrap();
            made += 1;
        }
        made
    };
    assert_eq!((prepare_all(&mut journal), journal.next_is_ready()), (2, true));
    // Both are used up without another one having to be made.
    disk.set_bytes_max(Some(disk.bytes()));
    let mut committed = 0;
    while journal.commit(&[[1]]).is_ok() {
        committed += 1;
        assert_eq!(journal.next_is_ready(), committed <= 5);
    }
    assert_eq!(committed, 5 + 11 + 11);
    // As long as one is left, a full disk is no reason to worry.
    assert!(matches!(journal.prepare_next(), Err(CommitError::Full)));
    disk.set_bytes_max(Some(disk.bytes() + 12 * 4096));
    journal.prepare_next().unwrap();
    assert!(!journal.next_is_ready());
    disk.set_bytes_max(None);
    // What was discarded is used before something new is made.
    journal.commit(&[[1]]).unwrap();
    journal.discard_before(journal.next_number()).unwrap();
    assert!(journal.preparation().is_none() && !journal.next_is_ready());
    let bytes = disk.bytes();
    journal.prepare_next().unwrap();
    assert!(journal.next_is_ready());
    assert_eq!(disk.bytes(), bytes);
    // What is ready stays ready when the journal is opened again, and another number can be wished for.
    let (mut journal, _) = Journal::open(disk.clone(), OPTIONS).unwrap();
    assert!(journal.next_is_ready() && journal.preparation().is_none());
    journal.keep_ready(4);
    assert!(!journal.next_is_ready());
    journal.prepare_next().unwrap();
    assert!(journal.next_is_ready());
    journal.keep_ready(0);
    while journal.next_is_ready() {
        journal.commit(&[vec![1; 3000]]).unwrap();
    }
    assert_eq!(prepare_all(&mut journal), 1);
    assert!(journal.next_is_ready());
}

#[test]
fn every_way_to_tear_a_frame_is_seen_as_torn_or_whole() {
    // The last frame has five blocks; each may have reached the disk or not.
    let disk = TestDisk::default();
    let (mut journal, _) = Journal::open(disk.clone(), OPTIONS).unwrap();
    journal.prepare_next().unwrap();
    journal.commit(&[vec![1; 3000]]).unwrap();
    let name = disk.last_write().name;
    let before = disk.read(&name);
    for length in [10_000, 18_000, 30_000] {
        let write = {
            let (mut journal, _) = Journal::open(disk.clone(), OPTIONS).unwrap();
            journal.commit(&[vec![2; length]]).unwrap();
            disk.last_write()
        };
        let whole = disk.read(&write.name);
        let blocks = write.length / 4096;
        for present in 0..1u32 << blocks {
            disk.rot(&write.name, |bytes| {
                for block in 0..blocks {
                    let at = write.offset + block * 4096;
                    let from = if present >> block & 1 == 1 { &whole[at..at + 4096] } else { &[0; 4096][..] };
                    bytes[at..at + 4096].copy_from_slice(from);
                }
            });
            let (_, recovered) = Journal::open(disk.clone(), OPTIONS).unwrap();
            assert_eq!(recovered.damage, []);
            if present == (1 << blocks) - 1 {
                assert_eq!((recovered.tail, recovered.payloads.len()), (Tail::Clean, 2));
            } else {
                let tail = if present == 0 { Tail::Clean } else { Tail::Torn };
                assert_eq!((recovered.tail, recovered.payloads.len()), (tail, 1), "{blocks} blocks, {present:b}");
                assert_eq!(recovered.next_number, 2);
            }
        }
        disk.rot(&write.name, |bytes| bytes.fill(0));
        disk.rot(&name, |bytes| bytes.copy_from_slice(&before));
    }
}

/// A journal with one frame and a place for the next, in space never used, or in a file that was another segment before.
fn stamped(used_before: bool) -> (TestDisk, u64) {
    let disk = TestDisk::default();
    let (mut journal, _) = Journal::open(disk.clone(), OPTIONS).unwrap();
    journal.stamp_sectors();
    loop {
        journal.prepare_next().unwrap();
        let next = journal.commit(&[vec![1; 300]]).unwrap().end;
        let write = disk.last_write();
        let (at, bytes) = (write.offset + write.length, disk.read(&write.name));
        let behind = bytes.get(at..at + 3 * 4096).unwrap_or_default();
        let is_used = behind.chunks_exact(4096).all(|block| block.iter().any(|byte| *byte != 0));
        if behind.len() == 3 * 4096 && is_used == used_before {
            return (disk, next);
        }
        assert!(next < 500, "no segment is used again");
        journal.discard_before(next - 1).unwrap();
    }
}

/// A disk writes sectors as a whole, not blocks: whichever of them have got there, what was not acknowledged is forgotten, and nothing else.
#[test]
fn every_way_to_tear_the_sectors_of_a_frame_is_seen_as_torn_or_whole() {
    for used_before in [false, true] {
        let (disk, next) = stamped(used_before);
        for length in [300, 4_000, 9_000] {
            let (write, before) = {
                let (mut journal, recovered) = Journal::open(disk.clone(), OPTIONS).unwrap();
                assert_eq!((recovered.tail, recovered.next_number), (Tail::Clean, next));
                let name = disk.last_write().name;
                let before = disk.read(&name);
                journal.commit(&[vec![0; length]]).unwrap();
                assert_eq!(disk.last_write().name, name, "it fits");
                (disk.last_write(), before)
            };
            let whole = disk.read(&write.name);
            let sectors = write.length / 512;
            let mut rng = Rng::new(length as u64);
            // Of one block all ways, of more some.
            let ways = if sectors == 8 { 256 } else { 400 };
            for way in 0..ways {
                let present = if sectors == 8 { way } else { (rng.next_u64() & rng.next_u64()) | rng.below(256) };
                disk.rot(&write.name, |bytes| {
                    bytes.copy_from_slice(&before);
                    for sector in (0..sectors).filter(|sector| present >> (sector % 64) & 1 == 1) {
                        let at = write.offset + sector * 512;
                        bytes[at..at + 512].copy_from_slice(&whole[at..at + 512]);
                    }
                });
                let is_whole = (0..sectors).all(|sector| present >> (sector % 64) & 1 == 1);
                let (mut journal, recovered) = Journal::open(disk.clone(), OPTIONS).unwrap();
                assert_eq!(recovered.damage, [], "{sectors} sectors, {present:b}");
                assert_ne!(
                    recovered.tail,
                    Tail::Unprovable,
                    "{sectors} sectors, {present:b}, used before: {used_before}"
                );
                assert_eq!(recovered.next_number, next + u64::from(is_whole), "{sectors} sectors, {present:b}");
                journal.commit(&[vec![3; 10]]).unwrap();
                let (_, recovered) = Journal::open(disk.clone(), OPTIONS).unwrap();
                assert_eq!((recovered.damage.len(), recovered.next_number), (0, next + u64::from(is_whole) + 1));
            }
            disk.rot(&write.name, |bytes| bytes.copy_from_slice(&before));
        }
    }
}

/// The power goes again at the next start, in a write to the same place: what the first one has left does not make the second one look like damage.
#[test]
fn two_torn_writes_at_one_place_are_no_damage() {
    for used_before in [false, true] {
        let (disk, next) = stamped(used_before);
        let tear = |length: usize, present: u64| {
            let (mut journal, recovered) = Journal::open(disk.clone(), OPTIONS).unwrap();
            let wrong = format!("{length} bytes, {present:b}, used before: {used_before}");
            assert_ne!(recovered.tail, Tail::Unprovable, "{wrong}");
            assert_eq!((recovered.damage.len(), recovered.next_number), (0, next), "{wrong}");
            let name = disk.last_write().name;
            let before = disk.read(&name);
            journal.commit(&[vec![present as u8; length]]).unwrap();
            let write = disk.last_write();
            assert_eq!(write.name, name, "it fits");
            // Never all of it: what is whole counts.
            disk.rot(&write.name, |bytes| {
                for sector in (0..write.length / 512).filter(|sector| present >> (sector % 64) & 1 == 0) {
                    let at = write.offset + sector * 512;
                    bytes[at..at + 512].copy_from_slice(&before[at..at + 512]);
                }
            });
        };
        let mut rng = Rng::new(7);
        for first in 0..255 {
            tear(300, first);
            tear(300, 254 - first);
        }
        for _ in 0..400 {
            let length = [300, 4_000, 9_000, 11_000][rng.below(4) as usize];
            let present = rng.next_u64() & (rng.next_u64() | 0xff);
            tear(length, present & !(1 << rng.below(8)));
        }
        let (_, recovered) = Journal::open(disk.clone(), OPTIONS).unwrap();
        assert_ne!(recovered.tail, Tail::Unprovable);
    }
}

/// What was acknowledged and rots is never taken for what a power cut has left, whichever bits flip, in content that is zero as elsewhere.
#[test]
fn rot_in_stamped_frames_is_no_torn_write() {
    for used_before in [false, true] {
        let (disk, next) = stamped(used_before);
        let (mut journal, _) = Journal::open(disk.clone(), OPTIONS).unwrap();
        journal.commit(&[vec![0; 300]]).unwrap();
        let write = disk.last_write();
        let whole = disk.read(&write.name);
        for bit in (0..4096 * 8).step_by(11) {
            disk.rot(&write.name, |bytes| {
                bytes.copy_from_slice(&whole);
                bytes[write.offset + bit / 8] ^= 1 << (bit % 8);
            });
            let (_, recovered) = Journal::open(disk.clone(), OPTIONS).unwrap();
            assert_eq!(recovered.tail, Tail::Unprovable, "bit {bit}");
            assert!(recovered.next_number > next, "no number is given twice");
        }
    }
}

/// Frames without stamps and with them stand in one journal, as where the cluster's version has risen.
#[test]
fn frames_of_both_versions_are_read() {
    let disk = TestDisk::default();
    let lengths = [10, 4_000, 4_080, 12_000, 30_000];
    let (mut journal, _) = Journal::open(disk.clone(), OPTIONS).unwrap();
    let payload = |number: u64, length: usize| -> Vec<u8> {
        let mut rng = Rng::new(number);
        (0..length).map(|_| rng.next_u64() as u8).collect()
    };
    let mut written = Vec::new();
    for stamps in [false, true] {
        if stamps {
            journal.stamp_sectors();
        }
        for length in lengths {
            let payload = payload(journal.next_number(), length);
            journal.commit(&[&payload]).unwrap();
            written.push(payload);
        }
    }
    let (journal, recovered) = Journal::open(disk, OPTIONS).unwrap();
    assert_eq!((recovered.tail, recovered.damage.len()), (Tail::Clean, 0));
    assert_eq!(recovered.payloads.iter().map(|(_, bytes)| bytes.to_vec()).collect::<Vec<_>>(), written);
    drop(journal);
}

#[test]
fn blocks_of_two_attempts_are_never_mixed() {
    // First attempt: three blocks, only the later two reach the disk. Second attempt, the same shape: only the first.
    let disk = TestDisk::default();
    let attempt = |fill: u8, kept: &[usize]| {
        let (mut journal, recovered) = Journal::open(disk.clone(), OPTIONS).unwrap();
        assert_eq!((recovered.payloads.len(), recovered.next_number), (0, 1));
        let before = disk.list_first();
        journal.commit(&[vec![fill; 10_000]]).unwrap();
        let write = disk.last_write();
        assert_eq!(write.length, 3 * 4096);
        disk.rot(&write.name, |bytes| {
            for block in (0..3).filter(|block| !kept.contains(block)) {
                let at = write.offset + block * 4096;
                bytes[at..at + 4096].copy_from_slice(&before[at..at + 4096]);
            }
        });
    };
    attempt(1, &[1, 2]);
    attempt(2, &[0]);
    let (_, recovered) = Journal::open(disk.clone(), OPTIONS).unwrap();
    assert_eq!((recovered.payloads.len(), recovered.tail), (0, Tail::Torn));
}

impl TestDisk {
    /// The bytes of the first file.
    fn list_first(&self) -> Vec<u8> {
        self.read(&self.list().unwrap()[0])
    }
}
