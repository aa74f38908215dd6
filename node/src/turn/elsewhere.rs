//! Commands for partitions of which this node has no state: carried to the leader, and answered with what it says. See [`crate::elsewhere`].

use base::limits::{ACCEPT_BYTES_TARGET, CLOSE_ENTRIES};
use base::versions::Feature;
use base::{Ballot, NodeId, PartitionId, Position, Revision, Time};
use data::Blob;
use paxos::RoleName;

use super::reads::note_read;
use crate::door::ConnectionId;
use crate::elsewhere::{CARRIED_READS_MAX, Elsewhere, Question, STRAIGHT_FOR, VOTERS_TO_VOUCH};
use crate::entry::{Kind, Life};
use crate::lane::Read;
use crate::node::{Node, news_of, place_of};
use crate::partition::Completed;
use crate::peer::PeerMessage;
use crate::peer::carried::{CarriedAnswer, CarriedRead, Outcome};
use crate::router::{ASK_AGAIN_AFTER, ReadKind, Waiter};
use crate::session::{Block, Session};
use crate::subscriptions;
use crate::words::{self, Terms, Words};

impl Node {
    /// Who leads a partition, as far as this node knows: by its own replica, or, where that knows nothing, by what the nodes say of themselves.
    pub(crate) fn leader_of(&self, g: usize) -> Option<(NodeId, Ballot)> {
        let group = &self.groups[g];
        match &group.elsewhere {
            Some(elsewhere) => elsewhere.leader,
            None => group.partition.replica.leader(),
        }
    }

    /// Finds out who leads a partition of which this node knows by others alone: to be called whenever they, or the detectors, say something else.
    pub(crate) fn look_for_leader(&mut self, g: usize) {
        let group = &self.groups[g];
        let (Some(elsewhere), id) = (&group.elsewhere, group.id()) else { return };
        let leads = |(node, ping): (&NodeId, _)| Some((news_of(ping, id)?.leads?, *node));
        let says = self.news.iter().filter_map(leads).filter(|(_, node)| self.is_up(*node));
        let leader = says.max().map(|(ballot, node)| (node, ballot));
        if elsewhere.leader != leader
            && let Some(elsewhere) = &mut self.groups[g].elsewhere
        {
            elsewhere.leader = leader;
        }
    }

    /// Who votes in a partition, as far as this node knows.
    pub(crate) fn voters_of(&self, g: usize) -> Vec<NodeId> {
        let group = &self.groups[g];
        if group.elsewhere.is_none() {
            return group.partition.replica.members().nodes();
        }
        let said = self.leader_of(g).and_then(|(leader, _)| news_of(self.news.get(&leader)?, group.id()));
        said.map(|news| news.voters.clone()).unwrap_or_default()
    }

    /// Whether the partition is one whose commands are carried away, and a command of this connection has to wait since those before it are of the other
    /// kind: reads before a write, or writes before a read.
    pub(crate) fn turns_around(&self, session: &Session, partition: PartitionId, writes: bool) -> bool {
        let Some(lane) = session.lane(partition) else { return false };
        let Some(g) = place_of(&self.groups, partition) else { return false };
        let group = &self.groups[g];
        group.elsewhere.is_some()
            && if writes { !lane.reads.is_empty() } else { group.router.waits_for(lane.last_write) }
    }

    /// The same for whatever may read and write, wherever.
    pub(crate) fn turns_around_anywhere(&self, session: &Session) -> bool {
        let is_there = |partition| [true, false].into_iter().any(|it| self.turns_around(session, partition, it));
        session.pending() > 0 && session.lanes.iter().any(|lane| is_there(lane.partition))
    }

    /// Asks for what has gathered, and again where an answer does not come.
    pub(super) fn carry_reads(&mut self, g: usize, leader: Option<NodeId>) {
        let time = self.now.time;
        let Some(elsewhere) = &self.groups[g].elsewhere else { return };
        if let Some(question) = &elsewhere.question {
            if leader == Some(question.host) && time.since(question.sent_at) < ASK_AGAIN_AFTER {
                return;
            }
            if leader == Some(question.host) {
                return self.carry_again(g);
            }
            self.give_question_up(g);
        }
        let (Some(host), false) = (leader, self.groups[g].router.gathering.is_empty()) else { return };
        let batch = self.take_gathered(g);
        let (mut reads, mut places, mut bytes) = (Vec::new(), Vec::new(), 0);
        let id = self.groups[g].id();
        let mut left = Vec::new();
        for (connection, _) in &batch.items {
            let Some(Some(session)) = self.sessions.get(connection) else { continue };
            let Some(lane) = session.lane(id) else { continue };
            for read in &lane.reads {
                if bytes >= ACCEPT_BYTES_TARGET || reads.len() >= CARRIED_READS_MAX {
                    left.push(*connection);
                    break;
                }
                let carried = carried(session, read, lane.words_of(read));
                bytes += carried.body.len() + 32;
                reads.push(carried);
                places.push((*connection, read.slot));
            }
        }
        self.groups[g].router.recycle(batch);
        left.into_iter().for_each(|connection| self.gather_away(g, connection));
        if reads.is_empty() {
            return;
        }
        let ticket = self.groups[g].router.ticket();
        let by = self.voucher(g, host, ticket);
        let question = Question { ticket, host, by, asked_at: time, sent_at: time, reads: places };
        if let Some(elsewhere) = &mut self.groups[g].elsewhere {
            elsewhere.question = Some(question);
        }
        self.probe("node: reads carried");
        match by {
            Some(by) => self.send(by, &PeerMessage::CarryThrough { partition: id, ticket, reads }),
            None => self.send(host, &PeerMessage::Carry { partition: id, ticket, reads }),
        }
    }

    /// By way of whom a question goes to the leader: one who votes, and is a majority with it. The questions take turns.
    fn voucher(&self, g: usize, leader: NodeId, ticket: u64) -> Option<NodeId> {
        let group = &self.groups[g];
        if group.elsewhere.as_ref()?.straight_until.is_some_and(|until| self.now.time < until) {
            return None;
        }
        let voters = &news_of(self.news.get(&leader)?, group.id())?.voters;
        if !(2..=VOTERS_TO_VOUCH).contains(&voters.len()) {
            return None;
        }
        let can = |node: &&NodeId| {
            ![leader, self.config.me].contains(node)
                && self.trusted.get(usize::from(node.0)) == Some(&true)
                && !self.is_slow(**node)
                && Feature::CarriedThrough.is_in(self.version_with(**node))
        };
        let count = voters.iter().filter(can).count() as u64;
        let place = usize::try_from(ticket.checked_rem(count)?).ok()?;
        voters.iter().filter(can).nth(place).copied()
    }

    /// What was to be passed on by that node is asked for anew.
    pub(crate) fn give_up_questions_through(&mut self, peer: NodeId) {
        for g in 0..self.groups.len() {
            let question = self.groups[g].elsewhere.as_ref().and_then(|elsewhere| elsewhere.question.as_ref());
            if question.is_some_and(|question| question.by == Some(peer)) {
                self.give_question_up(g);
            }
        }
    }

    /// The question under way once more, as it was: an answer to either will do.
    fn carry_again(&mut self, g: usize) {
        let (time, id) = (self.now.time, self.groups[g].id());
        let Some(question) = self.groups[g].elsewhere.as_mut().and_then(|elsewhere| elsewhere.question.as_mut()) else {
            return;
        };
        question.sent_at = time;
        let (ticket, host) = (question.ticket, question.host);
        let places = question.reads.clone();
        if question.by.take().is_some()
            && let Some(elsewhere) = &mut self.groups[g].elsewhere
        {
            elsewhere.straight_until = Some(time + STRAIGHT_FOR);
        }
        let mut reads = Vec::with_capacity(places.len());
        for (connection, slot) in places {
            let Some(Some(session)) = self.sessions.get(&connection) else { break };
            let Some(lane) = session.lane(id) else { break };
            let Some(read) = lane.reads.iter().find(|read| read.slot == slot) else { break };
            reads.push(carried(session, read, lane.words_of(read)));
        }
        let is_whole = self.groups[g].elsewhere.as_ref().and_then(|it| it.question.as_ref());
        if is_whole.is_some_and(|question| question.reads.len() == reads.len()) {
            self.probe("node: reads carried again");
            self.send(host, &PeerMessage::Carry { partition: id, ticket, reads });
        } else {
            // Somebody is gone, or has been told that its time is up: what is left is another question.
            self.give_question_up(g);
        }
    }

    /// Whatever is answered to the question under way, nobody will listen: its reads are asked for anew.
    pub(crate) fn give_question_up(&mut self, g: usize) {
        let question = self.groups[g].elsewhere.as_mut().and_then(|elsewhere| elsewhere.question.take());
        for (connection, _) in question.map(|question| question.reads).unwrap_or_default() {
            self.gather_away(g, connection);
        }
    }

    /// A connection has reads that are to be carried.
    pub(crate) fn gather_away(&mut self, g: usize, connection: ConnectionId) {
        let id = self.groups[g].id();
        let Some(Some(session)) = self.sessions.get_mut(&connection) else { return };
        let Some(lane) = session.lane_mut(id) else { return };
        if let Some(deadline) = lane.reads.front().map(|read| read.deadline)
            && !std::mem::replace(&mut lane.gathered, true)
        {
            self.groups[g].router.gather(connection, deadline);
        }
    }

    /// Connections whose reads were carried and are due.
    pub(super) fn carried_by(&self, g: usize) -> Vec<ConnectionId> {
        let question = self.groups[g].elsewhere.as_ref().and_then(|elsewhere| elsewhere.question.as_ref());
        let due = question.filter(|question| self.now.time.since(question.asked_at) >= self.config.request_timeout / 2);
        due.map(|question| question.reads.iter().map(|(connection, _)| *connection).collect()).unwrap_or_default()
    }

    /// The leader has answered reads, or the first of them.
    pub(crate) fn on_carried(&mut self, g: usize, ticket: u64, revision: Revision, answers: Vec<CarriedAnswer>) {
        let Some(elsewhere) = &mut self.groups[g].elsewhere else { return };
        let Some(question) = elsewhere.question.take_if(|question| question.ticket == ticket) else { return };
        elsewhere.seen = elsewhere.seen.max(revision);
        let count = answers.len();
        for ((connection, slot), answer) in question.reads.iter().zip(answers) {
            self.take_answer(g, (*connection, *slot), (revision, question.asked_at), answer);
        }
        for (connection, _) in question.reads.iter().skip(count) {
            self.gather_away(g, *connection);
        }
    }

    fn take_answer(
        &mut self,
        g: usize,
        (connection, slot): (ConnectionId, u64),
        (revision, asked_at): (Revision, Time),
        answer: CarriedAnswer,
    ) {
        let CarriedAnswer { reply, revisions, settled } = answer;
        let id = self.groups[g].id();
        let Some(Some(session)) = self.sessions.get_mut(&connection) else { return };
        let Some(lane) = session.lane(id) else { return };
        let Some(read) = lane.reads.front().copied().filter(|read| read.slot == slot) else { return };
        let bytes = lane.words_of(&read);
        let owned = |keys: &[&[u8]]| keys.iter().map(|key| key.to_vec()).collect::<Vec<Vec<u8>>>();
        let keys = match read.kind {
            ReadKind::Revisions => Words::decode(bytes).map(|keys| owned(keys.as_slice())).unwrap_or_default(),
            kind if read.tracks => owned(&words::keys_read(kind, bytes)),
            _ => Vec::new(),
        };
        note_read(&mut self.slow, self.now, session, id, &read);
        session.see(id, revision);
        session.levels.read_from(Some(asked_at));
        if read.kind == ReadKind::Revisions {
            session.watches.extend(keys.iter().cloned().zip(revisions));
        }
        let number = match session.block {
            Some(Block::Waiting { slot, number }) if slot == read.slot => Some(number),
            _ => None,
        };
        if let Some(lane) = session.lane_mut(id) {
            lane.pop_read_if(|_| true);
        }
        self.stats.reads += 1;
        match number.zip(settled) {
            Some((number, words)) => self.read_found_nothing(number, words),
            None => {
                self.slow.durations.note(read.command, self.now.time.since(read.arrived));
                if matches!(reply, data::Reply::Error(_)) {
                    self.slow.durations.note_failure(read.command);
                }
                self.deliver(connection, read.slot, &reply);
                if read.tracks {
                    self.remember_keys(id, keys.iter().map(Vec::as_slice), connection);
                }
            }
        }
    }

    /// The leader has applied writes of this node.
    pub(crate) fn on_outcomes(&mut self, g: usize, life: Life, outcomes: Vec<Outcome>) {
        let group = &mut self.groups[g];
        let Some(elsewhere) = group.elsewhere.as_mut().filter(|_| group.router.life == life) else { return };
        elsewhere.seen =
            outcomes.iter().map(|outcome| outcome.revision).max().max(Some(elsewhere.seen)).unwrap_or_default();
        for Outcome { sequence, position, revision, changes, reply, published } in outcomes {
            if !self.groups[g].router.waits_for(sequence) {
                continue;
            }
            self.forget_transaction(g, sequence);
            self.probe("node: told what became of a write");
            let wishes = &mut self.groups[g].wishes;
            wishes.published.extend(published);
            wishes.completed.push(Completed { sequence, position, revision, reply, changes });
        }
        self.publish_of_scripts(g);
    }

    /// A transaction of this node has been applied elsewhere. What was changed since may have been fed before, so that what it has read cannot be kept.
    fn forget_transaction(&mut self, g: usize, sequence: u64) {
        let Some(write) = self.groups[g].router.get_mut(sequence).filter(|write| write.tracks) else { return };
        let (Waiter::Client { connection, .. }, body) = (write.waiter, write.body.clone()) else { return };
        if let Ok((_, body)) = Terms::split(Kind::Transaction, &body) {
            let keys = words::keys_read(ReadKind::Transaction, body).into_iter().map(Blob::new).collect();
            self.tracking.cannot_be_kept(connection, keys);
        }
    }

    /// The leader knows of a later life of this node: nothing of this one counts, until it has a number above.
    pub(crate) fn on_outlived(&mut self, g: usize, life: Life, by: Life) {
        let group = &mut self.groups[g];
        if group.router.life == life && by > life && group.elsewhere.is_some() {
            group.router.life.incarnation = by.incarnation.saturating_add(1);
            group.partition.life = group.router.life;
            group.router.send_again();
            self.probe("node: an earlier life outlived");
        }
    }

    /// Whether this node's replica has come so far that it can answer itself.
    fn has_come(&self, g: usize) -> bool {
        let partition = &self.groups[g].partition;
        let elsewhere = self.groups[g].elsewhere.as_ref();
        let seen = elsewhere.map(|elsewhere| elsewhere.seen);
        let Some((leader, ballot)) = partition.replica.leader() else { return false };
        // What its state has been told of and its feed has not yet would be told to nobody.
        let fed = elsewhere.and_then(|elsewhere| elsewhere.fed_until(leader));
        let decided = match leader == self.config.me {
            true => Some(partition.replica.decided()),
            false => self.news.get(&leader).and_then(|ping| news_of(ping, partition.id)).and_then(|news| {
                let leads = news.leads == Some(ballot);
                leads.then_some(news.decided)
            }),
        };
        !self.groups[g].is_unseated
            && partition.applied > Position(0)
            && Some(partition.tree.revision()) >= seen
            && fed.is_none_or(|until| partition.applied <= until)
            && (leader == self.config.me
                || !self.subscriptions.is_fed_less_than(partition.id, partition.tree.revision(), self.now.time))
            && partition.replica.role() != RoleName::Recovering
            && decided.is_some_and(|decided| partition.applied.0.saturating_add(CLOSE_ENTRIES) >= decided.0)
    }

    /// At a tick: this node answers itself from now on, if it can.
    pub(super) fn come_home(&mut self, g: usize) {
        if self.groups[g].elsewhere.is_none() || !self.has_come(g) {
            return;
        }
        self.probe("node: a replica answers itself");
        self.untold += 1;
        self.groups[g].elsewhere = None;
        subscriptions::feeding::came_home(self, g);
        self.regather(g);
        // What has changed before this was perhaps told to nobody here.
        let id = self.groups[g].id();
        self.tracking.forget_everything();
        self.waiting.touch_all(id);
    }

    /// This node has no state to answer from any more.
    pub(crate) fn go_elsewhere(&mut self, g: usize) {
        let id = self.groups[g].id();
        let group = &mut self.groups[g];
        if group.elsewhere.is_some() {
            return;
        }
        // Its clients have seen what it had.
        let seen = group.partition.tree.revision();
        group.elsewhere = Some(Box::new(Elsewhere { seen, ..Elsewhere::default() }));
        self.untold += 1;
        self.end_backups_of(g);
        subscriptions::glue::gone_elsewhere(self, g);
        self.look_for_leader(g);
        let group = &mut self.groups[g];
        group.events_told = group.events_told.max(group.partition.applied);
        group.router.ask_anew(|_| true);
        // Whoever applies them is to tell what became of them.
        group.router.send_again();
        self.regather(g);
        self.tracking.forget_everything();
        self.waiting.touch_all(id);
    }

    /// Reads are served in another way from now on: all that wait are asked for anew.
    fn regather(&mut self, g: usize) {
        let group = &mut self.groups[g];
        let (id, here) = (group.id(), group.elsewhere.is_none());
        let router = &mut group.router;
        router.fresh_at = None;
        for batch in router.ready.drain(..).map(|ready| ready.batch).chain(router.asked.drain(..).map(|it| it.2)) {
            router.gathering.guests.extend(batch.guests);
        }
        router.gathering.items.clear();
        [&mut router.parked, &mut router.weak, &mut router.behind].into_iter().for_each(Vec::clear);
        for session in self.sessions.values_mut().flatten() {
            let connection = session.id;
            let Some(lane) = session.lane_mut(id) else { continue };
            (lane.gathered, lane.parked, lane.weak) = (false, false, false);
            let Some(first) = lane.reads.front() else { continue };
            let (deadline, is_weak) = (first.deadline, first.floor.is_some());
            // Whichever its first read is: those of the other kind are looked at behind it.
            if here && is_weak {
                lane.weak = true;
                router.weak.push(connection);
            }
            if !(here && lane.reads.iter().all(|read| read.floor.is_some())) {
                lane.gathered = true;
                router.gather(connection, deadline);
            }
        }
    }
}

fn carried(session: &Session, read: &Read, body: &[u8]) -> CarriedRead {
    CarriedRead {
        kind: read.kind,
        floor: read.floor,
        touches: !session.no_touch,
        waits: matches!(session.block, Some(Block::Waiting { slot, .. }) if slot == read.slot),
        body: bytes::Bytes::copy_from_slice(body),
    }
}
