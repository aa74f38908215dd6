//! Clients that do not read for a while, and what nodes are told of what waits for them.
//!
//! The answers of simulated clients are short. So that a node sees them as it would see large ones, each byte that waits counts as many: one answer or two, and the node carries
//! out no further command of that client until it reads (`node/src/burden.rs`).

use base::limits::OUTPUT_PAUSE_BYTES;
use base::{NodeId, Rng};

use super::Cluster;
use super::connections::Owner;
use crate::chaos::{MS, SECOND};
use crate::door::Door;
use crate::events::Event;
use crate::process::Happening;

/// What a byte that waits counts for.
const COUNTS_FOR: usize = 256 * 1024;
/// Nobody reads nothing for longer.
const STOP_MAX: u64 = 2 * SECOND;
/// Most clients that stop at once.
const STOPPED_MAX: usize = 3;

impl<N: Door> Cluster<N> {
    /// Some clients of a node read nothing for so long. Whether there are any.
    pub(super) fn stop_reading(&mut self, node: NodeId, duration: u64, rng: &mut Rng) -> bool {
        let until = self.now + duration.clamp(MS, STOP_MAX);
        let is_open = |it: &super::connections::Connection| it.node == node && it.client_open && it.node_open;
        let open = self.connections.iter().filter(|(_, it)| is_open(it)).map(|(number, it)| (*number, it.client));
        // A listener to channels is cut off rather than waited for: that is another matter.
        let reads = |client| match self.owner_of(client) {
            Owner::Client(_) | Owner::Restless(_) => true,
            Owner::Caller(caller) => self.callers[caller].may_stop_reading(),
            Owner::Router(..) => false,
        };
        let mut open: Vec<u64> = open.filter(|(_, client)| reads(*client)).map(|(number, _)| number).collect();
        let mut stopped = 0;
        while stopped < STOPPED_MAX && !open.is_empty() && (stopped == 0 || rng.chance(1, 2)) {
            let number = open.swap_remove(rng.below(open.len() as u64) as usize);
            // Half of them have left something unread before.
            let before = if rng.chance(1, 2) { OUTPUT_PAUSE_BYTES + 1 } else { 0 };
            if let Some(connection) = self.connections.get_mut(&number)
                && connection.reads_at == 0
            {
                connection.reads_at = until;
                // It may not complain of an answer that it does not read.
                connection.opened_at = until;
                if before > 0 {
                    self.give(node, Happening::Unread(number, before, 1));
                }
                self.queue.push(until, Event::ReadsAgain(number));
            }
            stopped += 1;
        }
        stopped > 0
    }

    /// Keeps an answer for a client that does not read, and tells its node. Whether that is so.
    pub(super) fn keep_unread(&mut self, number: u64, bytes: &[u8]) -> bool {
        let Some(connection) = self.connections.get_mut(&number).filter(|it| it.reads_at > 0) else { return false };
        connection.unread.push(bytes.to_vec());
        let (node, blocks) = (connection.node, connection.unread.len());
        let waits: usize = connection.unread.iter().map(Vec::len).sum();
        self.give(node, Happening::Unread(number, waits.saturating_mul(COUNTS_FOR), blocks));
        true
    }

    /// A client reads all that has waited for it.
    pub(super) fn read_again(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number).filter(|it| it.reads_at > 0) else { return };
        connection.reads_at = 0;
        let (node, unread) = (connection.node, std::mem::take(&mut connection.unread));
        for bytes in unread {
            self.send_cut(number, &bytes, false);
        }
        self.give(node, Happening::Unread(number, 0, 0));
    }
}
