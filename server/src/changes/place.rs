//! Where a subscriber is: what to go on from when its connection is lost.

use node::ChangesToken;

use super::{Message, Then};

/// The reason of a gap at a node that has no copy any more.
const MOVED: &str = "moved";

/// Where a subscriber is, by what it has been told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// It has been told everything up to here.
    At(ChangesToken),
    /// It is being told the stored keys: without the rest of them it can go on from nowhere.
    Nowhere,
    /// A gap has ended the subscription.
    Ended,
}

impl Place {
    /// Takes note of a message. One of a change comes in the order of its partition, so everything before it was told, too.
    pub(crate) fn note(&mut self, message: &Message) {
        match (message, &mut *self) {
            (Message::Change(_, told), Place::At(token)) => {
                let place = usize::try_from(told.partition).ok().and_then(|place| token.revisions.get_mut(place));
                if let Some(revision) = place {
                    *revision = Some(base::Revision(told.revision));
                }
            }
            (Message::Live(token) | Message::Progress(token), _) => *self = Place::At(token.clone()),
            // Another node goes on where this one cannot.
            (Message::Gap(gap), _) if gap.then == Then::End && gap.reason == MOVED => {}
            (Message::Gap(gap), _) if gap.then == Then::End => *self = Place::Ended,
            (Message::Gap(_) | Message::State(_), _) => *self = Place::Nowhere,
            (Message::Change(..), Place::Nowhere | Place::Ended) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::Value;

    use super::*;

    fn token(text: &str) -> ChangesToken {
        ChangesToken::parse(text.as_bytes()).expect("a token")
    }

    fn message(name: &str, rest: Vec<Value>) -> Message {
        Message::read(&[vec![Value::bulk(name), Value::Integer(1)], rest].concat()).expect("a message")
    }

    fn change(partition: i64, revision: i64) -> Message {
        let at = Value::Array([partition, revision, 1].map(Value::Integer).to_vec());
        let word = Value::bulk("del");
        let change = vec![word.clone(), word.clone(), word, Value::Null, Value::Null, Value::Array(Vec::new())];
        message("dictum.change", vec![at, Value::Array(change)])
    }

    fn gap(reason: &str, then: &str) -> Message {
        let span = Value::Array([0, 1, 2].map(Value::Integer).to_vec());
        message("dictum.gap", vec![span, Value::bulk(reason), Value::bulk(then)])
    }

    #[test]
    fn a_place_moves_with_each_change_and_is_nowhere_until_all_is_told() {
        let mut place = Place::At(token("0~00000000000000fe:5,,7"));
        place.note(&change(2, 9));
        assert_eq!(place, Place::At(token("0~00000000000000fe:5,,9")));
        place.note(&gap("retention", "restate"));
        assert_eq!(place, Place::Nowhere);
        // Of another partition; the one of the gap is not complete.
        place.note(&change(0, 10));
        assert_eq!(place, Place::Nowhere);
        let live = message("dictum.live", vec![Value::bulk("0~00000000000000fe:10,,11")]);
        place.note(&live);
        assert_eq!(place, Place::At(token("0~00000000000000fe:10,,11")));
        place.note(&change(9, 1));
        assert_eq!(place, Place::At(token("0~00000000000000fe:10,,11")));
        place.note(&gap("moved", "end"));
        assert_eq!(place, Place::At(token("0~00000000000000fe:10,,11")));
        place.note(&gap("too-slow", "end"));
        place.note(&change(0, 12));
        assert_eq!(place, Place::Ended);
    }
}
