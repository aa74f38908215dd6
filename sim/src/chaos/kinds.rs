//! The kinds of misfortunes, and of what is no misfortune and can be chosen like one.

/// A kind of misfortune.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fault {
    /// Messages between nodes vanish.
    Loss,
    /// Messages between nodes arrive twice.
    Duplicate,
    /// Messages between nodes overtake one another.
    Reorder,
    /// Links between nodes are slow and uneven.
    SlowNetwork,
    /// One direction between two nodes is cut.
    OneWayCut,
    /// Nodes are split into parts, or one pair is cut off from each other.
    Partition,
    /// A link between nodes breaks and comes back.
    LinkReset,
    /// A client's connection breaks.
    ClientReset,
    /// A process is killed; what it wrote stays.
    Kill,
    /// A machine loses power; what was not synced may be gone.
    PowerCut,
    /// All machines lose power at once.
    PowerCutAll,
    /// A process is killed again while it starts.
    CrashAtStart,
    /// A process stands still for a while.
    Pause,
    /// A process is asked to stop, and hands over.
    Stop,
    /// Wall clocks are wrong.
    ClockOffset,
    /// Wall clocks jump.
    ClockJump,
    /// Clocks run too fast or too slow.
    ClockRate,
    /// Bits flip in files of a node that is down.
    BitRot,
    /// A sync fails.
    SyncFailure,
    /// Syncs take long.
    SlowSync,
    /// A disk has no room for a while.
    DiskFull,
    /// A node's folder is deleted.
    Wipe,
    /// A node's journal is deleted, everything else stays.
    JournalLost,
    /// Parts of files of a node that is down cannot be read any more, for good or for a while. Counted: reads that failed.
    ReadError,
    /// A bit flips in the identity file of a node that is down. Counted: starts that were refused for it.
    IdentityRot,
    /// No misfortune: the server's loop now and then commits a single payload itself, before its turn goes on.
    CommitHere,
    /// A process is killed, or loses power, while blocks of a snapshot are made or taken.
    TransferCrash,
    /// No misfortune: nodes keep values of their stores in memory above them, within small quotas. Counted: processes that do.
    ValueCache,
    /// No misfortune: clients use buckets whose entries have terms: default times to live, longest values, quotas. Counted: such buckets.
    BucketTerms,
    /// Settings of a bucket are changed by one client, and shown to others.
    SettingsChange,
    /// No misfortune: clients use hashes. Counted: runs in which they do.
    Hashes,
    /// No misfortune: clients use sets. Counted: runs in which they do.
    Sets,
    /// No misfortune: clients use sorted sets. Counted: runs in which they do.
    SortedSets,
    /// No misfortune: clients use JSON documents. Counted: runs in which they do.
    Documents,
    /// No misfortune: clients use lists. Counted: runs in which they do.
    Lists,
    /// No misfortune: clients publish and listen. Counted: messages that were heard.
    PubSub,
    /// No misfortune: clients use HyperLogLogs. Counted: runs in which they do.
    HyperLogLogs,
    /// No misfortune: clients use places. Counted: runs in which they do.
    Places,
    /// No misfortune: clients use fields of hashes that expire. Counted: runs in which they do.
    FieldExpiry,
    /// No misfortune: clients use streams. Counted: runs in which they do.
    Streams,
    /// No misfortune: clients let the others of a node wait, and are shown what these do. Counted: runs in which they do.
    Pauses,
    /// No misfortune: clients say what they want in scripts. Counted: runs in which they do.
    Scripts,
    /// No misfortune: clients ask nodes what these have seen of their keys' uses and of commands' durations. Counted: runs in which they do.
    Observers,
    /// No misfortune: some buckets are cut into several partitions. Counted: runs in which they are.
    Partitions,
    /// No misfortune: clients route by themselves, over the listener for clients of a Redis Cluster. Counted: runs in which they do.
    Routers,
    /// Nodes are drained or let serve again, and how many of them vote is changed, by clients.
    VotersChange,
    /// Each sync of a node's disk takes longer for seconds; and that of a leader when all other faults are over.
    SlowDisk,
    /// Nodes join and are removed, by clients.
    MembersChange,
    /// No misfortune: clients without think time. Counted: runs in which there are some.
    Restless,
    /// A node's folder is set back to a copy that was taken of it earlier. Counted: folders, not copies.
    SetBack,
    /// A node runs with an empty folder for a while, as if its disk was not mounted; then its folder comes back.
    FolderAway,
    /// A power cut tears blocks within: some of their sectors are new, others old. Counted: blocks.
    TornSectors,
    /// The wall clock of a node, one of less than half of them, is wrong by seconds to decades, or stands still. Counted: times that one was set so.
    WildClock,
    /// A majority of the nodes is lost for good, and one that is left goes on alone.
    UnsafeRecover,
    /// Some nodes are older than others, and become newer one by one, each at a restart.
    Versions,
    /// All nodes of a zone die at one stroke, where it has several: they may be the workers of one machine.
    ZoneLost,
    /// A node's loop is at one long piece of work, as a large entry is; its owner says so meanwhile.
    LongWork,
    /// Clients of a node read nothing for a while of what they are answered, and the node is told that much waits for them.
    SlowReaders,
    /// No misfortune: clients send costly commands and ask for large answers. Counted: runs in which they do.
    CostlyCommands,
    /// The operator has an entry of a log stepped over. Only where it is asked for.
    StepOver,
    /// No misfortune: clients move keys between databases. Only where it is asked for. Counted: runs in which they do.
    Moves,
    /// A second process with the name of a node begins, with an empty folder or a copy of the node's. Only where it is asked for.
    SecondProcess,
    /// A node is killed, and somebody speaks in its name before the others notice. Only where it is asked for.
    Impostor,
    /// Machines get other addresses. Only where it is asked for.
    Addresses,
    /// Machines lose their nodes' keys, and operators have nodes change theirs. Only where it is asked for.
    Keys,
    /// Disks have little room for a while, and perhaps none. Only where it is asked for.
    DiskLow,
    /// No misfortune: the operator changes users, and guests log in as them. Only where it is asked for.
    Users,
    /// No misfortune: clients make backups. Only where it is asked for. Counted: runs in which they do.
    Backups,
    /// No misfortune: clients subscribe to changes. Only where it is asked for. Counted: changes that they were told.
    Subscriptions,
}

/// Every kind, in the order of reports.
pub const FAULTS: [Fault; 69] = [
    Fault::Loss,
    Fault::Duplicate,
    Fault::Reorder,
    Fault::SlowNetwork,
    Fault::OneWayCut,
    Fault::Partition,
    Fault::LinkReset,
    Fault::ClientReset,
    Fault::Kill,
    Fault::PowerCut,
    Fault::PowerCutAll,
    Fault::CrashAtStart,
    Fault::Pause,
    Fault::Stop,
    Fault::ClockOffset,
    Fault::ClockJump,
    Fault::ClockRate,
    Fault::BitRot,
    Fault::SyncFailure,
    Fault::SlowSync,
    Fault::DiskFull,
    Fault::Wipe,
    Fault::JournalLost,
    Fault::ReadError,
    Fault::IdentityRot,
    Fault::CommitHere,
    Fault::TransferCrash,
    Fault::ValueCache,
    Fault::BucketTerms,
    Fault::SettingsChange,
    Fault::Hashes,
    Fault::Sets,
    Fault::SortedSets,
    Fault::Documents,
    Fault::Lists,
    Fault::PubSub,
    Fault::HyperLogLogs,
    Fault::Places,
    Fault::FieldExpiry,
    Fault::Streams,
    Fault::Pauses,
    Fault::Scripts,
    Fault::Observers,
    Fault::Partitions,
    Fault::Routers,
    Fault::VotersChange,
    Fault::SlowDisk,
    Fault::MembersChange,
    Fault::Restless,
    Fault::SetBack,
    Fault::FolderAway,
    Fault::WildClock,
    Fault::TornSectors,
    Fault::UnsafeRecover,
    Fault::Versions,
    Fault::ZoneLost,
    Fault::LongWork,
    Fault::SlowReaders,
    Fault::CostlyCommands,
    Fault::StepOver,
    Fault::Moves,
    Fault::Backups,
    Fault::Addresses,
    Fault::Keys,
    Fault::SecondProcess,
    Fault::Impostor,
    Fault::DiskLow,
    Fault::Users,
    Fault::Subscriptions,
];

impl Fault {
    /// The name used in options, files and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Fault::Loss => "loss",
            Fault::Duplicate => "duplicate",
            Fault::Reorder => "reorder",
            Fault::SlowNetwork => "slow-network",
            Fault::OneWayCut => "one-way-cut",
            Fault::Partition => "partition",
            Fault::LinkReset => "link-reset",
            Fault::ClientReset => "client-reset",
            Fault::Kill => "kill",
            Fault::PowerCut => "power-cut",
            Fault::PowerCutAll => "power-cut-all",
            Fault::CrashAtStart => "crash-at-start",
            Fault::Pause => "pause",
            Fault::Stop => "stop",
            Fault::ClockOffset => "clock-offset",
            Fault::ClockJump => "clock-jump",
            Fault::ClockRate => "clock-rate",
            Fault::BitRot => "bit-rot",
            Fault::SyncFailure => "sync-failure",
            Fault::SlowSync => "slow-sync",
            Fault::DiskFull => "disk-full",
            Fault::Wipe => "wipe",
            Fault::JournalLost => "journal-lost",
            Fault::ReadError => "read-error",
            Fault::IdentityRot => "identity-rot",
            Fault::CommitHere => "commit-here",
            Fault::TransferCrash => "transfer-crash",
            Fault::ValueCache => "value-cache",
            Fault::BucketTerms => "bucket-terms",
            Fault::SettingsChange => "settings-change",
            Fault::VotersChange => "voters",
            Fault::SlowDisk => "slow-disk",
            Fault::MembersChange => "members",
            Fault::SetBack => "set-back",
            Fault::FolderAway => "folder-away",
            Fault::WildClock => "wild-clock",
            Fault::TornSectors => "torn-sectors",
            Fault::UnsafeRecover => "unsafe-recover",
            Fault::Versions => "versions",
            Fault::ZoneLost => "zone-lost",
            Fault::LongWork => "long-work",
            Fault::SlowReaders => "slow-readers",
            Fault::CostlyCommands => "costly-commands",
            Fault::StepOver => "step-over",
            Fault::Moves => "moves",
            Fault::Backups => "backups",
            Fault::Addresses => "addresses",
            Fault::Keys => "keys",
            Fault::SecondProcess => "second-process",
            Fault::Impostor => "impostor",
            Fault::DiskLow => "disk-low",
            Fault::Users => "users",
            Fault::Subscriptions => "subscriptions",
            Fault::Hashes => "hashes",
            Fault::Sets => "sets",
            Fault::SortedSets => "sorted-sets",
            Fault::Documents => "documents",
            Fault::Lists => "lists",
            Fault::PubSub => "pubsub",
            Fault::HyperLogLogs => "hyperloglogs",
            Fault::Places => "places",
            Fault::FieldExpiry => "field-expiry",
            Fault::Streams => "streams",
            Fault::Pauses => "pauses",
            Fault::Scripts => "scripts",
            Fault::Observers => "observers",
            Fault::Partitions => "partitions",
            Fault::Routers => "routers",
            Fault::Restless => "restless",
        }
    }

    /// Whether what is counted is not how often it was done to somebody but how often somebody noticed.
    #[must_use]
    pub fn is_counted_by_effect(self) -> bool {
        matches!(self, Fault::ReadError | Fault::IdentityRot | Fault::PubSub | Fault::Subscriptions)
    }

    /// Whether whoever does it knows where each node is from the beginning on: such runs have no nodes that join, and none of which most are lost.
    #[must_use]
    pub fn knows_nodes(self) -> bool {
        matches!(
            self,
            Fault::PubSub
                | Fault::Routers
                | Fault::Observers
                | Fault::Pauses
                | Fault::CostlyCommands
                | Fault::Moves
                | Fault::Backups
        )
    }

    /// The kind with that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Fault> {
        FAULTS.into_iter().find(|fault| fault.name() == name)
    }
}
