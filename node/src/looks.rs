//! Writes that look first: a write that would change nothing needs no entry.
//!
//! A worker that polls an empty queue, a lock that is taken, a member that is in its set already: commands of the flag [`Flags::OFTEN_NOTHING`] often change nothing,
//! and then all that an entry would do is to give the answer its place in the order. A read position does the same for less.
//!
//! ```text
//!   the connection's last such write changed nothing ─► look: a read with its position ─► would change nothing ─► its answer
//!                                                                                     └─► would change something ─► a write, as ever
//! ```
//! 1. The look carries the command itself out on the state, and takes that back (`data::look`): there is no second reading of what a command means.
//! 2. A look that finds something becomes a write in its own place, and so do all looks of the connection behind it; reads behind them wait for them.
//! 3. While a connection has looks on their way, no other write of it is taken: it would be in the log before them.

use base::{PartitionId, Revision, WallTime};
use bytes::Bytes;
use data::room::is_growing;
use data::spec::{Flags, Spec};
use data::{EntryContext, Failure, Reply};

use crate::door::{ConnectionId, Planted};
use crate::entry::Kind;
use crate::group::Group;
use crate::lane::Read;
use crate::node::{Node, place_of};
use crate::router::{ReadKind, Waiter};
use crate::session::Session;
use crate::turn::reads::note_read;
use crate::words::{Terms, Words};

const UNREADABLE: Failure = Failure::Text("ERR the command could not be read back");

impl Node {
    /// Whether a command of the connection, which writes, is to look first.
    pub(crate) fn looks_first(&self, session: &Session, partition: PartitionId, spec: &Spec) -> bool {
        spec.flags.has(Flags::OFTEN_NOTHING)
            && (session.expects_nothing || session.lane(partition).is_some_and(|lane| lane.looks > 0))
            && place_of(&self.groups, partition)
                .is_some_and(|g| self.groups[g].elsewhere.is_none() && matches!(self.is_for_all(session, g), Ok(false)))
    }

    /// Gives a write that looks first to the router. `body` is that of its entry.
    pub(crate) fn submit_look(&mut self, session: &mut Session, partition: PartitionId, body: &[u8]) {
        if self.submit_read(session, partition, ReadKind::Look, |out| out.extend_from_slice(body)).is_none() {
            return;
        }
        let lane = session.open_lane(partition);
        lane.looks += 1;
        if self.config.planted == Some(Planted::LookTooSoon)
            && let Some(read) = lane.reads.back_mut()
            && let Some(g) = place_of(&self.groups, partition)
        {
            read.floor = Some(Revision(0));
            self.groups[g].router.weak.push(session.id);
        }
    }

    /// Gives a write to the router that will tell whether the next one had better look first.
    pub(crate) fn submit_command(
        &mut self,
        session: &mut Session,
        partition: PartitionId,
        (spec, grows): (&Spec, bool),
        body: Bytes,
    ) {
        let slot = self.submit_write(session, partition, (Kind::Command, grows), body);
        if slot.is_some()
            && spec.flags.has(Flags::OFTEN_NOTHING)
            && let Some(g) = place_of(&self.groups, partition)
            && let Some(lane) = session.lane(partition)
            && let Some(write) = self.groups[g].router.get_mut(lane.last_write)
        {
            write.may_look = true;
        }
    }

    /// Looks for the first read of a connection, which is a look: answers it, or makes writes of it and of all looks behind it.
    pub(crate) fn look(&mut self, g: usize, connection: ConnectionId, read: &Read, clock: WallTime) {
        let Some(Some(session)) = self.sessions.get_mut(&connection) else { return };
        let partition = &mut self.groups[g].partition;
        partition.last_uses.turn(self.now.time, partition.tree.len());
        let Some(lane) = session.lane(partition.id) else { return };
        let bytes = lane.words_of(read);
        let seed = self.rng.next_u64();
        let words = Terms::split(Kind::Command, bytes).and_then(|(terms, body)| Ok((terms, Words::decode(body)?)));
        let answer = match &words {
            Ok((terms, words)) => {
                let context = EntryContext {
                    time: clock,
                    seed,
                    value_bytes_max: terms.value_bytes_max,
                    ttl_ms: terms.ttl_ms,
                    full_at_bytes: terms.full_at_bytes,
                    names_events: false,
                    recorded_bytes_max: None,
                    slots: terms.slots,
                    work_max: terms.work_max,
                    version: self.entries_in,
                };
                data::look(&mut partition.tree, &context, words.as_slice())
            }
            Err(_) => Some(Reply::Error(UNREADABLE)),
        };
        let Some(answer) = answer else {
            session.expects_nothing = false;
            self.probe("node: write looked and found something");
            return self.write_after_look(g, connection);
        };
        if let Ok((_, words)) = &words {
            partition.last_uses.touch_keys(words.as_slice());
        }
        if let (Some(evicting), Ok((_, words))) = (partition.evicting.as_mut(), &words) {
            evicting.touch_keys(words.as_slice(), &partition.tree, partition.replica.leads().is_none());
        }
        let (id, revision) = (partition.id, partition.tree.revision());
        note_read(&mut self.slow, self.now, session, id, read);
        session.expects_nothing = true;
        session.see(id, revision);
        if let Some(lane) = session.lane_mut(id) {
            lane.pop_read_if(|_| true);
        }
        self.stats.reads += 1;
        self.slow.durations.note(read.command, self.now.time.since(read.arrived));
        self.probe("node: write looked and found nothing to do");
        self.deliver(connection, read.slot, &answer);
    }

    /// Makes writes of all looks of a connection.
    fn write_after_look(&mut self, g: usize, connection: ConnectionId) {
        let [refusal, refusal_to_grow] = [false, true].map(|grows| self.refusal(g, grows));
        let Some(Some(session)) = self.sessions.get_mut(&connection) else { return };
        let mut refused = Vec::new();
        let Group { partition, router, .. } = &mut self.groups[g];
        let Some(lane) = session.lane_mut(partition.id) else { return };
        lane.take_looks(|read, bytes, reads_before| {
            let grows = data::lookup(read.command.as_bytes()).is_none_or(|it| is_growing(it.spec, read.command));
            if let Some(failure) = if grows { &refusal_to_grow } else { &refusal } {
                refused.push((read.slot, failure.clone()));
                return None;
            }
            let waiter = Waiter::Client { connection, slot: read.slot };
            let number =
                router.write(Kind::Command, Bytes::copy_from_slice(bytes), waiter, read.arrived, read.deadline);
            if let Some(write) = router.get_mut(number) {
                write.may_look = true;
                write.command = read.command;
                write.reads_before = reads_before;
            }
            Some(number)
        });
        for (slot, failure) in refused {
            self.deliver(connection, slot, &Reply::Error(failure));
        }
    }
}
