//! Clients that wait for entries of streams.
//!
//! `XREAD` takes nothing out. It begins as any read; if that finds nothing its node keeps it, with `$` replaced by the last entry that there was, and reads once more whenever an entry of the log has changed one
//! of its keys: then nobody need be asked, as what is applied here is later than what was read first. All who wait for a stream are told.
//!
//! `XREADGROUP` is an entry of the log as `BLPOP` is, and of those who wait on a node as many go as there are entries for their group. If the group is gone, or its stream, all of them go, and are told so by their
//! entries.

use std::collections::BTreeMap;

use base::{PartitionId, WallTime};
use bytes::Bytes;
use data::View;
use data::waiting::{Wait, is_stream, unread};
use wire::ArgumentsRef;

use super::TOO_MANY;
use crate::lane::Read;
use crate::node::Node;
use crate::router::ReadKind;
use crate::session::Session;
use crate::words::{Words, encode_keys};

/// The words of a read that has found nothing, as it waits: encoded, as those of `bytes` are.
pub(crate) fn settled(view: &View<'_>, bytes: &[u8]) -> Bytes {
    let mut encoded = Vec::new();
    if let Ok(words) = Words::decode(bytes) {
        let words = data::waiting::settled(view, words.as_slice());
        encode_keys(words.iter().map(Vec::as_slice), &mut encoded);
    }
    Bytes::from(encoded)
}

impl Node {
    /// Carries out a read that waits if it finds nothing.
    pub(crate) fn submit_waiting_read(
        &mut self,
        session: &mut Session,
        partition: PartitionId,
        wait: Wait,
        arguments: ArgumentsRef<'_>,
    ) {
        let bytes = arguments.encoded_bytes();
        if !self.has_place_for(&wait, bytes) {
            return self.refuse(session, &TOO_MANY);
        }
        let submitted = self.submit_read(session, partition, ReadKind::Command, |out| arguments.encode_into(out));
        let Some(slot) = submitted else { return };
        self.let_wait(session, partition, wait, slot, bytes);
    }

    /// A read has found nothing: its client waits with these words.
    pub(crate) fn read_found_nothing(&mut self, number: u64, words: Bytes) {
        self.rest(number, words, false);
    }

    /// Serves those of `numbers` for whom there is something in the stream under `key`.
    pub(super) fn serve_streams(&mut self, g: usize, key: &[u8], numbers: &[u64]) {
        if numbers.is_empty() {
            return;
        }
        let is_there = is_stream(&self.groups[g].partition.tree, key);
        // By group, what is left for those behind; none: all of them are to be told that it is gone.
        let mut left: BTreeMap<Vec<u8>, Option<u64>> = BTreeMap::new();
        for number in numbers {
            let Some(waiting) = self.waiting.all.get(number).filter(|_| !self.is_forgotten(*number)) else { continue };
            let Some((group, takes)) = waiting.wait.group.clone() else {
                if is_there {
                    self.read_again(g, *number);
                }
                continue;
            };
            let tree = &self.groups[g].partition.tree;
            let left = left.entry(group).or_insert_with_key(|group| unread(tree, key, group, numbers.len()));
            if *left == Some(0) {
                continue;
            }
            *left = left.map(|left| left.saturating_sub(takes));
            if !self.send_waiting(g, *number) {
                // Writes are refused just now: later.
                let place = (self.groups[g].id(), key.to_vec());
                self.waiting.touched.insert(place);
            }
        }
    }

    /// Has somebody's read carried once more.
    pub(super) fn read_elsewhere(&mut self, g: usize, number: u64) {
        let Some(waiting) = self.waiting.all.get_mut(&number) else { return };
        let Some(words) = waiting.body.take() else { return };
        let (connection, slot, tracks) = (waiting.connection, waiting.slot, waiting.tracks);
        let (now, deadline) = (self.now.time, self.now.time + self.config.request_timeout);
        let id = self.groups[g].id();
        let Some(Some(session)) = self.sessions.get_mut(&connection) else { return };
        let command = session.last_command;
        let lane = session.open_lane(id);
        let start = lane.read_bytes.len();
        lane.read_bytes.extend_from_slice(&words);
        let (end, after) = (lane.read_bytes.len(), lane.last_write);
        let kind = ReadKind::Command;
        let read = Read { slot, kind, command, start, end, after, tracks, floor: None, arrived: now, deadline };
        lane.reads.push_back(read);
        self.gather_away(g, connection);
    }

    /// Reads for somebody who waits, from this node's own state: that is later than what his first read has seen.
    fn read_again(&mut self, g: usize, number: u64) {
        let Some(waiting) = self.waiting.all.get(&number) else { return };
        let Some(words) = waiting.body.clone() else { return };
        let (connection, slot, tracks, partition) =
            (waiting.connection, waiting.slot, waiting.tracks, waiting.partition);
        let seed = self.rng.next_u64();
        // The state's own time: a key that no entry has expired is there for everybody.
        let view = View::new(&self.groups[g].partition.tree, WallTime(0), seed);
        let Ok(decoded) = Words::decode(&words) else { return };
        let answer = data::read(&view, decoded.as_slice());
        if data::commands::stream::xread::is_nothing(&answer) {
            return;
        }
        self.probe("node: waiting client found something");
        let session = self.sessions.get(&connection).and_then(Option::as_ref);
        let uses = session.is_some_and(|session| !session.no_touch);
        let group = &mut self.groups[g];
        let revision = group.partition.tree.revision();
        if let Some(evicting) = group.partition.evicting.as_mut() {
            let tells = group.partition.replica.leads().is_none();
            evicting.touch_read(ReadKind::Command, &words, &group.partition.tree, uses, tells);
        }
        let fresh_at = group.router.fresh_at;
        if let Some(Some(session)) = self.sessions.get_mut(&connection) {
            session.see(partition, revision);
            session.levels.read_from(fresh_at);
        }
        self.deliver(connection, slot, &answer);
        if tracks {
            let keys = data::lookup(b"xread").map(|entry| entry.spec.keys_of(decoded.as_slice())).unwrap_or_default();
            self.remember_keys(partition, keys.into_iter(), connection);
        }
    }
}
