//! Connections that speak another protocol than RESP, as browsers do for web pages that attack
//! through them ([`wire::http`]): they are closed, and the log names where they come from.

use std::time::Duration;

use base::Time;
use wire::Foreign;

use crate::door::Level;
use crate::node::Node;
use crate::session::Session;

/// Least time between two lines of one kind in the log.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Lets one line of a kind into the log per second, and counts the others.
#[derive(Debug, Default)]
pub(crate) struct RareLine {
    next_at: Option<Time>,
    left_out: u64,
}

impl RareLine {
    /// Whether the line may be logged now; if so, what it is to end with.
    pub(crate) fn ask(&mut self, now: Time) -> Option<String> {
        if self.next_at.is_some_and(|at| now < at) {
            self.left_out += 1;
            return None;
        }
        self.next_at = Some(now + LINE_EVERY);
        let left_out = std::mem::take(&mut self.left_out);
        Some(if left_out == 0 { String::new() } else { format!(" ({left_out} more since the last such line)") })
    }
}

impl Node {
    /// Closes a connection without a reply.
    pub(crate) fn close_foreign(&mut self, session: &mut Session, foreign: Foreign) {
        session.closing = true;
        self.stats.foreign_connections += 1;
        let Some(end) = self.foreign_line.ask(self.now.time) else { return };
        let address = &session.address;
        let text = match foreign {
            Foreign::Http => format!(
                "connection from {address} closed: it sends an HTTP request to the port for RESP. Nothing of it was carried out. If nobody tries that \
                 on purpose, a web page in a browser there may be attacking this node; HTTP has a port of its own (--http){end}"
            ),
            Foreign::Tls => format!(
                "connection from {address} closed: it begins with a TLS handshake, and this port speaks plain RESP. Nothing of it was carried out{end}"
            ),
        };
        self.event(Level::Warning, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_and_the_others_are_counted() {
        let mut line = RareLine::default();
        let at = |ms| Time::default() + Duration::from_millis(ms);
        assert_eq!(line.ask(at(5)).as_deref(), Some(""));
        assert_eq!((line.ask(at(6)), line.ask(at(1004))), (None, None));
        assert_eq!(line.ask(at(1005)).as_deref(), Some(" (2 more since the last such line)"));
        assert_eq!(line.ask(at(2005)).as_deref(), Some(""));
    }
}
