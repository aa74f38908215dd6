//! Step 5 of a turn: what the node wants done.

use std::thread;
use std::time::Duration;

use base::Now;
use base::limits::CONNECTION_OUTPUT_BYTES_MAX;
use node::{ConnectionId, SnapshotContent, SnapshotJob};

use super::{Control, EventLoop};
use crate::{background, caches, log, snapshots};

/// A client that has ended its side gets replies no later than this after the last one.
const LEAVE_AFTER_REPLY: Duration = Duration::from_millis(100);
/// A client that the node has closed has so long to take its last replies.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(60);
/// Emptied buffers of messages that are kept for the next.
const SPARE_MAX: usize = 8;
/// A payload up to this size may be committed by the loop itself.
const COMMIT_HERE_BYTES_MAX: usize = 16 * 1024;

impl EventLoop {
    /// Step 5 of a turn. Whatever the node says to closings on the way is for the next turn.
    pub(super) fn carry_out(&mut self, now: Now, quiet: bool) {
        for (level, text) in self.outbox.events.drain(..) {
            log::line(level, &text);
        }
        if let Some(nodes) = self.outbox.roll.take() {
            self.peers.follow(nodes, now.time);
        }
        let mut for_peers = std::mem::take(&mut self.outbox.peers);
        if !for_peers.is_empty() {
            let EventLoop { node, outbox, peers, .. } = self;
            let mut stepped = false;
            for (peer, bytes) in for_peers.drain(..) {
                let emptied = peers.send(peer, bytes, now.time, &mut |input| {
                    stepped = true;
                    node.step(now, input, outbox);
                });
                outbox.spare.extend(emptied);
            }
            outbox.spare.truncate(SPARE_MAX);
            self.unfinished |= stepped;
        }
        give_back(&mut self.outbox.peers, for_peers);

        let commit_here = quiet
            && self.commit_here
            && self.journal.is_quick()
            && self.outbox.journal.len() == 1
            && self.outbox.journal[0].payload.len() <= COMMIT_HERE_BYTES_MAX
            && self.outbox.discard_journal_before.is_none();
        if !commit_here {
            self.journal.submit(&mut self.outbox.journal, self.outbox.discard_journal_before.take());
        }
        if let (Some(caches), Some(store)) = (self.outbox.caches.take(), &self.store) {
            caches::set(store, &caches, self.cache);
        }
        if let Some(job) = self.outbox.save_snapshot.take() {
            self.save_snapshot(job);
        }
        self.transfers.give(&mut self.outbox);
        self.look_at_limits(now);
        self.write_replies(now);
        self.pause_and_close(now);
        if commit_here {
            self.unfinished |= self.journal.commit_here(&mut self.outbox.journal);
        }
    }

    fn write_replies(&mut self, now: Now) {
        let mut replies = std::mem::take(&mut self.outbox.clients);
        for (ConnectionId(connection), bytes) in replies.drain(..) {
            let Some(place) = self.clients.place_of(connection) else {
                let unread = self.virtual_clients.get(&connection).map_or(0, |line| line.reply(bytes.into()));
                if unread > CONNECTION_OUTPUT_BYTES_MAX {
                    log::warning(&format!("HTTP connection {connection} was cut off: it does not read its replies"));
                    self.remove_virtual(connection, now);
                }
                continue;
            };
            let Some(client) = self.clients.get(place) else { continue };
            client.unanswered = false;
            if client.leave_at.is_some() {
                client.leave_at = Some(now.time + LEAVE_AFTER_REPLY);
            }
            let sent = client.output.send(&mut client.stream, bytes);
            let was_slow = client.slow_since.is_some();
            let too_slow = client.is_too_slow(now.time);
            if !was_slow && client.slow_since.is_some() {
                self.slow_clients.push(connection);
            }
            if sent.is_err() {
                self.remove_client(place, now);
            } else if too_slow {
                self.cut_off(place, now);
            }
        }
        give_back(&mut self.outbox.clients, replies);
    }

    /// A client does not read what it is sent.
    fn cut_off(&mut self, place: usize, now: Now) {
        if let Some(client) = self.clients.get(place) {
            let (connection, unread) = (client.connection, client.output.waiting_bytes());
            log::warning(&format!("client connection {connection} was cut off: it left {unread} bytes unread"));
            self.remove_client(place, now);
        }
    }

    /// Takes note of what connections may leave unread, and cuts off those that have left too much for too long.
    fn look_at_limits(&mut self, now: Now) {
        for (ConnectionId(connection), limit) in self.outbox.limits.drain(..) {
            let place = self.clients.place_of(connection);
            if let Some(client) = place.and_then(|place| self.clients.get(place)) {
                client.limit = limit;
                client.slow_since = None;
            }
        }
        let mut slow = std::mem::take(&mut self.slow_clients);
        slow.retain(|connection| {
            let Some(place) = self.clients.place_of(*connection) else { return false };
            let Some(client) = self.clients.get(place) else { return false };
            if client.is_too_slow(now.time) {
                self.cut_off(place, now);
                return false;
            }
            client.slow_since.is_some()
        });
        self.slow_clients = slow;
    }

    fn pause_and_close(&mut self, now: Now) {
        let mut pauses = std::mem::take(&mut self.outbox.pause);
        for (ConnectionId(connection), paused) in pauses.drain(..) {
            let Some(place) = self.clients.place_of(connection) else {
                if let Some(line) = self.virtual_clients.get(&connection) {
                    line.pause(paused);
                }
                continue;
            };
            let Some(client) = self.clients.get(place) else { continue };
            client.paused = paused;
            if !paused && std::mem::take(&mut client.unread) {
                self.unread.push(place);
            }
        }
        give_back(&mut self.outbox.pause, pauses);

        let mut closings = std::mem::take(&mut self.outbox.close);
        for ConnectionId(connection) in closings.drain(..) {
            let Some(place) = self.clients.place_of(connection) else {
                self.remove_virtual(connection, now);
                continue;
            };
            let Some(client) = self.clients.get(place) else { continue };
            client.closing = true;
            if client.output.waiting_bytes() == 0 {
                self.remove_client(place, now);
            } else {
                client.leave_at = Some(now.time + CLOSE_TIMEOUT);
                self.leaving.push(connection);
            }
        }
        give_back(&mut self.outbox.close, closings);
    }

    fn save_snapshot(&mut self, job: SnapshotJob) {
        let (partition, position) = (job.partition, job.position);
        let (disk, store, messenger) = (self.disk.clone(), self.store.clone(), self.messenger.clone());
        let late = matches!(&job.content, SnapshotContent::Store(flush) if flush.is_late());
        let save = move || {
            messenger.tell(Control::Snapshot(partition, position, snapshots::save(&disk, store.as_ref(), job)));
        };
        let started = if late {
            // Were it to make way on a full processor, all writes would wait for it in the end, and a restart for all of it.
            thread::Builder::new().name("snapshot".to_owned()).spawn(save)
        } else {
            background::spawn("snapshot", save)
        };
        if let Err(error) = started {
            self.messenger.tell(Control::Snapshot(partition, position, Err(error)));
        }
    }
}

/// Puts an emptied list back, so that its memory is used again, unless new items have come in the meantime.
fn give_back<T>(list: &mut Vec<T>, emptied: Vec<T>) {
    if list.is_empty() {
        *list = emptied;
    }
}
