//! Nodes that have greeted this one and of which the council's registry says nothing here (yet).
//!
//! A node that follows the council's leader hears from the log who is there. It takes nobody's own word for it: whoever has a member's key could make nodes that there are
//! not, and have their addresses called. One that has followed no leader for a while may have been away for so long that it knows none of those that vote by now. It listens to whoever
//! calls it, for only they can tell.

use std::collections::BTreeMap;
use std::time::Duration;

use base::limits::NODES_EVER_MAX;
use base::{NodeId, Time};

use crate::council::COUNCIL;
use crate::door::Member;
use crate::node::{Node, place_of};
use crate::roll::Changes;

/// For so long a node hears of no leader before it believes somebody of whom it knows nothing. Elections are over sooner.
const BELIEVED_AFTER: Duration = Duration::from_secs(3);
/// Newcomers send pings much more often: if nobody has asked for so long, a leader may have come and gone.
const ASKED_AGAIN_WITHIN: Duration = Duration::from_secs(1);

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Newcomers {
    /// Those that are linked, and not believed yet. There is one for each number at the most.
    linked: BTreeMap<NodeId, Member>,
    /// Since when this node knows of no leader, and when that was last looked at.
    leaderless: Option<(Time, Time)>,
}

impl Newcomers {
    /// Whether the node has known of no leader for long.
    fn are_needed(&mut self, has_leader: bool, now: Time) -> bool {
        let since = self.leaderless.filter(|(_, last)| now.since(*last) <= ASKED_AGAIN_WITHIN);
        let since = since.map_or(now, |(since, _)| since);
        self.leaderless = (!has_leader).then_some((since, now));
        !has_leader && now.since(since) >= BELIEVED_AFTER
    }
}

/// Somebody has greeted this node whom it does not know.
pub(crate) fn on_met(node: &mut Node, id: NodeId, member: Member) {
    if id.0 < NODES_EVER_MAX {
        node.newcomers.linked.insert(id, member);
        believe(node, id);
    }
}

/// Its link has ended.
pub(crate) fn on_down(node: &mut Node, id: NodeId) {
    node.newcomers.linked.remove(&id);
}

/// Takes a newcomer for a node of the cluster, unless this node hears from others who is. Returns whether it does.
pub(crate) fn believe(node: &mut Node, id: NodeId) -> bool {
    let is_out = node.registry.removed.contains(&id) || node.registry.left_behind(id);
    if is_out || !node.newcomers.linked.contains_key(&id) {
        return false;
    }
    let has_leader = place_of(&node.groups, COUNCIL).is_some_and(|g| node.leader_of(g).is_some());
    if !node.newcomers.are_needed(has_leader, node.now.time) {
        node.probe("node: an unknown node not taken at its word");
        return false;
    }
    let Some(member) = node.newcomers.linked.remove(&id) else { return false };
    if node.roll.meet(id, member) {
        node.probe("node: met an unknown node");
        node.roll_told = false;
        node.carry_out_changes(Changes { came: vec![id], ..Changes::default() });
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newcomers_are_needed_where_no_leader_is_known_for_long() {
        let mut newcomers = Newcomers::default();
        let mut ask =
            |ms: u64, has_leader| newcomers.are_needed(has_leader, Time::default() + Duration::from_millis(ms));
        for ms in (0..3000).step_by(500) {
            assert!(!ask(ms, false), "{ms}");
        }
        assert!(ask(3000, false) && !ask(3500, true) && !ask(4000, false));
        assert!(!ask(6000, false), "nobody has asked in between");
        for ms in (6500..9000).step_by(500) {
            assert!(!ask(ms, false), "{ms}");
        }
        assert!(ask(9000, false));
    }
}
