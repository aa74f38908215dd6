//! What is due when: a queue of events, first by time, then in the order in which they were put in.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use base::NodeId;
use bytes::Bytes;

use crate::cluster::{DoubleEvent, Stage};

/// Something that is due.
#[derive(Clone, Debug)]
pub enum Event {
    /// A node takes what has arrived. The second number is the process's life, here and below: events for an
    /// earlier life are out of date.
    Turn(NodeId, u64),
    /// A node wanted to be woken.
    Wake(NodeId, u64),
    /// The commit under way is over.
    Commit(NodeId, u64),
    /// The next part of a snapshot is written.
    SnapshotPart(NodeId, u64),
    /// A block of a snapshot for a peer is made.
    BlockMade(NodeId, u64),
    /// A password was tried.
    PasswordTried(NodeId, u64),
    /// The next part of what blocks from a peer need is done.
    ReceptionPart(NodeId, u64),
    /// The operator looks what became of what was asked for.
    Operator,
    /// The operators look by which keys nodes are known.
    Keys,
    /// The next stage of stepping over the entry of this number.
    Stepping(u64, Stage),
    /// Something happens to the second process of this number.
    Double(u64, DoubleEvent),
    /// A process is started.
    Start(NodeId),
    /// A process that stood still goes on.
    Resume(NodeId),
    /// The owner of a node whose loop is at one long piece of work tells the others that the node lives.
    SignOfLife(NodeId),
    /// Somebody tries to put a link up.
    TryLink(NodeId, NodeId),
    /// A node (the first) notices that its link to another is gone.
    LinkDown(NodeId, NodeId),
    /// A message arrives: from, to, generation of the link.
    Message(NodeId, NodeId, u64, Bytes),
    /// One cut of one direction ends.
    Mend(NodeId, NodeId),
    /// A folder that was away comes back.
    FolderBack(NodeId),
    /// A disk below its low mark fills up.
    DiskFills(NodeId),
    /// A node is told how much room its disk has by now.
    Room(NodeId),
    /// A disk has room again.
    RoomAgain(NodeId),
    /// A planned fault, by its number.
    Fault(u32),
    /// A client's timer.
    ClientWake(usize, u64),
    /// A client's wish for a connection reaches a node: client, connection, node.
    Connect(usize, u64, NodeId),
    /// A client hears that its connection stands.
    Connected(usize, u64),
    /// A client hears that its connection is gone.
    ConnectionClosed(usize, u64),
    /// A client's bytes reach the node.
    ToNode(u64, Bytes),
    /// A node's bytes reach the client.
    ToClient(u64, Bytes),
    /// The client of a connection that did not read reads again.
    ReadsAgain(u64),
    /// A node hears that a client is gone.
    ClientGone(u64),
}

#[derive(Debug)]
struct Due {
    at: u64,
    number: u64,
    event: Event,
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> Ordering {
        // The queue gives the greatest first; the earliest is wanted.
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

/// The queue.
#[derive(Debug, Default)]
pub struct Queue {
    due: BinaryHeap<Due>,
    next_number: u64,
}

impl Queue {
    /// Puts an event in.
    pub fn push(&mut self, at: u64, event: Event) {
        self.next_number += 1;
        self.due.push(Due { at, number: self.next_number, event });
    }

    /// When the next event is due.
    #[must_use]
    pub fn next_at(&self) -> Option<u64> {
        self.due.peek().map(|due| due.at)
    }

    /// Takes the next event out.
    pub fn pop(&mut self) -> Option<(u64, Event)> {
        self.due.pop().map(|due| (due.at, due.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_in_order() {
        let mut queue = Queue::default();
        for (at, node) in [(5, 1), (3, 2), (5, 3), (3, 4)] {
            queue.push(at, Event::Start(NodeId(node)));
        }
        let mut order = Vec::new();
        while let Some((at, Event::Start(node))) = queue.pop() {
            order.push((at, node.0));
        }
        assert_eq!(order, [(3, 2), (3, 4), (5, 1), (5, 3)]);
    }
}
