//! Step 5 of a turn: what the node wants done.

use std::sync::atomic::Ordering;
use std::thread;

use base::Now;
use base::limits::CONNECTION_OUTPUT_BYTES_MAX;
use base::versions::Feature;
use node::{ConnectionId, Input, SnapshotContent, SnapshotJob};

use super::sockets::{Deed, Sockets};
use super::{Control, EventLoop, Step};
use crate::{background, caches, log, snapshots};

/// Emptied buffers of messages that are kept for the next.
const SPARE_MAX: usize = 8;
/// A payload up to this size may be committed by the loop itself.
const COMMIT_HERE_BYTES_MAX: usize = 16 * 1024;

impl EventLoop {
    /// Step 5 of a turn. Whatever the node says to closings on the way is for the next turn.
    pub(super) fn carry_out(&mut self, now: Now, quiet: bool) {
        for line in self.outbox.events.drain(..) {
            log::of_node(&line);
        }
        // Before anything is sent: what a client has been answered is on its way into the trail.
        for record in self.outbox.audit.drain(..) {
            self.audit.tell(record);
        }
        if let Some(most) = self.outbox.clients_max.take() {
            self.clients_max = most;
        }
        if let Some(logins) = self.outbox.logins.take() {
            self.logins.set(logins);
        }
        if let Some(refuses) = self.outbox.refuses_other_machines.take() {
            // With a password it changes nothing.
            if self.is_protected.swap(refuses, Ordering::Relaxed) != refuses {
                log::warning(if refuses {
                    "protected mode is on: clients of other machines are refused"
                } else {
                    "protected mode is off, and no password is set: everybody who reaches this node reads and writes everything"
                });
            }
        }
        if let Some(nodes) = self.outbox.roll.take() {
            let EventLoop { node, outbox, peers, .. } = self;
            let mut stepped = false;
            peers.follow(nodes, now.time, &mut |input| {
                stepped = true;
                node.step(now, input, outbox);
            });
            self.unfinished |= stepped;
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

        if !self.stamps_sectors && Feature::StampedSectors.is_in(self.node.cluster_version()) {
            self.stamps_sectors = true;
            self.journal.stamp_sectors();
        }
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
        self.outbox.errands.drain(..).for_each(|errand| self.errands.give(errand));
        for (number, work) in self.outbox.password_work.drain(..) {
            let messenger = self.messenger.clone();
            self.passwords
                .give(work, move |work, outcome| messenger.tell(Control::PasswordTried(number, work, outcome)));
        }
        self.serve_clients(now);
        if commit_here {
            // A disk may take its time.
            self.busy.begin(self.clock.now().time);
            self.unfinished |= self.journal.commit_here(&mut self.outbox.journal);
            self.busy.end();
        }
    }

    /// Does with the connections of clients what the node wants: limits, replies, pauses, closings, in this order.
    fn serve_clients(&mut self, now: Now) {
        let mut limits = std::mem::take(&mut self.outbox.limits);
        for (connection, limit) in limits.drain(..) {
            self.serve(connection, Deed::Limit(limit), now);
        }
        give_back(&mut self.outbox.limits, limits);
        self.with_sockets(now, |sockets, step| sockets.cut_off_slow(now.time, step));
        let mut replies = std::mem::take(&mut self.outbox.clients);
        for (connection, bytes) in replies.drain(..) {
            self.serve(connection, Deed::Reply(bytes), now);
        }
        give_back(&mut self.outbox.clients, replies);
        for sync in std::mem::take(&mut self.outbox.full_syncs) {
            let ticket = self.full_syncs.ticket(sync);
            self.serve(sync.connection, Deed::HandOver(ticket), now);
        }
        let mut pauses = std::mem::take(&mut self.outbox.pause);
        for (connection, paused) in pauses.drain(..) {
            self.serve(connection, Deed::Pause(paused), now);
        }
        give_back(&mut self.outbox.pause, pauses);
        let mut closings = std::mem::take(&mut self.outbox.close);
        for connection in closings.drain(..) {
            self.serve(connection, Deed::Close, now);
        }
        give_back(&mut self.outbox.close, closings);
        self.porters.hand_over();
    }

    /// Whoever has the connection does it.
    pub(super) fn serve(&mut self, ConnectionId(connection): ConnectionId, deed: Deed, now: Now) {
        if self.virtual_clients.contains_key(&connection) {
            self.serve_virtual(connection, deed, now);
        } else if self.porters.any() {
            self.porters.give(connection, deed);
        } else {
            self.with_sockets(now, |sockets, step| sockets.carry_out(connection, deed, now.time, step));
        }
    }

    /// What the node hears of it is for its next turn.
    fn with_sockets(&mut self, now: Now, what: impl FnOnce(&mut Sockets, &mut Step<'_>)) {
        let EventLoop { node, outbox, sockets, unfinished, .. } = self;
        what(sockets, &mut |input| {
            *unfinished = true;
            node.step(now, input, outbox);
        });
    }

    fn serve_virtual(&mut self, connection: u64, deed: Deed, now: Now) {
        let Some(line) = self.virtual_clients.get(&connection) else { return };
        match deed {
            Deed::Limit(_) => {}
            Deed::Reply(bytes) => {
                if line.reply(bytes.into()) > CONNECTION_OUTPUT_BYTES_MAX {
                    log::warning(&format!("HTTP connection {connection} was cut off: it does not read its replies"));
                    return self.remove_virtual(connection, now);
                }
                self.tell_unread(connection, now);
            }
            Deed::Pause(paused) => line.pause(paused),
            Deed::Close => self.remove_virtual(connection, now),
            // It has no socket. The ticket tells so as it goes.
            Deed::HandOver(_) | Deed::Secured(_) => {}
        }
    }

    /// Tells the node how much of what it has answered on a connection without a socket is not taken, if that has changed enough.
    pub(super) fn tell_unread(&mut self, connection: u64, now: Now) {
        let Some(bytes) = self.virtual_clients.get(&connection).and_then(|line| line.unread_news()) else { return };
        self.unfinished = true;
        let connection = ConnectionId(connection);
        self.node.step(now, Input::Unread { connection, bytes, blocks: 0 }, &mut self.outbox);
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
