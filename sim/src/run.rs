//! One run: a phase with faults, a phase in which the cluster has to heal, then the judgement of the checkers.

use std::collections::BTreeMap;

use crate::chaos::{Chaos, Fault, MS, Options, SECOND};
use crate::checkers::{durability, expiry, levels, linearizability, liveness, once, redirections, rooms, scan, terms};
use crate::cluster::Cluster;
use crate::door::Door;
use crate::history::{DefaultLifetime, Operation, bucket_of, raw_key};
use crate::settings::{Settings, span_of};
use crate::trace::Trace;
use crate::workload::DROPPED;

/// How long the cluster may take to heal, to serve everybody and to converge.
pub const HEALING_ALLOWED: u64 = 30 * SECOND;
/// How long a node whose disk is slow may lead on when all other faults are over. Others may have been slow just before.
const SLOW_LEADER_ALLOWED: u64 = 60 * SECOND;
/// How long after the last fault a request may still fail.
const FAILURES_ALLOWED: u64 = 15 * SECOND;
/// Requests that all succeed for so long mean that the cluster has settled.
const SETTLED_AFTER: u64 = SECOND;
/// Steps in which the end of a phase is looked for.
const STEP: u64 = 50 * MS;
/// Configurations that the search for an order may visit for one group of keys.
const CONFIGURATIONS_MAX: usize = 200_000;

/// Something that must not be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which property.
    pub property: String,
    /// What was seen.
    pub text: String,
}

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Empty if all is well.
    pub violations: Vec<Violation>,
    /// Groups of keys for which the linearizability search gave up.
    pub undecided: Vec<String>,
    /// The digest of everything that happened.
    pub digest: u64,
    /// How many events that were.
    pub events: u64,
    /// Simulated nanoseconds.
    pub simulated: u64,
    /// Operations of clients.
    pub operations: usize,
    /// Of these, acknowledged.
    pub acknowledged: usize,
    /// Faults that happened, by kind.
    pub injected: BTreeMap<Fault, u64>,
    /// Probes that were reached.
    pub probes: BTreeMap<&'static str, u64>,
    /// The events as text, if asked for.
    pub lines: Vec<String>,
    /// What clients saw, if the events were asked for.
    pub history: Vec<Operation>,
    /// How many faults were planned.
    pub planned: u32,
}

/// Runs the shipping node.
#[must_use]
pub fn run(options: &Options, with_text: bool) -> Outcome {
    run_door::<node::Node>(options, with_text)
}

/// Runs whatever stands behind the door. A panic is a violation, too (where panics unwind).
#[must_use]
pub fn run_door<N: Door>(options: &Options, with_text: bool) -> Outcome {
    std::panic::catch_unwind(|| run_unguarded::<N>(options, with_text)).unwrap_or_else(|panic| {
        let text = match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
            (Some(text), _) => text.clone(),
            (None, Some(text)) => (*text).to_string(),
            (None, None) => String::new(),
        };
        let violation = Violation { property: "no panic".to_string(), text };
        // The number of planned faults is what makes a failure smaller needs to know.
        let planned = Chaos::draw(options).plan.len() as u32;
        Outcome { violations: vec![violation], planned, ..Outcome::default() }
    })
}

fn run_unguarded<N: Door>(options: &Options, with_text: bool) -> Outcome {
    let chaos = Chaos::draw(options);
    let ends_at = chaos.ends_at;
    let planned = chaos.plan.len() as u32;
    let trace = if with_text { Trace::with_text() } else { Trace::default() };
    let mut cluster: Cluster<N> = Cluster::new(chaos, options.planted, &options.dropped, trace);
    cluster.run_until(ends_at);
    let mut violations = Vec::new();
    if cluster.violations.is_empty() {
        cluster.heal();
        cluster.work_restlessly();
        let healed_at = end_slowness(&mut cluster, &mut violations);
        if let Some(facts) = finish(&mut cluster, healed_at) {
            for text in liveness::check(&facts) {
                violations.push(Violation { property: "liveness".to_string(), text });
            }
        }
    }
    cluster.close_books();
    for (property, text) in std::mem::take(&mut cluster.violations) {
        violations.push(Violation { property: property.to_string(), text });
    }
    let history = std::mem::take(&mut cluster.record.operations);
    let Judged { found, mut undecided, history } = judge_history(&mut cluster, history, ends_at);
    undecided.extend(std::mem::take(&mut cluster.undecided));
    for (property, texts) in found {
        violations.extend(texts.into_iter().map(|text| Violation { property: property.to_string(), text }));
    }
    for violation in &mut violations {
        if violation.text.len() > 6_000 {
            violation.text = violation.text.chars().take(6_000).collect();
        }
    }
    let simulated = cluster.now;
    let acknowledged = history.iter().filter(|operation| operation.outcome == crate::history::Outcome::Done).count();
    Outcome {
        violations,
        undecided,
        digest: cluster.trace.digest(),
        events: cluster.trace.count(),
        simulated,
        operations: history.len(),
        acknowledged,
        injected: cluster.injected,
        probes: cluster.probes,
        lines: cluster.trace.into_lines(),
        history: if with_text { history } else { Vec::new() },
        planned,
    }
}

/// What the judges of a history have found.
pub(crate) struct Judged {
    /// By property.
    pub found: Vec<(&'static str, Vec<String>)>,
    /// Groups of keys for which the search gave up.
    pub undecided: Vec<String>,
    /// What was judged: without that of which nothing is promised.
    pub history: Vec<Operation>,
}

/// Facts about operations by their places in what is left of a history, given those by their places in all of it.
fn renumbered(
    known: &BTreeMap<usize, u64>,
    history: &[Operation],
    keeps: impl Fn(&Operation) -> bool,
) -> BTreeMap<usize, u64> {
    let kept = history.iter().enumerate().filter(|(_, operation)| keeps(operation));
    kept.enumerate().filter_map(|(now, (before, _))| known.get(&before).map(|at| (now, *at))).collect()
}

/// Judges a history and what else clients have seen; what was acknowledged before `settled` has come to every node.
pub(crate) fn judge_history<N: Door>(cluster: &mut Cluster<N>, mut history: Vec<Operation>, settled: u64) -> Judged {
    let lacking_room = rooms::check(&history, &cluster.record.rooms);
    // Nothing is promised of what was dropped, nor of what the nodes may have forgotten, except that it is gone.
    let excused = |bucket: &str| bucket == DROPPED || cluster.begun_anew.contains(bucket);
    let is_judged = |operation: &Operation| !operation.commands.iter().any(|command| excused(bucket_of(&command.key)));
    cluster.record.gone = renumbered(&cluster.record.gone, &history, is_judged);
    history.retain(is_judged);
    cluster.record.levels.sights.retain(|sight| !excused(bucket_of(&sight.key)));
    let settings = cluster.record.settings.clone();
    say_terms(&mut history, &settings);
    refuse_over_partitions(&mut history, &cluster.buckets);
    let clock_error = 2 * cluster.clock_error_max() + 5 * MS;
    let slowest = cluster.chaos.clock_rates.iter().copied().min().unwrap_or(1_000_000);
    let mut found = Vec::new();
    let mut judge = |property: &'static str, texts: Vec<String>| found.push((property, texts));
    judge("no unexpected answer", std::mem::take(&mut cluster.record.unexpected));
    judge("room", lacking_room);
    judge("durability", durability::check(&history));
    judge("exactly once", once::check(&history));
    judge("expiry", expiry::check(&history));
    let record = &cluster.record;
    judge("levels", levels::check(&record.levels, slowest));
    judge("scan", scan::check(&history, &record.scans, scan::LASTING_PREFIX));
    judge("scan", scan::check(&history, &record.parted_scans, scan::LASTING_PREFIX_PARTED));
    judge("scan", scan::check(&history, &record.hash_scans, scan::LASTING_FIELDS));
    judge("scan", scan::check(&history, &record.set_scans, scan::LASTING_MEMBERS));
    judge("scan", scan::check(&history, &record.sorted_scans, scan::LASTING_SCORED));
    judge("terms", terms::check(&history, record, &settings, clock_error));
    judge("redirections", redirections::check(&record.redirections));
    judge("messages", cluster.judge_messages());
    judge("waiting", cluster.judge_waiting(&history));
    judge("copies", cluster.judge_copies());
    judge("notes", cluster.judge_notes(settled));
    judge("subscriptions", cluster.judge_subscriptions(settled));
    let limits =
        linearizability::Limits { clock_error, configurations_max: CONFIGURATIONS_MAX, clients_in_order: true };
    let shown = linearizability::check(&settings.history, limits);
    judge("settings", shown.violations);
    let mut verdict = linearizability::check(&history, limits);
    judge("linearizability", verdict.violations);
    verdict.undecided.extend(shown.undecided);
    Judged { found, undecided: verdict.undecided, history }
}

/// The partition that a key of a history is in, where its bucket has so many.
pub(crate) fn partition_of(key: &str, count: u32) -> u32 {
    let key = key.split(['#', '^', '@', '%', '~', '$', '&', '=']).next().unwrap_or_default();
    u32::from(base::slots::hash_slot(raw_key(key).as_bytes())) * count / u32::from(base::limits::HASH_SLOTS)
}

/// Of a transaction over several partitions nothing was done, whether or not its refusal has arrived.
fn refuse_over_partitions(history: &mut [Operation], buckets: &[(&str, &str)]) {
    let partitions_of = |bucket: &str| {
        let (_, settings) = buckets.iter().find(|(name, _)| *name == bucket)?;
        let mut words = settings.split(' ').skip_while(|word| *word != "PARTITIONS");
        words.nth(1)?.parse::<u32>().ok()
    };
    let maybe = |operation: &&mut Operation| {
        operation.outcome == crate::history::Outcome::Maybe && operation.commands.len() > 1
    };
    for operation in history.iter_mut().filter(maybe) {
        let Some(count) = operation.commands.first().and_then(|command| partitions_of(bucket_of(&command.key))) else {
            continue;
        };
        let mut places = operation.commands.iter().map(|command| partition_of(&command.key, count));
        let first = places.next();
        if places.any(|place| Some(place) != first) {
            operation.outcome = crate::history::Outcome::Failed;
        }
    }
}

/// Property: while clients write, a node whose disk is slow loses all that it leads to those whose disks are not. Then its disk is mended.
fn end_slowness<N: Door>(cluster: &mut Cluster<N>, violations: &mut Vec<Violation>) -> u64 {
    let deadline = cluster.now + SLOW_LEADER_ALLOWED;
    let lost = wait_for(cluster, deadline, |cluster| !cluster.slow_one_leads());
    if let Some(name) = cluster.end_slowness()
        && !lost
        && cluster.violations.is_empty()
    {
        let text =
            format!("{name} leads on, {} s after the last fault but its slow disk", SLOW_LEADER_ALLOWED / SECOND);
        violations.push(Violation { property: "slow leaders".to_string(), text });
    }
    cluster.now
}

/// Writes into a history what its buckets' terms may do to each command, so that it says all that its judges need.
fn say_terms(history: &mut [Operation], settings: &Settings) {
    for operation in history {
        let span = span_of(operation);
        for place in 0..operation.commands.len() {
            let command = &operation.commands[place];
            let lifetime = settings.lifetime_of(command, operation).filter(|_| command.op.may_grow());
            let is_bounded = settings.quota(bucket_of(&command.key), span).0.is_some();
            let refusable = is_bounded && command.needs_room() && operation.commands.len() > 1;
            let command = &mut operation.commands[place];
            command.lifetime = lifetime.map(|it| DefaultLifetime { least: it.least_ms, certain: it.certain });
            command.refusable = refusable;
        }
    }
}

/// Lets a healed cluster settle, clients finish, and reads every key. `None` if all went well.
fn finish<N: Door>(cluster: &mut Cluster<N>, healed_at: u64) -> Option<liveness::Facts> {
    let deadline = healed_at + HEALING_ALLOWED;
    let mut served = wait_for(cluster, deadline, |cluster| {
        cluster.now >= cluster.record.last_failure.max(healed_at) + SETTLED_AFTER
    });
    cluster.drain_clients();
    // Votes come to those who shall have them also where work never pauses.
    let settled = wait_for(cluster, deadline, Cluster::votes_are_settled);
    if served && !settled && cluster.violations.is_empty() {
        let text = format!("who shall vote does not, {} s after the last fault", HEALING_ALLOWED / SECOND);
        cluster.violations.push(("liveness", text + &cluster.unsettled_votes()));
        cluster.draw_portraits();
    }
    cluster.drain_restless();
    served = served && wait_for(cluster, deadline, Cluster::clients_are_idle);
    // Every key is read until a round of reads has gone through without a failure.
    while served {
        let begun = cluster.now;
        cluster.read_everything();
        served = wait_for(cluster, deadline, Cluster::clients_are_idle);
        if served && cluster.record.last_failure < begun {
            break;
        }
    }
    // From here on everybody goes by the settings that are shown, and it is seen whether the entries do.
    if served && wait_for(cluster, deadline, |cluster| liveness::converged(&cluster.endings())) {
        cluster.try_terms();
        cluster.look_around();
        served = wait_for(cluster, deadline, Cluster::clients_are_idle);
    }
    let late = cluster.record.last_failure > healed_at + FAILURES_ALLOWED;
    let converged = wait_for(cluster, deadline, |cluster| {
        liveness::converged(&cluster.endings())
            && cluster.caches_are_calm()
            && cluster.is_swept()
            && cluster.is_everybody_told()
            && cluster.subscribers_are_live()
            && cluster.behind_in_version().is_empty()
            // One may have come back with the healing.
            && cluster.judge_folders_that_came_back().is_none()
            && cluster.judge_addresses().is_none()
            && cluster.judge_keys().is_none()
            && cluster.judge_users().is_none()
            && cluster.judge_trails().is_none()
    });
    if let Some(text) = cluster.judge_left_behind() {
        cluster.violations.push(("left behind", text));
    }
    let behind = cluster.behind_in_version();
    if !behind.is_empty() {
        let text =
            format!("{} know of no newer version in the calm at the end, though all nodes are new", behind.join(", "));
        cluster.violations.push(("versions", text));
    }
    if let Some(text) = cluster.judge_copies_of_folders() {
        cluster.violations.push(("earlier copies", text));
    }
    if let Some(text) = cluster.judge_folders_that_came_back() {
        cluster.violations.push(("folders that came back", text));
    }
    if let Some(text) = cluster.judge_users() {
        cluster.violations.push(("users", text));
    }
    if let Some(text) = cluster.judge_trails() {
        cluster.violations.push(("audit", text));
    }
    if let Some(text) = cluster.judge_keys() {
        cluster.violations.push(("keys", text));
    }
    if let Some(text) = cluster.judge_addresses() {
        cluster.violations.push(("addresses", text));
    }
    if !cluster.is_swept() {
        let text = "elements of collections that are gone are there still in the calm at the end".to_owned();
        cluster.violations.push(("garbage", text));
    }
    if let Some(text) = cluster.judge_kept_answers() {
        cluster.violations.push(("answers kept", text));
    }
    if !cluster.caches_are_calm() {
        let text = "a bucket that evicts is above its quota in the calm at the end".to_owned();
        cluster.violations.push(("quota", text));
    }
    if !cluster.violations.is_empty() || (served && !late && converged) {
        return None;
    }
    cluster.draw_portraits();
    let failure = (cluster.record.last_failure.saturating_sub(healed_at), cluster.record.last_failure_reason.clone());
    Some(liveness::Facts {
        allowed: HEALING_ALLOWED,
        clients_served: served && !late,
        last_failure: Some(failure),
        endings: cluster.endings(),
    })
}

fn wait_for<N: Door>(cluster: &mut Cluster<N>, deadline: u64, done: impl Fn(&Cluster<N>) -> bool) -> bool {
    loop {
        if !cluster.violations.is_empty() {
            return false;
        }
        if done(cluster) {
            return true;
        }
        if cluster.now >= deadline {
            return false;
        }
        let until = cluster.now + STEP;
        cluster.run_until(until);
    }
}
