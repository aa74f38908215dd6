//! A node that another process has started (`dictum dev`, `dictum start --workers`) must not outlive it, however that ends. Both sides of the agreement.
//!
//! The parent gives the child its own process id by an environment variable, and a pipe as standard input whose other
//! end it never writes to. The child, before anything else:
//! 1. asks the kernel to be killed when its parent dies (Linux);
//! 2. then looks whether its parent still is the one named: it may have died before 1;
//! 3. waits on a thread for the end of the pipe, which comes when the last holder of its other end is gone: this
//!    covers the time before 1 as well as systems without 1.

use std::io::Read;
use std::process::Command;
use std::thread;

/// Holds the process id of the process that has started this one and takes part in the agreement.
const PARENT_VARIABLE: &str = "DICTUM_DEV_PARENT";

/// Prepares a child for the agreement. Its standard input must be a pipe that the caller keeps open.
pub(crate) fn announce_to(child: &mut Command) {
    child.env(PARENT_VARIABLE, std::process::id().to_string());
}

/// The child's side. Does nothing in a process that has no such parent.
///
/// # Errors
/// When the parent is gone already, or the agreement cannot be kept: the process must end.
pub(crate) fn bind_to_parent() -> Result<(), String> {
    let Ok(parent) = std::env::var(PARENT_VARIABLE) else { return Ok(()) };
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, getppid, set_parent_process_death_signal};
        set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(|error| format!("the end of the process that started this node cannot be watched: {error}"))?;
        let found = getppid().map(|pid| pid.as_raw_nonzero().to_string());
        if found.as_deref() != Some(parent.as_str()) {
            return Err("the process that started this node is gone".to_owned());
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = parent;
    let watch = || {
        let mut byte = [0];
        loop {
            match std::io::stdin().read(&mut byte) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        // As hard as the kernel does it; nothing acknowledged can be lost by that.
        std::process::exit(1);
    };
    thread::Builder::new()
        .name("parent".to_owned())
        .spawn(watch)
        .map(|_| ())
        .map_err(|error| format!("a thread cannot be started: {error}"))
}
