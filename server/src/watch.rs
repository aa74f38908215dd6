//! `dictum watch`: the changes of keys, a line each. A lost connection is made anew at the next node, which goes on where the last one has stopped.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::PossibleValuesParser;
use node::ChangesToken;
use wire::Value;

use crate::changes::{Message, Place, Then};
use crate::cli::asked::Asked;
use crate::cli::connection::{Connection, Endpoint};

/// How long nodes are looked for that go on, once a connection is lost.
const LOOK_FOR: Duration = Duration::from_secs(60);
/// Between two rounds of asking all of them.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// A node that says nothing for so long is asked whether it is there.
const SILENCE: Duration = Duration::from_secs(10);
/// Errors that another node may not have, or the same one later.
const PASSING: [&str; 5] = ["CLUSTERDOWN", "NOCOPY", "LOADING", "UNKNOWN", "TRYAGAIN"];

/// Arguments of `dictum watch`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  dictum watch                            every change of the bucket default
  dictum watch 'cart:*' --state           the keys that are there, then every change of them
  dictum watch --key a --key b --json     two keys, a line of JSON for each message
  dictum watch --at db1:7001,db2:7001     goes on at the other node when one is gone

A line of JSON has a kind: set, deadline, del, expire, evict, flush (changes), state (a key that is there), begin, live, progress and gap, as
docs/subscriptions.md describes them. --from takes the token of a line of the kind live or progress.")]
pub struct WatchArguments {
    /// Keys that fit one of these are watched, such as 'cart:*'; without any, all keys.
    #[arg(value_name = "PATTERN")]
    patterns: Vec<String>,
    /// Watch this key; may be repeated.
    #[arg(long = "key", value_name = "KEY")]
    keys: Vec<String>,
    /// Watch the keys that begin so; may be repeated.
    #[arg(long = "prefix", value_name = "PREFIX")]
    prefixes: Vec<String>,
    /// Tell changes of this kind alone; may be repeated.
    #[arg(long = "kind", value_name = "KIND", value_parser = PossibleValuesParser::new(["set", "deadline", "del", "expire", "evict", "flush"]))]
    kinds: Vec<String>,
    /// The bucket.
    #[arg(long, value_name = "NAME", default_value = "default")]
    bucket: String,
    /// Tell the keys that are there first; also behind a gap.
    #[arg(long, conflicts_with_all = ["from", "kinds"])]
    state: bool,
    /// Go on behind this token.
    #[arg(long, value_name = "TOKEN")]
    from: Option<String>,
    /// Tell no values.
    #[arg(long)]
    no_values: bool,
    #[command(flatten)]
    asked: Asked,
}

/// Runs `dictum watch` until it is interrupted, or nothing more can be told.
#[must_use]
pub fn run(arguments: WatchArguments) -> ExitCode {
    match Watch::new(arguments).and_then(Watch::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("dictum watch: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Why a watch does not go on at a node.
enum Ends {
    /// Another node may go on.
    Elsewhere(String),
    /// Nothing helps.
    Here(String),
    /// Nobody reads the lines any more.
    Unread,
}

struct Watch {
    arguments: WatchArguments,
    endpoints: Vec<Endpoint>,
    /// What to go on from; none before the first answer.
    place: Option<Place>,
    /// The node that was asked last has taken the subscription.
    is_taken: bool,
}

impl Watch {
    fn new(arguments: WatchArguments) -> Result<Watch, String> {
        let endpoints = arguments.asked.endpoints()?;
        let place = match &arguments.from {
            None => None,
            Some(text) => {
                let token = ChangesToken::parse(text.as_bytes());
                Some(Place::At(token.map_err(|_| format!("--from {text}: that is no token of changes"))?))
            }
        };
        Ok(Watch { arguments, endpoints, place, is_taken: false })
    }

    /// Hears from one node after the other.
    fn run(mut self) -> Result<(), String> {
        // Since when no node goes on; none before the first one has.
        let mut lost: Option<Instant> = None;
        for tried in 1.. {
            let endpoint = self.endpoints[(tried - 1) % self.endpoints.len()].clone();
            self.is_taken = false;
            let message = match self.hear(&endpoint) {
                Ok(()) | Err(Ends::Unread) => return Ok(()),
                Err(Ends::Here(message)) => return Err(message),
                Err(Ends::Elsewhere(message)) => message,
            };
            if self.is_taken {
                eprintln!("dictum watch: the connection to {endpoint} is lost: {message}");
                lost = Some(Instant::now());
            }
            let is_round = tried.is_multiple_of(self.endpoints.len());
            if lost.map_or(is_round, |lost| lost.elapsed() > LOOK_FOR) {
                return Err(format!("no node tells changes; {endpoint}: {message}"));
            }
            if is_round {
                thread::sleep(LOOK_EVERY);
            }
        }
        Ok(())
    }

    /// The words of the subscription, from where it is.
    fn words(&self) -> Vec<String> {
        let WatchArguments { patterns, keys, prefixes, kinds, state, no_values, .. } = &self.arguments;
        let mut words = vec!["DICTUM.SUBSCRIBE".to_owned()];
        let mut say = |of: &[&str]| words.extend(of.iter().map(|word| (*word).to_owned()));
        match &self.place {
            Some(Place::At(token)) => say(&["FROM", &token.to_string()]),
            None | Some(Place::Nowhere | Place::Ended) if *state => say(&["WITH", "STATE"]),
            None | Some(Place::Nowhere | Place::Ended) => say(&["FROM", "NOW"]),
        }
        let of = [("MATCH", patterns), ("KEY", keys), ("PREFIX", prefixes)];
        for (name, values) in of.iter().chain(&[("KIND", kinds)]) {
            values.iter().for_each(|value| say(&[name, value]));
        }
        if of.iter().all(|(_, values)| values.is_empty()) {
            say(&["ALL"]);
        }
        say(&["VALUES", if *no_values { "none" } else { "after" }]);
        say(&["ON", "GAP", if *state { "restate" } else { "end" }]);
        words
    }

    /// Hears from a node until that is over.
    fn hear(&mut self, endpoint: &Endpoint) -> Result<(), Ends> {
        let lost = |error: io::Error| Ends::Elsewhere(error.to_string());
        let mut connection = Connection::open(endpoint, Some(SILENCE)).map_err(lost)?;
        if let Some(login) = self.arguments.asked.login().map_err(Ends::Here)? {
            answered(connection.call(&login.words()).map_err(lost)?)?;
        }
        answered(connection.call(&["HELLO", "3", "SETNAME", "dictum-watch"]).map_err(lost)?)?;
        answered(connection.call(&["SELECT", &self.arguments.bucket]).map_err(lost)?)?;
        let begun = answered(connection.call(&self.words()).map_err(lost)?)?;
        self.is_taken = true;
        let from = match &self.place {
            Some(Place::At(_)) => "token",
            _ if self.arguments.state => "state",
            _ => "now",
        };
        let token = begun.as_array().and_then(|parts| ChangesToken::parse(parts.get(1)?.as_bytes()?).ok());
        let text = token.as_ref().map(ToString::to_string);
        self.place = Some(token.map_or(Place::Nowhere, Place::At));
        self.say_begin(from, text.as_deref())?;
        let mut is_asked = false;
        loop {
            let value = match connection.receive() {
                Ok(value) => value,
                Err(error) if error.kind() == ErrorKind::TimedOut && !is_asked => {
                    connection.send(&["PING"]).map_err(lost)?;
                    is_asked = true;
                    continue;
                }
                Err(error) => return Err(lost(error)),
            };
            is_asked = false;
            let Value::Push(push) = &value else { continue };
            let Some(message) = Message::read(push) else { continue };
            if let Some(place) = &mut self.place {
                place.note(&message);
            }
            self.say(&message)?;
            if let Message::Gap(gap) = &message
                && gap.then == Then::End
            {
                let text = format!("changes cannot be told ({})", gap.reason);
                return Err(match self.place {
                    Some(Place::Ended) => {
                        Ends::Here(format!("{text}; --state tells the keys that are there, and goes on behind a gap"))
                    }
                    _ => Ends::Elsewhere(text),
                });
            }
        }
    }

    fn say_begin(&self, from: &str, token: Option<&str>) -> Result<(), Ends> {
        if self.arguments.asked.json {
            return print(&serde_json::json!({ "kind": "begin", "from": from, "token": token }).to_string());
        }
        Ok(())
    }

    fn say(&self, message: &Message) -> Result<(), Ends> {
        let name = message.name();
        let mut json = Vec::new();
        message.write_json(&mut json);
        let json = String::from_utf8_lossy(&json);
        if self.arguments.asked.json {
            // Each message is an object with one field at the least.
            return print(&format!("{{\"kind\":\"{name}\",{}", &json[1..]));
        }
        match message {
            Message::Change(_, told) | Message::State(told) => print(&format!("{name:<9}{}", told.line())),
            Message::Gap(_) => print(&format!("{name:<9}{json}")),
            Message::Live(_) | Message::Progress(_) => Ok(()),
        }
    }
}

/// What the node answers to a command, if it carries it out.
fn answered(value: Value) -> Result<Value, Ends> {
    match value.as_error() {
        None => Ok(value),
        Some(error) if PASSING.contains(&error.split(' ').next().unwrap_or_default()) => {
            Err(Ends::Elsewhere(error.to_owned()))
        }
        Some(error) => Err(Ends::Here(error.strip_prefix("ERR ").unwrap_or(error).to_owned())),
    }
}

fn print(line: &str) -> Result<(), Ends> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Ends::Unread),
        Err(error) => Err(Ends::Here(format!("standard output: {error}"))),
    }
}
