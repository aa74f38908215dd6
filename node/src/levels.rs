//! What a connection asks of its writes and reads, and what it has seen so far. What each level promises: docs/levels.md.

use base::{BucketId, PartitionId, Revision, Time};
use data::Failure;

use crate::bucket::{Consistency, Durability};

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    /// None: as the bucket's settings say.
    pub durability: Option<Durability>,
    /// None: as the bucket's settings say.
    pub consistency: Option<Consistency>,
    /// What the connection has seen, or has a token for, of each partition, in their order; but see [`crate::session::Session::see`].
    seen: Vec<(PartitionId, Revision)>,
    /// When the state that the last read saw was certainly the newest one, if that is known.
    last_read: Option<Option<Time>>,
}

impl Levels {
    /// The connection has an answer from a partition's state of this revision, or a token that says so.
    pub(crate) fn see(&mut self, partition: PartitionId, revision: Revision) {
        match self.place_of(partition) {
            Ok(place) => self.seen[place].1 = revision.max(self.seen[place].1),
            Err(place) => self.seen.insert(place, (partition, revision)),
        }
    }

    /// What the next read of the level `session` must not be older than.
    pub(crate) fn seen(&self, partition: PartitionId) -> Revision {
        self.place_of(partition).map(|place| self.seen[place].1).unwrap_or_default()
    }

    fn place_of(&self, partition: PartitionId) -> Result<usize, usize> {
        self.seen.binary_search_by_key(&partition, |(id, _)| *id)
    }

    /// The connection turns to another bucket.
    pub(crate) fn turn(&mut self) {
        self.last_read = None;
    }

    /// A read has seen the state, which was the newest one at this time.
    pub(crate) fn read_from(&mut self, fresh_at: Option<Time>) {
        self.last_read = Some(fresh_at);
    }

    /// When the state that the last read saw was the newest one; of a connection that has read nothing, the state as it is now.
    pub(crate) fn read_at(&self, now: Option<Time>) -> Option<Time> {
        self.last_read.unwrap_or(now)
    }

    /// The partition is gone for ever.
    pub(crate) fn forget(&mut self, partition: PartitionId) {
        self.seen.retain(|(id, _)| *id != partition);
    }

    /// As on a new connection; but what was seen stays seen.
    pub(crate) fn reset(&mut self) {
        (self.durability, self.consistency) = (None, None);
    }
}

/// Stands for a state of a bucket: whoever shows it to any node reads nothing older there. Of a bucket with one partition it is written `bucket:revision`;
/// of others `bucket:revision,revision…`, a revision for each partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Token {
    pub bucket: BucketId,
    /// By partition.
    pub revisions: Vec<Revision>,
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.bucket.0)?;
        for (place, revision) in self.revisions.iter().enumerate() {
            write!(f, "{}{}", if place == 0 { ':' } else { ',' }, revision.0)?;
        }
        Ok(())
    }
}

impl Token {
    /// Reads what [`Token`]'s `Display` has written.
    pub(crate) fn parse(word: &[u8]) -> Result<Token, Failure> {
        const NO_TOKEN: Failure = Failure::Text("ERR that is no token: DICTUM.TOKEN answers one");
        let number = |part: &str| {
            let plain = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse::<u64>().ok().filter(|_| plain)
        };
        let parts = std::str::from_utf8(word).ok().and_then(|text| text.split_once(':'));
        let (bucket, revisions) = parts.ok_or(NO_TOKEN)?;
        let bucket = number(bucket).and_then(|bucket| u32::try_from(bucket).ok()).ok_or(NO_TOKEN)?;
        let revisions = revisions.split(',').map(|part| number(part).map(Revision).ok_or(NO_TOKEN));
        Ok(Token { bucket: BucketId(bucket), revisions: revisions.collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_as_they_are_written() {
        for revisions in [vec![Revision(u64::MAX)], vec![Revision(1), Revision(0), Revision(7)]] {
            let token = Token { bucket: BucketId(7), revisions };
            assert_eq!(Token::parse(token.to_string().as_bytes()), Ok(token));
        }
        let bad = ["", "7", ":", "7:", ":7", "7:+1", "7:-1", "7:18446744073709551616", "4294967296:1", "7:1:1", "é:1"];
        for bad in bad.into_iter().chain(["7:1,", "7:,1", "7:1,,2"]) {
            assert!(Token::parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_was_seen_of_each_partition_is_kept() {
        let partition = |bucket: u32, index| PartitionId { bucket: BucketId(bucket), index };
        let mut levels = Levels::default();
        levels.see(partition(0, 0), Revision(5));
        levels.see(partition(0, 0), Revision(3));
        levels.see(partition(0, 1), Revision(9));
        levels.turn();
        assert_eq!([0, 1, 2].map(|index| levels.seen(partition(0, index)).0), [5, 9, 0]);
        assert_eq!(levels.seen(partition(1, 0)), Revision(0));
        levels.forget(partition(0, 1));
        assert_eq!([0, 1].map(|index| levels.seen(partition(0, index)).0), [5, 0]);
    }
}
