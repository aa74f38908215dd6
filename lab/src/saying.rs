//! Standard output of commands. A reader may close its pipe early, and a disk may be full.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::process::exit;

/// The exit status that shells show for a program which a closed pipe has ended (128 + SIGPIPE).
const EXIT_CLOSED_PIPE: i32 = 141;

/// Says it, or ends the process: without a word if nobody reads any more, with the reason otherwise.
pub fn print(text: Arguments<'_>) {
    let mut out = io::stdout().lock();
    match out.write_fmt(text).and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => exit(EXIT_CLOSED_PIPE),
        Err(error) => {
            eprintln!("dictum: standard output: {error}");
            exit(1);
        }
    }
}

/// As `print!`, but without a panic where the standard output is closed or full.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::saying::print(format_args!($($text)*)) };
}

/// As `println!`, in the same way.
#[macro_export]
macro_rules! say_line {
    () => { $crate::saying::print(format_args!("\n")) };
    ($($text:tt)*) => { $crate::saying::print(format_args!("{}\n", format_args!($($text)*))) };
}
