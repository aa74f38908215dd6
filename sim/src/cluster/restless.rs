//! Those without think time in the world, and what has to come true although they never pause.

use super::Cluster;
use crate::checkers::voters;
use crate::client::{Record, Wishes};
use crate::door::Door;
use crate::restless::Restless;

impl<N: Door> Cluster<N> {
    /// The end of one without think time.
    pub(super) fn end_of_restless(&self, place: usize) -> usize {
        self.end_of_router(self.routers.len(), 0) + place
    }

    /// Lets one without think time act, and does what it wants.
    pub(super) fn with_restless(
        &mut self,
        place: usize,
        act: impl FnOnce(&mut Restless, u64, &mut Record, &mut Wishes),
    ) {
        let end = self.end_of_restless(place);
        self.with_client(end, |world, wishes| act(&mut world.restless[place], world.now, &mut world.record, wishes));
    }

    /// From now on those without think time work without end.
    pub fn work_restlessly(&mut self) {
        for place in 0..self.restless.len() {
            self.with_restless(place, Restless::work);
        }
    }

    /// From now on those without think time begin nothing new either.
    pub fn drain_restless(&mut self) {
        self.restless.iter_mut().for_each(Restless::drain);
        self.record.is_crowded = false;
    }

    /// Whether those vote who shall, as far as any node knows; or nobody works without end, so that there is time enough for it later.
    #[must_use]
    pub fn votes_are_settled(&self) -> bool {
        self.restless.is_empty() || self.unsettled_votes().is_empty()
    }

    /// Where, as far as a node knows, those do not vote who shall: told for people, empty if that is nowhere.
    #[must_use]
    pub fn unsettled_votes(&self) -> String {
        let mut text = String::new();
        for node in self.members() {
            let Some(running) = &self.machines[usize::from(node.0)].running else {
                text.push_str(&format!("; {node} does not run"));
                continue;
            };
            for partition in running.node.partitions() {
                if let Some(found) = running.node.voters(partition).filter(|found| !voters::settled(found)) {
                    text.push_str(&format!("; {node} of {partition}: {found:?}"));
                }
            }
        }
        text
    }
}
