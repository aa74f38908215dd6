//! The sessions of all connections. Each command looks for that of its connection several times, so those of the latest thousand connections are found without a search.

use std::collections::BTreeMap;

use crate::door::ConnectionId;
use crate::session::Session;

/// Connections that are found without a search, if their numbers lie so close together: a power of two.
const NEAR: usize = 1024;

/// One connection's session; none while the session's command runs.
type Slot = Option<Box<Session>>;

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    /// Free places have no number.
    slots: Vec<(Option<ConnectionId>, Slot)>,
    free: Vec<usize>,
    by_id: BTreeMap<ConnectionId, usize>,
    /// By the last bits of a connection's number: the place of the latest one with these bits, which need not be there any more. Empty before the first connection.
    near: Vec<usize>,
}

impl Sessions {
    fn place_of(&self, id: ConnectionId) -> Option<usize> {
        let near = self.near.get(id.0 as usize % NEAR).copied()?;
        if self.slots.get(near).is_some_and(|(its, _)| *its == Some(id)) {
            return Some(near);
        }
        self.by_id.get(&id).copied()
    }

    pub(crate) fn get(&self, id: &ConnectionId) -> Option<&Slot> {
        let (_, slot) = self.slots.get(self.place_of(*id)?)?;
        Some(slot)
    }

    pub(crate) fn get_mut(&mut self, id: &ConnectionId) -> Option<&mut Slot> {
        let place = self.place_of(*id)?;
        let (_, slot) = self.slots.get_mut(place)?;
        Some(slot)
    }

    pub(crate) fn contains_key(&self, id: &ConnectionId) -> bool {
        self.place_of(*id).is_some()
    }

    /// Puts a session to its connection, which may be new.
    pub(crate) fn insert(&mut self, id: ConnectionId, slot: Slot) {
        if let Some(its) = self.get_mut(&id) {
            *its = slot;
            return;
        }
        let place = self.free.pop().unwrap_or(self.slots.len());
        if place == self.slots.len() {
            self.slots.push((Some(id), slot));
        } else {
            self.slots[place] = (Some(id), slot);
        }
        self.by_id.insert(id, place);
        if self.near.is_empty() {
            self.near = vec![usize::MAX; NEAR];
        }
        self.near[id.0 as usize % NEAR] = place;
    }

    pub(crate) fn remove(&mut self, id: &ConnectionId) -> Option<Slot> {
        let place = self.by_id.remove(id)?;
        let (_, slot) = std::mem::take(&mut self.slots[place]);
        self.free.push(place);
        Some(slot)
    }

    /// In the order of the connections' numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ConnectionId, &Slot)> {
        self.by_id.iter().map(|(id, place)| (id, &self.slots[*place].1))
    }

    /// In the order of the connections' numbers.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &ConnectionId> {
        self.by_id.keys()
    }

    /// In the order of the connections' numbers.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Slot> {
        self.iter().map(|(_, slot)| slot)
    }

    /// In any order; places that are free are among them, and hold none.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.slots.iter_mut().map(|(_, slot)| slot)
    }
}

#[cfg(test)]
mod tests {
    use wire::RequestLimits;

    use super::*;

    fn session(id: u64) -> Slot {
        let addresses = (String::new(), String::new());
        let user = std::sync::Arc::clone(crate::access::AccessControl::new(None).default());
        let session =
            Session::new(ConnectionId(id), addresses, RequestLimits::default(), (user, true), base::Time::default());
        Some(Box::new(session))
    }

    #[test]
    fn connections_are_found_by_their_numbers_however_far_apart_these_lie() {
        let mut sessions = Sessions::default();
        assert!(sessions.get(&ConnectionId(0)).is_none() && sessions.remove(&ConnectionId(3)).is_none());
        let ids: Vec<u64> = (0..40).map(|number| number * 400 + number % 3).collect();
        for id in &ids {
            sessions.insert(ConnectionId(*id), session(*id));
        }
        let (gone, left) = ids.split_at(25);
        for id in gone {
            let removed = sessions.remove(&ConnectionId(*id)).flatten().expect("it was there");
            assert_eq!(removed.id, ConnectionId(*id));
        }
        for id in gone {
            assert!(sessions.get(&ConnectionId(*id)).is_none() && !sessions.contains_key(&ConnectionId(*id)));
        }
        assert!(sessions.get(&ConnectionId(u64::MAX)).is_none());
        sessions.insert(ConnectionId(7), session(7));
        for id in left.iter().chain(&[7]) {
            let found = sessions.get_mut(&ConnectionId(*id)).and_then(Option::take).expect("it is there");
            assert_eq!(found.id, ConnectionId(*id));
            sessions.insert(ConnectionId(*id), Some(found));
        }
        let keys: Vec<u64> = sessions.keys().map(|id| id.0).collect();
        let mut expected = [left, &[7]].concat();
        expected.sort_unstable();
        assert_eq!(keys, expected);
        assert_eq!(sessions.values_mut().flatten().count(), left.len() + 1);
        assert!(sessions.values().flatten().map(|it| it.id).eq(sessions.keys().copied()));
    }
}
