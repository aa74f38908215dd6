//! All partitions of a node, and which of them have something to do.
//!
//! A node may have thousands of partitions, of which most have nothing to do most of the time, and under load has many that wait for an answer. So a turn is about
//! those that were touched in it, and in a turn each pass about those that are not done:
//! 1. Whoever may change a group gets it through [`IndexMut`], and that wakes it, and lets it take part in this turn and this pass. So no input has to remember to.
//! 2. A group in which something waits ([`Group::due`]) stays awake behind the turn: it takes part in every tick, and so at most a tick later in a turn, whatever
//!    it is that it waits for. All others sleep until somebody touches them, or their time has come.
//!
//! What every group has to hear of (a peer that is suspected, a full disk) is told to all of them, which wakes them.

use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};

use base::{PartitionId, Time};

use crate::group::Group;
use crate::turn::flushes::{Unflushed, Weight};

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// Ascending; close together, for searching.
    ids: Vec<PartitionId>,
    /// In the same order.
    list: Vec<Bed>,
    /// The places of those that are awake, in the order in which they woke.
    awake: Vec<usize>,
    /// Of these, those that take part in this turn, and in this pass of it; in the order in which they came.
    in_turn: Vec<usize>,
    in_pass: Vec<usize>,
    /// Those that were awake since [`Groups::take_stirred`].
    stirred: BTreeSet<PartitionId>,
    /// When who has to be woken. One whose time has changed may be woken early.
    alarms: BTreeSet<(Time, PartitionId)>,
    /// The sum of what they weigh.
    unflushed: Unflushed,
}

#[derive(Debug)]
struct Bed {
    group: Box<Group>,
    state: State,
    /// The earliest of its alarms.
    alarm: Option<Time>,
    /// As it was when it was last weighed: at the latest when it fell asleep.
    weight: Weight,
}

/// Each has what those before it have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum State {
    Asleep,
    Awake,
    InTurn,
    InPass,
}

impl Bed {
    fn weigh(&mut self, sum: &mut Unflushed) {
        let weight = Weight::of(&self.group);
        sum.replace(std::mem::replace(&mut self.weight, weight), weight);
    }
}

impl Groups {
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Where a partition's group stands. Good until groups come or go.
    pub(crate) fn place_of(&self, partition: PartitionId) -> Option<usize> {
        self.ids.binary_search(&partition).ok()
    }

    /// All of them, ascending.
    pub(crate) fn partitions(&self) -> Vec<PartitionId> {
        self.ids.clone()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Group> {
        self.list.iter().map(|bed| &*bed.group)
    }

    /// All of them, woken.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Group> {
        self.wake_all();
        self.list.iter_mut().map(|bed| &mut *bed.group)
    }

    /// All of them, asleep or awake: for what changes nothing that a turn looks at.
    pub(crate) fn iter_mut_unwoken(&mut self) -> impl Iterator<Item = &mut Group> {
        self.list.iter_mut().map(|bed| &mut *bed.group)
    }

    /// One of them, asleep or awake: for what changes nothing that a turn looks at.
    pub(crate) fn get_mut_unwoken(&mut self, g: usize) -> &mut Group {
        &mut self.list[g].group
    }

    /// Adds one, awake.
    pub(crate) fn insert(&mut self, group: Group) {
        let id = group.id();
        let Err(place) = self.ids.binary_search(&id) else { return };
        self.ids.insert(place, id);
        self.list.insert(
            place,
            Bed { group: Box::new(group), state: State::Asleep, alarm: None, weight: Weight::default() },
        );
        self.places_have_changed();
    }

    /// Takes one out.
    pub(crate) fn remove(&mut self, g: usize) -> Box<Group> {
        self.ids.remove(g);
        let Bed { group, alarm, weight, .. } = self.list.remove(g);
        self.unflushed.replace(weight, Weight::default());
        if let Some(at) = alarm {
            self.alarms.remove(&(at, group.id()));
        }
        self.stirred.remove(&group.id());
        self.places_have_changed();
        group
    }

    fn places_have_changed(&mut self) {
        self.awake.clear();
        self.in_turn.clear();
        self.in_pass.clear();
        self.list.iter_mut().for_each(|bed| bed.state = State::Asleep);
        self.wake_all();
    }

    fn wake_all(&mut self) {
        (0..self.list.len()).for_each(|g| self.wake(g));
    }

    /// Lets a group take part in this turn.
    pub(crate) fn wake(&mut self, g: usize) {
        let before = std::mem::replace(&mut self.list[g].state, State::InPass);
        if before < State::InPass {
            self.in_pass.push(g);
        }
        if before < State::InTurn {
            self.in_turn.push(g);
        }
        if before < State::Awake {
            self.awake.push(g);
            self.stirred.insert(self.ids[g]);
        }
    }

    /// Lets all those take part in this turn that are awake and of which this is so.
    pub(crate) fn touch_awake(&mut self, which: impl Fn(&Group) -> bool) {
        for number in 0..self.awake.len() {
            let g = self.awake[number];
            if which(&self.list[g].group) {
                self.wake(g);
            }
        }
    }

    /// Wakes those whose time has come.
    pub(crate) fn wake_due(&mut self, now: Time) {
        while let Some((at, id)) = self.alarms.first().copied().filter(|(at, _)| *at <= now) {
            self.alarms.remove(&(at, id));
            if let Some(g) = self.place_of(id) {
                self.list[g].alarm = None;
                self.wake(g);
            }
        }
    }

    /// The place of the `number`th that is awake. While they are walked through others may wake, behind them.
    pub(crate) fn awake(&self, number: usize) -> Option<usize> {
        self.awake.get(number).copied()
    }

    /// The same, of those in this turn.
    pub(crate) fn in_turn(&self, number: usize) -> Option<usize> {
        self.in_turn.get(number).copied()
    }

    /// The same, of those in this pass.
    pub(crate) fn in_pass(&self, number: usize) -> Option<usize> {
        self.in_pass.get(number).copied()
    }

    /// The places of those that are awake, ascending.
    pub(crate) fn awake_in_order(&self) -> Vec<usize> {
        let mut places = self.awake.clone();
        places.sort_unstable();
        places
    }

    /// Those that are awake.
    pub(crate) fn iter_awake(&self) -> impl Iterator<Item = &Group> {
        self.awake.iter().map(|g| &*self.list[*g].group)
    }

    /// Those in this turn.
    pub(crate) fn iter_in_turn(&self) -> impl Iterator<Item = &Group> {
        self.in_turn.iter().map(|g| &*self.list[*g].group)
    }

    /// The same.
    pub(crate) fn for_each_in_turn(&mut self, mut what: impl FnMut(&mut Group)) {
        for g in &self.in_turn {
            what(&mut self.list[*g].group);
        }
    }

    /// A pass is over: the next one is about those that are not done, and whoever is touched in it. Whether there is any.
    pub(crate) fn next_pass(&mut self) -> bool {
        let list = &mut self.list;
        self.in_pass.retain(|g| {
            let bed = &mut list[*g];
            let is_done = bed.group.is_settled();
            if is_done {
                bed.state = State::InTurn;
            }
            !is_done
        });
        !self.in_pass.is_empty()
    }

    /// Ends a turn: lets those sleep that have nothing to do until `soon`, by what `due` says of each.
    pub(crate) fn end_turn(&mut self, soon: Time, due: impl Fn(&Group) -> Option<Time>) {
        let Groups { ids, list, awake, in_turn, in_pass, alarms, unflushed, .. } = self;
        in_pass.clear();
        let mut sleeps = false;
        in_turn.retain(|g| {
            let bed = &mut list[*g];
            let due = due(&bed.group);
            if due.is_some_and(|at| at <= soon) {
                let goes_on = bed.group.goes_on();
                bed.state = if goes_on { State::InPass } else { State::Awake };
                in_pass.extend(goes_on.then_some(*g));
                return goes_on;
            }
            sleeps = true;
            bed.state = State::Asleep;
            bed.weigh(unflushed);
            if let Some(at) = due
                && bed.alarm.is_none_or(|alarm| at < alarm)
            {
                bed.alarm.inspect(|alarm| {
                    alarms.remove(&(*alarm, ids[*g]));
                });
                alarms.insert((at, ids[*g]));
                bed.alarm = Some(at);
            }
            false
        });
        if sleeps {
            awake.retain(|g| list[*g].state > State::Asleep);
        }
    }

    /// Whether all of them sleep.
    pub(crate) fn are_asleep(&self) -> bool {
        self.awake.is_empty()
    }

    /// When the first of those that sleep is to be woken.
    pub(crate) fn first_alarm(&self) -> Option<Time> {
        self.alarms.first().map(|(at, _)| *at)
    }

    /// What all of them hold that the store does not have. Those that are awake are weighed for it.
    pub(crate) fn weigh(&mut self) -> Unflushed {
        let Groups { list, awake, unflushed, .. } = self;
        for g in awake {
            list[*g].weigh(unflushed);
        }
        *unflushed
    }

    /// Those that may have changed since the last call: they are or were awake.
    pub(crate) fn take_stirred(&mut self) -> BTreeSet<PartitionId> {
        let awake = self.awake.iter().map(|g| self.ids[*g]).collect();
        std::mem::replace(&mut self.stirred, awake)
    }
}

impl Index<usize> for Groups {
    type Output = Group;

    fn index(&self, g: usize) -> &Group {
        &self.list[g].group
    }
}

impl IndexMut<usize> for Groups {
    /// Wakes it: see the file's head.
    fn index_mut(&mut self, g: usize) -> &mut Group {
        if self.list[g].state != State::InPass {
            self.wake(g);
        }
        &mut self.list[g].group
    }
}

impl<'a> IntoIterator for &'a mut Groups {
    type Item = &'a mut Group;
    type IntoIter = Box<dyn Iterator<Item = &'a mut Group> + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter_mut())
    }
}
