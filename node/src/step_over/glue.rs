//! What the node does for [`StepOver`]: it says how its replicas stand, and carries out what is wanted.

use base::NodeId;
use bytes::Bytes;

use super::{Context, Effect, Place, Said, Stand, StepOver, words_of};
use crate::council::{COUNCIL, Order};
use crate::door::{Level, Planted};
use crate::entry::Kind;
use crate::node::{Node, place_of};
use crate::peer::PeerMessage;
use crate::router::Waiter;
use base::versions::Feature;

impl Node {
    /// At the start, before there are replicas.
    pub(crate) fn begin_step_over(&mut self) {
        for place in self.config.step_over.clone() {
            let words = words_of(place);
            self.event(
                Level::Warning,
                format!("entry {words} is to be stepped over: it is not applied here before all nodes have agreed"),
            );
            self.step_over.tell(place);
        }
    }

    /// The council's registry says what was stepped over. Where this node has not come so far it does the same, whatever its journal has of it.
    pub(crate) fn follow_stepped_over(&mut self) {
        let stepped = &self.registry.stepped;
        let lies_ahead = |place: &Place| {
            let group = place_of(&self.groups, place.0).map(|g| &self.groups[g]);
            group.is_some_and(|group| group.partition.applied < place.1)
        };
        let places: Vec<Place> = stepped.iter().map(|it| (it.partition, it.position)).filter(lies_ahead).collect();
        for place in places {
            if self.step_over.find(place) {
                self.hold_before(place.0);
            }
        }
    }

    /// Tells a partition's replica where it holds.
    pub(crate) fn hold_before(&mut self, partition: base::PartitionId) {
        let held = self.step_over.holds(partition);
        let Some(g) = place_of(&self.groups, partition) else { return };
        if self.groups[g].partition.steps.held != held {
            self.groups[g].partition.steps.held = held;
        }
    }

    /// A replica may have come to an entry that is not just applied.
    pub(crate) fn note_held(&mut self, g: usize) {
        let group = &self.groups[g];
        let Some(position) = group.partition.stands_before() else { return };
        let place = (group.id(), position);
        if self.step_over.find(place) {
            self.probe("node: holds before a void");
        }
        self.look_at_step(place);
    }

    pub(crate) fn tick_step_over(&mut self) {
        for place in self.step_over.active() {
            self.look_at_step(place);
        }
    }

    /// Another node says how it stands to an entry.
    pub(crate) fn on_stand(&mut self, from: NodeId, said: Said) {
        let place = (said.partition, said.position);
        let own = self.stand_to(place);
        let effects = self.with_step_over(place, |part, context| part.on_said(from, said, own, context));
        self.hold_before(place.0);
        self.carry_out_steps(effects);
        if self.step_over.knows(place) {
            self.look_at_step(place);
        }
    }

    fn look_at_step(&mut self, place: Place) {
        let own = self.stand_to(place);
        let effects = self.with_step_over(place, |part, context| part.look(place, own, context));
        self.carry_out_steps(effects);
    }

    fn stand_to(&self, place: Place) -> Stand {
        let (partition, position) = place;
        let group = place_of(&self.groups, partition).map(|g| &self.groups[g]).filter(|group| !group.is_bare());
        let is_told = self.step_over.knows(place);
        group.map_or(Stand::NoReplica, |group| group.partition.stand_to(position, is_told))
    }

    fn with_step_over(
        &mut self,
        place: Place,
        what: impl FnOnce(&mut StepOver, &Context<'_>) -> Vec<Effect>,
    ) -> Vec<Effect> {
        let mut part = std::mem::take(&mut self.step_over);
        let members: Vec<NodeId> = self.roll.ids().filter(|id| !self.registry.left_behind(*id)).collect();
        let context = Context {
            now: self.now.time,
            me: self.config.me,
            members: &members,
            name_of: &|id| self.name_of(id),
            may_write: self.has(Feature::SteppedOver),
            registered: self.registry.stepped_over(place),
            asks_nobody: self.config.planted == Some(Planted::SteppedOverAlone),
        };
        let effects = what(&mut part, &context);
        self.step_over = part;
        effects
    }

    fn carry_out_steps(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send(to, said) => {
                    // An older node says nothing, and so nothing is stepped over.
                    if Feature::StandsToEntries.is_in(self.version_with(to)) {
                        self.send(to, &PeerMessage::Stand(said));
                    }
                }
                Effect::Replace(place) => self.replace_entry(place, true),
                Effect::PutBack(place) => self.replace_entry(place, false),
                Effect::LetGo((partition, position), agreed) => {
                    self.hold_before(partition);
                    if let Some(g) = place_of(&self.groups, partition).filter(|_| agreed.is_some()) {
                        self.groups[g].partition.steps.agree(position);
                    }
                }
                Effect::TellCouncil((partition, position), digest) => {
                    let order = Order::SteppedOver { partition, position, digest };
                    let (time, deadline) = (self.now.time, self.now.time + self.config.request_timeout);
                    if let Some(g) = place_of(&self.groups, COUNCIL) {
                        let order = Bytes::from(order.encode());
                        self.groups[g].router.write(Kind::Council, order, Waiter::Nobody, time, deadline);
                    }
                }
                Effect::Warning(text) => self.event(Level::Warning, text),
                Effect::Error(text) => self.event(Level::Error, text),
                Effect::Probe(name) => self.probe(name),
            }
        }
    }

    /// A void takes an entry's place, or the entry takes it again.
    fn replace_entry(&mut self, (partition, position): Place, by_void: bool) {
        let Some(g) = place_of(&self.groups, partition) else { return };
        self.seal_before(self.groups[g].partition.bytes_to_replace(position));
        let group = &mut self.groups[g];
        let (batch, wishes) = (&mut self.batch, &mut group.wishes);
        let (is_done, name) = if by_void {
            (group.partition.void(position, batch, wishes), "node: an entry replaced by one without effect")
        } else {
            (group.partition.put_back(position, batch, wishes), "node: a replaced entry put back")
        };
        if is_done {
            self.probe(name);
        }
    }
}

impl Node {
    /// The entries that were stepped over, as far as this node follows the council's log, and remembers.
    #[must_use]
    pub fn stepped_over(&self) -> Vec<Place> {
        self.registry.stepped.iter().map(|it| (it.partition, it.position)).collect()
    }
}
