//! Who is in a run, and what they are about: drawn before it begins.

use std::collections::BTreeMap;

use base::Rng;

use crate::callers::{Caller, Role};
use crate::chaos::{Chaos, Fault, Planned};
use crate::door::Door;
use crate::fading::Fading;
use crate::workload::{BOUNDED, Mix, TIMED};

/// Tells its drawing from that of the other terms.
const BUDGETS_DRAWN: u64 = 0xb0d6;

/// What clients ask, all kinds of a run together.
pub(super) fn draw_mix<N: Door>(chaos: &Chaos, rng: &mut Rng) -> Mix {
    let mut mix = Mix::draw(rng);
    if let Some(seed) = chaos.terms_seed {
        mix.add_terms(&mut Rng::new(seed));
    }
    mix.buckets.retain(|_| N::HAS_BUCKETS);
    mix.settled = chaos.plan.iter().all(|planned| planned.fault != Fault::SettingsChange);
    if let Some(seed) = chaos.hashes_seed.filter(|_| N::HAS_BUCKETS) {
        mix.add_hashes(&mut Rng::new(seed));
    }
    if let Some(seed) = chaos.sets_seed.filter(|_| N::HAS_BUCKETS) {
        mix.add_sets(&mut Rng::new(seed));
    }
    if let Some(seed) = chaos.sorted_sets_seed.filter(|_| N::HAS_BUCKETS) {
        mix.sorted.often = Rng::new(seed).between(2, 8);
    }
    if let Some(seed) = chaos.documents_seed.filter(|_| N::HAS_BUCKETS) {
        mix.documents.often = Rng::new(seed).between(1, 6);
    }
    if let Some(seed) = chaos.lists_seed.filter(|_| N::HAS_BUCKETS) {
        let mut rng = Rng::new(seed);
        // In some runs clients do little else but wait for each other.
        let waits = rng.chance(1, 3);
        mix.lists.often = if waits { rng.between(8, 14) } else { rng.between(1, 6) };
        mix.lists.waits = if waits { rng.between(2, 4) } else { rng.below(2) };
    }
    if let Some(seed) = chaos.sketches_seed.filter(|_| N::HAS_BUCKETS) {
        mix.sketches.often = Rng::new(seed).between(1, 4);
    }
    if let Some(seed) = chaos.places_seed.filter(|_| N::HAS_BUCKETS) {
        mix.places.often = Rng::new(seed).between(1, 4);
    }
    if let Some(seed) = chaos.fading_seed.filter(|_| N::HAS_BUCKETS) {
        mix.fading = Fading::draw(&mut Rng::new(seed));
    }
    if let Some(seed) = chaos.streams_seed.filter(|_| N::HAS_BUCKETS) {
        let mut rng = Rng::new(seed);
        mix.streams.often = rng.between(1, 6);
        // In some runs clients do little else but wait for what is new to their group.
        mix.streams.waits = rng.chance(1, 3);
        mix.streams.often += if mix.streams.waits { 7 } else { 0 };
    }
    if let Some(seed) = chaos.scripts_seed.filter(|_| N::HAS_BUCKETS) {
        mix.scripts = (seed, Rng::new(seed).between(1, 6));
    }
    if let Some(seed) = chaos.partitions_seed.filter(|_| N::HAS_BUCKETS) {
        mix.add_partitions(&mut Rng::new(seed));
    }
    // Only a cluster in which every node knows budgets can be given one.
    if let Some(seed) = chaos.terms_seed.filter(|_| N::HAS_BUCKETS && chaos.versions_seed.is_none()) {
        mix.add_budgets(&mut Rng::new(seed ^ BUDGETS_DRAWN));
    }
    mix
}

/// Those who stand beside the clients: who publish and listen, let others wait, observe.
pub(super) fn draw_callers<N: Door>(chaos: &Chaos, timeout: u64) -> Vec<Caller> {
    let mut callers = match chaos.pubsub_seed.filter(|_| N::HAS_BUCKETS) {
        Some(seed) => draw_audience(&mut Rng::new(seed), chaos.nodes, timeout),
        None => Vec::new(),
    };
    if let Some(seed) = chaos.pauses_seed.filter(|_| N::HAS_BUCKETS) {
        callers.extend(draw_pausers(&mut Rng::new(seed), chaos.nodes, callers.len(), timeout));
    }
    if let Some(seed) = chaos.observers_seed.filter(|_| N::HAS_BUCKETS) {
        let changes = |planned: &Planned| matches!(planned.fault, Fault::VotersChange | Fault::MembersChange);
        let copies_move = chaos.plan.iter().any(changes);
        let observers = draw_observers(&mut Rng::new(seed), chaos.nodes, callers.len(), timeout);
        callers.extend(observers.into_iter().map(|caller| caller.where_copies_move(copies_move)));
    }
    if let Some(seed) = chaos.costly_seed.filter(|_| N::HAS_BUCKETS) {
        callers.extend(draw_spenders(&mut Rng::new(seed), chaos.nodes, callers.len(), timeout));
    }
    // A cluster whose nodes do not all know how refuses it.
    if let Some(seed) = chaos.moves_seed.filter(|_| N::HAS_BUCKETS) {
        callers.extend(draw_movers(&mut Rng::new(seed), chaos.nodes, callers.len(), timeout));
    }
    if let Some(seed) = chaos.backups_seed.filter(|_| N::HAS_BUCKETS) {
        callers.extend(draw_savers(&mut Rng::new(seed), chaos.nodes, callers.len(), timeout));
    }
    if let Some(seed) = chaos.subscriptions_seed.filter(|_| N::HAS_BUCKETS) {
        callers.extend(draw_subscribers(&mut Rng::new(seed), chaos.nodes, callers.len(), timeout));
    }
    callers
}

/// Two to eight who subscribe to changes; behind so many callers.
fn draw_subscribers(rng: &mut Rng, nodes: u16, before: usize, timeout: u64) -> Vec<Caller> {
    let numbers = before..before + rng.between(2, 8) as usize;
    numbers.map(|number| Caller::new(number as u64, rng.fork(), Role::Subscribes, nodes, timeout)).collect()
}

/// One or two who send costly commands; behind so many callers.
fn draw_spenders(rng: &mut Rng, nodes: u16, before: usize, timeout: u64) -> Vec<Caller> {
    let count = rng.between(1, 2) as usize;
    let numbers = before..before + count;
    numbers.map(|number| Caller::new(number as u64, rng.fork(), Role::Spends, nodes, timeout)).collect()
}

/// One to three who move keys between databases; behind so many callers.
fn draw_movers(rng: &mut Rng, nodes: u16, before: usize, timeout: u64) -> Vec<Caller> {
    let numbers = before..before + rng.between(1, 3) as usize;
    numbers.map(|number| Caller::new(number as u64, rng.fork(), Role::Moves, nodes, timeout)).collect()
}

/// One to six who make backups, which is more than a node lets; behind so many callers.
fn draw_savers(rng: &mut Rng, nodes: u16, before: usize, timeout: u64) -> Vec<Caller> {
    let numbers = before..before + rng.between(1, 6) as usize;
    numbers.map(|number| Caller::new(number as u64, rng.fork(), Role::BacksUp, nodes, timeout)).collect()
}

/// Kinds that are no misfortune, as far as they are in a run.
pub(super) fn injected(chaos: &Chaos, mix: &Mix) -> BTreeMap<Fault, u64> {
    let with_terms = mix.buckets.iter().filter(|(name, _)| [TIMED, BOUNDED].contains(name)).count();
    let with_hashes = u64::from(mix.uses_hashes());
    let with_sets = u64::from(mix.uses_sets());
    BTreeMap::from([
        (Fault::BucketTerms, with_terms as u64),
        (Fault::Hashes, with_hashes),
        (Fault::Sets, with_sets),
        (Fault::SortedSets, u64::from(mix.sorted.often > 0)),
        (Fault::Documents, u64::from(mix.documents.often > 0)),
        (Fault::Lists, u64::from(mix.lists.often > 0)),
        (Fault::HyperLogLogs, u64::from(mix.sketches.often > 0)),
        (Fault::Places, u64::from(mix.places.often > 0)),
        (Fault::FieldExpiry, u64::from(mix.fading.often > 0)),
        (Fault::Streams, u64::from(mix.streams.often > 0)),
        (Fault::Pauses, u64::from(chaos.pauses_seed.is_some())),
        (Fault::Scripts, u64::from(mix.scripts.1 > 0)),
        (Fault::Partitions, u64::from(mix.parted)),
        (Fault::CostlyCommands, u64::from(chaos.costly_seed.is_some())),
        (Fault::Moves, u64::from(chaos.moves_seed.is_some())),
        (Fault::Backups, u64::from(chaos.backups_seed.is_some())),
        (Fault::Observers, u64::from(chaos.observers_seed.is_some())),
        (Fault::Routers, u64::from(chaos.routers_seed.is_some())),
        (Fault::Restless, u64::from(chaos.restless_seed.is_some())),
    ])
}

/// One or two who let others wait, and perhaps one who is shown what these do; behind so many callers.
fn draw_pausers(rng: &mut Rng, nodes: u16, before: usize, timeout: u64) -> Vec<Caller> {
    let mut roles = vec![Role::Pauses; rng.between(1, 2) as usize];
    roles.extend(rng.chance(1, 2).then_some(Role::Monitors));
    let numbered = roles.into_iter().enumerate();
    numbered.map(|(place, role)| Caller::new((before + place) as u64, rng.fork(), role, nodes, timeout)).collect()
}

/// One or two who ask nodes what these have seen; behind so many callers.
fn draw_observers(rng: &mut Rng, nodes: u16, before: usize, timeout: u64) -> Vec<Caller> {
    let count = rng.between(1, 2) as usize;
    (before..before + count).map(|id| Caller::new(id as u64, rng.fork(), Role::Observes, nodes, timeout)).collect()
}

/// One or two who publish, some who listen, and some who watch.
fn draw_audience(rng: &mut Rng, nodes: u16, timeout: u64) -> Vec<Caller> {
    let counts = [
        (Role::Publishes, rng.between(1, 2)),
        (Role::Listens, rng.between(2, 4)),
        (Role::Watches, rng.between(1, 3)),
        (Role::Keeps, rng.between(1, 3)),
    ];
    let roles = counts.into_iter().flat_map(|(role, count)| (0..count).map(move |_| role));
    roles.enumerate().map(|(id, role)| Caller::new(id as u64, rng.fork(), role, nodes, timeout)).collect()
}
