//! A conversation with one server that survives the server's restarts, and its end if others are named beside it.
//!
//! A command is never sent twice by itself: when the connection breaks after it was sent, its outcome is open, and
//! the user is told so. A connection that is found closed before sending is simply made anew.

use std::io::{self, Write};
use std::time::Duration;

use wire::Value;

use super::connection::{Connection, Endpoint};
use super::help::Documentation;
use super::output::{Style, formatted};
use crate::secrets::Login;

/// How long a server may take to greet where others are named beside it.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);

/// What a session has to know.
#[derive(Clone, Debug)]
pub(super) struct SessionOptions {
    /// The servers in the order in which they are tried; at least one.
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) login: Option<Login>,
    pub(super) resp2: bool,
    pub(super) style: Style,
}

/// The conversation.
#[derive(Debug)]
pub(super) struct Session {
    options: SessionOptions,
    connection: Option<Connection>,
    /// The place of the endpoint that is or was connected last; none before the first connection.
    latest: Option<usize>,
    /// Whether a MULTI is open.
    in_transaction: bool,
}

impl Session {
    /// Does not connect yet.
    pub(super) fn new(options: SessionOptions) -> Session {
        Session { options, connection: None, latest: None, in_transaction: false }
    }

    /// The server that is or was connected last.
    fn endpoint(&self) -> &Endpoint {
        &self.options.endpoints[self.latest.unwrap_or(0)]
    }

    /// What stands before the cursor: where the user is.
    pub(super) fn prompt(&self) -> String {
        match (&self.connection, self.in_transaction) {
            (None, _) => "not connected> ".to_owned(),
            (Some(_), false) => format!("{}> ", self.endpoint()),
            (Some(_), true) => format!("{}(TX)> ", self.endpoint()),
        }
    }

    /// Connects if there is no connection; tells the user and returns false if that fails.
    pub(super) fn connect(&mut self) -> bool {
        if self.connection.as_mut().is_some_and(|connection| !connection.is_open()) {
            self.disconnect();
        }
        if self.connection.is_none() {
            match self.open_any() {
                Ok((place, connection)) => {
                    if self.latest.is_some_and(|latest| latest != place) {
                        eprintln!("Connected to {} now.", self.options.endpoints[place]);
                    }
                    (self.connection, self.latest) = (Some(connection), Some(place));
                }
                Err(message) => {
                    eprintln!("{message}");
                    return false;
                }
            }
        }
        true
    }

    /// Carries out one command and prints its reply. Whether it was carried out.
    ///
    /// # Errors
    /// When `out` cannot be written to.
    pub(super) fn run(&mut self, words: &[Vec<u8>], out: &mut dyn Write) -> io::Result<bool> {
        if is_named(words, "help") || is_named(words, "?") {
            return self.help(&words[1..], out);
        }
        let was_in_transaction = self.in_transaction;
        if !self.connect() {
            return Ok(false);
        }
        if was_in_transaction && !self.in_transaction {
            eprintln!(
                "The connection was lost, and the transaction with it. Nothing of it was done; begin again with MULTI."
            );
            return Ok(false);
        }
        let mut sent = false;
        loop {
            let Some(connection) = self.connection.as_mut() else { return Ok(false) };
            let reply = if sent { connection.receive() } else { connection.call(words) };
            sent = true;
            let reply = match reply {
                Ok(reply) => reply,
                Err(error) => {
                    self.disconnect();
                    eprintln!(
                        "Error: {}: {error}; {} may or may not have been carried out.",
                        self.endpoint(),
                        shown_name(words)
                    );
                    return Ok(false);
                }
            };
            out.write_all(&formatted(&reply, self.options.style))?;
            out.flush()?;
            if matches!(reply, Value::Push(_)) {
                // A message that came in between: the reply is still to come. Or it is what was asked for: more come.
                continue;
            }
            let good = reply.as_error().is_none();
            self.follow(words, &reply);
            if !good || !listens(words) {
                return Ok(good);
            }
        }
    }

    /// The descriptions of all commands, for help, completion and hints; `None` if the server does not give them.
    pub(super) fn documentation(&mut self) -> Option<Documentation> {
        if !self.connect() || self.in_transaction {
            return None;
        }
        let reply = self.connection.as_mut()?.call(&["COMMAND", "DOCS"]);
        if reply.is_err() {
            self.disconnect();
        }
        Documentation::read(&reply.ok()?)
    }

    fn help(&mut self, topic: &[Vec<u8>], out: &mut dyn Write) -> io::Result<bool> {
        if topic.is_empty() {
            out.write_all(super::help::GENERAL.as_bytes())?;
            return Ok(true);
        }
        if self.in_transaction {
            writeln!(out, "Help asks the server, and what is asked within MULTI is queued: EXEC or DISCARD first.")?;
            return Ok(false);
        }
        let Some(documentation) = self.documentation() else { return Ok(false) };
        let topic: Vec<String> = topic.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        match documentation.help(&topic.join(" ")) {
            Some(text) => out.write_all(text.as_bytes())?,
            None => writeln!(out, "There is no command or group {}. `help` lists what there is.", topic.join(" "))?,
        }
        Ok(true)
    }

    /// Connects to the first server that answers, from the one behind the latest on: that one has just been lost, and comes last.
    fn open_any(&self) -> Result<(usize, Connection), String> {
        let count = self.options.endpoints.len();
        let first = self.latest.map_or(0, |latest| latest + 1);
        let mut failures = String::new();
        for place in (first..first + count).map(|place| place % count) {
            match self.open(&self.options.endpoints[place]) {
                Ok(connection) => return Ok((place, connection)),
                Err(failure) => failures.push_str(&(failure + "\n")),
            }
        }
        Err(failures
            + "  Is a node running there? `dictum dev` starts three on this machine; -h HOST and -p PORT name another one, \
               --at HOST:PORT,… several.")
    }

    fn open(&self, endpoint: &Endpoint) -> Result<Connection, String> {
        // One that is stopped takes connections and answers nothing: where there are others they have their turn.
        let has_others = self.options.endpoints.len() > 1;
        let mut connection = Connection::open(endpoint, has_others.then_some(GREETING_TIMEOUT))
            .map_err(|error| format!("Could not connect to {endpoint}: {error}"))?;
        let trouble = |error: io::Error| format!("Error: {endpoint}: {error}");
        if has_others && self.options.resp2 && self.options.login.is_none() {
            connection.call(&["PING"]).map_err(trouble)?;
        }
        if let Some(login) = &self.options.login {
            let reply = connection.call(&login.words()).map_err(trouble)?;
            if let Some(error) = reply.as_error() {
                eprintln!("The password was refused: {error}");
            }
        }
        if !self.options.resp2 {
            // A server that knows no RESP3, or wants a password first, goes on in RESP2.
            connection.call(&["HELLO", "3"]).map_err(trouble)?;
        }
        // A command may take as long as it takes.
        connection.set_patience(None).map_err(trouble)?;
        Ok(connection)
    }

    fn disconnect(&mut self) {
        self.connection = None;
        self.in_transaction = false;
    }

    /// Keeps track of what a command did to the connection.
    fn follow(&mut self, words: &[Vec<u8>], reply: &Value) {
        let queued = matches!(reply, Value::Simple(text) if text == "QUEUED");
        if reply.as_error().is_none() && is_named(words, "multi") {
            self.in_transaction = true;
        } else if !queued && ["exec", "discard", "reset"].iter().any(|name| is_named(words, name)) {
            self.in_transaction = false;
        }
        // The user and the dialect of this connection shall be those of the next one.
        if reply.as_error().is_none()
            && is_named(words, "auth")
            && let [_, user @ .., password] = words
        {
            let text = |word: &Vec<u8>| String::from_utf8(word.clone()).ok();
            self.options.login = Login::new(user.first().and_then(text), text(password));
            if !self.options.resp2
                && let Some(connection) = self.connection.as_mut()
                && connection.call(&["HELLO", "3"]).is_err()
            {
                self.disconnect();
            }
        }
    }
}

/// Whether the user wants to leave.
pub(super) fn is_quit(words: &[Vec<u8>]) -> bool {
    words.len() == 1 && (is_named(words, "quit") || is_named(words, "exit"))
}

/// Whether the command is `name`.
pub(super) fn is_named(words: &[Vec<u8>], name: &str) -> bool {
    words.first().is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()))
}

/// Whether replies keep coming after the command.
fn listens(words: &[Vec<u8>]) -> bool {
    ["subscribe", "psubscribe", "ssubscribe", "monitor"].iter().any(|name| is_named(words, name))
}

fn shown_name(words: &[Vec<u8>]) -> String {
    words.first().map(|word| String::from_utf8_lossy(word).to_uppercase()).unwrap_or_default()
}
