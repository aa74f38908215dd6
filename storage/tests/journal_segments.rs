//! Segments: made before they are needed, beside commits, and used again.

mod common;

use common::TestDisk;
use storage::{CommitError, Journal, JournalOptions, Tail};

const OPTIONS: JournalOptions =
    JournalOptions { first_segment_bytes: 6 * 4096, segment_bytes: 12 * 4096, free_segments_max: 2 };

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
fn segments_are_made_beside_commits_unless_they_are_waited_for() {
    let disk = TestDisk::default();
    let (mut journal, _) = Journal::open(disk.clone(), OPTIONS).unwrap();
    for _ in 0..2 {
        let preparation = journal.preparation().unwrap();
        journal.install(preparation.run()).unwrap();
    }
    // The one that a new folder begins with, one while none is ready, one behind that.
    assert_eq!(disk.haste(), [true, true, false]);
    while journal.next_is_ready() {
        journal.commit(&[[1]]).unwrap();
    }
    let slow = journal.preparation().unwrap();
    // Another one is ready: nobody waits yet.
    journal.commit(&[[1]]).unwrap();
    journal.install(slow.run()).unwrap();
    assert_eq!(disk.haste()[3..], [false]);
    // Under way when the last one comes into use, and under way when the node wants to end.
    while journal.next_is_ready() {
        journal.commit(&[[1]]).unwrap();
    }
    let late = journal.preparation().unwrap();
    for _ in 0..11 {
        journal.commit(&[[1]]).unwrap();
    }
    journal.install(late.run()).unwrap();
    assert_eq!(disk.haste()[4..], [true]);
    journal.prepare_next().unwrap();
    while journal.next_is_ready() {
        journal.commit(&[[1]]).unwrap();
    }
    let last = journal.preparation().unwrap();
    journal.hurry();
    journal.install(last.run()).unwrap();
    assert_eq!(disk.haste().last(), Some(&true));
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
