//! Logins for HTTP, which lets its clients in itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{DEFAULT, User};

/// The users of a moment.
#[derive(Clone, Debug, Default)]
pub struct Logins(BTreeMap<Vec<u8>, Arc<User>>);

/// The outcome of a login.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is a user that may do everything.
    Whole,
    /// It is a user that may not do everything: each of its commands has to be judged.
    Limited,
    /// The password is wrong, or the user is off.
    Wrong,
    /// There is no user of that name.
    Nobody,
}

impl Logins {
    pub(super) fn new(users: &BTreeMap<Vec<u8>, Arc<User>>) -> Logins {
        Logins(users.clone())
    }

    /// Judges a login; without a password, whether nobody has to show one.
    #[must_use]
    pub fn judge(&self, name: &[u8], password: Option<&[u8]>) -> Verdict {
        let Some(user) = self.0.get(if name.is_empty() { DEFAULT } else { name }) else { return Verdict::Nobody };
        match password {
            Some(password) if !user.takes(password) => Verdict::Wrong,
            None if !user.is_open() => Verdict::Wrong,
            _ if user.rights.has_all() => Verdict::Whole,
            _ => Verdict::Limited,
        }
    }
}
