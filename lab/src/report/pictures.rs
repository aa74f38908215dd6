//! Which pictures a record gets: [`KINDS`] is the whole rule. It looks at what a record holds, and never at its name.

use std::collections::{BTreeMap, BTreeSet};

use super::chart::curves::{self, Curve};
use super::chart::multiples::{self, Panel, Variable};
use super::chart::{Figure, history, scaling, worth};
use super::compare;
use super::gather::{self, Group, chosen, groups, of_operation, operations};
use super::over_time::{draw_heat, draw_lags, draw_timelines, has_heat, has_lags, has_timeline};
use super::silence;
use crate::record::Record;

/// Most curves in one picture: more can't be told apart.
const CURVES_MAX: usize = 7;
/// Most curves that have their service time beside them.
const DASHED_MAX: usize = 3;
/// Most operations that get a picture of curves of their own.
const OPERATIONS_MAX: usize = 4;
/// Most timelines and heat maps of a record.
pub(super) const TIMELINES_MAX: usize = 4;
/// Most small charts in one picture.
const PANELS_MAX: usize = 9;
/// One kind of picture.
pub struct Kind {
    /// What it is called, for tests and people.
    pub name: &'static str,
    /// Whether a record holds what it needs.
    pub fits: fn(&Record) -> bool,
    /// Draws it; may find nothing worth drawing after all.
    pub draw: fn(&Record) -> Vec<Figure>,
}

/// Every kind, in the order in which they stand on the page.
pub const KINDS: [Kind; 10] = [
    Kind { name: "history", fits: |r| r.verdict.as_ref().is_some_and(|v| !v.offending.is_empty()), draw: draw_history },
    Kind { name: "timeline", fits: |r| r.measurements.iter().any(has_timeline), draw: draw_timelines },
    Kind { name: "lags", fits: |r| r.measurements.iter().any(has_lags), draw: draw_lags },
    Kind { name: "silences", fits: |r| silence::rows(r).iter().any(|row| row.values.len() > 1), draw: silence::draw },
    Kind { name: "ratios", fits: |r| compare::sides(r).len() > 1, draw: compare::draw },
    Kind { name: "scaling", fits: |r| !r.fits.is_empty(), draw: draw_fits },
    Kind { name: "worth", fits: |r| worths(r).iter().any(|(_, machines)| machines.len() > 1), draw: draw_worths },
    Kind { name: "multiples", fits: |r| !varied(r).is_empty(), draw: draw_multiples },
    Kind { name: "curves", fits: |r| !operations(r).is_empty(), draw: draw_curves },
    Kind { name: "heat", fits: |r| r.measurements.iter().any(has_heat), draw: draw_heat },
];

/// All pictures of a record.
pub fn pictures(record: &Record) -> Vec<Figure> {
    KINDS.iter().filter(|kind| (kind.fits)(record)).flat_map(|kind| (kind.draw)(record)).collect()
}

fn draw_history(record: &Record) -> Vec<Figure> {
    let events = record.verdict.as_ref().map_or(&[][..], |verdict| &verdict.offending);
    let mut caption =
        "The smallest part of the history that cannot be explained: no order of these operations gives these answers. The numbers are \
         those of the list below."
            .to_owned();
    if events.len() > history::EVENTS_MAX {
        caption.push_str(&format!(" {} further operations are in the JSON copy.", events.len() - history::EVENTS_MAX));
    }
    history::figure("What breaks the promise", events, &caption).into_iter().collect()
}

/// A caption's last sentence when some are left out.
pub(super) fn left_out(drawn: usize, all: usize, what: &str) -> String {
    if drawn < all { format!("{drawn} of {all} {what} are drawn; the table has all.") } else { String::new() }
}

fn draw_fits(record: &Record) -> Vec<Figure> {
    let draw = |fit: &crate::record::Fit| {
        let title = format!("Scaling of {} with {}", gather::side_name(record, &fit.side), fit.variable);
        let mut caption = "The Universal Scalability Law, X(N) = λN / (1 + σ(N−1) + κN(N−1)). The band takes the limits of all three \
                           constants at once, and is wider than that of the law as a whole."
            .to_owned();
        if scaling::comparable(fit) {
            caption.push_str(
                " For Apache Cassandra the study prints σ(N+1); with it 3 to 6 nodes would give 3 300 to 3 800 operations a second, with \
                 the law's own σ(N−1) it is 5 900 to 5 100, which is nearer to the 5 300 that it reports. So both are drawn.",
            );
        }
        scaling::figure(&title, fit, &caption)
    };
    record.fits.iter().filter_map(draw).collect()
}

/// The machines of each setting that have a price, in the order of their prices; the setting in words.
fn worths(record: &Record) -> Vec<(String, Vec<worth::Machine>)> {
    let mut settings: Vec<(String, Vec<worth::Machine>)> = Vec::new();
    for group in groups(record).iter().filter(|group| group.void().is_none()) {
        let middle = |values: Vec<f64>| super::chart::dots::median(&values);
        let counter = |name: &str| middle(group.members.iter().filter_map(|m| m.counters.get(name).copied()).collect());
        let p99 = middle(group.members.iter().filter_map(|m| compare::p99(m)).collect());
        let (Some(name), Some(price), Some(million), Some(p99)) =
            (group.variable("machine"), counter("price_per_hour"), counter("price_per_million_operations"), p99)
        else {
            continue;
        };
        let without: Vec<&str> = group.setting.split(" · ").filter(|word| *word != name).collect();
        let setting = without.join(" · ");
        let machine = worth::Machine { name: name.to_owned(), price, p99, million };
        match settings.iter_mut().find(|(other, _)| *other == setting) {
            Some((_, machines)) => machines.push(machine),
            None => settings.push((setting, vec![machine])),
        }
    }
    for (_, machines) in &mut settings {
        machines.sort_by(|a, b| a.price.total_cmp(&b.price));
    }
    settings
}

fn draw_worths(record: &Record) -> Vec<Figure> {
    let all: Vec<_> = worths(record).into_iter().filter(|(_, machines)| machines.len() > 1).collect();
    let chosen = chosen(&all, TIMELINES_MAX);
    let draw = |(setting, machines): &(String, Vec<worth::Machine>)| {
        let points: Vec<(f64, f64)> = machines.iter().map(|machine| (machine.price, machine.p99)).collect();
        let knee = crate::experiment::cost::knee(&points).ok().flatten();
        let of = if setting.is_empty() { String::new() } else { format!(": {setting}") };
        worth::figure(
            &format!("What a larger machine buys{of}"),
            machines,
            knee,
            &left_out(chosen.len(), all.len(), "settings"),
        )
    };
    chosen.iter().filter_map(draw).collect()
}

/// The variables, beside repeats, that took at least two values.
fn varied(record: &Record) -> Vec<&str> {
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, value) in record.measurements.iter().flat_map(|measurement| &measurement.variables) {
        values.entry(name).or_default().insert(value);
    }
    values
        .into_iter()
        .filter(|(name, values)| values.len() > 1 && !gather::is_repeat(name))
        .map(|(name, _)| name)
        .collect()
}

fn draw_multiples(record: &Record) -> Vec<Figure> {
    let groups = groups(record);
    varied(record).into_iter().filter_map(|variable| draw_multiple(record, &groups, variable)).collect()
}

/// One variable's tails: of each side and operation a panel, with everything else held at the setting that has the most values of it.
fn draw_multiple(record: &Record, groups: &[Group], name: &str) -> Option<Figure> {
    let others = |group: &Group| {
        let first = group.members.first();
        let variables =
            first.map(|m| m.variables.iter().filter(|(other, _)| *other != name && !gather::is_repeat(other)));
        let held = variables.into_iter().flatten();
        let held = held.map(|(name, value)| format!("{name} {}", gather::value_word(value)));
        (first.map_or("", |m| &m.workload).to_owned(), held.collect::<Vec<_>>().join(", "))
    };
    let mut settings: BTreeMap<(String, String), BTreeSet<&str>> = BTreeMap::new();
    for group in groups {
        settings.entry(others(group)).or_default().extend(group.variable(name));
    }
    let most = settings.values().map(BTreeSet::len).max().filter(|&most| most > 1)?;
    // The first setting in order of measurement: it is the experiment's own starting point.
    let held = groups.iter().map(others).find(|held| settings.get(held).is_some_and(|values| values.len() == most))?;
    let of_setting: Vec<&Group> = groups.iter().filter(|group| others(group) == held).collect();
    let values = sorted(of_setting.iter().filter_map(|group| group.variable(name)).collect());
    let mut panels = Vec::new();
    let sides: Vec<&str> = compare::sides(record);
    for side in &sides {
        for operation in operations(record) {
            let mut rows = Vec::new();
            for (place, value) in values.iter().enumerate() {
                let group = of_setting.iter().find(|group| group.side == *side && group.variable(name) == Some(value));
                let found = group.map(|group| (of_operation(group, operation), group.void().is_none()));
                if let Some((found, counts)) = found.filter(|(found, _)| !found.is_empty()) {
                    let middle = |of: fn(&crate::record::Spread) -> u64| {
                        let values: Vec<f64> = found.iter().map(|operation| of(&operation.latency) as f64).collect();
                        super::chart::dots::median(&values).unwrap_or(0.0) as u64
                    };
                    // Of fewer operations the percentile would be the greatest one: the table has a dash there.
                    let enough = |least: u64| found.iter().all(|operation| operation.count >= least);
                    let p99 = if enough(100) { middle(|s| s.p99) } else { 0 };
                    let p999 = if enough(1_000) { middle(|s| s.p999) } else { 0 };
                    rows.push((place, [middle(|s| s.p50), p99, p999], counts));
                }
            }
            if rows.len() > 1 {
                let side = gather::side_name(record, side);
                let name = if sides.len() > 1 { format!("{side}: {operation}") } else { operation.to_owned() };
                panels.push(Panel { name, rows });
            }
        }
    }
    let all = panels.len();
    panels.truncate(PANELS_MAX);
    let mut caption = left_out(panels.len(), all, "small charts");
    if settings.len() > 1 && !held.1.is_empty() {
        caption = format!("Held: {}. {caption}", held.1);
    }
    let variable =
        Variable { name: name.to_owned(), values: values.iter().map(|value| gather::spaced(value)).collect() };
    multiples::figure(&format!("Latency against {name}"), &variable, &panels, caption.trim())
}

/// Values in order: numbers and amounts of bytes by their size before words, words as they came.
fn sorted(mut values: Vec<&str>) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    values.retain(|value| seen.insert(*value));
    values.sort_by(|a, b| match (gather::size(a), gather::size(b)) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    });
    values
}

fn draw_curves(record: &Record) -> Vec<Figure> {
    let groups = groups(record);
    let names = operations(record);
    let curve = |group: &Group, operation: &str, name: String| {
        let found = of_operation(group, operation);
        let curve = Curve {
            name,
            latency: gather::latency_points(&found),
            service: gather::service_points(&group.members, operation),
            void: group.void(),
        };
        (!curve.latency.is_empty()).then_some(curve)
    };
    let title = "How slow the slowest were";
    if let [only] = &groups[..] {
        let chosen = chosen(&names, CURVES_MAX);
        let curves: Vec<Curve> = chosen.iter().filter_map(|name| curve(only, name, (*name).to_owned())).collect();
        let caption = format!("{} {}", omission(only, &names), left_out(chosen.len(), names.len(), "operations"));
        return curves::figure(title, &curves, caption.trim()).into_iter().collect();
    }
    let explained = gather::Names::new(record).explained();
    let mut figures = Vec::new();
    for operation in names.iter().take(OPERATIONS_MAX) {
        let with: Vec<&Group> = groups.iter().filter(|group| !of_operation(group, operation).is_empty()).collect();
        let chosen = chosen(&with, CURVES_MAX);
        let mut curves: Vec<Curve> =
            chosen.iter().filter_map(|group| curve(group, operation, group.label.clone())).collect();
        if curves.len() > DASHED_MAX {
            curves.iter_mut().for_each(|curve| curve.service.clear());
        }
        let caption = format!("{} {explained}", left_out(chosen.len(), with.len(), "settings"));
        figures.extend(curves::figure(&format!("{title}: {operation}"), &curves, caption.trim()));
    }
    figures
}

/// What coordinated omission would have hidden, in a sentence, where it is worth one.
fn omission(group: &Group, names: &[&str]) -> String {
    let differences = names.iter().filter_map(|name| {
        let (latency, service) =
            (gather::latency_points(&of_operation(group, name)), gather::service_points(&group.members, name));
        let at = |points: &[(f64, f64)]| points.iter().find(|point| (point.0 - 0.99).abs() < 1e-9).map(|point| point.1);
        Some((*name, at(&latency)?, at(&service)?))
    });
    let greatest = differences.max_by(|a, b| (a.1 / a.2).total_cmp(&(b.1 / b.2)));
    match greatest.filter(|(_, latency, service)| *latency > *service * 1.1) {
        Some((name, latency, service)) => format!(
            "Counted from the intended start, 99 of 100 {name} operations took at most {}; counted from the sending it would have been {}.",
            super::format::duration(latency),
            super::format::duration(service)
        ),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Measurement;

    #[test]
    fn values_are_sorted_as_people_do() {
        assert_eq!(
            sorted(vec!["100000", "1000", "zipfian", "20", "1000", "latest"]),
            ["20", "1000", "100000", "zipfian", "latest"]
        );
        assert_eq!(sorted(vec!["64MiB", "16MiB", "1GiB", "uniform"]), ["16MiB", "64MiB", "1GiB", "uniform"]);
    }

    #[test]
    fn machines_with_a_price_are_drawn_in_its_order() {
        let measured = |machine: &str, price: f64, repeat: &str| {
            let latency = crate::record::Spread { p99: (1e6 / price) as u64, ..Default::default() };
            let operation = crate::record::Operation { count: 100, latency, ..Default::default() };
            let word = |text: &str| text.to_owned();
            Measurement {
                variables: [(word("machine"), word(machine)), (word("repeat"), word(repeat))].into(),
                operations: [(word("read"), operation)].into(),
                counters: [(word("price_per_hour"), price), (word("price_per_million_operations"), 2.0)].into(),
                ..Measurement::default()
            }
        };
        let mut record = Record {
            measurements: vec![
                measured("b", 2.0, "1"),
                measured("b", 2.0, "2"),
                measured("a", 1.0, "1"),
                measured("c", 9.0, "1"),
            ],
            ..Record::default()
        };
        let found = worths(&record);
        let names: Vec<&str> = found[0].1.iter().map(|machine| machine.name.as_str()).collect();
        assert_eq!((found.len(), names), (1, vec!["a", "b", "c"]));
        assert_eq!(found[0].1[1].p99, 500_000.0);
        assert_eq!(draw_worths(&record).len(), 1);
        record.measurements.iter_mut().for_each(|measurement| measurement.counters.clear());
        assert!(worths(&record).is_empty());
    }

    #[test]
    fn an_empty_record_gets_no_picture() {
        let record = Record::default();
        assert!(KINDS.iter().all(|kind| !(kind.fits)(&record)), "nothing fits a record that holds nothing");
        assert!(pictures(&record).is_empty());
    }
}
