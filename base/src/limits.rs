//! Every limit in one place: what may queue up, how large a thing may be, how long something may take.
//!
//! A limit that a user may set has its default and its hardest value here. Relations between limits are
//! proved when the crate is compiled, at the end of the file.

use std::time::Duration;

use crate::ordered::ORDERED_KEY_BYTES_MAX;

/// Classes of keys (Redis Cluster specification).
pub const HASH_SLOTS: u16 = 16384;

/// Most voters of one partition.
pub const VOTERS_MAX: usize = 7;

/// Most voters of the council, unless more nodes than that have founded the cluster.
pub const COUNCIL_VOTERS_MAX: usize = 5;
/// Most nodes that a cluster has at a time.
pub const NODES_MAX: usize = 64;
/// Most nodes that a cluster ever has: numbers are not given twice, and lists by number stand beside what is stored.
pub const NODES_EVER_MAX: u16 = 1024;
/// Longest name of a node, in bytes.
pub const NODE_NAME_BYTES_MAX: usize = 64;
/// Longest label of a zone, in bytes.
pub const ZONE_BYTES_MAX: usize = 64;
/// Longest address at which a node is reached by others, in bytes.
pub const NODE_ADDRESS_BYTES_MAX: usize = 255;
/// Most tokens that nodes may join with at a time.
pub const TOKENS_MAX: usize = 64;
/// How long a token lets a node join, unless it is said.
pub const TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// After a node has been gone for so long others take its place, where there are any; unless configured otherwise.
pub const REPLACE_AFTER: Duration = Duration::from_secs(600);
/// How often a node tells the council how far its audit trail is signed, if there is something new.
pub const TRAIL_TOLD_EVERY: Duration = Duration::from_secs(60);

/// Most buckets of a cluster, the default one among them.
pub const BUCKETS_MAX: usize = 64;
/// Numbers of buckets below this one are those of databases, and no named bucket gets one of them.
pub const DATABASES_MAX: u16 = 1024;
/// Databases that a client can `SELECT`, unless the node's start says otherwise: as many as in a Redis.
pub const DATABASES_DEFAULT: u16 = 16;
/// Most partitions of a bucket.
pub const PARTITIONS_MAX: u16 = 1024;
/// Most partitions of all buckets together.
pub const PARTITIONS_ALL_MAX: usize = 4096;
/// Longest name of a bucket, in bytes.
pub const BUCKET_NAME_BYTES_MAX: usize = 64;

/// Longest key, in bytes. A key is part of a key of the ordered store, which takes [`ORDERED_KEY_BYTES_MAX`]: behind its deadline and its
/// place in the order of keys. The rest is left for what may come to stand before it; and an index of a table repeats whole keys, so longer
/// ones would cost everybody.
pub const KEY_BYTES_MAX: usize = 32 * 1024;
/// Longest value that may ever be configured, in bytes: that of Redis.
pub const VALUE_BYTES_MAX: usize = 512 * 1024 * 1024;
/// Longest value unless configured otherwise, in bytes.
pub const VALUE_BYTES_DEFAULT: usize = 16 * 1024 * 1024;

/// Most arguments of one command: that of Redis 7. What bounds a command is its bytes.
pub const ARGUMENTS_MAX: usize = i32::MAX as usize;
/// The same while nodes of a version before 8 are there; beyond, each word counts [`WORD_BYTES`] towards the command's bytes.
pub const ARGUMENTS_PLAIN_MAX: usize = 1024 * 1024;
/// What a word takes beside its own bytes, about, where a command is held.
pub const WORD_BYTES: usize = 64;
/// Longest inline command, in bytes: that of Redis.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;
/// Most commands that one connection may have waiting for an answer; reading from it pauses beyond.
pub const CONNECTION_PENDING_MAX: usize = 16 * 1024;
/// Most bytes of commands that one connection may have waiting; reading from it pauses beyond.
pub const CONNECTION_PENDING_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Most bytes of replies that a connection may leave unread before it is cut off.
pub const CONNECTION_OUTPUT_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// A client that has left more than so many bytes of answers unread has no further command carried out until it has read half of them. Clients send a whole pipeline
/// before they read, so it is not little: ten million short answers do not stop one.
pub const OUTPUT_PAUSE_BYTES: usize = 32 * 1024 * 1024;
/// A write waits until the reads before it on its connection are answered, if these are so many: when it is applied, all that are left are answered at once.
pub const READS_BEFORE_WRITE_MAX: usize = 256;
/// A read that would be answered then is refused, if so many bytes of answers wait for its client already.
pub const OUTPUT_HELD_BYTES_MAX: usize = 256 * 1024 * 1024;
/// How long a client may take to show who it is, where a password is asked for.
pub const STRANGER_PATIENCE: Duration = Duration::from_secs(60);
/// Most bytes of commands that a client may have waiting before it has shown who it is; reading from it pauses beyond.
pub const STRANGER_PENDING_BYTES_MAX: usize = 64 * 1024;
/// As [`OUTPUT_PAUSE_BYTES`], before the client has shown who it is.
pub const STRANGER_OUTPUT_BYTES_MAX: usize = 16 * 1024;
/// Most bytes of a collection that one command answers as a whole; a larger one is gone through in pages.
pub const REPLY_BYTES_MAX: u64 = VALUE_BYTES_MAX as u64;
/// Bytes of replies that a connection gets in one turn before the rest is left to the next one.
pub const TURN_OUTPUT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of answers to reads that all connections together get in one turn before the rest is left to the next one. A microsecond makes some eight of
/// them where elements are short; a leader whose turn takes longer than an election's patience is deposed.
pub const TURN_READ_BYTES_MAX: usize = 1024 * 1024;
/// Most keys of a hash slot that are counted, or listed, at once: they are gone through one by one, within a turn.
pub const SLOT_KEYS_MAX: usize = 100_000;
/// Most bytes of what the scripts of one entry, or of one read, call, that `MONITOR` shows.
pub const CALLS_SHOWN_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most client connections of a node unless configured otherwise: that of Redis.
pub const CONNECTIONS_DEFAULT: usize = 10_000;
/// Most bytes of the commands that one MULTI queues, [`WORD_BYTES`] for each of them and [`QUEUED_WORD_BYTES`] for each of their words included.
pub const TRANSACTION_BYTES_MAX: usize = 256 * 1024 * 1024;
/// What a word of a queued command takes beside its own bytes.
pub const QUEUED_WORD_BYTES: usize = 4;
/// Most bytes of names (and somewhat more for each) that the connections of a node listen to, by SUBSCRIBE and its relatives.
pub const SUBSCRIPTION_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Most subscriptions to changes on a node.
pub const SUBSCRIPTIONS_MAX: usize = 200_000;
/// Most subscriptions to changes of one connection.
pub const SUBSCRIPTIONS_OF_CONNECTION_MAX: usize = 1024;
/// Most keys, prefixes and patterns of one subscription to changes.
pub const SUBSCRIPTION_WORDS_MAX: usize = 1024;
/// Longest name of a named subscription.
pub const NAMED_NAME_BYTES_MAX: usize = 1000;
/// Most bytes of the words of one: each acknowledgement writes them anew.
pub const NAMED_WORDS_BYTES_MAX: usize = 16 * 1024;
/// Most bytes of the record of one: its words, and a place of up to [`PARTITIONS_MAX`] revisions.
pub const NAMED_RECORD_BYTES_MAX: usize = 64 * 1024;
/// Most bytes of what tells who has attached.
pub const NAMED_BY_BYTES_MAX: usize = 256;
/// Longest pattern of a subscription to changes.
pub const SUBSCRIPTION_PATTERN_BYTES_MAX: usize = 1024;
/// Most patterns of all subscriptions to changes on a node: each change is compared with each of them.
pub const SUBSCRIBED_PATTERNS_MAX: usize = 4096;
/// Most that all subscriptions of a node weigh: of each its keys, prefixes and patterns, and one more, for each partition in which it may be told something. One is about 150
/// bytes of memory.
pub const SUBSCRIPTION_WEIGHT_MAX: usize = 1_000_000;
/// The same of one connection.
pub const SUBSCRIPTION_WEIGHT_OF_CONNECTION_MAX: usize = SUBSCRIPTION_WEIGHT_MAX / 16;
/// Most bytes of the keys, prefixes and patterns of all subscriptions to changes on a node.
pub const SUBSCRIPTION_FILTERS_BYTES_MAX: usize = 256 * 1024 * 1024;
/// The same of one connection.
pub const SUBSCRIPTION_FILTERS_BYTES_OF_CONNECTION_MAX: usize = SUBSCRIPTION_FILTERS_BYTES_MAX / 16;
/// A subscriber who has left so many bytes unread is told no further changes until some are read.
pub const SUBSCRIBER_UNREAD_BYTES: usize = 64 * 1024;
/// Longest value of a string, and of all words of a command, that is recorded with a change, in bytes. Longer ones are left out. Part of what entries mean: all replicas have
/// to record the same.
pub const RECORDED_VALUE_BYTES_MAX: usize = 4096;
/// Longest value that is told with a key that is there (`WITH STATE`), in bytes as the state counts them. Longer ones are left out.
pub const STATE_VALUE_BYTES_MAX: u64 = 64 * 1024;
/// Units of work (some ten nanoseconds each) after which a walk over what is there lets another one go on.
pub const WALK_WORK: u64 = 5_000;
/// The same of all walks of a node together between two ticks of 10 ms: a fifth of the loop's time.
pub const WALK_WORK_PER_TICK: u64 = 200_000;
/// Most changes of one entry that are recorded; of one with more none is, and subscribers are told a gap. Some 200 bytes each, beside the values.
pub const RECORDED_CHANGES_MAX: usize = 100_000;
/// Bytes of memory in which a node keeps changes for subscribers.
pub const CHANGE_MEMORY_BYTES: usize = 64 * 1024 * 1024;
/// Most bytes of published messages on their way to one other node, unless a single turn's are more; what is published beyond is not sent to it.
pub const PUBLISHED_WINDOW_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Most bytes of keys (and somewhat more for each) that a node notes for clients that track what they have read.
pub const TRACKED_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Most keys that a node notes for them, unless configured otherwise: that of Redis.
pub const TRACKED_KEYS_DEFAULT: u64 = 1_000_000;
/// Most keys one connection may WATCH.
pub const WATCHED_KEYS_MAX: usize = 64 * 1024;

/// Units of work that one entry of the log, or one read, may cost unless its bucket says otherwise (`data/src/meter.rs` says what a unit is): some seconds.
/// A union of two million members fits, and so does a `KEYS` over twenty million keys.
pub const WORK_DEFAULT: u64 = 500_000_000;
/// Units of work after which a turn of a node applies no further entry, so that signs of life, elections and other partitions go on between large entries: some
/// ten milliseconds.
pub const TURN_WORK_MAX: u64 = 5_000_000;
/// Fewest units that a bucket may allow: what single commands on single elements need, with room to spare.
pub const WORK_MIN: u64 = 100;
/// Most bytes of answers that the commands of one entry may have built before the next one is carried out: every replica builds them.
pub const ANSWERS_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The same of a transaction that only reads, which one node answers.
pub const READ_ANSWERS_BYTES_MAX: u64 = REPLY_BYTES_MAX;

/// An owner tells a node how long its loop had the processor ([`Input::Worked`](../node/enum.Input.html)) in each such time, if it was that long.
pub const WORK_TOLD_EVERY: Duration = Duration::from_millis(5);
/// See [`WORK_TOLD_EVERY`]: less is no reason for anything to be late.
pub const WORK_TOLD_FROM: Duration = Duration::from_millis(2);
/// Most clients of one node that are sent all keys as an RDB file at a time: each takes up to three times the size of the data on the node's disk meanwhile.
pub const FULL_SYNCS_MAX: usize = 2;
/// Most errands of one kind of one node's clients that are under way: keys to other databases (`MOVE`, `COPY … DB`), and to other servers (`MIGRATE`).
pub const ERRANDS_MAX: usize = 256;
/// So many of a kind are held at a time: each may have a value of the largest size in memory. A server that answers slowly holds up no other kind.
pub const ERRANDS_AT_ONCE_MAX: usize = 4;
/// A batch of keys for another server is sent when their values have so many bytes: one value more than that is in memory.
pub const MIGRATION_BYTES_TARGET: usize = 1024 * 1024;
/// So long another server is waited for at the most, whatever the client says.
pub const MIGRATION_TIMEOUT_MAX: Duration = Duration::from_secs(60);
/// A step of a node that takes so long is long: from then on its owner sends signs of life, one in each such time.
pub const BUSY_AFTER: Duration = Duration::from_millis(50);
/// For so long, as then the loop counts as hanging. Longer than an entry of the default budget takes on a slow machine.
pub const BUSY_MAX: Duration = Duration::from_secs(20);

/// Longest answer that replicas keep for a node that may have missed it, in bytes: each of them keeps it, and writes it into every flush.
pub const KEPT_REPLY_BYTES_MAX: u64 = 256 * 1024;
/// Most bytes of such answers for one node.
pub const KEPT_REPLIES_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Largest entry of the log, in bytes, with room for the largest value and what goes around it.
pub const ENTRY_BYTES_MAX: usize = VALUE_BYTES_MAX + 64 * 1024 * 1024;
/// Most bytes of one command as it stands in an entry: its words, and four more for each. The largest value fits with its key and options.
pub const COMMAND_BYTES_MAX: usize = VALUE_BYTES_MAX + 16 * 1024 * 1024;
/// Most bytes of what a client has proposed: a command with what goes with it, or a whole transaction. Checked before it is proposed, so that nothing behind it is
/// ever too large: an entry has its header around it, a message other entries beside it.
pub const BODY_BYTES_MAX: usize = COMMAND_BYTES_MAX + 1024 * 1024;
/// Largest order to the council, in bytes: a map of all partitions with all of their voters has a part of it.
pub const COUNCIL_ORDER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Largest message between nodes, in bytes.
pub const PEER_MESSAGE_BYTES_MAX: usize = ENTRY_BYTES_MAX + 1024 * 1024;
/// A write of so many bytes takes turns with others of its kind, so that small ones do not wait behind all of them.
pub const LARGE_WRITE_BYTES: usize = 1024 * 1024;
/// Bytes of a node's writes that are not applied yet, beyond which a large one waits for its turn.
pub const WRITES_ON_THE_WAY_BYTES: usize = 16 * 1024 * 1024;
/// Most bytes of entries in one message, unless a single entry is larger.
pub const ACCEPT_BYTES_TARGET: usize = 1024 * 1024;
/// Most bytes of entries sent to a follower that it has not acknowledged, unless a single entry is larger.
pub const FOLLOWER_WINDOW_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of entries that a follower is sent in one turn, unless a single entry is larger: whoever waits for the turn's end does not wait for a follower that
/// is far behind.
pub const FOLLOWER_TURN_BYTES_TARGET: usize = 1024 * 1024;
/// Most bytes proposed and not yet decided; at the limit the leader tells clients to come back. As much is held by a follower
/// whose disk does not have it yet, before it takes no more. With little memory less (`server/src/memory/plan.rs`).
pub const UNDECIDED_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Most entries proposed and not yet decided.
pub const UNDECIDED_ENTRIES_MAX: u64 = 256 * 1024;
/// Who lacks no more entries than this is close enough to vote, to lead, or to answer by itself: the rest comes on the way.
pub const CLOSE_ENTRIES: u64 = 1000;
/// Most bytes that a node queues for a peer that does not read; beyond, the link is cut and built anew.
pub const PEER_OUTPUT_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// Most requests of one node that wait for the leader.
pub const OUTSTANDING_REQUESTS_MAX: usize = 256 * 1024;

/// Size of a journal segment, in bytes, unless one frame needs more.
pub const SEGMENT_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes of records from which on a node begins another journal payload, within a turn: what is written together may be as large as many large entries.
pub const PAYLOAD_BYTES_TARGET: usize = 16 * 1024 * 1024;
/// Most bytes of payload in one journal frame, unless one payload is larger.
pub const FRAME_BYTES_TARGET: usize = 16 * 1024 * 1024;
/// Size of a snapshot block, in bytes, unless one record is larger.
pub const SNAPSHOT_BLOCK_BYTES_TARGET: usize = 256 * 1024;
/// Largest snapshot block, in bytes.
pub const SNAPSHOT_BLOCK_BYTES_MAX: usize = VALUE_BYTES_MAX + 64 * 1024 * 1024;
/// Bytes of log, of one partition or of all of a node together, after which changes go to the store (or all of the state to a file, where it is in memory), and the log before is dropped.
pub const LOG_BYTES_PER_SNAPSHOT: u64 = 256 * 1024 * 1024;
/// Bytes of changed records in memory, of one partition or of all of a node together, after which they go to the store, whatever the log.
pub const FLUSH_BYTES: u64 = 64 * 1024 * 1024;
/// After this time they go there even if they are fewer, down to one part in so many (of all partitions that have changed): what is seldom written shall not be in memory twice.
pub const FLUSH_AFTER: Duration = Duration::from_secs(10);
/// See [`FLUSH_AFTER`].
pub const FLUSH_PART_MIN: u64 = 64;
/// Most bytes of log, or of changed records in memory, of one partition or of all of a node together, that the store below does not have yet. Beyond, the
/// node takes no more entries until the store has caught up.
pub const UNFLUSHED_BYTES_MAX: u64 = 2 * LOG_BYTES_PER_SNAPSHOT;
/// Most bytes of what walks over elements have read of the store that each partition keeps in memory; no more than an eighth of the quota for values.
pub const KNOWN_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// Bytes per second that a node sends of snapshots at most, all of them together, and as many that it takes in, unless configured otherwise. How many of
/// these it is depends on what its clients feel of it.
pub const SNAPSHOT_BYTES_PER_SECOND: u64 = 256 * 1024 * 1024;
/// Bytes per second of its states that a node reads to compare them with those of others: slow enough not to be felt.
pub const COMPARED_BYTES_PER_SECOND: u64 = 16 * 1024 * 1024;
/// How often the states of each partition's replicas are compared, if anything was applied since.
pub const COMPARED_EVERY: Duration = Duration::from_secs(3600);
/// With so many a movement begins.
pub const MOVEMENT_BYTES_PER_SECOND_BEGIN: u64 = 16 * 1024 * 1024;
/// So many it always is, whatever clients feel, unless it was paused.
pub const MOVEMENT_BYTES_PER_SECOND_MIN: u64 = 1024 * 1024;
/// How long the sender of a snapshot keeps its view for a receiver that says nothing, and a receiver what it has for a sender that
/// sends nothing.
pub const SNAPSHOT_HELD_FOR: Duration = Duration::from_secs(30);
/// Blocks of a snapshot from a peer that go to the store in one batch, unless one block is larger than all of them should be.
pub const SNAPSHOT_BATCH_BLOCKS: usize = 16;
/// Entries of log kept behind a snapshot for followers that are only a little behind.
pub const LOG_ENTRIES_KEPT: u64 = 10_000;
/// Most bytes of log kept behind a snapshot for them.
pub const LOG_BYTES_KEPT: u64 = 64 * 1024 * 1024;
/// How often logs are looked at for what all nodes have on their disks; so long a node can be away at the least without losing them.
pub const LOG_TRIMMED_EVERY: Duration = Duration::from_secs(30);
/// A log of fewer bytes is not worth it.
pub const LOG_TRIMMED_FROM_BYTES: u64 = 1024 * 1024;
/// Most bytes of log that are kept for nodes that take a snapshot, until they have caught up, unless configured otherwise.
pub const LOG_BYTES_HELD: u64 = 1024 * 1024 * 1024;
/// How many entries a second the partitions that one node leads have at least before leaderships change hands for their load. A tenth of what a small
/// machine decides.
pub const HOT_ENTRIES_PER_SECOND: u64 = 1000;

/// Most bytes of commands (and of the keys in them once more) that wait on a node until there is something for them, as `BLPOP` does.
pub const WAITING_BYTES_MAX: usize = 256 * 1024 * 1024;
/// How long a client waits for an answer, unless configured otherwise.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest identifier of `DICTUM.ONCE`, in bytes.
pub const ONCE_ID_BYTES_MAX: usize = 256;
/// Most remembered outcomes of `DICTUM.ONCE`; the oldest is forgotten first.
pub const ONCE_OUTCOMES_MAX: usize = 100_000;
/// Most elements of collections that are gone which one entry of expiry reclaims; and most keys that it removes before version 8 of the cluster.
pub const EXPIRE_BATCH_MAX: usize = 1000;
/// Most keys and fields that one entry of expiry removes. While more are due, the next entry follows at once.
pub const EXPIRE_KEYS_MAX: usize = 10_000;
/// Units of work after which an entry of expiry removes no further key: a tenth of a turn, so that writes of clients are applied between two of them.
pub const EXPIRE_WORK_MAX: u64 = TURN_WORK_MAX / 10;
/// Most bytes of names longer than [`KEY_BYTES_MAX`] that one step of either removes, unless a single one is longer.
pub const LONG_NAMES_REMOVED_MAX: usize = 16 * 1024 * 1024;
/// Most keys that one entry of eviction removes.
pub const EVICT_BATCH_MAX: usize = 4096;
/// Most bytes of keys in one entry of eviction, unless the last one is longer.
pub const EVICT_KEY_BYTES_MAX: usize = 256 * 1024;
/// Most keys that a follower tells the leader of at once: what it has read of a bucket that evicts.
pub const TOUCHED_MAX: usize = 1024;

/// Entries that are to be stepped over, as a node remembers them.
pub const STEP_OVERS_MAX: usize = 64;
/// Entries that were stepped over, as the council's registry remembers them: the newest.
pub const STEPPED_OVER_KEPT_MAX: usize = 64;

const _: () = assert!(
    KEY_BYTES_MAX + 16 <= ORDERED_KEY_BYTES_MAX,
    "a key with its deadline and its place fits the store, and so does a field"
);
const _: () = assert!(REPLY_BYTES_MAX < CONNECTION_OUTPUT_BYTES_MAX as u64);
const _: () = assert!(
    OUTPUT_PAUSE_BYTES + TURN_OUTPUT_BYTES_MAX < CONNECTION_OUTPUT_BYTES_MAX,
    "who does not read is paused, not cut off"
);
const _: () = assert!(VALUE_BYTES_DEFAULT <= VALUE_BYTES_MAX);
const _: () = assert!(ENTRY_BYTES_MAX > VALUE_BYTES_MAX);
const _: () = assert!(PEER_MESSAGE_BYTES_MAX > ENTRY_BYTES_MAX);
const _: () =
    assert!(VALUE_BYTES_MAX + KEY_BYTES_MAX + 64 * 1024 < COMMAND_BYTES_MAX, "the largest value can be written");
const _: () = assert!(
    COMMAND_BYTES_MAX + SNAPSHOT_BLOCK_BYTES_TARGET + KEY_BYTES_MAX < SNAPSHOT_BLOCK_BYTES_MAX,
    "a field with its value, which came in one command, fits a block"
);
const _: () = assert!(BODY_BYTES_MAX + 1024 < ENTRY_BYTES_MAX, "an entry has a header before its body");
const _: () = assert!(
    PAYLOAD_BYTES_TARGET + ACCEPT_BYTES_TARGET + BODY_BYTES_MAX + 1024 * 1024 < ENTRY_BYTES_MAX,
    "a payload of the journal takes an entry, and what has come before it"
);
const _: () = assert!(ACCEPT_BYTES_TARGET + BODY_BYTES_MAX + 64 * 1024 < PEER_MESSAGE_BYTES_MAX);
const _: () = assert!(PEER_MESSAGE_BYTES_MAX <= u32::MAX as usize, "lengths on the wire have 32 bits");
const _: () = assert!(PEER_OUTPUT_BYTES_MAX > PEER_MESSAGE_BYTES_MAX);
const _: () = assert!(PUBLISHED_WINDOW_BYTES_MAX < PEER_OUTPUT_BYTES_MAX, "what is published does not break a link");
const _: () = assert!(ACCEPT_BYTES_TARGET + KEY_BYTES_MAX + VALUE_BYTES_MAX + 64 < PEER_MESSAGE_BYTES_MAX);
const _: () = assert!(EVICT_KEY_BYTES_MAX + KEY_BYTES_MAX + 16 * EVICT_BATCH_MAX < ACCEPT_BYTES_TARGET);
const _: () = assert!(ACCEPT_BYTES_TARGET <= FOLLOWER_TURN_BYTES_TARGET);
const _: () = assert!(FOLLOWER_TURN_BYTES_TARGET < FOLLOWER_WINDOW_BYTES_MAX);
const _: () = assert!(FOLLOWER_WINDOW_BYTES_MAX <= UNDECIDED_BYTES_MAX);
const _: () = assert!((FRAME_BYTES_TARGET as u64) < SEGMENT_BYTES);
const _: () = assert!(UNFLUSHED_BYTES_MAX >= 2 * FLUSH_BYTES, "changes go on while a flush is under way");
const _: () = assert!(UNFLUSHED_BYTES_MAX >= 2 * LOG_BYTES_PER_SNAPSHOT, "and so does the log");
const _: () = assert!(MOVEMENT_BYTES_PER_SECOND_MIN < MOVEMENT_BYTES_PER_SECOND_BEGIN);
const _: () = assert!(MOVEMENT_BYTES_PER_SECOND_BEGIN <= SNAPSHOT_BYTES_PER_SECOND);
const _: () = assert!(MOVEMENT_BYTES_PER_SECOND_MIN >= SNAPSHOT_BLOCK_BYTES_TARGET as u64);
const _: () = assert!(HASH_SLOTS.is_power_of_two());
const _: () = assert!(VOTERS_MAX <= NODES_MAX && NODES_MAX <= NODES_EVER_MAX as usize);
