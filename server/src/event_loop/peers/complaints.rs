//! Warnings about links in the log: attempts repeat twice a second, and strangers can have any number of addresses.

use std::collections::BTreeMap;
use std::time::Duration;

use base::Time;

use super::Peers;
use crate::log;

/// Most texts of a kind that are remembered, so that each is logged once.
const REMEMBERED_MAX: usize = 64;
/// After this long the same complaint is logged again.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// The warnings that were logged lately, and when. Those about strangers are apart, so that no stranger keeps one about a node of the cluster out of the log.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    of_peers: BTreeMap<String, Time>,
    of_strangers: BTreeMap<String, Time>,
}

impl Complaints {
    /// A link is up: the next failure of any is news.
    pub(super) fn forget_peers(&mut self) {
        self.of_peers.clear();
    }

    #[cfg(test)]
    pub(super) fn keys(&self) -> impl Iterator<Item = &String> {
        self.of_peers.keys().chain(self.of_strangers.keys())
    }
}

impl Peers {
    /// Logs a warning about a node of the cluster, unless the same was logged lately.
    pub(super) fn complain(&mut self, now: Time, text: String) {
        let said = &mut self.complaints.of_peers;
        if said.get(&text).is_some_and(|at| now.since(*at) < AGAIN_AFTER) {
            return;
        }
        if said.len() >= REMEMBERED_MAX {
            said.clear();
        }
        log::warning(&text);
        said.insert(text, now);
    }

    /// Logs a warning about a caller that is none, unless the same was logged lately, and no more of them than so many in a minute.
    pub(super) fn complain_of_stranger(&mut self, now: Time, text: String) {
        let said = &mut self.complaints.of_strangers;
        let is_lately = |at: &Time| now.since(*at) < AGAIN_AFTER;
        if said.get(&text).is_some_and(is_lately) {
            return;
        }
        if said.len() >= REMEMBERED_MAX {
            said.retain(|_, at| is_lately(at));
        }
        if said.len() > REMEMBERED_MAX {
            return;
        }
        let is_last = said.len() == REMEMBERED_MAX;
        log::warning(if is_last { "more callers are refused than are logged in a minute" } else { &text });
        said.insert(text, now);
    }

    pub(super) fn complain_refused(&mut self, place: usize, reason: &str, now: Time) {
        if let Some(link) = &self.links[place] {
            let text = format!("refused to talk to {}: {reason}", link.remote.ip());
            self.complain_of_stranger(now, text);
        }
    }
}
