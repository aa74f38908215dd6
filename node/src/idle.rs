//! `CONFIG SET timeout`: connections that say nothing for so long are closed, as by a Redis. Those that wait for keys or replicas, listen to channels, subscribe to changes or
//! watch all commands may be silent.

use std::time::Duration;

use base::Time;

use crate::node::Node;
use crate::session::Session;

/// How often idle connections are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Node {
    /// At a tick: closes connections that have been idle for too long.
    pub(crate) fn close_idle(&mut self) {
        let limit = Duration::from_secs(self.tunables.idle_seconds);
        if limit.is_zero() || self.now.time < self.idle_looked_at + LOOK_EVERY {
            return;
        }
        self.idle_looked_at = self.now.time;
        let now = self.now.time;
        for session in self.sessions.values_mut().flatten() {
            let is_told = session.listens() || session.subscribed_to_changes > 0;
            let may_rest = session.is_inside || is_told || self.monitors.contains(&session.id);
            if !may_rest && !session.closing && is_idle(session, now, limit) {
                session.closing = true;
                self.to_close.push(session.id);
            }
        }
    }
}

fn is_idle(session: &Session, now: Time, limit: Duration) -> bool {
    session.block.is_none() && session.pending() == 0 && now.since(session.last_active) > limit
}
