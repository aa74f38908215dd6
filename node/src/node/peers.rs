//! What peers say, and what a node says of itself.

use std::time::Duration;

use base::versions::Feature;
use base::{Ballot, NodeId, Position, WallTime};
use bytes::Bytes;
use paxos::{Answer, Input as Step};
use wire::FrameWriter;

use super::pings::Taken;
use super::{Node, news_of, place_of};
use crate::door::{Level, LinkTerms, Planted};
use crate::group::{Group, Query};
use crate::intake;
use crate::newcomers;
use crate::outcast::{self, Reason};
use crate::peer::{PeerMessage, Ping};
use crate::router::{Asked, Ready};
use crate::subscriptions;
use crate::testimony;

impl Node {
    pub(super) fn on_peer_up(&mut self, peer: NodeId, terms: LinkTerms) {
        self.note_terms(peer, terms);
        self.introduced.remove(&peer);
        self.step_over.forget_peer(peer);
        self.testimony.on_peer_up(peer);
        // Whatever was on its way is lost; what matters is sent again.
        for g in 0..self.groups.len() {
            if self.leader_of(g).is_some_and(|(leader, _)| leader == peer) {
                let group = &mut self.groups[g];
                group.router.send_again();
                group.router.ask_anew(|_| true);
                self.give_question_up(g);
            }
        }
        self.pubsub.on_peer_up(peer, self.now.time);
        self.send_first_ping(peer);
    }

    pub(super) fn on_peer_down(&mut self, peer: NodeId) {
        newcomers::on_down(self, peer);
        if let Some(detector) = self.detectors.iter_mut().find(|detector| detector.peer == peer) {
            detector.on_cut();
        }
        for group in &mut self.groups {
            group.transfers.on_cut(peer);
        }
        if let Some(out) = self.peers_out.get_mut(usize::from(peer.0)) {
            out.clear();
        }
        self.step_over.forget_peer(peer);
        self.break_feeds(peer);
        subscriptions::feeding::on_peer_down(self, peer);
        self.give_up_questions_through(peer);
        self.pubsub.on_peer_down(peer);
        self.tell_replicas();
    }

    /// Nothing was heard meanwhile, and no peer is to blame. What they sent may come just behind this.
    pub(super) fn on_stood_still(&mut self, duration: Duration) {
        self.probe("node: stood still");
        for detector in &mut self.detectors {
            detector.on_stood_still(duration);
        }
    }

    /// Tells all replicas, if the detectors think something else than before.
    pub(crate) fn tell_replicas(&mut self) {
        if self.look_at_detectors() {
            self.tell_all();
        }
    }

    /// Takes over what the detectors think now. Whether that is something else than before: then all replicas are to be told.
    fn look_at_detectors(&mut self) -> bool {
        let time = self.now.time;
        let mut changed = false;
        let mut suspicions = Vec::new();
        for detector in &self.detectors {
            let up = detector.is_up(time);
            if let Some(trusted) = self.trusted.get_mut(usize::from(detector.peer.0))
                && std::mem::replace(trusted, up) != up
            {
                changed = true;
                if !up {
                    suspicions.push((detector.peer, detector.why_down(time)));
                }
            }
        }
        for (peer, why) in suspicions {
            let name = self.roll.get(peer).map_or_else(|| format!("node {}", peer.0), |member| member.name.clone());
            self.event(Level::Info, format!("{name} counts as down: {why}"));
        }
        changed
    }

    pub(super) fn tell_all(&mut self) {
        for g in 0..self.groups.len() {
            for place in 0..self.detectors.len() {
                self.tell_replica(g, place);
            }
            self.look_for_leader(g);
        }
    }

    /// Tells a replica what has changed in what a detector thinks and its peer says. Whose replica hears nothing new sleeps on.
    fn tell_replica(&mut self, g: usize, place: usize) {
        let peer = self.detectors[place].peer;
        // Not what the detector thinks by now: a replica that heard of it before the others would not hear when it is over.
        let up = self.trusted.get(usize::from(peer.0)).is_some_and(|trusted| *trusted);
        let group = &self.groups[g];
        let news = self.news.get(&peer).and_then(|ping| news_of(ping, group.id()));
        let leads = news.and_then(|news| news.leads);
        let rests = news.filter(|news| news.rests).map(|news| (news.promised, news.decided));
        if group.told[place] == (up, leads, rests) {
            return;
        }
        let told = std::mem::replace(&mut self.groups[g].told[place], (up, leads, rests));
        if told.0 && !up {
            self.probe("node: peer suspected");
        }
        self.step_replica(g, Step::Peer { peer, up, leads, rests });
    }

    pub(crate) fn send(&mut self, to: NodeId, message: &PeerMessage) {
        if self.leaves_behind(to) && !matches!(message, PeerMessage::LeftBehind { .. }) {
            return;
        }
        let version = self.version_with(to);
        let Some(out) = self.peers_out.get_mut(usize::from(to.0)) else { return };
        // At once: memory that grows is copied, and what is fresh is cleared page by page.
        out.reserve(message.bytes_expected());
        if let Err(error) = FrameWriter::append(out, |payload| message.encode(version, payload)) {
            // Limits are such that nothing this node makes is too large for a frame. Should they not be, the message is lost, as others are on the way; a size
            // ends no process.
            self.probe("node: message too large for a frame");
            self.event(Level::Error, format!("a message to {} was dropped: {error}; this is a bug", self.name_of(to)));
        }
    }

    pub(super) fn on_peer_message(&mut self, from: NodeId, bytes: &Bytes) {
        self.stats.peer_messages_in += 1;
        self.stats.peer_bytes_in += bytes.len() as u64;
        if self.leaves_behind(from) {
            // Also one that was removed, and one whose number this cluster has never given.
            if let Ok(PeerMessage::Ping(ping)) = PeerMessage::decode(bytes, self.version_with(from)) {
                let is_news = self.introduced.insert(from, false) != Some(false);
                self.leave_behind(from, ping.cluster, is_news);
            }
            return;
        }
        if self.roll.get(from).is_none() {
            if self.registry.removed.contains(&from) {
                self.send_farewell(from);
            }
            return;
        }
        let message = match PeerMessage::decode(bytes, self.version_with(from)) {
            Ok(message) => message,
            Err(_) => {
                return intake::note_nonsense(self, from, "messages that make no sense");
            }
        };
        let message = match message {
            PeerMessage::Ping(ping) => {
                if self.is_of_this_cluster(from, ping.cluster) && self.has_all_of_its_past(from, &ping) {
                    self.on_ping(from, *ping);
                }
                return;
            }
            // Also from a node that nobody listens to: it tells by what its node has signed.
            PeerMessage::SignedClaim(signed) => return testimony::on_signed(self, from, *signed),
            // Whoever sends it sends no pings any more.
            PeerMessage::Farewell { cluster } => {
                if [0, cluster].contains(&self.cluster_name()) {
                    outcast::on_word(self, from, Reason::Removed);
                }
                return;
            }
            PeerMessage::LeftBehind { cluster } => {
                if cluster == self.cluster_name() {
                    outcast::on_word(self, from, Reason::LeftBehind);
                }
                return;
            }
            _ if self.introduced.get(&from) != Some(&true) => return,
            PeerMessage::Busy => return self.on_busy(from),
            PeerMessage::Stand(said) => return self.on_stand(from, said),
            PeerMessage::Bulletin { number, anew, items } => return self.on_bulletin(from, number, anew, &items),
            PeerMessage::BulletinsHeard { number, whole } => return self.on_bulletins_heard(from, number, whole),
            other => other,
        };
        // Of a partition that this node does not have (yet, or any more): whatever matters is sent again.
        let Some(g) = message.partition().and_then(|id| place_of(&self.groups, id)) else { return };
        match message {
            PeerMessage::Ping(_)
            | PeerMessage::SignedClaim(_)
            | PeerMessage::Farewell { .. }
            | PeerMessage::LeftBehind { .. }
            | PeerMessage::Busy
            | PeerMessage::Stand(_)
            | PeerMessage::Bulletin { .. }
            | PeerMessage::BulletinsHeard { .. } => {}
            PeerMessage::Paxos { .. } | PeerMessage::SnapshotOffer { .. } if self.is_deaf(g) => {}
            // The leader finds another successor, or keeps the leadership.
            PeerMessage::Paxos { message: paxos::Message::HandOver { .. }, .. } if !self.clock.is_set() => {}
            PeerMessage::Paxos { partition, message } => {
                match self.groups[g].partition.replica.answer(from, &message) {
                    // Most of what comes while many partitions are read is of that kind; their groups sleep on.
                    Answer::Nothing => {}
                    Answer::With(message) => self.send(from, &PeerMessage::Paxos { partition, message }),
                    Answer::NeedsStep => self.step_replica(g, Step::Message { from, message }),
                }
            }
            PeerMessage::Forward { life, floor, elsewhere, writes, .. } => {
                let first = writes.first().map_or(u64::MAX, |write| write.sequence);
                self.note_guest(g, from, life, elsewhere.then_some(first));
                intake::on_forward(self, g, (from, life, floor), writes);
            }
            PeerMessage::Outcomes { life, outcomes, .. } => self.on_outcomes(g, life, outcomes),
            PeerMessage::Outlived { life, by, .. } => self.on_outlived(g, life, by),
            PeerMessage::Carry { ticket, reads, .. } => self.on_carry(g, from, ticket, reads),
            PeerMessage::CarryThrough { ticket, reads, .. } => self.pass_on(g, from, ticket, reads),
            PeerMessage::CarryFor { asker, ticket, vouches, reads, .. } => {
                self.on_passed_on(g, (from, vouches), (asker, ticket), reads);
            }
            PeerMessage::Carried { ticket, revision, answers, .. } => self.on_carried(g, ticket, revision, answers),
            PeerMessage::Follow { feed, .. } => self.on_follow(g, from, feed),
            PeerMessage::Feed { feed, after, until, entries, .. } => self.on_feed(g, feed, (after, until), entries),
            PeerMessage::FollowChanges { feed, after, .. } => {
                subscriptions::feeding::on_follow(self, g, (from, feed), after);
            }
            PeerMessage::FedChanges { feed, after, records, .. } => {
                subscriptions::feeding::on_fed(self, g, (from, feed), after, records);
            }
            PeerMessage::WantPage { question, .. } => {
                subscriptions::feeding::on_page_wanted(self, g, from, *question);
            }
            PeerMessage::Page { ticket, page, .. } => subscriptions::feeding::on_page(self, g, ticket, *page),
            PeerMessage::ReadIndex { ticket, vouches, .. } => self.on_read_index(g, from, ticket, vouches),
            PeerMessage::CopiesQuestion { position, .. } => self.groups[g].copies.ask(from, position),
            PeerMessage::Copies { ballot, copies, .. } if self.may_lead(g, from, ballot) => {
                self.groups[g].copies.hear(ballot, copies);
            }
            PeerMessage::Copies { .. } => {}
            PeerMessage::ReadIndexReply { ticket, position, clock, ballot, is_decided, .. } => {
                if is_decided && self.groups[g].partition.replica.decided() < position {
                    let message = paxos::Message::Decided { ballot, decided: position };
                    self.step_replica(g, Step::Message { from, message });
                }
                self.on_read_index_reply(g, from, ticket, position, clock);
            }
            PeerMessage::SnapshotOffer { transfer, position, ballot, .. } => {
                self.on_snapshot_offer(g, (from, transfer), (position, ballot));
            }
            PeerMessage::SnapshotBlock { partition, transfer, index, ending, block } => {
                let time = self.now.time;
                let asks = self.movement.takes_in(time, block.len());
                if !asks {
                    self.probe("node: reception throttled");
                }
                let transfers = &mut self.groups[g].transfers;
                if let Some(want) = transfers.on_block(time, partition, (from, transfer), index, ending, block, asks) {
                    self.send(from, &want);
                }
            }
            PeerMessage::SnapshotWant { transfer, index, wish, .. } => {
                self.groups[g].transfers.on_want(self.now.time, from, transfer, index, wish);
            }
            PeerMessage::Touched { orders, .. } => self.on_touched(g, &orders),
            PeerMessage::Digest { position, ending, .. } => self.on_digest(g, from, position, ending),
        }
    }

    /// A peer works on without being able to send pings. A replica that was told that the peer is gone hears of its return with the next ping.
    fn on_busy(&mut self, from: NodeId) {
        self.probe("node: peer busy");
        let time = self.now.time;
        if self.config.planted != Some(Planted::BusyUnheard)
            && let Some(detector) = self.detectors.iter_mut().find(|detector| detector.peer == from)
        {
            detector.on_busy(time);
        }
    }

    fn on_ping(&mut self, from: NodeId, ping: Ping) {
        let hears_me = ping.hears.contains(&self.config.me);
        let time = self.now.time;
        if let Some(detector) = self.detectors.iter_mut().find(|detector| detector.peer == from) {
            detector.on_heard(time, hears_me);
        }
        let (heard, clock) = (ping.heard, ping.clock);
        let taken = self.news.entry(from).or_default().take(ping);
        if taken != Taken::Late {
            self.hear_clock(from, clock, heard);
            self.on_pings_taken(from, heard);
        }
        let changed = match taken {
            Taken::Late | Taken::Nothing => Vec::new(),
            Taken::Some(partitions) => partitions,
            Taken::All => self.groups.partitions(),
        };
        let detectors_changed = self.look_at_detectors();
        let place = self.detectors.iter().position(|detector| detector.peer == from);
        for g in changed.into_iter().filter_map(|id| self.groups.place_of(id)).collect::<Vec<usize>>() {
            self.hear_copies(g, from);
            if let Some(place) = place {
                self.tell_replica(g, place);
            }
            self.look_for_leader(g);
            self.hear_of_holder(g, from);
        }
        if detectors_changed {
            self.tell_all();
        }
    }

    /// True if a peer may lead under the ballot that it names. A ballot that this node believes takes the place of lower ones for as long as the process lives.
    fn may_lead(&self, g: usize, peer: NodeId, ballot: Ballot) -> bool {
        ballot.node == peer && self.groups[g].partition.replica.may_be_led_under(ballot)
    }

    /// A peer that leads has said who has how much of a partition's log.
    fn hear_copies(&mut self, g: usize, from: NodeId) {
        let id = self.groups[g].id();
        if let Some(news) = self.news.get(&from).and_then(|ping| news_of(ping, id))
            && let Some(ballot) = news.leads.filter(|ballot| self.may_lead(g, from, *ballot))
        {
            let copies = news.copies.clone();
            let group = self.groups.get_mut_unwoken(g);
            let is_news = group.led_under.is_none_or(|known| known < ballot);
            group.led_under = group.led_under.max(Some(ballot));
            group.copies.hear(ballot, copies);
            // Who waits for it is looked at in this turn.
            if !group.copies.held.is_empty() {
                self.groups.wake(g);
            }
            if is_news {
                let text = format!("{} leads under ballot {ballot}", self.name_of(from));
                self.event_about(g, Level::Info, &text);
            }
        }
    }

    fn on_read_index(&mut self, g: usize, peer: NodeId, ticket: u64, vouches: Option<Ballot>) {
        // A question that needs nothing does not wake the group.
        let replica = &self.groups[g].partition.replica;
        let (Some(ballot), Some(opening), decided) = (replica.leads(), replica.opening(), replica.decided()) else {
            return;
        };
        let position = decided.max(opening);
        if self.is_vouched_for(g, peer, vouches) {
            self.probe("node: a question was its own confirmation");
            return self.answer_read_index(g, Query { ballot, round: 0, peer, ticket, position });
        }
        let Group { partition, queries, .. } = &mut self.groups[g];
        let Some(round) = partition.replica.request_confirmation() else { return };
        queries.push_back(Query { ballot, round, peer, ticket, position });
    }

    /// Whether this replica leads, and is a majority with the one that vouches: then what was asked before that one said so needs no other confirmation.
    pub(crate) fn is_vouched_for(&self, g: usize, voucher: NodeId, vouches: Option<Ballot>) -> bool {
        let replica = &self.groups[g].partition.replica;
        let is_few = self.config.planted == Some(Planted::VouchedByFew);
        vouches.is_some_and(|vouched| {
            replica.is_majority_with(voucher, vouched) || (is_few && Some(vouched) == replica.leads())
        })
    }

    /// Tells who has asked at which position its reads may be served, which is confirmed.
    pub(crate) fn answer_read_index(&mut self, g: usize, query: Query) {
        let Query { ballot, peer, ticket, position, .. } = query;
        let (partition, clock) = (self.groups[g].id(), self.now.wall);
        // The asking node may not have heard yet that this much is decided.
        let decided = self.groups[g].partition.replica.decided();
        let is_decided = position <= decided && Feature::VouchingQuestions.is_in(self.version_with(peer));
        if !is_decided {
            let message = paxos::Message::Decided { ballot, decided };
            self.send(peer, &PeerMessage::Paxos { partition, message });
        }
        self.send(peer, &PeerMessage::ReadIndexReply { partition, ticket, position, clock, ballot, is_decided });
    }

    fn on_read_index_reply(&mut self, g: usize, from: NodeId, ticket: u64, position: Position, clock: WallTime) {
        let router = &mut self.groups[g].router;
        // Nobody answers but the leader that was asked.
        let answers = |asked: &Asked| matches!(asked, Asked::Ticket { ballot, ticket: wanted } if *wanted == ticket && ballot.node == from);
        let place = router.asked.iter().position(|(asked, _, _)| answers(asked));
        if let Some((_, asked_at, batch)) = place.and_then(|place| router.asked.remove(place)) {
            let asked_at = Some(asked_at);
            router.ready.push_back(Ready { position, clock, asked_at, batch });
        }
    }
}
