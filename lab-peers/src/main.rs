//! Drives rivals that do not speak RESP, for `dictum lab compare`: reads one request on standard input, does it, and answers on standard
//! output, in the form of `lab::peers`.

// A load is clocks and threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod calls;
mod cassandra;
mod etcd;
mod flow;
mod nats;
mod store;

use std::io::{BufRead, Write};
use std::process::ExitCode;

use lab::load::{Measured, Snapshot};
use lab::peers::{FORMAT, Line, Outcome, Progress, Request};

fn main() -> ExitCode {
    let mut text = String::new();
    let read = std::io::stdin().lock().read_line(&mut text).map_err(|error| error.to_string());
    let request = read.and_then(|_| {
        serde_json::from_str::<Request>(&text).map_err(|error| {
            format!("this program is asked by `dictum lab compare`, in the form that lab/src/peers.rs tells: {error}")
        })
    });
    // Who asked holds the other end as long as the answer is wanted.
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        std::process::exit(1);
    });
    let outcome =
        request.and_then(|request| answer(&request, &mut |snapshot| tell(&Line::Second(Progress::of(snapshot)))));
    match outcome {
        Ok(measured) => {
            tell(&Line::Measured(Box::new(Outcome::of(measured))));
            ExitCode::SUCCESS
        }
        Err(error) => {
            tell(&Line::Error(error));
            ExitCode::FAILURE
        }
    }
}

fn answer(request: &Request, on_second: &mut dyn FnMut(&Snapshot)) -> Result<Measured, String> {
    if request.format != FORMAT {
        return Err(format!(
            "it is asked in form {} and speaks form {FORMAT}: build both from the same sources",
            request.format
        ));
    }
    match request.peer.as_str() {
        "etcd" => flow::work::<etcd::Etcd>(request, on_second),
        "cassandra" => flow::work::<cassandra::Cassandra>(request, on_second),
        "nats" => flow::work::<nats::Nats>(request, on_second),
        other => Err(format!("there is no driver for `{other}`: write etcd, cassandra or nats")),
    }
}

/// A line on standard output. Nobody who does not read it would read why it cannot be written.
fn tell(line: &Line) {
    if let Ok(text) = serde_json::to_string(line) {
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{text}").and_then(|()| out.flush());
    }
}
