//! Step 3 of a turn: what other threads have to say.

use std::io;
use std::sync::atomic::Ordering;

use base::Now;
use node::{ConnectionId, DiskRoom, FullSync, Input, Listener};

use super::sockets::Deed;
use super::{Control, EventLoop, STOP_TIMEOUT};
use crate::bridge::Request;
use crate::log;
use crate::low_disk::{self, Passed, Refusals};

impl EventLoop {
    /// Step 3 of a turn. True if there was anything but progress of the disk.
    pub(super) fn take_news(&mut self, now: Now) -> bool {
        let mut others = false;
        if self.requests.waiting() {
            others = true;
            let mut requests = std::mem::take(&mut self.taken_requests);
            self.requests.take(&mut requests);
            for request in requests.drain(..) {
                self.on_request(request, now);
            }
            self.taken_requests = requests;
        }
        // One command alone is no reason to leave the disk to the journal's thread.
        let EventLoop { node, outbox, porters, .. } = self;
        others |= porters.take(&mut |input| node.step(now, input, outbox)) > 1;
        if self.messenger.filled.swap(false, Ordering::SeqCst) {
            others = true;
            while let Ok(control) = self.controls.try_recv() {
                self.on_control(control, now);
            }
        }
        self.tell_persisted(now);
        let fails = self.audit.figures().is_failing();
        if std::mem::replace(&mut self.audit_fails, fails) != fails {
            self.node.step(now, Input::AuditFails(fails), &mut self.outbox);
        }
        if let Some(mark) = self.audit.figures().marked(&mut self.audit_marks) {
            self.node.step(now, Input::TrailSigned(mark), &mut self.outbox);
        }
        others
    }

    fn tell_persisted(&mut self, now: Now) {
        let persisted = self.journal.persisted();
        if persisted > self.persisted {
            self.persisted = persisted;
            let mut durations = std::mem::take(&mut self.sync_durations);
            self.journal.take_durations(&mut durations);
            for took in durations.drain(..) {
                self.node.step(now, Input::Synced { took }, &mut self.outbox);
            }
            self.sync_durations = durations;
            self.node.step(now, Input::Persisted { number: persisted }, &mut self.outbox);
        }
    }

    fn on_request(&mut self, request: Request, now: Now) {
        match request {
            Request::Open { connection, description: address, user, line } => {
                self.virtual_clients.insert(connection, line);
                let local_address = self.http_address.clone();
                let connection = ConnectionId(connection);
                let opened = match user {
                    Some(user) => Input::OpenedFor { connection, address, local_address, user },
                    None => Input::Opened { connection, address, local_address, listener: Listener::Inside },
                };
                self.node.step(now, opened, &mut self.outbox);
            }
            Request::Send { connection, bytes } => {
                if let Some(line) = self.virtual_clients.get(&connection) {
                    line.consumed(bytes.len());
                    let received = Input::Received { connection: ConnectionId(connection), bytes: &bytes };
                    self.node.step(now, received, &mut self.outbox);
                }
            }
            Request::Taken { connection } => self.tell_unread(connection, now),
            Request::Close { connection } => self.remove_virtual(connection, now),
        }
    }

    pub(super) fn remove_virtual(&mut self, connection: u64, now: Now) {
        if self.virtual_clients.remove(&connection).is_some() {
            self.node.step(now, Input::Closed { connection: ConnectionId(connection) }, &mut self.outbox);
            self.unfinished = true;
        }
    }

    /// Tells the node how much room there is, if that changes.
    fn refuse(&mut self, now: Now, refusals: Refusals) {
        let before = std::mem::replace(&mut self.refusals, refusals);
        if refusals.room() != before.room() {
            self.node.step(now, Input::Disk(refusals.room()), &mut self.outbox);
        }
    }

    /// There is more or less room on the disk than when it was last looked at.
    fn on_room(&mut self, now: Now, passed: Passed) {
        let Passed { room, free, mark } = passed;
        let (folder, free, mark, missing) =
            (self.disk.path().display(), free >> 20, mark >> 20, room.missing().div_ceil(1 << 20));
        if room.name() != self.refusals.watched.name() {
            match room {
                DiskRoom::Enough { .. } => {
                    log::info(&format!("{free} MiB are left on the disk of {folder}: enough for writes"))
                }
                DiskRoom::Low { .. } => log::error(&format!(
                    "only {free} MiB are left on the disk of {folder}, and the low mark is {mark} MiB: this node takes no writes that may grow until \
                     {missing} MiB more are free. What frees room is taken (DEL, UNLINK, FLUSHDB, dictum bucket drop), and reads go on. Or enlarge \
                     the disk, or lower the mark (--disk-low-mark or DICTUM_DISK_LOW_MARK; 0 for none)"
                )),
                DiskRoom::Full { .. } => log::error(&format!(
                    "only {free} MiB are left on the disk of {folder}, and no reserve: this node takes no writes at all until there is more; reads \
                     go on. Remove what is not Dictum's from that disk, or enlarge it by {missing} MiB"
                )),
            }
        }
        self.refuse(now, Refusals { watched: room, ..self.refusals });
    }

    fn on_control(&mut self, control: Control, now: Now) {
        match control {
            Control::Stop => {
                log::info("stopping: handing over");
                self.vital_signs.stop("stopping: hands over");
                self.stop_at.get_or_insert(now.time + STOP_TIMEOUT);
                self.node.step(now, Input::Stop, &mut self.outbox);
            }
            Control::JournalFull(full) => {
                // The journal tries again by itself, and then it has what the reserve had.
                if full && !low_disk::give_up_reserve(self.disk.path()) {
                    log::error(&format!(
                        "no room is left on the disk of {}: this node takes no writes at all until there is more; reads go on. Remove what is not \
                         Dictum's from that disk, or enlarge it",
                        self.disk.path().display()
                    ));
                }
                self.refuse(now, Refusals { journal_full: full, ..self.refusals });
            }
            Control::FolderGone(what) => {
                self.outbox.fatal.get_or_insert_with(|| {
                    format!(
                        "{what}: the folder of this node was removed, replaced or unmounted while it ran. Nobody would find what it goes on to write, so it acknowledges nothing more. \
                         Mount the folder or put it back, and start the node again; if it is lost, start with an empty one while a majority of the others is well: everything comes from them"
                    )
                });
            }
            Control::DiskRoom(passed) => self.on_room(now, passed),
            Control::Snapshot(partition, position, Ok(())) => {
                self.node.step(now, Input::SnapshotSaved { partition, position }, &mut self.outbox);
            }
            Control::Snapshot(partition, position, Err(error)) => {
                // It is tried again, and then it has what the reserve had.
                if error.kind() == io::ErrorKind::StorageFull {
                    low_disk::give_up_reserve(self.disk.path());
                }
                log::warning(&format!("the snapshot at {position} could not be written: {error}"));
                let failed = Input::SnapshotFailed { partition, position, reason: error.to_string() };
                self.node.step(now, failed, &mut self.outbox);
            }
            Control::BlockMade(made) => self.node.step(now, Input::BlockMade(made), &mut self.outbox),
            Control::BlocksTaken(taken) => self.node.step(now, Input::BlocksTaken(taken), &mut self.outbox),
            Control::PasswordTried(number, work, outcome) => {
                self.node.step(now, Input::PasswordTried { number, work, outcome }, &mut self.outbox);
            }
            Control::ErrandDone(connection, slot, answer) => {
                self.node.step(now, Input::ErrandDone { connection, slot, answer }, &mut self.outbox);
            }
            Control::FullSyncEnded(FullSync { connection, slot, .. }, error) => {
                self.node.step(now, Input::FullSyncEnded { connection, slot, error }, &mut self.outbox);
            }
            Control::Password(password) => self.node.step(now, Input::Password(password), &mut self.outbox),
            Control::Resolved(peer, address) => {
                self.peers.dial_address(peer, address, self.poll.registry(), now.time);
            }
            Control::Handshaken(connection, outcome) => {
                if let Ok((_, session)) = &outcome {
                    let (terms, name) = (session.terms(), session.name().map(str::to_owned));
                    let secured = Input::Secured { connection: ConnectionId(connection), terms, name };
                    self.node.step(now, secured, &mut self.outbox);
                }
                self.serve(ConnectionId(connection), Deed::Secured(outcome), now);
                self.porters.hand_over();
            }
            Control::Arrived(arrival) => self.peers.arrive(*arrival, self.poll.registry(), now.time),
        }
    }
}
