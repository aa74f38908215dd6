//! Databases by number, as in a Redis: database 0 is the default bucket, and database 5 is the bucket that is called `5`.
//!
//! A client's `SELECT 5` makes that bucket if it is not there: the council's order says so ([`Order::Database`]), and whoever is second finds it. Two
//! databases are two buckets with a log each, so one command cannot change both of them at the same moment: `MOVE`, `SWAPDB` and `COPY … DB` between
//! two of them are refused. `FLUSHALL` goes to all databases, as it goes to all partitions of one; buckets with names of their own keep what they have.

use base::versions::Feature;
use base::{BucketId, PartitionId};
use bytes::Bytes;
use data::args::parse_integer;
use data::spec::Spec;
use data::{Failure, Reply};
use wire::Arguments;

use crate::bucket::{Bucket, BucketKind};
use crate::council::{COUNCIL, Order};
use crate::entry::Kind;
use crate::node::{Node, place_of};
use crate::routing::Combine;
use crate::session::{Block, Session};

const OUT_OF_RANGE: Failure = Failure::Text("ERR DB index is out of range");
const NOT_YET: Failure = Failure::Text(
    "CLUSTERDOWN databases can be selected when every node of the cluster knows of them, which is not so yet (dictum node list); try again",
);
const WATCHING: Failure = Failure::Text("ERR keys of the selected bucket are watched; UNWATCH them first");
const NOT_ATOMIC: &str =
    "it cannot be done at one moment: each database has a log of its own. Copy with DUMP and RESTORE, then DEL";

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
        if !session.watches.is_empty() {
            return self.refuse(session, &WATCHING);
        }
        if !self.has(Feature::Databases) {
            return self.refuse(session, &NOT_YET);
        }
        let (identities, founders) = match self.founding(BucketKind::Persistent) {
            Ok(founding) => founding,
            Err(failure) => return self.refuse(session, &failure),
        };
        let Some(g) = place_of(&self.groups, COUNCIL) else { return self.refuse_without_group(session) };
        if let Some(text) = self.refusal(g) {
            return self.refuse(session, &Failure::Text(text));
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

    /// `COPY` that names a database: without it, if that is the connection's own.
    ///
    /// # Errors
    /// If it is another one.
    pub(crate) fn copy_within(&self, session: &Session, words: &[&[u8]]) -> Result<Option<Arguments>, Failure> {
        let options = words.get(3..).unwrap_or_default();
        let Some(place) = options.iter().position(|word| word.eq_ignore_ascii_case(b"db")) else { return Ok(None) };
        let Some(word) = options.get(place + 1) else { return Ok(None) };
        // What is no number the command itself refuses.
        if parse_integer(word).is_none_or(|number| i32::try_from(number).is_err()) {
            return Ok(None);
        }
        self.same_database(session, word, "COPY to another database")?;
        let rest = words.iter().enumerate().filter(|(at, _)| !(place + 3..place + 5).contains(at));
        Ok(Some(Arguments::from_words(rest.map(|(_, word)| *word))))
    }

    /// Whether a number is that of the connection's own database.
    ///
    /// # Errors
    /// If it is another one's, or nobody's.
    fn same_database(&self, session: &Session, word: &[u8], what: &str) -> Result<(), Failure> {
        let number = parse_integer(word).and_then(|number| u16::try_from(number).ok()).ok_or(OUT_OF_RANGE)?;
        if number == self.number_of(session.bucket) {
            return Ok(());
        }
        if number >= self.config.databases && self.buckets.find(word).is_err() {
            return Err(OUT_OF_RANGE);
        }
        Err(Failure::built(format!("ERR {what} is refused: {NOT_ATOMIC}").as_bytes()))
    }

    /// `MOVE key db`
    pub(crate) fn move_key(&self, session: &Session, words: &[&[u8]]) -> Result<Reply, Failure> {
        if parse_integer(words[2]).is_none_or(|number| i32::try_from(number).is_err()) {
            return Err(Failure::Text("ERR value is not an integer or out of range"));
        }
        self.same_database(session, words[2], "MOVE")?;
        Err(Failure::Text("ERR source and destination objects are the same"))
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
        Err(Failure::built(format!("ERR SWAPDB is refused: {NOT_ATOMIC}").as_bytes()))
    }
}
