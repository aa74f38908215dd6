//! `dictum`: the command line. Each command lives in a module of the library.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this room is for sockets, files, threads and clocks"
)]

use std::io::ErrorKind;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use lab::command::LabArguments;
use server::options::StartArguments;
use server::sim_command::SimArguments;
use server::{
    audit, backup, bucket, check, cli, clock_command, dev, import, init, nodes, private, reset_password, secrets,
    sim_command, start, status, sub, unsafe_recover, user, watch,
};

/// Memory is freed by another thread than the one that took it all the time here; mimalloc copes best.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A distributed key-value database: the interface of Redis, and `OK` means decided by a majority and on its disks.
#[derive(Parser)]
#[command(name = "dictum", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "Example:\n  dictum dev                           three nodes on this machine\n  \
    redis-cli -p 7002 set greeting hello any node takes any command")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a whole cluster on this machine, to try things out.
    Dev(dev::DevArguments),
    /// Makes the secret by which the nodes of a new cluster know each other.
    Init(init::InitArguments),
    /// Starts one node of a cluster.
    Start(Box<StartArguments>),
    /// Shows the nodes of a cluster, who leads, and how far each one is.
    Status(status::StatusArguments),
    /// Verifies the folder of a stopped node and says what is wrong with it; changes nothing.
    Check(check::CheckArguments),
    /// Verifies a node's audit trail: whether somebody has changed it.
    Audit(audit::command::AuditArguments),
    /// Copies the state of a running cluster into a folder, or verifies such a copy.
    Backup(backup::BackupArguments),
    /// Restores a backup into a cluster, whatever its nodes and partitions are.
    Restore(backup::RestoreArguments),
    /// Writes the keys of a backup to standard output, as commands that make them anew.
    Export(backup::ExportArguments),
    /// Takes over the keys of a Redis: from an RDB file, or from a running server.
    Import(import::ImportArguments),
    /// Has one stopped node go on alone when most are gone for good; what only these had is lost.
    UnsafeRecover(unsafe_recover::UnsafeRecoverArguments),
    /// Gives a user another password by way of a stopped node's folder, when nobody can log in as an administrator.
    ResetPassword(reset_password::ResetPasswordArguments),
    /// Creates, lists, changes and drops buckets.
    Bucket(bucket::BucketArguments),
    /// Adds keys to a named subscription.
    Sub(sub::SubArguments),
    /// Takes keys out of a named subscription.
    Unsub(sub::SubArguments),
    /// Shows the changes of keys as they happen.
    Watch(watch::WatchArguments),
    /// Adds, lists and removes users, and says what each may do.
    User(user::UserArguments),
    /// Lists nodes, lets them join, drains and removes them.
    Node(nodes::NodeArguments),
    /// Shows the cluster's time and the nodes' clocks, and sets that time.
    Clock(clock_command::ClockArguments),
    /// An interactive client.
    Cli(cli::CliArguments),
    /// The laboratory: puts loads on this and other systems and measures every answer.
    Lab(LabArguments),
    /// Runs whole clusters in one thread under drawn faults, and checks that they keep their promises.
    Sim(Box<SimArguments>),
}

impl Command {
    /// Whether it writes what users have stored into files, which are then for its own user alone. `start` sees to that by itself.
    fn writes_data(&self) -> bool {
        matches!(
            self,
            Command::Dev(_)
                | Command::Backup(_)
                | Command::Restore(_)
                | Command::Import(_)
                | Command::UnsafeRecover(_)
                | Command::ResetPassword(_)
                | Command::Check(_)
        )
    }
}

/// Prints help, a version, or how the words are wrong. A closed pipe is no error: its reader has read enough.
fn end_early(message: &clap::Error) -> ExitCode {
    match message.print() {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("dictum: standard output: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::from(u8::try_from(message.exit_code()).unwrap_or(1)),
    }
}

fn main() -> ExitCode {
    // The laboratory's helpers are this program too; they take no flags of people.
    if let Some(code) = lab::cluster::child::run_if_asked() {
        return code;
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(message) => return end_early(&message),
    };
    secrets::warn_of_arguments(std::env::args_os());
    if arguments.command.writes_data() {
        private::begin();
    }
    match arguments.command {
        Command::Dev(arguments) => dev::run(arguments),
        Command::Init(arguments) => init::run(arguments),
        Command::Start(arguments) => start::run(*arguments),
        Command::Status(arguments) => status::run(arguments),
        Command::Check(arguments) => check::run(arguments),
        Command::Audit(arguments) => audit::command::run(arguments),
        Command::Backup(arguments) => backup::run(arguments),
        Command::Restore(arguments) => backup::run_restore(arguments),
        Command::Export(arguments) => backup::run_export(arguments),
        Command::Import(arguments) => import::run(arguments),
        Command::UnsafeRecover(arguments) => unsafe_recover::run(arguments),
        Command::ResetPassword(arguments) => reset_password::run(arguments),
        Command::Bucket(arguments) => bucket::run(arguments),
        Command::Sub(arguments) => sub::run_sub(arguments),
        Command::Unsub(arguments) => sub::run_unsub(arguments),
        Command::Watch(arguments) => watch::run(arguments),
        Command::User(arguments) => user::run(arguments),
        Command::Node(arguments) => nodes::run(arguments),
        Command::Clock(arguments) => clock_command::run(arguments),
        Command::Cli(arguments) => cli::run(arguments),
        Command::Lab(arguments) => lab::command::run(arguments),
        Command::Sim(arguments) => sim_command::run(*arguments),
    }
}
