//! The first page: one line with a mark, three sentences that a busy reader needs, and what was checked. All of it is computed from the
//! records; none of it is said that they do not hold.

mod pauses;
mod proof;
mod sides;
mod speed;
mod warning;

use super::format;
use super::gather;
use super::html::{element, escape};
use crate::experiment::cost::INFLECTION;
use crate::experiment::scaling::PARTITIONS_TOLD;
use crate::record::{Arrivals, Record};
use pauses::{pause, pause_by_side};
use proof::{ended, proof};
use sides::comparison;
use speed::{range, speed};
use warning::warning;

/// What the mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A history was checked, and everything held.
    Holds,
    /// Something that was promised was broken.
    Broken,
    /// Nothing broken was found, but something could not be decided within the limits.
    Undecided,
    /// No history was checked.
    Measured,
    /// There is nothing to tell.
    Nothing,
}

/// The first page's content.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The mark.
    pub mark: Mark,
    /// One line.
    pub line: String,
    /// Three sentences or paragraphs of one or two; fewer if there is less to tell.
    pub sentences: Vec<String>,
    /// What a reader must know before taking the figures for the server's; empty if nothing.
    pub warning: String,
}

/// Computes it.
pub fn summary(records: &[Record]) -> Summary {
    let (mark, line) = verdict(records);
    let cost = pause_by_side(records)
        .or_else(|| pause(records))
        .or_else(|| inflection(records))
        .or_else(|| partitions(records))
        .or_else(|| comparison(records))
        .or_else(|| range(records))
        .or_else(|| hidden(records));
    let sentences = match cost {
        None => [speed(records), failed(records), proof(records)],
        // Errors are never left out for want of room.
        Some(cost) => [speed(records).map(|told| with_failed(told, records)), Some(cost), proof(records)],
    };
    Summary { mark, line, sentences: sentences.into_iter().flatten().collect(), warning: warning(records) }
}

fn properties(records: &[Record]) -> impl Iterator<Item = &crate::record::Property> {
    records.iter().filter_map(|record| record.verdict.as_ref()).flat_map(|verdict| &verdict.properties)
}

/// Whether something is known that breaks it.
fn is_broken(property: &crate::record::Property) -> bool {
    !property.holds && !property.undecided
}

fn verdict(records: &[Record]) -> (Mark, String) {
    let verdicts: Vec<_> = records.iter().filter_map(|record| record.verdict.as_ref()).collect();
    let broken: Vec<&str> =
        properties(records).filter(|property| is_broken(property)).map(|property| property.name.as_str()).collect();
    let undecided = properties(records).filter(|property| property.undecided).count();
    if broken.is_empty() && undecided > 0 {
        let what = format!(
            "{undecided} of {} promises could not be decided; none was found broken",
            properties(records).count()
        );
        return (Mark::Undecided, format!("Not decided: {what}."));
    }
    if !broken.is_empty() || verdicts.iter().any(|verdict| !verdict.holds) {
        let what = match &broken[..] {
            [] => "the history that the clients saw cannot be explained".to_owned(),
            [one] => format!("it is not true that {one}"),
            [first, rest @ ..] => format!("it is not true that {first}, and {} more", rest.len()),
        };
        return (Mark::Broken, format!("A promise was broken: {what}."));
    }
    if !verdicts.is_empty() {
        let count = properties(records).count();
        let what = match count {
            0 => "What was promised held.".to_owned(),
            1 => "What was promised held, as far as the clients’ history was checked.".to_owned(),
            _ => format!("All {count} promises held, as far as the clients’ history was checked."),
        };
        return (Mark::Holds, what);
    }
    let measured: Vec<&str> = records.iter().filter(|r| !r.measurements.is_empty()).map(heading).collect();
    match &measured[..] {
        [] => (Mark::Nothing, "Nothing was measured.".to_owned()),
        [one] => (Mark::Measured, format!("{one}: measured; no history was checked.")),
        [first, rest @ ..] => {
            (Mark::Measured, format!("{first}, and {} more: measured; no history was checked.", rest.len()))
        }
    }
}

/// What an experiment is called.
pub fn heading(record: &Record) -> &str {
    let names = [&record.title, &record.experiment];
    names
        .into_iter()
        .map(|name| name.trim_end_matches('.'))
        .find(|name| !name.is_empty())
        .unwrap_or("An experiment without a name")
}

/// What records of several machines say of the size from which on a larger one is not worth it.
fn inflection(records: &[Record]) -> Option<String> {
    records.iter().flat_map(|record| &record.findings).find(|finding| finding.contains(INFLECTION)).map(|it| ended(it))
}

/// What more partitions came to.
fn partitions(records: &[Record]) -> Option<String> {
    let findings = records.iter().flat_map(|record| &record.findings);
    findings.into_iter().find(|finding| finding.starts_with(PARTITIONS_TOLD)).map(|it| ended(it))
}

/// What coordinated omission would have hidden.
fn hidden(records: &[Record]) -> Option<String> {
    let open = records.iter().flat_map(|record| &record.measurements).filter(|m| m.arrivals != Arrivals::Closed);
    let pairs = open.filter(|m| gather::void(m).is_none()).flat_map(|measurement| &measurement.operations);
    let pairs = pairs.filter_map(|(name, operation)| {
        let (latency, service) = (operation.latency.p99 as f64, operation.service.as_ref()?.p99 as f64);
        (operation.count >= 100 && service > 0.0).then_some((name, latency, service))
    });
    let (name, latency, service) = pairs.max_by(|a, b| (a.1 / a.2).total_cmp(&(b.1 / b.2)))?;
    (latency > service * 1.1).then(|| {
        format!(
            "Counted from the intended start, 99 of 100 {name} operations took at most {}; a generator that waits for answers would have \
             told {}.",
            format::duration(latency),
            format::duration(service)
        )
    })
}

/// How many operations failed.
fn failed(records: &[Record]) -> Option<String> {
    let measurements = || records.iter().flat_map(|record| &record.measurements);
    let operations = measurements().flat_map(|measurement| measurement.operations.values());
    let answered = operations.map(|operation| operation.count).fold(0, u64::saturating_add);
    let errors = measurements().map(gather::failed).fold(0, u64::saturating_add);
    let all = format::count(answered.saturating_add(errors));
    match (answered, errors) {
        (0, 0) => None,
        (_, 0) => Some(format!("Not one of {all} operations ended with an error.")),
        (_, errors) => {
            Some(format!("{} of {all} operations ended with an error or without an answer.", format::count(errors)))
        }
    }
}

/// A paragraph with how many operations failed, if any did.
fn with_failed(told: String, records: &[Record]) -> String {
    let mut measurements = records.iter().flat_map(|record| &record.measurements);
    match failed(records).filter(|_| measurements.any(|measurement| gather::failed(measurement) > 0)) {
        Some(failed) => format!("{told} {failed}"),
        None => told,
    }
}

impl Summary {
    /// The first page as HTML.
    pub fn html(&self, records: &[Record]) -> String {
        let (class, sign, word) = match self.mark {
            Mark::Holds => ("holds", "✓", "Held"),
            Mark::Broken => ("broken", "✗", "Broken"),
            Mark::Undecided => ("measured", "?", "Undecided"),
            Mark::Measured => ("measured", "○", "Measured"),
            Mark::Nothing => ("measured", "–", "Empty"),
        };
        let mut out = format!(
            "<h1 class=\"verdict {class}\"><span class=\"sign\"><span aria-hidden=\"true\">{sign}</span> {word}</span> {}</h1>",
            escape(&self.line)
        );
        for sentence in &self.sentences {
            out.push_str(&element("p", "sentence", sentence));
        }
        if !self.warning.is_empty() {
            out.push_str(&element("p", "warning", &self.warning));
        }
        let mut rows = String::new();
        for property in properties(records).take(50) {
            let (class, sign) = match (property.holds, property.undecided) {
                (true, _) => ("holds", "✓ held"),
                (false, true) => ("measured", "? not decided"),
                (false, false) => ("broken", "✗ broken"),
            };
            rows.push_str(&format!("<li class=\"{class}\"><b>{sign}</b> <span>{}", escape(&property.name)));
            if !property.detail.is_empty() {
                rows.push_str(&format!(" <small>{}</small>", escape(&property.detail)));
            }
            rows.push_str("</span></li>");
        }
        if !rows.is_empty() {
            out.push_str(&format!("<h2>What was checked</h2><ul class=\"properties\">{rows}</ul>"));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_begin_large_and_end() {
        assert_eq!(ended("nothing lost"), "Nothing lost.");
    }

    #[test]
    fn what_was_not_decided_is_not_called_broken() {
        use crate::record::{Property, Verdict};
        let property =
            |holds, undecided| Property { name: "it lasts".to_owned(), holds, undecided, ..Property::default() };
        let record = |properties| Record {
            verdict: Some(Verdict { holds: false, properties, ..Verdict::default() }),
            ..Record::default()
        };
        let unsure = [record(vec![property(true, false), property(false, true)])];
        let told = summary(&unsure);
        assert_eq!((told.mark, told.line.contains("1 of 2")), (Mark::Undecided, true), "{}", told.line);
        assert!(!told.html(&unsure).contains("broken\""), "{}", told.html(&unsure));
        let broken = [record(vec![property(false, false), property(false, true)])];
        assert_eq!(summary(&broken).mark, Mark::Broken);
    }
}
