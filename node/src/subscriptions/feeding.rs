//! The node's part in feeds of changes ([`super::feeds`]): it finds nodes that have a state, and carries questions and answers.

use std::collections::BTreeSet;

use base::versions::Feature;
use base::{NodeId, PartitionId, Revision};

use super::feeds::{Answer, Question, Stamped, Taken};
use super::filter::Filter;
use super::frames::Reason;
use super::pages::PageQuestion;
use super::walk::Page;
use super::{glue, pages};
use crate::node::{Node, place_of};
use crate::peer::PeerMessage;

/// A tick: asks for the changes of partitions of which this node has no state, where somebody wants to be told them.
pub(super) fn tick(node: &mut Node) {
    node.subscriptions.feeds.is_on = node.has(Feature::FedChanges);
    let mut wanted = BTreeSet::new();
    if node.subscriptions.feeds.is_on {
        let is_elsewhere = |partition: &PartitionId| {
            place_of(&node.groups, *partition).is_some_and(|g| node.groups[g].elsewhere.is_some())
        };
        wanted = node.subscriptions.partitions().filter(is_elsewhere).collect();
    }
    for partition in node.subscriptions.due(node.now.time, &wanted) {
        let Some(g) = place_of(&node.groups, partition) else { continue };
        let sources = sources(node, g);
        if let Some(question) = node.subscriptions.question(partition, &sources) {
            ask(node, question);
        }
    }
}

/// The nodes that may have a state of a partition.
fn sources(node: &Node, g: usize) -> Vec<NodeId> {
    let mut voters = node.voters_of(g);
    voters.retain(|voter| *voter != node.config.me && node.is_up(*voter));
    voters
}

fn ask(node: &mut Node, question: Question) {
    let Question { to, partition, feed, after } = question;
    node.probe("subscriptions: changes asked of another node");
    node.send(to, &PeerMessage::FollowChanges { partition, feed, after });
}

/// A node without a state wants to be told what changes.
pub(crate) fn on_follow(node: &mut Node, g: usize, (peer, feed): (NodeId, u64), after: Revision) {
    // One that does not hear the leader says nothing, so that the other looks elsewhere.
    let hears = node.leader_of(g).is_some_and(|(leader, _)| leader == node.config.me || node.is_up(leader));
    if node.groups[g].elsewhere.is_none() && hears {
        let (partition, now) = (node.groups[g].id(), node.now.time);
        glue::begin(node, g);
        node.subscriptions.feeds.ask(partition, (peer, feed), after, now);
    }
}

/// The source has told what has changed.
pub(crate) fn on_fed(node: &mut Node, g: usize, (from, feed): (NodeId, u64), after: Revision, records: Vec<Stamped>) {
    if node.groups[g].elsewhere.is_none() {
        return;
    }
    let partition = node.groups[g].id();
    node.subscriptions.now = node.now.time;
    let (taken, question) = node.subscriptions.take_fed((from, partition, feed), after, records);
    match taken {
        Taken::No => node.probe("subscriptions: a feed that nobody waits for"),
        Taken::Yes => node.probe("subscriptions: changes told by another node"),
        Taken::Anew => {
            node.untold += 1;
            node.probe("subscriptions: a feed has begun anew");
        }
    }
    if let Some(question) = question {
        ask(node, question);
    }
}

/// The end of a turn: tells those who follow.
pub(super) fn tell(node: &mut Node) {
    if !node.subscriptions.feeds.goes_on() {
        return;
    }
    for Answer { to, partition, feed, after, records } in node.subscriptions.answers() {
        node.send(to, &PeerMessage::FedChanges { partition, feed, after, records });
    }
}

/// The link to a node is gone.
pub(crate) fn on_peer_down(node: &mut Node, peer: NodeId) {
    node.subscriptions.feeds.on_peer_down(peer);
}

/// True if others tell this node the changes of a partition, of which it has no state that answers: what it applies itself is behind them.
pub(super) fn is_told_by_others(node: &Node, g: usize) -> bool {
    let group = &node.groups[g];
    group.elsewhere.is_some() && node.subscriptions.feeds.is_following(group.id())
}

/// This node has a state again, and tells its changes from here on.
pub(crate) fn came_home(node: &mut Node, g: usize) {
    let (partition, revision) = (node.groups[g].id(), node.groups[g].partition.tree.revision());
    node.subscriptions.stop_following(partition);
    if node.subscriptions.rings.head(partition).is_some_and(|head| head < revision) {
        node.subscriptions.unrecorded(partition);
    }
    glue::begin(node, g);
}

/// The state that this node had was not that of the others: what was told of it says nothing of theirs.
pub(crate) fn state_was_wrong(node: &mut Node, g: usize) {
    node.subscriptions.end_partition(node.groups[g].id(), Reason::Moved);
}

/// A node without a state wants stored keys.
pub(crate) fn on_page_wanted(node: &mut Node, g: usize, peer: NodeId, question: PageQuestion) {
    let partition = node.groups[g].id();
    if node.groups[g].elsewhere.is_some() || !pages::may_be(&question.filter) {
        return;
    }
    let now = node.now.time;
    if !node.subscriptions.feeds.pages.want((peer, partition, question), now) {
        node.probe("subscriptions: too many wait for stored keys");
    }
}

/// Another node has told stored keys.
pub(crate) fn on_page(node: &mut Node, g: usize, ticket: u64, page: Page) {
    let partition = node.groups[g].id();
    if node.subscriptions.take_page(partition, ticket, page) {
        node.probe("subscriptions: stored keys told by another node");
    }
}

/// Sends questions for stored keys, and answers to such.
pub(super) fn send_pages(node: &mut Node) {
    for (to, partition, question) in node.subscriptions.feeds.pages.take_questions() {
        node.send(to, &PeerMessage::WantPage { partition, question: Box::new(question) });
    }
    for (to, partition, ticket, page) in node.subscriptions.feeds.pages.take_answers() {
        node.send(to, &PeerMessage::Page { partition, ticket, page: Box::new(page) });
    }
}

/// True if a subscription of this node may begin in a partition of which the node has no state.
pub(super) fn may_begin(node: &mut Node, needs_state: Option<&Filter>) -> bool {
    node.subscriptions.feeds.is_on = node.has(Feature::FedChanges);
    node.subscriptions.feeds.is_on && needs_state.is_none_or(pages::may_be)
}
