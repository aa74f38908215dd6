//! How quick this node is beside the others, and what follows if it is slow: it leads nothing as long as others can.
//!
//! 1. It measures, in windows of half a second ([`measure`]), three figures: how long its disk takes for a sync, how late its loop is though it is not at
//!    work, and how long a message takes to the nearest others and back.
//! 2. It says them in its pings, and compares its own with those of the others ([`judge`]). If one of them is far above the middle one for a while,
//!    the node says that it is slow.
//! 3. Whoever hears that does with it as with a drained node, but for its votes: it comes last in elections, and nobody gives it a leadership
//!    ([`Node::spare_slow`]). It gives away what it leads ([`Node::gives_way_to_quicker`]). When it is well again for a while it says so, and everything
//!    goes back in the ordinary way.
//!
//! Nothing that must be right depends on any of this. (docs/decisions/2026-11-25-slow-nodes.md)

mod judge;
mod measure;

use std::collections::BTreeMap;
use std::time::Duration;

use base::limits::CLOSE_ENTRIES;
use base::{NodeId, Time};
use paxos::Roster;
use wire::{Malformed, Reader, Writer};

use crate::council::COUNCIL;
use crate::door::{Level, Planted};
use crate::node::{Node, place_of};
use crate::peer::Ping;
use crate::placement;
use judge::{Change, Judge};
pub(crate) use measure::Measure;

/// How often a node that is slow tries to give a leadership away. Each attempt that fails keeps writes waiting, and so they are rare.
const GIVE_WAY_EVERY: Duration = Duration::from_secs(5);

/// What of a node may be slow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// Its journal's disk.
    Disk,
    /// Its processor: the loop comes late.
    Processor,
    /// Its links to others.
    Link,
}

impl Part {
    /// All of them, in the order of [`Pace::figures`].
    pub(crate) const ALL: [Part; 3] = [Part::Disk, Part::Processor, Part::Link];

    /// For people and for programs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Part::Disk => "disk",
            Part::Processor => "processor",
            Part::Link => "link",
        }
    }

    fn number(part: Option<Part>) -> u8 {
        part.map_or(0, |part| part as u8 + 1)
    }

    fn from_number(number: u8) -> Result<Option<Part>, Malformed> {
        let place = match number.checked_sub(1) {
            None => return Ok(None),
            Some(place) => usize::from(place),
        };
        Part::ALL.get(place).copied().map(Some).ok_or(Malformed)
    }
}

/// What a node says of its quickness in a ping.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Pace {
    /// Of each part, in microseconds, as last measured: a sync, how long the loop lets things wait, a message to the nearest others and back. 0: not known.
    pub figures: [u32; Part::ALL.len()],
    /// By what it is slow; it shall lead nothing as long as others can.
    pub slow: Option<Part>,
    /// How long ago, in microseconds, the ping came that this one says to have taken, or may have come while the loop was at work, when this one leaves at the end of a turn at the
    /// latest: what a message takes, there and back, is told without that.
    pub heard_ago: u32,
}

impl Pace {
    pub(crate) fn encode(&self, w: &mut Writer<'_>) {
        self.figures.iter().for_each(|figure| w.varint(u64::from(*figure)));
        w.u8(Part::number(self.slow));
        w.varint(u64::from(self.heard_ago));
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Pace, Malformed> {
        let mut number = || r.varint().and_then(|number| u32::try_from(number).map_err(|_| Malformed));
        let figures = [number()?, number()?, number()?];
        Ok(Pace {
            figures,
            slow: Part::from_number(r.u8()?)?,
            heard_ago: r.varint()?.try_into().map_err(|_| Malformed)?,
        })
    }
}

/// A duration in microseconds, at least one: 0 means that nothing is known.
fn microseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX).max(1)
}

/// What a node knows of its own quickness, and of whom it spares.
#[derive(Debug, Default)]
pub(crate) struct Quickness {
    pub measure: Measure,
    judge: Judge,
    /// As last measured; see [`Pace::figures`].
    figures: [u32; Part::ALL.len()],
    /// The nodes that say that they are slow, this one included, as the replicas were last told. Sorted.
    spared: Vec<NodeId>,
    /// Those whose disks have too little room, or whose clocks are wrong, in the same way.
    short: Vec<NodeId>,
    /// The last ping of each peer that was taken: its number, when it was taken, and how long it may have waited for this loop, which was at work.
    taken: BTreeMap<NodeId, (u64, Time, Duration)>,
}

impl Node {
    /// By what this node is slow, as it says itself.
    pub(crate) fn slow_part(&self) -> Option<Part> {
        self.quickness.judge.slow()
    }

    /// What is said of it to a peer.
    pub(crate) fn pace_for(&self, peer: NodeId) -> Pace {
        let taken = self.quickness.taken.get(&peer);
        let turn = self.quickness.measure.longest_work(self.now.time);
        let heard_ago = taken.map_or(0, |(_, at, waited)| microseconds(self.now.time.since(*at) + *waited + turn));
        Pace { heard_ago, ..self.pace() }
    }

    /// The same, said to nobody.
    pub(crate) fn pace(&self) -> Pace {
        Pace { figures: self.quickness.figures, slow: self.slow_part(), heard_ago: 0 }
    }

    /// A ping of a peer came. It says which one of this node's the peer has taken last; and how long ago, if the ping was taken.
    pub(crate) fn on_pace(&mut self, peer: NodeId, heard: u64) {
        let time = self.now.time;
        let Some(Ping { number, pace, .. }) = self.news.get(&peer) else { return };
        if self.quickness.taken.get(&peer).is_some_and(|(last, ..)| last == number) {
            return;
        }
        let waited = self.quickness.measure.worked_until(time);
        self.quickness.taken.insert(peer, (*number, time, waited));
        if pace.heard_ago > 0 {
            self.quickness.measure.on_answer(peer, heard, Duration::from_micros(u64::from(pace.heard_ago)), time);
        }
    }

    /// Timers are looked at, so much later than was planned.
    pub(crate) fn tick_pace(&mut self, late: Duration) {
        self.quickness.measure.on_tick(late, self.now.time);
        if let Some(found) = self.quickness.measure.close(self.now.time, self.detectors.len()) {
            for (place, figure) in found.into_iter().enumerate() {
                self.quickness.figures[place] = figure.map_or(self.quickness.figures[place], microseconds);
            }
            self.judge_pace(found.map(|figure| figure.is_some()));
            if found[Part::Disk as usize].is_none() && self.slow_part() == Some(Part::Disk) {
                self.try_disk();
            }
        }
        self.follow_pace();
    }

    /// Gives the journal something to sync. A node that is slow by its disk becomes well by syncs alone, and without this it stays slow for as long as nobody writes.
    fn try_disk(&mut self) {
        let Some(g) = place_of(&self.groups, COUNCIL) else { return };
        let group = &mut self.groups[g];
        group.partition.store_state();
        group.partition.settle(&mut self.batch, &mut group.wishes);
        self.groups.wake(g);
        self.probe("node: a slow disk is tried");
    }

    /// Compares the figures of a window that is over with those of the others.
    fn judge_pace(&mut self, is_new: [bool; Part::ALL.len()]) {
        let time = self.now.time;
        let peers = self.detectors.iter().filter(|detector| detector.is_up(time)).map(|detector| detector.peer);
        let others: Vec<Pace> = peers.filter_map(|peer| Some(self.news.get(&peer)?.pace)).collect();
        let figures = self.quickness.figures;
        let change = match self.config.planted {
            Some(Planted::SlowLeadsOn) => None,
            _ => self.quickness.judge.on_window(time, figures, is_new, &others),
        };
        let Some(change) = change else { return };
        let told = |part: Part| {
            let (place, name) = (part as usize, part.name());
            let mut theirs: Vec<u32> = others.iter().map(|pace| pace.figures[place]).filter(|it| *it > 0).collect();
            theirs.sort_unstable();
            let theirs: Vec<String> = theirs.into_iter().map(milliseconds).collect();
            format!("{name}: {} ms here, {} ms elsewhere", milliseconds(figures[place]), theirs.join(" and "))
        };
        match change {
            Change::Slow(part) => {
                self.probe("node: slow");
                self.event(
                    Level::Warning,
                    format!("this node is slow ({}): it leads nothing as long as others can", told(part)),
                );
            }
            Change::Well(part) => {
                self.probe("node: well again");
                self.event(Level::Info, format!("this node is not slow any more ({}): it may lead again", told(part)));
            }
        }
    }

    /// Whether a node says that it is slow, this one included.
    pub(crate) fn is_slow(&self, node: NodeId) -> bool {
        self.quickness.spared.contains(&node)
    }

    /// Tells the replicas, if it is others that are slow than before.
    fn follow_pace(&mut self) {
        let slow = |(id, ping): (&NodeId, &Ping)| ping.pace.slow.map(|_| *id);
        let mut spared: Vec<NodeId> = self.news.iter().filter_map(slow).collect();
        spared.extend(self.slow_part().map(|_| self.config.me));
        spared.sort_unstable();
        let low = |(id, ping): (&NodeId, &Ping)| (ping.disk.room().is_low() || ping.clock.is_outside).then_some(*id);
        let mut short: Vec<NodeId> = self.news.iter().filter_map(low).collect();
        short.extend((self.disk.is_low() || self.clock.is_outside()).then_some(self.config.me));
        short.sort_unstable();
        if self.quickness.spared != spared || self.quickness.short != short {
            self.quickness.spared = spared;
            self.quickness.short = short;
            self.tell_rosters();
        }
    }

    /// Puts those behind all others that say that they are slow, that their disks have too little room, or that their clocks are wrong; who votes stays as it is.
    pub(crate) fn spare_slow(&self, g: usize, roster: &mut Roster) {
        let slow = [&self.quickness.spared[..], &self.quickness.short].concat();
        if slow.is_empty() {
            return;
        }
        roster.spared.extend(&slow);
        roster.spared.sort_unstable();
        roster.spared.dedup();
        if !slow.contains(&roster.preferred) {
            return;
        }
        let group = &self.groups[g];
        let mut nodes = [&roster.voters[..], &roster.learners[..]].concat();
        if roster.voters.is_empty() {
            nodes.extend(group.partition.replica.members().voters.iter().map(|member| member.node));
        }
        nodes.sort_unstable();
        nodes.dedup();
        let votes = |id: &NodeId| roster.voters.is_empty() || roster.voters.contains(id);
        let leads = |id: &NodeId| votes(id) && !roster.spared.contains(id);
        if let Some(preferred) = placement::order(group.id(), &nodes).into_iter().find(leads) {
            roster.preferred = preferred;
        }
    }

    /// Whether this node is slow, or has a wrong clock, and leads a partition that another one is ready to take over, as far as is known here.
    pub(crate) fn gives_way_to_quicker(&mut self, g: usize) -> bool {
        let (time, group) = (self.now.time, &self.groups[g]);
        let replica = &group.partition.replica;
        let should = self.slow_part().is_some() || self.clock.is_outside();
        if !should || replica.leads().is_none() || time < group.next_escape {
            return false;
        }
        let spared = group.roster.as_ref().map_or(&[][..], |roster| &roster.spared[..]);
        let (last, members) = (replica.log().last(), replica.members());
        let is_ready = |(id, matched): &(NodeId, base::Position)| {
            let is_up = self.trusted.get(usize::from(id.0)).is_some_and(|trusted| *trusted);
            is_up && members.keeps(*id) && !spared.contains(id) && matched.0 + CLOSE_ENTRIES >= last.0
        };
        if !replica.copies().iter().any(is_ready) {
            return false;
        }
        self.probe("node: slow leader gives way");
        self.groups[g].next_escape = time + GIVE_WAY_EVERY;
        true
    }
}

/// A figure for people.
fn milliseconds(figure: u32) -> String {
    format!("{:.1}", f64::from(figure) / 1000.0)
}

#[cfg(test)]
mod tests;
