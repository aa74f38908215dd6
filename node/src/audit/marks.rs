//! Tells the council how far this node has signed its audit trail, so that other nodes have it in theirs.

use base::Time;
use base::versions::Feature;
use bytes::Bytes;

use super::{AuditEvent, shown};
use crate::council::{COUNCIL, Order};
use crate::entry::Kind;
use crate::node::{Node, place_of};
use crate::planted::Planted;
use crate::registry::{Change, Registry, TrailMark};
use crate::router::Waiter;

/// The mark that the owner has told last, and when the council was told one.
#[derive(Debug, Default)]
pub(super) struct Marks {
    own: Option<TrailMark>,
    told_at: Option<Time>,
}

/// The owner has signed the trail up to here, and synced it.
pub(crate) fn signed(node: &mut Node, mark: TrailMark) {
    node.audit.marks.own = Some(mark);
}

/// Tells the council, where it has another mark; said again until it is so.
pub(super) fn tell(node: &mut Node) {
    let (me, time) = (node.config.me, node.now.time);
    let Some(mark) = node.audit.marks.own else { return };
    let waits = node.audit.marks.told_at.is_some_and(|told| time.since(told) < node.config.trail_told_every);
    if waits || node.registry.trails.of(me) == Some(mark) || !node.has(Feature::TrailMarks) || !node.is_known() {
        return;
    }
    if node.config.planted == Some(Planted::TrailUntold) && node.audit.marks.told_at.is_some() {
        return;
    }
    let Some(g) = place_of(&node.groups, COUNCIL) else { return };
    node.probe("audit: told how far the trail is signed");
    node.audit.marks.told_at = Some(time);
    let order = Order::Nodes(Change::Trail { node: me, mark });
    let deadline = time + node.config.request_timeout;
    node.groups[g].router.write(Kind::Council, Bytes::from(order.encode()), Waiter::Nobody, time, deadline);
}

/// Marks of other nodes that this node has not recorded yet. Its own stands in its trail already.
pub(super) fn news(node: &Node, registry: &Registry) -> Vec<AuditEvent> {
    let is_news = |(of, mark): &(_, TrailMark)| *of != node.config.me && node.registry.trails.of(*of) != Some(*mark);
    // A node that has joined a moment ago is not among those that this node knows yet.
    let joined = |of| registry.joined.iter().find(|joined| joined.id == of).map(|joined| joined.member.name.clone());
    let name = |of| joined(of).unwrap_or_else(|| node.name_of(of));
    let event = |(of, mark)| AuditEvent::TrailNoted { of: shown::bytes(name(of).as_bytes()), mark };
    registry.trails.all().filter(is_news).map(event).collect()
}
