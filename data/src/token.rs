//! A place in the changes of a bucket, as a client keeps it.

use crate::failure::Failure;
use base::checksum::xxh3;
use base::{BucketId, Revision};

/// A place in the changes of a bucket: everything up to it was told. It is written `bucket~history:revision,revision…`, a revision for each partition of the bucket; nothing stands
/// for a partition in which the subscriber wants no key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    /// The number that the bucket was made with.
    pub bucket: BucketId,
    /// Which history of the bucket it is: see [`history`].
    pub history: u64,
    /// By partition.
    pub revisions: Vec<Option<Revision>>,
}

/// Names a history of changes: that of a bucket from its beginning on, in one cluster. A bucket in memory that has lost its memory begins another one, under another number, and
/// so does a cluster of which one node has gone on alone, under another name. What was told of one history says nothing of another.
#[must_use]
pub fn history(cluster: u64, bucket: BucketId) -> u64 {
    xxh3(&[cluster.to_le_bytes(), u64::from(bucket.0).to_le_bytes()].concat())
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}~{:016x}", self.bucket.0, self.history)?;
        for (place, revision) in self.revisions.iter().enumerate() {
            f.write_str(if place == 0 { ":" } else { "," })?;
            if let Some(revision) = revision {
                write!(f, "{}", revision.0)?;
            }
        }
        Ok(())
    }
}

impl Token {
    /// True if it is a place in the same history, of as many partitions.
    #[must_use]
    pub fn is_comparable(&self, other: &Token) -> bool {
        (self.bucket, self.history, self.revisions.len()) == (other.bucket, other.history, other.revisions.len())
    }

    /// Reads what [`Token`]'s `Display` has written.
    ///
    /// # Errors
    /// It is no token.
    pub fn parse(word: &[u8]) -> Result<Token, Failure> {
        const NO_TOKEN: Failure = Failure::Text("ERR that is no token of changes: DICTUM.SUBSCRIBE answers one");
        let number = |part: &str| {
            let plain = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse::<u64>().ok().filter(|_| plain).ok_or(NO_TOKEN)
        };
        let text = std::str::from_utf8(word).map_err(|_| NO_TOKEN)?;
        let (bucket, rest) = text.split_once('~').ok_or(NO_TOKEN)?;
        let (history, revisions) = rest.split_once(':').ok_or(NO_TOKEN)?;
        let bucket = BucketId(u32::try_from(number(bucket)?).map_err(|_| NO_TOKEN)?);
        let is_hex = history.len() == 16 && history.bytes().all(|byte| byte.is_ascii_hexdigit());
        let history = u64::from_str_radix(history, 16).ok().filter(|_| is_hex).ok_or(NO_TOKEN)?;
        let of = |part: &str| if part.is_empty() { Ok(None) } else { number(part).map(|it| Some(Revision(it))) };
        let revisions = revisions.split(',').map(of).collect::<Result<Vec<_>, _>>()?;
        Ok(Token { bucket, history, revisions })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_as_they_are_written() {
        let place = |revision: u64| Some(Revision(revision));
        for revisions in [vec![place(u64::MAX)], vec![place(1), None, place(7)], vec![None], vec![None, None]] {
            let token = Token { bucket: BucketId(7), history: 0xfe, revisions };
            assert_eq!(Token::parse(token.to_string().as_bytes()), Ok(token));
        }
        let first = Token { bucket: BucketId(0), history: 1, revisions: vec![place(3), None] };
        assert_eq!(first.to_string(), "0~0000000000000001:3,");
        let h = "00000000000000fe";
        for bad in ["", "7", "7:1", &format!("{h}:1"), "7~fe:1", "é", &format!("7~{h}"), &format!("+7~{h}:1")] {
            assert!(Token::parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
        for bad in ["+1", "-1", "18446744073709551616", "1:1", "1;2", "x"] {
            assert!(Token::parse(format!("7~{h}:{bad}").as_bytes()).is_err(), "{bad:?}");
        }
        assert!(Token::parse(format!("4294967296~{h}:1").as_bytes()).is_err());
    }

    #[test]
    fn histories_differ_by_cluster_and_bucket() {
        let all = [history(0, BucketId(0)), history(0, BucketId(1)), history(1, BucketId(0))];
        assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2]);
    }
}
