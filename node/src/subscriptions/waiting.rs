//! Places of subscriptions that wait for something.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use base::PartitionId;

use super::{NoRoom, SubscriptionId};
use crate::door::ConnectionId;

/// Places that are behind, each in one of these.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// They go on.
    pub behind: VecDeque<(SubscriptionId, PartitionId)>,
    /// They go on in a later turn.
    pub later: VecDeque<(SubscriptionId, PartitionId)>,
    /// They wait until their connection has read more.
    pub stalled: PlacesOfConnections,
}

impl Waiting {
    /// A place whose connection takes nothing now goes on another time.
    pub(super) fn put_off(&mut self, place: (SubscriptionId, PartitionId), connection: ConnectionId, why: NoRoom) {
        match why {
            NoRoom::Gone => {}
            NoRoom::NextTurn => self.behind.push_back(place),
            NoRoom::Later => self.later.push_back(place),
            NoRoom::Full => self.stalled.insert(connection, place),
        }
    }
}

/// Places by their connections.
#[derive(Debug, Default)]
pub(super) struct PlacesOfConnections(BTreeMap<ConnectionId, BTreeSet<(SubscriptionId, PartitionId)>>);

impl PlacesOfConnections {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn insert(&mut self, connection: ConnectionId, place: (SubscriptionId, PartitionId)) {
        self.0.entry(connection).or_default().insert(place);
    }

    /// The connection behind another one, or the first.
    pub(super) fn next_behind(&self, last: Option<ConnectionId>) -> Option<ConnectionId> {
        let behind = (last.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        self.0.range(behind).next().or_else(|| self.0.iter().next()).map(|(connection, _)| *connection)
    }

    pub(super) fn pop_first(&mut self, connection: ConnectionId) -> Option<(SubscriptionId, PartitionId)> {
        let places = self.0.get_mut(&connection)?;
        let place = places.pop_first();
        if places.is_empty() {
            self.0.remove(&connection);
        }
        place
    }

    /// All of a connection, taken out.
    pub(super) fn take(&mut self, connection: ConnectionId) -> BTreeSet<(SubscriptionId, PartitionId)> {
        self.0.remove(&connection).unwrap_or_default()
    }

    /// Those of one subscription are over.
    pub(super) fn forget(&mut self, connection: ConnectionId, id: SubscriptionId) {
        let Some(places) = self.0.get_mut(&connection) else { return };
        let of = |place: &(SubscriptionId, PartitionId)| place.0 == id;
        let from = (id, PartitionId::default());
        while let Some(place) = places.range(from..).next().copied().filter(of) {
            places.remove(&place);
        }
        if places.is_empty() {
            self.0.remove(&connection);
        }
    }
}
