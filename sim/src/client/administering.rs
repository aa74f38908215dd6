//! A client that changes and shows the settings of buckets, between its other tasks.

use std::collections::BTreeMap;

use wire::{Value, encode_command};

use super::replies::{Meaning, meaning_of};
use super::{Client, Record, Running, count};
use crate::cluster::operator::Heard;
use crate::history::{Op, Outcome, Reply, text_of};
use crate::settings::SETTINGS;
use crate::workload::DROPPED;

/// Names of what is counted here.
pub(crate) const PROBES: [&str; 5] = [CHANGED, SHOWN, SHOWN_CHANGED, NODES, LAST];
const CHANGED: &str = "sim: settings of a bucket changed";
const SHOWN: &str = "sim: settings of a bucket shown";
const SHOWN_CHANGED: &str = "sim: settings shown that were changed before";
const NODES: &str = "sim: what nodes are for was changed";
const LAST: &str = "sim: the last node that serves was not drained";

/// What a client is to do with a bucket's settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// `DICTUM.BUCKET SET`.
    Change {
        /// The bucket.
        bucket: String,
        /// Settings and their values.
        pairs: Vec<(&'static str, String)>,
    },
    /// `DICTUM.BUCKET SHOW`.
    Show {
        /// The bucket.
        bucket: String,
    },
    /// `DICTUM.NODE`, and these words.
    Nodes {
        /// What follows the command's name.
        words: Vec<String>,
    },
}

impl Client {
    /// Gives it something to do before its next task.
    pub fn order(&mut self, order: Order) {
        self.orders.push_back(order);
    }

    /// Sends an order. Of a bucket that comes and goes nobody keeps account.
    pub(super) fn send_order(&mut self, order: Order, now: u64, record: &mut Record, send: &mut Vec<u8>) {
        let settings = &mut record.settings;
        let operation = match &order {
            Order::Change { bucket, pairs } => {
                let mut words = vec!["DICTUM.BUCKET", "SET", bucket];
                words.extend(pairs.iter().flat_map(|(name, value)| [*name, value.as_str()]));
                encode_command(send, words);
                (bucket != DROPPED).then(|| settings.begin_change(self.id, bucket, pairs, now))
            }
            Order::Show { bucket } => {
                encode_command(send, ["DICTUM.BUCKET", "SHOW", bucket]);
                (bucket != DROPPED).then(|| settings.begin_show(self.id, bucket, now))
            }
            Order::Nodes { words } => {
                let command: Vec<&str> = ["DICTUM.NODE"].into_iter().chain(words.iter().map(String::as_str)).collect();
                encode_command(send, command);
                None
            }
        };
        self.running = Running::Administering { order, operation };
    }

    pub(super) fn on_administered(
        &mut self,
        order: &Order,
        operation: Option<usize>,
        value: Value,
        now: u64,
        record: &mut Record,
    ) {
        let (outcome, replies) = match (order, value) {
            (Order::Nodes { .. }, Value::Error(text)) if text.starts_with("ERR it is the last node") => {
                count(record, LAST);
                (Outcome::Failed, Vec::new())
            }
            (Order::Nodes { words }, value) if is_for_operator(words, &value) => {
                count(record, NODES);
                record.heard.push(heard(words, value));
                (Outcome::Done, Vec::new())
            }
            (Order::Nodes { .. }, Value::Simple(text)) if text == "OK" => {
                count(record, NODES);
                (Outcome::Done, Vec::new())
            }
            (_, Value::Error(text)) => match meaning_of(&text) {
                Meaning::NotDone if text.starts_with("ERR there is no bucket") => (Outcome::Failed, Vec::new()),
                _ => match self.note_error("DICTUM.BUCKET", &text, now, record) {
                    Meaning::NotDone => (Outcome::Failed, Vec::new()),
                    _ => (Outcome::Maybe, Vec::new()),
                },
            },
            (Order::Change { pairs, .. }, Value::Simple(text)) if text == "OK" => {
                count(record, CHANGED);
                (Outcome::Done, vec![Reply::Text(text); pairs.len()])
            }
            (Order::Show { bucket }, value) => match shown(bucket, value) {
                Ok(replies) => {
                    count(record, SHOWN);
                    (Outcome::Done, replies)
                }
                Err(text) => {
                    record.unexpected.push(format!("client {}: SHOW {bucket}: {text}", self.id));
                    (Outcome::Maybe, Vec::new())
                }
            },
            (order, other) => {
                record.unexpected.push(format!("client {}: {order:?} was answered {other:?}", self.id));
                (Outcome::Maybe, Vec::new())
            }
        };
        let Some(operation) = operation else { return };
        record.settings.end(operation, outcome, replies, now);
        if outcome == Outcome::Done && matches!(order, Order::Show { .. }) {
            let key = |at: usize| &record.settings.history[at].commands[0].key;
            let changed = record.settings.history[..operation].iter().any(|before| {
                let bucket = |key: &str| key.split('#').next().map(str::to_owned);
                before.outcome == Outcome::Done
                    && before.finish > Some(0)
                    && before.commands[0].op == Op::Set
                    && bucket(&before.commands[0].key) == bucket(key(operation))
            });
            if changed {
                count(record, SHOWN_CHANGED);
            }
        }
    }
}

/// Errors that the operator may be told: others have changed something meanwhile.
const TOLD: [&str; 7] = [
    "ERR nobody may join with that token",
    "ERR there is a node",
    "ERR there is no node",
    "ERR the node '",
    "ERR the bucket '",
    "ERR the number of voters",
    "ERR the cluster has version",
];

fn is_for_operator(words: &[String], value: &Value) -> bool {
    match value {
        Value::Bulk(_) => words[0] == "TOKEN",
        Value::Array(_) | Value::Map(_) => words[0] == "JOIN",
        Value::Error(text) => TOLD.iter().any(|told| text.starts_with(told)),
        _ => false,
    }
}

fn heard(words: &[String], value: Value) -> Heard {
    let nonce = || words.get(4).and_then(|nonce| nonce.parse().ok()).unwrap_or_default();
    let id = |value: &Value| value.as_integer().and_then(|id| u16::try_from(id).ok()).unwrap_or(u16::MAX);
    match value {
        Value::Bulk(token) => Heard::Token(text_of(&token)),
        Value::Map(pairs) => Heard::Joined(nonce(), pairs.first().map_or(u16::MAX, |(_, value)| id(value))),
        Value::Array(flat) => Heard::Joined(nonce(), flat.get(1).map_or(u16::MAX, id)),
        other => Heard::NotJoined(format!("{other:?}")),
    }
}

/// The values of all settings that are looked at, in their order.
fn shown(bucket: &str, value: Value) -> Result<Vec<Reply>, String> {
    let pairs: Vec<(Value, Value)> = match value {
        Value::Map(pairs) => pairs,
        Value::Array(items) => {
            let mut items = items.into_iter();
            std::iter::from_fn(|| items.next().zip(items.next())).collect()
        }
        other => return Err(format!("{other:?}")),
    };
    let mut told: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in pairs {
        let value = match value {
            Value::Bulk(bytes) => text_of(&bytes),
            Value::Integer(number) => number.to_string(),
            other => return Err(format!("{name:?} is {other:?}")),
        };
        if let Value::Bulk(name) = name {
            told.insert(text_of(&name), value);
        }
    }
    if told.get("name").is_none_or(|name| name != bucket) {
        return Err(format!("it answers for another bucket: {told:?}"));
    }
    let of = |name: &str| told.get(name).cloned().map(Reply::Text).ok_or_else(|| format!("it lacks {name}: {told:?}"));
    SETTINGS.iter().map(|(name, _)| of(name)).collect()
}
