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
    /// What the connection has seen, or has a token for, of the partition that it is aimed at.
    seen: Revision,
    /// The same of the partitions that it was aimed at before.
    others: Vec<(PartitionId, Revision)>,
    /// When the state that the last read saw was certainly the newest one, if that is known.
    last_read: Option<Option<Time>>,
}

impl Levels {
    /// The connection has an answer from a state of this revision.
    pub(crate) fn see(&mut self, revision: Revision) {
        self.seen = self.seen.max(revision);
    }

    /// What the next read of the level `session` must not be older than.
    pub(crate) fn seen(&self) -> Revision {
        self.seen
    }

    /// The connection turns from one partition to another.
    pub(crate) fn turn(&mut self, from: PartitionId, to: PartitionId) {
        let next = self.others.iter().position(|(id, _)| *id == to).map(|place| self.others.swap_remove(place).1);
        self.last_read = None;
        self.others.push((from, std::mem::replace(&mut self.seen, next.unwrap_or_default())));
    }

    /// A read has seen the state, which was the newest one at this time.
    pub(crate) fn read_from(&mut self, fresh_at: Option<Time>) {
        self.last_read = Some(fresh_at);
    }

    /// When the state that the last read saw was the newest one; of a connection that has read nothing, the state as it is now.
    pub(crate) fn read_at(&self, now: Option<Time>) -> Option<Time> {
        self.last_read.unwrap_or(now)
    }

    /// As [`Levels::see`], by a token that may be of another partition than the one `aim`ed at.
    pub(crate) fn believe(&mut self, aim: PartitionId, token: Token) {
        if token.partition == aim {
            return self.see(token.revision);
        }
        match self.others.iter_mut().find(|(id, _)| *id == token.partition) {
            Some((_, seen)) => *seen = token.revision.max(*seen),
            None => self.others.push((token.partition, token.revision)),
        }
    }

    /// The partition is gone for ever.
    pub(crate) fn forget(&mut self, partition: PartitionId) {
        self.others.retain(|(id, _)| *id != partition);
    }

    /// As on a new connection; but what was seen stays seen.
    pub(crate) fn reset(&mut self) {
        (self.durability, self.consistency) = (None, None);
    }
}

/// Stands for a state: whoever shows it to any node reads nothing older there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Token {
    pub partition: PartitionId,
    pub revision: Revision,
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.partition.bucket.0, self.revision.0)
    }
}

impl Token {
    /// Reads what [`Token`]'s `Display` has written.
    pub(crate) fn parse(word: &[u8]) -> Result<Token, Failure> {
        const NO_TOKEN: Failure = Failure::Text("ERR that is no token: DICTUM.TOKEN answers one");
        let plain = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let parts = std::str::from_utf8(word).ok().and_then(|text| text.split_once(':'));
        let (bucket, revision) = parts.filter(|(bucket, revision)| plain(bucket) && plain(revision)).ok_or(NO_TOKEN)?;
        let (Ok(bucket), Ok(revision)) = (bucket.parse(), revision.parse()) else { return Err(NO_TOKEN) };
        Ok(Token { partition: PartitionId { bucket: BucketId(bucket), index: 0 }, revision: Revision(revision) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(bucket: u32) -> PartitionId {
        PartitionId { bucket: BucketId(bucket), index: 0 }
    }

    #[test]
    fn tokens_are_read_as_they_are_written() {
        let token = Token { partition: partition(7), revision: Revision(u64::MAX) };
        assert_eq!(Token::parse(token.to_string().as_bytes()), Ok(token));
        for bad in ["", "7", ":", "7:", ":7", "7:+1", "7:-1", "7:18446744073709551616", "4294967296:1", "7:1:1", "é:1"]
        {
            assert!(Token::parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_was_seen_of_each_partition_is_kept() {
        let mut levels = Levels::default();
        levels.see(Revision(5));
        levels.see(Revision(3));
        levels.turn(partition(0), partition(1));
        assert_eq!(levels.seen(), Revision(0));
        levels.see(Revision(9));
        levels.believe(partition(1), Token { partition: partition(0), revision: Revision(6) });
        levels.believe(partition(1), Token { partition: partition(2), revision: Revision(1) });
        levels.turn(partition(1), partition(0));
        assert_eq!(levels.seen(), Revision(6));
        levels.forget(partition(1));
        levels.turn(partition(0), partition(1));
        assert_eq!(levels.seen(), Revision(0));
        levels.turn(partition(1), partition(2));
        assert_eq!(levels.seen(), Revision(1));
    }
}
