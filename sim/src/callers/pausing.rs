//! A caller that lets the clients of its node wait (`CLIENT PAUSE`), and one that is shown what they do (`MONITOR`).
//!
//! Who waits for the end of a pause and is forgotten has no answer in time: that is asked of every client and every caller. What is done behind a pause is for the search for an order.

use std::collections::VecDeque;

use base::Rng;
use wire::{ReplyLimits, ReplyParser, Value, encode_command};

/// Most milliseconds of a pause.
const PAUSE_MS_MAX: u64 = 40;

/// What an answer is to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    /// A pause, its end, MONITOR.
    Ok,
    /// A PING with this number.
    Ping(u64),
}

/// Its connection.
#[derive(Debug)]
pub(super) struct Pauser {
    parser: ReplyParser,
    /// It is shown commands.
    monitors: bool,
    asked: VecDeque<Asked>,
    /// When the oldest of them was sent.
    pub(super) asked_at: u64,
    pings: u64,
    /// The last one that was answered and must have been shown before the next answer.
    to_be_shown: Option<u64>,
}

impl Pauser {
    /// Begins on a new connection.
    pub(super) fn new(monitors: bool, now: u64, send: &mut Vec<u8>) -> Pauser {
        let mut asked = VecDeque::new();
        if monitors {
            encode_command(send, ["MONITOR"]);
            asked.push_back(Asked::Ok);
        }
        let parser = ReplyParser::new(ReplyLimits::default());
        Pauser { parser, monitors, asked, asked_at: now, pings: 0, to_be_shown: None }
    }

    /// Something is awaited.
    pub(super) fn waits(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Pauses, ends a pause, or looks whether the connection still stands.
    pub(super) fn act(&mut self, now: u64, rng: &mut Rng, send: &mut Vec<u8>) {
        if self.waits() {
            return;
        }
        self.asked_at = now;
        let milliseconds = rng.between(1, PAUSE_MS_MAX).to_string();
        let asked = match rng.below(8) {
            0 | 1 if !self.monitors => {
                encode_command(send, ["CLIENT", "PAUSE", &milliseconds]);
                Asked::Ok
            }
            2..=4 if !self.monitors => {
                encode_command(send, ["CLIENT", "PAUSE", &milliseconds, "WRITE"]);
                Asked::Ok
            }
            5 if !self.monitors => {
                encode_command(send, ["CLIENT", "UNPAUSE"]);
                Asked::Ok
            }
            _ => {
                self.pings += 1;
                encode_command(send, ["PING", &self.pings.to_string()]);
                Asked::Ping(self.pings)
            }
        };
        self.asked.push_back(asked);
    }

    /// Bytes have come.
    pub(super) fn on_bytes(&mut self, bytes: &[u8], now: u64) -> Result<(), String> {
        self.parser.push(bytes);
        while let Some(value) = self.parser.next().map_err(|error| format!("not RESP: {error}"))? {
            if let Value::Simple(line) = &value
                && line != "OK"
            {
                self.on_shown(line)?;
                continue;
            }
            let asked = self.asked.pop_front().ok_or_else(|| format!("{value:?} is an answer to nothing"))?;
            self.asked_at = now;
            match (asked, &value) {
                (Asked::Ok, Value::Simple(_)) => {}
                (Asked::Ping(number), Value::Bulk(text)) if text == number.to_string().as_bytes() => {
                    if let Some(missing) = self.to_be_shown.replace(number).filter(|_| self.monitors) {
                        return Err(format!("PING {missing} was not shown to who monitors"));
                    }
                }
                // MONITOR was refused: it is shown nothing.
                (Asked::Ok, Value::Error(_)) if self.monitors => self.monitors = false,
                // A node that stops refuses.
                (_, Value::Error(_)) => {}
                (asked, other) => return Err(format!("unexpected answer {other:?} to {asked:?}")),
            }
        }
        Ok(())
    }

    /// A command is shown: the time, by whom, and its words.
    fn on_shown(&mut self, line: &str) -> Result<(), String> {
        let is_command = line.as_bytes().first().is_some_and(u8::is_ascii_digit) && line.contains("] \"");
        if !self.monitors || !is_command {
            return Err(format!("unexpected line {line:?}"));
        }
        let own = self.to_be_shown.is_some_and(|number| line.ends_with(&format!("\"PING\" \"{number}\"")));
        if own {
            self.to_be_shown = None;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_shown_is_missed() {
        let (mut rng, mut send) = (Rng::new(1), Vec::new());
        let mut pauser = Pauser::new(true, 0, &mut send);
        pauser.on_bytes(b"+OK\r\n", 1).expect("an answer");
        pauser.act(2, &mut rng, &mut send);
        pauser.on_bytes(b"$1\r\n1\r\n+1.000000 [0 127.0.0.1:1] \"PING\" \"1\"\r\n", 3).expect("an answer");
        pauser.act(4, &mut rng, &mut send);
        pauser.on_bytes(b"$1\r\n2\r\n", 5).expect("it may still be shown");
        pauser.act(6, &mut rng, &mut send);
        assert!(pauser.on_bytes(b"$1\r\n3\r\n", 7).is_err());
        assert!(pauser.on_bytes(b"+what\r\n", 8).is_err());
    }
}
