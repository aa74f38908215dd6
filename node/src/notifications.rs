//! Keyspace notifications: what becomes of keys, told to those who listen to `__keyspace@N__:key` and `__keyevent@N__:event`.
//!
//! Every replica applies every entry, so every node tells its own listeners of all changes, in the order of the log, expiries and evictions too; nothing
//! goes over the links for it. Which kinds of changes are told is a setting of the node that tells. Without listeners, or without the setting, nothing is done for it but to look at both.

use data::{Blob, Class, KeyEvent};

use crate::node::Node;
use crate::pubsub::audience::Kind;

/// Which changes are told, and where: the letters of `notify-keyspace-events`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Notify(u32);

/// Every letter with its place, in the order in which Redis names them. `d` is for modules: for documents.
const LETTERS: &[u8; 14] = b"g$lshzxetdnKEm";
/// How many of them stand for `A`: all but these last ones.
const ALL: u32 = (1 << 10) - 1;

impl Notify {
    /// As `CONFIG SET` has it; none if a letter means nothing.
    pub(crate) fn parse(letters: &[u8]) -> Option<Notify> {
        let bit = |letter: &u8| match letter {
            b'A' => Some(ALL),
            other => LETTERS.iter().position(|known| known == other).map(|place| 1 << place),
        };
        letters.iter().try_fold(0, |bits, letter| Some(bits | bit(letter)?)).map(Notify)
    }

    /// As `CONFIG GET` has it. Redis leaves out `n` where it says `A`; here it is said.
    pub(crate) fn to_text(self) -> String {
        let all = self.0 & ALL == ALL;
        let named = |place: &usize| self.0 >> place & 1 == 1 && !(all && ALL >> place & 1 == 1);
        let letters = (0..LETTERS.len()).filter(named).map(|place| char::from(LETTERS[place]));
        all.then_some('A').into_iter().chain(letters).collect()
    }

    fn has(self, letter: u8) -> bool {
        LETTERS.iter().position(|known| *known == letter).is_some_and(|place| self.0 >> place & 1 == 1)
    }

    /// Whether anything is told at all.
    fn tells(self) -> bool {
        self.has(b'K') || self.has(b'E')
    }

    /// Whether keys are told that reads do not find.
    pub(crate) fn wants_misses(self) -> bool {
        self.has(b'm') && self.tells()
    }

    fn wants(self, class: Class) -> bool {
        self.has(letter_of(class))
    }
}

/// The letter that stands for a kind of changes.
pub(crate) fn letter_of(class: Class) -> u8 {
    match class {
        Class::Generic => b'g',
        Class::String => b'$',
        Class::List => b'l',
        Class::Set => b's',
        Class::Hash => b'h',
        Class::SortedSet => b'z',
        Class::Stream => b't',
        Class::Expired => b'x',
        Class::Evicted => b'e',
        Class::Module => b'd',
        Class::New => b'n',
    }
}

/// The kind of changes that a letter stands for.
pub(crate) fn class_of_letter(letter: u8) -> Option<Class> {
    Some(match letter {
        b'g' => Class::Generic,
        b'$' => Class::String,
        b'l' => Class::List,
        b's' => Class::Set,
        b'h' => Class::Hash,
        b'z' => Class::SortedSet,
        b't' => Class::Stream,
        b'x' => Class::Expired,
        b'e' => Class::Evicted,
        b'd' => Class::Module,
        b'n' => Class::New,
        _ => return None,
    })
}

impl Node {
    /// Whether anybody is to be told of changes.
    pub(crate) fn wants_key_events(&self) -> bool {
        self.tunables.notify.tells() && !self.pubsub.audience.is_empty_here()
    }

    /// Tells of the changes that an entry of a partition has made.
    pub(crate) fn tell_key_events(&mut self, g: usize) {
        let events = std::mem::take(&mut self.groups[g].wishes.key_events);
        for KeyEvent { class, name, key } in &events {
            if self.tunables.notify.wants(*class) {
                self.tell_key_event(g, name, key);
            }
        }
    }

    /// The same of changes that another node has applied and told.
    pub(crate) fn tell_fed_events(&mut self, g: usize, events: &[(Class, String, Blob)]) {
        for (class, name, key) in events {
            if self.tunables.notify.wants(*class) {
                self.tell_key_event(g, name, key);
            }
        }
    }

    /// Tells of keys that a read of a client of this node has not found.
    pub(crate) fn tell_misses(&mut self, g: usize, keys: &[Vec<u8>]) {
        for key in keys {
            self.tell_key_event(g, "keymiss", key);
        }
    }

    fn tell_key_event(&mut self, g: usize, name: &str, key: &[u8]) {
        let (notify, number) = (self.tunables.notify, self.groups[g].bucket.number);
        if notify.has(b'K') {
            let channel = [format!("__keyspace@{number}__:").as_bytes(), key].concat();
            self.tell_listeners(None, Kind::Channel, &channel, name.as_bytes());
        }
        if notify.has(b'E') {
            let channel = format!("__keyevent@{number}__:{name}");
            self.tell_listeners(None, Kind::Channel, channel.as_bytes(), key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Notify;

    #[test]
    fn letters_are_those_of_redis() {
        let text = |letters: &str| Notify::parse(letters.as_bytes()).map(Notify::to_text);
        let cases = [
            ("", ""),
            ("KEA", "AKE"),
            ("Kx", "xK"),
            ("g$lshzxetdKE", "AKE"),
            ("nm", "nm"),
            ("AKEmn", "AnKEm"),
            ("Elg", "glE"),
        ];
        for (letters, expected) in cases {
            assert_eq!(text(letters).as_deref(), Some(expected), "{letters}");
        }
        assert_eq!(text("Kq"), None);
        assert!(!Notify::parse(b"A").is_some_and(Notify::tells), "nowhere to tell it");
    }
}
