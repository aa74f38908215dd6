//! From what the engine observes to the history that is checked.

use std::sync::Mutex;

use super::{Observed, Observer};
use crate::history::words::{Asked, operation};
use crate::history::{Operation, Witness};

/// Hands the operations of observed commands to a witness. Only RESP's answers are understood: over HTTP a history cannot be
/// recorded.
#[derive(Debug)]
pub struct Historian<W> {
    witness: W,
    /// The first command that cannot be checked: a history without it proves nothing.
    problem: Mutex<Option<String>>,
}

impl<W: Witness> Historian<W> {
    /// One for this witness.
    #[must_use]
    pub fn new(witness: W) -> Historian<W> {
        Historian { witness, problem: Mutex::default() }
    }

    /// The witness, and the first command that was left out because it cannot be checked, if there was one: then a check of
    /// what the witness has proves nothing.
    #[must_use]
    pub fn finish(self) -> (W, Option<String>) {
        (self.witness, self.problem.into_inner().unwrap_or_default())
    }

    fn made(&self, observed: &Observed) -> Option<Operation> {
        let asked = Asked { client: observed.client, from: observed.from, until: observed.until };
        match operation(asked, &observed.words, observed.answer.as_ref()) {
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
        let operations: Vec<Operation> = batch.iter().filter_map(|observed| self.made(observed)).collect();
        self.witness.finished(&operations);
    }
}
