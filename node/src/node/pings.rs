//! Pings: what a node says of itself, several times a second, to every other.
//!
//! Of its partitions a ping names only those whose news the receiver lacks:
//! 1. A node numbers its pings, within a life of its process, and notes with which of them the news of each partition last changed.
//! 2. A ping says which ping of its receiver was the last one taken (`heard`), and from which number on it has everything that changed
//!    (`since`): from the last one of the sender's that the receiver has said to have taken. 0: it has all there is, and replaces what was known before.
//! 3. A ping whose `since` is beyond what the receiver has taken is a sign of life and no more, and so is one that comes late.
//!
//! So pings may be lost, repeated and overtaken as they like: what is known of a node is always what it said with one of its pings, as a whole. And what
//! nothing happens in costs nothing, however many partitions there are.

use std::collections::{BTreeMap, BTreeSet};

use base::{NodeId, PartitionId};

use super::{Node, role_number};
use crate::group::Group;
use crate::groups::Groups;
use crate::node::buckets::identity_in_memory;
use crate::peer::{PartitionNews, Ping};

/// With each so many-th ping a node tells what it knows of others' folders.
const LIVES_EVERY: u64 = 8;

/// What this node has said of its partitions, and to whom.
#[derive(Debug, Default)]
pub(crate) struct Pings {
    /// The number of the last ping.
    number: u64,
    /// The news of each partition, with the number of the first ping that had them.
    said: BTreeMap<PartitionId, (u64, PartitionNews)>,
    /// The same, by those numbers.
    by_number: BTreeSet<(u64, PartitionId)>,
    /// The last ping that each node has said to have taken.
    taken: BTreeMap<NodeId, u64>,
    /// Whoever has taken none after this one is told everything: partitions have gone since.
    anew_after: u64,
}

impl Pings {
    /// A new ping, with what has changed since the last one.
    fn begin(&mut self, groups: &mut Groups) {
        self.number += 1;
        for id in groups.take_stirred() {
            let Some(g) = groups.place_of(id) else { continue };
            let news = news_about(&groups[g]);
            let before = self.said.get(&id).filter(|(_, said)| *said == news).map(|(number, _)| *number);
            if before.is_none() {
                self.forget(id);
                self.by_number.insert((self.number, id));
                self.said.insert(id, (self.number, news));
            }
        }
    }

    fn forget(&mut self, id: PartitionId) {
        if let Some((number, _)) = self.said.remove(&id) {
            self.by_number.remove(&(number, id));
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

    fn news_since(&self, since: u64) -> Vec<PartitionNews> {
        if since == 0 {
            return self.said.values().map(|(_, news)| news.clone()).collect();
        }
        let first = (since.saturating_add(1), PartitionId::default());
        self.by_number.range(first..).filter_map(|(_, id)| Some(self.said.get(id)?.1.clone())).collect()
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
    /// Says to every peer what is new to it.
    pub(crate) fn send_pings(&mut self) {
        self.pings.begin(&mut self.groups);
        for place in 0..self.detectors.len() {
            self.send_ping(self.detectors[place].peer);
        }
    }

    /// Says to a peer whose link is new what there is.
    pub(super) fn send_first_ping(&mut self, peer: NodeId) {
        self.pings.on_peer_up(peer);
        self.pings.begin(&mut self.groups);
        self.send_ping(peer);
    }

    fn send_ping(&mut self, peer: NodeId) {
        let since = self.pings.since(peer);
        let partitions = self.pings.news_since(since);
        let heard = self.news.get(&peer).map_or((0, 0), |ping| (ping.life, ping.number));
        let pace = self.pace_for(peer);
        self.quickness.measure.on_ping(self.pings.number, self.now.time);
        // Nobody waits for it but whoever hears nothing else.
        let tells = since == 0 || self.pings.number.is_multiple_of(LIVES_EVERY);
        let lives = if tells { self.lives.all() } else { Vec::new() };
        let ping = Ping { number: self.pings.number, since, heard, partitions, pace, lives, ..self.ping_of_none() };
        self.send(peer, &crate::peer::PeerMessage::Ping(ping));
    }

    /// What a peer has taken, by its own word.
    pub(super) fn on_pings_taken(&mut self, peer: NodeId, (life, number): (u64, u64)) {
        let number = if life == self.life() { number } else { 0 };
        self.pings.taken.insert(peer, number);
        self.on_pace(peer, number);
    }

    /// Names this life of this process.
    fn life(&self) -> u64 {
        identity_in_memory(self.incarnation, self.boot)
    }

    /// What this node says of itself, and of all its partitions as they are.
    pub(crate) fn ping(&self) -> Ping {
        Ping { partitions: self.groups.iter().map(news_about).collect(), ..self.ping_of_none() }
    }

    fn ping_of_none(&self) -> Ping {
        let time = self.now.time;
        let hears = self.detectors.iter().filter(|detector| detector.hears(time));
        Ping {
            hears: hears.map(|detector| detector.peer).chain([self.config.me]).collect(),
            cluster: self.registry.cluster,
            disk_full: self.disk_full,
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
            ..Ping::default()
        }
    }
}

/// What this node says of one partition.
fn news_about(group: &Group) -> PartitionNews {
    let replica = &group.partition.replica;
    PartitionNews {
        partition: group.id(),
        role: role_number(replica.role()),
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

#[cfg(test)]
mod tests {
    use base::{BucketId, Position, Rng};

    use super::*;

    fn news(index: u16, decided: u64) -> PartitionNews {
        let partition = PartitionId { bucket: BucketId(1), index };
        PartitionNews { partition, decided: Position(decided), ..PartitionNews::default() }
    }

    /// A ping with the decided positions of partitions.
    fn ping(life: u64, number: u64, since: u64, partitions: &[(u16, u64)]) -> Ping {
        let partitions = partitions.iter().map(|(index, decided)| news(*index, *decided)).collect();
        Ping { life, number, since, partitions, ..Ping::default() }
    }

    fn known(ping: &Ping) -> Vec<(u16, u64)> {
        ping.partitions.iter().map(|news| (news.partition.index, news.decided.0)).collect()
    }

    #[test]
    fn what_comes_late_or_has_a_gap_before_it_tells_nothing() {
        let mut it = Ping::default();
        assert_eq!(it.take(ping(7, 4, 3, &[(2, 9)])), Taken::All, "it is not known what was before");
        assert_eq!((known(&it), it.number), (vec![], 0), "so it does not count as taken");
        assert_eq!(it.take(ping(7, 5, 0, &[(2, 9), (1, 5)])), Taken::All);
        assert_eq!(known(&it), [(1, 5), (2, 9)]);
        let changed = news(3, 1).partition;
        assert_eq!(it.take(ping(7, 7, 5, &[(3, 1)])), Taken::Some(vec![changed]));
        assert_eq!(it.take(ping(7, 6, 0, &[])), Taken::Late);
        assert_eq!(it.take(ping(7, 7, 5, &[(3, 1)])), Taken::Late, "twice");
        assert_eq!(it.take(ping(7, 9, 8, &[(1, 6)])), Taken::Nothing, "what ping 8 said is not known");
        assert_eq!((known(&it), it.number), (vec![(1, 5), (2, 9), (3, 1)], 7));
        assert_eq!(it.take(ping(8, 1, 0, &[(2, 1)])), Taken::All, "another life");
        assert_eq!(known(&it), [(2, 1)]);
        assert_eq!(it.take(ping(9, 5, 2, &[(2, 3)])), Taken::All);
        assert_eq!(known(&it), [], "what the life before has said is not true any more");
    }

    /// One says, another hears with losses, repetitions and delays: what it knows is what was so with the ping that it took last.
    #[test]
    fn what_is_known_was_all_said_at_once() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let (mut sender, peer) = (Pings::default(), NodeId(1));
            let mut heard = Ping::default();
            let (mut truth, mut then) = (BTreeMap::new(), BTreeMap::new());
            let mut under_way: Vec<Ping> = Vec::new();
            for _ in 0..200 {
                sender.number += 1;
                for _ in 0..rng.below(3) {
                    let (index, decided) = (rng.below(6) as u16, rng.below(1000));
                    let id = news(index, 0).partition;
                    sender.forget(id);
                    if rng.chance(1, 20) {
                        truth.remove(&index);
                        sender.anew_after = sender.number;
                        sender.number += 1;
                    } else {
                        truth.insert(index, decided);
                        sender.by_number.insert((sender.number, id));
                        sender.said.insert(id, (sender.number, news(index, decided)));
                    }
                }
                then.insert(sender.number, truth.clone());
                let since = sender.since(peer);
                let partitions = sender.news_since(since);
                under_way.push(Ping { life: 1, number: sender.number, since, partitions, ..Ping::default() });
                while rng.chance(1, 2) && !under_way.is_empty() {
                    let place = rng.below(under_way.len() as u64) as usize;
                    let arrives =
                        if rng.chance(1, 5) { under_way[place].clone() } else { under_way.swap_remove(place) };
                    if !rng.chance(1, 5) {
                        heard.take(arrives);
                    }
                }
                if rng.chance(1, 3) {
                    sender.taken.insert(peer, heard.number);
                }
                let so_then = then.get(&heard.number).cloned().unwrap_or_default();
                assert_eq!(
                    known(&heard),
                    so_then.into_iter().collect::<Vec<_>>(),
                    "seed {seed}, ping {}",
                    heard.number
                );
            }
            assert!(heard.number > 0);
        }
    }
}
