//! Named subscriptions: where an attachment begins, who may acknowledge, and who is told that another one has attached.
//!
//! - Each attachment begins at what was acknowledged: at no place before an acknowledgement that was answered, and behind none that nobody has made.
//! - Epochs rise. No acknowledgement is taken that was said after a later attachment was answered.
//! - At the end a client from which another one took over is told no changes.

use std::collections::BTreeMap;

use super::{Changes, Place, Promised, Stream};

/// An acknowledgement.
#[derive(Clone, Debug)]
struct Acknowledged {
    name: String,
    epoch: i64,
    place: Place,
    said: u64,
    /// When it was taken.
    taken: Option<u64>,
    /// It was answered that it is not.
    is_refused: bool,
}

/// An attachment.
#[derive(Clone, Debug)]
struct Attached {
    name: String,
    epoch: i64,
    place: Place,
    asked: u64,
    answered: u64,
    stream: usize,
}

/// What callers have written down of names.
#[derive(Clone, Debug, Default)]
pub struct Names {
    acknowledged: Vec<Acknowledged>,
    attached: Vec<Attached>,
    /// By name: when somebody has asked to be attached.
    asked: BTreeMap<String, Vec<u64>>,
    /// Names, and when their clients were told that they have no place.
    nowhere: Vec<(String, u64)>,
    /// Names, epochs, and when their clients were told that they are over.
    moved_away: Vec<(String, i64, u64)>,
}

impl Names {
    /// Somebody asks to be attached.
    pub fn ask(&mut self, name: &str, now: u64) {
        self.asked.entry(name.to_owned()).or_default().push(now);
    }

    /// An attachment has no place to begin at.
    pub fn nowhere(&mut self, name: &str, now: u64) {
        self.nowhere.push((name.to_owned(), now));
    }

    /// A client is told that another one has attached.
    pub fn moved_away(&mut self, name: &str, epoch: i64, now: u64) {
        self.moved_away.push((name.to_owned(), epoch, now));
    }

    /// Somebody acknowledges; its number.
    pub fn acknowledge(&mut self, name: &str, epoch: i64, place: &Place, now: u64) -> usize {
        let (name, place) = (name.to_owned(), place.clone());
        self.acknowledged.push(Acknowledged { name, epoch, place, said: now, taken: None, is_refused: false });
        self.acknowledged.len() - 1
    }

    /// It was answered.
    pub fn answer(&mut self, number: usize, is_taken: bool, now: u64) {
        let ack = &mut self.acknowledged[number];
        (ack.taken, ack.is_refused) = (is_taken.then_some(now), !is_taken);
    }

    /// Somebody has attached; the stream is the one that follows.
    pub fn attach(&mut self, name: &str, (epoch, place): (i64, &Place), (asked, answered): (u64, u64), stream: usize) {
        let (name, place) = (name.to_owned(), place.clone());
        self.attached.push(Attached { name, epoch, place, asked, answered, stream });
    }

    /// How many acknowledgements were taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.acknowledged.iter().filter(|it| it.taken.is_some()).count()
    }
}

/// True if a part of the place is before the other one, of the same history.
fn is_behind(place: &Place, other: &Place) -> bool {
    place.history == other.history
        && place.revisions.len() == other.revisions.len()
        && place.revisions.iter().zip(&other.revisions).any(|(place, other)| place < other)
}

/// Judges them. Who has attached before `settled` has to have taken over by the end.
pub(super) fn check(changes: &Changes, Promised { settled, is_one_history, nodes_stay }: Promised) -> Vec<String> {
    let Names { acknowledged, attached, asked, nowhere, moved_away } = &changes.names;
    let mut found = Vec::new();
    if is_one_history {
        found.extend(nowhere.iter().map(|(name, at)| format!("attached to {name} at {at}, and there is no place")));
    }
    // With a name everything that was acknowledged under it is gone.
    let is_removed = changes.truth.values().flat_map(BTreeMap::values).any(|change| change.is_of_all_keys);
    for (name, epoch, at) in moved_away.iter().filter(|_| is_one_history && nodes_stay && !is_removed) {
        let later = |one: &&Attached| one.name == *name && one.epoch > *epoch;
        // A client that was never answered may have attached all the same, and late.
        let is_answered = |when: &u64| attached.iter().any(|one| one.name == *name && one.asked == *when);
        let mut unanswered = asked.get(name).into_iter().flatten().filter(|when| *when < at && !is_answered(when));
        if attached.iter().find(later).is_none() && unanswered.next().is_none() {
            found.push(format!("told at {at} that epoch {epoch} of {name} is over, and nobody has attached"));
        }
    }
    for one in attached {
        let of_name = |name: &str| name == one.name;
        for ack in acknowledged.iter().filter(|ack| of_name(&ack.name)) {
            let is_before = ack.taken.is_some_and(|taken| taken < one.asked);
            if is_before && !is_removed && is_behind(&one.place, &ack.place) {
                found.push(format!(
                    "attached to {} at {}, and {} was acknowledged before, at {:?}",
                    one.name, one.place, ack.place, ack.taken
                ));
            }
            // Revisions begin anew with another history, and so do epochs.
            let is_same_history = ack.place.history == one.place.history;
            if is_same_history && ack.epoch < one.epoch && ack.said > one.answered && ack.taken.is_some() {
                found.push(format!(
                    "the acknowledgement of {} at {} in epoch {} was taken, said at {}, behind epoch {} at {} of {}",
                    ack.name, ack.place, ack.epoch, ack.said, one.epoch, one.place, one.answered
                ));
            }
        }
        // An attachment that was never answered may have left its beginning, where nothing was noted before.
        let is_said = |ack: &&Acknowledged| of_name(&ack.name) && ack.said < one.answered && !ack.is_refused;
        let is_earlier = |other: &&Attached| {
            of_name(&other.name) && other.epoch < one.epoch && other.place.history == one.place.history
        };
        let has_acks = acknowledged.iter().filter(is_said).any(|ack| ack.taken.is_some_and(|taken| taken < one.asked));
        let has_beginning = attached.iter().filter(is_earlier).any(|other| other.answered < one.asked);
        let said = acknowledged.iter().filter(is_said).map(|ack| &ack.place);
        let begun = attached.iter().filter(is_earlier).map(|other| &other.place);
        let places: Vec<&Place> = said.chain(begun).filter(|place| place.history == one.place.history).collect();
        let highest = |partition: usize| places.iter().filter_map(|place| place.revisions.get(partition)).max();
        let is_ahead = |(partition, at): (usize, &Option<u64>)| highest(partition).is_some_and(|highest| at > highest);
        if (has_acks || has_beginning) && !is_removed && one.place.revisions.iter().enumerate().any(is_ahead) {
            found.push(format!("attached to {} at {}, which nobody has acknowledged", one.name, one.place));
        }
        let stream: Option<&Stream> = changes.streams.get(one.stream);
        let later = attached.iter().find(|other| {
            let is_later = other.epoch > one.epoch && other.place.history == one.place.history;
            of_name(&other.name) && is_later && other.answered < settled
        });
        if let (Some(later), Some(stream)) = (later, stream)
            && stream.is_to_be_live(settled)
        {
            found.push(format!(
                "caller {} was never told that epoch {} of {} is over, since that of {}",
                stream.caller, one.epoch, one.name, later.answered
            ));
        }
    }
    found
}
