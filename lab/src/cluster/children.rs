//! The processes of one system: each can be killed, told to stop, held, and started again as it was.

use std::fmt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::process::{self, Process};

/// How a member's process is made each time that it is started.
pub(super) type Make = Box<dyn Fn() -> Command + Send>;

/// The processes, by the number of their node.
#[derive(Debug, Default)]
pub(super) struct Children {
    members: Vec<Mutex<Member>>,
}

struct Member {
    name: String,
    make: Make,
    log: PathBuf,
    /// Where in the log the present life begins.
    log_start: u64,
    process: Option<Process>,
    held: bool,
    /// It was killed or asked to stop since it was started.
    to_end: bool,
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("name", &self.name).field("process", &self.process).finish_non_exhaustive()
    }
}

impl Children {
    /// Adds a member that is not started yet.
    pub(super) fn add(&mut self, name: &str, log: PathBuf, make: Make) {
        let member =
            Member { name: name.to_owned(), make, log, log_start: 0, process: None, held: false, to_end: false };
        self.members.push(Mutex::new(member));
    }

    fn lock(&self, node: usize) -> Result<MutexGuard<'_, Member>, String> {
        let member = self.members.get(node).ok_or_else(|| format!("there is no node with the number {node}"))?;
        Ok(member.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Starts a node that does not run.
    pub(super) fn start(&self, node: usize) -> Result<(), String> {
        let mut member = self.lock(node)?;
        if member.process.as_mut().is_some_and(|process| process.ended().is_none()) {
            return Err(format!("{} runs already; end it before it is started again", member.name));
        }
        let mut command = (member.make)();
        member.log_start = process::log_to(&mut command, &member.log)?;
        (member.held, member.to_end) = (false, false);
        member.process = Some(process::spawn(command, &member.name)?);
        Ok(())
    }

    fn with<T>(&self, node: usize, act: impl FnOnce(&mut Process) -> Result<T, String>) -> Result<T, String> {
        let mut member = self.lock(node)?;
        match &mut member.process {
            Some(process) => act(process),
            None => Err(format!("{} does not run", member.name)),
        }
    }

    /// `kill -9`; returns when it is gone.
    pub(super) fn kill(&self, node: usize) -> Result<(), String> {
        self.lock(node)?.to_end = true;
        self.with(node, |process| {
            process.signal(Signal::KILL)?;
            process.kill();
            Ok(())
        })
    }

    /// SIGTERM; does not wait for the end.
    pub(super) fn terminate(&self, node: usize) -> Result<(), String> {
        self.lock(node)?.to_end = true;
        self.with(node, |process| process.signal(Signal::TERM))
    }

    /// Holds all its threads, or lets them go on.
    pub(super) fn hold(&self, node: usize, hold: bool) -> Result<(), String> {
        self.with(node, |process| process.signal(if hold { Signal::STOP } else { Signal::CONT }))?;
        self.lock(node)?.held = hold;
        Ok(())
    }

    /// Waits until it has ended.
    pub(super) fn wait_for_end(&self, node: usize, patience: Duration) -> Result<(), String> {
        let end = Instant::now() + patience;
        while self.runs(node) {
            if Instant::now() >= end {
                return Err(format!("{} has not ended within {} s", self.lock(node)?.name, patience.as_secs_f64()));
            }
            std::thread::sleep(process::PAUSE);
        }
        Ok(())
    }

    /// Whether it runs, held or not.
    pub(super) fn runs(&self, node: usize) -> bool {
        self.process_id(node).is_some()
    }

    /// Whether it runs and is not held.
    pub(super) fn answers(&self, node: usize) -> bool {
        self.runs(node) && self.lock(node).is_ok_and(|member| !member.held)
    }

    /// Its process id while it runs.
    pub(super) fn process_id(&self, node: usize) -> Option<u32> {
        let mut member = self.lock(node).ok()?;
        let process = member.process.as_mut()?;
        process.ended().is_none().then(|| process.id())
    }

    /// An error with the log's last lines if it has ended.
    pub(super) fn check(&self, node: usize) -> Result<(), String> {
        let mut member = self.lock(node)?;
        let ended = member.process.as_mut().and_then(Process::ended);
        match ended {
            Some(status) => Err(format!("{} has ended ({status}); it said last:\n{}", member.name, member.tail())),
            None => Ok(()),
        }
    }

    /// An error with the logs' last lines if a member has ended that nobody has told to.
    pub(super) fn check_all(&self) -> Result<(), String> {
        (0..self.members.len())
            .filter(|node| self.lock(*node).is_ok_and(|member| !member.to_end))
            .try_for_each(|node| self.check(node))
    }

    /// The last lines of every member's log, for an error.
    pub(super) fn tails(&self) -> String {
        let tail = |node| self.lock(node).map(|member| format!("{} said last:\n{}", member.name, member.tail()));
        (0..self.members.len()).filter_map(|node| tail(node).ok()).collect::<Vec<_>>().join("\n")
    }

    /// Kills all of them. Their data goes with them or is safe on disk, and a stop in good order may wait for peers that stop as well.
    pub(super) fn stop(&self) {
        for node in 0..self.members.len() {
            // First all of them, so that none has time to say what it thinks of the others' end.
            let _ = self.with(node, |process| process.signal(Signal::KILL));
        }
        for node in 0..self.members.len() {
            if let Ok(mut member) = self.lock(node) {
                member.process = None;
            }
        }
    }
}

impl Member {
    fn tail(&self) -> String {
        process::tail(&self.log, self.log_start)
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says what it is and then sleeps, or ends at once.
    fn children(folder: &std::path::Path, script: &'static str) -> Children {
        let mut children = Children::default();
        let make = move || {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        children.add("n1", folder.join("n1.log"), Box::new(make));
        children
    }

    #[test]
    fn a_member_is_killed_held_and_started_again() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let children = children(folder.path(), "exec sleep 600");
        assert!(!children.runs(0) && children.kill(0).expect_err("not yet").contains("n1 does not run"));
        children.start(0).expect("it starts");
        let first = children.process_id(0).expect("it runs");
        assert!(children.start(0).expect_err("it runs").contains("runs already"));
        children.hold(0, true).expect("it runs");
        assert!(children.runs(0) && !children.answers(0));
        children.hold(0, false).expect("it runs");
        assert!(children.answers(0));
        assert_eq!(children.check_all(), Ok(()));
        children.kill(0).expect("it runs");
        assert_eq!(children.check_all(), Ok(()), "it was told to end");
        assert!(!children.runs(0) && children.kill(0).expect_err("it is gone").contains("has ended"));
        children.start(0).expect("it starts");
        assert_ne!(children.process_id(0), Some(first));
        children.hold(0, true).expect("it runs");
        // Held or not, it ends.
        children.stop();
        assert!(!children.runs(0) && children.start(7).is_err());
    }

    #[test]
    fn an_end_of_its_own_is_told_with_the_log() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let children = children(folder.path(), "echo the port is taken; exit 3");
        children.start(0).expect("it starts");
        children.wait_for_end(0, Duration::from_secs(30)).expect("it ends");
        let told = children.check_all().expect_err("nobody has told it to end");
        assert!(told.contains("n1 has ended (exit status: 3)") && told.contains("  the port is taken"), "{told}");
    }
}
