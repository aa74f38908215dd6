//! How a subscription begins: it waits until changes are recorded in all of its partitions, and has its places then.

use std::sync::Arc;

use base::{BucketId, PartitionId, Revision, Time};

use super::filter::Filter;
use super::frames::Reason;
use super::size::Size;
use super::token::Token;
use super::walk::Walk;
use super::{Place, Subscription, SubscriptionId, Subscriptions};
use crate::door::{ConnectionId, Planted};

/// A subscription that waits until recording is on.
#[derive(Debug)]
pub(super) struct Opening {
    asked: Asked,
    pub size: Size,
    id: SubscriptionId,
    /// Its client has given it up meanwhile.
    pub is_given_up: bool,
}

/// What a client asks for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub bucket: BucketId,
    pub history: u64,
    pub partitions: u16,
    pub filter: Filter,
    pub with_values: bool,
    /// What is there first.
    pub with_state: bool,
    /// The same behind a gap.
    pub restates: bool,
    /// Where each partition begins: behind this revision, or now.
    pub from: Vec<(PartitionId, Option<Revision>)>,
    /// The token is of another history.
    pub is_of_another: bool,
}

impl Subscriptions {
    /// Takes note of a subscription that begins once a slot of its connection has its answer.
    pub(super) fn wait(&mut self, (connection, slot): (ConnectionId, u64), asked: Asked) -> SubscriptionId {
        let size = Size::of(&asked.filter, asked.from.len());
        self.size = self.size.plus(size);
        self.last.0 += 1;
        let id = self.last;
        self.opening.insert((connection, slot), Opening { asked, size, id, is_given_up: false });
        id
    }

    /// Begins the subscription that waits for this slot; `revisions`: what its partitions have come to. None if nothing waits for it. Answers its number, and its token; it has none before it was told the stored keys, and if its place is in another history.
    pub(super) fn open(
        &mut self,
        (connection, slot): (ConnectionId, u64),
        revisions: &[Option<Revision>],
    ) -> Option<(SubscriptionId, Option<Token>)> {
        let Opening { asked, size, id, .. } = self.opening.remove(&(connection, slot))?;
        let Asked { bucket, history, partitions, filter, with_values, with_state, restates, from, is_of_another } =
            asked;
        let places = from.into_iter().zip(revisions).map(|((partition, from), revision)| {
            let is_ahead = from.zip(*revision).is_some_and(|(from, revision)| from > revision);
            let believes = self.planted == Some(Planted::TokenOfAnotherHistory);
            let is_of_another = (is_of_another || is_ahead) && !believes;
            let at = from.or(*revision).unwrap_or_default();
            let at = if is_ahead && believes { revision.unwrap_or_default() } else { at };
            let at = if self.planted == Some(Planted::ResumesOneLate) && from.is_some() { at.next() } else { at };
            let gap = is_of_another.then_some(Reason::BegunAnew);
            let walk = with_state.then(|| Walk::new(&filter, partition, partitions));
            Place { partition, at, is_live: false, walk, is_walked: false, was_full: false, gap }
        });
        let places: Vec<Place> = places.collect();
        for place in &places {
            self.watched.entry(place.partition).or_default().subscribers.insert(id);
            self.waiting.behind.push_back((id, place.partition));
        }
        let subscription = Subscription {
            connection,
            bucket,
            history,
            partitions,
            filter: Arc::new(filter),
            size,
            with_values,
            restates,
            places,
            is_live: false,
            told: 0,
            told_at: Time::default(),
        };
        let token = self.token_of(&subscription);
        self.all.insert(id, subscription);
        self.of_connection.entry(connection).or_default().push(id);
        Some((id, token))
    }

    /// The subscription that waits for this slot will not begin.
    pub(super) fn give_up(&mut self, connection: ConnectionId, slot: u64) {
        if let Some(Opening { size, .. }) = self.opening.remove(&(connection, slot)) {
            self.size = self.size.minus(size);
        }
    }
}
