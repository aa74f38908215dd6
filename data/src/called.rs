//! What scripts call, noted for those who want to see it (`MONITOR`). No part of the state, and without effect on what an entry means.

use crate::blob::Blob;
use crate::commands;
use crate::transaction::is_own;
use base::limits::CALLS_SHOWN_BYTES_MAX;
use std::cell::{Cell, RefCell};

/// The words of a command that a script has called.
pub type CalledWords = Vec<Blob>;

/// See the file's head. Interior mutability lets reads note what their scripts call.
#[derive(Clone, Debug, Default)]
pub struct Called {
    is_wanted: Cell<bool>,
    commands: RefCell<Vec<CalledWords>>,
    bytes: Cell<usize>,
}

impl Called {
    /// Begins anew: from here on calls are noted, or not.
    pub fn begin(&self, is_wanted: bool) {
        if self.is_wanted.replace(is_wanted) {
            self.forget_since(0);
        }
    }

    /// What was called since [`Called::begin`], in order: up to [`CALLS_SHOWN_BYTES_MAX`]. Nothing more is noted.
    pub fn take(&self) -> Vec<CalledWords> {
        self.is_wanted.set(false);
        self.bytes.set(0);
        self.commands.take()
    }

    /// A script calls a command that passed all checks.
    pub(crate) fn note(&self, words: &[&[u8]]) {
        if !self.is_wanted.get() || commands::lookup(words[0]).is_none() && !is_own(words[0]) {
            return;
        }
        let bytes = self.bytes.get() + words.iter().map(|word| word.len() + size_of::<Blob>()).sum::<usize>();
        self.bytes.set(bytes);
        if bytes <= CALLS_SHOWN_BYTES_MAX {
            self.commands.borrow_mut().push(words.iter().map(|word| Blob::new(word)).collect());
        }
    }

    /// How many calls are noted.
    pub(crate) fn len(&self) -> usize {
        self.commands.borrow().len()
    }

    /// Forgets all calls but the first ones: the script is run again.
    pub(crate) fn forget_since(&self, len: usize) {
        let mut commands = self.commands.borrow_mut();
        commands.truncate(len);
        let bytes = commands.iter().flatten().map(|word| word.len() + size_of::<Blob>()).sum();
        self.bytes.set(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EntryContext, Tree, View, apply, read};

    #[test]
    fn what_scripts_call_is_noted_up_to_a_bound_and_only_where_it_is_wanted() {
        let mut tree = Tree::new();
        let eval = |tree: &mut Tree, body: &str| {
            drop(apply(tree, &EntryContext::default(), &[b"EVAL", body.as_bytes(), b"0"]))
        };
        eval(&mut tree, "redis.call('SET', 'k', 'v')");
        assert!(tree.called().take().is_empty());
        tree.called().begin(true);
        eval(&mut tree, "redis.call('SET', 'k', 'v') redis.pcall('NOSUCH') redis.pcall('GET')");
        assert_eq!(tree.called().take(), [["SET", "k", "v"].map(|word| Blob::new(word.as_bytes()))]);
        tree.called().begin(true);
        eval(&mut tree, "for i = 1, 20000 do redis.call('EXISTS', ('k'):rep(1000)) end");
        let called = tree.called().take();
        let bytes: usize = called.iter().flatten().map(|word| word.len() + size_of::<Blob>()).sum();
        assert!(bytes <= CALLS_SHOWN_BYTES_MAX && bytes > CALLS_SHOWN_BYTES_MAX / 2, "{bytes}");
        // A read that is tried again shows what its last attempt has called.
        for _ in 0..2 {
            tree.called().begin(true);
            let view = View::new(&tree, base::WallTime(0), 1);
            read(&view, &[b"EVAL_RO", b"return redis.call('GET', 'k')", b"0"]);
        }
        assert_eq!(tree.called().take().len(), 1);
        assert_eq!(tree.called().len(), 0);
    }
}
