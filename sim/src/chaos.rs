//! What goes wrong in a run, drawn from its seed: which kinds of faults there are at all, how often, and when.
//!
//! Each run has its own mix (swarm testing, Groce et al. 2012): a fault that is always there hides those that
//! need quiet. Everything is drawn before the run begins, so that a fault can be left out without shifting any other
//! draw; that is what shrinking does.

mod kinds;
mod options;
mod plan;

use std::time::Duration;

use base::Rng;
use base::limits::UNDECIDED_BYTES_MAX;
use node::{LargeWriteSettings, LogTrimSettings, SubscriptionSettings};
use storage::{CachePolicy, CacheSettings};

use plan::*;

pub use kinds::{FAULTS, Fault};
pub use options::{Options, PLANTED, faults_from_names, planted_from_name};

/// One millisecond in the simulator's nanoseconds.
pub const MS: u64 = 1_000_000;
/// One second in the simulator's nanoseconds.
pub const SECOND: u64 = 1_000 * MS;

/// Whom a planned fault befalls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// This node.
    Node(u16),
    /// Whoever leads at that moment; else this node.
    LeaderOr(u16),
}

/// A fault with its time and place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Planned {
    /// When, in nanoseconds.
    pub at: u64,
    /// What.
    pub fault: Fault,
    /// To whom.
    pub target: Target,
    /// For how long, in nanoseconds, where that means anything.
    pub duration: u64,
    /// For whatever else is to be drawn.
    pub draw: u64,
}

/// Everything that was drawn for a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Chaos {
    /// Number of machines: of the nodes that found the cluster, and of those that may join.
    pub nodes: u16,
    /// How many found it.
    pub founders: u16,
    /// When the faults end, in nanoseconds.
    pub ends_at: u64,
    /// Chance of a message to vanish, in millionths.
    pub loss: u64,
    /// Chance of a message to arrive twice, in millionths.
    pub duplicate: u64,
    /// Chance of a message to be overtaken, in millionths.
    pub reorder: u64,
    /// Least delay of a message, in nanoseconds.
    pub delay_min: u64,
    /// What is added to it: evenly up to this, in nanoseconds.
    pub jitter: u64,
    /// Chance of a client's bytes to be answered by a broken connection, in millionths.
    pub client_reset: u64,
    /// How wrong a wall clock may be, in nanoseconds.
    pub clock_error: u64,
    /// Some are wrong by more than that.
    pub wild_clocks: bool,
    /// Machines get other addresses now and then.
    pub addresses: bool,
    /// Nodes' keys are lost and changed.
    pub keys: bool,
    /// Disks have little room now and then.
    pub low_disks: bool,
    /// Users come and go, and guests log in as them.
    pub users: bool,
    /// Power cuts tear blocks within.
    pub torn_sectors: bool,
    /// Wall clock errors at the start, by node.
    pub clock_offsets: Vec<i64>,
    /// Speed of the clocks by node, in millionths of a true second per second.
    pub clock_rates: Vec<u64>,
    /// Least time of a sync, in nanoseconds.
    pub sync_min: u64,
    /// What is added to it: evenly up to this, in nanoseconds.
    pub sync_jitter: u64,
    /// Chance of a sync to take up to 100 times as long, in millionths.
    pub sync_slow: u64,
    /// Chance of a single small payload to be committed by the loop itself, in millionths.
    pub commit_here: u64,
    /// Bytes of log per snapshot, for the nodes' configuration.
    pub log_bytes_per_snapshot: u64,
    /// The state is in a store below, which is brought up to date after so many bytes of log; else in memory, with snapshots of all
    /// of it in files.
    pub uses_store: bool,
    /// Bytes of the blocks of snapshots that go to peers, and how many of them per second.
    pub snapshot_block_bytes: usize,
    /// Bytes of snapshots that a node sends per second.
    pub snapshot_bytes_per_second: u64,
    /// How long a silent peer is waited for in the middle of a snapshot, in nanoseconds.
    pub snapshot_held_for: u64,
    /// Chance of a crash at each step of taking or making blocks, in millionths.
    pub transfer_crash: u64,
    /// Entries of log kept behind a snapshot, for the nodes' configuration.
    pub log_entries_kept: u64,
    /// Bytes of log kept for peers that take a snapshot, for the nodes' configuration.
    pub log_bytes_held: u64,
    /// Bytes of a journal segment.
    pub segment_bytes: u64,
    /// How long a request may wait for its outcome, in milliseconds.
    pub request_timeout_ms: u64,
    /// Units of work after which a turn leaves entries to the next one: often a few entries' worth.
    pub turn_work_max: u64,
    /// How subscribers are told what changes.
    pub subscriptions: SubscriptionSettings,
    /// Bytes from which on a write is a large one, and how many may be on their way when it leaves.
    pub large_writes: LargeWriteSettings,
    /// When logs are given back that all nodes have: every second seed never does it, as its clients write little.
    pub log_trim: LogTrimSettings,
    /// Bytes of undecided entries after which a leader takes no more.
    pub undecided_bytes_max: usize,
    /// How often the states of a partition's replicas are compared; zero: never.
    pub compared_every: Duration,
    /// What nodes keep in memory of a bucket's values in the store, where the bucket's settings say nothing; none if they keep nothing.
    pub cache: Option<CacheSettings>,
    /// From this the buckets are drawn whose entries have terms; none if there are none.
    pub terms_seed: Option<u64>,
    /// From this is drawn how clients use hashes; none if they do not.
    pub hashes_seed: Option<u64>,
    /// From this is drawn how clients use sets; none if they do not.
    pub sets_seed: Option<u64>,
    /// From this is drawn how clients use sorted sets; none if they do not.
    pub sorted_sets_seed: Option<u64>,
    /// From this is drawn how clients use JSON documents; none if they do not.
    pub documents_seed: Option<u64>,
    /// From this is drawn how clients use lists; none if they do not.
    pub lists_seed: Option<u64>,
    /// From this is drawn who publishes and who listens; none if nobody does.
    pub pubsub_seed: Option<u64>,
    /// From this is drawn how clients use HyperLogLogs; none if they do not.
    pub sketches_seed: Option<u64>,
    /// From this is drawn how clients use places; none if they do not.
    pub places_seed: Option<u64>,
    /// From this is drawn how clients use fields that expire; none if they do not.
    pub fading_seed: Option<u64>,
    /// From this is drawn how clients use streams; none if they do not.
    pub streams_seed: Option<u64>,
    /// From this is drawn who lets others wait; none if nobody does.
    pub pauses_seed: Option<u64>,
    /// From this is drawn how clients use scripts; none if they do not.
    pub scripts_seed: Option<u64>,
    /// What the partitions of buckets are drawn from, if some have several.
    pub partitions_seed: Option<u64>,
    /// From this is drawn who asks nodes what they have seen; none if nobody does.
    pub observers_seed: Option<u64>,
    /// From this is drawn who moves keys between databases; none if nobody does.
    pub moves_seed: Option<u64>,
    /// From this is drawn who makes backups; none if nobody does.
    pub backups_seed: Option<u64>,
    /// Chance for those who subscribe to changes, if there are any.
    pub subscriptions_seed: Option<u64>,
    /// From this is drawn who sends costly commands; none if nobody does.
    pub costly_seed: Option<u64>,
    /// From this is drawn who routes by itself, and to which bucket; none if nobody does.
    pub routers_seed: Option<u64>,
    /// From this is drawn who works without think time; none if nobody does.
    pub restless_seed: Option<u64>,
    /// From this the labels of the nodes' zones are drawn; none if they have none.
    pub zones_seed: Option<u64>,
    /// From this is drawn which nodes are older than others; none if all are of the newest version.
    pub versions_seed: Option<u64>,
    /// What each sync of a leader takes longer when all other faults are over, in nanoseconds; none if nobody is slow then.
    pub slow_in_calm: Option<u64>,
    /// Single misfortunes, those of [`LATER_KINDS`] behind the others, then changes of settings. Left-out ones are still here; see
    /// [`Options::dropped`].
    pub plan: Vec<Planned>,
    /// Seed of the clients' behaviour.
    pub workload_seed: u64,
    /// Seed of everything else.
    pub cluster_seed: u64,
}

impl Chaos {
    /// Draws a run.
    #[must_use]
    pub fn draw(options: &Options) -> Chaos {
        let mut rng = Rng::new(options.seed);
        // Each part has its own generator, so that a change in one leaves the others as they were.
        let (mut shape, mut mix, mut network, mut clock) = (rng.fork(), rng.fork(), rng.fork(), rng.fork());
        let (mut disk, mut plan_rng) = (rng.fork(), rng.fork());
        let (workload_seed, cluster_seed) = (rng.next_u64(), rng.next_u64());
        let mut later_rng = rng.fork();
        let mut transfers = rng.fork();
        let (mut cache, mut settings) = (rng.fork(), rng.fork());
        let (hashes_seed, sets_seed, sorted_sets_seed) = (rng.next_u64(), rng.next_u64(), rng.next_u64());
        let (documents_seed, lists_seed) = (rng.next_u64(), rng.next_u64());
        // A branch of its own, not the next of the seeds: others may come there.
        let pubsub_seed = Rng::new(options.seed ^ 0x9b5b).next_u64();
        let (sketches_seed, places_seed, fading_seed) = (rng.next_u64(), rng.next_u64(), rng.next_u64());
        let streams_seed = rng.next_u64();
        let pauses_seed = rng.next_u64();
        let scripts_seed = rng.next_u64();
        let observers_seed = rng.next_u64();
        let partitions_seed = rng.next_u64();
        let routers_seed = rng.next_u64();
        let voters_seed = rng.next_u64();
        let mut slowness = Rng::new(rng.next_u64());
        let members_seed = rng.next_u64();
        let drawn_nodes = match shape.below(20) {
            0 => 1,
            1..=5 => 5,
            _ => 3,
        };
        let drawn_chaos = shape.between(8_000, 24_000);
        let nodes = options.nodes.unwrap_or(drawn_nodes).max(1);
        let ends_at = options.chaos_ms.unwrap_or(drawn_chaos) * MS;
        // Every sixteenth run has no faults at all, so that what only quiet shows is seen, too.
        let calm = mix.chance(1, 16);
        let share = mix.between(1, 6);
        // More machines take more time, and some kinds are not there where nodes come and go: so that is rarer, and never where one of those is asked for.
        let asks = options.with.iter().any(|fault| fault.knows_nodes());
        let may_change = Rng::new(members_seed ^ MEMBERS_DRAWN).chance(1, 3) && !asks;
        let mut loss_of_most = Rng::new(members_seed ^ ALONE_DRAWN);
        let may_lose_most = loss_of_most.chance(1, 4) && !asks;
        // Of its own, and where there are no faults as well: it leaves what else is drawn as it is.
        let mut restlessness = Rng::new(options.seed ^ RESTLESS_DRAWN);
        let (restless, restless_seed) = (restlessness.chance(1, 3), restlessness.next_u64());
        // Costly commands cost the simulator, too.
        let mut costs = Rng::new(options.seed ^ COSTLY_DRAWN);
        let (costly_seed, may_cost) = (costs.next_u64(), costs.chance(1, 3));
        let enabled: Vec<bool> = FAULTS
            .iter()
            .map(|fault| {
                // A kind that is there on request alone must not shift the draws of the others.
                let by_request = matches!(
                    fault,
                    Fault::Moves
                        | Fault::Backups
                        | Fault::FolderAway
                        | Fault::WildClock
                        | Fault::TornSectors
                        | Fault::Addresses
                        | Fault::Keys
                        | Fault::SecondProcess
                        | Fault::Impostor
                        | Fault::DiskLow
                        | Fault::Users
                        | Fault::Subscriptions
                );
                let drawn = !by_request && mix.chance(share, 8);
                let drawn = drawn && (*fault != Fault::MembersChange || may_change);
                let drawn = drawn && (*fault != Fault::UnsafeRecover || may_lose_most);
                let drawn = drawn && (*fault != Fault::CostlyCommands || may_cost);
                // All nodes are stopped for it: what other kinds need would be rarer in every run.
                let drawn = drawn && *fault != Fault::StepOver;
                let drawn = if *fault == Fault::Restless { restless } else { drawn && !calm };
                (drawn || options.with.contains(fault)) && !options.without.contains(fault)
            })
            .collect();
        let has = |fault: Fault| FAULTS.iter().position(|&other| other == fault).is_some_and(|index| enabled[index]);
        // Machines for those that may join. Whoever publishes, listens or routes knows where each node is from the beginning.
        let mut members = Rng::new(members_seed);
        let founders = nodes;
        let spare = members.between(1, 4) as u16;
        let nodes = if has(Fault::MembersChange) { (founders + spare).min(NODES_MAX) } else { founders };
        let stays = |fault: Fault| {
            has(fault) && !(fault.knows_nodes() && (has(Fault::MembersChange) || has(Fault::UnsafeRecover)))
        };
        let zero_unless = |fault: Fault, value: u64| if has(fault) { value } else { 0 };

        let loss = zero_unless(Fault::Loss, *network.pick(&[500, 5_000, 30_000, 100_000]));
        let duplicate = zero_unless(Fault::Duplicate, *network.pick(&[1_000, 20_000, 100_000]));
        let reorder = zero_unless(Fault::Reorder, *network.pick(&[1_000, 20_000, 200_000]));
        let slow = *network.pick(&[2 * MS, 10 * MS, 40 * MS]);
        let (fast_delay, fast_jitter) = (network.between(20_000, 500_000), network.between(10_000, 500_000));
        let slow_jitter = network.between(MS, 3 * slow);
        let client_reset = zero_unless(Fault::ClientReset, *network.pick(&[1_000, 5_000, 20_000]));

        let error_drawn = *clock.pick(&[50 * MS, 500 * MS, 2 * SECOND]);
        let clock_error = if has(Fault::ClockOffset) || has(Fault::ClockJump) { error_drawn } else { 0 };
        let mut offset = || i64::try_from(clock.between(0, 2 * error_drawn)).unwrap_or(0) - error_drawn as i64;
        let offsets: Vec<i64> = (0..nodes).map(|_| offset()).collect();
        let clock_offsets = if has(Fault::ClockOffset) { offsets } else { vec![0; usize::from(nodes)] };
        let spread = *clock.pick(&[1_000, 10_000, 100_000]);
        let rates: Vec<u64> = (0..nodes).map(|_| clock.between(1_000_000 - spread, 1_000_000 + spread)).collect();
        let clock_rates = if has(Fault::ClockRate) { rates } else { vec![1_000_000; usize::from(nodes)] };

        let sync_slow = zero_unless(Fault::SlowSync, *disk.pick(&[1_000, 10_000, 50_000]));
        let commit_here = zero_unless(Fault::CommitHere, *later_rng.pick(&[50_000, 500_000, 1_000_000]));
        let count = plan_rng.between(4, 60);
        let mut plan = draw_plan(&mut plan_rng, count, &KINDS, nodes, ends_at, &options.with, &has);
        let count = later_rng.between(0, 8);
        plan.extend(draw_plan(&mut later_rng, count, &LATER_KINDS, nodes, ends_at, &options.with, &has));
        let count = settings.between(2, 20);
        plan.extend(draw_plan(&mut settings, count, &SETTINGS_KINDS, nodes, ends_at, &options.with, &has));
        let mut voters = Rng::new(voters_seed);
        let count = voters.between(2, 20);
        plan.extend(draw_plan(&mut voters, count, &VOTERS_KINDS, nodes, ends_at, &options.with, &has));
        let slow_in_calm = slowness.between(30 * MS, 60 * MS);
        let count = slowness.between(1, 6);
        plan.extend(draw_plan(&mut slowness, count, &SLOW_KINDS, nodes, ends_at, &options.with, &has));
        let count = members.between(3, 16);
        plan.extend(draw_plan(&mut members, count, &MEMBERS_KINDS, nodes, ends_at, &options.with, &has));
        let mut copies = Rng::new(members_seed ^ COPIES_DRAWN);
        let count = copies.between(4, 16);
        plan.extend(draw_plan(&mut copies, count, &COPIES_KINDS, founders, ends_at, &options.with, &has));
        let mut away = Rng::new(members_seed ^ AWAY_DRAWN);
        let count = away.between(1, 5);
        plan.extend(draw_plan(&mut away, count, &AWAY_KINDS, founders, ends_at, &options.with, &has));
        let mut wild = Rng::new(members_seed ^ WILD_DRAWN);
        let count = wild.between(2, 12);
        plan.extend(draw_plan(&mut wild, count, &WILD_KINDS, founders, ends_at, &options.with, &has));
        let mut addresses = Rng::new(options.seed ^ ADDRESSES_DRAWN);
        let count = addresses.between(2, 8);
        plan.extend(draw_plan(&mut addresses, count, &ADDRESS_KINDS, nodes, ends_at, &options.with, &has));
        let mut keys = Rng::new(options.seed ^ KEYS_DRAWN);
        let count = keys.between(2, 10);
        plan.extend(draw_plan(&mut keys, count, &KEY_KINDS, nodes, ends_at, &options.with, &has));
        let mut doubles = Rng::new(options.seed ^ DOUBLES_DRAWN);
        let count = doubles.between(6, 24);
        plan.extend(draw_plan(&mut doubles, count, &DOUBLE_KINDS, founders, ends_at, &options.with, &has));
        let mut impostors = Rng::new(options.seed ^ IMPOSTORS_DRAWN);
        let count = impostors.between(2, 10);
        plan.extend(draw_plan(&mut impostors, count, &IMPOSTOR_KINDS, nodes, ends_at, &options.with, &has));
        let mut low = Rng::new(options.seed ^ LOW_DRAWN);
        let count = low.between(3, 12);
        plan.extend(draw_plan(&mut low, count, &LOW_KINDS, nodes, ends_at, &options.with, &has));
        let mut users = Rng::new(options.seed ^ USERS_DRAWN);
        let count = users.between(10, 60);
        plan.extend(draw_plan(&mut users, count, &USER_KINDS, nodes, ends_at, &options.with, &has));
        // Once, and in time for others to join.
        let planned = Planned {
            at: loss_of_most.between(ends_at / 5, ends_at * 3 / 5),
            fault: Fault::UnsafeRecover,
            target: Target::Node(0),
            duration: 0,
            draw: loss_of_most.next_u64(),
        };
        plan.extend(Some(planned).filter(|_| has(Fault::UnsafeRecover)));
        let mut versions = Rng::new(options.seed ^ VERSIONS_DRAWN);
        let versions_seed = versions.next_u64();
        // Some are left for the end.
        let count = versions.between(1, 2 * u64::from(nodes));
        plan.extend(draw_plan(&mut versions, count, &VERSIONS_KINDS, nodes, ends_at, &options.with, &has));
        let mut zones = Rng::new(options.seed ^ ZONES_DRAWN);
        let count = zones.between(1, 6);
        plan.extend(draw_plan(&mut zones, count, &ZONE_KINDS, nodes, ends_at, &options.with, &has));
        let mut comparisons = Rng::new(options.seed ^ COMPARISONS_DRAWN);
        let mut work = Rng::new(options.seed ^ WORK_DRAWN);
        let count = work.between(1, 6);
        plan.extend(draw_plan(&mut work, count, &WORK_KINDS, nodes, ends_at, &options.with, &has));
        let mut changes = Rng::new(options.seed ^ CHANGES_DRAWN);
        let mut reading = Rng::new(options.seed ^ READING_DRAWN);
        let count = reading.between(2, 12);
        plan.extend(draw_plan(&mut reading, count, &READING_KINDS, nodes, ends_at, &options.with, &has));
        let mut steps = Rng::new(options.seed ^ STEPS_DRAWN);
        let count = steps.between(1, 4);
        plan.extend(draw_plan(&mut steps, count, &STEP_KINDS, founders, ends_at, &options.with, &has));
        let mut large = Rng::new(options.seed ^ LARGE_DRAWN);
        let mut trims = Rng::new(options.seed ^ TRIMS_DRAWN);
        let zoned = members.chance(1, 2) || options.with.contains(&Fault::ZoneLost);
        let zones_seed = members.next_u64();
        // Small on purpose: some values do not fit at all, and hardly any stays for long.
        let quota_bytes = *cache.pick(&[1_500, 4_000, 20_000, 1 << 20]);
        let drawn_cache = CacheSettings { quota_bytes, policy: *cache.pick(&CachePolicy::ALL) };
        let terms_seed = settings.next_u64();
        Chaos {
            nodes,
            founders,
            ends_at,
            loss,
            duplicate,
            reorder,
            delay_min: if has(Fault::SlowNetwork) { slow } else { fast_delay },
            jitter: if has(Fault::SlowNetwork) { slow_jitter } else { fast_jitter },
            client_reset,
            clock_error,
            clock_offsets,
            clock_rates,
            wild_clocks: has(Fault::WildClock),
            torn_sectors: has(Fault::TornSectors),
            addresses: has(Fault::Addresses),
            keys: has(Fault::Keys),
            low_disks: has(Fault::DiskLow),
            users: has(Fault::Users),
            sync_min: disk.between(50_000, 2 * MS),
            sync_jitter: disk.between(50_000, 2 * MS),
            sync_slow,
            commit_here,
            uses_store: later_rng.chance(2, 3),
            snapshot_block_bytes: *transfers.pick(&[256, 1 << 10, 4 << 10, 16 << 10]),
            snapshot_bytes_per_second: *transfers.pick(&[256 << 10, 1 << 20, 64 << 20]),
            snapshot_held_for: *transfers.pick(&[SECOND, 4 * SECOND, 30 * SECOND]),
            transfer_crash: zero_unless(Fault::TransferCrash, *transfers.pick(&[5_000, 30_000, 200_000])),
            // With less than what is written while a snapshot travels, a node that is behind never catches up, as long as clients write.
            // One that has gone on alone asks nobody, and writes faster than any cluster.
            log_bytes_held: (*transfers.pick(&[16 << 10, 64 << 10, 64 << 20]))
                .max(zero_unless(Fault::UnsafeRecover, 1 << 20)),
            // Small on purpose: snapshots, truncation and catch-up beyond the log have to happen in seconds.
            log_bytes_per_snapshot: *disk.pick(&[4 << 10, 16 << 10, 64 << 10, 1 << 20]),
            log_entries_kept: *disk.pick(&[0, 1, 20, 200, 2_000]),
            segment_bytes: *disk.pick(&[32 << 10, 128 << 10, 1 << 20]),
            // Few of a simulated client's commands are longer than 200 bytes. Half of the seeds have no large ones.
            large_writes: LargeWriteSettings {
                from_bytes: *large.pick(&[60, 200, usize::MAX, usize::MAX]),
                on_the_way_bytes: *large.pick(&[1, 200, 1_000, 10_000]),
            },
            log_trim: LogTrimSettings {
                every: Duration::from_millis(*trims.pick(&[100, 500, 2_000])),
                from_bytes: *trims.pick(&[1, 2 << 10, 1 << 20, 1 << 20]),
            },
            undecided_bytes_max: *large.pick(&[8 << 10, 64 << 10, UNDECIDED_BYTES_MAX, UNDECIDED_BYTES_MAX]),
            compared_every: Duration::from_millis(*comparisons.pick(&[0, 0, 0, 200, 1_000, 3_000])),
            turn_work_max: *work.pick(&[1_000, 10_000, base::limits::TURN_WORK_MAX, base::limits::TURN_WORK_MAX]),
            subscriptions: SubscriptionSettings {
                // In half of the seeds subscribers come too late for what a node keeps.
                memory_bytes: *changes.pick(&[4 << 10, 32 << 10, 64 << 20, 64 << 20]),
                // Often a key or two.
                walk_work: *changes.pick(&[1, 150, 400, base::limits::WALK_WORK]),
                walk_work_per_tick: *changes.pick(&[1, 1, 250, base::limits::WALK_WORK_PER_TICK]),
            },
            request_timeout_ms: *shape.pick(&[1_000, 2_000, 5_000]),
            cache: has(Fault::ValueCache).then_some(drawn_cache),
            terms_seed: has(Fault::BucketTerms).then_some(terms_seed),
            hashes_seed: has(Fault::Hashes).then_some(hashes_seed),
            sets_seed: has(Fault::Sets).then_some(sets_seed),
            sorted_sets_seed: has(Fault::SortedSets).then_some(sorted_sets_seed),
            documents_seed: has(Fault::Documents).then_some(documents_seed),
            lists_seed: has(Fault::Lists).then_some(lists_seed),
            pubsub_seed: stays(Fault::PubSub).then_some(pubsub_seed),
            sketches_seed: has(Fault::HyperLogLogs).then_some(sketches_seed),
            places_seed: has(Fault::Places).then_some(places_seed),
            fading_seed: has(Fault::FieldExpiry).then_some(fading_seed),
            streams_seed: has(Fault::Streams).then_some(streams_seed),
            pauses_seed: stays(Fault::Pauses).then_some(pauses_seed),
            scripts_seed: has(Fault::Scripts).then_some(scripts_seed),
            observers_seed: stays(Fault::Observers).then_some(observers_seed),
            costly_seed: stays(Fault::CostlyCommands).then_some(costly_seed),
            moves_seed: stays(Fault::Moves).then_some(costly_seed ^ 1),
            backups_seed: stays(Fault::Backups).then_some(costly_seed ^ 2),
            subscriptions_seed: has(Fault::Subscriptions).then(|| changes.next_u64()),
            partitions_seed: has(Fault::Partitions).then_some(partitions_seed),
            routers_seed: stays(Fault::Routers).then_some(routers_seed),
            restless_seed: has(Fault::Restless).then_some(restless_seed),
            zones_seed: (zoned && has(Fault::MembersChange)).then_some(zones_seed),
            versions_seed: has(Fault::Versions).then_some(versions_seed),
            slow_in_calm: has(Fault::SlowDisk).then_some(slow_in_calm),
            plan,
            workload_seed,
            cluster_seed,
        }
    }
}

/// Most machines of a run.
const NODES_MAX: u16 = 9;

#[cfg(test)]
mod tests;
