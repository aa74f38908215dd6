//! Arguments that all commands have which ask a cluster, and how these commands end.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::connection::{Connection, Endpoint};
use crate::secrets;
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
    /// Print one line of JSON.
    #[arg(long, global = true, display_order = 101)]
    pub json: bool,
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
        Asked { at, json: false, password, password_file: None }
    }

    /// Connects to the node. An error says what to do.
    pub(crate) fn open(&self) -> Result<(Endpoint, Connection), String> {
        open(&self.at, self.password()?.as_deref())
    }

    /// All that were named.
    pub(crate) fn endpoints(&self) -> Result<Vec<Endpoint>, String> {
        self.at.split(',').map(Endpoint::parse).collect()
    }

    /// The password, of the file if one is named. An error says what is wrong with that.
    pub(crate) fn password(&self) -> Result<Option<String>, String> {
        secrets::choose(self.password.clone(), self.password_file.as_ref())
    }
}

/// Prints what came out, or why it was not done.
pub(crate) fn end(command: &str, outcome: Result<String, String>) -> ExitCode {
    match outcome {
        Ok(text) => match io::stdout().write_all(text.as_bytes()) {
            // Whoever reads the output may have had enough of it.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
            _ => ExitCode::SUCCESS,
        },
        Err(message) => {
            eprintln!("{command}: {message}");
            ExitCode::FAILURE
        }
    }
}
