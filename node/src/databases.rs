//! Databases by number, as in a Redis: database 0 is the default bucket, and database 5 is the bucket that is called `5`.
//!
//! A client's `SELECT 5` makes that bucket if it is not there: the council's order says so ([`Order::Database`]), and whoever is second finds it. Two
//! databases are two buckets with a log each, so one command cannot change both of them at the same moment: `MOVE` and `COPY … DB` between
//! two of them are errands ([`crate::errands`]), and `SWAPDB` is refused. `FLUSHALL` goes to all databases, as it goes to all partitions of one; buckets with names of their own keep what they have.

use base::limits::KEY_BYTES_MAX;
use base::versions::Feature;
use base::{BucketId, PartitionId};
use bytes::Bytes;
use data::args::parse_integer;
use data::spec::Spec;
use data::{Failure, Reply};
use wire::{Arguments, ArgumentsRef};

use crate::bucket::{Bucket, BucketKind};
use crate::choice::NOT_CHOSEN;
use crate::council::{COUNCIL, Order};
use crate::entry::Kind;
use crate::node::{Node, place_of};
use crate::routing::Combine;
use crate::session::{Block, Session};

const OUT_OF_RANGE: Failure = Failure::Text("ERR DB index is out of range");
const NOT_YET: Failure = Failure::Text(
    "CLUSTERDOWN databases can be selected when every node of the cluster knows of them, which is not so yet (dictum node list); try again",
);
const NO_SWAP: Failure = Failure::Text(
    "ERR SWAPDB is refused: each database has a log of its own, so two cannot be swapped at one moment. Use COPY … DB or MOVE for single keys",
);
const NOT_AT_ONCE: Failure = Failure::Text(
    "ERR COPY to another database is not allowed inside a transaction: each database has a log of its own",
);
const NOT_IN_CLUSTER_MODE: Failure = Failure::Text("ERR MOVE is not allowed in cluster mode");
const SAME: Failure = Failure::Text("ERR source and destination objects are the same");

/// How a `COPY` goes on.
pub(crate) enum Copy {
    /// It names no database.
    Plain,
    /// That of the connection: the words without it.
    Within(Arguments),
    /// It is done, or begun, or refused.
    Taken,
}

/// The words of a `COPY` that names a database at this place, without `DB` and its number.
fn without_database<'w>(words: &[&'w [u8]], place: usize) -> Vec<&'w [u8]> {
    [&words[..place], &words[place + 2..]].concat()
}

impl Node {
    /// The number of a bucket, for those who know databases.
    pub(crate) fn number_of(&self, bucket: BucketId) -> u16 {
        self.buckets.of(bucket).map_or(0, |bucket| bucket.number)
    }

    /// The number of a database that a client may select and that is not there yet.
    pub(crate) fn database_to_make(&self, word: &[u8]) -> Option<u16> {
        let number = parse_integer(word).and_then(|number| u16::try_from(number).ok())?;
        let is_one = number > 0 && number < self.config.databases;
        (is_one && self.buckets.find(word).is_err()).then_some(number)
    }

    /// `SELECT` of a database that is not there as far as this node knows: it is made, unless another client has made it meanwhile.
    pub(crate) fn select_new(&mut self, session: &mut Session, number: u16) {
        // It is none that the connection could have: only that it watches nothing matters.
        if let Err(failure) = session.may_select(NOT_CHOSEN) {
            return self.refuse(session, &failure);
        }
        if !self.has(Feature::Databases) {
            return self.refuse(session, &NOT_YET);
        }
        let (identities, founders) = match self.founding(BucketKind::Persistent) {
            Ok(founding) => founding,
            Err(failure) => return self.refuse(session, &failure),
        };
        let Some(g) = place_of(&self.groups, COUNCIL) else { return self.refuse_without_group(session) };
        if let Some(failure) = self.refusal(g, true) {
            return self.refuse(session, &failure);
        }
        let body = Order::Database { number, identities, founders }.encode();
        let slot = session.open_parts(body.len(), 1, Combine::Selected);
        self.write_in_slot(session, g, Kind::Council, Bytes::from(body), Session::part_of(slot, 0), false);
        session.block = Some(Block::Slot(slot));
    }

    /// The partitions of all databases, if a command is for all of them and there is another one beside that of the connection.
    pub(crate) fn all_databases(&self, session: &Session, spec: &Spec) -> Option<Vec<PartitionId>> {
        if spec.name != "flushall" || session.redirected.is_some() {
            return None;
        }
        let own = self.buckets.of(session.bucket).filter(|bucket| bucket.is_database())?;
        let databases = || self.buckets.list.iter().filter(|bucket| bucket.is_database());
        (databases().count() > 1).then(|| {
            // That of the connection first: it says why, should it be full or gone.
            let others = databases().filter(|bucket| bucket.id != own.id);
            std::iter::once(own).chain(others).flat_map(Bucket::partitions).collect()
        })
    }

    /// Begins the errand of a `COPY` that names another database than the connection's own.
    pub(crate) fn copy_elsewhere(
        &mut self,
        session: &mut Session,
        arguments: ArgumentsRef<'_>,
        words: &[&[u8]],
    ) -> Copy {
        let (place, word) = match self.database_of_copy(session, words) {
            Ok(None) => return Copy::Plain,
            Ok(Some((place, None))) => return Copy::Within(Arguments::from_words(without_database(words, place))),
            Ok(Some((place, Some(word)))) => (place, word),
            Err(failure) => {
                self.refuse(session, &failure);
                return Copy::Taken;
            }
        };
        let replaces = match without_database(words, place).get(3..).unwrap_or_default() {
            [] => false,
            [word] if word.eq_ignore_ascii_case(b"replace") => true,
            _ => {
                self.refuse(session, &Failure::Syntax);
                return Copy::Taken;
            }
        };
        if words[1..3].iter().any(|key| key.len() > KEY_BYTES_MAX) {
            self.refuse(session, &Failure::KeyTooLong);
        } else if session.pending() > 0 {
            session.drain(arguments);
        } else {
            self.show(session, words);
            self.relocate(session, words[1], (words[2], word), (false, replaces));
        }
        Copy::Taken
    }

    /// `COPY` in a transaction: without the database, if that is the connection's own.
    ///
    /// # Errors
    /// If it is another one.
    pub(crate) fn copy_within(&self, session: &Session, words: &[&[u8]]) -> Result<Option<Arguments>, Failure> {
        match self.database_of_copy(session, words)? {
            None => Ok(None),
            Some((place, None)) => Ok(Some(Arguments::from_words(without_database(words, place)))),
            Some((_, Some(_))) => Err(NOT_AT_ONCE),
        }
    }

    /// Where in `COPY` a database is named, and which one, if it is another one than the connection's own.
    #[allow(clippy::type_complexity, reason = "a place, and perhaps a word")]
    fn database_of_copy<'w>(
        &self,
        session: &Session,
        words: &[&'w [u8]],
    ) -> Result<Option<(usize, Option<&'w [u8]>)>, Failure> {
        let options = words.get(3..).unwrap_or_default();
        let Some(place) = options.iter().position(|word| word.eq_ignore_ascii_case(b"db")) else { return Ok(None) };
        let Some(word) = options.get(place + 1) else { return Ok(None) };
        // What is no number the command itself refuses.
        if parse_integer(word).is_none_or(|number| i32::try_from(number).is_err()) {
            return Ok(None);
        }
        let is_other = self.is_other_database(session, word)?;
        Ok(Some((place + 3, is_other.then_some(*word))))
    }

    /// True if a number is that of another database than the connection's own.
    ///
    /// # Errors
    /// If it is nobody's.
    fn is_other_database(&self, session: &Session, word: &[u8]) -> Result<bool, Failure> {
        let number = parse_integer(word).and_then(|number| u16::try_from(number).ok()).ok_or(OUT_OF_RANGE)?;
        if number == self.number_of(session.bucket) {
            return Ok(false);
        }
        if number >= self.config.databases && self.buckets.find(word).is_err() {
            return Err(OUT_OF_RANGE);
        }
        Ok(true)
    }

    /// `MOVE key db`
    pub(crate) fn move_key(&mut self, session: &mut Session, words: &[&[u8]]) {
        let is_number = parse_integer(words[2]).is_some_and(|number| i32::try_from(number).is_ok());
        let failure = if session.redirected.is_some() {
            NOT_IN_CLUSTER_MODE
        } else if !is_number {
            Failure::Text("ERR value is not an integer or out of range")
        } else if words[1].len() > KEY_BYTES_MAX {
            Failure::KeyTooLong
        } else {
            match self.is_other_database(session, words[2]) {
                Ok(true) => return self.relocate(session, words[1], (words[1], words[2]), (true, false)),
                Ok(false) => SAME,
                Err(failure) => failure,
            }
        };
        self.refuse(session, &failure);
    }

    /// `SWAPDB index1 index2`
    pub(crate) fn swap_databases(&self, words: &[&[u8]]) -> Result<Reply, Failure> {
        let number = |word: &[u8], wrong| {
            let number = parse_integer(word).and_then(|number| i32::try_from(number).ok()).ok_or(wrong)?;
            let is_known = self.buckets.find(word).is_ok() || (0..i32::from(self.config.databases)).contains(&number);
            if is_known { Ok(number) } else { Err(OUT_OF_RANGE) }
        };
        let wrong = |which| Failure::Text(which);
        let first = number(words[1], wrong("ERR invalid first DB index"))?;
        let second = number(words[2], wrong("ERR invalid second DB index"))?;
        if first == second {
            return Ok(Reply::Ok);
        }
        Err(NO_SWAP)
    }
}
