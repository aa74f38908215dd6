//! Work that trying a password takes, to be done away from the loop: 20 ms of a processor and 19 MiB for each hash.

use std::fmt;

use super::stored::{Argon2Cost, SALT_BYTES, StoredHash};

/// Something to be computed. It can be sent to another thread.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordWork {
    pub(crate) password: Vec<u8>,
    pub(crate) task: Task,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    /// Which of these does the password fit?
    Try(Vec<StoredHash>),
    /// The password as it is to be stored.
    Hash(Argon2Cost, [u8; SALT_BYTES]),
}

/// The outcome of this work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PasswordOutcome {
    /// It fits this one, as it is spelled.
    Fits(String),
    /// It fits none of them.
    FitsNone,
    /// It is stored so.
    Hashed(String),
    /// There was no memory.
    Failed,
}

impl fmt::Debug for PasswordWork {
    /// Without the password: it must not come into a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordWork").field("task", &self.task).finish_non_exhaustive()
    }
}

impl PasswordWork {
    /// Computes it. As many hashes are tried whether the password fits one or not.
    #[must_use]
    pub fn run(&self) -> PasswordOutcome {
        match &self.task {
            Task::Hash(cost, salt) => match StoredHash::new(&self.password, salt, *cost) {
                Some(stored) => PasswordOutcome::Hashed(stored.to_string()),
                None => PasswordOutcome::Failed,
            },
            Task::Try(hashes) => {
                let mut outcome = PasswordOutcome::FitsNone;
                for stored in hashes {
                    match stored.fits(&self.password) {
                        Some(true) => outcome = PasswordOutcome::Fits(stored.to_string()),
                        Some(false) => {}
                        None => return PasswordOutcome::Failed,
                    }
                }
                outcome
            }
        }
    }
}
