//! `MONITOR`: connections that are shown every command of this node's clients, as it is taken.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use base::limits::CONNECTION_OUTPUT_BYTES_MAX;

use crate::commands;
use crate::door::ConnectionId;
use crate::node::Node;
use crate::session::Session;

/// Who is shown commands.
pub(crate) type Monitors = BTreeSet<ConnectionId>;

/// The line of a command, as Redis writes it: when, in which bucket, by whom, and all words. Passwords are left out.
fn line(node: &Node, session: &Session, words: &[&[u8]]) -> String {
    let (seconds, milliseconds) = (node.now.wall.0 / 1000, node.now.wall.0 % 1000);
    let number = node.number_of(session.bucket);
    let mut line = format!("+{seconds}.{milliseconds:03}000 [{number} {}]", session.address);
    let is = |place: usize, word: &str| words.get(place).is_some_and(|it| it.eq_ignore_ascii_case(word.as_bytes()));
    let mut secret = if is(0, "AUTH") { 1..words.len() } else { 0..0 };
    if is(0, "HELLO")
        && let Some(auth) = (1..words.len()).find(|place| is(*place, "AUTH"))
    {
        secret = auth + 1..auth + 3;
    }
    for (place, word) in words.iter().enumerate() {
        let shown = if secret.contains(&place) { wire::quote(b"(redacted)") } else { wire::quote(word) };
        // Writing to a string cannot fail.
        let _ = write!(line, " {shown}");
    }
    line += "\r\n";
    line
}

impl Node {
    /// Shows a command that is being taken to those who want to see all.
    pub(crate) fn show(&mut self, session: &mut Session, words: &[&[u8]]) {
        if self.monitors.is_empty() || commands::is_hidden(words) {
            return;
        }
        let line = line(self, session, words);
        for id in self.monitors.clone() {
            if id == session.id {
                session.afterwards.extend_from_slice(line.as_bytes());
            } else if let Some(Some(monitor)) = self.sessions.get_mut(&id) {
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
    }
}
