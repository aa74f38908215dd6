//! What one node tells all others of messages and of its listeners, as bytes: items one after the other.
//!
//! ```text
//! 1, 2    │ channel │ message      published on a channel (1), on a shard channel (2)
//! 3, 4, 5 │ name    │ count        so many listen to the channel (3), the pattern (4), the shard channel (5) at the sender
//! ```
//! Names and messages have their length before them; a count is a varint.

use wire::{Malformed, Reader, Writer};

use super::audience::Kind;

/// One item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Item<'a> {
    /// A message. The kind is [`Kind::Channel`] or [`Kind::Shard`].
    Published { kind: Kind, channel: &'a [u8], message: &'a [u8] },
    /// How many of the sender's connections listen.
    Listeners { kind: Kind, name: &'a [u8], count: u32 },
}

impl Item<'_> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        match self {
            Item::Published { kind, channel, message } => {
                w.u8(if *kind == Kind::Shard { 2 } else { 1 });
                w.bytes(channel);
                w.bytes(message);
            }
            Item::Listeners { kind, name, count } => {
                // Of three.
                w.u8(3 + kind.place() as u8);
                w.bytes(name);
                w.varint(u64::from(*count));
            }
        }
    }

    /// The next item.
    pub(crate) fn decode<'a>(r: &mut Reader<'a>) -> Result<Item<'a>, Malformed> {
        match r.u8()? {
            tag @ (1 | 2) => {
                let kind = if tag == 1 { Kind::Channel } else { Kind::Shard };
                Ok(Item::Published { kind, channel: r.slice()?, message: r.slice()? })
            }
            tag @ 3..=5 => {
                let kind = Kind::ALL[usize::from(tag - 3)];
                Ok(Item::Listeners {
                    kind,
                    name: r.slice()?,
                    count: u32::try_from(r.varint()?).map_err(|_| Malformed)?,
                })
            }
            _ => Err(Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_round_trip() {
        let items = [
            Item::Published { kind: Kind::Channel, channel: b"news", message: b"" },
            Item::Published { kind: Kind::Shard, channel: b"", message: b"hello" },
            Item::Listeners { kind: Kind::Channel, name: b"news", count: 0 },
            Item::Listeners { kind: Kind::Pattern, name: b"n*", count: u32::MAX },
            Item::Listeners { kind: Kind::Shard, name: b"news", count: 7 },
        ];
        let mut bytes = Vec::new();
        items.iter().for_each(|item| item.encode(&mut bytes));
        let mut r = Reader::from_slice(&bytes);
        let decoded: Vec<Item<'_>> = (0..items.len()).map(|_| Item::decode(&mut r).expect("as written")).collect();
        assert_eq!(decoded, items);
        assert_eq!(r.finish(), Ok(()));
        assert_eq!(Item::decode(&mut Reader::from_slice(&[6])), Err(Malformed));
        assert_eq!(Item::decode(&mut Reader::from_slice(&[1, 9, 0])), Err(Malformed));
    }
}
