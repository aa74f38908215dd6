//! What the laboratory starts beside the systems under test is its own program once more, told so by the first word of the command line:
//!
//! ```text
//! dictum lab-child guard PARENT -- PROGRAM ARGUMENT…   becomes PROGRAM, which the kernel kills when the laboratory ends
//! dictum lab-child noise PARENT SHARE                  keeps a share of one processor busy, until it is ended
//! ```
//! PARENT is the process id of the laboratory: a child whose parent is another one by now ends at once.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use crate::faults::noise;

/// The first word of the command line of such a process.
pub const MARK: &str = "lab-child";
/// The exit code when it cannot do what it is asked.
const EXIT_USAGE: u8 = 2;

/// Does what the command line asks if its first word is [`MARK`]; to be called first of all in `main`. `None` in any other process.
#[must_use]
pub fn run_if_asked() -> Option<ExitCode> {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if words.first()?.to_str() != Some(MARK) {
        return None;
    }
    eprintln!("dictum {MARK}: {}", run(&words[1..]));
    Some(ExitCode::from(EXIT_USAGE))
}

/// Comes back only with the reason why it could not begin.
fn run(words: &[OsString]) -> String {
    let word = |index: usize| words.get(index).and_then(|word| word.to_str()).unwrap_or_default();
    let Ok(parent) = word(1).parse() else { return "it is started by the laboratory, not by hand".to_owned() };
    if let Err(reason) = bind_to(parent) {
        return reason;
    }
    match word(0) {
        "guard" if word(2) == "--" && words.len() > 3 => {
            let error = Command::new(&words[3]).args(&words[4..]).exec();
            format!("{} cannot be started: {error}", words[3].to_string_lossy())
        }
        "noise" => match noise::parse_share(word(2)) {
            Ok(share) => noise::eat(share),
            Err(reason) => reason,
        },
        other => format!("{other:?} is nothing that a helper of the laboratory can do"),
    }
}

/// Asks the kernel to kill this process when the thread that started it ends, and looks whether that is so already.
fn bind_to(parent: u32) -> Result<(), String> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, getppid, set_parent_process_death_signal};
        set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(|error| format!("the end of the laboratory cannot be watched: {error}"))?;
        if getppid().is_none_or(|found| found.as_raw_nonzero().get().unsigned_abs() != parent) {
            return Err("the laboratory that started this process is gone".to_owned());
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = parent;
    Ok(())
}
