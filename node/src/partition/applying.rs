//! From decided entries to changes of the state, and to the replies of this node's own writes.

use base::limits::RECORDED_VALUE_BYTES_MAX;
use base::{NodeId, Position, Revision, WallTime};
use data::{Applied, ChangeRecord, EntryContext, Failure, Reply, Spec};
use paxos::{Entry, Members};

use super::{Completed, Next, Partition, Records, Wishes};
use crate::council;
use crate::door::Planted;
use crate::entry::{Header, Kind, Origin, Unreadable};
use crate::eviction::Eviction;
use crate::journal::Batch;
use crate::origins::Verdict;
use crate::peer::carried::Outcome;
use crate::step_over::void::Void;
use crate::subscriptions;
use crate::versions::too_old;
use crate::words::{self, Terms, Words};

/// What a client hears whose write was stepped over.
const STEPPED_OVER: Failure =
    Failure::Text("STEPPEDOVER an operator has stepped over this entry of the log; the command was not done");

impl Next {
    /// Whose write it is, if it is one.
    pub(crate) fn origin(&self) -> Option<Origin> {
        self.header.as_ref().ok().map(|(header, _)| header.origin)
    }
}

impl Partition {
    /// The next entry to apply, if it is decided and held.
    pub(crate) fn next_entry(&self) -> Option<Next> {
        if self.applied >= self.replica.decided() {
            return None;
        }
        let position = self.applied.next();
        let entry = self.replica.log().get(position)?;
        let place = |(header, body): (Header, &[u8])| (header, entry.payload.len() - body.len());
        let header = Header::decode(&entry.payload, self.newest).map(place);
        let is_void = matches!(&header, Ok((Header { kind: Kind::Void, .. }, _)));
        if !self.steps.lets(position, is_void) {
            return None;
        }
        Some(Next { header, entry: entry.clone() })
    }

    /// The number of this node's own write that `next` is, if it is one.
    pub(crate) fn own_write(&self, next: &Next) -> Option<u64> {
        let origin = next.origin()?;
        (origin.node == self.me && origin.life == self.life).then_some(origin.sequence)
    }

    /// A command is on its way: the state may fetch what it will need.
    pub(crate) fn notice(&self, spec: &Spec, words: &[&[u8]]) {
        if self.tree.wants_notice() {
            self.notice_keys(spec, words);
        }
    }

    fn notice_keys(&self, spec: &Spec, words: &[&[u8]]) {
        spec.keys_of(words).into_iter().for_each(|key| self.tree.notice(key));
    }

    /// The same for entries that go to the journal: they are applied after it, and another round.
    pub(super) fn notice_entries(&self, entries: &[Entry]) {
        for entry in entries {
            if !self.tree.wants_notice() {
                return;
            }
            let Ok((header, body)) = Header::decode(&entry.payload, self.newest) else { continue };
            // What came from here was noticed when it came.
            if header.kind != Kind::Command || header.origin.node == self.me {
                continue;
            }
            let words = Terms::split(header.kind, body).and_then(|(_, body)| Words::decode(body));
            let Ok(words) = words else { continue };
            let words = words.as_slice();
            if let Some(command) = words.first().and_then(|name| data::lookup(name)) {
                self.notice_keys(command.spec, words);
            }
        }
    }

    /// Applies the entry that [`Partition::next_entry`] has just given.
    pub(crate) fn apply(&mut self, next: Next, wishes: &mut Wishes) {
        let position = self.applied.next();
        self.applied = position;
        self.applied_ballot = next.entry.ballot;
        self.bytes_since_snapshot += next.entry.weight() as u64;
        // The entry that opens a leadership changes nothing.
        if next.entry.payload.is_empty() {
            return;
        }
        if Members::is_in(&next.entry.payload) {
            match Members::decode(position, &next.entry.payload) {
                Ok(members) => self.origins.members = Some(members),
                Err(_) => wishes.fatal = Some(format!("entry {position} of partition {} names no voters", self.id)),
            }
            return;
        }
        if matches!(&next.header, Ok((Header { kind: Kind::Void, .. }, _)))
            && let Some(void) = Void::read(&next.entry.payload)
        {
            // Also where the numbering says that it is a repetition: the state is one that has gone over it.
            self.origins.note_void(position, void.digest);
            self.steps.pass(position);
        }
        let result = match next.header {
            Ok((header, body_at)) => {
                self.apply_command(position, &header, &next.entry.payload[body_at..], wishes).map_err(str::to_owned)
            }
            Err(Unreadable::Version(version)) => Err(too_old(version, self.newest)),
            Err(Unreadable::Malformed) => {
                Err("it is malformed, or of a kind that this version does not know".to_owned())
            }
        };
        if let Err(text) = result {
            wishes.fatal = Some(format!("entry {position} of partition {} cannot be applied: {text}", self.id));
        }
    }

    fn apply_command(
        &mut self,
        position: Position,
        header: &Header,
        body: &[u8],
        wishes: &mut Wishes,
    ) -> Result<(), &'static str> {
        let origin = header.origin;
        match self.origins.judge(&origin) {
            Verdict::Apply => {}
            Verdict::Repeat if self.planted == Some(Planted::ApplyRetryTwice) && origin.sequence > 0 => {}
            Verdict::Repeat | Verdict::Gap => return Ok(()),
        }
        let (terms, body) = Terms::split(header.kind, body).map_err(|_| "its terms are malformed")?;
        self.origins.note_stamp(header.version, header.time);
        let is_recorded = self.origins.records(header.time) && header.kind != Kind::Council;
        let before = self.tree.revision();
        let context = EntryContext {
            time: header.time,
            seed: header.seed,
            value_bytes_max: terms.value_bytes_max,
            ttl_ms: terms.ttl_ms,
            names_events: self.names_events,
            recorded_bytes_max: is_recorded.then_some(RECORDED_VALUE_BYTES_MAX),
            slots: terms.slots,
            work_max: match self.planted {
                Some(Planted::BudgetByNode) => terms.work_max + 100 * u64::from(self.me.0),
                _ => terms.work_max,
            },
            version: header.version,
            full_at_bytes: if self.planted == Some(Planted::FullBucketGrows) { 0 } else { terms.full_at_bytes },
        };
        let permit = words::permit_of_write(header.kind, body).map_err(|_| "what its scripts may call is malformed")?;
        self.tree.under_way().set(permit.filter(|_| self.planted != Some(Planted::ScriptsUnjudged)));
        let applied = match header.kind {
            Kind::Command => {
                let words = Words::decode(body).map_err(|_| "its command is malformed")?;
                let applied = data::apply(&mut self.tree, &context, words.as_slice());
                if applied.changes.is_empty() {
                    self.last_uses.touch_keys(words.as_slice());
                }
                if let Some(evicting) = self.evicting.as_mut().filter(|_| applied.changes.is_empty()) {
                    evicting.touch_keys(words.as_slice(), &self.tree, false);
                }
                applied
            }
            Kind::Transaction => {
                let (watches, commands) =
                    words::decode_transaction(body).map_err(|_| "its transaction is malformed")?;
                let commands: Vec<&[&[u8]]> = commands.iter().map(Words::as_slice).collect();
                data::apply_transaction(&mut self.tree, &context, &watches, &commands)
            }
            Kind::Once => {
                let (id, words) = words::decode_once(body).map_err(|_| "its command is malformed")?;
                data::apply_once(&mut self.tree, &context, id, words.as_slice())
            }
            Kind::Expire => data::expire_batch(&mut self.tree, &context),
            Kind::Void => Applied::unchanged(Reply::Error(STEPPED_OVER)),
            Kind::Council => {
                let (planted, newest) = (self.planted, self.newest);
                let reply = council::apply_planted(&mut self.tree, &context, position, body, (planted, newest))?;
                Applied::unchanged(reply)
            }
            Kind::Evict => {
                let Eviction { down_to, victims } =
                    Eviction::decode(body).map_err(|_| "its list of keys is malformed")?;
                data::evict(&mut self.tree, &context, &victims, down_to)
            }
            Kind::Time => {
                let applied = data::set_time_back(&mut self.tree, header.time);
                (self.proposed_time, self.brings_back) = (self.tree.time(), false);
                self.origins.bring_back(self.tree.time(), subscriptions::LEASE_MS_MAX);
                applied
            }
            Kind::Compare => Applied::unchanged(Reply::Ok),
            Kind::Record => {
                let ms = subscriptions::lease_of(body).ok_or("its time is malformed")?;
                let until = WallTime(header.time.0.saturating_add(ms));
                self.origins.recorded_until = self.origins.recorded_until.max(until);
                Applied::unchanged(Reply::Integer(i64::try_from(before.0).unwrap_or(i64::MAX)))
            }
        };
        if self.planted == Some(Planted::StateDrifts)
            && self.me == NodeId(1)
            && !self.drifted
            && position.0.is_multiple_of(8)
        {
            self.drifted = true;
            data::apply(&mut self.tree, &context, &[b"set", b"drifted", b"1"]);
        }
        applied.changes.iter().for_each(|change| self.last_uses.touch(&change.key));
        self.watch_changes(position, &applied, wishes);
        let changes = !applied.changes.is_empty();
        if self.tells_changes {
            wishes.changes.extend(applied.changes);
        }
        wishes.key_events.extend(applied.events);
        self.note_records(before, (is_recorded, header.kind == Kind::Record), applied.records, wishes);
        let reply = applied.reply;
        self.commands_applied += 1;
        let floor = if self.planted == Some(Planted::AnswerKeptForEver) { 0 } else { origin.floor };
        self.origins.note(&Origin { floor, ..origin }, reply.clone(), header.version);
        if header.kind == Kind::Compare {
            wishes.compared.push((position, self.image()));
        }
        if origin.node == self.me {
            if origin.life == self.life {
                // The node that the client is connected to passes on what its script says: once, as the entry is applied once.
                wishes.published.extend(applied.published);
                let refused = self.tree.under_way().take_refused();
                if !refused.is_empty() {
                    wishes.refused.insert(origin.sequence, refused);
                }
                let revision = self.tree.revision();
                wishes.completed.push(Completed { sequence: origin.sequence, position, revision, reply, changes });
            }
        } else if self.told.contains(&origin.node) {
            let (sequence, revision, published) = (origin.sequence, self.tree.revision(), applied.published);
            let outcome = Outcome { sequence, position, revision, changes, reply, published };
            self.outcomes.push((origin.node, origin.life, outcome));
        } else if !self.waiting.contains(&origin.node) {
            self.waiting.push(origin.node);
        }
        if changes {
            let eager = self.eager.iter().filter(|node| !self.waiting.contains(node) && **node != self.me);
            self.waiting.extend(eager.copied().collect::<Vec<_>>());
        }
        Ok(())
    }

    /// Hands the records of an entry over that was applied to a state of the revision `before`.
    fn note_records(
        &mut self,
        before: Revision,
        (is_recorded, begins): (bool, bool),
        records: Vec<ChangeRecord>,
        wishes: &mut Wishes,
    ) {
        let changed = self.tree.revision().0 - before.0;
        if changed == records.len() as u64 && (begins || changed > 0) {
            wishes.records.push(Records { before, stamp: self.origins.stamp, records });
        } else if changed > 0 && std::mem::replace(&mut self.has_recorded, is_recorded) {
            // Also where a change has no record, which must not be: its subscribers are told a gap.
            wishes.records.clear();
            wishes.unrecorded = true;
        }
        self.has_recorded |= is_recorded || begins;
    }

    /// Tells followers whose clients wait for it what is decided.
    pub(crate) fn announce(&mut self, batch: &mut Batch, wishes: &mut Wishes) {
        for node in std::mem::take(&mut self.waiting) {
            self.replica.announce(node, &mut self.outputs);
        }
        self.settle(batch, wishes);
    }
}
