//! `INFO …`: figures in Redis's fields, and Dictum's own.
//!
//! A field whose figure is not known here is left out rather than made up. What only the process knows (its resident
//! memory, its use of the processor) the owner tells ([`crate::Config::process`]).

use std::fmt::Write;

use data::spec::Group;
use data::{Failure, Reply};

use super::server::{COMPATIBLE_VERSION, last_save_seconds, replicas};
use super::{ALWAYS, Context, Entry, answers, cluster, config, spec};
use crate::bucket::{Bucket, BucketKind, Named};
use crate::node::{Node, place_of, role_text};
use crate::partition::Partition;
use crate::pubsub::audience::Kind;
use crate::session::Session;
use crate::transfer::movement::Felt;
use crate::{status, topology};

/// The table of this family.
pub(super) static ENTRIES: &[Entry] = &[answers(
    spec(
        "info",
        -1,
        Group::Server,
        "1.0.0",
        "Returns information about the server and its statistics.",
        "[section [section ...]]",
    ),
    &["loading", "stale", "@dangerous"],
    info,
)];

const _: () = assert!(ALWAYS.len() == 2, "INFO's marks repeat these");

/// What is written of one section.
type Section = fn(&Context<'_>, &mut Fields);

/// All sections in their order, each with whether it belongs to those that are shown when none is named.
const SECTIONS: &[(&str, bool, Section)] = &[
    ("Server", true, server),
    ("Clients", true, clients),
    ("Memory", true, memory),
    ("Persistence", true, persistence),
    ("Stats", true, stats),
    ("Replication", true, replication),
    ("CPU", true, cpu),
    ("Modules", true, |_, _| ()),
    ("Commandstats", false, command_stats),
    ("Errorstats", true, error_stats),
    ("Latencystats", false, latency_stats),
    ("Cluster", true, |context, fields| fields.put("cluster_enabled", u8::from(context.session.redirected.is_some()))),
    ("Keyspace", true, keyspace),
    ("Buckets", true, buckets),
    ("Dictum", true, dictum),
];

/// Lines of `name:value`.
#[derive(Default)]
struct Fields {
    text: String,
}

impl Fields {
    fn put(&mut self, name: impl std::fmt::Display, value: impl std::fmt::Display) {
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{name}:{value}\r\n");
    }
}

fn info(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    let asked = &words[1..];
    let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    let all = asked.iter().any(|word| is(word, "all") || is(word, "everything"));
    let default = asked.is_empty() || asked.iter().any(|word| is(word, "default"));
    let mut fields = Fields::default();
    for (name, by_default, section) in SECTIONS {
        if all || (default && *by_default) || asked.iter().any(|word| is(word, name)) {
            if !fields.text.is_empty() {
                fields.text.push_str("\r\n");
            }
            let _ = write!(fields.text, "# {name}\r\n");
            section(context, &mut fields);
        }
    }
    Ok(Reply::Verbatim(fields.text.into()))
}

/// An identifier of forty hexadecimal digits that follows from `parts`.
pub(super) fn identifier(parts: &[&[u8]]) -> String {
    let digest = |salt: u8| {
        let mut bytes = vec![salt];
        for part in parts {
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part);
        }
        base::checksum::xxh3(&bytes)
    };
    let mut text = format!("{:016x}{:016x}{:016x}", digest(0), digest(1), digest(2));
    text.truncate(40);
    text
}

fn server(context: &Context<'_>, fields: &mut Fields) {
    let node = &*context.node;
    let uptime = node.now.time.since(node.started.time).as_secs();
    let life = [node.incarnation.to_le_bytes(), node.boot.to_le_bytes()];
    fields.put("redis_version", COMPATIBLE_VERSION);
    fields.put("dictum_version", env!("CARGO_PKG_VERSION"));
    fields.put("redis_git_sha1", "00000000");
    fields.put("redis_git_dirty", 0);
    fields.put("redis_mode", cluster::mode(context.session));
    fields.put("os", format_args!("{} {}", std::env::consts::OS, std::env::consts::ARCH));
    fields.put("arch_bits", usize::BITS);
    fields.put("process_id", node.config.process_id);
    fields.put("process_supervised", "no");
    fields.put("run_id", identifier(&[b"run", &life[0], &life[1]]));
    let own_port = config::address(&node.config).1.to_owned();
    let cluster_port = || topology::parts(&node.config.cluster_address).1.to_string();
    fields.put("tcp_port", context.session.redirected.map_or(own_port, |_| cluster_port()));
    fields.put("server_time_usec", node.now.wall.0.saturating_mul(1000));
    fields.put("uptime_in_seconds", uptime);
    fields.put("uptime_in_days", uptime / 86_400);
    fields.put("config_file", "");
    fields.put("io_threads_active", i32::from(context.node.config.io_threads > 1));
}

/// The connection that asks, and all others.
fn sessions<'a>(context: &'a Context<'_>) -> impl Iterator<Item = &'a Session> {
    let others = context.node.sessions.values().filter_map(Option::as_deref);
    others.chain(std::iter::once(&*context.session))
}

fn clients(context: &Context<'_>, fields: &mut Fields) {
    let largest = |size: fn(&Session) -> usize| sessions(context).map(size).max().unwrap_or(0);
    let watched: usize = sessions(context).map(|session| session.watches.len()).sum();
    fields.put("connected_clients", sessions(context).count());
    fields.put("cluster_connections", 0);
    fields.put("maxclients", context.node.clients_max());
    fields.put("client_recent_max_input_buffer", largest(|session| session.backlog.capacity()));
    fields.put("client_recent_max_output_buffer", largest(|session| session.unread.max(session.out_peak)));
    fields.put("blocked_clients", sessions(context).filter(|session| session.is_waiting()).count());
    fields.put("total_blocking_keys", context.node.waiting.keys());
    fields.put("tracking_clients", context.node.tracking.clients.len());
    fields.put("pubsub_clients", sessions(context).filter(|session| session.listens()).count());
    fields.put("watching_clients", sessions(context).filter(|session| !session.watches.is_empty()).count());
    fields.put("clients_in_timeout_table", 0);
    fields.put("total_watched_keys", watched);
    fields.put("paused_clients", context.node.pausing.count());
}

/// Bytes as people read them, in Redis's form.
fn human(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["K", "M", "G", "T", "P"];
    let mut figure = bytes as f64;
    let mut unit = "B";
    for larger in UNITS {
        if figure < 1024.0 {
            break;
        }
        figure /= 1024.0;
        unit = larger;
    }
    if unit == "B" { format!("{bytes}B") } else { format!("{figure:.2}{unit}") }
}

fn memory(context: &Context<'_>, fields: &mut Fields) {
    let node = &*context.node;
    let of_clients: usize = sessions(context).map(|session| session.burden().total()).sum();
    let partitions = || node.groups.iter().map(|group| &group.partition);
    let dataset: u64 = partitions().map(|partition| partition.tree.bytes()).sum();
    let log: u64 = partitions().map(|partition| partition.replica.log().bytes()).sum();
    let waiting: usize = node.groups.iter().map(|group| group.router.bytes).sum();
    let used = dataset + log + of_clients as u64 + waiting as u64;
    fields.put("used_memory", used);
    fields.put("used_memory_human", human(used));
    let process = (node.config.process)();
    fields.put("used_memory_rss", process.resident_bytes);
    fields.put("used_memory_rss_human", human(process.resident_bytes));
    fields.put("used_memory_peak", process.resident_peak_bytes);
    fields.put("used_memory_peak_human", human(process.resident_peak_bytes));
    let percent = process.resident_bytes as f64 * 100.0 / process.resident_peak_bytes.max(1) as f64;
    fields.put("used_memory_peak_perc", format_args!("{percent:.2}%"));
    fields.put("total_system_memory", process.system_memory_bytes);
    fields.put("total_system_memory_human", human(process.system_memory_bytes));
    fields.put("used_memory_overhead", used - dataset);
    fields.put("used_memory_dataset", dataset);
    fields.put("used_memory_dataset_perc", format_args!("{:.2}%", dataset as f64 * 100.0 / used.max(1) as f64));
    fields.put("maxmemory", 0);
    fields.put("maxmemory_human", "0B");
    fields.put("maxmemory_policy", "noeviction");
    fields.put("mem_clients_normal", of_clients);
    fields.put("mem_clients_slaves", 0);
    fields.put("mem_replication_backlog", log);
    fields.put("mem_aof_buffer", waiting);
    fields.put("lazyfree_pending_objects", 0);
}

fn persistence(context: &Context<'_>, fields: &mut Fields) {
    let node = &*context.node;
    let running = u8::from(node.stats.snapshot_running);
    fields.put("loading", 0);
    fields.put("async_loading", 0);
    fields.put("rdb_bgsave_in_progress", running);
    fields.put("rdb_last_save_time", last_save_seconds(node));
    fields.put("rdb_last_bgsave_status", "ok");
    fields.put("aof_enabled", 1);
    fields.put("aof_rewrite_in_progress", running);
    fields.put("aof_rewrite_scheduled", 0);
    fields.put("aof_last_bgrewrite_status", "ok");
    fields.put("aof_last_write_status", if node.disk.is_low() { "err" } else { "ok" });
    fields.put("aof_pending_bio_fsync", 0);
    fields.put("module_fork_in_progress", 0);
}

fn stats(context: &Context<'_>, fields: &mut Fields) {
    let node = &*context.node;
    let stats = &node.stats;
    fields.put("total_connections_received", stats.connections_received);
    fields.put("total_commands_processed", stats.commands);
    fields.put("instantaneous_ops_per_sec", stats.commands_per_second());
    fields.put("total_net_input_bytes", stats.bytes_in);
    fields.put("total_net_output_bytes", stats.bytes_out);
    fields.put("expired_keys", node.groups.iter().map(|group| group.partition.tree.expired_count()).sum::<u64>());
    fields.put("evicted_keys", node.groups.iter().map(|group| evicted_keys(&group.partition)).sum::<u64>());
    fields.put("evicted_clients", node.stats.evicted_clients);
    fields.put("keyspace_hits", stats.keyspace_hits);
    fields.put("keyspace_misses", stats.keyspace_misses);
    let audience = &node.pubsub.audience;
    fields.put("pubsub_channels", audience.names_here(Kind::Channel));
    fields.put("pubsub_patterns", audience.names_here(Kind::Pattern));
    fields.put("pubsubshard_channels", audience.names_here(Kind::Shard));
    fields.put("tracking_total_keys", node.tracking.keys_count());
    fields.put("tracking_total_items", node.tracking.items_count());
    fields.put("tracking_total_prefixes", node.tracking.prefixes_count());
    fields.put("total_error_replies", stats.errors);
    fields.put("acl_access_denied_auth", stats.auth_failures);
    fields.put("dictum_foreign_connections", stats.foreign_connections);
    let (waiting, waited, refused) = node.large_writes.counts();
    fields.put("dictum_large_writes_waiting", waiting);
    fields.put("dictum_large_writes_waited", waited);
    fields.put("dictum_longest_turn_usec", node.stats.longest_turn.as_micros());
    fields.put("dictum_large_writes_refused", refused);
}

/// Keys that a bucket of the kind `cache` has evicted, since the start.
fn evicted_keys(partition: &Partition) -> u64 {
    partition.evicting.as_ref().map_or(0, |evicting| evicting.evicted)
}

/// The members' names, which make this replication what it is.
fn replication_id(node: &Node) -> String {
    let names = node.config.members.iter().map(|member| member.name.as_bytes());
    let parts: Vec<&[u8]> = std::iter::once(&b"replication"[..]).chain(names).collect();
    identifier(&parts)
}

fn replication(context: &Context<'_>, fields: &mut Fields) {
    let node = &*context.node;
    let replica = &node.default_group().partition.replica;
    let log = replica.log();
    let replicas = replicas(node);
    // Any node takes writes: to its clients each one is the master.
    fields.put("role", "master");
    fields.put("connected_slaves", replicas.len());
    for (place, replica) in replicas.iter().enumerate() {
        let (host, port, offset, lag) = (&replica.host, &replica.port, replica.offset, replica.silence);
        let value = format_args!("ip={host},port={port},state=online,offset={offset},lag={lag}").to_string();
        fields.put(format_args!("slave{place}"), value);
    }
    fields.put("master_failover_state", "no-failover");
    fields.put("master_replid", replication_id(node));
    fields.put("master_replid2", "0".repeat(40));
    fields.put("master_repl_offset", replica.decided().0);
    fields.put("second_repl_offset", -1);
    fields.put("repl_backlog_active", 1);
    fields.put("repl_backlog_size", log.bytes());
    fields.put("repl_backlog_first_byte_offset", log.first().0);
    fields.put("repl_backlog_histlen", (log.last().0 + 1).saturating_sub(log.first().0));
}

fn cpu(context: &Context<'_>, fields: &mut Fields) {
    let process = (context.node.config.process)();
    let seconds = |micros: u64| format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    fields.put("used_cpu_sys", seconds(process.system_micros));
    fields.put("used_cpu_user", seconds(process.user_micros));
    fields.put("used_cpu_sys_children", seconds(0));
    fields.put("used_cpu_user_children", seconds(0));
}

/// Calls and their durations, from when the node took them to when it answered.
fn command_stats(context: &Context<'_>, fields: &mut Fields) {
    for (name, histogram) in context.node.slow.durations.of(|_| true) {
        let (calls, micros) = (histogram.calls, histogram.nanos / 1000);
        let each = micros as f64 / calls.max(1) as f64;
        let (rejected, failed) = (histogram.rejected, histogram.failed);
        let line = format_args!(
            "calls={calls},usec={micros},usec_per_call={each:.2},rejected_calls={rejected},failed_calls={failed}"
        )
        .to_string();
        fields.put(format_args!("cmdstat_{name}"), line);
    }
}

/// Errors by their first words.
fn error_stats(context: &Context<'_>, fields: &mut Fields) {
    for (name, count) in &context.node.stats.errors_by_name {
        fields.put(format_args!("errorstat_{name}"), format_args!("count={count}"));
    }
}

/// Within how many microseconds half, 99 and 99.9 of a hundred commands were done.
fn latency_stats(context: &Context<'_>, fields: &mut Fields) {
    let durations = &context.node.slow.durations;
    let percentiles = super::config::percentiles(&context.node.settings);
    for (name, histogram) in durations.of(|_| durations.kept) {
        let told: Vec<String> =
            percentiles.iter().map(|percent| format!("p{percent}={:.3}", histogram.percentile(*percent))).collect();
        fields.put(format_args!("latency_percentiles_usec_{name}"), told.join(","));
    }
}

fn keyspace(context: &Context<'_>, fields: &mut Fields) {
    for (bucket, partitions) in buckets_here(context.node) {
        let keys: u64 = partitions.iter().map(|partition| partition.tree.len()).sum();
        let volatile: u64 = partitions.iter().map(|partition| partition.tree.volatile_len()).sum();
        if keys > 0 {
            let value = format_args!("keys={keys},expires={volatile},avg_ttl=0").to_string();
            fields.put(format_args!("db{}", bucket.number), value);
        }
    }
}

/// The buckets of which this node has replicas, by their numbers for `SELECT`.
fn buckets_here(node: &Node) -> Vec<(&Bucket, Vec<&Partition>)> {
    let of_bucket = |bucket: &'_ Bucket| {
        let here = bucket.partitions().filter_map(|id| place_of(&node.groups, id));
        here.map(|g| &node.groups[g].partition).collect::<Vec<_>>()
    };
    let all = node.buckets.list.iter().map(|bucket| (bucket, of_bucket(bucket)));
    all.filter(|(_, partitions)| !partitions.is_empty()).collect()
}

/// What of each bucket is in memory. Where nothing is cached above a store, that is everything.
fn buckets(context: &Context<'_>, fields: &mut Fields) {
    let node = &*context.node;
    for (bucket, partitions) in buckets_here(node) {
        let below = node.below.as_ref().filter(|_| bucket.settings.kind != BucketKind::Ephemeral);
        let residence = below.and_then(|below| below.read.residence(bucket.id.0));
        let keys: u64 = partitions.iter().map(|partition| partition.tree.len()).sum();
        let bytes: u64 = partitions.iter().map(|partition| partition.tree.bytes()).sum();
        let kind = bucket.settings.kind.name();
        let mut line = format!("id={},number={},kind={kind},keys={keys},bytes={bytes}", bucket.id.0, bucket.number);
        if bucket.settings.partitions > 1 {
            let _ = write!(line, ",partitions={}", bucket.settings.partitions);
        }
        if let Some(it) = residence {
            let part = |part: u64, whole: u64| if whole == 0 { 1.0 } else { part as f64 / whole as f64 };
            let _ = write!(
                line,
                ",quota={},resident={},resident_bytes={},resident_ratio={:.4},hits={},misses={},hit_ratio={:.4},evictions={}",
                it.quota_bytes,
                it.entries,
                it.bytes,
                part(it.entries.min(keys), keys),
                it.hits,
                it.misses,
                part(it.hits, it.hits + it.misses),
                it.evictions,
            );
        } else if bucket.settings.quota_bytes > 0 {
            let _ = write!(line, ",quota={}", bucket.settings.quota_bytes);
        }
        if bucket.settings.kind == BucketKind::Cache {
            let _ = write!(line, ",evicted_keys={}", partitions.iter().map(|it| evicted_keys(it)).sum::<u64>());
        }
        if let Some(ended) = node.backups.ended(bucket.id) {
            let _ = write!(line, ",backup={}", ended.0 / 1000);
        }
        fields.put(format_args!("bucket_{}", bucket.name), line);
    }
}

fn dictum(context: &Context<'_>, fields: &mut Fields) {
    let node = &*context.node;
    let crate::group::Group { partition, router, .. } = node.default_group();
    let replica = &partition.replica;
    let leader = node.leader(crate::group::DEFAULT_PARTITION);
    let time = node.now.time;
    let up = node.detectors.iter().filter(|detector| detector.is_up(time)).count() + 1;
    fields.put("dictum_node", node.name_of(node.config.me));
    fields.put("dictum_nodes", node.roll.len());
    fields.put("dictum_nodes_up", up);
    fields.put("dictum_role", role_text(node.outlived.role_of(crate::group::DEFAULT_PARTITION, replica.role())));
    fields.put("dictum_leader", leader.map_or_else(String::new, |(leader, _)| node.name_of(leader)));
    fields.put("dictum_ballot", leader.map_or_else(String::new, |(_, ballot)| ballot.to_string()));
    fields.put("dictum_decided", replica.decided().0);
    fields.put("dictum_persisted", replica.persisted().0);
    fields.put("dictum_applied", partition.applied.0);
    fields.put("dictum_lag", status::lag(node));
    fields.put("dictum_disk", node.disk.name());
    fields.put("dictum_disk_missing_bytes", node.disk.missing());
    fields.put("dictum_slow", node.slow_part().map_or("no", crate::pace::Part::name));
    fields.put("dictum_clock", if node.clock.is_outside() { "outside" } else { "ok" });
    fields.put("dictum_time_source", node.clock.source().name());
    fields.put("dictum_time_majority_ahead_ms", node.clock.ahead_ms());
    fields.put("dictum_time_log_ahead_ms", status::log_ahead_ms(node));
    fields.put("dictum_log_first", replica.log().first().0);
    fields.put("dictum_log_bytes", replica.log().bytes());
    fields.put("dictum_log_bytes_since_snapshot", partition.bytes_since_snapshot);
    fields.put("dictum_writes_waiting", router.writes.iter().filter(|write| !write.done).count());
    fields.put("dictum_reads_waiting", sessions(context).map(Session::reads_waiting).sum::<usize>());
    fields.put("dictum_reads", node.stats.reads);
    fields.put("dictum_commands_applied", partition.commands_applied);
    fields.put("dictum_states_compared", node.comparison.compared);
    fields.put("dictum_states_differing", node.comparison.differing);
    fields.put("dictum_peer_messages_received", node.stats.peer_messages_in);
    fields.put("dictum_peer_bytes_received", node.stats.peer_bytes_in);
    let movement = &node.movement;
    fields.put("dictum_movement", if node.registry.paused { "paused" } else { "on" });
    fields.put("dictum_movement_gives_way_to", movement.gives_way_to().map_or("nothing", Felt::name));
    fields.put("dictum_movement_bytes_per_second_allowed", movement.rate());
    fields.put("dictum_movement_bytes_per_second", movement.moves.bytes_per_second);
    fields.put("dictum_movement_bytes_to_send", movement.moves.left_bytes);
    fields.put("dictum_movement_bytes_sent", movement.sent_bytes);
    fields.put("dictum_movement_bytes_received", movement.taken_bytes);
    fields.put("dictum_entries_stepped_over", node.registry.stepped_total);
    for stepped in &node.registry.stepped {
        let (partition, position) = (stepped.partition, stepped.position);
        let value = format_args!("checksum={:016x},at={}", stepped.digest, stepped.at.0).to_string();
        fields.put(format_args!("dictum_stepped_over_{partition}@{position}"), value);
    }
    for ((partition, position), waits_for) in node.step_over.waits() {
        fields.put(format_args!("dictum_step_over_{partition}@{position}"), format_args!("waiting: {waits_for}"));
    }
    fields.put("dictum_pubsub_published", node.pubsub.published);
    fields.put("dictum_pubsub_received", node.pubsub.received);
    fields.put("dictum_pubsub_unsent", node.pubsub.unsent);
    fields.put("dictum_pubsub_undecided", node.pubsub.undecided);
    fields.put("dictum_change_subscriptions", node.subscriptions.count());
    fields.put("dictum_changes_kept_bytes", node.subscriptions.kept_bytes());
}
