//! Thousands of drawn schedules: three or five replicas, messages lost, doubled and overtaken, crashes, slow disks, wrong
//! failure detectors, several inputs in one turn. After every turn [`World::check`] asserts agreement, immutability,
//! leader completeness, durability and the freshness of confirmed reads. The larger simulator is in the room `sim`; this one takes a second and fits in one page.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{UnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;
use std::time::Duration;

use base::{NodeId, Rng};
use bytes::Bytes;
use paxos::{HardState, Input, Message, Planted};

use crate::harness::disk::Disk;
use crate::harness::words::replica_words;
use crate::harness::{Envelope, World};

/// One step of a schedule, drawn.
fn act(world: &mut World, rng: &mut Rng, wipes: bool) {
    let count = world.nodes.len();
    let node = rng.below(count as u64) as usize;
    let other = rng.below(count as u64) as usize;
    match rng.below(100) {
        0..=39 if !world.network.is_empty() => {
            // Mostly in order, sometimes not, sometimes twice, sometimes never.
            let index = if rng.chance(1, 4) { rng.below(world.network.len() as u64) as usize } else { 0 };
            let envelope = world.network.remove(index).expect("drawn within the length");
            if rng.chance(1, 20) {
                world.network.push_back(envelope.clone());
            }
            if !rng.chance(1, 20) {
                arrive(world, rng, envelope);
            }
        }
        40..=54 => {
            let batches = 1 + rng.below(3) as usize;
            world.sync_some(node, batches);
        }
        55..=74 => world.tick_only(node, Duration::from_millis(rng.between(1, 120))),
        75..=77 => world.ask(node),
        78..=84 => {
            let leader = world.leader().unwrap_or(node);
            if world.is_up(leader) {
                let inputs = (0..rng.between(1, 3)).map(|_| proposal(rng)).collect();
                world.turn(leader, inputs);
            }
        }
        85..=87 => world.trust(node, other, rng.chance(2, 3)),
        88 if world.is_up(node) => world.turn(node, vec![Input::HandOver]),
        89 if world.is_up(node) => {
            let position = world.replica(node).decided();
            if let Some(ballot) = world.replica(node).log().ballot_at(position) {
                world.nodes[node].disk.snapshot = Some((position, ballot));
                world.nodes[node].disk.members = world.members_at(position);
                let keep = rng.below(3);
                world.turn(node, vec![Input::SnapshotTaken { position, keep }]);
            }
        }
        90..=91 => ship(world, node),
        92 => {
            if rng.chance(1, 2) {
                world.cuts.insert((node, other));
            } else {
                world.cuts.clear();
            }
        }
        93 if world.is_up(node) => {
            let survivors = rng.below(3) as usize;
            world.crash_after(node, survivors);
        }
        94 if wipes && rng.chance(1, 10) && lossless(world, node) => {
            if world.is_up(node) {
                world.crash(node);
            }
            let disk = &mut world.nodes[node].disk;
            if rng.chance(1, 2) {
                // The folder is deleted.
                *disk = Disk::empty(disk.incarnation + rng.between(1, 1000));
            } else if disk.durable.len() > 1 {
                // The end of the journal cannot be read.
                let lost = rng.between(1, disk.durable.len() as u64 - 1) as usize;
                disk.durable.truncate(disk.durable.len() - lost.min(3));
                disk.unprovable = true;
            }
            world.disks_whole = false;
        }
        _ if !world.is_up(node) => {
            world.start(node);
            world.detect(node);
        }
        _ => {
            world.nodes[node].fast = rng.chance(1, 2);
        }
    }
}

/// Whether nobody else is without memory: two lost memories at once are more than a group of three survives.
fn lossless(world: &World, node: usize) -> bool {
    (0..world.nodes.len()).filter(|other| *other != node).all(|other| {
        let disk = &world.nodes[other].disk;
        let state = disk.durable.last().map(|batch| &batch.state);
        // A learner that was emptied may have been named a voter meanwhile, and does not know it yet.
        let is_first = disk.incarnation == Disk::of_learner(other).incarnation;
        let is_whole =
            |state: &HardState| !state.recovering && (!state.incarnations.is_empty() || state.joins && is_first);
        !disk.unprovable && state.is_some_and(is_whole)
    })
}

fn proposal(rng: &mut Rng) -> Input {
    Input::Propose { payload: Bytes::from(format!("{:08x}", rng.next_u64() as u32)) }
}

/// A message arrives, perhaps in one turn with proposals and with another message.
fn arrive(world: &mut World, rng: &mut Rng, envelope: Envelope) {
    let to = envelope.to;
    if !world.is_up(to) {
        return;
    }
    let mut inputs = Vec::new();
    if rng.chance(1, 5) {
        inputs.push(proposal(rng));
    }
    let input = |envelope: Envelope| Input::Message { from: NodeId(envelope.from as u16), message: envelope.message };
    inputs.push(input(envelope));
    if rng.chance(1, 3)
        && let Some(index) = world.network.iter().position(|envelope| envelope.to == to)
    {
        let next = world.network.remove(index).expect("it was found there");
        inputs.push(input(next));
    }
    if rng.chance(1, 5) {
        inputs.push(Input::Tick);
    }
    world.turn(to, inputs);
}

fn ship(world: &mut World, from: usize) {
    let (Some((position, ballot)), Some(to)) = (world.nodes[from].disk.snapshot, world.nodes[from].owes.pop_first())
    else {
        return;
    };
    if world.is_up(to) && world.replica(to).decided() < position {
        let members = world.nodes[from].disk.members.clone();
        world.nodes[to].disk.snapshot = Some((position, ballot));
        world.nodes[to].disk.members = members.clone();
        world.turn(to, vec![Input::SnapshotInstalled { position, ballot, members }]);
    }
}

/// What a schedule is drawn from.
#[derive(Clone, Copy)]
struct Play {
    founders: usize,
    learners: usize,
    seed: u64,
    /// Memories are lost, one at a time.
    wipes: bool,
    planted: Option<Planted>,
}

fn play(founders: usize, seed: u64, wipes: bool, planted: Option<Planted>) -> World {
    Play { founders, learners: 0, seed, wipes, planted }.go()
}

impl Play {
    /// Lets a schedule happen; then the faults stop, and all must decide the same within a while, and who votes must be who shall.
    fn go(self) -> World {
        let Play { founders, learners, seed, wipes, planted } = self;
        let count = founders + learners;
        let mut rng = Rng::new(seed);
        let mut world = World::with_learners(founders, learners, seed);
        world.planted = planted;
        for index in 0..count {
            world.crash(index);
            world.start(index);
            world.nodes[index].fast = rng.chance(2, 3);
        }
        for _ in 0..rng.between(50, 400) {
            if learners > 0 && rng.chance(1, 30) {
                let least = if wipes { 3 } else { 1 };
                change(&mut world, &mut rng, least);
            }
            let leaves = rng.below(count as u64) as usize;
            if learners > 0 && rng.chance(1, 15) && world.is_up(leaves) {
                // Whoever has a vote, or shall have one, is not let go.
                world.turn(leaves, vec![Input::Leave]);
            }
            act(&mut world, &mut rng, wipes);
        }
        world.cuts.clear();
        for index in 0..count {
            world.nodes[index].fast = true;
            if world.is_up(index) {
                world.sync(index);
            } else {
                world.start(index);
            }
            for other in 0..count {
                world.trust(index, other, true);
            }
        }
        for _ in 0..100 {
            if settled(&world) {
                break;
            }
            if let Some(leader) = world.leader()
                && world.replica(leader).can_propose()
            {
                world.turn(leader, vec![proposal(&mut rng)]);
            }
            world.run(Duration::from_millis(120));
            for from in 0..count {
                if !world.nodes[from].owes.is_empty() {
                    let position = world.replica(from).decided();
                    let ballot = world.replica(from).log().ballot_at(position).expect("decided and held");
                    world.nodes[from].disk.snapshot = Some((position, ballot));
                    world.nodes[from].disk.members = world.members_at(position);
                    ship(&mut world, from);
                }
            }
        }
        if !settled(&world) {
            let states: Vec<String> = (0..count).map(|index| replica_words(world.replica(index))).collect();
            let wanted = &world.roster.voters;
            panic!(
                "seed {seed}: the replicas do not come to an end; voters shall be {wanted:?}:\n{}",
                states.join("\n")
            );
        }
        assert!(world.nodes.iter().all(|node| node.fatal.is_none()), "seed {seed}: a replica gave up");
        world
    }
}

/// Somebody wants others to vote, `least` of them.
fn change(world: &mut World, rng: &mut Rng, least: u64) {
    let mut voters: Vec<usize> = (0..world.nodes.len()).collect();
    let keep = rng.between(least, voters.len() as u64) as usize;
    while voters.len() > keep {
        voters.remove(rng.below(voters.len() as u64) as usize);
    }
    world.preferred = *rng.pick(&voters);
    world.want(&voters);
}

/// Everybody is up to date with one leader, who has decided something.
fn settled(world: &World) -> bool {
    let Some(leader) = world.leader() else { return false };
    let replica = world.replica(leader);
    let end = replica.log().last();
    let wanted = &world.roster.voters;
    let votes = wanted.is_empty() || (*wanted == replica.members().nodes() && wanted.contains(&NodeId(leader as u16)));
    votes && (0..world.nodes.len()).all(|index| world.replica(index).decided() == end)
}

thread_local! {
    /// Whether panics of this thread are expected, so that nobody reads about them.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Whether it panics. Only this thread is quiet meanwhile: other tests of the program still report how they failed.
fn panics(run: impl FnOnce() + UnwindSafe) -> bool {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let report = take_hook();
        set_hook(Box::new(move |info| {
            if !QUIET.get() {
                report(info);
            }
        }));
    });
    QUIET.set(true);
    let outcome = catch_unwind(run);
    QUIET.set(false);
    outcome.is_err()
}

fn seeds() -> u64 {
    std::env::var("DICTUM_SCHEDULES").ok().and_then(|text| text.parse().ok()).unwrap_or(1500)
}

#[test]
fn three_replicas_agree_whatever_happens() {
    let mut probes = BTreeSet::new();
    for seed in 0..seeds() {
        probes.extend(play(3, seed, false, None).probes);
    }
    for probe in ["candidate fetches a greater tail", "follower's log conflicts and is cut", "leadership handed over"] {
        assert!(probes.contains(&*format!("paxos: {probe}")), "{probe}: never reached");
    }
}

#[test]
fn five_replicas_agree_whatever_happens() {
    for seed in 0..seeds() / 4 {
        play(5, seed, false, None);
    }
}

#[test]
fn replicas_that_lose_their_memory_one_at_a_time_agree() {
    let mut probes = BTreeSet::new();
    for seed in 0..seeds() {
        probes.extend(play(3, seed, true, None).probes);
        if seed % 4 == 0 {
            probes.extend(play(5, seed, true, None).probes);
        }
    }
    assert!(probes.contains("paxos: lost memory recovered"), "no memory was ever recovered");
}

#[test]
fn groups_whose_voters_change_agree() {
    let mut probes = BTreeSet::new();
    for seed in 0..seeds() {
        let learners = 1 + (seed % 3) as usize;
        probes.extend(Play { founders: 3, learners, seed, wipes: false, planted: None }.go().probes);
    }
    for probe in [
        "change of voters begins",
        "a change of voters is cut off",
        "candidate finds other voters in what it fetches",
        "learner votes",
        "follower needs a snapshot",
    ] {
        assert!(probes.contains(&*format!("paxos: {probe}")), "{probe}: never reached");
    }
}

#[test]
fn groups_whose_voters_change_and_lose_their_memory_agree() {
    let mut probes = BTreeSet::new();
    for seed in 0..seeds() {
        let learners = 1 + (seed % 2) as usize;
        probes.extend(Play { founders: 3, learners, seed, wipes: true, planted: None }.go().probes);
    }
    for probe in ["lost memory recovered", "learner finds that it has voted"] {
        assert!(probes.contains(&*format!("paxos: {probe}")), "{probe}: never reached");
    }
}

#[test]
fn a_planted_mistake_is_noticed() {
    for planted in [Planted::CountUnsyncedSelf, Planted::TruncateDecided] {
        let noticed = (0..1000).find(|seed| panics(|| drop(play(3, *seed, false, Some(planted)))));
        assert!(noticed.is_some(), "{planted:?} went unnoticed for 1000 seeds");
    }
}

#[test]
fn a_planted_mistake_in_changing_the_voters_is_noticed() {
    let planted = Some(Planted::VotersChangeAtOnce);
    let play = |seed| Play { founders: 3, learners: 2, seed, wipes: false, planted };
    let noticed = (0..2000).find(|seed| panics(|| drop(play(*seed).go())));
    assert!(noticed.is_some(), "{planted:?} went unnoticed for 2000 seeds");
}

#[test]
fn a_schedule_is_repeated_by_its_seed() {
    let log = |seed| {
        let world = play(3, seed, true, None);
        (world.now, (0..3).map(|index| format!("{:?}", world.replica(index).log())).collect::<Vec<_>>())
    };
    assert_eq!(log(11), log(11));
}

#[test]
fn a_stranger_is_not_listened_to() {
    let mut world = World::founded(3, 1);
    let message = Message::Prepare { ballot: base::Ballot { round: 9, node: NodeId(7) } };
    world.turn(0, vec![Input::Message { from: NodeId(7), message }]);
    assert_eq!(world.replica(0).promised(), base::Ballot::default());
}
