//! Pings: what a node says of itself, several times a second, to every other.
//!
//! Of its partitions a ping names only those whose news the receiver lacks:
//! 1. A node numbers its pings, within a life of its process, and notes with which of them the news of each partition last changed.
//! 2. A ping says which ping of its receiver was the last one taken (`heard`), and from which number on it has everything that changed
//!    (`since`): from the last one of the sender's that the receiver has said to have taken. 0: it has all there is, and replaces what was known before.
//! 3. A ping whose `since` is beyond what the receiver has taken is a sign of life and no more, and so is one that comes late.
//! 4. How far the log and the state of a partition are changes all the time where anything is written. It matters to those with a seat there, the *near* ones;
//!    all others are told of that alone only now and then ([`FAR_EVERY`]). Who leads, who votes, who has anything at all, everybody is told with the next ping.
//!
//! So pings may be lost, repeated and overtaken as they like: what is known of a node is always what it said with one of its pings, as a whole, but for positions
//! that are of no matter to the receiver. And what nothing happens in costs nothing, however many partitions there are.
//!
//! A ping may leave a little early, to ride along with whatever else goes to its receiver ([`RIDES`]): on busy links it costs no packet of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::{NodeId, PartitionId, Position};

use super::{Node, PING_EVERY};
use crate::clock::Told;
use crate::council::COUNCIL;
use crate::group::Group;
use crate::groups::Groups;
use crate::node::memories::identity_in_memory;
use crate::outlived::Outlived;
use crate::peer::{PartitionNews, PeerMessage, Ping, ToldRoom};

/// In each so many-th round of pings a node tells what it knows of others' folders.
const LIVES_EVERY: u64 = 8;
/// In each so many-th round whoever is not near is told how far everything is.
const FAR_EVERY: u64 = 10;
/// So long before it is due a ping may leave with something else.
const RIDES: Duration = Duration::from_millis(10);

/// What this node has said of its partitions, and to whom.
#[derive(Debug, Default)]
pub(crate) struct Pings {
    /// The number of the last ping.
    number: u64,
    /// How often news were collected.
    round: u64,
    /// A round is under way.
    is_open: bool,
    /// Who has not been told in it yet.
    due: Vec<NodeId>,
    /// What was said of each partition.
    said: BTreeMap<PartitionId, Said>,
    /// The same, by the numbers of those pings, for the near ones and for all others.
    for_near: BTreeSet<(u64, PartitionId)>,
    for_far: BTreeSet<(u64, PartitionId)>,
    /// Partitions that have gone on since all others were told how far they are.
    gone_on: BTreeSet<PartitionId>,
    /// The last ping that each node has said to have taken.
    taken: BTreeMap<NodeId, u64>,
    /// Whoever has taken none after this one is told everything: partitions have gone since.
    anew_after: u64,
}

/// The news of a partition.
#[derive(Debug)]
struct Said {
    news: PartitionNews,
    /// To whom it matters how far it is.
    near: Vec<NodeId>,
    /// The first ping that had this for them, and for all others.
    number: u64,
    number_far: u64,
}

impl Pings {
    /// The next pings have what has changed since the last round.
    fn collect(&mut self, groups: &mut Groups, outlived: &Outlived) {
        self.round += 1;
        self.number += 1;
        for id in groups.take_stirred() {
            let Some(g) = groups.place_of(id) else { continue };
            self.note(id, news_about(&groups[g], outlived), || near(&groups[g]));
        }
        if self.round.is_multiple_of(FAR_EVERY) {
            self.tell_far();
        }
    }

    fn note(&mut self, id: PartitionId, news: PartitionNews, near: impl FnOnce() -> Vec<NodeId>) {
        let (said, number) = (self.said.get(&id), self.number);
        if said.is_some_and(|said| said.news == news) {
            return;
        }
        // Who becomes near may lack what was told to those alone who were before.
        let near = near();
        let same = said.filter(|said| said.near == near);
        // How far the council is matters to everybody.
        let goes_on = same.filter(|said| id != COUNCIL && with_positions_of(&news, &said.news) == said.news);
        let number_far = goes_on.map_or(number, |said| said.number_far);
        self.forget(id);
        if number_far < number {
            self.gone_on.insert(id);
        }
        self.for_near.insert((number, id));
        self.for_far.insert((number_far, id));
        self.said.insert(id, Said { news, near, number, number_far });
    }

    /// The next pings tell everybody how far everything is.
    fn tell_far(&mut self) {
        for id in std::mem::take(&mut self.gone_on) {
            if let Some(said) = self.said.get_mut(&id) {
                self.for_far.remove(&(said.number_far, id));
                said.number_far = self.number;
                self.for_far.insert((said.number_far, id));
            }
        }
    }

    fn forget(&mut self, id: PartitionId) {
        self.gone_on.remove(&id);
        if let Some(said) = self.said.remove(&id) {
            self.for_near.remove(&(said.number, id));
            self.for_far.remove(&(said.number_far, id));
        }
    }

    /// A partition has gone.
    pub(super) fn on_removed(&mut self, id: PartitionId) {
        self.forget(id);
        self.anew_after = self.number;
    }

    /// `peer` was removed.
    pub(super) fn forget_peer(&mut self, peer: NodeId) {
        self.taken.remove(&peer);
    }

    /// What `peer` has taken on a link that is gone does not matter any more: it may have been another life of it.
    pub(super) fn on_peer_up(&mut self, peer: NodeId) {
        self.taken.remove(&peer);
    }

    /// From where on `peer` lacks news; 0 if it may lack all.
    fn since(&self, peer: NodeId) -> u64 {
        self.taken.get(&peer).copied().filter(|taken| *taken > self.anew_after && *taken <= self.number).unwrap_or(0)
    }

    fn news_since(&self, peer: NodeId, since: u64) -> Vec<PartitionNews> {
        if since == 0 {
            return self.said.values().map(|said| said.news.clone()).collect();
        }
        let first = (since.saturating_add(1), PartitionId::default());
        let of = |numbers: &BTreeSet<(u64, PartitionId)>, is_near: bool| {
            let said = numbers.range(first..).filter_map(|(_, id)| self.said.get(id));
            said.filter(|said| said.near.contains(&peer) == is_near).map(|said| said.news.clone()).collect()
        };
        let mut news: Vec<PartitionNews> = of(&self.for_near, true);
        news.append(&mut of(&self.for_far, false));
        news
    }
}

/// What became of a ping.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// A later one was taken before.
    Late,
    /// Nothing of it can be put to what is known.
    Nothing,
    /// These partitions have news.
    Some(Vec<PartitionId>),
    /// Everything may be another.
    All,
}

impl Ping {
    /// Puts a later ping to what is known from earlier ones.
    pub(super) fn take(&mut self, later: Ping) -> Taken {
        let same_life = self.life == later.life;
        if same_life && later.number <= self.number {
            return Taken::Late;
        }
        if later.since == 0 {
            let unsorted = later.partitions.is_sorted_by(|one, other| one.partition < other.partition);
            *self = later;
            if !unsorted {
                self.partitions.sort_by_key(|news| news.partition);
                self.partitions.dedup_by_key(|news| news.partition);
            }
            return Taken::All;
        }
        let is_unsaid = later.version.is_empty();
        if !same_life {
            let unsaid = is_unsaid.then(|| self.addresses());
            // What the life before has said is not true any more; what this one has said to nobody here will be repeated.
            *self = Ping { life: later.life, number: 0, partitions: Vec::new(), ..later };
            self.keep_addresses(unsaid);
            return Taken::All;
        }
        if later.since > self.number {
            return Taken::Nothing;
        }
        let unsaid = is_unsaid.then(|| self.addresses());
        let mut partitions = std::mem::take(&mut self.partitions);
        let changed = later.partitions.iter().map(|news| news.partition).collect();
        *self = later;
        self.keep_addresses(unsaid);
        for news in std::mem::take(&mut self.partitions) {
            match partitions.binary_search_by_key(&news.partition, |known| known.partition) {
                Ok(place) => partitions[place] = news,
                Err(place) => partitions.insert(place, news),
            }
        }
        self.partitions = partitions;
        Taken::Some(changed)
    }
}

impl Ping {
    fn addresses(&mut self) -> [String; 4] {
        let said = [&mut self.resp_address, &mut self.http_address, &mut self.cluster_address, &mut self.version];
        said.map(std::mem::take)
    }

    /// A ping has not said them: they are what an earlier one has said.
    fn keep_addresses(&mut self, unsaid: Option<[String; 4]>) {
        if let Some(unsaid) = unsaid {
            [self.resp_address, self.http_address, self.cluster_address, self.version] = unsaid;
        }
    }
}

impl Node {
    /// At a tick: begins a round, and ends it. Whether it has ended.
    pub(crate) fn tick_pings(&mut self) -> bool {
        let time = self.now.time;
        if time + RIDES < self.next_ping {
            return false;
        }
        if !self.pings.is_open {
            self.pings.is_open = true;
            self.pings.collect(&mut self.groups, &self.outlived);
            self.pings.due = self.detectors.iter().map(|detector| detector.peer).collect();
        }
        if time < self.next_ping {
            return false;
        }
        self.close_idle();
        self.next_ping = time + PING_EVERY;
        self.pings.is_open = false;
        let due = std::mem::take(&mut self.pings.due);
        self.send_pings(due);
        true
    }

    /// At the end of a turn: those who are sent something anyway, and are to be told soon, are told now.
    pub(crate) fn ride_along(&mut self) {
        if self.pings.due.is_empty() {
            return;
        }
        let has_more = |peer: &NodeId| self.peers_out.get(usize::from(peer.0)).is_some_and(|out| !out.is_empty());
        let (now, later) = std::mem::take(&mut self.pings.due).into_iter().partition(has_more);
        self.pings.due = later;
        self.send_pings(now);
    }

    /// Says to these peers what is new to them.
    fn send_pings(&mut self, peers: Vec<NodeId>) {
        if peers.is_empty() {
            return;
        }
        self.pings.number += 1;
        self.quickness.measure.on_ping(self.pings.number, self.now.time);
        let mut message = PeerMessage::Ping(Box::new(Ping { number: self.pings.number, ..self.ping_of_none() }));
        for peer in peers {
            if let PeerMessage::Ping(ping) = &mut message {
                self.address(ping, peer);
            }
            self.send(peer, &message);
        }
    }

    /// Says to a peer whose link is new what there is.
    pub(super) fn send_first_ping(&mut self, peer: NodeId) {
        self.pings.on_peer_up(peer);
        self.pings.collect(&mut self.groups, &self.outlived);
        self.send_pings(vec![peer]);
    }

    /// Makes a ping one for this peer.
    fn address(&self, ping: &mut Ping, peer: NodeId) {
        ping.since = self.pings.since(peer);
        ping.partitions = self.pings.news_since(peer, ping.since);
        ping.heard = self.news.get(&peer).map_or((0, 0), |ping| (ping.life, ping.number));
        ping.pace = self.pace_for(peer);
        // Nobody waits for it but whoever hears nothing else.
        let tells = ping.since == 0 || self.pings.round.is_multiple_of(LIVES_EVERY);
        ping.lives = if tells { self.all_lives() } else { Vec::new() };
    }

    /// What a peer has taken, by its own word.
    pub(super) fn on_pings_taken(&mut self, peer: NodeId, (life, number): (u64, u64)) {
        let number = if life == self.life() { number } else { 0 };
        self.pings.taken.insert(peer, number);
        self.on_pace(peer, number);
    }

    /// What a peer's clocks show, by its own word, in a ping that left behind the one of this node that it says to have taken.
    pub(super) fn hear_clock(&mut self, peer: NodeId, told: Told, (life, number): (u64, u64)) {
        if life == self.life()
            && let Some(sent) = self.quickness.measure.sent_at(number)
        {
            self.clock.on_told(peer, told, sent, self.now.time);
        }
    }

    /// Names this life of this process.
    fn life(&self) -> u64 {
        identity_in_memory(self.incarnation, self.boot)
    }

    /// What this node says of itself, and of all its partitions as they are.
    pub(crate) fn ping(&self) -> Ping {
        Ping {
            partitions: self.groups.iter().map(|group| news_about(group, &self.outlived)).collect(),
            ..self.ping_of_none()
        }
    }

    fn ping_of_none(&self) -> Ping {
        let time = self.now.time;
        let hears = self.detectors.iter().filter(|detector| detector.hears(time));
        Ping {
            hears: hears.map(|detector| detector.peer).chain([self.config.me]).collect(),
            cluster: self.cluster_name(),
            disk: ToldRoom::of(self.disk),
            waits: !self.waiting.is_empty() || self.tracking.is_wanted() || self.wants_key_events(),
            boot: self.boot,
            resp_address: self.config.resp_address.clone(),
            http_address: self.config.http_address.clone(),
            cluster_address: self.config.cluster_address.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            life: self.life(),
            pace: self.pace(),
            moves: self.movement.moves,
            claim: self.claim(),
            clock: self.clock.told(),
            ..Ping::default()
        }
    }
}

/// What this node says of one partition.
fn news_about(group: &Group, outlived: &Outlived) -> PartitionNews {
    let replica = &group.partition.replica;
    PartitionNews {
        partition: group.id(),
        role: outlived.role_of(group.id(), replica.role()),
        promised: replica.promised(),
        leads: replica.leads(),
        decided: replica.decided(),
        persisted: replica.persisted(),
        applied: group.partition.applied,
        copies: replica.copies(),
        voters: group.settled_voters(),
        refuses: !replica.can_propose(),
        rests: replica.rests().is_some(),
    }
}

/// The news as if the partition were as far as in `other`.
fn with_positions_of(news: &PartitionNews, other: &PartitionNews) -> PartitionNews {
    let has_nothing = |news: &PartitionNews| news.applied == Position(0) && news.persisted == Position(0);
    if has_nothing(news) != has_nothing(other) {
        // Whether there is anything is not a matter of positions.
        return news.clone();
    }
    let PartitionNews { decided, persisted, applied, copies, rests, .. } = other.clone();
    PartitionNews { decided, persisted, applied, copies, rests, ..news.clone() }
}

/// To whom it matters how far a partition is here: whoever votes in it, shall vote, learns, or leads.
fn near(group: &Group) -> Vec<NodeId> {
    let replica = &group.partition.replica;
    let mut near = replica.members().nodes();
    near.push(replica.promised().node);
    if let Some(roster) = &group.roster {
        near.extend(roster.voters.iter().chain(&roster.learners));
    }
    near.sort_unstable();
    near.dedup();
    near
}

#[cfg(test)]
mod tests;
