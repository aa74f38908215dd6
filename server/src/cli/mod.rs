//! `dictum cli`: a small client for machines without redis-cli, in its manner.
//!
//! Three ways in: a command on the command line is carried out and done; lines from a pipe are carried out one by one;
//! a person at a terminal gets a prompt ([`interactive`]). All three go through a [`session::Session`].

pub mod asked;
pub mod connection;
mod help;
mod interactive;
mod output;
mod session;

use std::env::VarError;
use std::ffi::OsString;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::process::ExitCode;

use connection::Endpoint;
use output::Style;
use session::{Session, SessionOptions};

use crate::secrets::Login;

/// The variable that names the nodes to all commands which ask a cluster.
const AT_VARIABLE: &str = "DICTUM_AT";

/// Arguments of `dictum cli`.
#[derive(clap::Args, Debug)]
#[command(disable_help_flag = true)]
#[command(
    after_help = "Examples:\n  dictum cli                        a prompt; `help set` there explains a command\n  \
    dictum cli -p 7002 set a hello    one command\n  \
    echo 'get a' | dictum cli         one command a line\n  \
    dictum cli --at db1:7001,db2:7001,db3:7001 get a\n\n\
    Exit code: 0 if every command was carried out, 1 if one was refused or the server could not be reached."
)]
pub struct CliArguments {
    /// Host of any node [default: 127.0.0.1]
    #[arg(short = 'h', long, value_name = "HOST")]
    host: Option<String>,
    /// RESP port of that node [default: 7001]
    #[arg(short, long, value_name = "PORT")]
    port: Option<u16>,
    /// RESP addresses of nodes, with commas between, instead of -h and -p: the first that answers is used, and the next one if the connection is lost [env: DICTUM_AT=]
    // The variable is read below: -h and -p beat it, and clap would take it for a flag beside them.
    #[arg(long, value_name = "HOST:PORT,…", conflicts_with_all = ["host", "port"])]
    at: Option<String>,
    /// File with the authority of the cluster (ca.pem): TLS is spoken.
    #[arg(long, value_name = "FILE", env = "DICTUM_CACERT")]
    cacert: Option<PathBuf>,
    /// User to log in as; otherwise default.
    #[arg(long, value_name = "NAME", env = "DICTUM_USER")]
    user: Option<String>,
    /// Password, where the cluster asks for one.
    #[arg(short = 'a', long, value_name = "PASSWORD", env = "DICTUM_PASSWORD", hide_env_values = true)]
    password: Option<String>,
    /// File whose first line is the password; it beats --password.
    #[arg(long, value_name = "FILE", env = "DICTUM_PASSWORD_FILE")]
    password_file: Option<PathBuf>,
    /// Speak RESP2; the default is RESP3.
    #[arg(long)]
    resp2: bool,
    /// Print replies without quotes and numbers: the default where the output is no terminal.
    #[arg(long, conflicts_with = "no_raw")]
    raw: bool,
    /// Print replies for people, also where the output is no terminal.
    #[arg(long)]
    no_raw: bool,
    /// Read the last argument of the command from standard input.
    #[arg(short = 'x')]
    last_from_stdin: bool,
    /// Print this help.
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// A command and its arguments; without one, commands come from standard input.
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Runs the client.
#[must_use]
pub fn run(arguments: CliArguments) -> ExitCode {
    let raw = arguments.raw || (!arguments.no_raw && !io::stdout().is_terminal());
    let login = match Login::choose(arguments.user, arguments.password, arguments.password_file.as_ref()) {
        Ok(login) => login,
        Err(reason) => {
            eprintln!("dictum cli: {reason}");
            return ExitCode::FAILURE;
        }
    };
    let endpoints = match endpoints(arguments.at, arguments.host, arguments.port, arguments.cacert) {
        Ok(endpoints) => endpoints,
        Err(reason) => {
            eprintln!("dictum cli: {reason}");
            return ExitCode::FAILURE;
        }
    };
    let mut session = Session::new(SessionOptions {
        endpoints,
        login,
        resp2: arguments.resp2,
        style: if raw { Style::Raw } else { Style::Pretty },
    });
    let done = if !arguments.command.is_empty() {
        let mut words: Vec<Vec<u8>> = arguments.command.into_iter().map(OsString::into_vec).collect();
        one_command(&mut session, &mut words, arguments.last_from_stdin)
    } else if arguments.last_from_stdin {
        eprintln!("dictum cli: -x needs a command, whose last argument comes from standard input");
        return ExitCode::FAILURE;
    } else if io::stdin().is_terminal() {
        interactive::run(&mut session)
    } else {
        lines(&mut session)
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // Whoever read the output has had enough, as `head` does.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dictum cli: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The nodes to connect to, in this order; at least one.
fn endpoints(
    at: Option<String>,
    host: Option<String>,
    port: Option<u16>,
    cacert: Option<PathBuf>,
) -> Result<Vec<Endpoint>, String> {
    let of_environment = || match std::env::var(AT_VARIABLE) {
        Ok(at) => Ok(Some(at)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(format!("{AT_VARIABLE} is not text in UTF-8")),
    };
    let at = if at.is_none() && host.is_none() && port.is_none() { of_environment()? } else { at };
    match at {
        Some(at) => Endpoint::parse_all(&at, cacert.as_deref()),
        None => {
            let host = host.unwrap_or_else(|| "127.0.0.1".to_owned());
            Ok(vec![Endpoint { host, port: port.unwrap_or(7001), authority: cacert }])
        }
    }
}

/// Whether the command was carried out.
fn one_command(session: &mut Session, words: &mut Vec<Vec<u8>>, last_from_stdin: bool) -> io::Result<bool> {
    if last_from_stdin {
        let mut last = Vec::new();
        io::stdin().read_to_end(&mut last)?;
        words.push(last);
    }
    session.run(words, &mut io::stdout().lock())
}

/// Carries out standard input, a command a line. Whether all were carried out.
fn lines(session: &mut Session) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    let mut all_good = true;
    for line in io::stdin().lock().split(b'\n') {
        let line = line?;
        match wire::split_line(&line) {
            Ok(words) if words.is_empty() => {}
            Ok(words) if session::is_quit(&words) => break,
            Ok(words) => all_good &= session.run(&words, &mut out)?,
            Err(_) => {
                writeln!(out, "Invalid argument(s)")?;
                all_good = false;
            }
        }
    }
    Ok(all_good)
}
