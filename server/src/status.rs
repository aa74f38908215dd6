//! `dictum status`.

use std::process::ExitCode;

/// Arguments of `dictum status`.
#[derive(clap::Args, Debug)]
pub struct StatusArguments {}

/// Prints the state of a cluster.
#[must_use]
pub fn run(_arguments: StatusArguments) -> ExitCode {
    ExitCode::SUCCESS
}
