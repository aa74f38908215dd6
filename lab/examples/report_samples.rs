//! Writes reports of made-up records into a folder, to be looked at: `cargo run -p lab --example report_samples -- FOLDER`.

// It writes files, and no clock or order matters here.
#![allow(clippy::disallowed_methods)]

#[path = "../tests/it/report/samples.rs"]
#[allow(missing_docs)]
mod samples;

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("which folder? give its name as the only argument");
        return ExitCode::FAILURE;
    };
    for (name, records) in samples::all() {
        let written = std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(folder.join(format!("{name}.html")), lab::report::render(&records)));
        if let Err(error) = written {
            eprintln!("cannot write {name}.html into {}: {error}", folder.display());
            return ExitCode::FAILURE;
        }
    }
    println!("the reports are in {}", folder.display());
    ExitCode::SUCCESS
}
