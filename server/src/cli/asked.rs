//! Arguments that all commands have which ask a cluster, and how these commands end.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::connection::{Connection, Endpoint};
use crate::secrets::Login;
use crate::status::open;

/// Which node is asked, and how the answer is printed.
#[derive(Args, Debug)]
pub struct Asked {
    /// RESP address of any node of the cluster; several with commas between: the first that answers is asked.
    #[arg(
        long,
        global = true,
        display_order = 100,
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:7001",
        env = "DICTUM_AT"
    )]
    at: String,
    /// File with the authority of the cluster (ca.pem): the node is asked by TLS.
    #[arg(long, global = true, display_order = 101, value_name = "FILE", env = "DICTUM_CACERT")]
    cacert: Option<PathBuf>,
    /// Print one line of JSON.
    #[arg(long, global = true, display_order = 101)]
    pub json: bool,
    /// User to log in as; otherwise default.
    #[arg(long, global = true, display_order = 102, value_name = "NAME", env = "DICTUM_USER")]
    user: Option<String>,
    /// Password, where the cluster asks for one.
    #[arg(
        long,
        global = true,
        display_order = 102,
        value_name = "PASSWORD",
        env = "DICTUM_PASSWORD",
        hide_env_values = true
    )]
    password: Option<String>,
    /// File whose first line is the password; it beats --password.
    #[arg(long, global = true, display_order = 103, value_name = "FILE", env = "DICTUM_PASSWORD_FILE")]
    password_file: Option<PathBuf>,
}

impl Asked {
    /// These nodes, with this password.
    pub(crate) fn of(at: String, password: Option<String>) -> Asked {
        Asked { at, cacert: None, json: false, user: None, password, password_file: None }
    }

    /// Connects to the node. An error says what to do.
    pub(crate) fn open(&self) -> Result<(Endpoint, Connection), String> {
        open(self.endpoints()?, self.login()?.as_ref())
    }

    /// All that were named.
    pub(crate) fn endpoints(&self) -> Result<Vec<Endpoint>, String> {
        Endpoint::parse_all(&self.at, self.cacert.as_deref())
    }

    /// Who asks, with the password of the file if one is named. An error says what is wrong with that.
    pub(crate) fn login(&self) -> Result<Option<Login>, String> {
        Login::choose(self.user.clone(), self.password.clone(), self.password_file.as_ref())
    }
}

/// A node's error, and advice to a person. `list` is the command that lists what was to be changed; `own` has the advice that only one command gives, by the code of the
/// error and its text.
pub(crate) fn advised(
    error: &str,
    endpoint: &Endpoint,
    list: &str,
    own: impl Fn(&str, &str) -> Option<&'static str>,
) -> String {
    let (code, text) = error.split_once(' ').unwrap_or((error, ""));
    let advice = match (own(code, text), code) {
        (Some(advice), _) => advice.to_owned(),
        (None, "NOAUTH") => {
            "Give the password by --password-file or DICTUM_PASSWORD, and the user by --user, if it is not default."
                .to_owned()
        }
        (None, "CLUSTERDOWN") => {
            "Try again, or ask another node with --at HOST:PORT. `dictum status` tells who is up.".to_owned()
        }
        (None, "UNKNOWN") => format!("It may or may not have been done: `{list}` tells."),
        (None, _) if text.starts_with("unknown command") => {
            return format!("the server at {endpoint} is no Dictum node, or of another version: {error}");
        }
        (None, "ERR") => return text.to_owned(),
        (None, _) => return error.to_owned(),
    };
    format!("{}\n  {advice}", if code == "ERR" { text } else { error })
}

/// A value as one line of JSON.
pub(crate) fn line_of_json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain fields become JSON") + "\n"
}

/// Prints the outcome of a command, or why it was not carried out.
pub(crate) fn end(command: &str, outcome: Result<String, String>) -> ExitCode {
    end_or(command, outcome, "the command was carried out, and its output is lost")
}

/// The same with another hint for an outcome that cannot be printed.
pub(crate) fn end_or(command: &str, outcome: Result<String, String>, if_lost: &str) -> ExitCode {
    match outcome {
        Ok(text) => match print(&text) {
            Ok(()) => ExitCode::SUCCESS,
            Err(reason) => {
                eprintln!("dictum: {reason}; {if_lost}");
                ExitCode::FAILURE
            }
        },
        Err(message) => {
            eprintln!("{command}: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Writes a text to standard output.
///
/// # Errors
/// When it cannot be written: the text for the operator. A closed pipe is no error: its reader, as `head`, has read enough.
pub(crate) fn print(text: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(format!("standard output: {error}")),
        _ => Ok(()),
    }
}
