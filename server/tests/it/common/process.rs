//! Nodes as processes of a test: what they log is read as they log it, and they end with the test, however that ends.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::PATIENCE;
use super::bell::Bell;

/// A running `dictum start`. Killed when dropped.
pub struct Process {
    /// Its standard input is our half of the agreement: never written to, and closed with this.
    child: Child,
    log: Arc<Log>,
    reader: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Log {
    lines: Mutex<Vec<String>>,
    /// Whether standard error was closed, which only the end of the process does.
    ended: AtomicBool,
}

impl Process {
    /// Runs a command of `dictum start`, bound to this process as a node of `dictum dev` is to that one
    /// (server/src/parent.rs). The kernel counts from the thread that has started it: keep it in its test's thread.
    pub fn spawn(mut command: Command, bell: &Arc<Bell>) -> Process {
        command.env("DICTUM_DEV_PARENT", std::process::id().to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("dictum can be started");
        let errors = BufReader::new(child.stderr.take().expect("a pipe"));
        let log: Arc<Log> = Arc::default();
        let (written, bell) = (Arc::clone(&log), Arc::clone(bell));
        let reader = thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                written.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                bell.ring();
            }
            written.ended.store(true, Ordering::SeqCst);
            bell.ring();
        });
        Process { child, log, reader: Some(reader) }
    }

    /// Runs a command of `dictum start` until it listens; what it said if it ended instead.
    pub fn start(command: Command) -> Result<Process, String> {
        let bell = Arc::default();
        let process = Process::spawn(command, &bell);
        bell.wait_for("the start of a node", || (process.listens() || process.has_ended()).then_some(()));
        if process.has_ended() { Err(process.lines().join("\n")) } else { Ok(process) }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has logged.
    pub fn lines(&self) -> Vec<String> {
        self.log.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn has_said(&self, text: &str) -> bool {
        self.lines().iter().any(|line| line.contains(text))
    }

    /// Whether it has got so far that clients can connect.
    pub fn listens(&self) -> bool {
        self.has_said(" runs: RESP")
    }

    pub fn has_ended(&self) -> bool {
        self.log.ended.load(Ordering::SeqCst)
    }

    pub fn send(&self, what: Signal) {
        signal(self.child.id(), what);
    }

    /// Kills it, and returns all that it has logged once it is gone.
    pub fn kill(mut self) -> Vec<String> {
        self.end();
        self.lines()
    }

    /// Ends it by SIGTERM; whether it said that all went well.
    pub fn stop(mut self) -> bool {
        self.send(Signal::TERM);
        wait_for_end(self.id()) && self.child.wait().is_ok_and(|status| status.success())
    }

    /// The exit code of one that ends, or has ended; none if a signal has ended it.
    pub fn code(mut self) -> Option<i32> {
        assert!(wait_for_end(self.id()), "it has not ended: {:#?}", self.lines());
        self.child.wait().expect("it has ended").code()
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

pub fn signal(pid: u32, signal: Signal) {
    // It may be gone already.
    let _ = kill_process(number(pid), signal);
}

/// Whether a process still runs. One that has ended, with all its threads, and waits to be reaped does not.
pub fn is_alive(pid: u32) -> bool {
    !has_ended_after(pid, Timespec { tv_sec: 0, tv_nsec: 0 })
}

/// Waits until a process has ended, of which it need not be the parent; false if it does not.
pub fn wait_for_end(pid: u32) -> bool {
    has_ended_after(pid, PATIENCE.try_into().expect("a minute is no overflow"))
}

fn has_ended_after(pid: u32, patience: Timespec) -> bool {
    let process = match pidfd_open(number(pid), PidfdFlags::empty()) {
        Err(Errno::SRCH) => return true,
        opened => opened.expect("a process can be watched"),
    };
    loop {
        // Readable when the last thread has ended.
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&patience)) {
            Err(Errno::INTR) => {}
            ready => return ready.expect("a process can be waited for") > 0,
        }
    }
}

fn number(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).expect("a process id")).expect("not 0")
}
