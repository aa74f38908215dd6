//! `ACL LOG`: the refusals of this node, with the users that got them; equal refusals within a minute are one line.

use std::collections::VecDeque;

use base::WallTime;
use data::Reply;

/// In milliseconds: an equal refusal within this time after the last one is counted with it.
const SAME_MS: u64 = 60_000;
/// The newest lines that are looked through for an equal one.
const LOOKED_AT_MAX: usize = 10;
/// Longest object of a line.
const OBJECT_BYTES_MAX: usize = 256;

/// Longest name of a client in a line.
pub(crate) const CLIENT_NAME_BYTES_MAX: usize = 256;

/// A refusal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refused {
    /// `command`, `key`, `channel`, `database` or `auth`.
    pub reason: &'static str,
    /// `toplevel`, `multi` or `lua`.
    pub context: &'static str,
    /// The command, key, channel or bucket.
    pub object: Vec<u8>,
    pub user: Vec<u8>,
}

#[derive(Debug)]
struct Line {
    refused: Refused,
    number: u64,
    count: i64,
    client: Vec<u8>,
    created: WallTime,
    updated: WallTime,
}

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct RefusalLog {
    /// The newest first.
    lines: VecDeque<Line>,
    next_number: u64,
}

impl RefusalLog {
    /// Notes a refusal; `most` lines are kept.
    pub(crate) fn note(&mut self, mut refused: Refused, client: Vec<u8>, now: WallTime, most: usize) {
        refused.object.truncate(OBJECT_BYTES_MAX);
        refused.user.truncate(OBJECT_BYTES_MAX);
        let is_same = |line: &Line| line.refused == refused && now.0.saturating_sub(line.updated.0) <= SAME_MS;
        if let Some(place) = self.lines.iter().take(LOOKED_AT_MAX).position(is_same)
            && let Some(mut line) = self.lines.remove(place)
        {
            (line.count, line.updated, line.client) = (line.count + 1, now, client);
            self.lines.push_front(line);
        } else {
            let number = self.next_number;
            self.next_number += 1;
            self.lines.push_front(Line { refused, number, count: 1, client, created: now, updated: now });
        }
        self.lines.truncate(most);
    }

    pub(crate) fn clear(&mut self) {
        self.lines.clear();
    }

    /// The newest lines, as `ACL LOG` tells them.
    pub(crate) fn tell(&self, most: usize, now: WallTime) -> Reply {
        let line = |line: &Line| {
            let pair = |key: &str, value: Reply| (Reply::bulk(key), value);
            let age = now.0.saturating_sub(line.created.0) as f64 / 1000.0;
            Reply::Map(vec![
                pair("count", Reply::Integer(line.count)),
                pair("reason", Reply::bulk(line.refused.reason)),
                pair("context", Reply::bulk(line.refused.context)),
                pair("object", Reply::bulk(line.refused.object.as_slice())),
                pair("username", Reply::bulk(line.refused.user.as_slice())),
                pair("age-seconds", Reply::Double(age)),
                pair("client-info", Reply::bulk(line.client.as_slice())),
                pair("entry-id", Reply::Integer(line.number as i64)),
                pair("timestamp-created", Reply::Integer(line.created.0 as i64)),
                pair("timestamp-last-updated", Reply::Integer(line.updated.0 as i64)),
            ])
        };
        Reply::Array(self.lines.iter().take(most).map(line).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_refusals_are_one_line_and_lines_are_bounded() {
        let mut log = RefusalLog::default();
        let refused =
            |object: &str| Refused { reason: "key", context: "toplevel", object: object.into(), user: "ann".into() };
        log.note(refused("a"), Vec::new(), WallTime(1000), 3);
        log.note(refused("b"), Vec::new(), WallTime(2000), 3);
        log.note(refused("a"), Vec::new(), WallTime(61_000), 3);
        assert_eq!((log.lines[0].count, log.lines[0].refused.object.as_slice(), log.lines.len()), (2, &b"a"[..], 2));
        log.note(refused("a"), Vec::new(), WallTime(121_001), 3);
        assert_eq!((log.lines[0].count, log.lines.len()), (1, 3));
        log.note(refused(&"x".repeat(1000)), Vec::new(), WallTime(121_001), 3);
        assert_eq!((log.lines[0].refused.object.len(), log.lines.len()), (OBJECT_BYTES_MAX, 3));
        assert_eq!(log.lines.iter().map(|line| line.number).collect::<Vec<_>>(), [3, 2, 0]);
        log.clear();
        assert_eq!(log.tell(10, WallTime(0)), Reply::Array(Vec::new()));
    }
}
