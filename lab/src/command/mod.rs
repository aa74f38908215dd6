//! `dictum lab …`: the commands.

mod compare;
pub mod experiment;
mod matrix;
pub(crate) mod measure;
mod own;
pub(crate) mod progress;
mod quick;
pub mod report;
mod run;
mod self_check;
mod table;
mod verify;
mod witness;

use std::process::ExitCode;

use clap::{Args, Subcommand};

pub use compare::CompareArguments;
pub use experiment::ExperimentArguments;
pub use matrix::MatrixArguments;
pub use own::{EXIT_BROKEN, EXIT_INTERRUPTED, EXIT_UNDECIDED, OwnArguments};
pub use quick::QuickArguments;
pub use report::ReportArguments;
pub use run::RunArguments;
pub use self_check::SelfCheckArguments;
pub use verify::VerifyArguments;

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
    /// A quick look, within a minute, at a cluster of its own: speed, waiting, the loss of its leader, and whether promises held.
    Quick(QuickArguments),
    /// Puts a load on a system and measures every answer.
    Run(Box<RunArguments>),
    /// Disturbs a cluster of its own in every way for minutes, and checks what the clients saw.
    Verify(VerifyArguments),
    /// Measures a workload at every point of a matrix of settings, each on a cluster of its own.
    Matrix(MatrixArguments),
    /// The same work on Dictum and on its rivals, all started by this program, in one run.
    Compare(Box<CompareArguments>),
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
        LabCommand::Quick(arguments) => quick::run(&arguments),
        LabCommand::Verify(arguments) => verify::run(&arguments),
        LabCommand::Matrix(arguments) => matrix::run(&arguments),
        LabCommand::Run(arguments) => run::run(&arguments),
        LabCommand::Compare(arguments) => compare::run(&arguments),
        LabCommand::Experiment(arguments) => experiment::run(&arguments),
        LabCommand::Report(arguments) => report::report(&arguments, crate::store::read).map(|told| {
            crate::say_line!("{told}");
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
