//! This node's own key, as far as the council is to know it.

use bytes::Bytes;

use base::Time;
use base::versions::Feature;

use crate::council::{COUNCIL, Order};
use crate::door::Level;
use crate::entry::Kind;
use crate::node::{Node, place_of};
use crate::planner::ORDER_AGAIN_AFTER;
use crate::planted::Planted;
use crate::registry::Change;
use crate::registry::keys::KeyChange;
use crate::router::Waiter;

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Keyring {
    /// When the council was told.
    told_at: Option<Time>,
    /// The operator was told that the council has another key.
    is_strange: bool,
}

/// Tells the council which key this node has, where its registry has none. Said again until it is so.
pub(crate) fn tell(node: &mut Node) {
    let (me, time) = (node.config.me, node.now.time);
    let Some(key) = node.config.key else { return };
    let known = node.registry.keys.of(me);
    if known.contains(&key) {
        node.keyring.is_strange = false;
        return;
    }
    if !known.is_empty() {
        if !std::mem::replace(&mut node.keyring.is_strange, true) {
            let name = node.name_of(me);
            let text = format!(
                "the cluster knows {name} by another key than it has: no node makes a link with it. If its key was lost with its folder, say `dictum node forget-keys {name}`"
            );
            node.event(Level::Error, text);
        }
        return;
    }
    if node.config.planted == Some(Planted::KeyUntold) && node.keyring.told_at.is_some() {
        return;
    }
    let waits = node.keyring.told_at.is_some_and(|told| time.since(told) < ORDER_AGAIN_AFTER);
    if waits || !node.has(Feature::NodeKeys) || !node.is_known() {
        return;
    }
    let Some(g) = place_of(&node.groups, COUNCIL) else { return };
    node.probe("node: told which key it has");
    node.keyring.told_at = Some(time);
    let order = Order::Nodes(Change::Key { node: me, change: KeyChange::Tell(key) });
    let deadline = time + node.config.request_timeout;
    node.groups[g].router.write(Kind::Council, Bytes::from(order.encode()), Waiter::Nobody, time, deadline);
}
