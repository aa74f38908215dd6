//! Nodes that run as children of this process: those of `dictum dev`, and the workers of `dictum start --workers`.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::{parent, systemd};

/// Between two looks at children that are stopping.
const PAUSE: Duration = Duration::from_millis(5);
/// How long children may take to stop before they are killed.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(8);

/// A node that runs as a child. It ends when this process does (`parent.rs`).
#[derive(Debug)]
pub(crate) struct NodeProcess {
    name: String,
    child: Child,
    has_ended: bool,
}

impl NodeProcess {
    /// Starts it; the kernel takes the thread that does for its parent, so let that be one that lasts.
    pub(crate) fn start(name: &str, mut command: Command) -> Result<NodeProcess, String> {
        // A Ctrl-C in the terminal is for this process; it tells the children in its own way.
        command.stdin(Stdio::piped()).process_group(0);
        parent::announce_to(&mut command);
        systemd::silence(&mut command);
        let child = command.spawn().map_err(|error| format!("{name} cannot be started: {error}"))?;
        Ok(NodeProcess { name: name.to_owned(), child, has_ended: false })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it is known to have ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// How it has ended, if it has since this was asked last.
    pub(crate) fn has_just_ended(&mut self) -> Option<ExitStatus> {
        let status = if self.has_ended { None } else { self.child.try_wait().ok().flatten() };
        self.has_ended |= status.is_some();
        status
    }

    /// Ends it at once; that it has ended is for [`NodeProcess::has_just_ended`] to find.
    pub(crate) fn kill(&mut self) {
        if !self.has_ended {
            let _ = self.child.kill();
        }
    }

    fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends it a signal, if it runs.
    pub(crate) fn signal(&self, signal: Signal) {
        // Not reaped yet, so the number cannot be another process's.
        if !self.has_ended
            && let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
        {
            let _ = kill_process(pid, signal);
        }
    }
}

/// Stops all of them; kills those that take too long, or all when somebody asks once more, and names them.
pub(crate) fn stop(mut children: Vec<&mut NodeProcess>, signals: &mut Signals, kills: impl Fn(&str)) {
    children.iter().for_each(|child| child.terminate());
    let end = Instant::now() + STOP_TIMEOUT;
    loop {
        children.iter_mut().for_each(|child| {
            child.has_just_ended();
        });
        if children.iter().all(|child| child.has_ended) {
            return;
        }
        if Instant::now() >= end || signals.pending().any(|signal| matches!(signal, SIGINT | SIGTERM)) {
            break;
        }
        thread::sleep(PAUSE);
    }
    for child in children.iter_mut().filter(|child| !child.has_ended) {
        kills(&child.name);
        let _ = child.child.kill();
        child.has_ended = child.child.wait().is_ok();
    }
}
