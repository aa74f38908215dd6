//! Recording from several threads, and reading back; what is damaged is refused and never believed.

use std::collections::BTreeMap;

use base::random::Rng;

use super::random::{LISTS, Shape, legal};
use super::*;
use crate::history::{Recorder, Witness, format};

fn all_kinds() -> Vec<Operation> {
    let shape = Shape { clients: 4, keys: 3, operations: 400, unknown: 10, transactions: 5, kinds: 9 };
    let mut history = legal(&shape, 77);
    history.extend(legal(&Shape { kinds: LISTS, ..shape }, 78));
    history.push(set(1, 5, 9, "long", &"x".repeat(5_000)));
    history.push(get(u32::MAX, 0, u64::MAX - 1, "", &"y".repeat(25)));
    history
}

fn recorded(history: &[Operation]) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history");
    let recorder = Recorder::create(&path, 1 << 30).expect("a file");
    history.chunks(100).for_each(|batch| recorder.finished(batch));
    let told = recorder.finish().expect("is written");
    let bytes = std::fs::read(&path).expect("is there");
    assert_eq!((told.operations, told.bytes), (history.len() as u64, bytes.len() as u64));
    bytes
}

#[test]
fn what_is_recorded_is_read_back() {
    let history = all_kinds();
    let bytes = recorded(&history);
    assert_eq!(format::read(bytes.as_slice()).as_ref(), Ok(&history));
    assert_eq!(format::read(recorded(&[]).as_slice()), Ok(Vec::new()));
}

#[test]
fn the_form_does_not_change() {
    // client 3, from 1000, for 500, done; one step: key k, set v, done.
    let bytes = recorded(&[set(3, 1_000, 1_500, "k", "v")]);
    let expected = b"DICTHIS1\x0d\x03\xe8\x07\xf5\x03\x00\x01\x01k\x01\x01v\x06\x00\x01";
    assert_eq!(bytes.escape_ascii().to_string(), expected.escape_ascii().to_string());
}

#[test]
fn threads_may_record_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history");
    let recorder = Recorder::create(&path, 1 << 30).expect("a file");
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let recorder = &recorder;
            scope.spawn(move || {
                for batch in 0..50u64 {
                    let key = format!("{thread}");
                    let operations: Vec<Operation> =
                        (0..20).map(|number| add(thread, batch * 20 + number, batch * 20 + number, &key, 1)).collect();
                    recorder.finished(&operations);
                }
            });
        }
    });
    assert_eq!(recorder.finish().map(|recorded| recorded.operations), Ok(4_000));
    let read =
        format::read(std::fs::File::open(&path).map(std::io::BufReader::new).expect("is there")).expect("is whole");
    let mut counts: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    read.iter().for_each(|operation| counts.entry(operation.client).or_default().push(operation.from));
    // Nothing is missing, and each thread's are in its order.
    assert!(counts.len() == 4 && counts.values().all(|froms| *froms == (0..1_000).collect::<Vec<_>>()));
}

#[test]
fn a_history_with_holes_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history");
    let recorder = Recorder::create(&path, 100).expect("a file");
    recorder.finished(&[set(1, 0, 1, "key", "value")]);
    assert!(!recorder.has_failed());
    (0..50).for_each(|number| recorder.finished(&[set(1, number, number + 1, "key", "value")]));
    assert!(recorder.has_failed(), "told while it runs, so that nobody goes on for nothing");
    assert!(recorder.finish().unwrap_err().contains("beyond 100 bytes"));
    let read = format::read(std::fs::read(&path).expect("is there").as_slice());
    assert!(read.unwrap_err().contains("nothing can be concluded"));
    let recorder = Recorder::create(&path, 1 << 30).expect("a file");
    recorder.finished(&[set(1, 0, 1, &"k".repeat(70_000), "v")]);
    assert!(recorder.finish().unwrap_err().contains("too long a key"));
    assert!(Recorder::create(&folder.path().join("no/such/folder"), 1).is_err());
}

#[test]
fn damage_is_an_error_and_never_a_panic() {
    let whole = recorded(&all_kinds());
    for length in 0..whole.len() {
        // Every proper beginning is refused.
        assert!(format::read(&whole[..length]).is_err(), "{length} bytes");
    }
    let mut chance = Rng::new(5);
    for _ in 0..3_000 {
        let mut bytes = whole.clone();
        for _ in 0..1 + chance.below(4) {
            let place = chance.below(bytes.len() as u64) as usize;
            bytes[place] = chance.below(256) as u8;
        }
        if let Ok(history) = format::read(bytes.as_slice()) {
            // Whatever it says, it can be looked at.
            let _ = check(&history, &[], Limits { configurations_max: 200, minimise_max: 500, ..Limits::default() });
        }
    }
    assert!(format::read(&b"GIF89a.."[..]).unwrap_err().contains("it is no history"));
}
