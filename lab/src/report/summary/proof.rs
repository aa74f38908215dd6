//! The sentence on the first page that says what was checked, and how much.

use super::{is_broken, properties};
use crate::record::{Record, Verdict};
use crate::report::format;

/// What was checked, against how many operations.
pub(super) fn proof(records: &[Record]) -> Option<String> {
    if records.iter().all(|record| record.measurements.is_empty() && record.verdict.is_none()) {
        return None;
    }
    let with: Vec<&Record> = records.iter().filter(|record| record.verdict.is_some()).collect();
    let during = looked_at(&with);
    let broken: Vec<_> = properties(records).filter(|property| is_broken(property)).collect();
    Some(match (with.is_empty(), broken.first()) {
        (true, _) => fsync(records),
        (false, Some(property)) if !property.detail.is_empty() => {
            format!("It broke{during}: {}", with_end(&property.detail))
        }
        (false, Some(_)) => format!("It broke{during}."),
        (false, None) => {
            let details: Vec<String> = properties(records)
                .filter(|p| !p.detail.is_empty())
                .take(usize::from(!tells_how_much(&with)))
                .map(|property| ended(&property.detail))
                .collect();
            let details = if details.is_empty() { String::new() } else { format!(" {}", details.join(" ")) };
            let held = with.iter().all(|record| record.verdict.as_ref().is_some_and(|verdict| verdict.holds));
            if held || properties(records).any(|property| property.undecided) {
                format!("No broken promise was found{during}.{details}")
            } else {
                format!("The check failed{during}.{details}")
            }
        }
    })
}

/// Whether the records tell how many operations were checked.
fn tells_how_much(with: &[&Record]) -> bool {
    with.iter().filter_map(|record| record.verdict.as_ref()).any(|verdict| verdict.operations > 0)
}

/// How much was checked: ` in the 11 482 operations on 312 keys that were checked`. Of older records, which do not tell, how much was answered.
fn looked_at(with: &[&Record]) -> String {
    let verdicts = || with.iter().filter_map(|record| record.verdict.as_ref());
    let sum = |of: fn(&Verdict) -> u64| verdicts().map(of).fold(0, u64::saturating_add);
    let (all, decided, keys) = (sum(|it| it.operations), sum(|it| it.decided), sum(|it| it.keys));
    if all > 0 {
        let whose = if verdicts().all(|verdict| verdict.beside) { " of witnesses beside the load" } else { "" };
        let on = format!("on {}{whose}", counted(keys, "key"));
        return match decided {
            decided if decided >= all => format!(" in the {} {on} that were checked", counted(all, "operation")),
            decided => format!(
                " in {} of {} {on}: the others could not be decided",
                format::count(decided),
                counted(all, "operation")
            ),
        };
    }
    let answered = with.iter().flat_map(|record| &record.measurements).flat_map(|m| m.operations.values());
    match answered.map(|operation| operation.count).fold(0, u64::saturating_add) {
        0 => String::new(),
        answered => format!(" while {} were answered", counted(answered, "operation")),
    }
}

/// `1 key`, `312 keys`.
fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", format::count(count), if count == 1 { "" } else { "s" })
}

/// What a write had to wait for, where nothing was proved.
fn fsync(records: &[Record]) -> String {
    match records.iter().map(|record| record.environment.fsync_p50).find(|&p50| p50 > 0) {
        Some(p50) => format!(
            "Nothing here was checked for correctness. For comparison: making 4 KiB durable took this machine’s disk {} (median).",
            format::duration(p50 as f64)
        ),
        None => "Nothing here was checked for correctness.".to_owned(),
    }
}

/// The text with a full stop, if nothing ends it.
fn with_end(text: &str) -> String {
    let text = text.trim_end();
    let end = if text.ends_with(['.', '!', '?', '…']) { "" } else { "." };
    format!("{text}{end}")
}

/// The text as a sentence: with a capital letter and an end.
pub(super) fn ended(text: &str) -> String {
    let mut letters = text.trim().chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}", with_end(letters.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_page_says_how_much_was_checked() {
        let told = |operations, decided| {
            let verdict = Verdict { holds: true, operations, decided, keys: 1, ..Verdict::default() };
            let sentence = looked_at(&[&Record { verdict: Some(verdict), ..Record::default() }]);
            sentence.replace(format::THIN, " ")
        };
        assert_eq!(told(11_482, 11_482), " in the 11 482 operations on 1 key that were checked");
        assert_eq!(told(11_482, 11_000), " in 11 000 of 11 482 operations on 1 key: the others could not be decided");
        assert_eq!(told(0, 0), "");
        let verdict = Verdict { operations: 5, decided: 5, keys: 2, beside: true, ..Verdict::default() };
        let sentence = looked_at(&[&Record { verdict: Some(verdict), ..Record::default() }]);
        assert_eq!(sentence, " in the 5 operations on 2 keys of witnesses beside the load that were checked");
    }
}
