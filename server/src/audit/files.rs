//! The files of an audit trail: which there are, and how they are opened. No symbolic link is followed.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::record::{LINE_BYTES_MAX, sequence_of};

/// The folder of the trail in that of a node.
pub(crate) const FOLDER: &str = "audit";
const PREFIX: &str = "audit-";
const SUFFIX: &str = ".jsonl";

/// The name of the file whose first record has this sequence number.
pub(crate) fn file_name(first: u64) -> String {
    format!("{PREFIX}{first:020}{SUFFIX}")
}

/// The sequence number of the first record of a file, by its name.
pub(crate) fn first_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    (digits.len() == 20 && digits.bytes().all(|digit| digit.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// Makes the folder, if there is none, for its owner alone.
///
/// # Errors
/// As the system says; or it is no folder.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let about = fs::symlink_metadata(folder)?;
    if !about.is_dir() {
        return Err(io::Error::other(format!("{} is no folder, and no link is followed", folder.display())));
    }
    if about.mode() & 0o077 != 0 {
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// The files of a folder in the order of their records, each with the number of its first one.
///
/// # Errors
/// As the system says.
pub(crate) fn list(folder: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if let Some(first) = entry.file_name().to_str().and_then(first_of) {
            found.push((first, entry.path()));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Makes a new file to append to.
///
/// # Errors
/// As the system says; one that is there is an error.
pub(crate) fn create(folder: &Path, first: u64) -> io::Result<File> {
    let path = folder.join(file_name(first));
    let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)?;
    // Without that a crash may take the file away with all that was synced in it.
    File::open(folder)?.sync_all()?;
    Ok(file)
}

/// Opens a file to append to.
///
/// # Errors
/// As the system says; it is a link, or no plain file.
pub(crate) fn open_to_append(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    plain(OpenOptions::new().read(true).append(true).custom_flags(flags).open(path)?)
}

/// Opens a file to read.
///
/// # Errors
/// As the system says; it is a link, or no plain file.
pub(crate) fn open_to_read(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    plain(OpenOptions::new().read(true).custom_flags(flags).open(path)?)
}

fn plain(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no plain file")) }
}

/// The next piece of a file.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// A line, without its line break.
    Line(Vec<u8>),
    /// The rest of the file, which has no line break.
    Torn(Vec<u8>),
    /// More bytes than a line has.
    TooLong,
    End,
}

/// Reads what comes next.
///
/// # Errors
/// As the system says.
pub(crate) fn next(reader: &mut impl BufRead) -> io::Result<Next> {
    let mut bytes = Vec::new();
    reader.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut bytes)?;
    Ok(match bytes.last() {
        None => Next::End,
        Some(b'\n') => {
            bytes.pop();
            Next::Line(bytes)
        }
        Some(_) if bytes.len() > LINE_BYTES_MAX => {
            // Up to the end of that line, without its bytes.
            while !reader.fill_buf()?.is_empty() {
                let (length, ends) = match reader.fill_buf()?.iter().position(|byte| *byte == b'\n') {
                    Some(place) => (place + 1, true),
                    None => (reader.fill_buf()?.len(), false),
                };
                reader.consume(length);
                if ends {
                    break;
                }
            }
            Next::TooLong
        }
        Some(_) => Next::Torn(bytes),
    })
}

/// Bytes that are read from front to back rather than jumped over.
const NEAR_BYTES: u64 = 64 * 1024;

/// A reader of a file that stands at a line at most some [`NEAR_BYTES`] before the first record behind `after`. Sequence numbers ascend, so that is found by halves.
///
/// # Errors
/// As the system says.
pub(crate) fn reader_behind(mut file: File, after: u64) -> io::Result<BufReader<File>> {
    let (mut low, mut high) = (0, file.metadata()?.len());
    while high - low > NEAR_BYTES {
        let middle = low + (high - low) / 2;
        file.seek(SeekFrom::Start(middle))?;
        let mut reader = BufReader::new(&mut file);
        // The rest of some line.
        let mut start = middle + skip_line(&mut reader)?;
        let found = loop {
            match next(&mut reader)? {
                Next::Line(line) if start < high => match std::str::from_utf8(&line).ok().and_then(sequence_of) {
                    Some(sequence) => break Some(sequence),
                    None => start += line.len() as u64 + 1,
                },
                Next::Line(_) | Next::Torn(_) | Next::TooLong | Next::End => break None,
            }
        };
        match found {
            Some(sequence) if sequence <= after => low = start,
            _ => high = middle,
        }
    }
    file.seek(SeekFrom::Start(low))?;
    Ok(BufReader::new(file))
}

/// Reads up to the end of a line; how many bytes these were.
fn skip_line(reader: &mut impl BufRead) -> io::Result<u64> {
    let mut skipped = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(skipped);
        }
        let (length, ends) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(place) => (place + 1, true),
            None => (buffer.len(), false),
        };
        reader.consume(length);
        skipped += length as u64;
        if ends {
            return Ok(skipped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn names_of_files_are_told_from_others() {
        assert_eq!(first_of(&file_name(17)), Some(17));
        assert_eq!(first_of(&file_name(u64::MAX)), Some(u64::MAX));
        for name in ["audit-17.jsonl", "audit-+0000000000000000017.jsonl", "audit-00000000000000000017.json", ""] {
            assert_eq!(first_of(name), None, "{name}");
        }
    }

    #[test]
    fn folders_and_files_are_for_their_owner_and_links_are_refused() {
        let outer = tempfile::tempdir().expect("a folder");
        let folder = outer.path().join(FOLDER);
        make_folder(&folder).expect("made");
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("changed");
        make_folder(&folder).expect("narrowed");
        assert_eq!(fs::metadata(&folder).expect("there").mode() & 0o777, 0o700);
        drop(create(&folder, 1).expect("created"));
        let path = folder.join(file_name(1));
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o600);
        assert!(create(&folder, 1).is_err(), "no file is overwritten");
        let link = folder.join(file_name(2));
        std::os::unix::fs::symlink(&path, &link).expect("linked");
        assert!(open_to_append(&link).is_err() && open_to_read(&link).is_err());
        let link = outer.path().join("linked");
        std::os::unix::fs::symlink(&folder, &link).expect("linked");
        assert!(make_folder(&link).is_err());
    }

    #[test]
    fn a_record_is_found_wherever_it_stands() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let mut file = File::create(&path).expect("created");
        let line = |sequence: u64| {
            format!("{{\"pad\":\"{}\",\"sequence\":{sequence}}}\n", "x".repeat((sequence % 700) as usize))
        };
        for sequence in 10..4000 {
            file.write_all(line(sequence).as_bytes()).expect("written");
        }
        for after in [0, 9, 10, 11, 500, 1999, 2000, 3998, 3999, 5000] {
            let mut reader = reader_behind(open_to_read(&path).expect("opened"), after).expect("found");
            let mut skipped = 0;
            let found = loop {
                match next(&mut reader).expect("read") {
                    Next::Line(line) => {
                        let sequence = sequence_of(std::str::from_utf8(&line).expect("text")).expect("a number");
                        if sequence > after {
                            break Some(sequence);
                        }
                        skipped += line.len();
                    }
                    _ => break None,
                }
            };
            assert_eq!(found, (after < 3999).then_some(after.max(9) + 1), "{after}");
            assert!(skipped as u64 <= 2 * NEAR_BYTES, "{after}: {skipped}");
        }
    }

    #[test]
    fn a_line_without_end_is_not_held_in_memory() {
        let mut bytes = vec![b'x'; 3 * LINE_BYTES_MAX];
        bytes.extend_from_slice(b"\nnext\ntorn");
        let mut reader = BufReader::new(&bytes[..]);
        let mut read = || next(&mut reader).expect("memory can be read");
        assert_eq!(read(), Next::TooLong);
        assert_eq!(read(), Next::Line(b"next".to_vec()));
        assert_eq!(read(), Next::Torn(b"torn".to_vec()));
        assert_eq!(read(), Next::End);
    }
}
