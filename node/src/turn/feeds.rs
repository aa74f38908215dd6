//! Feeds: what entries change, told to nodes that have no state of the partition by the leader. What hangs on it at such a node: clients that keep copies, that
//! listen to what becomes of keys, that wait for something to come. See [`crate::elsewhere`].
//!
//! 1. Who wants a feed gives it a number, and says so again and again ([`FOLLOW_EVERY`]); each time it has a word back, and so knows that it would be told.
//! 2. What is told begins where the word before ended. Where it does not, or the feed is a new one, nobody knows what has changed meanwhile: copies are not
//!    to be relied on, and whoever waits looks again.
//! 3. A feed goes over the same link as the answers to reads, behind them: a change that a read has not seen comes later than its answer.

use base::limits::TURN_READ_BYTES_MAX;
use base::{NodeId, Position};

use crate::elsewhere::{FEED_SILENT, FOLLOW_EVERY, Follower, Following};
use crate::entry::Origin;
use crate::node::{Node, place_of};
use crate::peer::PeerMessage;
use crate::peer::carried::FedEntry;
use crate::router::Waiter;

impl Node {
    /// As the leader: a node wants to be told what changes, for a while.
    pub(crate) fn on_follow(&mut self, g: usize, peer: NodeId, feed: u64) {
        let until = self.now.time + FOLLOW_EVERY * 2;
        let group = &mut self.groups[g];
        if group.partition.replica.leads().is_none() || group.elsewhere.is_some() {
            return;
        }
        let after = group.partition.applied;
        let followers = &mut group.followers;
        followers.retain(|follower| follower.peer != peer || follower.feed == feed);
        match followers.iter_mut().find(|follower| follower.peer == peer) {
            Some(follower) => (follower.until, follower.wants_word) = (until, true),
            None => followers.push(Follower {
                peer,
                feed,
                wants_word: true,
                after,
                until,
                entries: Vec::new(),
                bytes: 0,
                is_torn: false,
            }),
        }
    }

    /// An entry has been applied: what it has changed is for those who follow.
    pub(super) fn feed_applied(&mut self, g: usize, origin: Option<Origin>) {
        let group = &mut self.groups[g];
        let (wishes, position) = (&group.wishes, group.partition.applied);
        if wishes.changes.is_empty() && wishes.key_events.is_empty() {
            return;
        }
        for follower in &mut group.followers {
            let own = origin.as_ref().filter(|origin| origin.node == follower.peer);
            let events = wishes.key_events.iter().map(|it| (it.class, it.name.to_owned(), it.key.clone()));
            let entry = FedEntry {
                position,
                changes: wishes.changes.clone(),
                events: events.collect(),
                own: own.map_or(0, |origin| origin.sequence),
            };
            follower.bytes += entry.weight();
            follower.entries.push(entry);
            if follower.bytes > TURN_READ_BYTES_MAX {
                // More than anybody would go through: it looks again at everything.
                follower.is_torn = true;
                follower.entries.clear();
                follower.bytes = 0;
            }
        }
    }

    /// At the end of a turn: tells those who follow.
    pub(super) fn send_feeds(&mut self, g: usize) {
        if self.groups[g].followers.is_empty() {
            return;
        }
        let time = self.now.time;
        let group = &mut self.groups[g];
        if group.partition.replica.leads().is_none() {
            return group.followers.clear();
        }
        let (partition, applied) = (group.id(), group.partition.applied);
        group.followers.retain(|follower| follower.until > time);
        let mut words = Vec::new();
        for follower in &mut group.followers {
            let has_word = std::mem::take(&mut follower.wants_word);
            if follower.entries.is_empty() && !has_word && !follower.is_torn {
                continue;
            }
            let after = if std::mem::take(&mut follower.is_torn) { Position(u64::MAX) } else { follower.after };
            follower.after = applied;
            follower.bytes = 0;
            let (feed, entries) = (follower.feed, std::mem::take(&mut follower.entries));
            words.push((follower.peer, PeerMessage::Feed { partition, feed, after, until: applied, entries }));
        }
        for (peer, word) in words {
            self.send(peer, &word);
        }
    }

    /// At a tick: asks for the feeds that somebody here wants.
    pub(super) fn follow_elsewhere(&mut self) {
        let wants_all = self.tracking.is_wanted() || self.wants_key_events();
        if !wants_all && self.waiting.is_empty() && !self.follows {
            return;
        }
        let time = self.now.time;
        let mut follows = false;
        for g in 0..self.groups.len() {
            let group = &self.groups[g];
            let Some(elsewhere) = &group.elsewhere else { continue };
            if !wants_all && !self.waiting.is_for(group.id()) {
                if elsewhere.following.is_some()
                    && let Some(elsewhere) = &mut self.groups[g].elsewhere
                {
                    elsewhere.following = None;
                }
                continue;
            }
            follows = true;
            let leader = self.leader_of(g).map(|(leader, _)| leader);
            let is_told = |it: &Following| {
                let silent = it.heard.is_some_and(|(at, _)| time.since(at) >= FEED_SILENT);
                Some(it.leader) == leader && time.since(it.asked_at) < FOLLOW_EVERY && !silent
            };
            if !elsewhere.following.as_ref().is_some_and(is_told) {
                self.follow(g, leader);
            }
        }
        self.follows = follows;
    }

    /// Asks the leader for a feed, or to go on with it.
    fn follow(&mut self, g: usize, leader: Option<NodeId>) {
        let time = self.now.time;
        let (Some(leader), id) = (leader, self.groups[g].id()) else { return };
        let ticket = self.groups[g].router.ticket();
        let Some(elsewhere) = &mut self.groups[g].elsewhere else { return };
        let goes_on = elsewhere
            .following
            .take_if(|it| it.leader == leader && it.heard.is_none_or(|(at, _)| time.since(at) < FEED_SILENT));
        let (feed, heard) = goes_on.map_or((ticket, None), |it| (it.feed, it.heard));
        elsewhere.following = Some(Following { feed, leader, asked_at: time, heard });
        self.send(leader, &PeerMessage::Follow { partition: id, feed });
    }

    /// The link to a peer is gone: what it feeds has a gap.
    pub(crate) fn break_feeds(&mut self, peer: NodeId) {
        for g in 0..self.groups.len() {
            let feeds = self.groups[g].elsewhere.as_ref().and_then(|elsewhere| elsewhere.following.as_ref());
            if feeds.is_some_and(|following| following.leader == peer)
                && let Some(elsewhere) = &mut self.groups[g].elsewhere
            {
                elsewhere.following = None;
            }
        }
    }

    /// Whether this node would be told what changes in a partition of which it has no state.
    pub(crate) fn is_fed(&self, g: usize) -> bool {
        let following = self.groups[g].elsewhere.as_ref().and_then(|elsewhere| elsewhere.following.as_ref());
        let heard = following.and_then(|following| following.heard);
        heard.is_some_and(|(at, _)| self.now.time.since(at) < FEED_SILENT)
    }

    /// What has changed, by the leader's word.
    pub(crate) fn on_feed(
        &mut self,
        g: usize,
        feed: u64,
        (after, until): (Position, Position),
        entries: Vec<FedEntry>,
    ) {
        let time = self.now.time;
        let Some(elsewhere) = &mut self.groups[g].elsewhere else { return };
        let Some(following) = elsewhere.following.as_mut().filter(|following| following.feed == feed) else { return };
        let has_gap = following.heard.is_none_or(|(_, told)| told != after);
        following.heard = Some((time, until));
        let id = self.groups[g].id();
        if has_gap {
            self.probe("node: a feed has a gap");
            self.untold += 1;
            self.tracking.forget_everything();
            self.waiting.touch_all(id);
        }
        for entry in entries {
            self.probe("node: told what changes elsewhere");
            let write = self.groups[g].router.get_mut(entry.own);
            let writer = write.and_then(|write| match write.waiter {
                Waiter::Client { connection, .. } => Some(connection),
                Waiter::Nobody => None,
            });
            self.groups[g].wishes.changes = entry.changes;
            self.invalidate_changed(g, writer);
            // The leader before may have told it, and died.
            if entry.position > self.groups[g].events_told {
                self.groups[g].events_told = entry.position;
                self.tell_fed_events(g, &entry.events);
            }
        }
    }

    /// Whether this node has no state of a partition that it has a part in.
    pub(crate) fn is_elsewhere(&self, partition: base::PartitionId) -> bool {
        place_of(&self.groups, partition).is_some_and(|g| self.groups[g].elsewhere.is_some())
    }
}
