//! The thread that tries passwords under argon2id ([`node::PasswordWork`]), for the loop and for HTTP: one at a time, so that however many strangers guess,
//! they have one thread, which makes way for all others, and the memory of one try.

use std::io;
use std::sync::mpsc;

use node::{PasswordOutcome, PasswordWork};

use crate::background;

/// Takes the outcome, on the thread.
type Tell = Box<dyn FnOnce(PasswordWork, PasswordOutcome) + Send>;

/// An end of it. The thread ends with the last of these.
#[derive(Clone, Debug)]
pub struct PasswordThread(mpsc::Sender<(PasswordWork, Tell)>);

impl PasswordThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn start() -> io::Result<PasswordThread> {
        let (sender, work) = mpsc::channel::<(PasswordWork, Tell)>();
        background::spawn("passwords", move || {
            for (work, tell) in work {
                let outcome = work.run();
                tell(work, outcome);
            }
        })?;
        Ok(PasswordThread(sender))
    }

    /// Takes one more; `tell` gets its outcome. Those who give it work bound how much that is.
    pub(crate) fn give(&self, work: PasswordWork, tell: impl FnOnce(PasswordWork, PasswordOutcome) + Send + 'static) {
        // The thread is gone only when the process ends.
        let _ = self.0.send((work, Box::new(tell)));
    }
}
