//! What failures cost those who wait, in a sentence.

use std::collections::BTreeMap;

use super::super::chart::dots;
use super::super::{format, silence};
use crate::record::Record;

/// Most kinds of events beside the worst one that are told of.
const OTHER_EVENTS_MAX: usize = 2;

/// What failures cost each of several sides, if the same was done to all of them.
pub(super) fn pause_by_side(records: &[Record]) -> Option<String> {
    let measurements = || records.iter().flat_map(|record| &record.measurements);
    let done = || measurements().flat_map(|of| of.marks.iter().map(|mark| (&of.side, silence::kind(&mark.what))));
    let mut kinds: Vec<String> = done().map(|(_, kind)| kind).filter(|kind| !silence::is_consequence(kind)).collect();
    let times = kinds.len() as u64;
    kinds.dedup();
    let [what] = &kinds[..] else { return None };
    let mut sides: Vec<&String> = records.iter().flat_map(|record| &record.sides).map(|side| &side.id).collect();
    sides.retain(|side| done().any(|(of, kind)| of == *side && kind == *what));
    if sides.len() < 2 {
        return None;
    }
    let told = sides.into_iter().map(|id| {
        let side = records.iter().flat_map(|record| &record.sides).find(|side| side.id == *id);
        let name = side.map_or(id, |side| &side.name);
        let silences = measurements().filter(|of| of.side == *id).flat_map(silence::silences);
        let figures: Vec<f64> =
            silences.filter(|silence| silence.what == *what).map(|silence| silence.length_ms * 1e6).collect();
        let often = done().filter(|(of, kind)| *of == id && kind == what).count();
        if figures.is_empty() {
            return format!("{name} never stopped answering");
        }
        let middle = dots::median(&figures).filter(|_| figures.len() > 2 && figures.len() == often);
        let middle = middle.map_or(String::new(), |middle| format!(" (median {})", format::duration(middle)));
        let longest = figures.iter().copied().fold(0.0, f64::max);
        format!("{name} answered nobody for up to {}{middle}", format::duration(longest))
    });
    Some(format!("{}: {}.", event_sentence(what, times), told.collect::<Vec<_>>().join("; ")))
}

/// What failures cost: how often each thing happened, and the longest silence.
pub(super) fn pause(records: &[Record]) -> Option<String> {
    let measurements = || records.iter().flat_map(|record| &record.measurements);
    let mut happened: BTreeMap<String, u64> = BTreeMap::new();
    for mark in measurements().flat_map(|measurement| &measurement.marks) {
        *happened.entry(silence::kind(&mark.what)).or_default() += 1;
    }
    let mut kinds: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for silence in measurements().flat_map(silence::silences) {
        kinds.entry(silence.what).or_default().push(silence.length_ms * 1e6);
    }
    let longest = |figures: &[f64]| figures.iter().copied().fold(0.0, f64::max);
    let mut kinds: Vec<(String, Vec<f64>)> = kinds.into_iter().collect();
    kinds.sort_by(|a, b| longest(&b.1).total_cmp(&longest(&a.1)));
    // What was done to the system is told, and what followed only if there is nothing else.
    if kinds.iter().any(|(what, _)| !silence::is_consequence(what)) {
        kinds.retain(|(what, _)| !silence::is_consequence(what));
    }
    let Some(((what, figures), others)) = kinds.split_first() else {
        let (what, times) = happened.into_iter().max_by_key(|(_, times)| *times)?;
        return Some(format!("“{what}” happened {}; answers never stopped.", times_word(times)));
    };
    let times = |what: &str| happened.get(what).copied().unwrap_or(1);
    // Times after which answers went on are not among the figures: then there is no median of all.
    let all = figures.len() > 2 && figures.len() as u64 >= times(what);
    let middle = dots::median(figures).filter(|_| all);
    let middle = middle.map_or(String::new(), |middle| format!(" (median {})", format::duration(middle)));
    let event = event_sentence(what, times(what));
    let mut sentence = format!("{event}: the longest silence was {}{middle}", format::duration(longest(figures)));
    for (what, figures) in others.iter().take(OTHER_EVENTS_MAX) {
        sentence.push_str(&format!("; {what}, {}: {}", times_word(times(what)), format::duration(longest(figures))));
    }
    Some(format!("{sentence}."))
}

fn times_word(times: u64) -> String {
    match times {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        _ => format!("{} times", format::count(times)),
    }
}

/// `leader killed` five times: `The leader was killed 5 times`; `killed`: `A node was killed 5 times`; else the words as they are.
fn event_sentence(what: &str, times: u64) -> String {
    const VERBS: [&str; 12] = [
        "killed",
        "held",
        "told to stop",
        "paused",
        "terminated",
        "stopped",
        "restarted",
        "started again",
        "isolated",
        "cut off",
        "slowed down",
        "partitioned",
    ];
    let times = times_word(times);
    for verb in VERBS {
        match what.strip_suffix(verb).map(str::trim_end) {
            Some("") => return format!("A node was {verb} {times}"),
            Some("leader") => return format!("The leader was {verb} {times}"),
            Some("follower") => return format!("A follower was {verb} {times}"),
            _ => {}
        }
    }
    format!("“{what}” happened {times}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Gap, Mark, Measurement, Side};

    fn killed(side: &str, node: &str, length_ms: f64) -> Measurement {
        Measurement {
            side: side.to_owned(),
            marks: vec![Mark { at_ms: 1000.0, what: format!("{node} (leader) killed") }],
            gaps: (length_ms > 0.0).then_some(Gap { at_ms: 1000.0, length_ms }).into_iter().collect(),
            ..Measurement::default()
        }
    }

    #[test]
    fn what_was_done_to_several_sides_is_told_of_each() {
        let side = |id: &str, name: &str| Side { id: id.to_owned(), name: name.to_owned(), ..Side::default() };
        let mut record = Record {
            sides: vec![side("dictum", "Dictum"), side("etcd", "etcd 3.6"), side("nats", "NATS")],
            measurements: vec![
                killed("dictum", "n1", 100.0),
                killed("etcd", "e3", 1500.0),
                killed("dictum", "n2", 50.0),
            ],
            ..Record::default()
        };
        let told = "The leader was killed 3 times: Dictum answered nobody for up to 100\u{a0}ms; etcd 3.6 answered nobody for up to 1.50\u{a0}s.";
        assert_eq!(pause_by_side(&[record.clone()]).as_deref(), Some(told));
        record.measurements.push(killed("nats", "n3", 0.0));
        assert!(pause_by_side(&[record.clone()]).is_some_and(|told| told.ends_with("; NATS never stopped answering.")));
        record.measurements.retain(|measurement| measurement.side == "etcd");
        assert_eq!(pause_by_side(&[record]), None, "of one side another sentence tells");
    }

    #[test]
    fn events_are_told_as_sentences() {
        assert_eq!(event_sentence("leader killed", 5), "The leader was killed 5 times");
        assert_eq!(event_sentence("killed", 1), "A node was killed once");
        assert_eq!(event_sentence("follower cut off", 2), "A follower was cut off twice");
        assert_eq!(event_sentence("started again", 1), "A node was started again once");
        assert_eq!(event_sentence("disk slow", 3), "“disk slow” happened 3 times");
    }
}
