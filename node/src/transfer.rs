//! Snapshots from node to node: one block in flight, the next only when the receiver asks for it.
//!
//! ```text
//!   sender:    Offer ──►           Block 0 ──►           Block 1 ──►   …   Block n, ending ──►
//!   receiver:         ◄── Want 0            ◄── Want 1             …                     ◄── wait … done
//! ```
//! **The receiver drives.** It asks again for what does not come; the sender repeats only its offer, as long as it hears nothing. So
//! a lost message, a link that breaks or a pause cost some hundred milliseconds, and the transfer goes on where it was: the
//! sender keeps its view for `SNAPSHOT_HELD_FOR` without a word. A receiver that starts again has nothing, asks for block 0, and
//! the sender, which cannot go back, begins anew.
//!
//! **Nothing of it happens in a turn.** Blocks are made, decoded and written by the owner's jobs ([`jobs`]): reading and writing a
//! store may take as long as a disk does. In memory are, of each transfer: on the sender's side the block under way and the one
//! after it; on the receiver's a batch that is being written and one that is gathered.
//!
//! **What follows a snapshot is kept** ([`catching_up`]) until the receiver has it, within a bound, so that it does not need another one.
//!
//! **Nothing counts before it is whole.** With a store below, blocks go into new spaces, which nobody knows of until the last batch
//! names them together with the position: it is written after the number of records and the digest of all blocks have been
//! compared, and synced before the state is installed. Without one the state is built in memory and written to a file.

mod catching_up;
pub(crate) mod jobs;
pub(crate) mod movement;
pub(crate) mod receiving;
pub(crate) mod sending;

use std::time::Duration;

use base::Time;
use base::ordered::Space;

use crate::door::Rubbish;
use catching_up::CatchingUp;
use receiving::Reception;
use sending::Sending;

/// All transfers of one partition on this node.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    sending: Vec<Sending>,
    catching_up: Vec<CatchingUp>,
    receiving: Option<Reception>,
    /// Blocks of this sender's transfer were of no use, or could not be written: its offers are answered by "done".
    refused: Option<(base::NodeId, u64)>,
    /// The number of the last transfer that was begun here.
    last_transfer: u64,
    /// How long a silent receiver, or sender, is waited for.
    held_for: Duration,
    probes: Vec<&'static str>,
    /// What is to be freed elsewhere.
    rubbish: Vec<Rubbish>,
    /// Spaces of receptions that were given up.
    given_up: Vec<Space>,
}

impl Transfers {
    /// For a life whose transfers have numbers above those of the lives before it.
    pub(crate) fn new(boot: u64, held_for: Duration) -> Transfers {
        Transfers { last_transfer: boot.saturating_mul(1 << 20), held_for, ..Transfers::default() }
    }

    /// Nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        let left = self.probes.len() + self.rubbish.len() + self.given_up.len();
        self.sending.is_empty() && self.receiving.is_none() && left == 0
    }

    /// Rare branches reached since the last call.
    pub(crate) fn take_probes(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.probes)
    }

    /// What is to be freed elsewhere, since the last call.
    pub(crate) fn take_rubbish(&mut self) -> Vec<Rubbish> {
        std::mem::take(&mut self.rubbish)
    }

    /// Spaces of receptions that were given up since the last call.
    pub(crate) fn take_given_up(&mut self) -> Vec<Space> {
        std::mem::take(&mut self.given_up)
    }
}

/// So many bytes per second, for all transfers of a node together.
#[derive(Debug)]
pub(crate) struct Throttle {
    bytes_per_second: u64,
    /// What may be sent at `at`; below zero after a block that was larger than what was left.
    balance: i64,
    at: Time,
}

impl Throttle {
    pub(crate) fn new(bytes_per_second: u64, now: Time) -> Throttle {
        Throttle { bytes_per_second: bytes_per_second.max(1), balance: 0, at: now }
    }

    /// From now on it is so many.
    fn set(&mut self, bytes_per_second: u64) {
        self.bytes_per_second = bytes_per_second.max(1);
    }

    /// Whether something may be sent now.
    fn has_room(&mut self, now: Time) -> bool {
        // What was not used for more than a tenth of a second is forfeited: no bursts.
        let most = i64::try_from(self.bytes_per_second / 10).unwrap_or(i64::MAX).max(1);
        let earned = now.since(self.at).as_nanos().saturating_mul(u128::from(self.bytes_per_second)) / 1_000_000_000;
        if earned > 0 {
            self.at = now;
            self.balance = self.balance.saturating_add(i64::try_from(earned).unwrap_or(i64::MAX)).min(most);
        }
        self.balance > 0
    }

    /// Takes `bytes` that were sent, also where there was no room. A large block is paid for within a second: nothing stands still for longer.
    fn owe(&mut self, bytes: usize) {
        let least = -i64::try_from(self.bytes_per_second).unwrap_or(i64::MAX);
        self.balance = self.balance.saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX)).max(least);
    }

    /// Whether `bytes` may be sent now. If so they are taken.
    fn takes(&mut self, now: Time, bytes: usize) -> bool {
        let may = self.has_room(now);
        if may {
            self.owe(bytes);
        }
        may
    }
}

#[cfg(test)]
mod tests;
