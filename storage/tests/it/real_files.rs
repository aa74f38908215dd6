//! The same on the real file system, in temporary folders.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "these tests are about real files")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use base::{PartitionId, Position};
use storage::{
    Disk, DiskFile, Files, FolderError, Identity, Journal, JournalOptions, LoadedIdentity, SnapshotId, SnapshotReader,
    SnapshotWriter, Tail, list_snapshots,
};

/// A folder that is gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("dictum-storage-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("the temporary folder can be written");
        Folder(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_new_folder_is_for_its_owner_and_no_link_in_it_is_followed() {
    let folder = Folder::new();
    let path = folder.path().join("above").join("node");
    let files = Files::open(&path).unwrap();
    files.create("journal-1", 10).unwrap();
    assert_eq!((mode(&path), mode(&path.join("LOCK"))), (0o700, 0o600));
    assert_eq!(mode(&path.join("journal-1")) & 0o027, 0, "a group may read it where the folder lets it in");
    let victim = folder.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    std::os::unix::fs::symlink(&victim, path.join("journal-2")).unwrap();
    for made in [files.create("journal-2", 10), files.open("journal-2"), files.open_for_blocks("journal-2")] {
        assert!(made.unwrap_err().to_string().contains("journal-2 is a symbolic link"));
    }
    drop(files);
    fs::remove_file(path.join("LOCK")).unwrap();
    std::os::unix::fs::symlink(&victim, path.join("LOCK")).unwrap();
    let refused = Files::open(&path).unwrap_err();
    assert!(
        matches!(refused, FolderError::Io { .. }) && refused.to_string().contains("LOCK is a symbolic link"),
        "{refused}"
    );
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

const OPTIONS: JournalOptions =
    JournalOptions { first_segment_bytes: 64 * 1024, segment_bytes: 256 * 1024, free_segments_max: 2 };

#[test]
fn a_journal_lives_through_reopening_and_discarding() {
    for direct in [false, true] {
        let folder = Folder::new();
        let mut next = 1;
        for round in 0..4u8 {
            let files = Files::open(folder.path().join("node")).unwrap().with_direct_writes(direct);
            let (mut journal, recovered) = Journal::open(files, OPTIONS).unwrap();
            assert_eq!((recovered.next_number, recovered.tail, recovered.damage.len()), (next, Tail::Clean, 0));
            assert_eq!(recovered.fresh, round == 0);
            assert!(recovered.payloads.iter().all(|(number, bytes)| bytes[..] == number.to_le_bytes()));
            assert_eq!(recovered.payloads.len() as u64, next - recovered.floor);
            for _ in 0..200 {
                let numbers = journal.commit(&[next.to_le_bytes(), (next + 1).to_le_bytes()]).unwrap();
                assert_eq!(numbers, next..next + 2);
                next += 2;
                if let Some(preparation) = journal.preparation() {
                    let made = std::thread::spawn(move || preparation.run()).join().unwrap();
                    journal.install(made).unwrap();
                }
                journal.prepare_next().unwrap();
                assert!(journal.next_is_ready());
            }
            journal.discard_before(next - 50).unwrap();
        }
        let files = fs::read_dir(folder.path().join("node")).unwrap().count();
        assert!(files <= 7, "{files} files");
    }
}

#[test]
fn a_blank_file_is_zero_and_really_takes_space() {
    use std::os::unix::fs::MetadataExt;
    let folder = Folder::new();
    let files = Files::open(folder.path()).unwrap();
    let length = 3 * 1024 * 1024 + 5;
    let file = files.create("journal-x", length).unwrap();
    file.sync().unwrap();
    assert_eq!(file.length().unwrap(), length);
    let mut bytes = vec![1; length as usize];
    file.read_at(0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 0));
    assert_eq!(file.read_at(1, &mut bytes).unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    assert!(fs::metadata(folder.path().join("journal-x")).unwrap().blocks() * 512 >= length);
}

#[test]
fn snapshots_and_identity_live_in_files() {
    let folder = Folder::new();
    let files = Files::open(folder.path()).unwrap();
    assert_eq!(Identity::load(&files).unwrap(), LoadedIdentity::Missing);
    let identity = Identity { cluster: 1, incarnation: 2, name: "n1".into(), opaque: Vec::new() };
    identity.store(&files).unwrap();
    assert_eq!(Identity::load(&files).unwrap(), LoadedIdentity::Found(identity));
    let id = SnapshotId { partition: PartitionId::default(), position: Position(7) };
    let mut writer = SnapshotWriter::create(&files, id, b"header").unwrap();
    let block = vec![5; 1024 * 1024];
    for _ in 0..20 {
        writer.append(&block).unwrap();
    }
    assert_eq!(list_snapshots(&files).unwrap(), []);
    writer.finish().unwrap();
    assert_eq!(list_snapshots(&files).unwrap(), [id]);
    let mut reader = SnapshotReader::open(&files, id).unwrap();
    let mut blocks = 0;
    while let Some(found) = reader.next_block().unwrap() {
        assert_eq!(found, block);
        blocks += 1;
    }
    assert_eq!(blocks, 20);
}

#[test]
fn a_folder_in_use_is_refused_and_says_by_whom() {
    let folder = Folder::new();
    let files = Files::open(folder.path()).unwrap();
    let clone = files.clone();
    drop(files);
    let error = Files::open(folder.path()).unwrap_err();
    assert!(matches!(error, FolderError::InUse { process: Some(process), .. } if process == std::process::id()));
    assert!(error.to_string().contains(&format!("in use by process {}", std::process::id())), "{error}");
    drop(clone);
    Files::open(folder.path()).unwrap();
}

#[test]
fn a_folder_that_is_not_ours_is_refused_and_left_alone() {
    let folder = Folder::new();
    fs::write(folder.path().join("thesis.txt"), "all of it").unwrap();
    let error = Files::open(folder.path()).unwrap_err();
    assert!(matches!(&error, FolderError::Foreign { found, .. } if found == "thesis.txt"), "{error}");
    assert!(error.to_string().contains("not a Dictum node's folder"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    // With an identity it is ours, whatever else lies there.
    fs::write(folder.path().join("identity"), "").unwrap();
    Files::open(folder.path()).unwrap();
    // A first start that was cut short.
    let folder = Folder::new();
    let files = Files::open(folder.path()).unwrap();
    drop(Journal::open(files, OPTIONS).unwrap());
    Files::open(folder.path()).unwrap();
    // And a file is no folder.
    fs::write(folder.path().join("file"), "").unwrap();
    assert!(matches!(Files::open(folder.path().join("file")), Err(FolderError::Io { .. })));
}
