//! How bulletins go to the other nodes and come from them.
//!
//! Bulletins of a link are numbered from 1 on when it comes up. Whoever hears one takes no lower number any more, so nothing is taken twice or
//! out of order; what is lost is lost. Of the listeners that it tells of nobody may be wrong for ever, though: who finds a number missing says
//! so, and is told all of them anew.
//!
//! The hearer says several times a second how far it has come. So the sender knows how much is on its way, and gives a link that does not
//! keep up no more than [`PUBLISHED_WINDOW_BYTES_MAX`]: what is published beyond that is not for that node's listeners.

use std::collections::VecDeque;
use std::time::Duration;

use base::Time;
use base::limits::PUBLISHED_WINDOW_BYTES_MAX;

/// After so long without a sign that bulletins are heard, all listeners are told again.
const SILENCE_MAX: Duration = Duration::from_secs(1);
/// They are told all of them no more often.
const TOLD_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// One link, both directions.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// It is there.
    pub open: bool,
    /// The last bulletin that was sent, and the last with which the listeners were told anew.
    sent: u64,
    told_with: u64,
    told_at: Time,
    /// Bulletins that are on their way, by number, and their bytes.
    on_the_way: VecDeque<(u64, usize)>,
    bytes_on_the_way: usize,
    /// When something was last sent with nothing on its way, or the other was heard of.
    progress_at: Time,
    /// The other does not know all listeners of this node.
    pub tells_all: bool,
    /// The last bulletin that was heard.
    heard: u64,
    /// What is known of the other's listeners is all of it.
    whole: bool,
    /// What the other was last told of this.
    said: (u64, bool),
}

/// What a bulletin is to its hearer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Heard {
    New,
    /// It, or a later one, was heard before.
    Old,
}

impl Link {
    /// The link has come up.
    pub(super) fn opened(now: Time, tells_all: bool) -> Link {
        Link { open: true, whole: true, said: (0, true), progress_at: now, tells_all, ..Link::default() }
    }

    /// Whether a bulletin of so many bytes may be sent now.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.open
            && (self.bytes_on_the_way == 0 || self.bytes_on_the_way.saturating_add(bytes) <= PUBLISHED_WINDOW_BYTES_MAX)
    }

    /// A bulletin is sent: its number. `anew`: with it begins a telling of all listeners.
    pub(super) fn send(&mut self, now: Time, bytes: usize, anew: bool) -> u64 {
        if self.on_the_way.is_empty() {
            self.progress_at = now;
        }
        self.sent += 1;
        self.on_the_way.push_back((self.sent, bytes));
        self.bytes_on_the_way += bytes;
        if anew {
            (self.told_with, self.told_at, self.tells_all) = (self.sent, now, false);
        }
        self.sent
    }

    /// The other says how far it has heard, and whether it knows all listeners.
    pub(super) fn on_said(&mut self, now: Time, heard: u64, whole: bool) {
        if heard > self.sent {
            return;
        }
        while let Some((number, bytes)) = self.on_the_way.front().copied().filter(|(number, _)| *number <= heard) {
            debug_assert!(number <= heard);
            self.on_the_way.pop_front();
            self.bytes_on_the_way -= bytes;
            self.progress_at = now;
        }
        self.tells_all |= !whole && heard >= self.told_with;
    }

    /// Looks at the time. Whether all listeners have to be told now.
    pub(super) fn is_to_tell_all(&mut self, now: Time) -> bool {
        if !self.on_the_way.is_empty() && now.since(self.progress_at) >= SILENCE_MAX {
            self.progress_at = now;
            self.tells_all = true;
        }
        self.open
            && self.tells_all
            && self.has_room(0)
            && (self.told_with == 0 || now.since(self.told_at) >= TOLD_AGAIN_AFTER)
    }

    /// A bulletin has come.
    pub(super) fn hear(&mut self, number: u64, anew: bool) -> Heard {
        if number <= self.heard || !self.open {
            return Heard::Old;
        }
        self.whole = anew || (self.whole && number == self.heard + 1);
        self.heard = number;
        Heard::New
    }

    /// What the other is to be told of what was heard from it, if that is new.
    pub(super) fn say(&mut self) -> Option<(u64, bool)> {
        let says = (self.heard, self.whole);
        (self.open && std::mem::replace(&mut self.said, says) != says).then_some(says)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time(0);

    #[test]
    fn nothing_is_taken_twice_or_out_of_order() {
        let mut link = Link::opened(START, false);
        assert_eq!(
            [1, 2, 2, 5, 3, 6].map(|number| link.hear(number, false) == Heard::New),
            [true, true, false, true, false, true]
        );
        assert_eq!(link.say(), Some((6, false)), "two are missing");
        assert_eq!(link.say(), None, "said once");
        assert_eq!(link.hear(7, true), Heard::New);
        assert_eq!(link.say(), Some((7, true)));
    }

    #[test]
    fn who_misses_something_is_told_everything() {
        let mut link = Link::opened(START, false);
        assert!(!link.is_to_tell_all(START));
        for _ in 0..3 {
            link.send(START, 10, false);
        }
        link.on_said(START, 3, false);
        assert!(link.is_to_tell_all(START));
        assert_eq!(link.send(START, 10, true), 4);
        // It was said before this was heard.
        link.on_said(START, 3, false);
        assert!(!link.is_to_tell_all(START + SILENCE_MAX / 2));
        assert!(link.is_to_tell_all(START + SILENCE_MAX), "nothing was heard of the last one");
        link.on_said(START, 4, true);
        assert_eq!(link.bytes_on_the_way, 0);
        link.on_said(START, 99, true);
        assert_eq!(link.sent, 4);
    }

    #[test]
    fn a_link_that_does_not_keep_up_gets_no_more() {
        let mut link = Link::opened(START, false);
        assert!(link.has_room(usize::MAX), "one may be as large as it is");
        link.send(START, PUBLISHED_WINDOW_BYTES_MAX - 1, false);
        assert!(link.has_room(1) && !link.has_room(2));
        link.on_said(START, 1, true);
        assert!(link.has_room(2));
        assert!(!Link::default().has_room(1), "it is not there");
    }
}
