//! From a folder to a running process.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use base::ordered::{OrderedRead, OrderedWrite};
use base::{NodeId, Position, Rng};
use bytes::Bytes;
use node::{Below, Config, Outbox, Planted, Recovered, RecoveredSnapshot, Restorer};
use storage::{
    CacheSettings, Identity, Journal, JournalOptions, LoadedIdentity, SnapshotId, SnapshotReader, Tail, list_snapshots,
    remove_unfinished_snapshots,
};

use super::{Death, ProcessStore, Running, ToldRoom};
use crate::clock::Clock;
use crate::disk::SimDisk;
use crate::door::Door;

/// So little is kept in memory of what walks have read that much of it is forgotten again.
const KNOWN_BYTES_MAX: u64 = 64 * 1024;
/// Stands for the cluster in identity files.
const CLUSTER: u64 = 0xd1c7;

/// What a process is started with.
#[derive(Debug)]
pub struct Start {
    /// For the node.
    pub config: Config,
    /// For the journal.
    pub journal: JournalOptions,
    /// States are in the folder's store, else in memory.
    pub uses_store: bool,
    /// What is kept in memory of the store's values, where a bucket's settings say nothing; none if nothing is.
    pub cache: Option<CacheSettings>,
    /// Its clocks.
    pub clock: Clock,
    /// The true time, in nanoseconds.
    pub now: u64,
}

/// Opens a node's folder and starts a node on it, as the server does.
///
/// # Errors
/// [`Death`]: of a disk that broke off or was full, or of something that must not be.
pub fn start<N: Door>(disk: &SimDisk, start: Start, rng: &mut Rng) -> Result<Running<N>, Death> {
    let Start { config, journal: options, uses_store, cache, clock, now } = start;
    let me = config.me;
    let failed = |what: &str, error: io::Error| {
        let text = format!("{what}: {error}");
        let arranged = disk.is_blown() || storage::disk::is_full(&error);
        if arranged { Death::Arranged(text) } else { Death::Violation(text) }
    };
    // The identity is looked at first and stored last, as in the server: one without a journal proves that the journal
    // was lost.
    let known = match Identity::load(disk) {
        Ok(LoadedIdentity::Missing) => None,
        Ok(LoadedIdentity::Found(identity)) if identity.cluster == CLUSTER && identity.name == name_of(me) => {
            Some(identity)
        }
        Ok(LoadedIdentity::Found(identity)) => {
            return Err(Death::Violation(format!("the folder belongs to {}", identity.name)));
        }
        Ok(LoadedIdentity::Damaged(reason)) => return Err(Death::Refused(reason.to_string())),
        Err(error) if disk.is_blown() => return Err(failed("identity", error)),
        Err(error) => return Err(Death::Refused(format!("the identity cannot be read: {error}"))),
    };
    let (journal, mut recovered) = Journal::open(disk.clone(), options).map_err(|error| failed("journal", error))?;
    let lost = known.is_some() && recovered.holds_nothing();
    let known = known.filter(|_| !lost);
    let incarnation = match known {
        Some(identity) => identity.incarnation,
        None => {
            let incarnation = rng.next_u64().max(1);
            let identity = Identity { cluster: CLUSTER, incarnation, name: name_of(me), opaque: Vec::new() };
            identity.store(disk).map_err(|error| failed("identity", error))?;
            incarnation
        }
    };
    let (snapshots, snapshot_damaged) = read_snapshots(disk).map_err(|error| failed("snapshot", error))?;
    if lost && (!snapshots.is_empty() || snapshot_damaged || !disk.store().spaces().is_empty()) {
        // Certainly not a new node.
        recovered.tail = Tail::Unprovable;
    }
    if config.planted == Some(Planted::TornIsDamage) && recovered.tail == Tail::Torn {
        recovered.tail = Tail::Unprovable;
    }
    let found = format!(
        "{} payloads from {}, next {}, tail {:?}, damage {:?}, snapshot {:?}{}",
        recovered.payloads.len(),
        recovered.floor,
        recovered.next_number,
        recovered.tail,
        recovered.damage,
        snapshots.iter().map(|snapshot| snapshot.position.0).collect::<Vec<_>>(),
        if snapshot_damaged { ", a newer one damaged" } else { "" }
    );
    let store = uses_store.then(|| ProcessStore::open(disk, cache, config.seed, config.planted));
    let below = store.as_ref().map(|store| below(disk, store.reader()));
    let recovered = Recovered { incarnation, journal: recovered, snapshots, snapshot_damaged, store: below };
    let mut outbox = Outbox::default();
    let node = N::start(config, recovered, clock.now(now), &mut outbox).map_err(Death::Violation)?;
    let mut spaces_dropped = 0;
    if let Some(store) = &store {
        store.assign(&node.spaces_of_partitions());
        let before = disk.store().spaces().len();
        disk.store().retain_spaces(&node.spaces()).map_err(|error| Death::Violation(error.text))?;
        spaces_dropped = before - disk.store().spaces().len();
    }
    Ok(Running {
        node,
        clock,
        started_at: now,
        inbox: Vec::new(),
        outbox,
        turn_at: None,
        wake_at: None,
        seen: BTreeMap::new(),
        council_seen: Position(0),
        changes_seen: BTreeMap::new(),
        changes_kept: BTreeMap::new(),
        held: BTreeMap::new(),
        talks: Default::default(),
        guests: Default::default(),
        stopping: false,
        found,
        store,
        journal,
        waiting: VecDeque::new(),
        committing: Vec::new(),
        is_committing: false,
        commit_began: 0,
        room: ToldRoom::default(),
        full: false,
        discard_before: None,
        snapshot: None,
        blocks: VecDeque::new(),
        password_work: VecDeque::new(),
        receptions: VecDeque::new(),
        reception_is_due: false,
        spaces_dropped,
    })
}

/// The store below a node's states.
pub(super) fn below(disk: &SimDisk, reader: Arc<dyn OrderedRead>) -> Below {
    let next_space = disk.store().spaces().last().map_or(1, |space| space.0 + 1);
    Below::new(reader, next_space).with_known_bytes_max(KNOWN_BYTES_MAX)
}

/// A node's name in the cluster: they sort like their numbers.
#[must_use]
pub fn name_of(node: NodeId) -> String {
    format!("n{}", node.0 + 1)
}

/// Of each partition the newest snapshot that can be read, and whether a newer one cannot.
pub(super) fn read_snapshots(disk: &SimDisk) -> io::Result<(Vec<RecoveredSnapshot>, bool)> {
    remove_unfinished_snapshots(disk)?;
    let mut damaged = false;
    let mut read: Vec<RecoveredSnapshot> = Vec::new();
    for id in list_snapshots(disk)?.into_iter().rev() {
        if read.iter().any(|newer| newer.partition == id.partition) {
            continue;
        }
        match restore(disk, id) {
            Ok(snapshot) => read.push(snapshot),
            Err(error) if disk.is_blown() => return Err(io::Error::other(error)),
            Err(_) => damaged = true,
        }
    }
    Ok((read, damaged))
}

fn restore(disk: &SimDisk, id: SnapshotId) -> Result<RecoveredSnapshot, String> {
    let mut reader = SnapshotReader::open(disk, id).map_err(|error| error.to_string())?;
    let mut restored = Restorer::default();
    while let Some(block) = reader.next_block().map_err(|error| error.to_string())? {
        restored.push_block(&block)?;
    }
    let header = Bytes::copy_from_slice(reader.header());
    Ok(RecoveredSnapshot { partition: id.partition, position: id.position, header, restored })
}
