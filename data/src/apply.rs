//! The doors of the crate: applying entries of the log, and reading.

use crate::args::Args;
use crate::blob::Blob;
use crate::change::ChangeRecord;
use crate::codec::as_recorded;
use crate::commands::{self, Run};
use crate::events::KeyEvent;
use crate::failure::Failure;
use crate::once::{Outcome, command_digest};
use crate::reply::Reply;
use crate::slots::Slots;
use crate::spec::Flags;
use crate::store::KeyRef;
use crate::transaction::{Change, Transaction};
use crate::tree::Tree;
use crate::view::View;
use base::limits::{EXPIRE_BATCH_MAX, EXPIRE_KEYS_MAX, EXPIRE_WORK_MAX, VALUE_BYTES_MAX, WORK_DEFAULT};
use base::versions::{Feature, OLDEST};
use base::{Revision, WallTime};

/// The answer to an identifier that comes back with another command.
const REUSED: Failure = Failure::Text("REUSED this identifier was used for another command; this one was not done");

/// What an entry carries beside its command, so that it means the same on every replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryContext {
    /// The proposing leader's clock.
    pub time: WallTime,
    /// Chance drawn by the proposing leader.
    pub seed: u64,
    /// Longest value that the entry may make, in bytes, as configured where its client asked; at most [`VALUE_BYTES_MAX`],
    /// which is what an entry without a limit of its own has.
    pub value_bytes_max: usize,
    /// Keys that the entry makes without a deadline get one so much later than its time, in milliseconds; 0: none.
    pub ttl_ms: u64,
    /// A state of so many bytes is full ([`Tree::bytes`]): commands that may grow it are refused; 0: never.
    pub full_at_bytes: u64,
    /// Somebody here wants to know what the changes are called. Changes nothing but [`Applied::events`].
    pub names_events: bool,
    /// The changes are recorded, with values of up to so many bytes. Changes nothing but [`Applied::records`].
    pub recorded_bytes_max: Option<usize>,
    /// The slots whose keys are in the state: scripts stay within them.
    pub slots: Slots,
    /// By which version it is applied: commands that came later are unknown. See [`base::versions`].
    pub version: u16,
    /// Most units of work that it may cost ([`crate::meter`]); past them it has done nothing.
    pub work_max: u64,
}

/// What a full bucket says to what may grow it. Redis's text, to the letter: clients know it.
pub const OUT_OF_MEMORY: Failure = Failure::Text("OOM command not allowed when used memory > 'maxmemory'.");

impl Default for EntryContext {
    fn default() -> EntryContext {
        EntryContext {
            time: WallTime(0),
            seed: 0,
            value_bytes_max: VALUE_BYTES_MAX,
            ttl_ms: 0,
            full_at_bytes: 0,
            slots: Slots::ALL,
            names_events: false,
            recorded_bytes_max: None,
            version: OLDEST,
            work_max: WORK_DEFAULT,
        }
    }
}

/// What applying an entry gave.
#[derive(Clone, PartialEq, Debug)]
pub struct Applied {
    /// The answer to the client.
    pub reply: Reply,
    /// What changed, in order; revisions count on from the tree's.
    pub changes: Vec<Change>,
    /// What the changes are called, in order, if [`EntryContext::names_events`] says that somebody wants it.
    pub events: Vec<KeyEvent>,
    /// What each change leaves behind, in order, if [`EntryContext::recorded_bytes_max`] says that it is wanted.
    pub records: Vec<ChangeRecord>,
    /// What scripts have published, in order: for whoever proposed the entry to pass on.
    pub published: Vec<Published>,
}

impl Applied {
    /// Nothing has changed.
    #[must_use]
    pub fn unchanged(reply: Reply) -> Applied {
        Applied { reply, changes: Vec::new(), events: Vec::new(), records: Vec::new(), published: Vec::new() }
    }
}

/// A message that a script has published.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Published {
    /// By `SPUBLISH`.
    pub sharded: bool,
    /// Where.
    pub channel: Blob,
    /// What.
    pub message: Blob,
}

/// Applies one command. A read is answered too, at the entry's time.
pub fn apply(tree: &mut Tree, context: &EntryContext, args: &[&[u8]]) -> Applied {
    let mut transaction = Transaction::new(tree, context);
    let reply = within_budget(&mut transaction, needs_budget(args), |transaction| run(transaction, args));
    transaction.finish(reply)
}

/// Whether the work of a command depends on the state, so that a limit has to end it.
fn needs_budget(args: &[&[u8]]) -> Budget {
    let Some(entry) = args.first().and_then(|name| commands::lookup(name)) else { return Budget::None };
    match entry.run {
        Run::Write(_) if entry.spec.flags.has(Flags::RUNS) => Budget::OfScript,
        Run::Write(_) if entry.spec.is_bounded(args) => Budget::None,
        Run::Write(_) => Budget::Undo,
        // Nothing to take back.
        Run::Read(_) => Budget::OfScript,
    }
}

/// How the budget of an entry is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Budget {
    /// Its length bounds its work.
    None,
    /// Past the limit, everything is put back.
    Undo,
    /// The same, but that is done already: by the script itself, which notes what it changes; or there is nothing to put back.
    OfScript,
}

/// Carries out what an entry asks for. If it costs more than it may, nothing has happened, and the answer says so.
fn within_budget(
    transaction: &mut Transaction<'_>,
    budget: Budget,
    act: impl FnOnce(&mut Transaction<'_>) -> Reply,
) -> Reply {
    if budget == Budget::None {
        return act(transaction);
    }
    transaction.limit_work();
    let before = (budget == Budget::Undo).then(|| transaction.begin_undo());
    let reply = act(transaction);
    let is_over = transaction.meter().is_over();
    match before {
        Some(before) if is_over => transaction.undo(before),
        Some(before) => transaction.keep(before),
        None => {}
    }
    if is_over { Reply::Error(transaction.meter().refusal()) } else { reply }
}

/// Applies `MULTI … EXEC`: all commands in order, or none if a watched key has another revision than it had.
///
/// Revisions are those of [`watch_revision`]. A command that fails answers its error and the others go on.
pub fn apply_transaction(
    tree: &mut Tree,
    context: &EntryContext,
    watches: &[(&[u8], Revision)],
    commands: &[&[&[u8]]],
) -> Applied {
    let mut transaction = Transaction::new(tree, context);
    let are_as_watched = transaction.naming(&[], |transaction| {
        watches.iter().all(|(key, revision)| {
            // A field that has expired is a change of its hash.
            transaction.settle_fields(KeyRef::new(key));
            transaction.tree().watch_revision(key) == *revision
        })
    });
    if !are_as_watched {
        return transaction.finish(Reply::NilArray);
    }
    let is_bounded = commands.iter().all(|args| needs_budget(args) == Budget::None);
    let budget = if is_bounded { Budget::None } else { Budget::Undo };
    let reply = within_budget(&mut transaction, budget, |transaction| {
        let mut replies = Vec::with_capacity(commands.len());
        for args in commands {
            // What comes after the limit would be taken back anyway.
            if transaction.meter().is_over() {
                break;
            }
            let reply = run(transaction, args);
            transaction.meter().answer(reply.bytes());
            replies.push(reply);
        }
        Reply::Array(replies)
    });
    transaction.finish(reply)
}

/// Applies one command unless `id` is remembered; then answers what it answered, and changes nothing. That `id` was used for
/// another command is an error.
pub fn apply_once(tree: &mut Tree, context: &EntryContext, id: &[u8], args: &[&[u8]]) -> Applied {
    let mut transaction = Transaction::new(tree, context);
    let command = command_digest(args);
    if let Some(outcome) = transaction.tree().once.get(id) {
        let reply = if outcome.is_of(command) { outcome.reply.clone() } else { Reply::Error(REUSED) };
        return Applied::unchanged(reply);
    }
    let reply = within_budget(&mut transaction, needs_budget(args), |transaction| run(transaction, args));
    let reply = as_recorded(reply);
    let outcome = Outcome { id: Blob::new(id), command: Some(command), reply: reply.clone() };
    transaction.tree_mut().once.insert(outcome);
    transaction.finish(reply)
}

/// What a command that writes would answer, if it changed nothing; `None` if it would change something. The state stays as it is in either case.
pub fn look(tree: &mut Tree, context: &EntryContext, args: &[&[u8]]) -> Option<Reply> {
    let moment = tree.begin_undo();
    let mut transaction = Transaction::new(tree, context);
    let reply = within_budget(&mut transaction, needs_budget(args), |transaction| run(transaction, args));
    let is_nothing = transaction.has_done_nothing();
    drop(transaction);
    let is_untouched = !tree.has_notes();
    tree.undo(moment);
    (is_nothing && is_untouched).then_some(reply)
}

/// Carries out the leader's expiry entry: removes keys and fields that have reached their deadline at the entry's time, as many as an entry of its
/// version may.
///
/// Answers how many. Keys beyond the bound are not seen any more either; the next expiry entry removes them.
pub fn expire_batch(tree: &mut Tree, context: &EntryContext) -> Applied {
    let is_large = Feature::LargeExpiries.is_in(context.version);
    expire_due(tree, context, if is_large { EXPIRE_KEYS_MAX } else { EXPIRE_BATCH_MAX })
}

/// The same with another bound: up to `limit` keys and fields. Elements of collections that are gone are reclaimed on the way.
pub fn expire_due(tree: &mut Tree, context: &EntryContext, limit: usize) -> Applied {
    let mut transaction = Transaction::new(tree, context);
    let work_max = if Feature::LargeExpiries.is_in(context.version) { EXPIRE_WORK_MAX } else { u64::MAX };
    let count = transaction.naming(&[], |transaction| transaction.expire_due(limit, work_max));
    transaction.reclaim(limit.min(EXPIRE_BATCH_MAX));
    transaction.finish(Reply::count(count))
}

/// Brings the state's time back, if it is later than `time`: clocks were wrong when that was decided. Answers 1 if it has been brought back.
///
/// Nothing happens while something is due that was not removed yet: it may have been seen to be over.
pub fn set_time_back(tree: &mut Tree, time: WallTime) -> Applied {
    let is_due = tree.next_deadline().is_some_and(|deadline| deadline <= tree.time);
    let goes_back = time < tree.time && !is_due;
    if goes_back {
        tree.time = time;
    }
    Applied::unchanged(Reply::Integer(goes_back.into()))
}

/// Removes keys to make room: the leader's eviction entry. Each of `victims` goes if it still has the revision with which it was chosen, in
/// their order, until the state has `down_to` bytes ([`Tree::bytes`]) or fewer. Answers how many went.
pub fn evict(tree: &mut Tree, context: &EntryContext, victims: &[(&[u8], Revision)], down_to: u64) -> Applied {
    let mut transaction = Transaction::new(tree, context);
    let count = transaction.naming(&[], |transaction| {
        let mut count = 0;
        for (key, revision) in victims {
            if transaction.tree().bytes() <= down_to {
                break;
            }
            count += usize::from(transaction.evict(KeyRef::new(key), *revision));
        }
        count
    });
    transaction.finish(Reply::count(count))
}

/// Answers a read. See [`View::met_expired`] for when the reply must be thrown away. One that costs more than it may answers that.
pub fn read(view: &View<'_>, args: &[&[u8]]) -> Reply {
    view.begin_work();
    let reply = read_on(view, args);
    if let Reply::Bulk(value) = &reply {
        // A value as it is stored is not built, but it would be written.
        view.meter().put(value.len() as u64);
    }
    if view.meter().is_over() { Reply::Error(view.meter().refusal()) } else { reply }
}

/// Answers a read whose work is part of more.
pub(crate) fn read_on(view: &View<'_>, args: &[&[u8]]) -> Reply {
    let run = || {
        let entry = commands::find(args)?;
        match entry.run {
            Run::Read(read) if entry.spec.flags.has(Flags::NO_TOUCH) => {
                let touches = view.set_touches(false);
                let answer = read(view, Args::in_version(args, view.version()));
                view.set_touches(touches);
                answer
            }
            Run::Read(read) => read(view, Args::in_version(args, view.version())),
            Run::Write(_) => Err(Failure::Text("ERR this command writes and was sent as a read")),
        }
    };
    run().into()
}

/// Whether a read uses the keys that it names, for a client that does (`client_uses`) or has said `CLIENT NO-TOUCH ON`: who only asks about keys does not, and who says `TOUCH` does.
#[must_use]
pub fn uses_keys(args: &[&[u8]], client_uses: bool) -> bool {
    let Some(entry) = args.first().and_then(|name| commands::lookup(name)) else { return false };
    !entry.spec.flags.has(Flags::NO_TOUCH) && (client_uses || entry.spec.name == "touch")
}

/// Answers `MULTI … EXEC` of reads alone, all at the same state.
pub fn read_transaction(view: &View<'_>, watches: &[(&[u8], Revision)], commands: &[&[&[u8]]]) -> Reply {
    for (key, revision) in watches {
        // A field that has expired is a change of its hash, also if it is not removed yet.
        if watch_revision(view, key) != *revision || view.waits_for_removal(KeyRef::new(key)) {
            return Reply::NilArray;
        }
    }
    view.begin_work();
    let mut replies = Vec::with_capacity(commands.len());
    for args in commands {
        let reply = read_on(view, args);
        view.meter().answer(reply.bytes());
        if view.meter().is_over() {
            return Reply::Error(view.meter().refusal());
        }
        replies.push(reply);
    }
    Reply::Array(replies)
}

/// What `WATCH` remembers of a key: see [`Tree::watch_revision`]. Notes if the key's time is up by the view's clock only.
#[must_use]
pub fn watch_revision(view: &View<'_>, key: &[u8]) -> Revision {
    match view.find(KeyRef::new(key)) {
        Some(record) => record.revision,
        None => view.tree().watch_revision(key),
    }
}

/// What became of `DICTUM.ONCE id`, if it is remembered.
#[must_use]
pub fn outcome<'a>(view: &View<'a>, id: &[u8]) -> Option<&'a Reply> {
    view.tree().once.get(id).map(|outcome| &outcome.reply)
}

/// Carries a command out, and names what it changes.
pub(crate) fn run(transaction: &mut Transaction<'_>, args: &[&[u8]]) -> Reply {
    transaction.naming(args, |transaction| run_unnamed(transaction, args))
}

fn run_unnamed(transaction: &mut Transaction<'_>, args: &[&[u8]]) -> Reply {
    let mut run = || {
        let entry = commands::find(args)?;
        if !transaction.knows(entry) {
            return Err(Failure::unknown_command(args));
        }
        let arguments = Args::in_version(args, transaction.version());
        match entry.run {
            Run::Read(read) => read(&transaction.view(), arguments),
            Run::Write(_) if entry.spec.flags.has(Flags::DENYOOM) && transaction.is_full() => Err(OUT_OF_MEMORY),
            Run::Write(write) => write(transaction, arguments),
        }
    };
    run().into()
}
