//! What subscribers write down: which keys they want, where they are, and what they were told.

use std::fmt;

use wire::Value;

use super::Change;

/// The keys that a subscriber wants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// All of the bucket.
    All,
    /// Those that begin so.
    Prefix(String),
    /// These.
    Keys(Vec<String>),
    /// Those that begin and end so, with anything between.
    Matching(String, String),
    /// Of all keys, what takes them away one by one.
    Removals,
}

impl Wanted {
    /// Puts the words for it behind those of the command.
    pub fn say(&self, words: &mut Vec<String>) {
        match self {
            Wanted::All => words.push("ALL".to_owned()),
            Wanted::Prefix(prefix) => words.extend(["PREFIX".to_owned(), prefix.clone()]),
            Wanted::Keys(keys) => {
                words.extend(["KEYS".to_owned(), keys.len().to_string()]);
                words.extend(keys.iter().cloned());
            }
            Wanted::Matching(begin, end) => words.extend(["MATCH".to_owned(), format!("{begin}*{end}")]),
            Wanted::Removals => words.extend(["ALL", "KIND", "del", "KIND", "expire"].map(str::to_owned)),
        }
    }

    pub(super) fn wants(&self, change: &Change) -> bool {
        match self {
            Wanted::Removals => self.has(&change.key) && matches!(change.kind(), b"del" | b"expire"),
            _ => change.is_of_all_keys || self.has(&change.key),
        }
    }

    pub(super) fn has(&self, key: &[u8]) -> bool {
        match self {
            // The records of names are told to those alone who name their keys.
            Wanted::Keys(_) => {}
            _ if key.starts_with(b"dictum.sub:") => return false,
            _ => {}
        }
        match self {
            Wanted::All | Wanted::Removals => true,
            Wanted::Prefix(prefix) => key.starts_with(prefix.as_bytes()),
            Wanted::Keys(keys) => keys.iter().any(|wanted| wanted.as_bytes() == key),
            Wanted::Matching(begin, end) => {
                let rest = key.strip_prefix(begin.as_bytes());
                rest.is_some_and(|rest| rest.ends_with(end.as_bytes()))
            }
        }
    }
}

/// What a token says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The bucket and its history.
    pub history: String,
    /// By partition.
    pub revisions: Vec<Option<u64>>,
}

impl Place {
    /// Reads a token.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> Result<Place, String> {
        let (history, revisions) = text.split_once(':').ok_or_else(|| format!("no token: {text}"))?;
        let number = |part: &str| match part {
            "" => Ok(None),
            part => part.parse().map(Some).map_err(|_| format!("no token: {text}")),
        };
        let revisions = revisions.split(',').map(number).collect::<Result<Vec<_>, _>>()?;
        Ok(Place { history: history.to_owned(), revisions })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let revision = |revision: &Option<u64>| revision.map_or(String::new(), |revision| revision.to_string());
        write!(f, "{}:{}", self.history, self.revisions.iter().map(revision).collect::<Vec<_>>().join(","))
    }
}

/// What a subscriber was told. Times are nanoseconds.
#[derive(Clone, PartialEq, Debug)]
pub enum Told {
    /// A change: the two arrays of its message.
    Change {
        /// Where.
        partition: usize,
        /// Which one.
        revision: u64,
        /// As it was told.
        parts: Vec<Value>,
    },
    /// A key that is there: the two arrays of its message.
    State {
        /// Where.
        partition: usize,
        /// That of its last change.
        revision: u64,
        /// Which one.
        key: Vec<u8>,
        /// As it was told.
        parts: Vec<Value>,
    },
    /// How far the subscriber is, who has been told all that was to be told when he began.
    Live(Place),
    /// How far the subscriber is.
    Place(Place),
    /// What cannot be told, and why.
    Gap {
        /// Where.
        partition: usize,
        /// From behind this revision.
        from: u64,
        /// Up to this one.
        to: u64,
        /// The reason.
        reason: String,
        /// When.
        at: u64,
        /// What is there is told next; otherwise the subscription is over.
        restates: bool,
    },
}

fn numbers(value: Option<&Value>) -> Option<Vec<u64>> {
    let Some(Value::Array(items)) = value else { return None };
    items
        .iter()
        .map(|item| if let Value::Integer(number) = item { u64::try_from(*number).ok() } else { None })
        .collect()
}

impl Told {
    /// Reads a message to the subscription of this number; and whether that is over with it.
    ///
    /// # Errors
    /// It is none that there is.
    pub fn read(parts: &[Value], number: i64, at: u64) -> Result<(Told, bool), String> {
        let odd = || format!("unexpected message {parts:?}");
        let text = |value: &Value| value.as_bytes().map(|text| String::from_utf8_lossy(text).into_owned());
        let (Some(word), Some(Value::Integer(of))) = (parts.first().and_then(text), parts.get(1)) else {
            return Err(odd());
        };
        if *of != number {
            return Err(format!("a message for subscription {of}, which is {number}"));
        }
        let where_it_is = numbers(parts.get(2));
        match (word.as_str(), parts.len(), where_it_is.as_deref()) {
            ("dictum.change", 4, Some([partition, revision, _])) => {
                let parts = parts[2..].to_vec();
                Ok((Told::Change { partition: *partition as usize, revision: *revision, parts }, false))
            }
            ("dictum.state", 4, Some([partition, revision])) => {
                let Value::Array(words) = &parts[3] else { return Err(odd()) };
                let key = words.get(1).and_then(Value::as_bytes).ok_or_else(odd)?.to_vec();
                let (partition, parts) = (*partition as usize, parts[2..].to_vec());
                Ok((Told::State { partition, revision: *revision, key, parts }, false))
            }
            ("dictum.live" | "dictum.progress", 3, _) => {
                let place = Place::parse(&text(&parts[2]).ok_or_else(odd)?)?;
                Ok((if word == "dictum.live" { Told::Live(place) } else { Told::Place(place) }, false))
            }
            ("dictum.gap", 5, Some([partition, from, to])) => {
                let (reason, what_now) = (text(&parts[3]).ok_or_else(odd)?, text(&parts[4]).ok_or_else(odd)?);
                let restates = what_now == "restate";
                let told = Told::Gap { partition: *partition as usize, from: *from, to: *to, reason, at, restates };
                Ok((told, !restates))
            }
            _ => Err(odd()),
        }
    }

    /// Takes a subscriber's place to where this puts it.
    pub fn move_place(&self, place: &mut Place) {
        match self {
            Told::Change { partition, revision, .. } => {
                if let Some(at) = place.revisions.get_mut(*partition) {
                    *at = Some(*revision);
                }
            }
            Told::Live(to) | Told::Place(to) => *place = to.clone(),
            Told::State { .. } | Told::Gap { .. } => {}
        }
    }
}

/// One subscription, from its answer to its end.
#[derive(Clone, PartialEq, Debug)]
pub struct Stream {
    /// Whose.
    pub caller: u64,
    /// Who tells.
    pub node: u16,
    /// Which keys.
    pub wanted: Wanted,
    /// The place that was to be gone on from; none: it began with what was new, or with what was there.
    pub from: Option<Place>,
    /// It wants to be told what is there behind a gap.
    pub restates: bool,
    /// The token that was answered; none to one that is told what is there first, or that the place to go on from is in another history.
    pub began: Option<Place>,
    /// When it was asked for.
    pub asked: u64,
    /// When it was answered.
    pub answered: u64,
    /// When anything was last heard on its connection: before, nobody knows whether that still stands.
    pub heard: u64,
    /// In the order of arrival.
    pub told: Vec<Told>,
    /// When it was ended, or the connection known to be lost.
    pub until: Option<u64>,
}

impl Stream {
    /// It is at its end, and was to be live by then.
    pub(super) fn is_to_be_live(&self, settled: u64) -> bool {
        // Behind a gap that is told late it is told late what is there.
        let begins_late = |told: &Told| matches!(told, Told::Gap { at, .. } if *at >= settled);
        self.until.is_none()
            && self.answered < settled
            && self.heard >= settled
            && !self.told.iter().rev().any(begins_late)
    }

    /// Whether it was told last that it is live.
    pub(super) fn is_live(&self) -> bool {
        let is_one = |told: &&Told| matches!(told, Told::Live(_) | Told::Gap { .. });
        matches!(self.told.iter().rev().find(is_one), Some(Told::Live(_)))
    }
}
