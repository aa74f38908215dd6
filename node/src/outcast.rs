//! The end of a node that is out: the council has removed it, or one node has gone on without it (`dictum unsafe-recover`).
//!
//! A node that follows the council's log reads there that it was removed, and ends. A node that was away does not: the members tell it in answer to its messages. One
//! member that is mistaken, or is not what it seems, must not end another one with such a word. So the word counts
//! 1. if a majority of those that vote in the council say so: a node that was removed in order ends at once, as it can serve nobody;
//! 2. or if this node hears no majority of them, for [`BELIEVED_AFTER`]. A node that is out hears none, as the members do not ping it.
//!
//! One that hears a majority all the same goes on, and its operator is told: there is nothing that a living majority could have lost. It waits half a second before it
//! tells him, because the majority may be about to say the same.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{NodeId, Time};

use crate::council::COUNCIL;
use crate::door::{Level, Planted};
use crate::node::{Node, place_of};

/// How long a node without a majority is told so before it ends. A node that starts needs a while until it hears the others.
const BELIEVED_AFTER: Duration = Duration::from_secs(3);
/// A word that does not come again within this time counts no more: those who say it repeat it with each ping.
const SAID_AGAIN_WITHIN: Duration = Duration::from_secs(1);

/// If the others have not said so by then, the operator is told that one has.
const OTHERS_SAY_SO_WITHIN: Duration = Duration::from_millis(500);

/// Why a node is out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    /// The council has removed it.
    Removed,
    /// One node has gone on without all others.
    LeftBehind,
}

/// The words of others that this node is out, for each [`Reason`].
#[derive(Debug, Default)]
pub(crate) struct Outcast([Word; 2]);

#[derive(Debug, Default)]
struct Word {
    /// Since when it was said while this node heard no majority, and when it was said last.
    since: Option<Time>,
    last: Option<Time>,
    /// When each has said so last.
    said: BTreeMap<NodeId, Time>,
    /// The first node whose word was ignored, and when; true once the operator was told.
    ignored: Option<(NodeId, Time)>,
    is_told: bool,
}

/// A member says that this node is out.
pub(crate) fn on_word(node: &mut Node, by: NodeId, reason: Reason) {
    let time = node.now.time;
    let believes = match reason {
        Reason::Removed => Planted::FarewellBelieved,
        Reason::LeftBehind => Planted::LeftBehindBelieved,
    };
    node.outcast.0[reason as usize].said.insert(by, time);
    if is_said_by_most(node, reason) {
        node.probe("node: most say that this node is out");
        return match reason {
            Reason::Removed => end_as_removed(node),
            Reason::LeftBehind => end_as_left_behind(node, by),
        };
    }
    let is_ignored = has_living_majority(node) && node.config.planted != Some(believes);
    let word = &mut node.outcast.0[reason as usize];
    if is_ignored {
        word.since = None;
        word.ignored.get_or_insert((by, time));
        return;
    }
    // A word of long ago has nothing to do with this one.
    if word.last.replace(time).is_none_or(|last| time.since(last) > SAID_AGAIN_WITHIN) {
        word.since = None;
    }
    if time.since(*word.since.get_or_insert(time)) < BELIEVED_AFTER {
        return;
    }
    match reason {
        Reason::Removed => end_as_removed(node),
        Reason::LeftBehind => end_as_left_behind(node, by),
    }
}

/// Tells the operator of a word that the others have not said by now. In each turn.
pub(crate) fn tick(node: &mut Node) {
    for reason in [Reason::Removed, Reason::LeftBehind] {
        let word = &mut node.outcast.0[reason as usize];
        if let Some((by, since)) = word.ignored.filter(|_| !word.is_told)
            && node.now.time.since(since) >= OTHERS_SAY_SO_WITHIN
            && !node.is_removed
        {
            word.is_told = true;
            ignore(node, by, reason);
        }
    }
}

/// True if most of those that vote in the council have said so a moment ago.
fn is_said_by_most(node: &Node, reason: Reason) -> bool {
    let Some(g) = place_of(&node.groups, COUNCIL) else { return false };
    let (voters, time) = (node.voters_of(g), node.now.time);
    let said = &node.outcast.0[reason as usize].said;
    let says = |id: &&NodeId| said.get(id).is_some_and(|at| time.since(*at) <= SAID_AGAIN_WITHIN);
    voters.iter().filter(says).count() * 2 > voters.len()
}

fn ignore(node: &mut Node, by: NodeId, reason: Reason) {
    let by = node.name_of(by);
    let text = match reason {
        Reason::Removed => {
            node.probe("node: a word that it was removed ignored");
            format!(
                "{by} says that this node was removed from the cluster. A majority of the cluster is alive and says nothing of that, so it is ignored. Look at what runs as {by}: it is mistaken, or it is not {by}"
            )
        }
        Reason::LeftBehind => {
            node.probe("node: a claim to have been left behind ignored");
            format!(
                "{by} says that the cluster has gone on without this node (`dictum unsafe-recover`). A majority of the cluster is alive, so that is ignored: it was a copy of {by}'s folder. Stop that copy, or give it a network of its own"
            )
        }
    };
    node.event(Level::Error, text);
}

/// The council has removed this node: it ends in order, and is not to come back.
pub(crate) fn end_as_removed(node: &mut Node) {
    if !std::mem::replace(&mut node.is_removed, true) {
        node.probe("node: was removed");
        let text = "this node was removed from the cluster: it stops. Nothing in its folder is needed any more; to take part again it has to join with an empty one";
        node.event(Level::Error, text);
        node.stop();
    }
}

fn end_as_left_behind(node: &mut Node, by: NodeId) {
    if !std::mem::replace(&mut node.is_removed, true) {
        let (by, me) = (node.name_of(by), node.name_of(node.config.me));
        let text = format!(
            "the cluster has gone on without this node (`dictum unsafe-recover`, as {by} says): it stops. What only its folder holds is lost to the cluster: keep the folder as long as that matters. To take part again it has to be removed (`dictum node remove {me} --force`) and to join with an empty one"
        );
        node.event(Level::Error, text);
        node.stop();
    }
}

/// True if this node hears a majority of those that vote in the council, itself among them if it does. They need not have a leader, as far as this node knows: the copy
/// that claims to have left it behind may have taken the place of the leader's link.
fn has_living_majority(node: &Node) -> bool {
    let Some(g) = place_of(&node.groups, COUNCIL) else { return false };
    let voters = node.voters_of(g);
    let is_alive = |id: &&NodeId| {
        let is_up = node.trusted.get(usize::from(id.0)).is_some_and(|trusted| *trusted);
        **id == node.config.me || is_up && node.introduced.get(id) == Some(&true)
    };
    voters.iter().filter(is_alive).count() * 2 > voters.len()
}
