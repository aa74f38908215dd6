//! The laboratory's commands without the rest of `dictum`, which takes longer to build:
//! `cargo run --release -p lab --example lab -- run --list`.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::process::ExitCode;

use clap::Parser;
use lab::command::{LabArguments, run};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    lab: LabArguments,
}

fn main() -> ExitCode {
    run(Line::parse().lab)
}
