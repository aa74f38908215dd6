//! `dictum dev`.
use std::process::ExitCode;
/// x
#[derive(clap::Args, Debug)]
pub struct DevArguments {}
/// x
#[must_use]
pub fn run(_arguments: DevArguments) -> ExitCode { ExitCode::SUCCESS }
