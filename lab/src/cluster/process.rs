//! Child processes of the laboratory. None outlives it, however it ends.
//!
//! - The kernel kills a child when the thread that started it ends (`PR_SET_PDEATHSIG`, prctl(2): the *thread*, not the process). So all
//!   children are started by one thread that lives as long as the process, whichever thread asks for them.
//! - Each is in a process group of its own: Ctrl-C in the terminal is for the laboratory, and ends the children through its end.
//! - A [`Process`] that is dropped is killed and waited for.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::child::MARK;

/// Between two looks at something that is waited for.
pub(crate) const PAUSE: Duration = Duration::from_millis(5);
/// How much of a log is shown at most when something failed.
const TAIL_BYTES: u64 = 4096;
/// How many lines of it.
const TAIL_LINES: usize = 12;

/// A command to be started, and where the child goes.
type Job = (Command, mpsc::Sender<std::io::Result<Child>>);

/// A child that runs, or has ended and was not looked at yet.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// What it is, for messages.
    name: String,
    ended: Option<ExitStatus>,
}

/// Starts a child by the thread that starts all of them.
///
/// # Errors
/// When it cannot be started.
pub fn spawn(mut command: Command, name: &str) -> Result<Process, String> {
    static STARTER: OnceLock<Mutex<mpsc::Sender<Job>>> = OnceLock::new();
    let failed = |reason: &dyn std::fmt::Display| format!("{name} cannot be started: {reason}");
    let program = command.get_program().to_string_lossy().into_owned();
    command.process_group(0);
    let starter = STARTER.get_or_init(|| {
        let (jobs, waiting) = mpsc::channel::<Job>();
        let start = move || {
            for (mut command, answer) in waiting {
                // Whoever asked waits for it.
                let _ = answer.send(command.spawn());
            }
        };
        // Without the thread the channel is closed, which those who ask are told below.
        let _ = thread::Builder::new().name("starter".to_owned()).spawn(start);
        Mutex::new(jobs)
    });
    let (answer, child) = mpsc::channel();
    let gone = || failed(&"no thread could be started; raise the process limit (ulimit -u)");
    starter.lock().unwrap_or_else(PoisonError::into_inner).send((command, answer)).map_err(|_| gone())?;
    let child = child.recv().map_err(|_| gone())?.map_err(|error| failed(&format!("{program}: {error}")))?;
    Ok(Process { child, name: name.to_owned(), ended: None })
}

/// A command that becomes `program` after it was bound to the laboratory's life, for programs that know nothing of it. `guard` is the
/// laboratory's own program.
pub(crate) fn guarded(guard: &Path, program: &Path) -> Command {
    let mut command = Command::new(guard);
    command.args([MARK, "guard", &std::process::id().to_string(), "--"]).arg(program);
    command
}

/// Lets a command append what it says to a file. Answers where in the file that begins.
pub(crate) fn log_to(command: &mut Command, path: &Path) -> Result<u64, String> {
    let failed = |error| format!("the log file {} cannot be written: {error}", path.display());
    let log = OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
    let start = log.metadata().map_err(failed)?.len();
    command.stdout(log.try_clone().map_err(failed)?).stderr(log);
    Ok(start)
}

/// The last lines of a log, from `start` on; a sentence if it is empty or cannot be read.
pub(crate) fn tail(path: &Path, start: u64) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(path)?;
        let from = file.metadata()?.len().saturating_sub(TAIL_BYTES).max(start);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    match read() {
        Ok(text) if text.trim().is_empty() => "  (it said nothing)".to_owned(),
        Ok(text) => {
            let lines: Vec<&str> = text.lines().collect();
            let last = &lines[lines.len().saturating_sub(TAIL_LINES)..];
            last.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
        }
        Err(error) => format!("  ({} cannot be read: {error})", path.display()),
    }
}

impl Process {
    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// Sends it a signal, unless it has ended.
    ///
    /// # Errors
    /// When it has ended, or the kernel refuses.
    pub fn signal(&mut self, signal: Signal) -> Result<(), String> {
        if let Some(status) = self.ended() {
            return Err(format!("{} has ended ({status})", self.name));
        }
        // Not waited for yet, so the number cannot be another process's.
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| format!("{} has no process id", self.name))?;
        kill_process(pid, signal).map_err(|error| format!("{} cannot be sent a signal: {error}", self.name))
    }

    /// Kills it and waits until it is gone, with all its threads and sockets.
    pub fn kill(&mut self) {
        if self.ended().is_none() {
            let _ = self.child.kill();
            self.ended = self.child.wait().ok();
        }
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// When it still runs after `patience`.
    pub fn wait(&mut self, patience: Duration) -> Result<ExitStatus, String> {
        let end = Instant::now() + patience;
        loop {
            if let Some(status) = self.ended() {
                return Ok(status);
            }
            if Instant::now() >= end {
                return Err(format!("{} has not ended within {} s", self.name, patience.as_secs_f64()));
            }
            thread::sleep(PAUSE);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// No standard input: for programs that might read it.
pub(crate) fn without_input(command: &mut Command) {
    command.stdin(Stdio::null());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_process_is_gone_and_its_log_shows_its_end() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let log = folder.path().join("log");
        std::fs::write(&log, "of an earlier run\n").expect("a file");
        let mut command = Command::new("sh");
        command.args(["-c", "for i in $(seq 1 30); do echo line $i; done; exec sleep 600"]);
        let start = log_to(&mut command, &log).expect("it can be written");
        let mut process = spawn(command, "a shell").expect("it starts");
        let end = Instant::now() + Duration::from_secs(30);
        while !tail(&log, start).contains("line 30") {
            assert!(Instant::now() < end, "{}", tail(&log, start));
            thread::sleep(PAUSE);
        }
        assert_eq!(tail(&log, start).lines().count(), TAIL_LINES);
        assert!(!tail(&log, start).contains("earlier"));
        assert!(process.ended().is_none());
        let pid = process.id();
        process.signal(Signal::STOP).expect("it runs");
        drop(process);
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "killed although it was held, and waited for");
    }

    #[test]
    fn the_end_is_told() {
        let mut command = Command::new("sh");
        command.args(["-c", "exit 3"]);
        let mut process = spawn(command, "a shell").expect("it starts");
        assert_eq!(process.wait(Duration::from_secs(30)).expect("it ends").code(), Some(3));
        assert!(process.signal(Signal::KILL).expect_err("it is gone").contains("a shell has ended"));
        let missing = spawn(Command::new("/nowhere/program"), "it").expect_err("there is none");
        assert!(missing.contains("it cannot be started: /nowhere/program"), "{missing}");
    }
}
