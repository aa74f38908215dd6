//! What a dropped bucket leaves behind, on the disks of a node that may end at any moment.

use std::sync::Arc;
use std::time::Duration;

use base::{Now, Position, Time, WallTime};
use bytes::Bytes;
use node::{Below, ConnectionId, Input, Listener, Node, Outbox, Recovered, SnapshotContent};
use storage::memory::MemoryStore;

const CLIENT: ConnectionId = ConnectionId(1);

/// A node with a store, and both of its disks.
struct Alone {
    node: Node,
    now: Now,
    store: Arc<MemoryStore>,
    /// What is on disk of the journal, and what is on its way.
    journal: Vec<(u64, Bytes)>,
    written: Vec<(u64, Bytes)>,
    heard: String,
    /// Something of a partition that is gone was removed from the store.
    has_removed: bool,
}

fn start(journal: &[(u64, Bytes)], store: &Arc<MemoryStore>, now: Now, out: &mut Outbox) -> Node {
    let mut recovered = crate::common::blank(100);
    recovered.journal.fresh = journal.is_empty();
    recovered.journal.next_number = journal.last().map_or(1, |(number, _)| number + 1);
    recovered.journal.payloads = journal.to_vec();
    let next_space = store.spaces().last().map_or(1, |space| space.0 + 1);
    let store = Some(Below::new(Arc::<MemoryStore>::clone(store), next_space));
    Node::start(crate::common::config(1, 0), Recovered { store, ..recovered }, now, out).expect("it starts")
}

impl Alone {
    fn new() -> Alone {
        let now = Now { time: Time(0), wall: WallTime(1_700_000_000_000) };
        let (store, mut out) = (Arc::new(MemoryStore::new()), Outbox::default());
        let node = start(&[], &store, now, &mut out);
        let (journal, written, heard) = (Vec::new(), Vec::new(), String::new());
        let mut alone = Alone { node, now, store, journal, written, heard, has_removed: false };
        alone.carry_out(out);
        let (address, local_address) = (String::new(), String::new());
        alone.give(Input::Opened { connection: CLIENT, address, local_address, listener: Listener::Forwards });
        alone
    }

    fn give(&mut self, input: Input<'_>) {
        let mut out = Outbox::default();
        self.node.step(self.now, input, &mut out);
        self.node.step(self.now, Input::EndTurn, &mut out);
        self.carry_out(out);
    }

    /// The store is quick, and takes everything at once; the journal takes what it is told to.
    fn carry_out(&mut self, out: Outbox) {
        for (_, bytes) in &out.clients {
            self.heard += &String::from_utf8_lossy(bytes);
        }
        self.written.extend(out.journal.into_iter().map(|write| (write.number, write.payload)));
        if let Some(job) = out.save_snapshot {
            let SnapshotContent::Store(flush) = job.content else { panic!("there is a store") };
            self.store.apply(&flush.into_batch().expect("it can be read")).expect("it has room");
            self.store.sync().expect("it does");
            self.has_removed |= job.position == Position(0);
            self.give(Input::SnapshotSaved { partition: job.partition, position: job.position });
        }
    }

    /// So many payloads get to the disk, the oldest first.
    fn commit(&mut self, count: usize) {
        let count = count.min(self.written.len());
        self.journal.extend(self.written.drain(..count));
        if count > 0
            && let Some((number, _)) = self.journal.last()
        {
            let number = *number;
            self.give(Input::Persisted { number });
        }
    }

    fn pass(&mut self) {
        self.now.time = self.now.time + Duration::from_millis(5);
        self.give(Input::EndTurn);
    }

    fn ask(&mut self, line: &str) -> String {
        self.heard.clear();
        self.give(Input::Received { connection: CLIENT, bytes: format!("{line}\r\n").as_bytes() });
        for _ in 0..2000 {
            if !self.heard.is_empty() {
                return std::mem::take(&mut self.heard);
            }
            self.commit(usize::MAX);
            self.pass();
        }
        panic!("no answer to {line}");
    }
}

/// A replica that has promised, and whose state is gone, would vote as if it had never had one: whatever the disk has of the state may go when it is known there that
/// the bucket was dropped.
#[test]
fn the_state_goes_when_the_disk_knows_that_the_bucket_is_gone() {
    let mut alone = Alone::new();
    for line in ["DICTUM.BUCKET CREATE users", "SELECT users", "SET k 1", "BGSAVE"] {
        assert!(alone.ask(line).starts_with('+'));
    }
    for _ in 0..10 {
        alone.pass();
        alone.commit(usize::MAX);
    }
    alone.give(Input::Received { connection: CLIENT, bytes: b"DICTUM.BUCKET DROP users CONFIRM\r\n" });
    for _ in 0..100 {
        alone.pass();
        if alone.has_removed {
            break;
        }
        alone.commit(1);
    }
    assert!(alone.has_removed && !alone.heard.is_empty());
    // It ends here, and starts with what is on its disks.
    let again = start(&alone.journal, &alone.store, alone.now, &mut Outbox::default());
    let replicas = again.portrait();
    assert!(!replicas.iter().any(|replica| replica.starts_with("1/0:")), "what it had is not there: {replicas:#?}");
}
