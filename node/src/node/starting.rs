//! From what the disk remembered to a running node.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use base::versions::OLDEST;
use base::{Ballot, NodeId, Now, PartitionId, Position, Rng};
use paxos::{Members, Replica};

use super::pings::Pings;
use super::{Node, PING_EVERY};
use crate::StartError;
use crate::access::{AccessControl, lease};
use crate::audit::Audit;
use crate::backup::Backups;
use crate::below::{Retired, Stored};
use crate::bucket::Bucket;
use crate::burden::ClientsLimit;
use crate::clock::Clock;
use crate::comparison::Comparison;
use crate::council::{Buckets, COUNCIL};
use crate::detector::Detector;
use crate::door::{Config, DiskRoom, Level, Outbox, Planted, Recovered};
use crate::entry::Life;
use crate::errands::Errands;
use crate::foreign::RareLine;
use crate::founding::Founding;
use crate::full_sync::FullSyncs;
use crate::group::{DEFAULT_PARTITION, Group};
use crate::groups::Groups;
use crate::guesses::Guesses;
use crate::image::RestoredState;
use crate::intake::Nonsense;
use crate::journal::{self, Batch, Rebuilt};
use crate::keyring::Keyring;
use crate::large::LargeWrites;
use crate::lives::Lives;
use crate::monitor::Monitors;
use crate::newcomers::Newcomers;
use crate::outcast::Outcast;
use crate::outlived::Outlived;
use crate::pace::Quickness;
use crate::partition::Partition;
use crate::passwords::Passwords;
use crate::pause::Pauses;
use crate::planner::Leads;
use crate::pubsub::PubSub;
use crate::registry::{Map, Registry, seats_of_founders};
use crate::roll::Roll;
use crate::sessions::Sessions;
use crate::settings::ClusterSettings;
use crate::slow::Slow;
use crate::stats::Stats;
use crate::step_over::StepOver;
use crate::subscriptions::Subscriptions;
use crate::testimony::Testimony;
use crate::tracking::Tracking;
use crate::transfer::movement::Movement;
use crate::trimming::Trimming;
use crate::tunables::Tunables;
use crate::turn::flushes::Unflushed;
use crate::versions::too_old;
use crate::waiting::WaitingRoom;

/// How long a candidate waits for its majority.
const CANDIDACY: Duration = Duration::from_millis(300);
/// How long the preferred node must have been up before leadership moves back to it.
const SETTLE: Duration = Duration::from_secs(5);

/// What a replica is told once, that these have founded.
fn settings(config: &Config, partition: PartitionId, founders: Vec<NodeId>, seed: u64) -> paxos::Config {
    // Until the council says more.
    let preferred = seats_of_founders(partition, &founders).first().copied().unwrap_or_default();
    paxos::Config {
        me: config.me,
        preferred,
        joins: !founders.contains(&config.me),
        founders,
        stores_founders: false,
        seed,
        heartbeat: PING_EVERY,
        candidacy: CANDIDACY,
        settle: SETTLE,
        undecided_bytes_max: config.snapshots.undecided_bytes_max,
        asks_to_vote: false,
        planted: match config.planted {
            Some(Planted::CountUnsyncedSelf) => Some(paxos::Planted::CountUnsyncedSelf),
            Some(Planted::TruncateDecided) => Some(paxos::Planted::TruncateDecided),
            Some(Planted::AnyRound) => Some(paxos::Planted::AnyRound),
            Some(Planted::LeavesTooSoon) => Some(paxos::Planted::LeavesTooSoon),
            Some(Planted::VotersChangeAtOnce) => Some(paxos::Planted::VotersChangeAtOnce),
            _ => None,
        },
    }
}

/// The states that the store has, and those that are in snapshots still.
pub(crate) fn states(recovered: &mut Recovered) -> Result<Stored, String> {
    let mut stored = match &recovered.store {
        Some(below) => crate::below::recover(below)?,
        None => Stored::default(),
    };
    // A folder from before there was a store has them in files, until each has gone to the store.
    for snapshot in std::mem::take(&mut recovered.snapshots) {
        if let Entry::Vacant(place) = stored.states.entry(snapshot.partition) {
            place.insert(snapshot.restored.finish()?);
        }
    }
    Ok(stored)
}

impl Node {
    /// A node that remembers what `recovered` says. The first [`Outbox`] may already hold work.
    ///
    /// # Errors
    /// When the journal or the snapshot holds a format that this version does not know.
    pub fn start(config: Config, mut recovered: Recovered, now: Now, out: &mut Outbox) -> Result<Node, StartError> {
        let rng = Rng::new(config.seed);
        let Stored { mut states, dropped } = states(&mut recovered).map_err(StartError)?;
        let council = states.get(&COUNCIL).map(|state| &state.tree);
        let of_other_version = |_| StartError("the council's state is not of this version".to_owned());
        let buckets = council.map(Buckets::read).transpose().map_err(of_other_version)?.unwrap_or_default();
        let registry = council.map(Registry::read).transpose().map_err(of_other_version)?.unwrap_or_default();
        let map = council.map(Map::read).transpose().map_err(of_other_version)?.unwrap_or_default();
        if registry.version > config.newest {
            return Err(StartError(too_old(registry.version, config.newest)));
        }
        let mut roll = Roll::new(&config);
        roll.follow(&registry);
        // A state of which the journal says nothing has lost what its replica promised.
        let stored = states.keys().copied().filter(|id| *id != DEFAULT_PARTITION && *id != COUNCIL);
        let expected: Vec<PartitionId> = [DEFAULT_PARTITION, COUNCIL].into_iter().chain(stored).collect();
        let rebuilt = journal::rebuild(
            &expected,
            &recovered.journal,
            |id| states.get(&id).map(|state| (state.position, state.ballot)),
            recovered.incarnation,
            config.planted == Some(Planted::DamageIsTheEnd),
        )
        .map_err(StartError)?;
        let others = roll.ids().filter(|id| *id != config.me);
        let clients_limit = ClientsLimit::Bytes(config.clients_bytes_max);
        let tunables = Tunables {
            clients_limit,
            clients_max: config.clients_max,
            protected_mode: config.protected_mode,
            ..Tunables::default()
        };
        let boot = recovered.journal.next_number;
        let council_until = rebuilt.get(&COUNCIL).map(|council| council.restored.log.last()).unwrap_or_default();
        let process = base::checksum::xxh3(&config.seed.to_le_bytes());
        let subscriptions = Subscriptions::new(config.subscriptions, council_until, config.planted).in_process(process);
        let mut node = Node {
            now,
            clock: Clock::new(now),
            boot,
            incarnation: recovered.incarnation,
            process,
            lives: Lives::default(),
            testimony: Testimony::default(),
            persisted: boot.saturating_sub(1),
            start_is_on_disk: false,
            started: now,
            groups: Groups::default(),
            pings: Pings::default(),
            trusted: vec![false; roll.bound()],
            detectors: others.map(|id| Detector::new(id, PING_EVERY)).collect(),
            news: BTreeMap::new(),
            sessions: Sessions::default(),
            dirty: Vec::new(),
            resume: Vec::new(),
            turn_work: 0,
            apply_later: Vec::new(),
            read_bytes: 0,
            waits: Vec::new(),
            batch: Batch::default(),
            sealed: Vec::new(),
            next_number: boot,
            peers_out: vec![Vec::new(); roll.bound()],
            events: Vec::new(),
            fatal: None,
            saved_last: 0,
            disk: DiskRoom::default(),
            usual_snapshots: None,
            stopping: None,
            rng,
            stats: Stats::default(),
            slow: Slow::default(),
            quickness: Quickness::default(),
            tunables,
            carrying: "",
            idle_looked_at: base::Time(0),
            settings: ClusterSettings::default(),
            access: AccessControl::new(config.password.as_deref()),
            audit: Audit::default(),
            pubsub: PubSub::new(roll.bound()),
            tracking: Tracking::default(),
            subscriptions,
            waiting: WaitingRoom::default(),
            follows: false,
            pausing: Pauses::default(),
            large_writes: LargeWrites::default(),
            monitors: Monitors::new(),
            next_tick: now.time,
            next_ping: now.time,
            pauses: Vec::new(),
            to_close: Vec::new(),
            strangers: VecDeque::new(),
            next_relief: now.time,
            foreign_line: RareLine::default(),
            guesses: Guesses::default(),
            comparison: Comparison::default(),
            errands: Errands::default(),
            passwords: Passwords::default(),
            full_syncs: FullSyncs::default(),
            backups: Backups::default(),
            probes: BTreeMap::new(),
            unflushed: Unflushed::default(),
            snapshot_fails: false,
            installed: 0,
            untold: 0,
            movement: Movement::new(config.snapshots.bytes_per_second, now.time),
            buckets,
            registry,
            map,
            roll,
            roll_told: false,
            introduced: BTreeMap::new(),
            is_removed: false,
            outcast: Outcast::default(),
            nonsense: Nonsense::default(),
            newcomers: Newcomers::default(),
            keyring: Keyring::default(),
            tokens_made: Vec::new(),
            council_leads: Leads::default(),
            council_followed: Position(0),
            links: BTreeMap::new(),
            entries_in: OLDEST,
            zone_told: None,
            address_told: None,
            next_leaving: now.time,
            looked_last: 0,
            buckets_wait: true,
            caches_told: false,
            // The owner has configured it so.
            clients_max_told: true,
            protected_told: true,
            identity: None,
            doubtful_until: Position(0),
            next_order: now.time,
            next_settled: now.time,
            step_over: StepOver::default(),
            outlived: Outlived::default(),
            trimming: Trimming::default(),
            founding: Founding::default(),
            rubbish: Vec::new(),
            next_retirement: now.time,
            retired: dropped.into_iter().map(Retired::found).collect(),
            below: recovered.store,
            config,
        };
        if recovered.snapshot_damaged {
            node.event(
                Level::Warning,
                "the newest snapshot is damaged; what it held comes from an older one or from peers",
            );
        }
        if !recovered.journal.damage.is_empty() {
            node.event(Level::Warning, "the journal is damaged in its past; what was lost is repaired from peers");
            node.probe("node: damaged past found at start");
        }
        node.follow_version();
        // The start itself goes to the journal: it gives this life its number.
        node.batch.start();
        if let Some(council) = rebuilt.get(&COUNCIL) {
            // A journal that begins with the loss of all before it: what was promised then was promised under another incarnation.
            let forgot_in = council.forgot_in.unwrap_or(0);
            let begins_anew = |hole: &storage::Damage| hole.after == 0 && hole.before <= forgot_in;
            let is_missed = !recovered.journal.damage.iter().all(begins_anew);
            if is_missed || recovered.journal.tail == storage::Tail::Unprovable {
                node.doubtful_until = council.restored.log.last();
            }
        }
        node.begin_step_over();
        for (id, rebuilt) in rebuilt {
            if id == COUNCIL || !node.buckets.has_dropped(id.bucket) {
                let bucket = node.buckets.of(id.bucket).cloned().unwrap_or_else(|| Bucket::unknown(id.bucket));
                node.bring_back(id, bucket, true, rebuilt, states.remove(&id));
            }
        }
        node.follow_stepped_over();
        lease::begin(&mut node);
        node.end_turn(out);
        Ok(node)
    }

    /// A replica as the disk remembers it.
    pub(super) fn bring_back(
        &mut self,
        id: PartitionId,
        bucket: Bucket,
        durable: bool,
        rebuilt: Rebuilt,
        mut state: Option<RestoredState>,
    ) {
        let leaves_entries = rebuilt.leaves_entries && durable;
        let mut restored = rebuilt.restored;
        let mut given_up = Vec::new();
        if self.config.planted == Some(Planted::ForgetPromise)
            && let Some(state) = &mut restored.state
        {
            state.promised = Ballot::default();
        }
        if restored.log.hole().is_some_and(|(from, _)| state.as_ref().is_some_and(|state| from <= state.position)) {
            given_up = state.take().map(|state| state.tree.spaces()).unwrap_or_default();
        }
        let (time, me) = (self.now.time, self.config.me);
        let founders = bucket.founded_by(self.config.members.len());
        let mut settings = settings(&self.config, id, founders.clone(), self.rng.next_u64());
        settings.asks_to_vote = !durable;
        settings.stores_founders = !bucket.founders.is_empty();
        let mut outputs = Vec::new();
        let by_state = |state: &RestoredState| state.origins.members.clone();
        restored.members = state.as_ref().map(|state| by_state(state).unwrap_or_else(|| Members::founders(&founders)));
        let stored = restored.state.as_ref().and_then(|state| state.membership.as_ref());
        // A state says who votes wherever that is not known to everybody. (The bucket may be one that this node does not know yet.)
        let all = (0..self.config.members.len() as u16).map(NodeId);
        let is_special = |before: &Members| before.at == Position(0) && !before.nodes().into_iter().eq(all);
        let named = stored.map(|membership| membership.before.clone()).filter(is_special);
        let named = named.or_else(|| settings.stores_founders.then(|| Members::founders(&founders)));
        let replica = Replica::new(settings, restored, time, &mut outputs);
        let life = Life { incarnation: replica.incarnation(), boot: self.boot };
        let (planted, newest) = (self.config.planted, self.config.newest);
        let mut partition = Partition::new(id, (me, life), replica, state, rebuilt.places, (planted, newest), outputs);
        if partition.applied == Position(0) {
            partition.origins.members = named;
        }
        partition.durable = durable;
        partition.state_in = rebuilt.state_in;
        if let Some(below) = self.below.as_ref().filter(|_| durable) {
            partition.put_over(below.clone(), given_up);
        }
        let mut group =
            Group::new(partition, bucket, self.detectors.len(), (self.boot, self.config.snapshots.held_for), time);
        group.partition.store_state();
        if leaves_entries {
            self.probe("node: log behind a state that the journal does not know");
            group.partition.store_base();
        }
        group.partition.settle(&mut self.batch, &mut group.wishes);
        self.groups.insert(group);
        self.hold_before(id);
    }
}
