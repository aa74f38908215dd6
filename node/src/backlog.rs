//! Bytes of a client that nobody looks at for now: its connection is blocked, or has too much on its way.
//!
//! They are taken from the front, command by command, and each blocked command may leave all others here: so they stay where they are, and what is taken is only
//! counted. 10,000 pipelined `WATCH` once had the rest copied 10,000 times.

/// Memory that an empty one keeps, in bytes.
const KEPT_BYTES_MAX: usize = 16 * 1024;

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    bytes: Vec<u8>,
    /// So many of them are taken.
    taken: usize,
    /// How many bytes were moved or copied so far: for tests.
    #[cfg(test)]
    copied: usize,
}

impl Backlog {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.taken
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory that it holds, in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// What was not taken.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// Adds bytes at the end.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        // As soon as half is taken: so a byte is moved for each that was taken, at most.
        if self.taken > 0 && self.taken >= self.len() {
            #[cfg(test)]
            {
                self.copied += self.len();
            }
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        #[cfg(test)]
        {
            self.copied += bytes.len();
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// So many bytes at the front were taken.
    pub(crate) fn take(&mut self, count: usize) {
        self.taken = (self.taken + count).min(self.bytes.len());
        if self.is_empty() {
            self.taken = 0;
            self.bytes.clear();
            if self.bytes.capacity() > KEPT_BYTES_MAX {
                self.bytes = Vec::new();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taking_one_command_after_the_other_copies_nothing() {
        let mut backlog = Backlog::default();
        let (command, count) = (&b"WATCH k\r\n"[..], 50_000);
        for _ in 0..count {
            backlog.push(command);
        }
        let pushed = command.len() * count;
        assert_eq!((backlog.len(), backlog.copied), (pushed, pushed));
        for left in (0..count).rev() {
            assert!(backlog.rest().starts_with(command));
            backlog.take(command.len());
            assert_eq!(backlog.len(), left * command.len());
        }
        assert_eq!((backlog.copied, backlog.capacity()), (pushed, 0));
    }

    #[test]
    fn what_goes_on_coming_is_moved_about_once() {
        let mut backlog = Backlog::default();
        backlog.push(&[7; 10_000]);
        for _ in 0..100_000 {
            backlog.push(&[7; 10]);
            backlog.take(10);
            assert_eq!(backlog.len(), 10_000);
        }
        assert!(backlog.copied <= 2 * 1_010_000, "{} bytes copied for 1,010,000", backlog.copied);
        assert!(backlog.capacity() < 64_000, "{}", backlog.capacity());
    }
}
