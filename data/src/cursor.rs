//! The cursors of `SCAN` and its kin: numbers that every client library can hold.
//!
//! JavaScript, Lua and JSON hold whole numbers below 2^53 exactly and round larger ones, and a rounded cursor misses elements without a word. So a
//! cursor is the first 48 bits of the place where the next page begins, behind a mark that tells it from the cursors of earlier versions, which
//! were the whole place:
//!
//! ```text
//! 10000 | the first 48 bits of the place        below 2^53
//! ```
//! Places that share these bits are always in one page. A cursor of an earlier version is still understood, except for one in 65,536 that looks as one of
//! these.

use base::limits::HASH_SLOTS;
use base::versions::Feature;

/// Bits of a place that a cursor has.
const PLACE_BITS: u32 = 48;
/// What stands before them.
const MARK: u64 = 1 << 52;

/// Whose places a cursor is among.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Among {
    /// Keys of a state. Their orders begin with a hash slot, which leaves the first two bits unused.
    Keys,
    /// Elements of a value, by the hashes of their names.
    Elements,
}

const _: () = assert!(HASH_SLOTS == 1 << 14, "the first two bits of a key's order are never set");

impl Among {
    /// Bits at the end of a place that a cursor does not have.
    fn dropped(self, version: u16) -> u32 {
        match self {
            _ if !Feature::SmallCursors.is_in(version) => 0,
            Among::Keys => 62 - PLACE_BITS,
            Among::Elements => 64 - PLACE_BITS,
        }
    }

    /// Whether a page may end between two places: no cursor can point between those that share its bits.
    #[must_use]
    pub fn parts(self, one: u64, other: u64, version: u16) -> bool {
        let dropped = self.dropped(version);
        one >> dropped != other >> dropped
    }

    /// The cursor of a place, at which the next page begins.
    #[must_use]
    pub fn cursor_of(self, place: u64, version: u16) -> u64 {
        match self.dropped(version) {
            0 => place,
            dropped => MARK | place >> dropped,
        }
    }

    /// The place that a cursor stands for.
    #[must_use]
    pub fn place_of(self, cursor: u64, version: u16) -> u64 {
        match self.dropped(version) {
            dropped if dropped > 0 && cursor >> PLACE_BITS == MARK >> PLACE_BITS => (cursor ^ MARK) << dropped,
            _ => cursor,
        }
    }
}

/// A cursor as a client says it: an unsigned number of 64 bits, leading zeros allowed.
#[must_use]
pub fn parse(text: &[u8]) -> Option<u64> {
    let digits = text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;
    use base::versions::{NEWEST, OLDEST};

    #[test]
    fn a_cursor_is_below_two_to_the_53_and_leads_to_its_place() {
        let mut rng = Rng::new(1);
        for (among, bits) in [(Among::Keys, 62), (Among::Elements, 64)] {
            for _ in 0..10_000 {
                let place = rng.next_u64() >> (64 - bits);
                let cursor = among.cursor_of(place, NEWEST);
                assert!((1..1 << 53).contains(&cursor), "{cursor}");
                let back = among.place_of(cursor, NEWEST);
                assert!(back <= place && !among.parts(back, place, NEWEST));
                assert!(place == 0 || among.parts(back.wrapping_sub(1), place, NEWEST) || back == 0);
            }
        }
    }

    #[test]
    fn cursors_of_earlier_versions_are_understood() {
        for cursor in [1, MARK - 1, MARK + (1 << PLACE_BITS), 1 << 53, u64::MAX] {
            for among in [Among::Keys, Among::Elements] {
                assert_eq!(among.place_of(cursor, NEWEST), cursor);
                assert_eq!((among.place_of(cursor, OLDEST), among.cursor_of(cursor, OLDEST)), (cursor, cursor));
            }
        }
    }

    #[test]
    fn only_a_number_is_a_cursor() {
        assert_eq!((parse(b"0"), parse(b"007"), parse(b"18446744073709551615")), (Some(0), Some(7), Some(u64::MAX)));
        for bad in [&b""[..], b"-1", b"+1", b"x", b"1x", b"18446744073709551616", b" 1"] {
            assert_eq!(parse(bad), None);
        }
    }
}
