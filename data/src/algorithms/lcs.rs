//! The longest common subsequence of two strings, and where its runs lie: what `LCS` answers.
//!
//! The textbook table: `length(i, j)` of the first `i` bytes of one string and the first `j` of the other is
//! `length(i-1, j-1) + 1` where the bytes agree, else the larger of `length(i-1, j)` and `length(i, j-1)`. Only one
//! row of it is kept. The way back from the end needs to know, where bytes differ, which of the two was larger: one
//! bit for each pair of bytes, where Redis keeps four bytes. Of several solutions the one is taken that Redis takes.

use base::limits::VALUE_BYTES_MAX;

/// A run of bytes that both strings have in common; all ends are included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// First and last index within the first string.
    pub first: (usize, usize),
    /// First and last index within the second string.
    pub second: (usize, usize),
}

impl Run {
    /// How many bytes it has.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.first.1 - self.first.0 + 1
    }
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Common {
    /// The subsequence itself.
    pub text: Vec<u8>,
    /// Its runs, from the last to the first.
    pub runs: Vec<Run>,
}

/// Whether Redis would compute it: its table of 4 bytes for each pair of bytes must not exceed its largest string.
/// This bounds the time too.
#[must_use]
pub fn is_affordable(first: usize, second: usize) -> bool {
    let cells = first.saturating_add(1).saturating_mul(second.saturating_add(1));
    cells.saturating_mul(4) <= VALUE_BYTES_MAX
}

/// Only the length.
#[must_use]
pub fn length(first: &[u8], second: &[u8]) -> usize {
    let (long, short) = if first.len() < second.len() { (second, first) } else { (first, second) };
    fill(long, short, |_, _| {})
}

/// The subsequence and its runs.
#[must_use]
pub fn common(first: &[u8], second: &[u8]) -> Common {
    let width = second.len();
    // One bit for each pair of bytes: whether leaving out the byte of the first string loses less.
    let mut leave_first = vec![0u64; (first.len() * width).div_ceil(64)];
    let length = fill(first, second, |cell, bit| leave_first[cell / 64] |= u64::from(bit) << (cell % 64));

    let mut text = Vec::with_capacity(length);
    let mut runs: Vec<Run> = Vec::new();
    let mut continues = false;
    let (mut i, mut j) = (first.len(), width);
    while i > 0 && j > 0 {
        let cell = (i - 1) * width + (j - 1);
        if first[i - 1] == second[j - 1] {
            (i, j) = (i - 1, j - 1);
            text.push(first[i]);
            match runs.last_mut() {
                Some(run) if continues => (run.first.0, run.second.0) = (i, j),
                _ => runs.push(Run { first: (i, i), second: (j, j) }),
            }
            continues = true;
        } else {
            continues = false;
            if leave_first[cell / 64] >> (cell % 64) & 1 == 1 { i -= 1 } else { j -= 1 }
        }
    }
    text.reverse();
    Common { text, runs }
}

/// Goes through the table row by row, tells `on_cell` for each cell whether the row above is strictly better than the
/// cell to the left, and returns the last length.
fn fill(first: &[u8], second: &[u8], mut on_cell: impl FnMut(usize, bool)) -> usize {
    let mut row = vec![0u32; second.len() + 1];
    for (i, a) in first.iter().enumerate() {
        let mut diagonal = 0;
        let mut left = 0;
        for (j, b) in second.iter().enumerate() {
            let above = row[j + 1];
            on_cell(i * second.len() + j, above > left);
            left = if a == b { diagonal + 1 } else { above.max(left) };
            diagonal = above;
            row[j + 1] = left;
        }
    }
    row[second.len()] as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_documentation() {
        let common = common(b"ohmytext", b"mynewtext");
        assert_eq!(common.text, b"mytext");
        assert_eq!(common.runs, [Run { first: (4, 7), second: (5, 8) }, Run { first: (2, 3), second: (0, 1) }]);
        assert_eq!(length(b"ohmytext", b"mynewtext"), 6);
    }

    #[test]
    fn nothing_in_common() {
        assert_eq!(common(b"", b"abc"), Common::default());
        assert_eq!(common(b"xyz", b"abc"), Common::default());
        assert_eq!(length(b"", b""), 0);
    }

    #[test]
    fn the_text_is_a_subsequence_of_both_and_as_long_as_the_runs() {
        fn contains(text: &[u8], subsequence: &[u8]) -> bool {
            let mut rest = text.iter();
            subsequence.iter().all(|byte| rest.any(|other| other == byte))
        }
        let mut rng = base::Rng::new(2);
        for _ in 0..500 {
            let mut draw = || -> Vec<u8> { (0..rng.below(30)).map(|_| *rng.pick(b"abcd")).collect() };
            let (first, second) = (draw(), draw());
            let found = common(&first, &second);
            assert_eq!(found.text.len(), length(&first, &second));
            assert_eq!(found.text.len(), found.runs.iter().map(Run::bytes).sum::<usize>());
            assert!(contains(&first, &found.text) && contains(&second, &found.text));
            for run in &found.runs {
                assert_eq!(first[run.first.0..=run.first.1], second[run.second.0..=run.second.1]);
            }
        }
    }

    #[test]
    fn the_bound_is_that_of_redis() {
        assert!(is_affordable(11_584, 11_584));
        assert!(!is_affordable(11_585, 11_585));
        assert!(!is_affordable(VALUE_BYTES_MAX, 1));
        assert!(!is_affordable(usize::MAX, usize::MAX));
    }
}
