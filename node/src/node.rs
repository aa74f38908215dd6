//! The node: its state, and the one function that changes it.
//!
//! Inputs only take note of what happened; the work of a turn is done once, at its end ([`crate::turn`]), for everything that
//! arrived in it.

pub(crate) mod buckets;
mod leaving;
mod membership;
pub(crate) mod memories;
mod moving;
mod peers;
mod pings;
mod starting;

pub(crate) use starting::states;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use base::ordered::Space;
use base::{Ballot, NodeId, Now, PartitionId, Position, Rng, Time};
use paxos::{Input as Step, RoleName};

use crate::access::{self, AccessControl};
use crate::audit::{self, Audit};
use crate::backup::Backups;
use crate::below::{Below, Retired};
use crate::bucket::BucketKind;
use crate::clock::Clock;
use crate::comparison::Comparison;
use crate::council::Buckets;
use crate::detector::{Detector, PAUSE_ACCEPTED};
use crate::door::{
    Config, ConnectionId, DiskRoom, Input, JournalWrite, Level, LinkTerms, Listener, LogLine, Outbox, Rubbish,
    SnapshotSettings,
};
use crate::errands::Errands;
use crate::foreign::RareLine;
use crate::founding::Founding;
use crate::full_sync::{self, FullSyncs};
use crate::group::{DEFAULT_PARTITION, Group};
use crate::groups::Groups;
use crate::guesses::Guesses;
use crate::intake::Nonsense;
use crate::journal::Batch;
use crate::keyring::Keyring;
use crate::large::LargeWrites;
use crate::lives::Lives;
use crate::monitor::Monitors;
use crate::newcomers::{self, Newcomers};
use crate::outcast::Outcast;
use crate::outlived::Outlived;
use crate::pace::Quickness;
use crate::passwords::{self, Passwords};
use crate::pause::Pauses;
use crate::peer::{PartitionNews, Ping};
use crate::planner::Leads;
use crate::probes::PROBES;
use crate::pubsub::PubSub;
use crate::registry::{Map, Registry};
use crate::roll::Roll;
use crate::session::Session;
use crate::sessions::Sessions;
use crate::settings::ClusterSettings;
use crate::slow::Slow;
use crate::stats::Stats;
use crate::step_over::StepOver;
use crate::subscriptions::Subscriptions;
use crate::testimony::Testimony;
use crate::tracking::Tracking;
use crate::transfer::movement::{Felt, Movement};
use crate::trimming::Trimming;
use crate::tunables::Tunables;
use crate::turn::flushes::Unflushed;
use crate::waiting::WaitingRoom;
use crate::{CacheNews, Progress, Voters};
use pings::Pings;

/// How often a node says that it lives.
pub(crate) const PING_EVERY: std::time::Duration = std::time::Duration::from_millis(50);
/// How often timers are looked at.
pub(crate) const TICK_EVERY: std::time::Duration = std::time::Duration::from_millis(10);
/// A node that was given nothing to do for so long, not even a tick, has stood still. For less, peers have the time anyway.
const STANDSTILL: std::time::Duration = PAUSE_ACCEPTED;
/// How far a stop has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stopping {
    /// Leadership is being handed over; clients are still served.
    HandingOver {
        until: Time,
    },
    /// No new commands; what was taken is being answered.
    Draining {
        until: Time,
    },
    Stopped,
}

/// A node: plain state, changed only by [`Node::step`].
#[derive(Debug)]
pub struct Node {
    pub(crate) config: Config,
    /// The timers' clock, and the cluster's time.
    pub(crate) now: Now,
    pub(crate) clock: Clock,
    /// The number of this start: of the journal's payload that records it.
    pub(crate) boot: u64,
    /// The folder's incarnation.
    pub(crate) incarnation: u64,
    /// Tells this process from others of the same folder.
    pub(crate) process: u64,
    /// What is known of all nodes' folders.
    pub(crate) lives: Lives,
    /// Claims about folders that other nodes tell, and the signed ones.
    pub(crate) testimony: Testimony,
    /// Up to this number the journal is on disk.
    pub(crate) persisted: u64,
    /// The record that gives this life its number is on disk.
    pub(crate) start_is_on_disk: bool,
    pub(crate) started: Now,
    /// A place in here is good for one turn: groups come and go.
    pub(crate) groups: Groups,
    pub(crate) movement: Movement,
    pub(crate) detectors: Vec<Detector>,
    /// By node: whether the groups were last told that it is up.
    pub(crate) trusted: Vec<bool>,
    /// What each member has said of itself; and what this one has said.
    pub(crate) news: BTreeMap<NodeId, Ping>,
    pub(crate) pings: Pings,
    pub(crate) sessions: Sessions,
    pub(crate) dirty: Vec<ConnectionId>,
    /// Connections that may go on with their backlog.
    pub(crate) resume: Vec<ConnectionId>,
    /// Units of work that entries have cost in this turn, and the partitions in which more of them wait for the next one.
    pub(crate) turn_work: u64,
    pub(crate) apply_later: Vec<PartitionId>,
    /// Bytes of answers to reads in this turn.
    pub(crate) read_bytes: usize,
    /// Connections that are blocked by WAIT.
    pub(crate) waits: Vec<ConnectionId>,
    pub(crate) batch: Batch,
    pub(crate) next_number: u64,
    /// Payloads of this turn that are whole.
    pub(crate) sealed: Vec<JournalWrite>,
    pub(crate) peers_out: Vec<Vec<u8>>,
    pub(crate) events: Vec<LogLine>,
    pub(crate) fatal: Option<String>,
    /// What partitions hold that the store below does not have, all together.
    pub(crate) unflushed: Unflushed,
    /// The group whose snapshot was written last.
    pub(crate) saved_last: usize,
    pub(crate) disk: DiskRoom,
    /// What the settings say of flushes, and of the log before one, where there is room.
    pub(crate) usual_snapshots: Option<(SnapshotSettings, u64)>,
    pub(crate) stopping: Option<Stopping>,
    pub(crate) rng: Rng,
    pub(crate) stats: Stats,
    pub(crate) slow: Slow,
    pub(crate) quickness: Quickness,
    pub(crate) tunables: Tunables,
    /// The command that is being carried out, as in the table; empty: it is not known yet.
    pub(crate) carrying: &'static str,
    /// When idle connections were looked for.
    pub(crate) idle_looked_at: Time,
    /// The cluster's settings, as far as this node follows the council's log.
    pub(crate) settings: ClusterSettings,
    /// Users, and what they may do.
    pub(crate) access: AccessControl,
    pub(crate) audit: Audit,
    pub(crate) pubsub: PubSub,
    pub(crate) tracking: Tracking,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) waiting: WaitingRoom,
    /// It is fed what changes in partitions of which it has no state, or has asked for that.
    pub(crate) follows: bool,
    pub(crate) pausing: Pauses,
    pub(crate) large_writes: LargeWrites,
    pub(crate) monitors: Monitors,
    pub(crate) next_tick: Time,
    pub(crate) next_ping: Time,
    /// The last attempt to bring a state to disk has failed.
    pub(crate) snapshot_fails: bool,
    /// How many snapshots of peers became states: entries before them were not applied here one by one.
    pub(crate) installed: u64,
    /// How often it may be that what changed in a partition was told to this node's clients in part only, since they are told by another node now.
    pub(crate) untold: u64,
    pub(crate) pauses: Vec<(ConnectionId, bool)>,
    pub(crate) to_close: Vec<ConnectionId>,
    /// Clients that have not shown who they are when they came, and when their time is up, in order.
    pub(crate) strangers: VecDeque<(Time, ConnectionId)>,
    /// When it is looked again how much clients hold.
    pub(crate) next_relief: Time,
    /// When a connection was last logged that speaks another protocol.
    pub(crate) foreign_line: RareLine,
    pub(crate) guesses: Guesses,
    /// How replicas compare their states.
    pub(crate) comparison: Comparison,
    pub(crate) errands: Errands,
    pub(crate) passwords: Passwords,
    pub(crate) full_syncs: FullSyncs,
    pub(crate) backups: Backups,
    pub(crate) probes: BTreeMap<&'static str, u64>,
    /// The council's list as this node has applied it, and up to where.
    pub(crate) buckets: Buckets,
    /// The council's registry of nodes, as far as this node has applied it; and the map.
    pub(crate) registry: Registry,
    pub(crate) map: Map,
    /// Who is there.
    pub(crate) roll: Roll,
    /// The owner has been told of it.
    pub(crate) roll_told: bool,
    /// Peers that have said on this link which cluster they are of, and whether it is this one.
    pub(crate) introduced: BTreeMap<NodeId, bool>,
    /// This node was removed from the cluster.
    pub(crate) is_removed: bool,
    pub(crate) outcast: Outcast,
    pub(crate) nonsense: Nonsense,
    pub(crate) newcomers: Newcomers,
    pub(crate) keyring: Keyring,
    /// Tokens that clients get when it is decided that these let nodes join.
    pub(crate) tokens_made: Vec<(ConnectionId, u64, String)>,
    /// What only the council's leader needs.
    pub(crate) council_leads: Leads,
    pub(crate) council_followed: Position,
    /// The terms of the last link to each node, of those to which there was one since the start.
    pub(crate) links: BTreeMap<NodeId, LinkTerms>,
    /// The version of the cluster, in which entries are proposed here.
    pub(crate) entries_in: u16,
    /// When this node last told the council in which zone it is.
    pub(crate) zone_told: Option<Time>,
    /// The same, at which address it is.
    address_told: Option<Time>,
    /// When this node looks again for replicas that it needs no more.
    pub(crate) next_leaving: Time,
    /// The place of the one behind the last that it looked at.
    pub(crate) looked_last: usize,
    /// The owner has been told of the buckets' caches.
    pub(crate) caches_told: bool,
    /// The owner has been told how many clients it may let in.
    pub(crate) clients_max_told: bool,
    /// The same, whether it is to refuse clients of other machines.
    pub(crate) protected_told: bool,
    /// A bucket of the list has no replica here yet.
    pub(crate) buckets_wait: bool,
    /// What names this process's memory: see `node/memories.rs`.
    pub(crate) identity: Option<u64>,
    pub(crate) next_order: Time,
    /// When the council may be told again of moves of voters.
    pub(crate) next_settled: Time,
    /// Up to here the council's log may have made replicas that the journal has lost.
    pub(crate) doubtful_until: Position,
    /// Entries that are to be stepped over.
    pub(crate) step_over: StepOver,
    /// Replicas of a folder that was away.
    pub(crate) outlived: Outlived,
    /// Logs that all nodes have on their disks.
    pub(crate) trimming: Trimming,
    /// What was said of founders that are awaited.
    pub(crate) founding: Founding,
    /// To be freed elsewhere.
    pub(crate) rubbish: Vec<Rubbish>,
    /// When the removal of what dropped buckets leave is tried again, if it has failed.
    pub(crate) next_retirement: Time,
    /// What dropped buckets leave in the store, to be removed.
    pub(crate) retired: Vec<Retired>,
    /// The store that states are in, if they are in one.
    pub(crate) below: Option<Below>,
}

impl Node {
    /// Takes one input. Nothing else changes a node.
    pub fn step(&mut self, now: Now, input: Input<'_>, out: &mut Outbox) {
        // Two clocks that only go forward, whatever the machine's do.
        let since_last = now.time.since(self.now.time);
        self.now.time = now.time.max(self.now.time);
        // All inputs of a turn come with the same clocks.
        let clocks = Now { time: self.now.time, wall: now.wall };
        if clocks != self.clock.latest() {
            self.clock.advance(clocks);
            self.tell_time();
        }
        if since_last >= STANDSTILL {
            self.on_stood_still(since_last);
        }
        match input {
            Input::Opened { connection, address, local_address, listener } => {
                self.on_opened(connection, address, local_address, listener);
            }
            Input::OpenedFor { connection, address, local_address, user } => {
                self.on_opened(connection, address, local_address, Listener::Inside);
                self.act_for(connection, &user);
            }
            Input::Secured { connection, terms, name } => self.on_secured(connection, terms, name.as_deref()),
            Input::Received { connection, bytes } => self.on_received(connection, bytes),
            Input::Ended { connection, all_read } => self.on_ended(connection, all_read),
            Input::Unread { connection, bytes, blocks } => self.on_unread(connection, bytes, blocks),
            Input::Closed { connection } => self.on_closed(connection),
            Input::Met { peer, member } => newcomers::on_met(self, peer, member),
            Input::PeerUp { peer, terms } => self.on_peer_up(peer, terms),
            Input::PeerDown { peer } => self.on_peer_down(peer),
            Input::PeerMessage { peer, bytes } => {
                self.seal_before(bytes.len());
                self.on_peer_message(peer, &bytes);
            }
            Input::Persisted { number } => {
                let time = self.now.time;
                self.slow.on_persisted(number, time, self.clock.own());
                self.quickness.measure.on_persisted(number, time);
                let is_boot = !self.start_is_on_disk && number >= self.boot;
                self.start_is_on_disk |= is_boot;
                self.persisted = self.persisted.max(number);
                // Whoever waits for the journal is awake.
                self.groups.touch_awake(|group| is_boot || group.partition.waits_for_payload(number));
                self.groups.for_each_in_turn(|group| {
                    group.partition.on_persisted(time, number, &mut self.batch, &mut group.wishes);
                });
            }
            Input::Synced { took } => {
                self.quickness.measure.on_synced(took);
                self.movement.feel(Felt::Syncs, took);
            }
            Input::Worked { from, until, processor } => {
                self.stats.longest_turn = self.stats.longest_turn.max(processor);
                self.quickness.measure.on_worked(from, until, processor);
            }
            Input::ErrandDone { connection, slot, answer } => self.on_errand_done(connection, slot, &answer),
            Input::FullSyncEnded { connection, slot, error } => {
                full_sync::on_ended(self, connection, slot, error);
            }
            Input::PasswordTried { number, work, outcome } => passwords::tried(self, number, &work, &outcome),
            Input::Password(password) => access::on_password(self, password),
            Input::AuditFails(fails) => self.audit.fails = fails,
            Input::TrailSigned(mark) => audit::signed(self, mark),
            Input::Disk(room) => self.on_disk(room),
            Input::SnapshotSaved { partition, position } => self.on_snapshot_saved(partition, position, out),
            Input::SnapshotFailed { partition, position, reason } => {
                self.on_snapshot_failed(partition, position, &reason);
            }
            Input::BlockMade(made) => self.on_block_made(*made),
            Input::BlocksTaken(taken) => self.on_blocks_taken(*taken, out),
            Input::Stop => self.stop(),
            Input::EndTurn => self.end_turn(out),
        }
    }

    pub(crate) fn event(&mut self, level: Level, text: impl Into<String>) {
        self.events.push(LogLine { level, partition: None, text: text.into() });
    }

    /// The same about a partition.
    pub(crate) fn event_about(&mut self, g: usize, level: Level, text: &str) {
        self.events.push(self.groups[g].log_line(level, text));
    }

    pub(crate) fn probe(&mut self, name: &'static str) {
        debug_assert!(PROBES.contains(&name), "{name} is not in the list of probes");
        *self.probes.entry(name).or_default() += 1;
    }

    /// What was proposed goes into the journal and to the followers.
    pub(crate) fn flush_proposed(&mut self, g: usize) {
        let bytes = std::mem::take(&mut self.groups[g].partition.proposed_bytes);
        self.seal_before(bytes);
        self.step_replica(g, Step::Flush);
    }

    pub(crate) fn step_replica(&mut self, g: usize, step: Step) {
        self.groups[g].step(self.now.time, step, &mut self.batch);
    }

    fn on_opened(&mut self, id: ConnectionId, address: String, local_address: String, listener: Listener) {
        // A connection inside speaks for clients that have shown the password to HTTP, or for nodes.
        let is_inside = listener == Listener::Inside;
        let authenticated = self.access.is_open() || is_inside;
        let user = Arc::clone(if is_inside { self.access.inside() } else { self.access.default() });
        let limits = self.request_limits(authenticated);
        if !authenticated {
            self.expect(id);
        }
        let mut session = Session::new(id, (address, local_address), limits, (user, authenticated), self.now.time);
        session.is_inside = is_inside;
        if listener == Listener::Redirects {
            self.begin_redirecting(&mut session);
        }
        self.stats.connections_received += 1;
        self.sessions.insert(id, Some(Box::new(session)));
    }

    pub(crate) fn name_of(&self, node: NodeId) -> String {
        self.roll.get(node).map_or_else(|| node.to_string(), |member| member.name.clone())
    }

    /// The partitions that this node knows, ascending; it may be without some of them.
    #[must_use]
    pub fn partitions(&self) -> Vec<PartitionId> {
        self.groups.partitions()
    }

    /// The group of the default bucket, which is always there.
    pub(crate) fn default_group(&self) -> &Group {
        &self.groups[place_of(&self.groups, DEFAULT_PARTITION).expect("the default bucket cannot be dropped")]
    }

    fn replica_of(&self, partition: PartitionId) -> Option<&Group> {
        place_of(&self.groups, partition).map(|g| &self.groups[g]).filter(|group| !group.is_bare())
    }

    /// Whether this node knows a partition and has nothing of it: others have.
    #[must_use]
    pub fn is_without(&self, partition: PartitionId) -> bool {
        place_of(&self.groups, partition).is_some_and(|g| self.groups[g].is_bare())
    }

    /// Who leads a partition, as far as this node knows.
    #[must_use]
    pub fn leader(&self, partition: PartitionId) -> Option<(NodeId, Ballot)> {
        self.leader_of(place_of(&self.groups, partition)?)
    }

    /// How far a partition's log is decided, applied: for checkers. None if this node has no replica of it.
    #[must_use]
    pub fn progress(&self, partition: PartitionId) -> Option<Progress> {
        let group = self.replica_of(partition)?;
        let held = &group.partition;
        let replica = &held.replica;
        Some(Progress {
            decided: replica.decided(),
            persisted: replica.persisted(),
            applied: held.applied,
            first: replica.log().first(),
            lost: replica.hard_state().recovering || replica.log().hole().is_some(),
            votes: replica.role() != RoleName::Recovering && replica.is_on_disk(),
            durable: held.durable,
            on_all: group.copies.answered,
            all: group.copies.all.clone(),
        })
    }

    /// Who votes in a partition, by its log here, and who shall by the council's registry: for checkers. None if this node has no replica of it.
    #[must_use]
    pub fn voters(&self, partition: PartitionId) -> Option<Voters> {
        let group = self.replica_of(partition)?;
        let membership = group.partition.replica.membership();
        let lists = |members: &paxos::Members| {
            let lists = [&members.voters, &members.incoming].into_iter().filter(|list| !list.is_empty());
            lists.map(|list| list.iter().map(|member| member.node).collect()).collect()
        };
        Some(Voters {
            now: lists(&membership.now),
            before: lists(&membership.before),
            wanted: group.roster.as_ref().map(|roster| roster.voters.clone()).unwrap_or_default(),
            at: membership.now.at,
            before_at: membership.before.at,
            is_decided: membership.now.at <= group.partition.replica.decided(),
        })
    }

    /// What each replica is about, a line each: for whoever looks why a cluster does not go on.
    #[must_use]
    pub fn portrait(&self) -> Vec<String> {
        let of = |group: &Group| {
            let wanted = group.roster.as_ref().map(|roster| format!("{:?}", roster.voters)).unwrap_or_default();
            let elsewhere =
                group.elsewhere.as_ref().map(|it| format!(" elsewhere (seen {})", it.seen)).unwrap_or_default();
            format!(
                "{}:{elsewhere} applied {}, wanted {wanted}, {}",
                group.id(),
                group.partition.applied,
                group.partition.replica.portrait()
            )
        };
        self.groups.iter().map(of).collect()
    }

    /// The spaces of the store below that this node needs; all others may be dropped before its first turn.
    #[must_use]
    pub fn spaces(&self) -> Vec<Space> {
        let of_groups = self.groups.iter().flat_map(|group| group.partition.tree.spaces());
        // What is to be removed goes together with its head, or the head would tell of what is not there.
        let retired = self.retired.iter().flat_map(|retired| retired.job.spaces_retired().iter().copied());
        std::iter::once(crate::below::OWN).chain(of_groups).chain(retired).collect()
    }

    /// The spaces of the store below, with the partitions that they belong to.
    #[must_use]
    pub fn spaces_of_partitions(&self) -> Vec<(PartitionId, Space)> {
        let of = |group: &Group| {
            let id = group.id();
            group.partition.tree.spaces().into_iter().map(move |space| (id, space))
        };
        self.groups.iter().flat_map(of).collect()
    }

    /// How many snapshots of peers have become states of this node since its start.
    #[must_use]
    pub fn snapshots_installed(&self) -> u64 {
        self.installed
    }

    /// How often what changes in a partition began to be told by another node, or by this one again: what happened meanwhile may not have been told.
    #[must_use]
    pub fn untold(&self) -> u64 {
        self.untold
    }

    /// Whether any state has elements that nobody reaches any more.
    #[must_use]
    pub fn has_garbage(&self) -> bool {
        self.groups.iter().any(|group| group.partition.tree.has_garbage())
    }

    /// Of each bucket that evicts what checkers want to know of it. What was evicted is that of the last turn.
    #[must_use]
    pub fn caches(&self) -> Vec<CacheNews> {
        let news = |group: &Group| {
            let evicting = group.partition.evicting.as_ref()?;
            Some(CacheNews {
                partition: group.id(),
                bucket: group.bucket.name.clone(),
                quota_bytes: group.bucket.settings.quota_of_partition(),
                last: group.partition.replica.log().last(),
                applied: group.partition.applied,
                bytes: group.partition.tree.bytes(),
                bytes_most: evicting.bytes_most,
                evicted: group.wishes.evicted.iter().map(|(position, key)| (*position, key.to_vec())).collect(),
            })
        };
        self.groups.iter().filter_map(news).collect()
    }

    /// A digest of a partition's whole state at [`Progress::applied`]: equal on all replicas.
    #[must_use]
    pub fn state_digest(&self, partition: PartitionId) -> Option<u64> {
        let held = &self.replica_of(partition)?.partition;
        let mut bytes = Vec::new();
        held.origins.encode(&mut bytes);
        Some(held.tree.digest() ^ base::checksum::xxh3(&bytes))
    }

    /// How many answers a replica keeps for the clients of each node, in case that node has to ask again, and how many bytes these have: for checkers.
    #[must_use]
    pub fn kept_answers(&self, partition: PartitionId) -> Vec<(NodeId, usize, u64)> {
        self.replica_of(partition).map_or_else(Vec::new, |group| group.partition.origins.kept().collect())
    }

    /// Digests of states that this node has compared, and comparisons in which it saw a replica differ.
    #[must_use]
    pub fn comparisons(&self) -> (u64, u64) {
        (self.comparison.compared, self.comparison.differing)
    }

    /// The name of a partition's bucket, and the bytes that its state counts: for checkers.
    #[must_use]
    pub fn holding(&self, partition: PartitionId) -> Option<(&str, u64)> {
        let group = self.replica_of(partition)?;
        Some((&group.bucket.name, group.partition.tree.bytes()))
    }

    /// Of a partition that is in memory only: whose memories the council counts, as far as this node follows its log: of those who vote, and during a move of those who
    /// shall; for checkers.
    #[must_use]
    pub fn remembered_by(&self, partition: PartitionId) -> Vec<Vec<NodeId>> {
        let bucket = self.buckets.of(partition.bucket).filter(|bucket| bucket.settings.kind == BucketKind::Ephemeral);
        bucket.map_or_else(Vec::new, |bucket| {
            let lists = [bucket.voters(), bucket.voting.next.clone()];
            lists.into_iter().filter(|list| !list.is_empty()).collect()
        })
    }

    /// The checksum of the decided entry at `position`, if this node still holds it and knows it decided: for checkers.
    #[must_use]
    pub fn decided_entry_digest(&self, partition: PartitionId, position: Position) -> Option<u64> {
        let replica = &self.replica_of(partition)?.partition.replica;
        let entry = replica.log().get(position).filter(|_| position <= replica.decided())?;
        Some(crate::inspect::digest_of(entry))
    }

    /// Rare branches reached since the last call, by name, with how often: for the simulator's coverage table.
    pub fn take_probes(&mut self) -> Vec<(&'static str, u64)> {
        for name in self.groups.iter_mut_unwoken().flat_map(|group| group.partition.replica.take_probes()) {
            *self.probes.entry(name).or_default() += 1;
        }
        std::mem::take(&mut self.probes).into_iter().collect()
    }
}

/// Where a partition's group stands.
pub(crate) fn place_of(groups: &Groups, partition: PartitionId) -> Option<usize> {
    groups.place_of(partition)
}

/// A partition in what a node said of itself.
pub(crate) fn news_of(ping: &Ping, partition: PartitionId) -> Option<&PartitionNews> {
    let place = ping.partitions.binary_search_by_key(&partition, |news| news.partition).ok()?;
    ping.partitions.get(place)
}

pub(crate) fn role_number(role: RoleName) -> u8 {
    match role {
        RoleName::Leader => 1,
        RoleName::Follower => 2,
        RoleName::Candidate => 3,
        RoleName::Recovering => 4,
    }
}

/// The role of a follower that is still to recover, as its folder was away: see [`crate::outlived`]. Earlier versions do not know this number, and show an unknown role.
pub(crate) const IS_OUTLIVED: u8 = 5;
/// The same of a leader.
pub(crate) const LEADS_OUTLIVED: u8 = 6;

pub(crate) fn role_text(number: u8) -> &'static str {
    match number {
        1 => "leader",
        2 => "follower",
        3 => "candidate",
        4 => "recovering",
        // Who leads is told beside the role; that its vote does not count is told nowhere else.
        IS_OUTLIVED | LEADS_OUTLIVED => "outlived",
        _ => "unknown",
    }
}
