//! Files written once and read for ever. They were made by `DICTUM_WRITE_FIXTURES=1 cargo test -p storage --test it
//! fixtures::`, which must not be needed again while the formats have the versions they have.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "fixtures are files")]

use std::fs;
use std::path::PathBuf;

use crate::common::{BLOCK, TestDisk};
use base::{BucketId, PartitionId, Position};
use bytes::Bytes;
use storage::{
    Damage, Disk, Identity, Journal, JournalOptions, LoadedIdentity, Recovered, SnapshotError, SnapshotId,
    SnapshotWriter, Tail, snapshot,
};

const OPTIONS: JournalOptions =
    JournalOptions { first_segment_bytes: 5 * BLOCK as u64, segment_bytes: 5 * BLOCK as u64, free_segments_max: 2 };
const SNAPSHOT: SnapshotId =
    SnapshotId { partition: PartitionId { bucket: BucketId(1), index: 2 }, position: Position(1000) };

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/fixtures").join(name)
}

fn payload(number: u64) -> Vec<u8> {
    format!("payload {number} ").repeat(if number == 3 { 600 } else { 3 }).into_bytes()
}

/// Segment 1: frames of payloads 1; 2; 3 (two blocks). Segment 2: frames of 4 and 5; 6.
fn write_all() {
    let disk = TestDisk::default();
    let (mut journal, _) = Journal::open(disk.clone(), OPTIONS).unwrap();
    for numbers in [&[1][..], &[2], &[3], &[4, 5], &[6]] {
        let payloads: Vec<Vec<u8>> = numbers.iter().map(|number| payload(*number)).collect();
        journal.commit(&payloads).unwrap();
    }
    journal.discard_before(2).unwrap();
    for name in disk.list().unwrap() {
        fs::write(path(&name), disk.read(&name)).unwrap();
    }
    let disk = TestDisk::default();
    let mut writer = SnapshotWriter::create(&disk, SNAPSHOT, b"the caller's header").unwrap();
    writer.append(b"first block").unwrap();
    writer.append(b"").unwrap();
    writer.append(&[7; 300]).unwrap();
    writer.finish().unwrap();
    identity().store(&disk).unwrap();
    for name in disk.list().unwrap() {
        fs::write(path(&name), disk.read(&name)).unwrap();
    }
}

fn identity() -> Identity {
    Identity { cluster: 0x0123_4567_89ab_cdef, incarnation: 3, name: "n2".into(), opaque: b"opaque".to_vec() }
}

const SEGMENTS: [&str; 2] = ["journal-0000000000000001-00000005", "journal-0000000000000002-00000005"];

/// Opens the journal fixture after a change to the bytes of its two segments.
fn open(change: impl FnOnce(&mut [Vec<u8>; 2])) -> Recovered {
    let mut segments = SEGMENTS.map(|name| fs::read(path(name)).expect("fixtures are committed"));
    change(&mut segments);
    let disk = TestDisk::default();
    SEGMENTS.iter().zip(&segments).for_each(|(name, bytes)| disk.put(name, bytes));
    Journal::open(disk, OPTIONS).unwrap().1
}

fn numbers(recovered: &Recovered) -> Vec<u64> {
    for (number, bytes) in &recovered.payloads {
        assert_eq!(bytes, &payload(*number));
    }
    recovered.payloads.iter().map(|payload| payload.0).collect()
}

#[test]
fn formats_read_as_ever() {
    if std::env::var_os("DICTUM_WRITE_FIXTURES").is_some() {
        write_all();
    }

    let good = open(|_| {});
    assert_eq!(numbers(&good), [1, 2, 3, 4, 5, 6]);
    assert_eq!((good.damage.len(), good.tail, good.next_number), (0, Tail::Clean, 7));

    let past = open(|segments| segments[0][3 * BLOCK + 1000] ^= 1);
    assert_eq!(numbers(&past), [1, 2, 4, 5, 6]);
    assert_eq!((&past.damage[..], past.tail), (&[Damage { after: 2, before: 4 }][..], Tail::Clean));

    let last = open(|segments| segments[1][BLOCK + 1000] ^= 1);
    assert_eq!(numbers(&last), [1, 2, 3, 4, 5]);
    assert_eq!((last.damage.len(), last.tail), (0, Tail::Unprovable));

    let torn = open(|segments| {
        segments[0][3 * BLOCK..4 * BLOCK].fill(0);
        segments[1].fill(0);
    });
    assert_eq!(numbers(&torn), [1, 2]);
    assert_eq!((torn.damage.len(), torn.tail, torn.next_number), (0, Tail::Torn, 3));

    let bytes = fs::read(path("snapshot-00000001-0002-00000000000003e8")).expect("fixtures are committed");
    let (id, header, blocks) = snapshot::decode(Bytes::from(bytes.clone())).unwrap();
    assert_eq!((id, &header[..]), (SNAPSHOT, &b"the caller's header"[..]));
    assert_eq!(blocks, [&b"first block"[..], b"", &[7; 300]]);
    let mut damaged = bytes;
    damaged[100] ^= 1;
    assert!(matches!(snapshot::decode(Bytes::from(damaged)), Err(SnapshotError::Damaged { offset: 98, .. })));

    let bytes = fs::read(path("identity")).expect("fixtures are committed");
    assert_eq!(Identity::decode(&bytes), LoadedIdentity::Found(identity()));
}
