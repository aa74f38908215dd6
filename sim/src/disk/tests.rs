use super::*;
use storage::{Disk, DiskFile, Journal, JournalOptions};

fn read(disk: &SimDisk, name: &str, length: usize) -> Vec<u8> {
    let mut buffer = vec![0; length];
    disk.open(name).and_then(|file| file.read_at(0, &mut buffer)).expect("the file is there");
    buffer
}

#[test]
fn what_was_synced_survives_and_the_rest_is_old_or_new_by_block() {
    let (mut old, mut new) = (0, 0);
    for seed in 0..50 {
        let disk = SimDisk::new(seed);
        let file = disk.create("a", 2 * BLOCK_BYTES as u64).expect("there is room");
        file.write_at(0, &[1; 2 * BLOCK_BYTES]).expect("the disk works");
        file.sync().and_then(|()| disk.sync_folder()).expect("the disk works");
        file.write_at(0, &[2; 2 * BLOCK_BYTES]).expect("the disk works");
        disk.lose_power();
        for block in read(&disk, "a", 2 * BLOCK_BYTES).chunks(BLOCK_BYTES) {
            assert!(block.iter().all(|&byte| byte == block[0]), "blocks are whole");
            if block[0] == 1 { old += 1 } else { new += 1 }
        }
    }
    assert!(old > 20 && new > 20, "{old} {new}");
}

#[test]
fn names_need_a_sync_of_the_folder() {
    let mut found = [0; 2];
    for seed in 0..50 {
        let disk = SimDisk::new(seed);
        disk.create("a", 0).and_then(|file| file.sync()).expect("the disk works");
        disk.lose_power();
        found[usize::from(disk.open("a").is_ok())] += 1;
    }
    assert!(found[0] > 5 && found[1] > 5, "{found:?}");
}

#[test]
fn a_full_disk_takes_nothing_new_and_recovers() {
    let disk = SimDisk::new(1);
    disk.set_full(true);
    assert_eq!(disk.create("a", 0).expect_err("full").kind(), io::ErrorKind::StorageFull);
    disk.set_full(false);
    assert!(disk.create("a", 0).is_ok());
}

#[test]
fn the_journal_survives_any_fuse() {
    // Whatever operation is the last one: every acknowledged payload is there afterwards.
    let options = JournalOptions { first_segment_bytes: 32 * 1024, segment_bytes: 64 * 1024, free_segments_max: 1 };
    for fuse in 0..60 {
        for power in [false, true] {
            let disk = SimDisk::new(u64::from(fuse));
            disk.light_fuse(fuse);
            let mut acknowledged = 0;
            if let Ok((mut journal, _)) = Journal::open(disk.clone(), options) {
                for number in 1..=40u64 {
                    if journal.commit(&[vec![number as u8; 3000]]).is_err() {
                        break;
                    }
                    acknowledged = number;
                }
            }
            if power {
                disk.lose_power();
            }
            disk.repair();
            let (_, recovered) = Journal::open(disk, options).expect("the journal opens");
            assert!(recovered.damage.is_empty(), "fuse {fuse}: {:?}", recovered.damage);
            let found: Vec<u64> = recovered.payloads.iter().map(|payload| payload.0).collect();
            assert!(found.len() as u64 >= acknowledged, "fuse {fuse}: {found:?}, {acknowledged} acknowledged");
        }
    }
}

#[test]
fn unreadable_blocks_fail_until_they_are_written_or_the_disk_is_well_again() {
    let disk = SimDisk::new(3);
    let file = disk.create("a", 3 * BLOCK_BYTES as u64).expect("there is room");
    file.write_at(0, &[7; 2 * BLOCK_BYTES]).and_then(|()| file.sync()).expect("the disk works");
    assert_eq!(disk.make_unreadable(false, |name| name == "b"), None);
    assert_eq!(disk.make_unreadable(false, |_| true), Some("a".to_string()));
    assert!(disk.is_damaged(|name| name == "a") && !disk.is_damaged(|name| name == "b"));
    let mut buffer = [0; 3 * BLOCK_BYTES];
    assert!(file.read_at(0, &mut buffer).is_err());
    let failing = |file: &SimFile| -> Vec<usize> {
        let fails = |block: &usize| file.read_at((block * BLOCK_BYTES) as u64, &mut [0; BLOCK_BYTES]).is_err();
        (0..3).filter(fails).collect()
    };
    let failed = failing(&file);
    assert!(failed.len() == 1 && failed[0] < 2, "one of those written: {failed:?}");
    file.write_at((failed[0] * BLOCK_BYTES) as u64, &[8; BLOCK_BYTES]).expect("the disk works");
    assert!(failing(&file).is_empty() && !disk.is_damaged(|_| true));
    disk.make_unreadable(true, |_| true);
    assert_eq!(failing(&file), [0, 1]);
    assert_eq!(disk.copy_of("a").map(|bytes| bytes.len()), Some(3 * BLOCK_BYTES));
    disk.read_again();
    assert!(failing(&file).is_empty());
    assert_eq!(disk.counts().failed_reads, 4);
}

#[test]
fn a_file_that_was_put_back_survives() {
    let disk = SimDisk::new(4);
    disk.restore("identity", b"it is me");
    disk.rot(|_| true).expect("there is a file");
    assert!(disk.is_damaged(|name| name == "identity"));
    disk.restore("identity", b"it is me");
    disk.lose_power();
    assert_eq!(disk.copy_of("identity").as_deref(), Some(&b"it is me"[..]));
    assert!(!disk.is_damaged(|_| true));
}
