//! How fast this node moves state: as fast as its clients do not feel it.
//!
//! 1. In windows of half a second it notes what its clients' reads and writes took and what its journal's syncs took, and of each the 90th percentile.
//! 2. While nothing is moved that is what is *usual*. While something is, a figure well above the usual one says that the movement is felt: the rate is halved.
//!    If none is, and the rate held something back, it grows by a quarter, and from some rate on by a fixed step. So it finds how much the machine bears, and gives way within two or three
//!    windows to clients that come meanwhile.
//! 3. The rate never falls below a floor, at which nobody feels a movement. So what is felt there has another cause, and becomes usual: a movement does not
//!    crawl on for ever because there is more load than when it began.
//!
//! The same rate holds for what is sent and, half as much again, for what is taken in: the sender holds its blocks back, the receiver its questions for more.
//! Nothing that must be right depends on any of it. (docs/decisions/2026-11-25-movement.md)

use std::time::Duration;

use base::Time;
use base::limits::{MOVEMENT_BYTES_PER_SECOND_BEGIN, MOVEMENT_BYTES_PER_SECOND_MIN};

use super::Throttle;

/// How long a window is.
const WINDOW: Duration = Duration::from_millis(500);
/// Durations of a window that count; the others are left out.
const NOTED_MAX: usize = 1024;
/// Fewer than so many say nothing.
const NOTED_MIN: usize = 8;
/// A movement is felt if something takes half as long again as usual, and so much more.
const SLACK: Duration = Duration::from_micros(500);
/// The rate grows by a quarter, but by no more than this part of the most.
const STEPS: u64 = 32;
/// For so many windows it is said for whose sake the rate fell.
const SAID_FOR: u32 = 10;
/// What is usual follows what is seen by this part of the difference in each window.
const FOLLOWS: u64 = 8;

/// What a movement may slow down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Felt {
    /// Reads of this node's clients.
    Reads,
    /// Their writes.
    Writes,
    /// The journal's way to the disk.
    Syncs,
}

impl Felt {
    const ALL: [Felt; 3] = [Felt::Reads, Felt::Writes, Felt::Syncs];

    /// For people and for programs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Felt::Reads => "reads",
            Felt::Writes => "writes",
            Felt::Syncs => "syncs",
        }
    }
}

/// What may be taken in at this rate: somewhat more than is sent, so that between two nodes that are equally free it is the sender that sets the pace.
fn taken(rate: u64) -> u64 {
    rate.saturating_add(rate / 2)
}

/// Durations of one kind.
#[derive(Debug, Default)]
struct Durations {
    /// Of this window, in nanoseconds.
    noted: Vec<u64>,
    /// What the 90th percentile usually is.
    usual: Option<u64>,
}

impl Durations {
    /// Ends a window: whether its 90th percentile was well above what is usual. `learns`: it is nothing that a movement has done.
    fn close(&mut self, learns: bool) -> bool {
        let (count, place) = (self.noted.len(), self.noted.len() * 9 / 10);
        if count < NOTED_MIN {
            self.noted.clear();
            return false;
        }
        let (_, figure, _) = self.noted.select_nth_unstable(place);
        let figure = *figure;
        self.noted.clear();
        let Some(usual) = self.usual else {
            // The first that is ever seen. A movement may be under way: whatever it does is found out at the floor.
            self.usual = Some(figure);
            return false;
        };
        // Whatever is quicker than usual was not slowed down, whoever moves what.
        if learns || figure < usual {
            self.usual = Some((usual * (FOLLOWS - 1) + figure) / FOLLOWS);
        }
        figure > usual.saturating_add(usual / 2).saturating_add(SLACK.as_nanos() as u64)
    }
}

/// What a node tells others, and people, of what it moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Moves {
    /// Bytes that are still to be sent, about.
    pub left_bytes: u64,
    /// Bytes that it sends and takes in each second, as last measured.
    pub bytes_per_second: u64,
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Movement {
    most: u64,
    floor: u64,
    rate: u64,
    began: Option<Time>,
    felt: [Durations; Felt::ALL.len()],
    sending: Throttle,
    taking: Throttle,
    /// At the lowest rate: for what is sent although movement is paused.
    paused: Throttle,
    /// In this window: bytes that moved, and whether the rate held any back.
    moved: u64,
    held_back: bool,
    /// What was felt when the rate last fell, and for how many more windows that is told.
    gives_way_to: Option<(Felt, u32)>,
    /// What moves, with [`Moves::left_bytes`] as its owner has it.
    pub moves: Moves,
    /// Since this node's start.
    pub sent_bytes: u64,
    pub taken_bytes: u64,
}

impl Movement {
    /// Never more than `most` bytes a second.
    pub(crate) fn new(most: u64, now: Time) -> Movement {
        let most = most.max(1);
        let rate = most.min(MOVEMENT_BYTES_PER_SECOND_BEGIN);
        Movement {
            most,
            floor: most.min(MOVEMENT_BYTES_PER_SECOND_MIN),
            rate,
            began: None,
            felt: Default::default(),
            sending: Throttle::new(rate, now),
            taking: Throttle::new(taken(rate), now),
            paused: Throttle::new(most.min(MOVEMENT_BYTES_PER_SECOND_MIN), now),
            moved: 0,
            held_back: false,
            gives_way_to: None,
            moves: Moves::default(),
            sent_bytes: 0,
            taken_bytes: 0,
        }
    }

    /// Something that a movement may slow down has taken so long.
    pub(crate) fn feel(&mut self, felt: Felt, took: Duration) {
        let noted = &mut self.felt[felt as usize].noted;
        if noted.len() < NOTED_MAX {
            noted.push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX / 4).min(u64::MAX / 16));
        }
    }

    /// Whether a block may be sent now. If so its bytes are counted.
    pub(crate) fn sends(&mut self, now: Time, bytes: usize) -> bool {
        let may = self.sending.takes(now, bytes);
        if may {
            self.moved += bytes as u64;
            self.sent_bytes += bytes as u64;
        }
        self.held_back |= !may;
        may
    }

    /// The same while movement is paused.
    pub(crate) fn sends_paused(&mut self, now: Time, bytes: usize) -> bool {
        let may = self.paused.takes(now, bytes);
        if may {
            self.sending.owe(bytes);
            self.moved += bytes as u64;
            self.sent_bytes += bytes as u64;
        }
        may
    }

    /// A block has come. Whether the next one may be asked for at once.
    pub(crate) fn takes_in(&mut self, now: Time, bytes: usize) -> bool {
        self.taking.owe(bytes);
        self.moved += bytes as u64;
        self.taken_bytes += bytes as u64;
        self.may_ask(now)
    }

    /// Whether the next block may be asked for.
    pub(crate) fn may_ask(&mut self, now: Time) -> bool {
        let may = self.taking.has_room(now);
        self.held_back |= !may;
        may
    }

    /// Bytes a second that may be moved now.
    pub(crate) fn rate(&self) -> u64 {
        self.rate
    }

    /// For whose sake the rate fell lately.
    pub(crate) fn gives_way_to(&self) -> Option<Felt> {
        self.gives_way_to.map(|(felt, _)| felt)
    }

    /// Ends the window if it is over: the probe of what follows. None if it is not over, or nothing follows.
    pub(crate) fn tick(&mut self, now: Time) -> Option<Option<&'static str>> {
        let began = *self.began.get_or_insert(now);
        let length = now.since(began);
        if length < WINDOW {
            return None;
        }
        self.began = Some(now);
        let moves = self.moved > 0;
        self.moves.bytes_per_second = (u128::from(self.moved) * 1_000_000_000 / length.as_nanos()) as u64;
        // Where the floor is the most there is nothing to learn from it.
        let learns = !moves || self.rate <= self.floor && self.floor < self.most;
        let mut hurt = None;
        for (durations, felt) in self.felt.iter_mut().zip(Felt::ALL) {
            if durations.close(learns) {
                hurt = hurt.or(Some(felt));
            }
        }
        let (before, held_back) = (self.rate, std::mem::take(&mut self.held_back));
        self.moved = 0;
        self.gives_way_to = self.gives_way_to.and_then(|(felt, more)| Some((felt, more.checked_sub(1)?)));
        if !moves && !held_back {
            // Whoever begins again begins gently, or more so if that was too much.
            self.rate = self.rate.min(self.most.min(MOVEMENT_BYTES_PER_SECOND_BEGIN));
        } else if let Some(felt) = hurt {
            self.rate = (self.rate / 2).max(self.floor);
            self.gives_way_to = Some((felt, SAID_FOR));
        } else if held_back {
            let step = (self.rate / 4).min(self.most / STEPS).max(1);
            self.rate = (self.rate + step).min(self.most);
        }
        self.sending.set(self.rate);
        self.taking.set(taken(self.rate));
        Some(match self.rate.cmp(&before) {
            std::cmp::Ordering::Less if moves => Some("node: movement gives way"),
            std::cmp::Ordering::Greater => Some("node: movement goes faster"),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use base::Rng;

    use super::*;

    const MOST: u64 = 256 << 20;
    const BLOCK: usize = 256 << 10;
    const TICK: Duration = Duration::from_millis(10);

    /// A node with clients.
    struct Machine {
        movement: Movement,
        now: Time,
        wants: bool,
        /// Bytes of the last tenths of a second.
        lately: std::collections::VecDeque<usize>,
        moved: u64,
    }

    impl Machine {
        fn new() -> Machine {
            let now = Time(1_000_000_000);
            let movement = Movement::new(MOST, now);
            Machine { movement, now, wants: false, lately: [0; 50].into(), moved: 0 }
        }

        /// Reads take so long if so many bytes are moved a second, for so long. What the last one took.
        fn run(&mut self, time: Duration, reads: impl Fn(u64) -> Duration) -> Duration {
            let end = self.now + time;
            let mut took = Duration::ZERO;
            while self.now < end {
                self.now = self.now + TICK;
                let mut bytes = 0;
                while self.wants && self.movement.sends(self.now, BLOCK) {
                    bytes += BLOCK;
                }
                self.moved += bytes as u64;
                self.lately.pop_front();
                self.lately.push_back(bytes);
                took = reads(self.lately.iter().sum::<usize>() as u64 * 2);
                self.movement.feel(Felt::Reads, took);
                let _ = self.movement.tick(self.now);
                assert!(self.movement.rate() <= MOST && self.movement.rate() >= MOVEMENT_BYTES_PER_SECOND_MIN);
            }
            took
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_nobody_feels_goes_as_fast_as_it_may() {
        let mut it = Machine::new();
        it.run(SECOND * 5, |_| Duration::from_millis(1));
        it.wants = true;
        it.run(SECOND * 20, |_| Duration::from_millis(1));
        assert_eq!(it.movement.rate(), MOST);
        assert_eq!(it.movement.gives_way_to(), None);
    }

    #[test]
    fn what_clients_feel_goes_as_fast_as_they_bear() {
        // Twice as long at 40 MB a second, three times at 80.
        let reads = |rate: u64| Duration::from_micros(1000 + rate / 40_000);
        let mut it = Machine::new();
        it.run(SECOND * 5, reads);
        it.wants = true;
        it.run(SECOND * 20, reads);
        let (mut worst, before) = (Duration::ZERO, it.moved);
        for _ in 0..400 {
            worst = worst.max(it.run(SECOND / 10, reads));
        }
        assert!(worst < Duration::from_millis(3), "no longer than three times what it was: {worst:?}");
        let rate = (it.moved - before) / 40;
        assert!((15_000_000..60_000_000).contains(&rate), "and it is used what there is: {rate} bytes a second");
    }

    #[test]
    fn clients_that_come_meanwhile_are_given_way_to() {
        let mut it = Machine::new();
        it.run(SECOND * 5, |_| Duration::from_millis(1));
        it.wants = true;
        it.run(SECOND * 20, |_| Duration::from_millis(1));
        let bears = |rate: u64| Duration::from_micros(1000 + rate / 4_000);
        it.run(SECOND * 5, bears);
        assert_eq!(it.movement.gives_way_to(), Some(Felt::Reads));
        assert!(it.movement.rate() < 20 << 20, "{}", it.movement.rate());
        it.run(SECOND * 40, |_| Duration::from_millis(1));
        assert_eq!(it.movement.rate(), MOST, "when they are gone it goes on");
    }

    #[test]
    fn what_a_movement_has_not_done_it_does_not_crawl_for() {
        let mut it = Machine::new();
        it.run(SECOND * 5, |_| Duration::from_millis(1));
        it.wants = true;
        it.run(SECOND * 5, |_| Duration::from_millis(1));
        // Ten times the load, for good: reads take longer whatever is moved.
        it.run(SECOND * 10, |_| Duration::from_millis(10));
        it.run(SECOND * 40, |_| Duration::from_millis(10));
        assert_eq!(it.movement.rate(), MOST);
    }

    /// Whatever is felt and however time passes: it goes on, within its bounds.
    #[test]
    fn it_never_stands_still() {
        for seed in 0..100 {
            let mut rng = Rng::new(seed);
            let mut it = Machine::new();
            it.wants = true;
            for _ in 0..30 {
                let slow = Duration::from_micros(1 << rng.below(24));
                let before = it.moved;
                it.run(SECOND * 2, |_| slow);
                let least = MOVEMENT_BYTES_PER_SECOND_MIN;
                assert!(it.moved - before >= least, "seed {seed}: {}", it.moved - before);
            }
        }
    }

    #[test]
    fn a_block_of_any_size_holds_others_up_for_a_second_at_most() {
        let mut movement = Movement::new(MOST, Time(0));
        let at = |milliseconds| Time(0) + Duration::from_millis(milliseconds);
        assert!(movement.may_ask(at(100)));
        assert!(!movement.takes_in(at(100), 512 << 20));
        assert!(!movement.may_ask(at(1000)));
        assert!(movement.may_ask(at(1200)), "after a second");
        assert!(movement.sends(at(1200), 512 << 20) && !movement.sends(at(1300), 1));
        assert!(movement.sends(at(2400), 1));
    }
}
