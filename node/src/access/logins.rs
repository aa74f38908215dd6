//! Logins for HTTP, which lets its clients in itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{DEFAULT, Judged, User};
use crate::passwords::work::{PasswordOutcome, PasswordWork};

/// The users of a moment.
#[derive(Clone, Debug, Default)]
pub struct Logins(BTreeMap<Vec<u8>, Arc<User>>);

/// A login that is right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Login {
    /// The user's name.
    pub user: Vec<u8>,
    /// The name of the bucket that was said with it; none if there was none. Whether there is such a bucket is another question.
    pub bucket: Option<Vec<u8>>,
}

/// What is to be said of a login.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is right.
    Right(Login),
    /// It is wrong, or the user is off.
    Wrong,
    /// That depends on this, which takes its time: do it on another thread, tell its outcome to [`Logins::note`], and judge again. If that says `Untried` with the same work
    /// again, the login is wrong.
    Untried(PasswordWork),
}

impl Logins {
    /// What has come of work is known from now on, to the node, too. `key`: 32 random bytes, for this.
    pub fn note(&self, work: &PasswordWork, outcome: &PasswordOutcome, key: [u8; 32]) {
        let PasswordOutcome::Fits(text) = outcome else { return };
        let hashes = self.0.values().flat_map(|user| &user.hashes);
        hashes.filter(|hash| hash.text == *text).for_each(|hash| hash.note(key, &work.password));
    }

    /// True if it is the name of a user that may do everything.
    #[must_use]
    pub fn may_everything(&self, name: &[u8]) -> bool {
        self.0.get(name).is_some_and(|user| user.rights.has_all())
    }

    pub(super) fn new(users: &BTreeMap<Vec<u8>, Arc<User>>) -> Logins {
        Logins(users.clone())
    }

    /// Judges what was said, as `AUTH` does: the name of a user, `user@bucket`, or the name of a bucket, for which `default` comes. Without a name it is `default`;
    /// without a password that user, if nobody has to show one.
    #[must_use]
    pub fn judge(&self, name: &[u8], password: Option<&[u8]>) -> Verdict {
        let name = if name.is_empty() { DEFAULT } else { name };
        let Some((user, bucket)) = super::meant(&self.0, name) else { return Verdict::Wrong };
        let judged = match password {
            Some(password) => user.judge(password),
            None if user.is_open() => Judged::Right,
            None => Judged::Wrong,
        };
        match judged {
            Judged::Right => Verdict::Right(Login { user: user.name.clone(), bucket: bucket.map(<[u8]>::to_vec) }),
            Judged::Wrong => Verdict::Wrong,
            Judged::Untried(work) => Verdict::Untried(work),
        }
    }
}

impl Logins {
    /// The user of this name, if there is one and it is on: for clients that have shown a certificate of that name.
    #[must_use]
    pub fn named(&self, name: &[u8]) -> Option<Login> {
        let user = self.0.get(name).filter(|user| user.rules.is_on)?;
        Some(Login { user: user.name.clone(), bucket: None })
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::Rules;
    use super::*;

    #[test]
    fn names_mean_what_they_mean_to_auth() {
        let user = |name: &str, rules: &[&str]| {
            let mut own = Rules::default();
            rules.iter().for_each(|rule| own.change(rule.as_bytes()).expect("a rule"));
            (name.as_bytes().to_vec(), User::new(name.as_bytes(), own))
        };
        let logins = Logins(BTreeMap::from([
            user("default", &["on", "nopass"]),
            user("ann", &["on", ">secret"]),
            user("off", &["off", "nopass"]),
        ]));
        let judge = |name: &str, password: Option<&str>| {
            let Verdict::Right(login) = logins.judge(name.as_bytes(), password.map(str::as_bytes)) else { return None };
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
            Some((text(login.user), login.bucket.map(text).unwrap_or_default()))
        };
        let is = |user: &str, bucket: &str| Some((user.to_owned(), bucket.to_owned()));
        assert_eq!(judge("", None), is("default", ""));
        assert_eq!(judge("", Some("whatever")), is("default", ""));
        assert_eq!(judge("shop", Some("whatever")), is("default", "shop"));
        assert_eq!(judge("ann", Some("secret")), is("ann", ""));
        assert_eq!(judge("ann@shop", Some("secret")), is("ann", "shop"));
        assert_eq!(judge("bob@shop", Some("secret")), is("default", "bob@shop"), "no bucket is called so");
        assert_eq!(logins.named(b"ann").map(|login| login.user), Some(b"ann".to_vec()));
        assert!(logins.named(b"off").is_none() && logins.named(b"shop").is_none());
        for (name, password) in [("ann", Some("wrong")), ("ann@shop", Some("")), ("ann", None), ("off", Some(""))] {
            assert_eq!(judge(name, password), None, "{name}");
        }
    }
}
