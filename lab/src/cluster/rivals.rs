//! Redis, etcd, Cassandra and NATS on this machine, each as its own documentation recommends for data that must not be lost.
//!
//! | side | documentation |
//! |---|---|
//! | Redis, alone | redis.io, "Redis persistence": append-only file, `appendfsync always` |
//! | Redis with replicas | redis.io, "Redis replication" and "WAIT": after each write the connection waits for one replica |
//! | etcd | etcd.io, "Clustering Guide", static; "Tuning": defaults fit local networks; quota raised as "Maintenance" says |
//! | Cassandra | cassandra.apache.org, "cassandra.yaml": `commitlog_sync: batch`; "Production recommendations"; drivers: prepared statements |
//! | NATS | docs.nats.io, "JetStream clustering", "Key/Value Store"; `sync_interval: always` against the loss of acknowledged writes |

mod cassandra;
mod etcd;
mod nats;
mod redis;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::process::PAUSE;

pub use cassandra::Cassandra;
pub use etcd::Etcd;
pub use nats::Nats;
pub use redis::Redis;

/// How long a rival may take until it serves.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// How long a question to it may take.
const ASK_PATIENCE: Duration = Duration::from_millis(500);
/// How long a node may take to stop in good order before it is started again.
const STOP_PATIENCE: Duration = Duration::from_secs(30);

/// What is needed to start a rival.
#[derive(Clone, Debug)]
pub struct Place {
    /// The laboratory's own program, which binds rivals to its life (see [`super::child`]).
    pub guard: PathBuf,
    /// A fresh folder for the data is made below this one.
    pub parent: PathBuf,
    /// Where programs are looked for first; then in the folders of `PATH`.
    pub programs: Vec<PathBuf>,
}

impl Place {
    /// Where the program of this name is.
    ///
    /// # Errors
    /// When it is in none of the folders; `advice` says how it is installed.
    fn find(&self, name: &str, advice: &str) -> Result<PathBuf, String> {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let folders = self.programs.iter().cloned().chain(std::env::split_paths(&paths));
        let found = folders.map(|folder| folder.join(name)).find(|path| is_program(path));
        found.ok_or_else(|| format!("{name} is not on this machine: {advice}"))
    }
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Tries until it succeeds; the last reason why not, when the time is up.
fn wait(patience: Duration, mut attempt: impl FnMut() -> Result<(), String>) -> Result<(), String> {
    let end = Instant::now() + patience;
    loop {
        match attempt() {
            Ok(()) => return Ok(()),
            Err(reason) if Instant::now() >= end => return Err(reason),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// The methods of [`super::System`] that are the same for all rivals, whose processes are in `self.children`.
macro_rules! process_faults {
    () => {
        fn kill(&self, node: usize) -> Result<(), String> {
            self.children.kill(node)
        }

        fn terminate(&self, node: usize) -> Result<(), String> {
            self.children.terminate(node)
        }

        fn start_again(&self, node: usize) -> Result<(), String> {
            self.children.wait_for_end(node, super::STOP_PATIENCE)?;
            self.children.start(node)
        }

        fn pause(&self, node: usize) -> Result<(), String> {
            self.children.hold(node, true)
        }

        fn resume(&self, node: usize) -> Result<(), String> {
            self.children.hold(node, false)
        }

        fn noise(&self, shares: &[f64]) -> Result<(), String> {
            self.noise.set(&self.guard, shares)
        }

        fn check(&self) -> Result<(), String> {
            self.children.check_all()
        }

        fn process_ids(&self) -> Vec<Option<u32>> {
            (0..self.names().len()).map(|node| self.children.process_id(node)).collect()
        }
    };
}
use process_faults;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_with_the_way_to_get_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("no-program"), "text").expect("a file");
        let place =
            Place { guard: "dictum".into(), parent: folder.path().into(), programs: vec![folder.path().into()] };
        assert!(place.find("sh", "").expect("everywhere").ends_with("sh"));
        let told = place.find("no-program", "install it").expect_err("it cannot be run");
        assert_eq!(told, "no-program is not on this machine: install it");
    }
}
