//! Marzullo's algorithm: where most intervals have a moment in common (K. Marzullo, "Maintaining the Time in a Distributed System", 1984).

/// A range of moments, in nanoseconds since the epoch, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    pub from: u64,
    /// `from <= until`.
    pub until: u64,
}

impl Span {
    /// One moment.
    pub(super) fn at(moment: u64) -> Span {
        Span { from: moment, until: moment }
    }

    /// The moment in the middle.
    pub(super) fn middle(self) -> u64 {
        self.from + (self.until - self.from) / 2
    }

    /// So much longer at both ends.
    pub(super) fn wider(self, by: u64) -> Span {
        Span { from: self.from.saturating_sub(by), until: self.until.saturating_add(by) }
    }

    /// Whether the two have a moment in common.
    pub(super) fn meets(self, other: Span) -> bool {
        self.from <= other.until && other.from <= self.until
    }
}

/// The range that most of the spans have in common, and how many these are: the earliest, if there are several. None without spans.
pub(super) fn most_agreed(spans: impl Iterator<Item = Span>) -> Option<(Span, usize)> {
    // Where two ends are at one moment, what begins there comes before what ends there: they have it in common.
    let mut ends: Vec<(u64, bool)> = spans.flat_map(|span| [(span.from, false), (span.until, true)]).collect();
    ends.sort_unstable();
    let (mut open, mut best) = (0_usize, None::<(Span, usize)>);
    for (place, (moment, ends_here)) in ends.iter().enumerate() {
        if *ends_here {
            open -= 1;
            continue;
        }
        open += 1;
        if best.is_none_or(|(_, most)| open > most) {
            // No more begin before the next end, or that beginning is a better one.
            let until = ends[place..].iter().find(|(_, ends_here)| *ends_here).map_or(*moment, |(until, _)| *until);
            best = Some((Span { from: *moment, until }, open));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreed(spans: &[(u64, u64)]) -> Option<(u64, u64, usize)> {
        let found = most_agreed(spans.iter().map(|(from, until)| Span { from: *from, until: *until }));
        found.map(|(span, count)| (span.from, span.until, count))
    }

    #[test]
    fn the_range_that_most_have_in_common_is_found() {
        assert_eq!(agreed(&[]), None);
        assert_eq!(agreed(&[(3, 5)]), Some((3, 5, 1)));
        assert_eq!(agreed(&[(8, 12), (11, 13), (10, 12)]), Some((11, 12, 3)));
        assert_eq!(agreed(&[(8, 12), (11, 13), (14, 15)]), Some((11, 12, 2)));
        assert_eq!(agreed(&[(8, 9), (8, 12), (10, 12)]), Some((8, 9, 2)), "of several the earliest");
        assert_eq!(agreed(&[(0, 10), (10, 20), (30, 40)]), Some((10, 10, 2)), "a moment is enough");
        assert_eq!(agreed(&[(0, u64::MAX), (u64::MAX, u64::MAX)]), Some((u64::MAX, u64::MAX, 2)));
    }
}
