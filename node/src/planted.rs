//! Mistakes on purpose: the simulator plants them to prove that its checkers see them.

/// Bugs that the simulator plants to prove that its checkers see them. Each names the rule it breaks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Planted {
    /// Replies are sent and entries counted before they are on disk.
    AnswerBeforeFsync,
    /// The leader counts its own copy before its journal has it.
    CountUnsyncedSelf,
    /// Reads are answered without asking a majority.
    ReadWithoutConfirmation,
    /// A follower that vouches for its leader is enough for its reads, though the two are no majority.
    VouchedByFew,
    /// A restarted replica has forgotten what it promised.
    ForgetPromise,
    /// A damaged record is taken for the end of the log.
    DamageIsTheEnd,
    /// A repeated command is applied again.
    ApplyRetryTwice,
    /// A follower lets a leader overwrite what is decided.
    TruncateDecided,
    /// The end of a journal whose last write was broken off is taken for damage.
    TornIsDamage,
    /// A replica hides a key as soon as its own clock says so.
    ExpireByOwnClock,
    /// Entries carry the time of the leader's own clock, whatever those of the others show.
    OwnTime,
    /// A batch for the store says that it contains one entry more than it does.
    PositionAheadOfData,
    /// The log and the journal are cut as soon as a batch has left for the store, before it is there.
    CutBeforeStored,
    /// A replica that is in memory only votes after a restart as if it remembered what it promised.
    VoteWithAmnesia,
    /// A state that a peer has sent is installed before the store has synced it.
    InstalledBeforeSynced,
    /// The store is told where the state is that a peer has sent before its records are there.
    StateNamedBeforeLoaded,
    /// A write of the durability `all` is answered once a majority has it.
    AllIsAMajority,
    /// A read with a token is answered whether or not the state has come so far.
    StaleSession,
    /// The leader of a bucket that evicts removes keys from its own state, and says nothing of it in the log.
    EvictionOutsideTheLog,
    /// A bucket goes on growing at its quota.
    FullBucketGrows,
    /// A bulletin is taken whether or not it, or a later one, was taken before.
    BulletinTakenTwice,
    /// One bulletin in eight is not sent.
    BulletinForgotten,
    /// One of eight keys that clients keep and that has changed is not told to them.
    InvalidationForgotten,
    /// What has changed is told to a client before answers that are ready and not out.
    InvalidationTooEarly,
    /// One of four clients that wait for a key is not told of what comes to it.
    WaitingForgotten,
    /// A client that is gone goes on waiting for keys, and takes what comes to them.
    ElementTakenByDeadWaiter,
    /// One of four clients that wait for the end of a pause goes on waiting.
    PauseForgotten,
    /// One of four large writes that wait for their turn goes on waiting.
    LargeWriteForgotten,
    /// Reads leave no trace: what is only read seems idle.
    IdleForgetsReads,
    /// A SCAN goes on behind the next partition.
    ScanSkipsAPartition,
    /// Keys of several partitions are written to that of the first.
    WrittenBesideItsPartition,
    /// Voters change without a joint group: the new ones decide alone as soon as they are named.
    VotersChangeAtOnce,
    /// A node that is to leave is removed at once, whatever votes it has.
    RemovedWithVotes,
    /// Whoever asks whether it may give up what it has of a partition is told that it may, though it has a vote still.
    LeavesTooSoon,
    /// A leader says that a bucket in memory has moved before the votes have.
    SettledTooSoon,
    /// The number of a node that was removed is given to the next one that joins.
    NumberGivenTwice,
    /// Whoever takes a snapshot does not take from it who votes.
    SnapshotWithoutVoters,
    /// A node serves reads of what another leads from its own copy, though READONLY was not said.
    ServedWhereItShouldRedirect,
    /// READWRITE leaves in force what READONLY said.
    ReadwriteForgotten,
    /// MOVED names the node that is asked.
    MovedToItself,
    /// Slots that nobody leads are left out of the pictures of the cluster.
    SlotsWithAHole,
    /// A write that looks first does so without asking whether its state is the newest.
    LookTooSoon,
    /// Values in memory above the store stay as they are when the store gets others. (Its owner's mistake; the node knows nothing of it.)
    CacheNotWrittenThrough,
    /// The cached elements of the store stay as they are when the store has taken others.
    RunsNotForgotten,
    /// A node never finds that it is slow, and so leads on.
    SlowLeadsOn,
    /// A node whose folder was set back to an earlier copy takes part as if nothing had been.
    EarlierCopyHeard,
    /// A node whose folder was away goes on with it as if nothing had been in between.
    OutlivedUnheard,
    /// Whoever goes on alone keeps of its log only what it knows to be decided. (A mistake of the recovery; a running node knows nothing of it.)
    AloneWithTheDecided,
    /// Whoever has gone on alone listens to those that were left behind.
    LeftBehindHeard,
    /// What older nodes do not know is written before all nodes speak the version that has it.
    FeatureTooSoon,
    /// That a peer is busy is not heard: it is suspected though it lives.
    BusyUnheard,
    /// Entries may cost a few units of work more on one replica than on the next.
    BudgetByNode,
    /// An entry changes one replica's state, once, in a way that it does not change the others'.
    StateDrifts,
    /// A node steps over an entry when its operator says so, whatever the others do.
    SteppedOverAlone,
    /// Answers that are kept for who may ask again are kept when nobody can ask again.
    AnswerKeptForEver,
    /// The state for a backup is frozen as this node has it, and nobody is asked whether others know more.
    BackupUnconfirmed,
    /// A backup of what has changed is one of what has changed since it was asked for.
    BackupSinceNow,
    /// A node ends by the word of anybody who has left it behind, though its majority lives.
    LeftBehindBelieved,
    /// A node ends by the word of one member that it was removed, though its majority lives.
    FarewellBelieved,
    /// A node believes what any member says of its folder, or of another node's.
    UnsignedClaims,
    /// A leader proposes what other nodes forward without reading it.
    ForwardsUnread,
    /// A replica promises whatever round it is asked for.
    AnyRound,
    /// Writes that grow are taken though a disk is below its low mark.
    LowDiskGrows,
    /// Connections keep the rights that their users had when they logged in.
    RightsKept,
    /// Once a password under argon2id was found right, every password is right for its user.
    AnyPasswordOnceShown,
    /// Where a named subscription begins is not noted before its client has the answer.
    BeginningUnnoted,
    /// A client is not told that another one has attached to its name, and goes on.
    TakenOverUntold,
    /// A change of users is answered before other nodes have followed it.
    AnswersBeforeAll,
    /// A node goes by the users that it knows for ever.
    EndlessLease,
    /// While a disk is below its low mark what frees room is refused, too.
    LowDiskFreesNothing,
    /// Replicas do not look at what a limited user's scripts may call.
    ScriptsUnjudged,
    /// A node tells the council its key once, and not again when its operator has had that forgotten.
    KeyUntold,
    /// A node does not take over by which keys the council knows the others.
    KeysUnheard,
    /// A node tells the council once how far its audit trail is signed, and no more.
    TrailUntold,
    /// Failed logins are not told to the owner for the audit trail.
    AuditForgotten,
    /// A node that is reached at another address than before does not tell the council.
    AddressUntold,
    /// A subscription that goes on from a token is not told the first change behind it.
    ResumesOneLate,
    /// A subscription goes on behind changes that the node has no more, and is not told that they are missing.
    GapKeptQuiet,
    /// A change is not told to a subscriber who has not read what he was sent.
    SlowSkipsOne,
    /// A token of another history of the bucket is taken for a place in this one.
    TokenOfAnotherHistory,
    /// A walk leaves out changes of keys that it has told.
    WalkPassesChange,
    /// A walk tells changes of keys that it has yet to tell.
    WalkAndTailBoth,
    /// A node without a state passes over changes that it was not told by others.
    FeedGapUnseen,
}
