//! `dictum sub` and `dictum unsub`: keys of a named subscription.

use std::process::ExitCode;

use clap::Args;

use crate::cli::asked::{Asked, advised, end, line_of_json};

/// Arguments of `dictum sub` and `dictum unsub`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  dictum sub cart:1 cart:2 --name ann       from now on ann is told of these, too; the name is made if there is none
  dictum unsub cart:1 --name ann
  dictum watch --name ann                   tells their changes, behind what was acknowledged last

A client that watches under the name is told that it has other keys now, and attaches again.")]
pub struct SubArguments {
    /// The keys.
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<String>,
    /// The name of the subscription.
    #[arg(long, value_name = "NAME")]
    name: String,
    /// The bucket.
    #[arg(long, value_name = "NAME", default_value = "default")]
    bucket: String,
    #[command(flatten)]
    asked: Asked,
}

/// Adds keys.
#[must_use]
pub fn run_sub(arguments: SubArguments) -> ExitCode {
    end("dictum sub", carry_out(&arguments, "DICTUM.SUB", "added"))
}

/// Takes keys away.
#[must_use]
pub fn run_unsub(arguments: SubArguments) -> ExitCode {
    end("dictum unsub", carry_out(&arguments, "DICTUM.UNSUB", "removed"))
}

fn carry_out(arguments: &SubArguments, command: &str, done: &str) -> Result<String, String> {
    let SubArguments { keys, name, bucket, asked } = arguments;
    let (endpoint, mut connection) = asked.open()?;
    let mut ask = |words: &[&str]| {
        let failed = |error| format!("the node at {endpoint} does not answer: {error}");
        let reply = connection.call(words).map_err(failed)?;
        match reply.as_error() {
            Some(error) => Err(advised(error, &endpoint, "dictum bucket list", |_, _| None)),
            None => Ok(reply),
        }
    };
    ask(&["SELECT", bucket])?;
    let words: Vec<&str> = [command, name].into_iter().chain(keys.iter().map(String::as_str)).collect();
    let count = ask(&words)?.as_integer().unwrap_or_default();
    if asked.json {
        return Ok(line_of_json(&serde_json::json!({ "name": name, done: count })));
    }
    Ok(format!("{count} of {} keys {done}\n", keys.len()))
}
