//! Commands into the router: a slot for the reply, a lane for the partition, and why something cannot be taken.

use base::limits::{BODY_BYTES_MAX, CONNECTION_PENDING_BYTES_MAX, COUNCIL_ORDER_BYTES_MAX, OUTSTANDING_REQUESTS_MAX};
use base::{BucketId, PartitionId};
use bytes::Bytes;
use data::Failure;
use data::spec::{Flags, Spec};
use wire::Arguments;

use crate::choice::{NOT_CHOSEN, NOTHING_CHOSEN};
use crate::council::COUNCIL;
use crate::entry::Kind;
use crate::group::Group;
use crate::lane::{Lane, Read};
use crate::node::{Node, place_of};
use crate::router::{ReadKind, Waiter};
use crate::routing::Combine;
use crate::session::Session;
use crate::tracking::Tracked;

const OVERLOADED: &str = "CLUSTERDOWN too many requests are waiting; the command was not done, try again later";
const BODY_TOO_LARGE: &str = "ERR the command, or the transaction, is too large: more than 529 MiB with the lengths of its words; nothing was done";
const _: () = assert!(BODY_BYTES_MAX == 529 << 20, "the text says so");
const ORDER_TOO_LARGE: &str = "ERR the order to the cluster is too large: more than 4 MiB; nothing was done";
const _: () = assert!(COUNCIL_ORDER_BYTES_MAX == 4 << 20, "the text says so");
const NO_BUCKET: &str = "ERR the selected bucket is not there any more; SELECT another one";
const NO_REPLICA_YET: &str =
    "CLUSTERDOWN this node has no replica of the bucket yet; the command was not done, try again";

impl Node {
    /// This node has no replica of the partition that a command is for.
    pub(crate) fn refuse_without_group(&mut self, session: &mut Session) {
        let failure = self.why_without_group(session.aim);
        self.refuse(session, &failure);
    }

    fn why_without_group(&self, bucket: BucketId) -> Failure {
        Failure::Text(match self.buckets.of(bucket) {
            Some(_) => NO_REPLICA_YET,
            None if bucket == NOT_CHOSEN => NOTHING_CHOSEN,
            None => NO_BUCKET,
        })
    }

    /// The name of the bucket that a connection is in.
    ///
    /// # Errors
    /// If it is in none that is there.
    pub(crate) fn name_of_bucket(&self, session: &Session) -> Result<String, Failure> {
        match self.buckets.of(session.bucket) {
            Some(bucket) => Ok(bucket.name.clone()),
            None => Err(self.why_without_group(session.bucket)),
        }
    }

    /// Why a write cannot be taken, if so. `grows`: it may make the state larger.
    pub(crate) fn refusal(&self, g: usize, grows: bool) -> Option<Failure> {
        let Group { router, copies, .. } = &self.groups[g];
        let (waiting, bytes) = (router.writes.len() + copies.held.len(), router.bytes + copies.held_bytes);
        if waiting >= OUTSTANDING_REQUESTS_MAX || bytes >= self.config.snapshots.undecided_bytes_max {
            return Some(Failure::Text(OVERLOADED));
        }
        self.refusal_of_disks(g, grows)
    }

    /// Why a write, or a read that may have to be carried to another node, is too large for the log and for messages, if so. This is the one place that looks, so that
    /// nothing later need.
    fn refusal_of_size(&mut self, partition: PartitionId, bytes: usize) -> Option<&'static str> {
        let (most, refusal) = match partition {
            COUNCIL => (COUNCIL_ORDER_BYTES_MAX, ORDER_TOO_LARGE),
            _ => (BODY_BYTES_MAX, BODY_TOO_LARGE),
        };
        if bytes <= most {
            return None;
        }
        self.probe("node: command too large to be proposed");
        Some(refusal)
    }

    /// Gives a write to the router; answers at once if it cannot be taken. `grows`: it may make the state larger. Returns the slot of its reply.
    pub(crate) fn submit_write(
        &mut self,
        session: &mut Session,
        partition: PartitionId,
        (kind, grows): (Kind, bool),
        body: Bytes,
    ) -> Option<u64> {
        let Some(g) = place_of(&self.groups, partition) else {
            self.refuse_without_group(session);
            return None;
        };
        let refusal = self.refusal_of_size(partition, body.len()).map(Failure::Text).or_else(|| self.refusal(g, grows));
        if let Some(failure) = refusal {
            self.refuse(session, &failure);
            return None;
        }
        let on_all = match self.is_for_all(session, g) {
            Ok(on_all) => on_all,
            Err(failure) => {
                self.refuse(session, &failure);
                return None;
            }
        };
        let slot = session.open_slot(body.len());
        self.write_in_slot(session, g, kind, body, slot, on_all);
        Some(slot)
    }

    /// Gives a write to the router whose reply has a slot already, or a part of one.
    pub(crate) fn write_in_slot(
        &mut self,
        session: &mut Session,
        g: usize,
        kind: Kind,
        body: Bytes,
        slot: u64,
        on_all: bool,
    ) {
        let deadline = self.deadline_of_write(session.id);
        let waiter = Waiter::Client { connection: session.id, slot };
        let Group { partition, router, .. } = &mut self.groups[g];
        let (command, connection_tracks) =
            (session.last_command, session.tracked.as_deref().is_some_and(Tracked::notes_reads));
        let lane = session.open_lane(partition.id);
        lane.last_write = router.write(kind, body, waiter, self.now.time, deadline);
        if let Some(write) = router.get_mut(lane.last_write) {
            write.command = command;
            write.reads_before = !lane.reads.is_empty();
            write.on_all = on_all;
            write.tracks = kind == Kind::Transaction && connection_tracks;
        }
    }

    /// Gives a read to the router. Returns the slot of its reply.
    pub(crate) fn submit_read(
        &mut self,
        session: &mut Session,
        partition: PartitionId,
        kind: ReadKind,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Option<u64> {
        let Some(g) = place_of(&self.groups, partition) else {
            self.refuse_without_group(session);
            return None;
        };
        // As long as no lane has more than its share nobody need count what is in all of them.
        let share = CONNECTION_PENDING_BYTES_MAX / session.lanes.len().max(1);
        let is_over = |lane: &Lane| lane.read_bytes.len() >= share;
        if session.lane(partition).is_some_and(is_over) && session.read_bytes() >= CONNECTION_PENDING_BYTES_MAX {
            self.refuse(session, &Failure::Text(OVERLOADED));
            return None;
        }
        let slot = session.open_slot(0);
        self.read_in_slot(session, g, kind, slot, encode);
        Some(slot)
    }

    /// Gives a read to the router whose reply has a slot already, or a part of one.
    pub(crate) fn read_in_slot(
        &mut self,
        session: &mut Session,
        g: usize,
        kind: ReadKind,
        slot: u64,
        encode: impl FnOnce(&mut Vec<u8>),
    ) {
        let arrived = self.now.time;
        // Behind a lease the command waits once more.
        let patience = if session.has_asked_for_lease { 2 } else { 1 };
        let deadline = arrived + self.config.request_timeout / patience;
        let floor = self.floor(session, g, kind);
        let is_away = self.groups[g].elsewhere.is_some();
        let tracks = session.tracked.as_deref().is_some_and(Tracked::notes_reads);
        let (id, command) = (session.id, session.last_command);
        let Group { partition, router, .. } = &mut self.groups[g];
        let lane = session.open_lane(partition.id);
        let start = lane.read_bytes.len();
        encode(&mut lane.read_bytes);
        let end = lane.read_bytes.len();
        let after = lane.last_write;
        lane.reads.push_back(Read { slot, kind, command, start, end, after, tracks, floor, arrived, deadline });
        if floor.is_some() && !is_away {
            if !std::mem::replace(&mut lane.weak, true) {
                router.weak.push(id);
            }
        } else if !std::mem::replace(&mut lane.gathered, true) {
            router.gather(id, deadline);
        }
    }

    /// Carries a command out that several partitions answer. Returns the slot of its reply.
    pub(crate) fn submit_several(
        &mut self,
        session: &mut Session,
        spec: &Spec,
        parts: Vec<(PartitionId, Arguments)>,
        how: Combine,
    ) -> Option<u64> {
        let writes = spec.flags.has(Flags::WRITE);
        let mut groups = Vec::with_capacity(parts.len());
        let mut on_all = false;
        for (partition, words) in &parts {
            // All or none, as far as that is known now.
            let Some(g) = place_of(&self.groups, *partition) else {
                self.refuse_without_group(session);
                return None;
            };
            if writes {
                let grows = self.needs_room(*partition, spec, words.as_ref());
                if let Some(failure) = self.refusal(g, grows) {
                    self.refuse(session, &failure);
                    return None;
                }
            }
            on_all = match self.is_for_all(session, g) {
                Err(failure) if writes => {
                    self.refuse(session, &failure);
                    return None;
                }
                answer => answer.unwrap_or(false),
            };
            groups.push(g);
        }
        if session.read_bytes() >= CONNECTION_PENDING_BYTES_MAX {
            self.refuse(session, &Failure::Text(OVERLOADED));
            return None;
        }
        self.probe("node: command of several partitions");
        let bytes: usize = parts.iter().map(|(_, words)| words.as_ref().encoded_bytes()).sum();
        let slot = session.open_parts(if writes { bytes } else { 0 }, parts.len(), how);
        for (place, (g, (_, words))) in groups.into_iter().zip(parts).enumerate() {
            let part = Session::part_of(slot, place);
            if writes {
                let mut body = Vec::new();
                self.terms(self.groups[g].id()).encode(spec.flags, &mut body);
                words.as_ref().encode_into(&mut body);
                self.write_in_slot(session, g, Kind::Command, Bytes::from(body), part, on_all);
            } else {
                self.read_in_slot(session, g, ReadKind::Command, part, |out| words.as_ref().encode_into(out));
            }
        }
        Some(slot)
    }
}
