//! The users as the council keeps them: each by its name, with the rules that make it. `default` is there once somebody has changed it.

use std::collections::BTreeMap;

use base::Position;
use bytes::Bytes;
use data::{EntryContext, Failure, KeyRef, Reply, Tree, Value};
use wire::{Malformed, Reader, Writer};

use super::DEFAULT;
use super::rules::{RULES_MAX, Refusal, Rules, read_words, write_words};

/// The key that they stand under in the council's state.
const KEY: &[u8] = b"users";
/// With the position since which `default` is there.
const VERSION: u8 = 2;
const VERSION_WITHOUT_POSITION: u8 = 1;
/// Most users beside `default`.
const USERS_MAX: usize = 1000;
/// Most bytes of one user's rules, and of all of them: every node reads them anew whenever the council changes.
pub(crate) const RULES_BYTES_MAX: usize = 64 * 1024;
const ALL_BYTES_MAX: usize = 1024 * 1024;
/// Longest name of a user.
pub(crate) const NAME_BYTES_MAX: usize = 256;

const SET: u8 = 1;
const DROP: u8 = 2;

/// A change of the council's users.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum UserChange {
    /// Rules for a user, each one word; no password stands in them. `first`: the rules of `default` at the node that proposes this, for when nobody has changed
    /// them yet; empty for all other users.
    Set { name: Vec<u8>, first: Vec<u8>, rules: Vec<Vec<u8>> },
    /// These users are no more.
    Drop(Vec<Vec<u8>>),
}

impl UserChange {
    pub(crate) fn encode(&self, w: &mut Writer<'_>) {
        match self {
            UserChange::Set { name, first, rules } => {
                w.u8(SET);
                w.bytes(name);
                w.bytes(first);
                write_words(w, rules);
            }
            UserChange::Drop(names) => {
                w.u8(DROP);
                write_words(w, names);
            }
        }
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<UserChange, Malformed> {
        Ok(match r.u8()? {
            SET => {
                let (name, first) = (r.slice()?.to_vec(), r.slice()?.to_vec());
                UserChange::Set { name, first, rules: read_words(r)? }
            }
            DROP => UserChange::Drop(read_words(r)?),
            _ => return Err(Malformed),
        })
    }
}

/// See the file's head.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Users {
    by_name: BTreeMap<Vec<u8>, Rules>,
    /// Where in the council's log somebody changed `default` for the first time; 0: nowhere.
    default_since: Position,
}

impl Users {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &Rules)> {
        self.by_name.iter().map(|(name, rules)| (name.as_slice(), rules))
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<&Rules> {
        self.by_name.get(name)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// From which position of the council's log on there are rules for `default`; 0: there are none.
    pub(crate) fn default_since(&self) -> Position {
        self.default_since
    }

    /// Carries a change out, which stands `at` this position of the council's log; its answer.
    ///
    /// # Errors
    /// In Redis's words. Nothing has changed then.
    pub(crate) fn carry_out(&mut self, change: &UserChange, at: Position) -> Result<Reply, Failure> {
        match change {
            UserChange::Set { name, first, rules } => {
                self.change(name, first, rules)?;
                if name == DEFAULT && self.default_since == Position(0) {
                    self.default_since = at;
                }
                Ok(Reply::Ok)
            }
            UserChange::Drop(names) => Ok(Reply::Integer(self.remove(names))),
        }
    }

    /// Changes a user by rules, or makes it. `default` begins as `first`, which is what it is at the node that proposes this.
    ///
    /// # Errors
    /// In Redis's words. Nothing has changed then.
    fn change(&mut self, name: &[u8], first: &[u8], words: &[Vec<u8>]) -> Result<(), Failure> {
        let refused = |rule: &[u8], refusal: Refusal| {
            let text = [b"ERR Error in ACL SETUSER modifier '", rule, b"': ", refusal.text().as_bytes()].concat();
            Failure::built(&text)
        };
        let refused_last = |refusal| refused(words.last().map_or(b"", Vec::as_slice), refusal);
        let mut rules = match self.by_name.get(name) {
            Some(rules) => rules.clone(),
            None if name == DEFAULT && !first.is_empty() => {
                Rules::read_one(first).map_err(|_| Failure::Text("ERR the rules of 'default' are malformed"))?
            }
            None if self.by_name.len() > USERS_MAX => {
                let text = format!("ERR there are {USERS_MAX} users, and no more are possible");
                return Err(Failure::built(text.as_bytes()));
            }
            None => Rules::default(),
        };
        if words.len() > RULES_MAX {
            return Err(refused_last(Refusal::TooMuch));
        }
        for rule in words {
            rules.change(rule).map_err(|refusal| refused(rule, refusal))?;
        }
        let others = self.by_name.iter().filter(|(other, _)| *other != name);
        let bytes: usize = others.map(|(name, rules)| name.len() + rules.line().len()).sum();
        let own = name.len() + rules.line().len();
        if own > RULES_BYTES_MAX || bytes + own > ALL_BYTES_MAX || rules.count() > RULES_MAX {
            return Err(refused_last(Refusal::TooMuch));
        }
        // Rules that cannot be read back would end every node, now and at each start.
        if Rules::read_one(&rules.write_one()).as_ref() != Ok(&rules) {
            return Err(refused_last(Refusal::Syntax));
        }
        self.by_name.insert(name.to_vec(), rules);
        Ok(())
    }

    /// Removes users; how many of them there were.
    fn remove(&mut self, names: &[Vec<u8>]) -> i64 {
        names.iter().filter(|name| self.by_name.remove(*name).is_some()).count() as i64
    }

    /// As the council's state has them; empty if it has none.
    pub(super) fn bytes(tree: &Tree) -> Result<Bytes, Malformed> {
        match tree.get(KeyRef::new(KEY)).map(|record| record.value) {
            None => Ok(Bytes::new()),
            Some(Value::String(bytes)) => Ok(Bytes::copy_from_slice(&bytes)),
            Some(_) => Err(Malformed),
        }
    }

    pub(crate) fn read(tree: &Tree) -> Result<Users, Malformed> {
        Users::decode(&Users::bytes(tree)?)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Users, Malformed> {
        if bytes.is_empty() {
            return Ok(Users::default());
        }
        let mut r = Reader::from_slice(bytes);
        let version = r.u8()?;
        if !(VERSION_WITHOUT_POSITION..=VERSION).contains(&version) {
            return Err(Malformed);
        }
        let default_since = if version < VERSION { Position(0) } else { r.position()? };
        let mut by_name = BTreeMap::new();
        for _ in 0..r.count(2)? {
            let name = r.slice()?.to_vec();
            by_name.insert(name, Rules::decode(&mut r)?);
        }
        r.finish()?;
        Ok(Users { by_name, default_since })
    }

    pub(crate) fn write(&self, tree: &mut Tree, context: &EntryContext) {
        let mut bytes = Vec::new();
        let mut w = Writer::new(&mut bytes);
        w.u8(VERSION);
        w.position(self.default_since);
        w.count(self.by_name.len());
        for (name, rules) in &self.by_name {
            w.bytes(name);
            rules.encode(&mut w);
        }
        data::apply(tree, context, &[b"set", KEY, &bytes]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<Vec<u8>> {
        words.iter().map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn a_user_has_so_many_rules_and_no_more() {
        let mut users = Users::default();
        let keys: Vec<Vec<u8>> = (0..2000).map(|number| format!("~{number}").into_bytes()).collect();
        assert!(users.change(b"ann", b"", &keys[..999]).is_ok());
        assert!(users.change(b"ann", b"", &keys).is_err());
        assert_eq!(users.get(b"ann").map(Rules::count), Some(1000));
    }

    #[test]
    fn what_is_stored_is_read_back_and_bounded() {
        let mut tree = Tree::new();
        assert_eq!(Users::read(&tree), Ok(Users::default()));
        let mut users = Users::default();
        users
            .change(b"ann", b"", &words(&["on", ">secret", "~cart:*", "%R~stock:*", "+@read", "-keys"]))
            .expect("rules");
        users.change(b"bob", b"", &words(&["nopass", "&news", "(~x +set bucket=shop)", "db=0,3"])).expect("rules");
        users.change(DEFAULT, &Rules::of_default().write_one(), &words(&["-@dangerous"])).expect("rules");
        users.write(&mut tree, &EntryContext::default());
        assert_eq!(Users::read(&tree), Ok(users.clone()));

        let before = users.clone();
        let long = "~".to_owned() + &"x".repeat(RULES_BYTES_MAX);
        assert!(users.change(b"ann", b"", &words(&["off", &long])).is_err());
        assert!(
            users.change(b"ann", b"", &words(&["off", "~"])).is_ok()
                && users.change(b"ann", b"", &words(&["on"])).is_ok()
        );
        assert_eq!(users.remove(&words(&["ann", "ann", "nobody"])), 1);
        assert_ne!(users, before);
        for number in 0..2000 {
            let _ = users.change(number.to_string().as_bytes(), b"", &words(&["on"]));
        }
        assert_eq!(users.iter().count(), USERS_MAX + 1);
        for number in 0..2000 {
            let _ =
                users.change(number.to_string().as_bytes(), b"", &words(&[&("~".to_owned() + &"x".repeat(60_000))]));
        }
        let bytes: usize = users.iter().map(|(name, rules)| name.len() + rules.line().len()).sum();
        assert!((ALL_BYTES_MAX - 70_000..=ALL_BYTES_MAX).contains(&bytes), "{bytes}");
    }
}
