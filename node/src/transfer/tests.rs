//! A transfer gets through whatever is lost, repeated, held up or begun anew; and what is damaged does not.

use std::sync::Arc;

use base::ordered::{OrderedRead, OrderedWrite};
use base::{Ballot, NodeId, PartitionId, Position, Rng};
use data::Tree;
use storage::MemoryStore;

use super::jobs::{BlockJob, Incoming, ReceiveJob};
use super::movement::Movement;
use super::receiving::Came;
use super::*;
use crate::below::{Below, StoredRestorer};
use crate::image::{Image, RestoredState};
use crate::origins::Origins;
use crate::peer::{PeerMessage, Wish};

const PARTITION: PartitionId = crate::group::DEFAULT_PARTITION;
const SENDERS: [NodeId; 2] = [NodeId(0), NodeId(1)];
const RECEIVER: NodeId = NodeId(2);
const KEYS: u64 = 250;
const FIELDS: u64 = 50;
const HELD_FOR: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(10);

fn state(position: u64) -> (Position, Ballot, Image) {
    let mut tree = Tree::new();
    for key in 0..KEYS {
        let key = format!("key:{key}");
        data::apply(&mut tree, &data::EntryContext::default(), &[b"SET", key.as_bytes(), &[b'x'; 100]]);
    }
    for field in 0..FIELDS {
        let field = format!("field:{field}");
        data::apply(&mut tree, &data::EntryContext::default(), &[b"HSET", b"hash", field.as_bytes(), &[b'x'; 100]]);
    }
    let place = (Position(position), Ballot { round: 1, node: NodeId(0) });
    (place.0, place.1, Image::new(place.0, place.1, &Origins::default(), &tree).with_block_bytes(500))
}

/// Two possible senders, a receiver with a store or without, and what lies between them.
struct World {
    now: Time,
    senders: [Transfers; 2],
    movement: Movement,
    /// Movement is paused, and the receiver has no vote.
    paused: bool,
    /// Who is asked for a snapshot all the time, as by a leader.
    wanted_from: Vec<usize>,
    receiver: Transfers,
    below: Option<(MemoryStore, Below)>,
    rng: Rng,
    /// Out of 100: messages lost, and repeated.
    lost: u64,
    repeated: u64,
    mail: Vec<(usize, bool, PeerMessage)>,
    making: Vec<(usize, BlockJob)>,
    taking: Vec<ReceiveJob>,
    /// Nothing is written while the receiver's disk stands still.
    stands_still: bool,
    probes: Vec<&'static str>,
    bytes_sent: usize,
    offered: u32,
    came: Vec<String>,
}

impl World {
    fn new(over_a_store: bool, seed: u64) -> World {
        let store = MemoryStore::new();
        let below = Below::new(Arc::new(store.clone()), 1);
        World {
            now: Time(1_000_000_000_000),
            senders: [Transfers::new(1, HELD_FOR), Transfers::new(1, HELD_FOR)],
            movement: Movement::new(1 << 40, Time(0)),
            paused: false,
            wanted_from: vec![0],
            receiver: Transfers::new(1, HELD_FOR),
            below: over_a_store.then_some((store, below)),
            rng: Rng::new(seed),
            lost: 0,
            repeated: 0,
            mail: Vec::new(),
            making: Vec::new(),
            taking: Vec::new(),
            stands_still: false,
            probes: Vec::new(),
            bytes_sent: 0,
            offered: 0,
            came: Vec::new(),
        }
    }

    fn post(&mut self, sender: usize, to_receiver: bool, message: PeerMessage) {
        if self.rng.chance(self.repeated, 100) {
            self.mail.push((sender, to_receiver, message.clone()));
        }
        if !self.rng.chance(self.lost, 100) {
            self.mail.push((sender, to_receiver, message));
        }
    }

    fn deliver(&mut self, (sender, to_receiver, message): (usize, bool, PeerMessage)) {
        let from = SENDERS[sender];
        let answer = match message {
            PeerMessage::SnapshotWant { transfer, index, wish, .. } if !to_receiver => {
                self.senders[sender].on_want(self.now, RECEIVER, transfer, index, wish);
                None
            }
            PeerMessage::SnapshotOffer { transfer, position, ballot, .. } => {
                let below = &mut self.below;
                let incoming = || match below {
                    Some((_, below)) => Incoming::in_store(StoredRestorer::new(PARTITION, below)),
                    None => Incoming::in_memory(),
                };
                let has = (Position(0), false);
                self.receiver.on_offer(self.now, PARTITION, (from, transfer), (position, ballot), has, incoming)
            }
            PeerMessage::SnapshotBlock { transfer, index, ending, block, .. } => {
                self.receiver.on_block(self.now, PARTITION, (from, transfer), index, ending, block, true)
            }
            other => panic!("{other:?}"),
        };
        if let Some(answer) = answer {
            self.post(sender, false, answer);
        }
    }

    /// Ten milliseconds pass. The state, once it is there.
    fn pass(&mut self) -> Option<RestoredState> {
        self.now = self.now + STEP;
        for sender in 0..2 {
            let mut sent = self.senders[sender].offers(self.now, PARTITION);
            if self.wanted_from.contains(&sender)
                && let Some(offer) = self.senders[sender].start(self.now, PARTITION, RECEIVER, || state(7))
            {
                self.offered += 1;
                sent.push((RECEIVER, offer));
            }
            sent.extend(self.senders[sender].due(self.now, PARTITION, &mut self.movement, |_| self.paused));
            for (_, message) in sent {
                if let PeerMessage::SnapshotBlock { block, .. } = &message {
                    self.bytes_sent += block.len();
                }
                self.post(sender, true, message);
            }
            let jobs = self.senders[sender].block_jobs(PARTITION);
            self.making.extend(jobs.into_iter().map(|job| (sender, job)));
            self.probes.extend(self.senders[sender].take_probes());
        }
        for (sender, job) in std::mem::take(&mut self.making) {
            assert_eq!(self.senders[sender].on_made(job.make()), None);
        }
        if let Some((from, message)) = self.receiver.asks(self.now, PARTITION) {
            self.post(usize::from(from.0), false, message);
        }
        for letter in std::mem::take(&mut self.mail) {
            self.deliver(letter);
        }
        self.taking.extend(self.receiver.receive_job(PARTITION, true));
        self.probes.extend(self.receiver.take_probes());
        if self.stands_still { None } else { self.take() }
    }

    fn take(&mut self) -> Option<RestoredState> {
        for mut job in std::mem::take(&mut self.taking) {
            while job.step(self.below.as_ref().map(|(store, _)| store as &dyn OrderedWrite)) {}
            let (came, answer) = self.receiver.on_taken(self.now, job.done());
            if let Some((to, message)) = answer {
                self.post(usize::from(to.0), false, message);
            }
            match came {
                Came::Whole { state, stored } => {
                    assert_eq!(stored, self.below.is_some());
                    return Some(*state);
                }
                Came::Useless(_, text) | Came::Unwritten(_, text) => self.came.push(text),
                Came::Nothing => {}
            }
        }
        None
    }

    /// Whether the state arrives within so long.
    fn arrives(&mut self, within: Duration) -> bool {
        let until = self.now + within;
        while self.now < until {
            if let Some(got) = self.pass() {
                assert_eq!((got.position, got.tree.len()), (Position(7), KEYS + 1));
                assert!(got.tree.trouble().is_none());
                let (position, ballot, mut sent) = state(7);
                let mut again = Image::new(position, ballot, &got.origins, &got.tree).with_block_bytes(500);
                let (mut one, mut other) = (Vec::new(), Vec::new());
                while sent.next_block(&mut one) {
                    assert!(again.next_block(&mut other) && one == other);
                }
                return true;
            }
        }
        false
    }

    fn pass_for(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            assert!(self.pass().is_none(), "too early");
        }
    }

    /// The receiver gets about half of it.
    fn half(&mut self) {
        while self.bytes_sent < 20_000 {
            assert!(self.pass().is_none());
        }
    }

    fn seen(&self, probe: &str) -> bool {
        self.probes.contains(&probe)
    }
}

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn it_arrives_in_memory_and_in_a_store() {
    for over_a_store in [false, true] {
        let mut world = World::new(over_a_store, 1);
        assert!(world.arrives(3 * SECOND));
        if let Some((store, _)) = &world.below {
            assert_eq!(store.unsynced(), 0, "what is installed is synced");
            assert!(store.range(base::ordered::Space(1), std::ops::Bound::Unbounded).count() as u64 == KEYS + 1);
        }
    }
}

#[test]
fn it_arrives_though_much_is_lost_and_repeated() {
    for seed in 0..60 {
        let mut world = World::new(seed % 2 == 0, seed);
        (world.lost, world.repeated) = (seed % 40, seed * 7 % 50);
        assert!(world.arrives(2 * MINUTE), "seed {seed}");
        assert_eq!(world.offered, 1, "seed {seed}: it never began anew");
    }
}

#[test]
fn a_broken_link_is_gone_on_after() {
    let mut world = World::new(true, 1);
    world.half();
    (world.lost, world.offered) = (100, 0);
    world.senders[0].on_cut(RECEIVER);
    let before = world.bytes_sent;
    world.pass_for(20 * SECOND);
    world.lost = 0;
    assert!(world.arrives(3 * SECOND));
    assert!(world.seen("node: snapshot resumed") && world.offered == 0);
    assert!(world.bytes_sent - before < 30_000, "only what was missing was sent");
}

#[test]
fn a_view_is_not_kept_for_ever() {
    let mut world = World::new(true, 1);
    world.half();
    (world.lost, world.wanted_from) = (100, Vec::new());
    world.pass_for(31 * SECOND);
    assert!(world.senders[0].sending.is_empty() && world.receiver.receiving.is_none());
    assert!(world.seen("node: snapshot given up"));
    assert_eq!(world.receiver.take_given_up().len(), data::flush::STATE_SPACES, "its spaces are given up");
}

#[test]
fn a_receiver_that_begins_anew_is_followed() {
    let mut world = World::new(true, 1);
    world.half();
    world.receiver = Transfers::new(1, HELD_FOR);
    world.taking.clear();
    assert!(world.arrives(10 * SECOND));
    assert!(world.seen("node: sent snapshot begun again"));
}

#[test]
fn a_sender_that_begins_anew_is_followed() {
    let mut world = World::new(true, 1);
    world.half();
    world.senders[0] = Transfers::new(2, HELD_FOR);
    assert!(world.arrives(3 * SECOND), "at once: its transfers have higher numbers");
    assert!(world.seen("node: snapshot broken off and begun again"));
    assert_eq!(world.receiver.take_given_up().len(), data::flush::STATE_SPACES);
}

#[test]
fn a_sender_that_is_gone_does_not_keep_others_away() {
    let mut world = World::new(true, 1);
    world.half();
    world.senders[0] = Transfers::new(2, HELD_FOR);
    world.wanted_from = vec![1];
    assert!(world.arrives(10 * SECOND));
}

#[test]
fn two_senders_do_not_disturb_each_other() {
    let mut world = World::new(true, 1);
    world.wanted_from = vec![0, 1];
    assert!(world.arrives(3 * SECOND));
    assert!(!world.seen("node: snapshot broken off and begun again"));
}

#[test]
fn a_disk_that_stands_still_holds_the_sender_back() {
    let mut world = World::new(true, 1);
    world.half();
    world.stands_still = true;
    world.pass_for(SECOND);
    let before = world.bytes_sent;
    world.pass_for(2 * MINUTE);
    assert_eq!(world.bytes_sent, before, "one batch under way, one gathered, and no more");
    world.stands_still = false;
    let state = world.take();
    assert!(state.is_none());
    assert!(world.arrives(3 * SECOND) && world.offered == 1, "the view was kept");
}

#[test]
fn a_damaged_block_is_found_before_anything_is_installed() {
    for over_a_store in [false, true] {
        let mut world = World::new(over_a_store, 1);
        world.half();
        let reception = world.receiver.receiving.as_mut().unwrap();
        if reception.waiting.is_empty() {
            world.pass();
        }
        let waiting = &mut world.receiver.receiving.as_mut().unwrap().waiting;
        let block = waiting.last_mut().expect("a block waits to be written");
        // A bit of a value: whoever only decodes the block sees nothing wrong.
        let mut bytes = block.to_vec();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        *block = bytes.into();
        world.wanted_from = Vec::new();
        assert!(!world.arrives(3 * SECOND));
        assert!(world.came.iter().any(|text| text.contains("digest")), "{:?}", world.came);
        if let Some((store, _)) = &world.below {
            assert_eq!(store.get(crate::below::OWN, &crate::below::head_key(PARTITION)).unwrap(), None);
            assert_eq!(world.receiver.take_given_up().len(), data::flush::STATE_SPACES);
        }
        world.wanted_from = vec![0];
        assert!(world.arrives(10 * SECOND), "from the beginning");
    }
}

#[test]
fn the_throttle_lets_so_much_through() {
    let mut world = World::new(true, 1);
    world.movement = Movement::new(10_000, world.now);
    let begun = world.now;
    assert!(world.arrives(MINUTE));
    let rate = world.bytes_sent as f64 / world.now.since(begun).as_secs_f64();
    assert!((8_000.0..11_000.0).contains(&rate), "{rate} bytes per second");
    assert!(world.seen("node: snapshot throttled"));
}

#[test]
fn what_is_paused_goes_on_at_the_lowest_rate() {
    let mut world = World::new(true, 1);
    world.movement = Movement::new(u64::MAX >> 20, world.now);
    world.paused = true;
    let begun = world.now;
    assert!(world.arrives(MINUTE), "whoever waits for a state gets it in the end");
    let rate = world.bytes_sent as f64 / world.now.since(begun).as_secs_f64();
    let least = base::limits::MOVEMENT_BYTES_PER_SECOND_MIN as f64;
    assert!(rate <= 1.1 * least, "{rate} bytes per second");
}

#[test]
fn the_log_behind_a_snapshot_is_wanted_until_its_receiver_is_level() {
    let mut sender = Transfers::new(1, HELD_FOR);
    let base = Position(90);
    let at = |seconds| Time(1_000_000_000_000) + Duration::from_secs(seconds);
    let wanted = |sender: &mut Transfers, seconds, level, matched| {
        sender.wanted_behind(at(seconds), (base, Position(level)), |_| matched)
    };
    assert_eq!(wanted(&mut sender, 0, 500, None), None);
    assert!(sender.start(at(0), PARTITION, RECEIVER, || state(100)).is_some());
    assert_eq!(wanted(&mut sender, 1, 500, None), Some(Position(100)));
    sender.on_want(at(2), RECEIVER, (1 << 20) + 1, 0, Wish::Done);
    // It has the state, and comes further, if slowly.
    assert_eq!(wanted(&mut sender, 3, 150, Some(Position(7))), Some(Position(100)));
    assert_eq!(wanted(&mut sender, 30, 500, Some(Position(200))), Some(Position(200)));
    assert_eq!(wanted(&mut sender, 55, 700, Some(Position(300))), Some(Position(300)));
    assert_eq!(wanted(&mut sender, 60, 700, Some(Position(700))), None);
    assert_eq!(wanted(&mut sender, 61, 900, Some(Position(700))), None);
    // One that comes no further is not waited for, and neither is one for whom it is too late.
    assert!(sender.start(at(70), PARTITION, RECEIVER, || state(800)).is_some());
    sender.on_want(at(71), RECEIVER, (1 << 20) + 2, 0, Wish::Done);
    assert_eq!(wanted(&mut sender, 72, 900, None), Some(Position(800)));
    assert_eq!(sender.wanted_behind(at(73), (Position(801), Position(900)), |_| None), None);
    assert_eq!(wanted(&mut sender, 100, 900, None), Some(Position(800)));
    assert_eq!(wanted(&mut sender, 102, 900, None), None);
}
