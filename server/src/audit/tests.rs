//! Trails that are written, cut and forged, and what `verify` says of them.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tls::NodeKey;

use super::record::{self, END, Entry, LEFT_OUT, START};
use super::trail::{Ending, Limits, Trail};
use super::verify::{Expected, Noted, Report, read_witness, verify};
use super::writer::CHECKPOINT_RECORDS;
use super::{Audit, files, pages};

const SMALL: Limits = Limits { file_bytes_max: 20_000, files_max: 100 };

fn key() -> Arc<NodeKey> {
    Arc::new(NodeKey::generate().expect("a key"))
}

fn login(number: u64) -> Entry {
    Entry::new("login", vec![("user", format!("user{number}").into()), ("client", "10.0.0.7:5".into())])
}

/// A trail of a start, so many logins with a checkpoint behind every tenth, and an end.
fn write(folder: &Path, key: &Arc<NodeKey>, limits: Limits, logins: u64) {
    let (mut trail, _) = Trail::open(folder, "n1", Arc::clone(key), limits).expect("opened");
    trail.push(Entry::new(START, Vec::new()));
    trail.checkpoint().expect("on disk");
    for number in 1..=logins {
        trail.make_room().expect("room");
        trail.push(login(number));
        trail.write().expect("written");
        if number % 10 == 0 {
            trail.checkpoint().expect("on disk");
        }
    }
    trail.push(Entry::new(END, Vec::new()));
    trail.checkpoint().expect("on disk");
}

fn trail_of(logins: u64) -> (TempDir, Arc<NodeKey>) {
    let (folder, key) = (tempfile::tempdir().expect("a folder"), key());
    write(folder.path(), &key, SMALL, logins);
    (folder, key)
}

fn judge(folder: &TempDir) -> Report {
    verify(folder.path(), &Expected::default()).expect("it can be read")
}

/// What is wrong, in one text.
fn wrong(folder: &TempDir) -> String {
    let report = judge(folder);
    assert_eq!(report.is_sound, report.findings.is_empty());
    report.findings.iter().map(|finding| format!("{}\n", finding.text)).collect()
}

fn paths(folder: &TempDir) -> Vec<PathBuf> {
    let found = files::list(&folder.path().join(files::FOLDER)).expect("listed");
    found.into_iter().map(|(_, path)| path).collect()
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).expect("text").lines().map(str::to_owned).collect()
}

fn put(path: &Path, lines: &[String]) {
    fs::write(path, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).expect("written");
}

#[test]
fn a_trail_as_it_was_written_is_sound() {
    let (folder, key) = trail_of(40);
    assert!(paths(&folder).len() > 1, "it goes on across files");
    let report = judge(&folder);
    assert_eq!(report.findings, []);
    assert!(report.is_sound && !report.is_key_compared);
    assert_eq!((report.kinds["login"], report.kinds[START], report.kinds[END]), (40, 1, 1));
    assert_eq!((report.first_sequence, report.last_sequence, report.records), (1, report.records, report.records));
    assert_eq!((report.unsigned, report.cut, report.torn_bytes, report.removed), (0, 0, 0, 0));
    assert_eq!(report.keys.keys().collect::<Vec<_>>(), [&key.hash().whole()]);
    // Each of its files on its own is, too.
    for path in paths(&folder) {
        assert!(verify(&path, &Expected::default()).expect("read").is_sound);
    }
    assert!(verify(&folder.path().join(files::FOLDER), &Expected::default()).expect("read").is_sound);
}

#[test]
fn every_byte_that_is_flipped_is_found() {
    let (folder, _) = trail_of(12);
    let path = paths(&folder).remove(0);
    let whole = fs::read(&path).expect("read");
    // Signatures are long: of their bytes every 97th.
    for place in (0..whole.len()).filter(|place| place % 97 == 0 || *place < 700) {
        let mut bytes = whole.clone();
        bytes[place] ^= 1;
        fs::write(&path, bytes).expect("written");
        assert_ne!(wrong(&folder), "", "byte {place}");
    }
    fs::write(&path, whole).expect("written");
    assert_eq!(wrong(&folder), "");
}

#[test]
fn what_is_taken_out_put_in_or_moved_is_found() {
    let (folder, _) = trail_of(12);
    let path = paths(&folder).remove(0);
    let whole = lines(&path);
    let mut cut = whole.clone();
    cut.remove(5);
    put(&path, &cut);
    assert!(wrong(&folder).contains("record 6 is missing"), "{}", wrong(&folder));
    cut.drain(4..7);
    put(&path, &cut);
    assert!(wrong(&folder).contains("records 5 to 8 are missing"), "{}", wrong(&folder));
    let mut moved = whole.clone();
    moved.swap(5, 6);
    put(&path, &moved);
    assert!(wrong(&folder).contains("stands behind record"), "{}", wrong(&folder));
    let mut more = whole.clone();
    more.insert(6, whole[5].clone());
    put(&path, &more);
    assert!(wrong(&folder).contains("record 6 stands behind record 6"), "{}", wrong(&folder));
    put(&path, &whole);
    assert_eq!(wrong(&folder), "");
}

#[test]
fn numbers_out_of_bounds_are_told_and_stop_nothing() {
    let (folder, key) = trail_of(12);
    let path = paths(&folder).remove(0);
    let whole = lines(&path);
    for number in [0, u64::MAX - 1, u64::MAX] {
        for place in [0, 5, whole.len() - 1] {
            let mut changed = whole.clone();
            let mut fields = record::parse(&changed[place]).expect("a record");
            fields.insert("sequence".to_owned(), number.into());
            fields.insert("count".to_owned(), number.into());
            fields.insert("kind".to_owned(), LEFT_OUT.into());
            changed[place] = record::line(&fields);
            changed.insert(place, changed[place].clone());
            put(&path, &changed);
            assert_ne!(wrong(&folder), "", "{number} at {place}");
            assert!(Trail::open(folder.path(), "n1", Arc::clone(&key), SMALL).is_ok(), "{number} at {place}");
            paths(&folder)
                .into_iter()
                .filter(|other| *other != path)
                .for_each(|other| fs::remove_file(other).expect("removed"));
        }
    }
}

#[test]
fn a_file_that_is_missing_is_found_wherever_it_stood() {
    let (folder, _) = trail_of(60);
    let all = paths(&folder);
    assert!(all.len() >= 3, "{all:?}");
    for (place, path) in all[..all.len() - 1].iter().enumerate() {
        let whole = fs::read(path).expect("read");
        fs::remove_file(path).expect("removed");
        assert!(wrong(&folder).contains("missing"), "file {place}: {}", wrong(&folder));
        fs::write(path, whole).expect("written");
    }
    assert_eq!(wrong(&folder), "");
    // Under another name it is not the file that belongs there.
    let name = files::file_name(2);
    fs::rename(&all[0], all[0].with_file_name(name)).expect("renamed");
    assert!(wrong(&folder).contains("named after record 2"), "{}", wrong(&folder));
}

/// Writes all later records anew, as somebody without the key can: names and numbers are right again.
fn rechain(lines: &[String]) -> Vec<String> {
    let mut previous = record::NOTHING_BEFORE;
    let mut out = Vec::new();
    for (place, line) in lines.iter().enumerate() {
        let mut fields = record::parse(line).expect("a record");
        fields.insert("sequence".to_owned(), (place as u64 + 1).into());
        fields.insert("previous".to_owned(), record::hex(&previous).into());
        let line = record::line(&fields);
        previous = record::name_of(line.as_bytes());
        out.push(line);
    }
    out
}

#[test]
fn a_chain_that_was_written_anew_lacks_the_signatures() {
    let (folder, key) = trail_of(12);
    let path = paths(&folder).remove(0);
    let whole = lines(&path);
    assert_eq!(rechain(&whole), whole);
    let mut forged = whole.clone();
    forged[4] = forged[4].replace("user2", "user3");
    put(&path, &rechain(&forged));
    assert!(wrong(&folder).contains("the signature of checkpoint"), "{}", wrong(&folder));
    // Without any checkpoint there is nothing to be wrong, and that is wrong.
    let unsigned: Vec<String> =
        forged.iter().filter(|line| !line.contains("\"kind\":\"checkpoint\"")).cloned().collect();
    put(&path, &rechain(&unsigned));
    let said = wrong(&folder);
    assert!(said.contains("no record is signed") && said.contains("behind the record of the start"), "{said}");
    // With another key all is right but the key.
    fs::remove_dir_all(folder.path().join(files::FOLDER)).expect("removed");
    write(folder.path(), &self::key(), SMALL, 12);
    assert_eq!(wrong(&folder), "");
    let expected = Expected { key: Some(key.hash().whole()), ..Expected::default() };
    let report = verify(folder.path(), &expected).expect("read");
    assert!(!report.is_sound && report.findings[0].text.contains("the key is"), "{report:?}");
}

#[test]
fn long_stretches_without_a_signature_are_found() {
    let (folder, key) = (tempfile::tempdir().expect("a folder"), key());
    let (mut trail, _) = Trail::open(folder.path(), "n1", key, Limits::default()).expect("opened");
    trail.push(Entry::new(START, Vec::new()));
    trail.checkpoint().expect("on disk");
    (0..CHECKPOINT_RECORDS).for_each(|number| trail.push(login(number)));
    trail.write().expect("written");
    assert_eq!(wrong(&folder), "");
    (0..200).for_each(|number| trail.push(login(number)));
    trail.checkpoint().expect("on disk");
    assert!(wrong(&folder).contains("checkpoints were taken out"), "{}", wrong(&folder));
}

#[test]
fn a_missing_tail_shows_by_a_checkpoint_that_was_noted() {
    let (folder, _) = trail_of(12);
    let noted = judge(&folder).last_checkpoint.expect("a checkpoint");
    let expected = |hash: &str| Expected {
        noted: vec![Noted { sequence: noted.sequence, hash: hash.to_owned(), by: None }],
        ..Expected::default()
    };
    let judge = |hash: &str| verify(folder.path(), &expected(hash)).expect("read");
    assert!(judge(&noted.hash).is_sound);
    assert!(judge(&"0".repeat(64)).findings[0].text.contains("has the hash"));
    let path = paths(&folder).remove(0);
    let mut cut = lines(&path);
    cut.truncate(8);
    put(&path, &cut);
    assert_eq!(wrong(&folder), "", "the files alone cannot tell");
    let report = judge(&noted.hash);
    assert!(
        !report.is_sound && report.findings[0].text.contains("is missing: the trail ends with record 8"),
        "{report:?}"
    );
}

/// The trail of another node, which has noted this checkpoint, and one of a node that is not concerned.
fn witness_of(sequence: u64, hash: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut trail, _) = Trail::open(folder.path(), "n2", key(), Limits::default()).expect("opened");
    trail.push(Entry::new(START, Vec::new()));
    for (of, hash) in [("n1", hash.to_owned()), ("n3", "0".repeat(64))] {
        let fields = vec![("of", of.into()), ("record", sequence.into()), ("hash", hash.into())];
        trail.push(Entry::new(node::TRAIL_NOTED, fields));
    }
    trail.checkpoint().expect("on disk");
    folder
}

#[test]
fn a_missing_tail_and_a_trail_written_anew_show_by_the_trail_of_another_node() {
    let (folder, key) = trail_of(12);
    let noted = judge(&folder).last_checkpoint.expect("a checkpoint");
    let witness = witness_of(noted.sequence, &noted.hash);
    let mut expected = Expected::default();
    read_witness(witness.path(), &mut expected.witnessed).expect("read");
    let judge = |folder: &TempDir| verify(folder.path(), &expected).expect("read");
    let report = judge(&folder);
    assert!(report.is_sound && report.witnessed == 1, "{report:?}");
    // Cut behind a checkpoint, so that what is left is signed.
    let path = paths(&folder).remove(0);
    let whole = lines(&path);
    put(&path, &whole[..whole.len() - 6]);
    let report = judge(&folder);
    let text = &report.findings.first().expect("a finding").text;
    assert!(
        text.contains("is missing: the trail ends with record") && text.ends_with(", and n2 has noted it"),
        "{text}"
    );
    // By the same key: who has the machine has the key.
    fs::remove_dir_all(folder.path().join(files::FOLDER)).expect("removed");
    write(folder.path(), &key, SMALL, 20);
    assert_eq!(wrong(&folder), "", "the files alone cannot tell");
    let report = judge(&folder);
    assert!(report.findings[0].text.ends_with(", as n2 has noted"), "{report:?}");
}

#[test]
fn the_end_of_a_process_in_the_middle_of_a_line_is_told() {
    let (folder, key) = trail_of(5);
    let path = paths(&folder).pop().expect("a file");
    let mut file = OpenOptions::new().append(true).open(&path).expect("opened");
    file.write_all(b"{\"client\":\"10.0.").expect("written");
    let report = judge(&folder);
    assert!(report.is_sound && report.torn_bytes == 16, "{report:?}");
    let (mut trail, ending) = Trail::open(folder.path(), "n1", Arc::clone(&key), SMALL).expect("opened");
    assert_eq!(ending, Ending::InOrder);
    trail.checkpoint().expect("on disk");
    drop(trail);
    let report = judge(&folder);
    assert!(report.is_sound && report.torn_bytes == 0 && report.kinds["torn"] == 1, "{report:?}");
    // It ends without an end now.
    let (_, ending) = Trail::open(folder.path(), "n1", key, SMALL).expect("opened");
    assert_eq!(ending, Ending::Cut);
}

#[test]
fn a_line_that_is_wrong_at_the_start_stays_and_is_told() {
    let (folder, key) = trail_of(5);
    let path = paths(&folder).pop().expect("a file");
    let mut changed = lines(&path);
    changed[3] = changed[3].replace("user1", "user9");
    put(&path, &changed);
    write(folder.path(), &key, SMALL, 5);
    assert_eq!(lines(&path), changed, "what is wrong is not written over");
    let report = judge(&folder);
    assert!(!report.is_sound && report.kinds["damaged"] == 1, "{report:?}");
    // The chain goes on behind it all the same: later lies show as well.
    assert!(report.findings.iter().all(|finding| !finding.text.contains("missing")), "{report:?}");
}

#[test]
fn a_file_that_was_begun_and_not_written_goes_on_with_the_chain() {
    let (folder, key) = trail_of(5);
    let next = judge(&folder).last_sequence + 1;
    drop(files::create(&folder.path().join(files::FOLDER), next).expect("created"));
    write(folder.path(), &key, SMALL, 5);
    let report = judge(&folder);
    assert!(report.is_sound && report.kinds["login"] == 10, "{report:?}");
}

#[test]
fn of_too_many_files_the_first_goes_and_a_record_says_so() {
    let (folder, key) = (tempfile::tempdir().expect("a folder"), key());
    let limits = Limits { file_bytes_max: 20_000, files_max: 3 };
    write(folder.path(), &key, limits, 200);
    assert_eq!(paths(&folder).len(), 3);
    let report = judge(&folder);
    assert!(report.is_sound && report.removed > 0, "{report:?}");
    assert_eq!(report.removed + report.records, report.last_sequence);
    // One more is one too many.
    fs::remove_file(&paths(&folder)[0]).expect("removed");
    assert!(wrong(&folder).contains("no record says that they were removed"), "{}", wrong(&folder));
}

#[test]
fn pages_follow_one_another_across_files() {
    let (folder, _) = trail_of(60);
    let inner = folder.path().join(files::FOLDER);
    let last = judge(&folder).last_sequence;
    let (mut after, mut seen) = (0, Vec::new());
    loop {
        let page = pages::read(&inner, after, 7).expect("read");
        seen.extend(page.lines.iter().map(|(sequence, _)| *sequence));
        after = page.lines.last().expect("a record").0;
        if !page.has_more {
            break;
        }
    }
    assert_eq!(seen, (1..=last).collect::<Vec<_>>());
    assert_eq!(pages::read(&inner, last, 7).expect("read"), pages::Page::default());
}

#[test]
fn a_trail_that_cannot_be_written_keeps_its_records_until_it_can() {
    let (folder, key) = (tempfile::tempdir().expect("a folder"), key());
    let (mut trail, _) = Trail::open(folder.path(), "n1", key, SMALL).expect("opened");
    trail.push(Entry::new(START, Vec::new()));
    trail.checkpoint().expect("on disk");
    let path = paths(&folder).pop().expect("a file");
    // As a disk that takes nothing.
    trail.file = files::open_to_read(&path).expect("opened");
    for number in 0..30 {
        trail.push(login(number));
        assert!(trail.write().is_err());
    }
    assert!(trail.checkpoint().is_err());
    assert_eq!(trail.state().0.sequence, 3);
    // A half of a line may have come through.
    OpenOptions::new().append(true).open(&path).and_then(|mut file| file.write_all(b"{\"cl")).expect("written");
    trail.file = files::open_to_append(&path).expect("opened");
    trail.push(login(30));
    trail.checkpoint().expect("on disk");
    let report = judge(&folder);
    assert!(report.is_sound && report.kinds["login"] == 31 && report.unsigned == 0, "{report:?}");
}

#[test]
fn a_flood_beyond_the_queue_is_counted_and_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = NodeKey::generate().expect("a key");
    let audit = Audit::start(folder.path(), "n1", key, Limits::default()).expect("started");
    let told = 100_000;
    (0..told).for_each(|number| audit.tell(login(number)));
    audit.end("stopped");
    let report = judge(&folder);
    let left_out = audit.figures().left_out();
    assert!(report.is_sound, "{:?}", report.findings);
    assert_eq!((report.kinds["login"] + left_out, report.left_out), (told, left_out), "{report:?}");
    assert_eq!(report.kinds.contains_key(LEFT_OUT), left_out > 0);
    assert_eq!(audit.figures().state().0.sequence, report.last_sequence);
}
