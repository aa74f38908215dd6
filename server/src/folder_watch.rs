//! The data folder of a running node is looked at: whether it is still the one that the node has opened.
//!
//! A process keeps its files when their names are removed, and a disk that is unmounted by force or covered by another one keeps what is open. A node that goes on like
//! that acknowledges writes that nobody will find after its end. So once a second a thread compares what the names lead to with what they led to at the start, and
//! a node whose folder has gone ends at once, without another answer.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, thread};

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// The file or folder that a name leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Inode {
    device: u64,
    number: u64,
}

impl Inode {
    fn of(path: &Path) -> io::Result<Inode> {
        let found = fs::metadata(path)?;
        Ok(Inode { device: found.dev(), number: found.ino() })
    }
}

/// Names, and what they led to at the start.
#[derive(Debug)]
struct Names(Vec<(PathBuf, Inode)>);

impl Names {
    fn look(paths: Vec<PathBuf>) -> io::Result<Names> {
        let found = paths.into_iter().map(|path| Inode::of(&path).map(|inode| (path, inode)));
        found.collect::<io::Result<_>>().map(Names)
    }

    /// The first name that leads to another file now, or to none.
    fn differ(&self) -> Option<String> {
        self.0.iter().find_map(|(path, before)| match Inode::of(path) {
            Ok(now) if now == *before => None,
            Ok(_) => Some(format!("{} is another one than at the start", path.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(format!("{} is gone", path.display())),
            // A disk that cannot be read is found out by those who need it.
            Err(_) => None,
        })
    }
}

/// Looks from now on, as long as the process lives. `tell` is called once: `names` in the folder are not any more what they are now.
///
/// # Errors
/// One of them is not there, or there can be no thread.
pub(crate) fn watch(folder: &Path, names: &[&str], tell: impl FnOnce(String) + Send + 'static) -> io::Result<()> {
    let paths = std::iter::once(folder.to_owned()).chain(names.iter().map(|name| folder.join(name)));
    let names = Names::look(paths.collect())?;
    let run = move || {
        loop {
            thread::sleep(PAUSE);
            if let Some(what) = names.differ() {
                return tell(what);
            }
        }
    };
    thread::Builder::new().name("folder".to_owned()).spawn(run).map(drop)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "it is about real files")]
mod tests {
    use super::*;

    #[test]
    fn what_was_removed_or_replaced_is_noticed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let data = folder.path().join("data");
        let make = || {
            fs::create_dir(&data).expect("it is not there");
            fs::write(data.join("lock"), "1").expect("it can be written");
        };
        make();
        let names = Names::look(vec![data.clone(), data.join("lock")]).expect("they are there");
        assert_eq!(names.differ(), None);
        fs::write(data.join("lock"), "another text").expect("it can be written");
        assert_eq!(names.differ(), None);
        fs::rename(&data, folder.path().join("away")).expect("it can be renamed");
        assert!(names.differ().expect("it is noticed").ends_with("data is gone"));
        make();
        assert!(names.differ().expect("it is noticed").contains("another one"));
        fs::remove_dir_all(&data).expect("it is there");
        fs::rename(folder.path().join("away"), &data).expect("it can be renamed");
        assert_eq!(names.differ(), None);
        fs::remove_file(data.join("lock")).expect("it is there");
        assert!(names.differ().expect("it is noticed").ends_with("lock is gone"));
    }
}
