//! Settings that `CONFIG SET` changes and that a node's start says nothing of.

use std::time::Duration;

use base::limits::{CONNECTION_OUTPUT_BYTES_MAX, CONNECTIONS_DEFAULT, TRACKED_KEYS_DEFAULT};

use crate::burden::ClientsLimit;
use crate::door::OutputLimit;
use crate::node::Node;
use crate::notifications::Notify;
use crate::session::Session;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tunables {
    /// What connections that listen to channels may leave unread.
    pub pubsub_output: OutputLimit,
    /// What was said of other connections: it is shown, and changes nothing.
    pub normal_output: OutputLimit,
    pub replica_output: OutputLimit,
    /// Seconds after which a connection is closed that says nothing and waits for nothing; 0: never.
    pub idle_seconds: u64,
    /// Which changes of keys listeners are told of.
    pub notify: Notify,
    /// What all clients together may hold of this node's memory.
    pub clients_limit: ClientsLimit,
    /// Most client connections, as far as there are file descriptors for them.
    pub clients_max: usize,
    /// Without a password, clients of other machines are refused.
    pub protected_mode: bool,
    /// Most keys that are noted for clients that track what they have read; 0: as many as there is room for.
    pub tracking_keys_max: u64,
}

impl Default for Tunables {
    fn default() -> Tunables {
        let pubsub_output =
            OutputLimit { hard_bytes: 32 << 20, soft_bytes: 8 << 20, soft_for: Duration::from_secs(60) };
        let none = OutputLimit { hard_bytes: 0, soft_bytes: 0, soft_for: Duration::ZERO };
        Tunables {
            pubsub_output,
            normal_output: OutputLimit { hard_bytes: CONNECTION_OUTPUT_BYTES_MAX as u64, ..none },
            replica_output: none,
            idle_seconds: 0,
            notify: Notify::default(),
            clients_limit: ClientsLimit::Bytes(0),
            clients_max: CONNECTIONS_DEFAULT,
            protected_mode: true,
            tracking_keys_max: TRACKED_KEYS_DEFAULT,
        }
    }
}

impl Node {
    /// Goes by these from now on. `own`: the connection that wants it, if it is not among the node's at this moment.
    pub(crate) fn tune(&mut self, own: Option<&Session>, tunables: Tunables) {
        let before = std::mem::replace(&mut self.tunables, tunables);
        self.clients_max_told &= before.clients_max == tunables.clients_max;
        self.protected_told &= before.protected_mode == tunables.protected_mode;
        if before.pubsub_output != tunables.pubsub_output {
            let others = self.sessions.values().filter_map(Option::as_deref);
            let listening = others.chain(own).filter(|session| session.listens());
            let limits: Vec<_> = listening.map(|session| (session.id, Some(tunables.pubsub_output))).collect();
            self.pubsub.limits.extend(limits);
        }
    }

    /// Most client connections that the owner lets in: the setting, as far as there are file descriptors for them.
    pub(crate) fn clients_max(&self) -> usize {
        self.tunables.clients_max.min(self.config.clients_room)
    }

    /// The same, for the owner, if it has changed.
    pub(crate) fn tell_clients_max(&mut self) -> Option<usize> {
        let told = std::mem::replace(&mut self.clients_max_told, true);
        (!told).then(|| self.clients_max())
    }

    /// Whether the owner is to refuse clients of other machines, if that has changed.
    pub(crate) fn tell_protected(&mut self) -> Option<bool> {
        let told = std::mem::replace(&mut self.protected_told, true);
        (!told).then(|| self.tunables.protected_mode && self.access.is_open())
    }
}
