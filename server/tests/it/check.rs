//! `dictum check`: folders of real nodes, sound and damaged in every kind of file. Whatever is found, no byte of the folder changes.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests of files use files")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::SystemTime;

use serde_json::Value as Json;
use tempfile::{TempDir, tempdir};

use crate::common::process::Process;
use crate::common::{Client, dictum, eventually, free_ports, output, scratch, wait_for, wait_until_nothing_is_flushed};

const BLOCK: usize = 4096;

/// Runs a node alone, lets it be filled, and stops it.
fn node_folder(more: &[&str], fill: impl Fn(&str, &Path)) -> TempDir {
    let folder = tempdir().expect("a temporary folder");
    let (process, resp) = start(folder.path(), more);
    fill(&resp, folder.path());
    assert!(process.stop(), "it ends well");
    folder
}

pub(crate) fn start(folder: &Path, more: &[&str]) -> (Process, String) {
    wait_for("a node", || {
        let [resp, http, peer] = free_ports();
        let mut command = dictum(&["start", "--node", "n1", "--cluster", &format!("n1=127.0.0.1:{peer}")]);
        command.args(["--resp", &format!("127.0.0.1:{resp}"), "--http", &format!("127.0.0.1:{http}"), "--dir"]);
        command.arg(folder).args(more).stdout(Stdio::null());
        match Process::start(command) {
            Ok(process) => Some((process, format!("127.0.0.1:{resp}"))),
            Err(reason) if reason.contains("is in use by another process; stop") => None,
            Err(reason) => panic!("it has ended: {reason}"),
        }
    })
}

fn write_all(resp: &str, count: usize, bytes: usize) {
    eventually(resp, &["PING"]);
    let mut client = Client::connect(resp).expect("it listens");
    let value = "v".repeat(bytes);
    for number in 0..count {
        let key = format!("key:{number}");
        let deadline = if number % 3 == 0 { vec!["PX", "100000000"] } else { Vec::new() };
        let reply = client.call(&[&["SET", &key, &value], &deadline[..]].concat()).expect("a reply");
        assert_eq!(reply.as_error(), None);
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        }
        found.push(path);
    }
    found.sort();
    found
}

/// Everything that could change: bytes, lengths, times.
fn fingerprint(folder: &Path) -> BTreeMap<PathBuf, (u64, SystemTime)> {
    // One buffer for all of them: these folders hold hundreds of megabytes, and fresh memory for each file costs the kernel more than reading it.
    let mut buffer = vec![0; 1 << 18];
    let mut hash_of = |path: &Path| {
        let (mut file, mut hash) = (fs::File::open(path).expect("readable"), 0_u64);
        loop {
            let count = file.read(&mut buffer).expect("readable");
            if count == 0 {
                return hash;
            }
            hash = hash.rotate_left(1) ^ base::checksum::xxh3(&buffer[..count]);
        }
    };
    let one = |path: PathBuf| {
        let metadata = fs::symlink_metadata(&path).expect("it is there");
        let hash = if metadata.is_file() { hash_of(&path) } else { 0 };
        (path, (hash, metadata.modified().expect("a time")))
    };
    files(folder).into_iter().map(one).collect()
}

pub(crate) struct Said {
    code: i32,
    text: String,
    json: Json,
}

impl Said {
    fn last_line(&self) -> &str {
        self.text.lines().last().unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn is_sound(&self) {
        assert_eq!(
            (self.code, self.last_line(), &self.json["verdict"]),
            (0, "sound", &"sound".into()),
            "{}",
            self.text
        );
    }

    #[track_caller]
    fn is_sound_but_for_the_end(&self) {
        let expected = "sound; the unsynced end will be cut at the next start";
        assert_eq!((self.code, self.last_line()), (0, expected), "{}", self.text);
        assert_eq!(self.json["verdict"], "sound-unsynced-end");
    }

    /// One of the findings says this, and there is something to do about every damage.
    #[track_caller]
    fn is_damaged(&self, what: &str) {
        assert_eq!((self.code, &self.json["verdict"]), (1, &"damaged".into()), "{}", self.text);
        assert!(self.last_line().starts_with("damaged: "), "{}", self.text);
        let findings = self.json["findings"].as_array().expect("a list");
        let told = |finding: &&Json| finding["severity"] == "damage";
        assert!(
            findings.iter().filter(told).any(|finding| finding["text"].as_str().expect("text").contains(what)),
            "{what} is not in {}",
            self.text
        );
        for finding in findings.iter().filter(told) {
            assert!(!finding["next_start"].as_str().expect("text").is_empty(), "{finding}");
            assert!(!finding["advice"].as_str().expect("text").is_empty(), "{finding}");
        }
    }
}

/// Checks a folder, in both forms, and sees to it that it stays as it is.
pub(crate) fn check(folder: &Path) -> Said {
    let before = fingerprint(folder);
    let scratch = scratch();
    let run = |json: bool| {
        let mut command = dictum(&["check"]);
        command.arg(folder).arg("--scratch").arg(scratch.path());
        if json {
            command.arg("--json");
        }
        output(command)
    };
    let (plain, json) = (run(false), run(true));
    assert_eq!(plain.status.code(), json.status.code());
    assert!(fingerprint(folder) == before, "the check has changed something");
    assert_eq!(files(scratch.path()), Vec::<PathBuf>::new(), "it leaves nothing behind");
    let said = String::from_utf8_lossy(&plain.stdout).into_owned() + &String::from_utf8_lossy(&plain.stderr);
    let json = serde_json::from_slice(&json.stdout).unwrap_or(Json::Null);
    Said { code: plain.status.code().expect("an exit code"), text: said, json }
}

/// Does something to a file, looks, and puts it back.
fn with(path: &Path, change: impl FnOnce(&mut Vec<u8>), look: impl FnOnce(Said), folder: &Path) {
    let bytes = fs::read(path).expect("readable");
    let mut changed = bytes.clone();
    change(&mut changed);
    write(path, &changed);
    look(check(folder));
    write(path, &bytes);
}

/// Writes a file without its blocks of zeros, which are most of a journal of 64 MiB.
fn write(path: &Path, bytes: &[u8]) {
    let file = fs::File::create(path).expect("writable");
    file.set_len(bytes.len() as u64).expect("writable");
    for (number, block) in bytes.chunks(BLOCK).enumerate() {
        if block.iter().any(|byte| *byte != 0) {
            file.write_all_at(block, (number * BLOCK) as u64).expect("writable");
        }
    }
}

fn without(path: &Path, look: impl FnOnce(Said), folder: &Path) {
    let aside = tempdir().expect("a temporary folder");
    let other = aside.path().join("aside");
    let copy = |from: &Path, to: &Path| {
        if from.is_dir() {
            let copied = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status();
            assert!(copied.expect("cp runs").success());
            fs::remove_dir_all(from).expect("removable");
        } else {
            fs::copy(from, to).expect("copied");
            fs::remove_file(from).expect("removable");
        }
    };
    copy(path, &other);
    look(check(folder));
    copy(&other, path);
}

fn named(folder: &Path, start: &str) -> Vec<PathBuf> {
    let is = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start));
    files(folder).into_iter().filter(is).collect()
}

/// Where written blocks are in a segment, and which block of its frame each is.
fn written(segment: &[u8]) -> Vec<(usize, u32)> {
    let blocks = segment.chunks_exact(BLOCK).enumerate();
    blocks
        .filter(|(_, block)| block.iter().any(|byte| *byte != 0))
        .map(|(index, block)| (index, u32::from_le_bytes(block[24..28].try_into().expect("four bytes"))))
        .collect()
}

#[test]
fn a_journal_is_judged_as_the_next_start_does() {
    let made = node_folder(&["--state", "memory"], |resp, _| write_all(resp, 60, 5000));
    let folder = made.path();
    let sound = check(folder);
    sound.is_sound();
    for part in
        ["identity   node n1 of cluster ", "\njournal    ", "\npartition  0/0: promised ", "command 60", "no holes"]
    {
        assert!(sound.text.contains(part), "{part} is not in {}", sound.text);
    }
    assert_eq!(sound.json["journal"]["tail"], "clean");
    assert_eq!(sound.json["identity"]["node"], "n1");

    let segments = named(folder, "journal-");
    let first = &segments[0];
    let blocks = written(&fs::read(first).expect("readable"));
    let (last, _) = *blocks.last().expect("there are frames");
    let (torn, _) = *blocks.iter().rev().find(|(_, index)| *index > 0).expect("frames of several blocks");

    with(
        first,
        |bytes| bytes[10 * BLOCK + 100] ^= 1,
        |said| {
            said.is_damaged("the journal has lost the payloads");
            assert!(said.text.contains("damaged: 4096 bytes from byte 40960 of journal-"), "{}", said.text);
        },
        folder,
    );
    let until_last = |bytes: &mut Vec<u8>| bytes[last * BLOCK + 50] ^= 1;
    with(first, until_last, |said| said.is_damaged("the journal's end is damaged"), folder);
    let tear = |bytes: &mut Vec<u8>| bytes[torn * BLOCK..].fill(0);
    with(first, tear, Said::ends_unsynced, folder);
    let unused = |bytes: &mut Vec<u8>| bytes[(last + 20) * BLOCK] = 1;
    with(
        first,
        unused,
        |said| {
            said.is_sound();
            assert!(said.text.contains("in space never used"), "{}", said.text);
        },
        folder,
    );
    with(first, |bytes| bytes.truncate(20 * BLOCK), |said| said.is_damaged("the journal's end is damaged"), folder);
    without(first, |said| said.is_damaged("the journal's end is damaged"), folder);
    // A block of another version, its checksum right.
    with(
        first,
        |bytes| {
            bytes[36] = 9;
            let crc = base::checksum::crc32c(&bytes[4..BLOCK]);
            bytes[..4].copy_from_slice(&crc.to_le_bytes());
        },
        |said| {
            assert_eq!((said.code, &said.json["verdict"]), (2, &"unknown".into()), "{}", said.text);
            assert!(said.text.contains("another version of Dictum (format 9)"), "{}", said.text);
        },
        folder,
    );

    let identity = folder.join("identity");
    for place in [0, 12, 40] {
        with(
            &identity,
            |bytes| bytes[place] ^= 1,
            |said| said.is_damaged("the identity file's checksum is wrong"),
            folder,
        );
    }
    with(&identity, Vec::clear, |said| said.is_damaged("the identity file is too short"), folder);
    without(&identity, |said| said.is_damaged("the identity is missing"), folder);

    fs::write(folder.join("letters.txt"), "dear").expect("writable");
    fs::write(folder.join("snapshot-00000000-0000-0000000000000005.tmp"), "begun").expect("writable");
    let said = check(folder);
    said.is_sound();
    assert!(said.text.contains("letters.txt") && said.text.contains("1 unfinished files"), "{}", said.text);

    for segment in &segments {
        fs::remove_file(segment).expect("removable");
    }
    check(folder).is_damaged("the journal is missing");
    fs::remove_file(&identity).expect("removable");
    fs::remove_file(folder.join("snapshot-00000000-0000-0000000000000005.tmp")).expect("removable");
    let said = check(folder);
    assert_eq!(said.code, 2);
    assert!(said.text.contains("is not a node's folder"), "{}", said.text);
}

impl Said {
    fn ends_unsynced(self) {
        self.is_sound_but_for_the_end();
    }
}

/// The finished snapshots of the first partition, the oldest first.
fn whole_snapshots(folder: &Path) -> Vec<PathBuf> {
    let mut snapshots = named(folder, "snapshot-00000000-");
    snapshots.retain(|path| path.extension().is_none());
    snapshots
}

#[test]
fn snapshots_are_read_and_decoded() {
    // A comparison of states is an entry, too: it comes as soon as the cluster's version has it, between the keys on a busy machine.
    let settings = [
        &["--state", "memory", "--log-bytes-per-snapshot", "64KiB", "--log-entries-kept", "5"][..],
        &["--compare-every", "0"],
    ];
    let settings = settings.concat();
    // A node that is stopped may have heard of its second snapshot too late to have cut its log behind that one.
    let (made, sound) = wait_for("a log that was cut behind the second snapshot", || {
        let made = node_folder(&settings, |resp, folder| {
            wait_for("two snapshots", || {
                write_all(resp, 100, 1000);
                (whole_snapshots(folder).len() >= 2).then_some(())
            });
            write_all(resp, 20, 10);
        });
        let sound = check(made.path());
        // Where a log begins in the report depends on the state at hand: it is looked at without the newest one.
        let newest = whole_snapshots(made.path()).pop().expect("there are two");
        let mut is_cut = false;
        without(&newest, |said| is_cut = !said.json["partitions"][0]["hole"].is_null(), made.path());
        is_cut.then_some((made, sound))
    });
    let folder = made.path();
    sound.is_sound();
    // The leader's first entry, and one for each key. When they are taken is not known: another partition's may be the reason.
    let states =
        sound.text.lines().filter_map(|line| line.trim_start_matches("snapshot").trim().strip_prefix("0/0 at "));
    let states: Vec<(u64, &str)> = states
        .map(|state| state.split_once(':').and_then(|(at, what)| Some((at.parse().ok()?, what))).expect("a position"))
        .collect();
    assert!(states.len() >= 2, "{}", sound.text);
    for (position, what) in states {
        assert!(what.ends_with(&format!(" {} keys, ok", (position - 1).min(100))), "{}", sound.text);
    }

    let snapshots = whole_snapshots(folder);
    let newest = snapshots.last().expect("there are two");
    let length = fs::metadata(newest).expect("it is there").len() as usize;
    for place in [3, 20, 60, length / 2, length - 3] {
        with(
            newest,
            |bytes| bytes[place] ^= 4,
            |said| {
                said.is_damaged("the snapshot of partition 0/0 at");
                said.is_damaged("partition 0/0 lacks the decided entries");
            },
            folder,
        );
    }
    with(
        newest,
        |bytes| bytes.truncate(length / 3),
        |said| said.is_damaged("the snapshot of partition 0/0 at"),
        folder,
    );
    without(newest, |said| said.is_damaged("partition 0/0 lacks the decided entries"), folder);
    // An older one that is damaged is damage, too: the newest may be next.
    with(
        &snapshots[0],
        |bytes| bytes[length / 2] ^= 1,
        |said| {
            said.is_damaged("the snapshot of partition 0/0 at");
            assert!(said.text.contains("no holes"), "{}", said.text);
        },
        folder,
    );
}

#[test]
fn a_store_is_verified_and_read_without_being_opened_in_place() {
    let settings = ["--state", "store", "--log-bytes-per-snapshot", "2MiB", "--log-entries-kept", "5"];
    let made = node_folder(&settings, |resp, folder| {
        let store = folder.join("store/lsm/keyspaces");
        wait_for("tables and separated values", || {
            write_all(resp, 600, 1000);
            write_all(resp, 20, 1_000_000);
            // A file counts once a second manifest names it.
            let named = |path: &PathBuf| {
                let blobs = path.parent().filter(|parent| parent.ends_with("blobs"));
                let keyspace = blobs.and_then(Path::parent);
                keyspace.is_some_and(|it| fs::read(it.join("current")).is_ok_and(|current| current[..8] != [0; 8]))
            };
            (store.exists() && files(&store).iter().any(named)).then_some(())
        });
        // One that is cut short leaves an unsynced end behind: well, but not what is looked for here.
        wait_until_nothing_is_flushed(resp);
    });
    let folder = made.path();
    let sound = check(folder);
    sound.is_sound();
    assert!(sound.text.contains("600 records decoded, 200 with a deadline"), "{}", sound.text);
    assert_eq!(sound.json["store"]["states"][0]["records"], 600);

    let lsm = folder.join("store/lsm");
    // The first one of its kind: a later one may be of a flush that the end of the node has broken off.
    let keyspace = fs::read_dir(lsm.join("keyspaces")).expect("a folder").map(|entry| entry.expect("an entry").path());
    let keyspace =
        keyspace.filter(|path| fs::read_dir(path.join("blobs")).is_ok_and(|mut blobs| blobs.next().is_some()));
    let keyspace = keyspace.min().expect("one with separated values");
    let inside = |kind: &str| -> PathBuf {
        let number = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()?.parse::<u64>().ok());
        files(&keyspace.join(kind)).into_iter().min_by_key(number).expect("there is one")
    };
    let (table, values) = (inside("tables"), inside("blobs"));
    for path in [&table, &values] {
        let length = fs::metadata(path).expect("it is there").len() as usize;
        for place in [0, length / 2, length - 1] {
            with(
                path,
                |bytes| bytes[place] ^= 1,
                |said| {
                    said.is_damaged("its checksum is wrong");
                    assert!(said.text.contains("records not read"), "{}", said.text);
                },
                folder,
            );
        }
        without(path, |said| said.is_damaged("is missing"), folder);
    }
    let current = keyspace.join("current");
    with(&current, |bytes| bytes[9] ^= 1, |said| said.is_damaged("is not what was written"), folder);
    let version = fs::read(&current).expect("readable")[..8].try_into().expect("eight bytes");
    let manifest = keyspace.join(format!("v{}", u64::from_le_bytes(version)));
    with(&manifest, |bytes| bytes[30] ^= 1, |said| said.is_damaged("is not what was written"), folder);
    without(&manifest, |said| said.is_damaged("cannot be read"), folder);
    // Nothing that is left is wrong by itself: only the marks tell that something is missing.
    without(&keyspace, |said| said.is_damaged("the ordered store is damaged"), folder);
    without(&lsm.join("keyspaces/0/current"), |said| said.is_damaged("is missing"), folder);
    without(&lsm.join("version"), |said| said.is_damaged("is missing"), folder);
    without(&lsm.join("lock"), |said| said.is_damaged("is missing"), folder);

    // The journal: its end may be what was not synced, as long as the log has what is missing.
    let journal = files(&lsm).into_iter().rfind(|path| path.extension().is_some_and(|end| end == "jnl")).expect("one");
    let bytes = fs::read(&journal).expect("readable");
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let append = |bytes: &mut Vec<u8>| {
        bytes.truncate(end);
        bytes.extend_from_slice(&[1, 2, 3, 4]);
    };
    with(&journal, append, Said::ends_unsynced, folder);
    // The first of many batches: the tables are newer than what is left of the journal.
    // (Of the oldest journal: a newer one may have just its first, whose loss is an unsynced end.)
    // (Where all tables have what was written, as after a slow end, no journal holds a batch.)
    let holds_some = |path: &PathBuf| {
        let bytes = fs::read(path).expect("readable");
        bytes.iter().rposition(|byte| *byte != 0).is_some_and(|last| last > 40)
    };
    let mut journals = files(&lsm).into_iter().filter(|path| path.extension().is_some_and(|end| end == "jnl"));
    if let Some(oldest) = journals.find(holds_some) {
        with(&oldest, |bytes| bytes[40] ^= 1, |said| assert_eq!(said.code, 1, "{}", said.text), folder);
    }

    let opening = folder.join("store/opening");
    fs::write(&opening, [2]).expect("writable");
    check(folder).is_sound();
    fs::write(&opening, [3]).expect("writable");
    check(folder).is_damaged("opening the store has ended 3 times");
    fs::remove_file(&opening).expect("removable");

    fs::remove_dir_all(folder.join("store")).expect("removable");
    check(folder).is_damaged("partition 0/0 lacks the decided entries");
}

#[test]
fn what_cannot_be_checked_is_said_so() {
    let folder = tempdir().expect("a temporary folder");
    let (process, _) = start(folder.path(), &[]);
    let run = |arguments: &[&str]| {
        let said = output(dictum(&[&["check"], arguments].concat()));
        assert_eq!(said.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(said.stderr).expect("text")
    };
    let path = folder.path().to_str().expect("text");
    let said = run(&[path]);
    assert!(said.contains("is in use by process") && said.contains(&process.id().to_string()), "{said}");
    assert!(process.stop());
    let said = run(&[path, "--scratch", path]);
    assert!(said.contains("outside of the folder"), "{said}");
    assert!(run(&["/nowhere/at/all"]).contains("cannot be read"));
    let empty = tempdir().expect("a temporary folder");
    assert!(run(&[empty.path().to_str().expect("text")]).contains("is not a node's folder"));
    check(folder.path()).is_sound();
}

/// The journal still has a part of what was in the bucket, and nobody will ever ask for the rest.
#[test]
fn what_a_dropped_bucket_leaves_is_no_damage() {
    let fill = |resp: &str, _: &Path| {
        write_all(resp, 1, 10);
        let mut client = Client::connect(resp).expect("it listens");
        let value = "v".repeat(4000);
        let mut ok = |words: &[&str]| {
            let reply = client.call(words).expect("a reply");
            assert_eq!(reply.as_error(), None, "{:?}", &words[..2]);
        };
        ok(&["DICTUM.BUCKET", "CREATE", "passing"]);
        for round in 0..40 {
            ok(&["SELECT", "passing"]);
            for number in 0..5 {
                ok(&["SET", &format!("{round}-{number}"), &value]);
            }
            ok(&["SELECT", "0"]);
            ok(&["SET", &format!("{round}"), &value]);
        }
        // A flush that ends behind the drop might do without all of the journal. What comes now is kept for bucket 0, and too little for another flush.
        wait_until_nothing_is_flushed(resp);
        ok(&["SET", "first", "kept"]);
        ok(&["SELECT", "passing"]);
        for number in 0..5 {
            ok(&["SET", &format!("last-{number}"), "kept beside it"]);
        }
        ok(&["DICTUM.BUCKET", "DROP", "passing", "CONFIRM"]);
        ok(&["SELECT", "0"]);
        ok(&["SET", "last", "kept"]);
    };
    let folder = node_folder(&["--log-bytes-per-snapshot", "64KiB", "--log-entries-kept", "15"], fill);
    let said = check(folder.path());
    said.is_sound();
    assert!(
        said.text.contains("the journal still has something of 1 partitions whose buckets were dropped"),
        "{}",
        said.text
    );
}
