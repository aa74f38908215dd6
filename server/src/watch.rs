//! `dictum watch`: the changes of keys, a line each. A lost connection is made anew at the next node, which goes on where the last one has stopped.
//!
//! With a name the cluster keeps the place: what was printed is acknowledged within a second, and the next `dictum watch` of that name goes on there.

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
/// A node that was heard for less has not gone on: the minute does not begin anew with it.
const HEARD: Duration = Duration::from_secs(5);
/// What was printed under a name is acknowledged so soon.
const ACKNOWLEDGED_AFTER: Duration = Duration::from_secs(1);
/// Errors that another node may not have, or the same one later.
const PASSING: [&str; 7] = ["CLUSTERDOWN", "NOCOPY", "LOADING", "UNKNOWN", "TRYAGAIN", "MISCONF", "BUSY"];
/// How errors begin that all nodes have. Behind a lost connection any other one may pass.
const LASTING: [&str; 7] = [
    "NOPERM",
    "NOAUTH",
    "WRONGPASS",
    "ERR there is no bucket",
    "ERR there is no subscription",
    "ERR the token",
    "ERR that is no token",
];

/// Gaps behind which there is something to be told.
const HELPED_BY_STATE: [&str; 3] = ["retention", "too-slow", "begun-anew"];

/// Arguments of `dictum watch`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  dictum watch                            every change of the bucket default
  dictum watch 'cart:*' --state           the keys that are there, then every change of them
  dictum watch --key a --key b --json     two keys, a line of JSON for each message
  dictum watch --name mail 'order:*'       goes on where the last one of that name has stopped, and takes over from it
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
    /// Attach to the subscription of this name, and acknowledge what is printed. Without keys it is for those that it has: `dictum sub` adds some.
    #[arg(long, value_name = "NAME", conflicts_with = "from")]
    name: Option<String>,
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
    /// The node has refused something.
    Refused(String),
    /// Nothing helps.
    Here(String),
    /// Nobody reads the lines any more.
    Unread,
}

struct Watch {
    arguments: WatchArguments,
    endpoints: Vec<Endpoint>,
    /// The place to go on from; none before the first answer.
    place: Option<Place>,
    /// The node that was asked last has taken the subscription.
    is_taken: bool,
    /// A node has taken it before.
    has_begun: bool,
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
        Ok(Watch { arguments, endpoints, place, is_taken: false, has_begun: false })
    }

    /// Hears from one node after the other.
    fn run(mut self) -> Result<(), String> {
        // Since when no node goes on; none before the first one has.
        let mut lost: Option<Instant> = None;
        for tried in 1.. {
            let endpoint = self.endpoints[(tried - 1) % self.endpoints.len()].clone();
            self.is_taken = false;
            let asked = Instant::now();
            let message = match self.hear(&endpoint) {
                Ok(()) | Err(Ends::Unread) => return Ok(()),
                Err(Ends::Here(message)) => return Err(message),
                Err(Ends::Refused(error)) if !passes(&error, lost.is_some()) => {
                    return Err(error.strip_prefix("ERR ").unwrap_or(&error).to_owned());
                }
                Err(Ends::Elsewhere(message) | Ends::Refused(message)) => message,
            };
            if self.is_taken {
                eprintln!("dictum watch: the connection to {endpoint} is lost: {message}");
                let is_heard = asked.elapsed() >= HEARD;
                lost = lost.filter(|_| !is_heard).or_else(|| Some(Instant::now()));
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
        let of = [("MATCH", patterns), ("KEY", keys), ("PREFIX", prefixes)];
        let names_none = of.iter().all(|(_, values)| values.is_empty());
        if let Some(name) = &self.arguments.name {
            say(&["NAME", name]);
            if names_none && kinds.is_empty() && !state {
                return words;
            }
        }
        match &self.place {
            // The cluster knows the place.
            _ if self.arguments.name.is_some() => {
                if *state {
                    say(&["WITH", "STATE"]);
                }
            }
            Some(Place::At(token)) => say(&["FROM", &token.to_string()]),
            None | Some(Place::Nowhere | Place::Ended) if *state => say(&["WITH", "STATE"]),
            None | Some(Place::Nowhere | Place::Ended) => say(&["FROM", "NOW"]),
        }
        for (name, values) in of.iter().chain(&[("KIND", kinds)]) {
            values.iter().for_each(|value| say(&[name, value]));
        }
        if names_none {
            say(&["ALL"]);
        }
        say(&["VALUES", if *no_values { "none" } else { "after" }]);
        say(&["ON", "GAP", if *state { "restate" } else { "end" }]);
        words
    }

    /// Hears from a node until that is over.
    fn hear(&mut self, endpoint: &Endpoint) -> Result<(), Ends> {
        let lost = |error: io::Error| Ends::Elsewhere(error.to_string());
        let patience = if self.arguments.name.is_some() { ACKNOWLEDGED_AFTER } else { SILENCE };
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
        // Without a token what is there comes next, or a gap, behind which the place is another one.
        self.place = match (token, self.place.take()) {
            (Some(token), _) => Some(Place::At(token)),
            (None, Some(Place::At(before))) if !self.arguments.state => Some(Place::At(before)),
            (None, _) => Some(Place::Nowhere),
        };
        self.say_begin(from, text.as_deref())?;
        self.has_begun = true;
        let mut acks = self.arguments.name.clone().zip(epoch_of(&begun)).map(|(name, epoch)| Acks::new(name, epoch));
        connection.set_patience(Some(patience)).map_err(lost)?;
        let (mut is_asked, mut heard) = (false, Instant::now());
        loop {
            if let Some(acks) = &mut acks {
                acks.say(&mut connection, self.place.as_ref()).map_err(lost)?;
            }
            let value = match connection.receive() {
                Ok(value) => value,
                Err(error) if error.kind() == ErrorKind::TimedOut && heard.elapsed() < SILENCE => continue,
                Err(error) if error.kind() == ErrorKind::TimedOut && !is_asked => {
                    connection.send(&["PING"]).map_err(lost)?;
                    (is_asked, heard) = (true, Instant::now());
                    continue;
                }
                Err(error) => return Err(lost(error)),
            };
            (is_asked, heard) = (false, Instant::now());
            let Value::Push(push) = &value else {
                // The answer to PING or to an acknowledgement.
                answered(value)?;
                continue;
            };
            if push.first().and_then(Value::as_bytes) == Some(b"dictum.moved-away") {
                let name = self.arguments.name.as_deref().unwrap_or_default();
                return Err(Ends::Here(format!(
                    "another client has attached to {name}, or it has other keys now, or is gone: `dictum watch --name {name}` takes it over"
                )));
            }
            let Some(message) = Message::read(push) else {
                if Message::is_one(push) {
                    return Err(Ends::Here(format!("{endpoint} tells something that this program cannot read")));
                }
                continue;
            };
            if let Some(place) = &mut self.place {
                place.note(&message);
            }
            self.say(&message)?;
            if let Message::Gap(gap) = &message
                && gap.then == Then::End
            {
                let text = format!("changes cannot be told ({})", gap.reason);
                return Err(match self.place {
                    Some(Place::Ended) if HELPED_BY_STATE.contains(&gap.reason.as_str()) && !self.arguments.state => {
                        Ends::Here(format!("{text}; --state tells the keys that are there, and goes on behind a gap"))
                    }
                    Some(Place::Ended) => Ends::Here(text),
                    _ => Ends::Elsewhere(text),
                });
            }
        }
    }

    fn say_begin(&self, from: &str, token: Option<&str>) -> Result<(), Ends> {
        if self.arguments.asked.json {
            return print(&serde_json::json!({ "kind": "begin", "from": from, "token": token }).to_string());
        }
        if self.has_begun && from == "state" {
            return print("begin    anew, with the keys that are there");
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

fn epoch_of(begun: &Value) -> Option<i64> {
    begun.as_array()?.get(2)?.as_integer()
}

/// What is acknowledged under a name.
struct Acks {
    name: String,
    epoch: String,
    /// The last place, and when it was said.
    said: Option<String>,
    at: Instant,
}

impl Acks {
    fn new(name: String, epoch: i64) -> Acks {
        Acks { name, epoch: epoch.to_string(), said: None, at: Instant::now() }
    }

    /// Acknowledges the place, once a second.
    fn say(&mut self, connection: &mut Connection, place: Option<&Place>) -> io::Result<()> {
        let Some(Place::At(token)) = place.filter(|_| self.at.elapsed() >= ACKNOWLEDGED_AFTER) else { return Ok(()) };
        let token = token.to_string();
        if self.said.as_ref() != Some(&token) {
            connection.send(&["DICTUM.ACK", &self.name, &self.epoch, &token])?;
            (self.said, self.at) = (Some(token), Instant::now());
        }
        Ok(())
    }
}

/// The answer to a command that the node has carried out.
fn answered(value: Value) -> Result<Value, Ends> {
    match value.as_error() {
        None => Ok(value),
        Some(error) => Err(Ends::Refused(error.to_owned())),
    }
}

/// True if another node, or the same one later, may accept the command.
fn passes(error: &str, is_lost: bool) -> bool {
    match error.split(' ').next() {
        Some(code) if PASSING.contains(&code) => true,
        _ => is_lost && !LASTING.iter().any(|begin| error.starts_with(begin)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_depends_on_whether_a_node_has_served() {
        for (error, at_first, later) in [
            ("CLUSTERDOWN no leader", true, true),
            ("MISCONF the disk is full", true, true),
            ("ERR max number of clients reached", false, true),
            ("ERR this node has as many subscriptions to changes as it takes", false, true),
            ("ERR there is no bucket 'x'", false, false),
            ("ERR the token is for another bucket", false, false),
            ("NOPERM no", false, false),
            ("WRONGPASS no", false, false),
        ] {
            assert_eq!([passes(error, false), passes(error, true)], [at_first, later], "{error}");
        }
    }
}
