//! The folder of `dictum dev`: made by us, marked as ours, locked while in use.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use storage::Files;

use crate::init::TLS_FOLDER;

/// The file that says whose the folder is; locked by the `dictum dev` that uses it.
const MARKER: &str = "dictum-dev.toml";
/// Longest marker that is read, in bytes.
const MARKER_BYTES_MAX: u64 = 4096;

/// What the marker says.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
struct Marker {
    /// How many nodes the data is of.
    nodes: u16,
    /// The process that used the folder last.
    process: u32,
}

/// A folder that is ours, as long as this lives.
#[derive(Debug)]
pub(super) struct DevFolder {
    path: PathBuf,
    /// Held for its lock.
    _marker: File,
}

impl DevFolder {
    /// Makes the folder or takes over what an earlier run has left. With `fresh` all of that is deleted.
    ///
    /// # Errors
    /// When it is not ours, in use, or of another number of nodes. Nothing was changed then.
    pub(super) fn open(path: &Path, nodes: u16, fresh: bool) -> Result<DevFolder, String> {
        let failed = |error: io::Error| format!("{} cannot be used: {error}; choose another --dir", path.display());
        match fs::read_dir(path) {
            Ok(mut entries) => {
                if !path.join(MARKER).exists()
                    && let Some(entry) = entries.next()
                {
                    let found = entry.map_err(failed)?.file_name();
                    return Err(format!(
                        "{} was not made by dictum dev (it holds {}, and no {MARKER}); nothing in it was touched. \
                         Choose another --dir",
                        path.display(),
                        found.to_string_lossy()
                    ));
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                storage::create_private_folder(path).map_err(failed)?
            }
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                return Err(format!("{} is a file; choose another --dir", path.display()));
            }
            Err(error) => return Err(failed(error)),
        }
        let path = fs::canonicalize(path).map_err(failed)?;
        let opened = storage::private_file().create(true).truncate(false).open(path.join(MARKER));
        let mut file = opened.map_err(|error| failed(storage::explain_link(MARKER, error)))?;
        let locked = file.try_lock();
        let mut text = String::new();
        (&mut file).take(MARKER_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
        let marker: Option<Marker> = toml::from_str(&text).ok();
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let process =
                    marker.map_or("another process".to_owned(), |marker| format!("process {}", marker.process));
                return Err(format!(
                    "{} is in use by another dictum dev ({process}); stop it, or choose another --dir",
                    path.display()
                ));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        check_nodes_are_free(&path)?;
        if fresh {
            clear(&path).map_err(|error| format!("{} cannot be emptied: {error}", path.display()))?;
        } else if let Some(marker) = &marker
            && marker.nodes != nodes
        {
            return Err(format!(
                "{} holds a cluster of {} nodes; say --nodes {}, or --fresh to delete it, or choose another --dir",
                path.display(),
                marker.nodes,
                marker.nodes
            ));
        }
        write_marker(&mut file, &Marker { nodes, process: std::process::id() }).map_err(failed)?;
        Ok(DevFolder { path, _marker: file })
    }

    /// The folder, as an absolute path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// A node of the folder may run alone, by the command that `dev` has printed.
fn check_nodes_are_free(path: &Path) -> Result<(), String> {
    let entries = fs::read_dir(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    for entry in entries.flatten() {
        let is_node = entry.file_name() != TLS_FOLDER;
        if is_node && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            // Taking the node's own lock is the one sure way to know; it is given back at once.
            Files::open(entry.path()).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Deletes everything but the marker, whose lock we hold.
fn clear(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name() == MARKER {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn write_marker(file: &mut File, marker: &Marker) -> io::Result<()> {
    let values = toml::to_string(marker).map_err(io::Error::other)?;
    let text =
        format!("# Made by `dictum dev`; `dictum dev --fresh` deletes all that lies next to this file.\n{values}");
    file.rewind()?;
    file.set_len(0)?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_folder_is_taken_and_only_once() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let path = temporary.path().join("dev");
        let held = DevFolder::open(&path, 3, false).expect("a new folder");
        let refused = DevFolder::open(&path, 3, true).expect_err("it is held");
        assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
        drop(held);
        let refused = DevFolder::open(&path, 5, false).expect_err("of another size");
        assert!(refused.contains("--nodes 3"), "{refused}");
        drop(DevFolder::open(&path, 3, false).expect("free again"));

        let foreign = temporary.path().join("foreign");
        fs::create_dir(&foreign).expect("a folder");
        fs::write(foreign.join("thesis.txt"), "precious").expect("a file");
        for fresh in [false, true] {
            let refused = DevFolder::open(&foreign, 3, fresh).expect_err("not ours");
            assert!(refused.contains("thesis.txt"), "{refused}");
        }
        assert_eq!(fs::read_dir(&foreign).expect("a folder").count(), 1, "it is as it was");
        assert!(DevFolder::open(&foreign.join("thesis.txt"), 3, false).expect_err("a file").contains("is a file"));
    }

    #[test]
    fn fresh_deletes_what_is_ours_unless_a_node_runs_there() {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        drop(DevFolder::open(temporary.path(), 3, false).expect("an empty folder"));
        crate::init::find_or_make_authority(temporary.path()).expect("an authority");
        drop(DevFolder::open(temporary.path(), 3, false).expect("the authority is no node"));
        fs::write(temporary.path().join("n1.log"), "old").expect("a file");
        let node = Files::open(temporary.path().join("n1")).expect("a node's folder");
        let refused = DevFolder::open(temporary.path(), 3, true).expect_err("a node runs");
        assert!(refused.contains("in use"), "{refused}");
        assert!(temporary.path().join("n1.log").exists());
        drop(node);
        drop(DevFolder::open(temporary.path(), 5, true).expect("free"));
        assert!(!temporary.path().join("n1.log").exists() && !temporary.path().join("n1").exists());
    }
}
