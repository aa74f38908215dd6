//! Threads whose work may wait: they have the processor when nobody who is waited for wants it.
//!
//! A flush, a table or a compaction takes milliseconds of processor time at once, and the loop and the journal want a few microseconds of it, often, and now.
//! On a machine that is busy they would queue behind each other.

use std::io;
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, setpriority_process};

/// How much nicer such a thread is than the others: it has a tenth of their share where there is not enough for all. On a machine that is full for minutes
/// flushes fall behind with that; who finds one late ([`node::FlushJob::is_late`]) does not start it here.
const NICENESS: i32 = 10;

/// Starts a thread whose work may wait.
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        make_way();
        run();
    })
}

/// Makes this thread one whose work may wait.
pub(crate) fn make_way() {
    lower(None);
}

/// Does the same to threads of this process that others have started, by the beginning of their names. Where that cannot be told, they stay as they are.
pub(crate) fn lower_named(beginning: &str) {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return };
    for thread in threads.flatten() {
        let name = std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        let number = thread.file_name().to_str().and_then(|number| number.parse().ok());
        if let (true, Some(thread)) = (name.starts_with(beginning), number.and_then(Pid::from_raw)) {
            lower(Some(thread));
        }
    }
}

/// On Linux a priority belongs to a thread. Best effort: whoever may not be nicer works as before.
fn lower(thread: Option<Pid>) {
    if cfg!(target_os = "linux") {
        let _ = setpriority_process(thread, NICENESS);
    }
}
