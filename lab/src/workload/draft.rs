//! The operation that a workload has drawn and a driver is about to send: commands of words, in one flat buffer.
//!
//! One draft serves a whole thread: it is cleared and filled for each operation and keeps its memory, so that drawing does not
//! allocate.

/// One step of an operation: its kind, and one command or several that are sent together.
#[derive(Debug, Default)]
pub struct Draft {
    /// Which of [`super::Workload::kinds`] it is.
    pub kind: usize,
    /// Whether [`super::Draw::follow`] is asked for more when all commands are answered.
    pub follow: bool,
    /// A number of the workload's own, which [`super::Draw::follow`] finds again.
    pub token: u64,
    bytes: Vec<u8>,
    /// Where each word ends in `bytes`.
    word_ends: Vec<usize>,
    /// Where each command ends in `word_ends`; the last one is still open and not here.
    command_ends: Vec<usize>,
}

impl Draft {
    /// Forgets the last operation. The memory stays.
    pub fn clear(&mut self) {
        self.kind = 0;
        self.follow = false;
        self.token = 0;
        self.bytes.clear();
        self.word_ends.clear();
        self.command_ends.clear();
    }

    /// Begins a command with its name. What is written by [`word`](Self::word) until the next command belongs to it.
    pub fn command(&mut self, name: &[u8]) -> &mut Draft {
        self.open();
        self.word(name)
    }

    /// Begins a command whose name is written as its first word.
    pub(super) fn open(&mut self) {
        if !self.word_ends.is_empty() {
            self.command_ends.push(self.word_ends.len());
        }
    }

    /// Adds a word to the command.
    pub fn word(&mut self, word: &[u8]) -> &mut Draft {
        self.bytes.extend_from_slice(word);
        self.word_ends.push(self.bytes.len());
        self
    }

    /// Adds a word that `write` appends to the buffer, without a copy of its own. It may only append.
    pub fn word_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> &mut Draft {
        write(&mut self.bytes);
        self.word_ends.push(self.bytes.len());
        self
    }

    /// Adds a number in decimal digits.
    pub fn number(&mut self, number: u64) -> &mut Draft {
        self.word_with(|out| push_decimal(out, number))
    }

    /// How many commands there are.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.word_ends.is_empty() { 0 } else { self.command_ends.len() + 1 }
    }

    /// Whether there is no command.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.word_ends.is_empty()
    }

    /// The commands in order.
    pub fn commands(&self) -> impl Iterator<Item = Words<'_>> {
        (0..self.len()).map(|index| self.at(index))
    }

    /// The command at `index`, which is less than [`len`](Self::len).
    #[must_use]
    pub fn at(&self, index: usize) -> Words<'_> {
        let first = if index == 0 { 0 } else { self.command_ends[index - 1] };
        let end = self.command_ends.get(index).copied().unwrap_or(self.word_ends.len());
        let start = if first == 0 { 0 } else { self.word_ends[first - 1] };
        Words { bytes: &self.bytes, start, ends: &self.word_ends[first..end] }
    }
}

/// The words of one command.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    bytes: &'a [u8],
    start: usize,
    ends: &'a [usize],
}

impl<'a> Words<'a> {
    /// The word at `index`, if there are so many; 0 is the command's name.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        let end = *self.ends.get(index)?;
        let start = if index == 0 { self.start } else { self.ends[index - 1] };
        self.bytes.get(start..end)
    }

    /// The first key: the word after the name, or what follows the count of keys for a script. Empty if there is none.
    #[must_use]
    pub fn key(&self) -> &'a [u8] {
        let name = self.get(0).unwrap_or_default();
        let place = if name.eq_ignore_ascii_case(b"eval") || name.eq_ignore_ascii_case(b"evalsha") { 3 } else { 1 };
        self.get(place).unwrap_or_default()
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let word = self.get(0)?;
        self.start = self.ends[0];
        self.ends = &self.ends[1..];
        Some(word)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.ends.len(), Some(self.ends.len()))
    }
}

impl ExactSizeIterator for Words<'_> {}

/// Appends `number` in decimal digits, without the machinery of formatting: it is in every key.
pub fn push_decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_words_come_back_as_they_were_written() {
        let mut draft = Draft::default();
        assert!(draft.is_empty());
        draft.command(b"SET").word(b"k").word(b"");
        draft.command(b"EVAL").word(b"return 1").number(1).word(b"other");
        let commands: Vec<Vec<&[u8]>> = draft.commands().map(Iterator::collect).collect();
        assert_eq!(commands, [vec![&b"SET"[..], b"k", b""], vec![&b"EVAL"[..], b"return 1", b"1", b"other"]]);
        assert_eq!(draft.at(0).key(), b"k");
        assert_eq!(draft.at(1).key(), b"other");
        draft.clear();
        assert_eq!(draft.commands().count(), 0);
    }

    #[test]
    fn digits_are_those_of_formatting() {
        for number in [0, 7, 10, 12_345, u64::MAX] {
            let mut out = Vec::new();
            push_decimal(&mut out, number);
            assert_eq!(out, number.to_string().as_bytes());
        }
    }
}
