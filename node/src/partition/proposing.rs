//! From a write to an entry of the log.

use base::{Time, WallTime};
use paxos::Input;

use super::Partition;
use crate::clock::TOLERATED;
use crate::entry::{Header, Kind, Origin};

impl Partition {
    /// Proposes a write. False when this replica does not take it now.
    pub(crate) fn propose(
        &mut self,
        now: Time,
        clock: WallTime,
        seed: u64,
        kind: Kind,
        (version, origin): (u16, Origin),
        body: &[u8],
    ) -> bool {
        if !self.replica.can_propose() {
            return false;
        }
        // An expiry carries the clock by which a read found a key's time to be up.
        let asked = match (kind, <[u8; 8]>::try_from(body)) {
            (Kind::Expire, Ok(bytes)) => WallTime(u64::from_le_bytes(bytes)),
            _ => clock,
        };
        // No read has found more to be over than what the leaders' clocks have come to.
        let later = WallTime(clock.0.saturating_add(2 * TOLERATED.as_millis() as u64));
        let asked = asked.min(if self.brings_back { clock } else { later.max(self.tree.time()) });
        self.brings_back |= kind == Kind::Time;
        let reached = if self.brings_back { WallTime::default() } else { self.tree.time() };
        let proposed = if kind == Kind::Time { WallTime::default() } else { self.proposed_time.max(reached) };
        self.proposed_time = proposed.max(clock).max(asked);
        let header = Header { version, kind, time: self.proposed_time, seed, origin };
        let payload = crate::entry::encode(&header, body);
        self.proposed_bytes += payload.len();
        self.replica.step(now, Input::Propose { payload }, &mut self.outputs);
        true
    }
}
