//! A new cluster needs all its founders once: until then nobody can know that none of them has a memory (`paxos/src/recovery.rs`). Its operator is told for whom it
//! waits, in the log, the status, the probe for readiness and the errors of commands.

use std::time::Duration;

use crate::council::COUNCIL;
use crate::door::Level;
use crate::node::{Node, place_of};

/// Founders that are started together find each other before anything is said.
const SAID_AFTER: Duration = Duration::from_secs(2);

/// What was said of it.
#[derive(Debug, Default)]
pub(crate) struct Founding {
    said: Option<String>,
}

impl Node {
    /// For whom the cluster waits before it begins; nothing once it has.
    pub(crate) fn awaits_founders(&self) -> Option<String> {
        let g = place_of(&self.groups, COUNCIL)?;
        let awaited = self.groups[g].partition.replica.founders_awaited()?;
        let names = awaited.iter().filter_map(|id| self.roll.get(*id));
        let names: Vec<String> = names.map(|it| format!("{} ({})", it.name, it.peer_address)).collect();
        let whom = if names.is_empty() { "answers of the founders".to_owned() } else { names.join(" and ") };
        Some(format!("founding: waits for {whom}: a new cluster needs all founders once"))
    }

    /// Says so when that has changed.
    pub(crate) fn tick_founding(&mut self) {
        let text = self.awaits_founders();
        if self.now.time.since(self.started.time) < SAID_AFTER || text == self.founding.said {
            return;
        }
        if let Some(text) = &text {
            self.probe("node: waits for founders");
            self.event(
                Level::Warning,
                format!("{text}. If this node has lost its folder, the others tell it so as soon as they are up"),
            );
        }
        self.founding.said = text;
    }
}
