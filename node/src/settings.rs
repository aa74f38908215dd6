//! Settings of the cluster, as the council keeps them: what `CONFIG SET` was told last, by name. They hold at all nodes and survive restarts.
//!
//! What a setting means, and which values it can have, only `commands/config.rs` knows: here they are texts, which were looked at before they were
//! proposed. A name that this build does not know stays as it is, for those who do.

use std::collections::BTreeMap;

use data::{EntryContext, KeyRef, Tree, Value};
use wire::{Malformed, Reader, Writer};

/// The key that they stand under in the council's state.
const KEY: &[u8] = b"settings";
const VERSION: u8 = 1;
/// Longest name and longest value.
const NAME_BYTES_MAX: usize = 64;
pub(crate) const VALUE_BYTES_MAX: usize = 4096;
/// Most settings: there are about two hundred.
const COUNT_MAX: usize = 1024;

/// Names and values.
pub(crate) type Pairs = Vec<(String, String)>;

/// See the file's head.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct ClusterSettings(BTreeMap<String, String>);

impl ClusterSettings {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Sets these. What is too long or too much is passed over: nobody proposes that.
    pub(crate) fn set(&mut self, pairs: Pairs) {
        for (name, value) in pairs {
            let fits = name.len() <= NAME_BYTES_MAX && value.len() <= VALUE_BYTES_MAX;
            if fits && (self.0.len() < COUNT_MAX || self.0.contains_key(&name)) {
                self.0.insert(name, value);
            }
        }
    }

    pub(crate) fn read(tree: &Tree) -> Result<ClusterSettings, Malformed> {
        let Some(record) = tree.get(KeyRef::new(KEY)) else { return Ok(ClusterSettings::default()) };
        let Value::String(bytes) = &record.value else { return Err(Malformed) };
        let mut r = Reader::from_slice(bytes);
        if r.u8()? != VERSION {
            return Err(Malformed);
        }
        let pairs = read_pairs(&mut r)?;
        r.finish()?;
        Ok(ClusterSettings(pairs.into_iter().collect()))
    }

    pub(crate) fn write(&self, tree: &mut Tree, context: &EntryContext) {
        let mut bytes = Vec::new();
        let mut w = Writer::new(&mut bytes);
        w.u8(VERSION);
        write_pairs(&mut w, self.0.iter());
        data::apply(tree, context, &[b"set", KEY, &bytes]);
    }
}

pub(crate) fn write_pairs<'a>(w: &mut Writer<'_>, pairs: impl ExactSizeIterator<Item = (&'a String, &'a String)>) {
    w.count(pairs.len());
    for (name, value) in pairs {
        w.bytes(name.as_bytes());
        w.bytes(value.as_bytes());
    }
}

pub(crate) fn read_pairs(r: &mut Reader<'_>) -> Result<Pairs, Malformed> {
    (0..r.count(2)?).map(|_| Ok((r.text()?.to_owned(), r.text()?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_read_back_and_bounded() {
        let mut tree = Tree::new();
        assert_eq!(ClusterSettings::read(&tree), Ok(ClusterSettings::default()));
        let mut stored = ClusterSettings::default();
        stored.set(vec![("hz".to_owned(), "10".to_owned()), ("save".to_owned(), String::new())]);
        stored.set(vec![("hz".to_owned(), "20".to_owned()), ("x".repeat(65), String::new())]);
        stored.set(vec![("long".to_owned(), "x".repeat(VALUE_BYTES_MAX + 1))]);
        stored.write(&mut tree, &EntryContext::default());
        assert_eq!(ClusterSettings::read(&tree), Ok(stored.clone()));
        assert_eq!(stored.iter().collect::<Vec<_>>(), [("hz", "20"), ("save", "")]);
        stored.set((0..2000).map(|number| (number.to_string(), String::new())).collect());
        assert_eq!(stored.iter().count(), COUNT_MAX);
    }
}
