//! Records what clients saw while something was done to a cluster, and checks it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::beside::Beside;
use crate::beside::last::{read_history, read_last};
use crate::drive::Target;
use crate::history::{Limits, Recorder, check};
use crate::load::{Historian, Observer};
use crate::record::{Property, Record, Verdict};

/// A history may grow to so many bytes.
const HISTORY_BYTES_MAX: u64 = 1 << 30;

/// A history that is being recorded, of keys that did not exist before.
pub struct Proof {
    file: PathBuf,
    historian: Arc<Historian<Recorder>>,
}

impl std::fmt::Debug for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proof").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Proof {
    /// Begins one in this file, which is removed in the end.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn begin(file: PathBuf) -> Result<Proof, String> {
        let recorder = Recorder::create(&file, HISTORY_BYTES_MAX)?;
        Ok(Proof { file, historian: Arc::new(Historian::new(recorder)) })
    }

    /// Who is to see every operation of the load.
    #[must_use]
    pub fn observer(&self) -> Arc<dyn Observer> {
        Arc::clone(&self.historian) as Arc<dyn Observer>
    }

    /// Reads every key from the system, and checks the history. The load must be over.
    ///
    /// # Errors
    /// When the history is not whole, holds what cannot be checked, or a key cannot be read.
    pub fn finish(self, target: &Target) -> Result<Verdict, String> {
        let checked = Proof::checked(self.historian, &self.file, target);
        let _ = std::fs::remove_file(&self.file);
        checked
    }

    fn checked(historian: Arc<Historian<Recorder>>, file: &Path, target: &Target) -> Result<Verdict, String> {
        let historian = Arc::into_inner(historian)
            .ok_or("the history is still being written; end the load before it is checked")?;
        let (recorder, problem) = historian.finish();
        if let Some(problem) = problem {
            return Err(format!(
                "{problem}: choose a workload that can be checked, such as checked, puts-gets, counter, queue or lock"
            ));
        }
        recorder.finish()?;
        let history = read_history(file)?;
        let last = read_last(target, &history)?;
        Ok(check(&history, &last, Limits::default()).verdict)
    }
}

/// The verdicts of a record's witnesses, one for each of their histories.
#[derive(Clone, Debug, Default)]
pub struct Verdicts(Vec<Verdict>);

impl Verdicts {
    /// Begins with what was checked before, which counts as one history.
    #[must_use]
    pub fn after(earlier: Option<Verdict>) -> Verdicts {
        Verdicts(earlier.into_iter().collect())
    }

    /// Ends these witnesses, if there are any: what they saw is put into the record, together with what was seen before.
    ///
    /// # Errors
    /// When nothing can be concluded from them.
    pub fn add(&mut self, beside: Option<Beside>, record: &mut Record) -> Result<(), String> {
        let Some(beside) = beside else { return Ok(()) };
        let seen = beside.finish()?;
        for note in seen.notes {
            if !record.notes.contains(&note) {
                record.notes.push(note);
            }
        }
        // The newest first: it is one history, and tells what it is about.
        self.0.insert(0, seen.verdict);
        record.verdict = merged(&self.0);
        Ok(())
    }
}

/// One verdict of several histories: a property holds if it held in each. None of none.
#[must_use]
pub fn merged(verdicts: &[Verdict]) -> Option<Verdict> {
    let first = verdicts.first()?;
    let mut properties: Vec<Property> = Vec::new();
    for property in verdicts.iter().flat_map(|verdict| &verdict.properties) {
        if properties.iter().any(|other| other.name == property.name) {
            continue;
        }
        let same: Vec<&Property> =
            verdicts.iter().flat_map(|verdict| &verdict.properties).filter(|p| p.name == property.name).collect();
        let broken: Vec<&&Property> = same.iter().filter(|p| !p.holds && !p.undecided).collect();
        let undecided: Vec<&&Property> = same.iter().filter(|p| p.undecided).collect();
        let (told, count, what) = match (broken.first(), undecided.first()) {
            (Some(one), _) => (**one, broken.len(), "broken"),
            (None, Some(one)) => (**one, undecided.len(), "not decided"),
            (None, None) => (property, same.len(), "held"),
        };
        let detail = match same.len() {
            1 => told.detail.clone(),
            all => format!("{what} in {count} of {all} histories, such as: {}", told.detail),
        };
        let holds = broken.is_empty() && undecided.is_empty();
        let is_undecided = broken.is_empty() && !undecided.is_empty();
        properties.push(Property { name: property.name.clone(), holds, undecided: is_undecided, detail });
    }
    let offending = verdicts.iter().map(|verdict| &verdict.offending).find(|events| !events.is_empty());
    let sum = |of: fn(&Verdict) -> u64| verdicts.iter().map(of).fold(0, u64::saturating_add);
    Some(Verdict {
        holds: verdicts.iter().all(|verdict| verdict.holds),
        operations: sum(|verdict| verdict.operations),
        decided: sum(|verdict| verdict.decided),
        keys: sum(|verdict| verdict.keys),
        beside: verdicts.iter().all(|verdict| verdict.beside),
        properties,
        offending: offending.unwrap_or(&first.offending).clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Event;

    fn verdict(holds: bool, undecided: bool) -> Verdict {
        let property = Property { name: "p".to_owned(), holds, undecided, detail: format!("{holds}") };
        let offending = if holds || undecided { Vec::new() } else { vec![Event { client: 7, ..Event::default() }] };
        let decided = if undecided { 3 } else { 5 };
        Verdict { holds, operations: 5, decided, keys: 2, beside: false, properties: vec![property], offending }
    }

    #[test]
    fn one_broken_history_breaks_all() {
        assert_eq!(merged(&[]), None);
        assert_eq!(merged(&[verdict(true, false)]), Some(verdict(true, false)));
        let all = merged(&[verdict(true, false), verdict(false, false), verdict(false, true)]).expect("three");
        assert!(!all.holds && all.offending[0].client == 7 && !all.properties[0].undecided);
        assert_eq!(all.properties[0].detail, "broken in 1 of 3 histories, such as: false");
        assert_eq!((all.operations, all.decided, all.keys), (15, 13, 6));
        let unsure = merged(&[verdict(true, false), verdict(false, true)]).expect("two");
        assert!(unsure.properties[0].undecided && !unsure.holds && !unsure.properties[0].holds);
        let well = merged(&[verdict(true, false), verdict(true, false)]).expect("two");
        assert_eq!(well.properties[0].detail, "held in 2 of 2 histories, such as: true");
    }
}
