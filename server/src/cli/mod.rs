//! `dictum cli`.

pub mod connection;

use std::process::ExitCode;

/// Arguments of `dictum cli`.
#[derive(clap::Args, Debug)]
pub struct CliArguments {}

/// Runs the interactive client.
#[must_use]
pub fn run(_arguments: CliArguments) -> ExitCode {
    ExitCode::SUCCESS
}
