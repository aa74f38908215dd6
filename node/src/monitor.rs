//! `MONITOR`: connections that are shown every command of this node's clients, as it is taken.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use base::BucketId;
use base::limits::CONNECTION_OUTPUT_BYTES_MAX;

use crate::audit;
use crate::commands;
use crate::door::ConnectionId;
use crate::node::Node;
use crate::session::Session;

/// Who is shown commands.
pub(crate) type Monitors = BTreeSet<ConnectionId>;

/// How the line of a command begins: when, in which bucket, and by whom.
fn head(node: &Node, bucket: BucketId, by: &str) -> String {
    let (seconds, milliseconds) = (node.clock.own().0 / 1000, node.clock.own().0 % 1000);
    format!("+{seconds}.{milliseconds:03}000 [{} {by}]", node.number_of(bucket))
}

/// The line of a command, as Redis writes it: with all words. Passwords are left out.
fn line(node: &Node, session: &Session, words: &[&[u8]]) -> String {
    let mut line = head(node, session.bucket, &session.address);
    let secret = commands::secrets(words);
    for (place, word) in words.iter().enumerate() {
        let shown = if secret.contains(&place) { wire::quote(b"(redacted)") } else { wire::quote(word) };
        // Writing to a string cannot fail.
        let _ = write!(line, " {shown}");
    }
    line += "\r\n";
    line
}

impl Node {
    /// Shows a command that is being taken to those who want to see all, and to the audit trail.
    pub(crate) fn show(&mut self, session: &mut Session, words: &[&[u8]]) {
        audit::accesses::accessed(self, session, words);
        if self.monitors.is_empty() || commands::is_hidden(words) {
            return;
        }
        let line = line(self, session, words);
        for id in self.monitors.clone() {
            if id == session.id {
                session.afterwards.extend_from_slice(line.as_bytes());
            } else {
                self.show_line(id, &line);
            }
        }
    }

    /// Shows what a script of one of this node's clients has called in a partition, behind the command that ran it.
    pub(crate) fn show_called(&mut self, g: usize) {
        let group = &self.groups[g];
        let (called, bucket) = (group.partition.tree.called().take(), group.bucket.id);
        for words in called {
            let mut line = head(self, bucket, "lua");
            for word in &words {
                // Writing to a string cannot fail.
                let _ = write!(line, " {}", wire::quote(word));
            }
            line += "\r\n";
            for id in self.monitors.clone() {
                self.show_line(id, &line);
            }
        }
    }

    fn show_line(&mut self, id: ConnectionId, line: &str) {
        let Some(Some(monitor)) = self.sessions.get_mut(&id) else { return };
        if monitor.out.len() + line.len() > CONNECTION_OUTPUT_BYTES_MAX {
            monitor.out = Vec::new();
            monitor.closing = true;
            self.to_close.push(id);
        } else {
            monitor.out.extend_from_slice(line.as_bytes());
            self.mark_dirty(id);
        }
    }
}
