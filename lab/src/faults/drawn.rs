//! Plans that chance draws: one fault after the other, of every kind, with quiet time between them. Equal seeds draw equal plans.

use std::time::Duration;

use base::Rng;

use super::schedule::{STEPS_MAX, Schedule};

/// Milliseconds that a fault lasts: from, to.
const LASTS_MS: (u64, u64) = (1_500, 4_000);
/// Milliseconds of quiet behind it: from, to.
const QUIET_MS: (u64, u64) = (3_000, 6_000);
/// What can happen, each as often as the others, what undoes it, and what a system must be able to do for it. `{whom}` is drawn; `{lasts}` is
/// how long in seconds.
const FAULTS: [(&str, Option<&str>, &[&str]); 11] = [
    ("kill {whom}", Some("restart it"), &["kill", "start"]),
    ("kill leader", Some("restart it"), &["kill", "start"]),
    ("terminate {whom}", Some("restart it"), &["terminate", "start"]),
    ("pause {whom} {lasts}s", None, &["pause", "resume"]),
    ("pause leader {lasts}s", None, &["pause", "resume"]),
    ("cut {whom} {lasts}s", None, &["cut", "heal"]),
    ("cut {whom} deaf {lasts}s", None, &["cut", "heal"]),
    ("cut {whom} mute {lasts}s", None, &["cut", "heal"]),
    ("slow-disk {whom} {ms}ms", Some("slow-disk it 0"), &["slow-disk"]),
    ("slow-links {whom} {ms}ms", Some("slow-links it 0"), &["slow-links"]),
    ("noise 50% 50% {lasts}s", None, &["noise"]),
];

/// A plan for a load of this length on a system of these nodes, of which at most one is disturbed at a time. All of it is over before the
/// load ends, as far as the load lasts some seconds; there is at least one fault. Long
/// loads have as many faults a minute as short ones, up to [`STEPS_MAX`] steps.
///
/// `can` says of the actions of [`super::hooks::ACTIONS`] which ones the system is able to do: a plan for one that can do nothing is empty.
///
/// # Errors
/// If there are no nodes.
pub fn draw(seed: u64, length: Duration, names: &[String], can: &dyn Fn(&str) -> bool) -> Result<Schedule, String> {
    if names.is_empty() {
        return Err("a system without nodes cannot be disturbed".to_owned());
    }
    let possible: Vec<usize> =
        (0..FAULTS.len()).filter(|&fault| FAULTS[fault].2.iter().all(|action| can(action))).collect();
    if possible.is_empty() {
        return Ok(Schedule::default());
    }
    let mut rng = Rng::new(seed);
    let length = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    let mut deck: Vec<usize> = Vec::new();
    let mut lines = Vec::new();
    let mut at = rng.between(1_000, 2_500).min(length / 5);
    loop {
        let lasts = rng.between(LASTS_MS.0, LASTS_MS.1).min(length / 4);
        let ends = at + lasts;
        // The last quiet time belongs to the plan: what a fault has broken shows when it is over.
        if !lines.is_empty() && (ends + QUIET_MS.0 / 2 > length || lines.len() + 2 > STEPS_MAX) {
            return Schedule::parse(&lines.join("; "));
        }
        if deck.is_empty() {
            deck.extend(&possible);
        }
        let (what, undo, _) = FAULTS[deck.swap_remove(rng.below(deck.len() as u64) as usize)];
        let whom = if rng.chance(1, 2) { "leader" } else { rng.pick(names).as_str() };
        let what = what
            .replace("{whom}", whom)
            .replace("{lasts}", &seconds(lasts))
            .replace("{ms}", &rng.between(5, 60).to_string());
        lines.push(format!("{}s {what}", seconds(at)));
        lines.extend(undo.map(|undo| format!("{}s {undo}", seconds(ends))));
        at = ends + rng.between(QUIET_MS.0, QUIET_MS.1);
    }
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{:03}", milliseconds / 1_000, milliseconds % 1_000)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn plan(seed: u64, seconds: u64) -> Schedule {
        let names = ["n1", "n2", "n3"].map(str::to_owned);
        draw(seed, Duration::from_secs(seconds), &names, &|_| true).expect("there are nodes")
    }

    #[test]
    fn equal_seeds_draw_equal_plans_of_all_kinds() {
        assert_eq!(plan(7, 300), plan(7, 300));
        assert_ne!(plan(7, 300), plan(8, 300));
        let kinds = |plan: &Schedule| -> BTreeSet<String> {
            let word =
                |step: &super::super::schedule::Step| step.action.to_string().split(' ').next().map(str::to_owned);
            plan.steps.iter().filter_map(word).collect()
        };
        let all: Vec<String> = kinds(&plan(7, 300)).into_iter().collect();
        assert_eq!(all, ["cut", "kill", "noise", "pause", "restart", "slow-disk", "slow-links", "terminate"]);
    }

    #[test]
    fn only_what_a_system_can_do_is_drawn() {
        let names = ["n1".to_owned()];
        let drawn = |can: &[&str]| {
            draw(7, Duration::from_secs(300), &names, &|action| can.contains(&action))
                .expect("there are nodes")
                .to_string()
        };
        assert_eq!(drawn(&["kill", "pause", "leader"]), "", "neither start nor resume");
        let killed = drawn(&["kill", "start"]);
        assert!(
            killed.contains("kill") && !["pause", "cut", "noise", "slow"].iter().any(|word| killed.contains(word)),
            "{killed}"
        );
    }

    #[test]
    fn plans_fit_into_their_loads() {
        for seed in 0..50 {
            for seconds in [3, 10, 60, 900, 3_600, 10_800] {
                let plan = plan(seed, seconds);
                assert!(!plan.steps.is_empty() && plan.steps.len() <= STEPS_MAX, "{seed} {seconds}");
                assert!(plan.end() < Duration::from_secs(seconds), "{seed} {seconds}: {plan}");
                // A fault and the quiet behind it take 10 s at most, however long it goes on.
                assert!(seconds < 60 || plan.end() > Duration::from_secs(seconds - 15), "{seed} {seconds}: {plan}");
            }
        }
        assert!(draw(1, Duration::from_secs(9), &[], &|_| true).is_err());
    }
}
