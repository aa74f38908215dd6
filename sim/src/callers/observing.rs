//! A caller that asks its node what this has seen: `OBJECT IDLETIME`, `OBJECT FREQ`, `LATENCY HISTOGRAM`.
//!
//! It has keys of its own, which nobody else uses. None of them may seem idle for longer than since it was used last on this connection, as far as the node has answered that; and the node must
//! have counted at least the reads that it has answered here, in a histogram that adds up.

use std::collections::{BTreeMap, VecDeque};

use base::Rng;
use wire::{ReplyLimits, ReplyParser, Value, encode_command};

use crate::chaos::SECOND;

/// Keys of each observer.
const KEYS: u64 = 3;
/// A node's clock is no faster than so much, in hundredths of the true time.
const RATE_MAX: u64 = 115;

/// What an answer is to.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Asked {
    /// A use of a key, and when it was sent.
    Write(String, u64),
    Read(String, u64),
    Idle(String),
    Frequency,
    /// And how many reads had been answered when it was sent: it may be answered before reads that were sent with it are counted.
    Histogram(u64),
    Hello,
}

/// Its connection.
#[derive(Debug)]
pub(super) struct Observer {
    parser: ReplyParser,
    asked: VecDeque<Asked>,
    /// When the oldest of them was sent.
    pub(super) asked_at: u64,
    /// When a use of a key was sent that was answered, the last one of each.
    used: BTreeMap<String, u64>,
    reads: u64,
    /// Whoever answers may be another node than before, and knows no reads that were another's.
    forgets_reads: bool,
}

impl Observer {
    /// Begins on a new connection.
    pub(super) fn new(resp3: bool, forgets_reads: bool, now: u64, send: &mut Vec<u8>) -> Observer {
        let mut asked = VecDeque::new();
        if resp3 {
            encode_command(send, ["HELLO", "3"]);
            asked.push_back(Asked::Hello);
        }
        let parser = ReplyParser::new(ReplyLimits::default());
        Observer { parser, asked, asked_at: now, used: BTreeMap::new(), reads: 0, forgets_reads }
    }

    /// Something is awaited.
    pub(super) fn waits(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Uses a key, or asks; sometimes one right behind the other.
    pub(super) fn act(&mut self, caller: u64, now: u64, rng: &mut Rng, send: &mut Vec<u8>) {
        if self.waits() {
            return;
        }
        self.asked_at = now;
        let key = format!("seen:{caller}-{}", rng.below(KEYS));
        for _ in 0..rng.between(1, 3) {
            let asked = match rng.below(12) {
                // Seldom: what was written once is read for long.
                0 => {
                    encode_command(send, ["SET", &key, "x"]);
                    Asked::Write(key.clone(), now)
                }
                1..=4 => {
                    encode_command(send, ["GET", &key]);
                    Asked::Read(key.clone(), now)
                }
                5 => {
                    encode_command(send, ["OBJECT", "FREQ", &key]);
                    Asked::Frequency
                }
                6 => {
                    encode_command(send, ["LATENCY", "HISTOGRAM", "get"]);
                    Asked::Histogram(self.reads)
                }
                7 => {
                    encode_command(send, ["LATENCY", "HISTOGRAM"]);
                    Asked::Histogram(self.reads)
                }
                _ => {
                    encode_command(send, ["OBJECT", "IDLETIME", &key]);
                    Asked::Idle(key.clone())
                }
            };
            self.asked.push_back(asked);
        }
    }

    /// Bytes have come.
    pub(super) fn on_bytes(&mut self, bytes: &[u8], now: u64) -> Result<(), String> {
        self.parser.push(bytes);
        while let Some(value) = self.parser.next().map_err(|error| format!("not RESP: {error}"))? {
            let asked = self.asked.pop_front().ok_or_else(|| format!("{value:?} is an answer to nothing"))?;
            self.asked_at = now;
            self.on_answer(asked, value, now)?;
        }
        Ok(())
    }

    fn on_answer(&mut self, asked: Asked, value: Value, now: u64) -> Result<(), String> {
        match (asked, value) {
            (Asked::Frequency, Value::Error(text)) if text.starts_with("ERR An LFU maxmemory policy is not") => {}
            // A node that stops, is too busy or has no leader refuses, and then nothing was used.
            (_, Value::Error(text)) if !text.starts_with("ERR") => {}
            (Asked::Write(key, at), Value::Simple(ok)) if ok == "OK" => drop(self.used.insert(key, at)),
            (Asked::Read(key, at), Value::Bulk(_)) => {
                self.reads += 1;
                if !self.forgets_reads {
                    self.used.insert(key, at);
                }
            }
            // It was never written, as far as this caller knows.
            (Asked::Read(key, _), value) if value.is_null() && !self.used.contains_key(&key) => self.reads += 1,
            (Asked::Frequency, value) if value.is_null() => {}
            (Asked::Idle(key), value) if value.is_null() && !self.used.contains_key(&key) => {}
            (Asked::Idle(key), Value::Integer(seconds)) => {
                let seconds = u64::try_from(seconds).map_err(|_| format!("{key} is idle for {seconds} s"))?;
                if let Some(at) = self.used.get(&key) {
                    let passed = (now - at) / 100 * RATE_MAX;
                    if seconds * SECOND > passed {
                        return Err(format!(
                            "{key} is idle for {seconds} s, and was used {} ms ago",
                            passed / 1_000_000
                        ));
                    }
                }
            }
            (Asked::Histogram(reads), value) => on_histogram(value, reads)?,
            (Asked::Hello, _) => {}
            (asked, other) => return Err(format!("unexpected answer {other:?} to {asked:?}")),
        }
        Ok(())
    }
}

/// Whether histograms add up, and at least so many reads are counted.
fn on_histogram(value: Value, reads: u64) -> Result<(), String> {
    let mut counted = 0;
    for (name, spread) in pairs_of(value)? {
        let name = name.as_bytes().map(|name| String::from_utf8_lossy(name).into_owned()).unwrap_or_default();
        let parts: Vec<Value> = pairs_of(spread)?.into_iter().flat_map(|(name, value)| [name, value]).collect();
        let [_, Value::Integer(calls), _, bars] = &parts[..] else {
            return Err(format!("{name} is told as {parts:?}"));
        };
        let (mut bar_before, mut sum) = (0, 0);
        for pair in pairs_of(bars.clone())? {
            let (Value::Integer(bar), Value::Integer(upto)) = pair else {
                return Err(format!("{name} is spread as {bars:?}"));
            };
            if bar <= bar_before || upto <= sum {
                return Err(format!("the histogram of {name} does not grow: {bars:?}"));
            }
            (bar_before, sum) = (bar, upto);
        }
        if sum != *calls {
            return Err(format!("{calls} calls of {name}, and in the histogram are {sum}"));
        }
        counted += if name == "get" { u64::try_from(sum).unwrap_or(0) } else { 0 };
    }
    if counted < reads {
        return Err(format!("{reads} reads were answered here, and {counted} are counted"));
    }
    Ok(())
}

/// What is a map in RESP3 and a list in RESP2.
fn pairs_of(value: Value) -> Result<Vec<(Value, Value)>, String> {
    match value {
        Value::Map(pairs) => Ok(pairs),
        Value::Array(items) if items.len() % 2 == 0 => {
            let mut items = items.into_iter();
            Ok(std::iter::from_fn(|| items.next().zip(items.next())).collect())
        }
        other => Err(format!("{other:?} is no map")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(asked: Asked, answer: &[u8], now: u64) -> Result<(), String> {
        let mut observer = Observer::new(false, false, 0, &mut Vec::new());
        observer.used.insert("k".to_owned(), 10 * SECOND);
        observer.asked.push_back(asked);
        observer.on_bytes(answer, now)
    }

    #[test]
    fn a_key_that_was_used_later_is_seen() {
        let idle = |key: &str, answer: &str| answered(Asked::Idle(key.to_owned()), answer.as_bytes(), 12 * SECOND);
        assert_eq!(idle("k", ":2\r\n"), Ok(()));
        assert_eq!(idle("k", ":0\r\n"), Ok(()));
        assert!(idle("k", ":3\r\n").is_err_and(|text| text.contains("is idle for 3 s")));
        assert!(idle("k", ":-1\r\n").is_err());
        // Written, answered, and not there.
        assert!(idle("k", "$-1\r\n").is_err());
        assert_eq!(idle("other", ":3\r\n"), Ok(()));
        assert_eq!(idle("other", "$-1\r\n"), Ok(()));
        assert_eq!(idle("k", "-CLUSTERDOWN no leader\r\n"), Ok(()));
        assert!(idle("k", "-ERR what\r\n").is_err());
        assert!(answered(Asked::Frequency, b":1\r\n", 0).is_err());
    }

    #[test]
    fn a_histogram_that_does_not_add_up_is_seen() {
        let told = |name: &str, calls: u64, bars: &str| {
            let answer = format!(
                "*2\r\n${}\r\n{name}\r\n*4\r\n$5\r\ncalls\r\n:{calls}\r\n$14\r\nhistogram_usec\r\n{bars}",
                name.len()
            );
            answered(Asked::Histogram(3), answer.as_bytes(), 0)
        };
        assert_eq!(told("get", 3, "*4\r\n:1\r\n:1\r\n:33\r\n:3\r\n"), Ok(()));
        assert!(told("get", 3, "*4\r\n:33\r\n:1\r\n:1\r\n:3\r\n").is_err());
        assert!(told("get", 3, "*4\r\n:1\r\n:3\r\n:33\r\n:3\r\n").is_err());
        assert!(told("get", 4, "*4\r\n:1\r\n:1\r\n:33\r\n:3\r\n").is_err());
        assert!(told("get", 2, "*2\r\n:1\r\n:2\r\n").is_err_and(|text| text.contains("3 reads were answered")));
        assert!(told("set", 3, "*2\r\n:1\r\n:3\r\n").is_err());
    }
}
