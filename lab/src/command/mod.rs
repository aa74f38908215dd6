//! `dictum lab …`: the commands.

pub mod experiment;
pub(crate) mod measure;
pub(crate) mod progress;
pub mod report;
mod run;
mod self_check;
mod table;

use std::process::ExitCode;

use clap::{Args, Subcommand};

pub use experiment::ExperimentArguments;
pub use report::ReportArguments;
pub use run::RunArguments;
pub use self_check::SelfCheckArguments;

/// What a run exits with when the generator, and not the target, may have set its figures.
pub const EXIT_SATURATED: u8 = 3;

/// Arguments of `dictum lab`.
#[derive(Debug, Args)]
pub struct LabArguments {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Puts a load on a system and measures every answer.
    Run(Box<RunArguments>),
    /// Carries out an experiment on clusters of its own, and draws its report.
    Experiment(Box<ExperimentArguments>),
    /// Draws one HTML file of runs that were recorded.
    Report(ReportArguments),
    /// Measures the load generator itself, beside redis-benchmark on the same redis-server.
    SelfCheck(SelfCheckArguments),
}

/// Carries a command out. Errors are told on standard error.
#[must_use]
pub fn run(arguments: LabArguments) -> ExitCode {
    let outcome = match arguments.command {
        LabCommand::Run(arguments) => run::run(&arguments),
        LabCommand::Experiment(arguments) => experiment::run(&arguments),
        LabCommand::Report(arguments) => report::report(&arguments, crate::store::read).map(|told| {
            println!("{told}");
            ExitCode::SUCCESS
        }),
        LabCommand::SelfCheck(arguments) => self_check::run(&arguments),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("dictum lab: {error}");
            ExitCode::FAILURE
        }
    }
}
