//! Replicas compare their states in the background, so that a difference between them is noticed and mended, whatever its cause.
//!
//! ```text
//!  leader ──entry "compare" at position p──► all replicas
//!  each replica freezes its state at p, reads it block by block at a slow pace, and tells all others the digest
//!  each replica judges: a majority of the voters has a digest; who has another one is in the minority
//! ```
//! The entry makes all replicas mean the same moment. A digest is that of the blocks that a snapshot would have. A replica that was in the minority in two comparisons
//! in a row gives up what it has, stops voting, and gets the state from the others, as after a loss of memory: one wrong digest may come from a wrong calculation.
//!
//! This part owns what is compared; the node proposes the entry, carries messages, and rebuilds ([`Effect`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use base::limits::COMPARED_BYTES_PER_SECOND;
use base::{NodeId, PartitionId, Position, Time};

use crate::door::{Level, Rubbish};
use crate::image::{Ending, Image};
use crate::transfer::jobs::{BlockJob, MadeBlock};

/// Frozen states that a node holds for comparisons at the same time. Further ones are let go without a digest.
const STATES_MAX: usize = 4;
/// After so many comparisons in a row in which a replica is in the minority it is rebuilt.
const STRIKES: u8 = 2;
/// The reading of blocks may be ahead of its pace by so much.
const AHEAD: Duration = Duration::from_millis(200);
/// Marks the number of a job that makes blocks for nobody, where others have that of a transfer.
pub(crate) const COMPARES: u64 = 1 << 63;

/// Work for the node.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Tell all peers: of this partition's state at this position the digest.
    Tell(PartitionId, Position, Ending),
    Event(Level, String),
    Probe(&'static str),
    Drop(Rubbish),
}

/// A frozen state that is being read.
#[derive(Debug)]
struct Reading {
    number: u64,
    partition: PartitionId,
    position: Position,
    /// Away while a block is made.
    image: Option<Box<Image>>,
}

/// The latest comparison of a partition that this node knows of.
#[derive(Debug, Default)]
struct Round {
    position: Position,
    digests: BTreeMap<NodeId, Ending>,
    /// Replicas that differ from the majority.
    differing: BTreeSet<NodeId>,
    is_told: bool,
}

/// The voters of a partition and this node, which judges their digests.
#[derive(Clone, Copy)]
pub(crate) struct Jury<'a> {
    pub voters: &'a [NodeId],
    pub me: NodeId,
    pub name_of: &'a dyn Fn(NodeId) -> String,
    pub about: &'a str,
}

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    reading: VecDeque<Reading>,
    /// How many have been read, or begun.
    begun: u64,
    /// When the next block may be made.
    ready_at: Time,
    rounds: BTreeMap<PartitionId, Round>,
    /// In how many comparisons in a row this node's replica was in the minority.
    strikes: BTreeMap<PartitionId, u8>,
    /// When this node, as the leader, last proposed a comparison of a partition, and up to where it had applied its log.
    proposed: BTreeMap<PartitionId, (Time, Position)>,
    next_proposal: Time,
    /// Digests that this node has come to, and comparisons in which some replica differed from the majority.
    pub compared: u64,
    pub differing: u64,
}

impl Comparison {
    /// The partition whose states are to be compared now, of those that this node leads, with what it has applied of their logs. Each has its turn once in `every`, if
    /// anything was applied since the last one.
    pub(crate) fn next(
        &mut self,
        now: Time,
        every: Duration,
        led: impl Iterator<Item = (PartitionId, Position)>,
    ) -> Option<PartitionId> {
        if now < self.next_proposal {
            return None;
        }
        let led: Vec<(PartitionId, Position)> = led.collect();
        let are_led: BTreeSet<PartitionId> = led.iter().map(|(partition, _)| *partition).collect();
        self.proposed.retain(|partition, _| are_led.contains(partition));
        self.next_proposal = now + every / u32::try_from(led.len().max(1)).unwrap_or(u32::MAX);
        let last_of = |partition: &PartitionId| self.proposed.get(partition).copied().unwrap_or_default();
        let has_news = |(partition, applied): &&(PartitionId, Position)| *applied > last_of(partition).1;
        let (partition, applied) = *led.iter().filter(has_news).min_by_key(|(partition, _)| last_of(partition).0)?;
        // The entry itself is no news.
        self.proposed.insert(partition, (now, applied.next()));
        Some(partition)
    }

    /// The entry was applied: this is the state behind it.
    pub(crate) fn begin(&mut self, partition: PartitionId, position: Position, image: Image) -> Option<Effect> {
        if self.reading.len() >= STATES_MAX {
            return Some(Effect::Drop(Rubbish::new(image)));
        }
        self.begun += 1;
        self.reading.push_back(Reading { number: self.begun, partition, position, image: Some(Box::new(image)) });
        None
    }

    /// The next block to be made, if it is time.
    pub(crate) fn job(&mut self, now: Time) -> Option<BlockJob> {
        if now < self.ready_at {
            return None;
        }
        let reading = self.reading.front_mut()?;
        let image = reading.image.take()?;
        Some(BlockJob { partition: reading.partition, transfer: COMPARES | reading.number, image })
    }

    /// True if a block was made for a comparison.
    pub(crate) fn is_of(made: &MadeBlock) -> bool {
        made.transfer & COMPARES != 0
    }

    /// Takes a block that was made, unless its partition has begun anew since.
    pub(crate) fn on_block(&mut self, now: Time, made: MadeBlock) -> Vec<Effect> {
        let MadeBlock { partition, transfer, image, block } = made;
        let is_current = |reading: &&mut Reading| COMPARES | reading.number == transfer;
        let Some(reading) = self.reading.front_mut().filter(is_current) else {
            return vec![Effect::Drop(Rubbish::new(image))];
        };
        let position = reading.position;
        let ending = match block {
            Ok(block) => {
                let bytes = block.bytes.len() as u64;
                let takes = Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / COMPARED_BYTES_PER_SECOND);
                self.ready_at = self.ready_at.max(Time(now.0.saturating_sub(AHEAD.as_nanos() as u64))) + takes;
                if block.ending.is_none() {
                    reading.image = Some(image);
                    return Vec::new();
                }
                block.ending
            }
            // The store's trouble is told where it is met.
            Err(_) => None,
        };
        self.reading.pop_front();
        let mut effects = vec![Effect::Drop(Rubbish::new(image))];
        if let Some(ending) = ending {
            self.compared += 1;
            effects.extend([Effect::Probe("node: state compared"), Effect::Tell(partition, position, ending)]);
        }
        effects
    }

    /// A replica's digest, this node's own among them.
    pub(crate) fn on_digest(
        &mut self,
        from: NodeId,
        (partition, position): (PartitionId, Position),
        ending: Ending,
        jury: &Jury<'_>,
    ) -> Vec<Effect> {
        let round = self.rounds.entry(partition).or_default();
        if position < round.position {
            return Vec::new();
        }
        if position > round.position {
            *round = Round { position, ..Round::default() };
        }
        round.digests.insert(from, ending);
        self.judge(partition, jury)
    }

    fn judge(&mut self, partition: PartitionId, jury: &Jury<'_>) -> Vec<Effect> {
        let Some(round) = self.rounds.get_mut(&partition) else { return Vec::new() };
        let of_voters = || jury.voters.iter().filter_map(|voter| round.digests.get(voter));
        let has_majority =
            |ending: &&Ending| of_voters().filter(|other| other == ending).count() > jury.voters.len() / 2;
        let mut effects = Vec::new();
        let about = jury.about;
        let position = round.position;
        let Some(majority) = of_voters().find(has_majority).copied() else {
            let is_split = of_voters().count() == jury.voters.len() && jury.voters.len() > 1;
            if is_split && !std::mem::replace(&mut round.is_told, true) {
                self.differing += 1;
                effects.push(Effect::Probe("node: states differ without a majority"));
                let text = format!(
                    "{about}the states of its replicas differ at position {position}, and no majority has the same: stop the nodes, save the folders of all of them, and find out which is right"
                );
                effects.push(Effect::Event(Level::Error, text));
            }
            return effects;
        };
        let known = round.digests.iter().map(|(node, ending)| (*node, *ending == majority)).collect::<Vec<_>>();
        for (node, is_same) in known {
            if is_same {
                if node == jury.me {
                    self.strikes.remove(&partition);
                }
                continue;
            }
            if !round.differing.insert(node) {
                continue;
            }
            self.differing += 1;
            effects.push(Effect::Probe("node: a state differs"));
            let name = (jury.name_of)(node);
            let text = format!("{about}the state of {name} at position {position} is not that of the majority");
            effects.push(Effect::Event(Level::Error, text));
            if node == jury.me {
                *self.strikes.entry(partition).or_default() += 1;
            }
        }
        effects
    }

    /// The partitions whose replicas here are to be rebuilt.
    pub(crate) fn doubtful(&self) -> impl Iterator<Item = PartitionId> {
        self.strikes.iter().filter(|(_, strikes)| **strikes >= STRIKES).map(|(partition, _)| *partition)
    }

    /// True if all of these voters but this one have had the majority's digest in the latest comparison: then they bear the loss of this replica.
    pub(crate) fn bears(&self, partition: PartitionId, voters: &[NodeId], me: NodeId) -> bool {
        let Some(round) = self.rounds.get(&partition) else { return false };
        let is_well = |node: &NodeId| round.digests.contains_key(node) && !round.differing.contains(node);
        voters.len() > 2 && voters.iter().filter(|node| **node != me).all(is_well)
    }

    /// The replica here has begun anew, or is gone.
    pub(crate) fn forget(&mut self, partition: PartitionId) -> Vec<Effect> {
        self.strikes.remove(&partition);
        self.rounds.remove(&partition);
        let mut effects = Vec::new();
        self.reading.retain_mut(|reading| {
            let goes = reading.partition == partition;
            if let Some(image) = reading.image.take_if(|_| goes) {
                effects.push(Effect::Drop(Rubbish::new(image)));
            }
            !goes
        });
        effects
    }
}

#[cfg(test)]
mod tests;
