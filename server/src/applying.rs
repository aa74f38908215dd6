//! Says which entry of a log is being applied when that ends the process, or does not end: an operator has to know, to have it stepped over.
//!
//! It begins before the node does: a node applies at its start what its journal has, and an entry that kills it does so again there.

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, panic, thread};

use base::limits::BUSY_MAX;
use base::{PartitionId, Position};
use node::Applying;

use crate::log;

/// How often the thread looks.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Says it with every panic of this thread, which is to be the one that the node runs on; and from a thread of its own, when an entry takes longer than
/// [`BUSY_MAX`], for which nodes vouch for each other.
///
/// # Errors
/// The system has no thread left.
pub(crate) fn watch(applying: &Arc<Applying>) -> io::Result<()> {
    let (former, shared, loops) = (panic::take_hook(), Arc::clone(applying), thread::current().id());
    panic::set_hook(Box::new(move |info| {
        former(info);
        if thread::current().id() == loops
            && let Some(place) = shared.now()
        {
            log::error(&format!("the node ended {}", words(place)));
        }
    }));
    let shared = Arc::downgrade(applying);
    let run = move || {
        let mut watch = Watch::default();
        loop {
            thread::sleep(LOOK_EVERY);
            let Some(applying) = shared.upgrade() else { return };
            if let Some(text) = watch.look(applying.now(), Instant::now()) {
                log::error(&text);
            }
        }
    };
    thread::Builder::new().name("applying".to_owned()).spawn(run).map(drop)
}

/// What the operator is told of an entry.
fn words((partition, position): (PartitionId, Position)) -> String {
    let mut text = format!("while applying entry {position} of partition {partition}");
    let _ = write!(
        text,
        "; if it happens again at every start, on all nodes, stop them all and start each with --step-over {partition}@{position} (docs/operating.md, Stepping over an entry)"
    );
    text
}

/// For how long an entry has been applied.
#[derive(Default)]
struct Watch {
    since: Option<((PartitionId, Position), Instant)>,
    is_told: bool,
}

impl Watch {
    /// One look. What is to be said.
    fn look(&mut self, place: Option<(PartitionId, Position)>, now: Instant) -> Option<String> {
        let Some(place) = place else {
            self.since = None;
            return None;
        };
        match self.since {
            Some((same, since)) if same == place => {
                let took = now.duration_since(since);
                if took < BUSY_MAX || std::mem::replace(&mut self.is_told, true) {
                    return None;
                }
                Some(format!("the node has been at it for {} s, {}", took.as_secs(), words(place)))
            }
            _ => {
                (self.since, self.is_told) = (Some((place, now)), false);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_does_not_end_is_told_once() {
        let place = |position| Some((PartitionId::default(), Position(position)));
        let (mut watch, begin) = (Watch::default(), Instant::now());
        let mut look = |place, seconds| watch.look(place, begin + Duration::from_secs(seconds));
        assert_eq!(look(place(7), 0), None);
        assert_eq!(look(place(7), 10), None);
        assert_eq!(look(place(8), 20), None, "another one");
        assert_eq!(look(place(8), 39), None);
        let text = look(place(8), 40).expect("it takes too long");
        assert!(text.contains("entry 8 of partition 0/0") && text.contains("--step-over 0/0@8"), "{text}");
        assert_eq!(look(place(8), 60), None, "once is enough");
        assert_eq!((look(None, 61), look(place(8), 62), look(place(8), 70)), (None, None, None), "it is over");
    }
}
