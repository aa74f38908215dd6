//! A violation made by hand, so that it can be seen that the alarm works: of a check that has never failed nobody knows whether it can.

use crate::history::{Answer, Ask, Operation, Outcome, Value};

/// Whether it is a key of a register of `checked`, whatever it begins with.
fn is_register(key: &[u8]) -> bool {
    key.rsplit(|byte| *byte == b':').nth(2).is_some_and(|kind| kind == b"r")
}

/// Lets the last reading of a register that has a value answer with what nobody ever wrote. Says what was changed.
pub(crate) fn forge(history: &mut [Operation]) -> Result<String, String> {
    let read = |operation: &Operation| match operation.steps.as_slice() {
        [step] if operation.outcome == Outcome::Done && step.ask == Ask::Get && is_register(&step.key) => {
            matches!(step.answer, Some(Answer::Value(_)))
        }
        _ => false,
    };
    let place = history.iter().rposition(read).ok_or("there is no answer that could be changed: let it run longer")?;
    let step = &mut history[place].steps[0];
    step.answer = Some(Answer::Value(Value::new(b"forged")));
    Ok(format!(
        "An answer was changed before the history was checked, to see the alarm: a GET of {}.",
        step.key.escape_ascii()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Limits, check};

    #[test]
    fn what_is_forged_is_found() {
        let set = Operation::done(1, 1, 2, b"r:1:1", Ask::Set(Value::new(b"a")), Answer::Done);
        let get = Operation::done(2, 3, 4, b"r:1:1", Ask::Get, Answer::Value(Value::new(b"a")));
        let mut history = vec![set, get];
        assert!(check(&history, &[], Limits::default()).verdict.holds);
        assert!(forge(&mut history).unwrap().contains("r:1:1"));
        let verdict = check(&history, &[], Limits::default()).verdict;
        assert!(!verdict.holds && !verdict.offending.is_empty(), "{verdict:?}");
        assert!(forge(&mut []).is_err());
    }
}
