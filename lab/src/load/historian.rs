//! From what the engine observes to the history that is checked.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::{Observed, Observer, Outcome};
use crate::history::words::{Asked, operation, transaction};
use crate::history::{Operation, Witness};

/// The words of the commands behind a MULTI.
type Queued = Vec<Vec<Vec<u8>>>;

/// Hands the operations of observed commands to a witness; what stands between MULTI and EXEC becomes one operation. A client that sends
/// transactions must have one operation under way at a time, or their commands could not be told from others. Only RESP's answers are
/// understood: over HTTP a history cannot be recorded.
#[derive(Debug)]
pub struct Historian<W> {
    witness: W,
    /// The transactions that have begun, by client.
    begun: Mutex<BTreeMap<u32, Queued>>,
    /// The first command that cannot be checked: a history without it proves nothing.
    problem: Mutex<Option<String>>,
}

impl<W: Witness> Historian<W> {
    /// One for this witness.
    #[must_use]
    pub fn new(witness: W) -> Historian<W> {
        Historian { witness, begun: Mutex::default(), problem: Mutex::default() }
    }

    /// The witness, and the first command that was left out because it cannot be checked, if there was one: then a check of
    /// what the witness has proves nothing.
    #[must_use]
    pub fn finish(self) -> (W, Option<String>) {
        (self.witness, self.problem.into_inner().unwrap_or_default())
    }

    /// Who gets the operations.
    #[must_use]
    pub fn witness(&self) -> &W {
        &self.witness
    }

    /// Whether something was left out because it cannot be checked: to go on is in vain.
    #[must_use]
    pub fn has_problem(&self) -> bool {
        self.problem.lock().is_ok_and(|problem| problem.is_some())
    }

    fn made(&self, observed: &Observed, begun: &mut BTreeMap<u32, Queued>) -> Option<Operation> {
        let asked = Asked { client: observed.client, from: observed.from, until: observed.until };
        let name = observed.words.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default();
        let made = match (name.as_slice(), begun.remove(&observed.client)) {
            (b"MULTI", _) => {
                // Refused, it has begun nothing: what follows is done by itself.
                if observed.outcome != Outcome::Error {
                    begun.insert(observed.client, Queued::new());
                }
                Ok(None)
            }
            (b"EXEC", Some(queued)) => transaction(asked, &queued, observed.answer.as_ref()),
            // Behind a MULTI that was refused it is refused as well.
            (b"EXEC", None) => Ok(None),
            (b"DISCARD", Some(_)) => Ok(None),
            (_, Some(mut queued)) => {
                queued.push(observed.words.clone());
                begun.insert(observed.client, queued);
                Ok(None)
            }
            (_, None) => operation(asked, &observed.words, observed.answer.as_ref()),
        };
        match made {
            Ok(operation) => operation,
            Err(error) => {
                if let Ok(mut problem) = self.problem.lock() {
                    problem.get_or_insert(error);
                }
                None
            }
        }
    }
}

impl<W: Witness> Observer for Historian<W> {
    fn observe(&self, batch: Vec<Observed>) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let operations: Vec<Operation> = batch.iter().filter_map(|observed| self.made(observed, &mut begun)).collect();
        drop(begun);
        self.witness.finished(&operations);
    }
}

#[cfg(test)]
mod tests {
    use wire::Value;

    use super::*;
    use crate::history::Outcome as Known;

    #[derive(Default)]
    struct Kept(Mutex<Vec<Operation>>);

    impl Witness for Kept {
        fn finished(&self, batch: &[Operation]) {
            self.0.lock().expect("nobody panicked").extend_from_slice(batch);
        }
    }

    fn observed(client: u32, line: &str, answer: Option<Value>) -> Observed {
        let outcome = match &answer {
            None => Outcome::Unknown,
            Some(Value::Error(_)) => Outcome::Error,
            Some(_) => Outcome::Ok,
        };
        let words = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        Observed { client, kind: 0, words, from: 5, until: answer.as_ref().map(|_| 9), outcome, answer }
    }

    fn made(observed: Vec<Observed>) -> (Vec<Operation>, Option<String>) {
        let historian = Historian::new(Kept::default());
        historian.observe(observed);
        let (kept, problem) = historian.finish();
        (kept.0.into_inner().expect("nobody panicked"), problem)
    }

    #[test]
    fn it_says_at_once_that_it_cannot_go_on() {
        let historian = Historian::new(Kept::default());
        historian.observe(vec![observed(1, "SET a 1", Some(Value::ok()))]);
        assert!(!historian.has_problem());
        historian.observe(vec![observed(1, "SET a 1 PX 100", Some(Value::ok()))]);
        assert!(historian.has_problem() && historian.witness().0.lock().expect("nobody panicked").len() == 1);
    }

    #[test]
    fn a_transaction_is_one_operation_whoever_speaks_in_between() {
        let queued = || Some(Value::Simple("QUEUED".into()));
        let (operations, problem) = made(vec![
            observed(1, "MULTI", Some(Value::ok())),
            observed(2, "SET a 1", Some(Value::ok())),
            observed(1, "INCRBY b 2", queued()),
            observed(1, "GET a", queued()),
            observed(1, "EXEC", Some(Value::Array(vec![Value::Integer(2), Value::bulk("1")]))),
        ]);
        assert_eq!(problem, None);
        assert_eq!(operations.iter().map(|one| (one.client, one.steps.len())).collect::<Vec<_>>(), [(2, 1), (1, 2)]);
        assert_eq!(operations[1].event().answered, "2; 1");
    }

    #[test]
    fn what_became_of_a_transaction_is_kept() {
        let error = |text: &str| Some(Value::Error(text.into()));
        let (operations, problem) = made(vec![
            observed(1, "MULTI", Some(Value::ok())),
            observed(1, "SET a 1", None),
            observed(1, "EXEC", None),
            observed(2, "MULTI", Some(Value::ok())),
            observed(2, "SET a 2", error("ERR no")),
            observed(2, "EXEC", error("EXECABORT it was refused")),
            observed(3, "MULTI", error("ERR no")),
            observed(3, "SET a 3", Some(Value::ok())),
            observed(3, "EXEC", error("ERR EXEC without MULTI")),
        ]);
        assert_eq!(problem, None);
        let known: Vec<(u32, Known)> = operations.iter().map(|one| (one.client, one.outcome)).collect();
        assert_eq!(known, [(1, Known::Unknown), (2, Known::Failed), (3, Known::Done)]);
        assert!(made(vec![observed(1, "FLUSHALL", Some(Value::ok()))]).1.is_some());
    }
}
