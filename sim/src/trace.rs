//! The list of everything that happened in a run: always as a digest, on demand as text.

use base::checksum::xxh3;

/// What a run leaves behind of its events.
#[derive(Debug, Default)]
pub struct Trace {
    digest: u64,
    count: u64,
    lines: Option<Vec<String>>,
}

impl Trace {
    /// A trace that also keeps every event as a line of text.
    #[must_use]
    pub fn with_text() -> Trace {
        Trace { lines: Some(Vec::new()), ..Trace::default() }
    }

    /// Takes note of an event: numbers that tell it apart, and its text, made only if somebody wants it.
    pub fn event(&mut self, at: u64, numbers: [u64; 4], text: impl FnOnce() -> String) {
        self.count += 1;
        for number in [at, numbers[0], numbers[1], numbers[2], numbers[3]] {
            // The mixing step of SplitMix64, chained.
            let mut mixed = (self.digest ^ number).wrapping_add(0x9e37_79b9_7f4a_7c15);
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            self.digest = mixed ^ (mixed >> 31);
        }
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>12.6} {}", at as f64 / 1e9, text()));
        }
    }

    /// Whether texts are kept.
    #[must_use]
    pub fn is_text(&self) -> bool {
        self.lines.is_some()
    }

    /// The digest of all events so far.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// How many events there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The lines, if they were kept.
    #[must_use]
    pub fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}

/// A number that stands for some bytes in [`Trace::event`].
#[must_use]
pub fn digest_of(bytes: &[u8]) -> u64 {
    xxh3(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_does_not_depend_on_the_text() {
        let (mut short, mut long) = (Trace::default(), Trace::with_text());
        for number in 0..10 {
            short.event(number, [1, 2, 3, number], String::new);
            long.event(number, [1, 2, 3, number], || format!("event {number}"));
        }
        assert_eq!(short.digest(), long.digest());
        assert_eq!(long.into_lines().len(), 10);
        short.event(1, [0; 4], String::new);
        assert_ne!(short.digest(), 0);
    }
}
