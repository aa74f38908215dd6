//! Named subscriptions: what a bucket keeps of a subscriber that is to find its place again, whichever client and node it comes by.
//!
//! A record is the string value of a key of its own ([`record_key`]), in the hash slot of the name. So it moves, survives and is backed up as all data. Its changes are none of those
//! that subscribers to all keys are told: an acknowledgement would cause the next message.
//!
//! - Each attachment has an **epoch**, higher than all before: the revision that it gives the record. Revisions of a partition never come again, so an epoch of a name that was removed
//!   and made anew is none of the new one. An acknowledgement with another epoch than the last one is refused.
//! - The **place** is that of the last acknowledgement. Within one history no part of it ever falls.

use std::collections::BTreeSet;

use base::Revision;
use base::limits::{
    NAMED_BY_BYTES_MAX, NAMED_NAME_BYTES_MAX, NAMED_RECORD_BYTES_MAX, NAMED_WORDS_BYTES_MAX, PARTITIONS_MAX,
    SUBSCRIPTION_WORDS_MAX,
};
use base::slots::hash_slot;

use crate::args::parse_integer;
use crate::blob::Blob;
use crate::codec::{Reader, put_bytes, put_number};
use crate::failure::Failure;
use crate::token::Token;

/// How the keys of all records begin.
pub const RECORDS: &[u8] = b"dictum.sub:";
const VERSION: u64 = 1;

const NAME: Failure = Failure::Text(
    "ERR the name of a subscription has 1 to 1000 bytes, and braces only where they make a hash tag of a part of it",
);
const _: () = assert!(NAMED_NAME_BYTES_MAX == 1000, "the text says so");
const TOO_LONG: Failure = Failure::Text("ERR a named subscription has 1024 words with 16384 bytes at the most");
const _: () = assert!(SUBSCRIPTION_WORDS_MAX == 1024 && NAMED_WORDS_BYTES_MAX == 16384, "the text says so");
const BY: Failure = Failure::Text("ERR who attaches is told in 256 bytes at the most");
const _: () = assert!(NAMED_BY_BYTES_MAX == 256, "the text says so");
const OF_ALL: Failure =
    Failure::Text("ERR the place of a named subscription says something of each partition: that token does not");
const OTHER_BUCKET: Failure = Failure::Text("ERR the token is for another bucket than the name's");
const NO_RECORD: Failure = Failure::Text("ERR the key of this name's record has something else");

/// The key of a name's record. It is in the hash slot of the name itself.
///
/// # Errors
/// The name is too long, or there is no such key.
pub fn record_key(name: &[u8]) -> Result<Vec<u8>, Failure> {
    if name.is_empty() || name.len() > NAMED_NAME_BYTES_MAX {
        return Err(NAME);
    }
    let braces = name.iter().any(|byte| b"{}".contains(byte));
    let key = match () {
        () if !braces => [RECORDS, b"{", name, b"}"].concat(),
        () if has_tag(name) => [RECORDS, name].concat(),
        () => return Err(NAME),
    };
    debug_assert_eq!(hash_slot(&key), hash_slot(name));
    Ok(key)
}

/// True if a part of it is a hash tag. Where that is all of it, it would have the key of the name within.
fn has_tag(name: &[u8]) -> bool {
    let Some(open) = name.iter().position(|byte| *byte == b'{') else { return false };
    let length = name[open + 1..].iter().position(|byte| *byte == b'}');
    length.is_some_and(|length| length > 0 && length + 2 < name.len())
}

/// See the file's head.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NamedSubscription {
    /// That of the last attachment; 0: nobody has attached yet.
    pub epoch: u64,
    /// How the client that attached last names itself, for people.
    pub by: Blob,
    /// The last place that was acknowledged.
    pub token: Option<Token>,
    /// The keys and options of the subscription, in the words of `DICTUM.SUBSCRIBE`.
    pub words: Vec<Blob>,
}

impl NamedSubscription {
    /// As a value.
    #[must_use]
    pub fn write(&self) -> Blob {
        let mut out = Vec::new();
        put_number(&mut out, VERSION);
        put_number(&mut out, self.epoch);
        put_bytes(&mut out, &self.by);
        put_bytes(&mut out, self.token.as_ref().map(Token::to_string).unwrap_or_default().as_bytes());
        put_number(&mut out, self.words.len() as u64);
        self.words.iter().for_each(|word| put_bytes(&mut out, word));
        Blob::new(&out)
    }

    /// Reads what [`NamedSubscription::write`] has written.
    ///
    /// # Errors
    /// It is something else.
    pub fn read(value: &[u8]) -> Result<NamedSubscription, Failure> {
        let mut r = Reader::new(value);
        let mut read = || {
            r.number().ok().filter(|version| *version == VERSION)?;
            let (epoch, by, token) = (r.number().ok()?, Blob::new(r.bytes().ok()?), r.bytes().ok()?);
            let token = if token.is_empty() { None } else { Some(Token::parse(token).ok()?) };
            let count = r.number().ok().filter(|count| *count <= SUBSCRIPTION_WORDS_MAX as u64)?;
            let words = (0..count).map(|_| Some(Blob::new(r.bytes().ok()?))).collect::<Option<Vec<Blob>>>()?;
            r.is_at_end().then_some(NamedSubscription { epoch, by, token, words })
        };
        // Anybody who may write the key can write anything there, of any length.
        if value.len() > NAMED_RECORD_BYTES_MAX {
            return Err(NO_RECORD);
        }
        read().ok_or(NO_RECORD)
    }

    /// The epoch alone; none if it is no record.
    #[must_use]
    pub fn epoch_of(value: &[u8]) -> Option<u64> {
        let mut r = Reader::new(value);
        r.number().ok().filter(|version| *version == VERSION)?;
        r.number().ok()
    }

    /// A client attaches, with other words if it has said some. `epoch`: the revision that the record is about to have.
    ///
    /// # Errors
    /// These are too many or too long.
    pub fn attach(&mut self, by: &[u8], words: &[&[u8]], epoch: Revision) -> Result<(), Failure> {
        check_attachment(by, words)?;
        if !words.is_empty() {
            self.words = words.iter().map(|word| Blob::new(word)).collect();
        }
        self.by = Blob::new(by);
        self.epoch = epoch.0;
        Ok(())
    }

    /// The place is acknowledged. True if that is further than before.
    ///
    /// # Errors
    /// It is the place of something else.
    pub fn acknowledge(&mut self, token: &Token) -> Result<bool, Failure> {
        let before = self.token.clone();
        match &mut self.token {
            Some(known) if known.bucket != token.bucket => return Err(OTHER_BUCKET),
            Some(known) if known.is_comparable(token) => {
                for (known, new) in known.revisions.iter_mut().zip(&token.revisions) {
                    *known = (*known).max(*new);
                }
            }
            // The first one, or of another history: the one before has ended.
            known => *known = Some(token.clone()),
        }
        Ok(self.token != before)
    }

    /// Subscribes to more keys; how many of them are new.
    ///
    /// # Errors
    /// These are too many or too long.
    pub fn add_keys(&mut self, keys: &[&[u8]]) -> Result<usize, Failure> {
        let known: BTreeSet<Vec<u8>> = self.keys()?.into_iter().map(<[u8]>::to_vec).collect();
        let new: BTreeSet<&[u8]> = keys.iter().copied().filter(|key| !known.contains(*key)).collect();
        let added: Vec<&[u8]> = new.iter().flat_map(|key| [&b"KEY"[..], key]).collect();
        check_words(self.words.iter().map(Blob::as_slice).chain(added.iter().copied()))?;
        self.words.extend(added.into_iter().map(Blob::new));
        Ok(new.len())
    }

    /// Subscribes to fewer keys; how many of them there were.
    ///
    /// # Errors
    /// The keys that are left take too many words: each key takes two.
    pub fn remove_keys(&mut self, keys: &[&[u8]]) -> Result<usize, Failure> {
        let keys: BTreeSet<&[u8]> = keys.iter().copied().collect();
        let words: Vec<&[u8]> = self.words.iter().map(Blob::as_slice).collect();
        let mut left: Vec<&[u8]> = Vec::new();
        let mut removed = 0;
        for clause in clauses(&words)? {
            let named = keys_of(clause);
            if named.is_empty() {
                left.extend(clause);
                continue;
            }
            for key in named {
                if keys.contains(key) {
                    removed += 1;
                } else {
                    left.extend([b"KEY", *key]);
                }
            }
        }
        check_words(left.iter().copied())?;
        self.words = left.into_iter().map(Blob::new).collect();
        Ok(removed)
    }

    /// The keys that it names.
    ///
    /// # Errors
    /// The words cannot be read.
    pub fn keys(&self) -> Result<Vec<&[u8]>, Failure> {
        let words: Vec<&[u8]> = self.words.iter().map(Blob::as_slice).collect();
        Ok(clauses(&words)?.into_iter().flat_map(keys_of).copied().collect())
    }
}

/// Checks the words of an attachment before anything is made of them: they can be as long as a command.
///
/// # Errors
/// They cannot be read, are too many or too long.
pub fn check_attachment(by: &[u8], words: &[&[u8]]) -> Result<(), Failure> {
    if by.len() > NAMED_BY_BYTES_MAX {
        return Err(BY);
    }
    clauses(words)?;
    check_words(words.iter().copied())
}

fn check_words<'a>(words: impl Iterator<Item = &'a [u8]>) -> Result<(), Failure> {
    let (count, bytes) = words.fold((0, 0), |(count, bytes), word| (count + 1, bytes + word.len()));
    if count <= SUBSCRIPTION_WORDS_MAX && bytes <= NAMED_WORDS_BYTES_MAX { Ok(()) } else { Err(TOO_LONG) }
}

/// Reads a place that is to be acknowledged.
///
/// # Errors
/// It is none, or none of a named subscription, which follows all partitions of its bucket.
pub fn parse_place(word: &[u8]) -> Result<Token, Failure> {
    let token = Token::parse(word)?;
    let is_whole = token.revisions.len() <= usize::from(PARTITIONS_MAX) && token.revisions.iter().all(Option::is_some);
    if is_whole { Ok(token) } else { Err(OF_ALL) }
}

/// Checks that so many keys may be said at once.
///
/// # Errors
/// They may not.
pub fn check_keys(keys: &[&[u8]]) -> Result<(), Failure> {
    if keys.len() <= SUBSCRIPTION_WORDS_MAX { Ok(()) } else { Err(TOO_LONG) }
}

/// The keys of a clause, if it is one that names keys.
fn keys_of<'a, 'b>(clause: &'b [&'a [u8]]) -> &'b [&'a [u8]] {
    match clause {
        [word, _] if word.eq_ignore_ascii_case(b"key") => &clause[1..],
        [word, _, ..] if word.eq_ignore_ascii_case(b"keys") => &clause[2..],
        _ => &[],
    }
}

/// The parts of what `DICTUM.SUBSCRIBE` is told, as far as their lengths go: what they mean is the node's business. `FROM` is none: a record has a place of its own.
///
/// # Errors
/// The words end within one, or one begins with none of the known ones.
pub fn clauses<'a, 'b>(words: &'b [&'a [u8]]) -> Result<Vec<&'b [&'a [u8]]>, Failure> {
    let mut rest = words;
    let mut clauses = Vec::new();
    while let Some(word) = rest.first() {
        let is = |names: &[&str]| names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
        let count = match () {
            () if is(&["all"]) => 1,
            () if is(&["key", "prefix", "match", "kind", "values", "with"]) => 2,
            () if is(&["on"]) => 3,
            () if is(&["keys"]) => {
                let count = rest.get(1).and_then(|count| parse_integer(count)).ok_or(Failure::Syntax)?;
                usize::try_from(count).ok().and_then(|count| count.checked_add(2)).ok_or(Failure::Syntax)?
            }
            () => return Err(Failure::Syntax),
        };
        let (clause, left) = rest.split_at_checked(count).ok_or(Failure::Syntax)?;
        clauses.push(clause);
        rest = left;
    }
    Ok(clauses)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(revisions: &[u64]) -> Token {
        let text = revisions.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        Token::parse(format!("7~00000000000000fe:{text}").as_bytes()).expect("a token")
    }

    #[test]
    fn a_record_is_in_the_slot_of_its_name() {
        for name in ["mail", "{order}:mail", "a:{b}", "}a", "é"] {
            match record_key(name.as_bytes()) {
                Ok(key) => assert_eq!(hash_slot(&key), hash_slot(name.as_bytes()), "{name}"),
                Err(_) => assert_eq!(name, "}a"),
            }
        }
        for name in ["mail", "{order}:mail", "a:{b}", "é"] {
            assert!(record_key(name.as_bytes()).is_ok(), "{name}");
        }
        assert!(record_key(b"").is_err() && record_key(&[b'x'; 1001]).is_err());
        // No two names have one key.
        for name in ["{mail}", "a{}b", "a{b", "{}"] {
            assert!(record_key(name.as_bytes()).is_err(), "{name}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut record = NamedSubscription::default();
        assert_eq!(record.attach(b"n1", &[b"KEYS", b"2", b"a", b"\xff\r\n", b"WITH", b"STATE"], Revision(7)), Ok(()));
        for acknowledged in [None, Some(token(&[1, 2]))] {
            record.token = acknowledged;
            assert_eq!(NamedSubscription::read(&record.write()), Ok(record.clone()));
        }
        let bytes = record.write();
        for end in 0..bytes.len() {
            assert!(NamedSubscription::read(&bytes[..end]).is_err());
        }
        assert!(NamedSubscription::read(b"something else").is_err());
        assert_eq!(NamedSubscription::epoch_of(&bytes), Some(7));
        let many = [&[1, 1, 0, 0][..], &[0x80, 0x80, 0x80, 8], &vec![0; 16 << 20]].concat();
        assert!(NamedSubscription::read(&many).is_err(), "sixteen million words");
        assert!(
            NamedSubscription::read(&[1, 1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x7f]).is_err(),
            "a count of words that are not there"
        );
    }

    #[test]
    fn places_never_fall_within_a_history() {
        let mut record = NamedSubscription::default();
        assert_eq!(record.acknowledge(&token(&[5, 5])), Ok(true));
        for lower in [[5, 5], [4, 5]] {
            assert_eq!(record.acknowledge(&token(&lower)), Ok(false));
        }
        assert_eq!(record.acknowledge(&token(&[1, 6])), Ok(true));
        assert_eq!(record.token, Some(token(&[5, 6])));
        let bucket = Token::parse(b"8~00000000000000fe:1,1").expect("a token");
        assert!(record.acknowledge(&bucket).is_err());
        let history = Token::parse(b"7~00000000000000ff:1,1").expect("a token");
        assert_eq!(record.acknowledge(&history), Ok(true));
        assert_eq!(record.token, Some(history));
        assert!(parse_place(b"7~00000000000000fe:1,").is_err() && parse_place(b"7~00000000000000fe:1,2").is_ok());
        assert!(parse_place(format!("7~00000000000000fe:1{}", ",1".repeat(1024)).as_bytes()).is_err());
    }

    #[test]
    fn keys_are_added_and_taken_away() {
        let mut record = NamedSubscription::default();
        assert_eq!(record.add_keys(&[b"a", b"b", b"a"]), Ok(2));
        assert_eq!(
            record.attach(
                b"",
                &[b"KEYS", b"2", b"KEYS", b"b", b"PREFIX", b"KEY", b"KEY", b"c", b"ON", b"GAP", b"end"],
                Revision(1)
            ),
            Ok(())
        );
        assert_eq!(record.keys(), Ok(vec![&b"KEYS"[..], b"b", b"c"]));
        assert_eq!(record.remove_keys(&[b"b", b"x", b"KEY"]), Ok(1));
        let words: Vec<&[u8]> = record.words.iter().map(Blob::as_slice).collect();
        assert_eq!(words, [&b"KEY"[..], b"KEYS", b"PREFIX", b"KEY", b"KEY", b"c", b"ON", b"GAP", b"end"]);
        for bad in [&[&b"KEYS"[..], b"3", b"a"][..], &[b"KEYS", b"-1"], &[b"FROM", b"now"], &[b"KEY"], &[b"odd", b"x"]]
        {
            assert!(NamedSubscription::default().attach(b"", bad, Revision(1)).is_err());
        }
        let many: Vec<Vec<u8>> = (0..600_u32).map(|number| number.to_string().into_bytes()).collect();
        let many: Vec<&[u8]> = many.iter().map(Vec::as_slice).collect();
        assert!(
            record.add_keys(&many).is_err() && NamedSubscription::default().add_keys(&[&[b'x'; 17_000][..]]).is_err()
        );
    }
}
