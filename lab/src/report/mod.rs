//! The report: records become one HTML file that needs nothing else, is readable on a phone and on paper, light and dark.
//!
//! 1. [`summary`]: the verdict and three sentences.
//! 2. For each record the question, the pictures ([`pictures`] says which), the tables ([`table`]), notes and the command.
//! 3. Where it ran ([`surroundings`]).
//!
//! [`export`] writes the machine-readable copy. [`chart`] draws, [`gather`] puts repeats together and names them, [`format`](mod@format)
//! writes figures, and [`html::escape`] stands between every text of a record and the page.

pub mod chart;
pub mod compare;
pub mod export;
pub mod format;
pub mod gather;
pub mod html;
pub mod notes;
mod over_time;
pub mod pictures;
pub mod raw;
pub mod silence;
pub mod summary;
pub mod surroundings;
pub mod table;

use crate::record::Record;
use html::{element, escape};

/// Most records of one report.
pub const RECORDS_MAX: usize = 100;

/// The page's style: colours for light, dark and paper, and the widths at which tables and pictures change.
const STYLE: &str = include_str!("style.css");

/// The whole file. At most [`RECORDS_MAX`] records are shown, the first; the page says so if there are more.
pub fn render(records: &[Record]) -> String {
    let shown = &records[..records.len().min(RECORDS_MAX)];
    let title = match shown {
        [] => "Dictum laboratory".to_owned(),
        [one] => format!("{} – Dictum laboratory", summary::heading(one)),
        [first, rest @ ..] => format!("{} and {} more – Dictum laboratory", summary::heading(first), rest.len()),
    };
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/><meta name=\"color-scheme\" content=\"light dark\"/>\
         <title>{}</title><style>{STYLE}</style></head><body>",
        escape(&title)
    );
    out.push_str("<header>");
    out.push_str(&element("p", "small", &subtitle(shown)));
    out.push_str(&summary::summary(shown).html(shown));
    if shown.len() < records.len() {
        let text = format!("{} of {} records are shown; the JSON copy has all.", shown.len(), records.len());
        out.push_str(&element("p", "warning", &text));
    }
    if shown.len() > 1 {
        out.push_str("<nav><ol>");
        for (index, record) in shown.iter().enumerate() {
            out.push_str(&format!(
                "<li><a href=\"#experiment-{}\">{}</a></li>",
                index + 1,
                escape(summary::heading(record))
            ));
        }
        out.push_str("</ol></nav>");
    }
    out.push_str("</header><main>");
    for (index, record) in shown.iter().enumerate() {
        out.push_str(&experiment(index + 1, record));
    }
    out.push_str("</main>");
    out.push_str(&surroundings::html(shown));
    out.push_str("</body></html>\n");
    out
}

fn subtitle(records: &[Record]) -> String {
    let started = records.iter().map(|record| record.started_ms).filter(|&started| started > 0);
    match (started.clone().min(), started.max()) {
        (Some(first), Some(last)) if format::date(first) == format::date(last) => {
            format!("Dictum laboratory · {}", format::date(first))
        }
        (Some(first), Some(last)) => format!("Dictum laboratory · {} to {}", format::date(first), format::date(last)),
        _ => "Dictum laboratory".to_owned(),
    }
}

/// One record's section; `number` counts from 1.
fn experiment(number: usize, record: &Record) -> String {
    let mut out = format!("<section id=\"experiment-{number}\">");
    out.push_str(&element("h2", "", summary::heading(record)));
    if !record.question.is_empty() {
        out.push_str(&element("p", "question", &record.question));
    }
    out.push_str(&table::sides(&record.sides));
    if !record.findings.is_empty() {
        out.push_str("<h3>What came out</h3><ul>");
        out.extend(record.findings.iter().map(|finding| element("li", "", finding)));
        out.push_str("</ul>");
    }
    let mut figures = pictures::pictures(record).into_iter().map(|figure| figure.html());
    let broken = record.verdict.as_ref().is_some_and(|verdict| !verdict.offending.is_empty());
    if broken {
        // The drawing's list stands right below it.
        out.push_str(&figures.next().unwrap_or_default());
        out.push_str(&table::offending(record));
    }
    out.extend(figures);
    let measured = table::measurements(record);
    if measured.is_empty() {
        out.push_str(&element("p", "small", "This record holds no measurement."));
    } else {
        out.push_str("<h3>All figures</h3>");
        let names = gather::Names::new(record).explained();
        if !names.is_empty() {
            out.push_str(&element("p", "small", &names));
        }
        out.push_str(&measured);
        out.push_str(&element("p", "small", &figures_explained(record)));
    }
    for part in [table::fits(record), table::counters(record), table::errors(record)] {
        out.push_str(&part);
    }
    if !record.notes.is_empty() {
        out.push_str("<h3>What limits these figures</h3><ul>");
        out.extend(notes::gathered(&record.notes).iter().map(|note| element("li", "", note)));
        out.push_str("</ul>");
    }
    if !record.command.is_empty() {
        out.push_str("<h3>To carry it out again</h3>");
        out.push_str(&format!("<pre><code>{}</code></pre>", escape(&record.command)));
    }
    out.push_str("</section>");
    out
}

fn figures_explained(record: &Record) -> String {
    let open = record.measurements.iter().any(|m| m.arrivals != crate::record::Arrivals::Closed);
    let counted = if open { "Latencies are counted from the intended start of each operation. " } else { "" };
    let error =
        if record.measurements.iter().any(|m| m.throughput_error > 0.0) { "± is the standard error. " } else { "" };
    format!("{counted}{error}{}", table::generator(record)).trim().to_owned()
}
