//! What the scripts of a user may call, as it goes into their entries and reads: see [`data::permit`].

use std::collections::BTreeSet;

use data::algorithms::glob::Glob;
use data::permit::{KeyPattern, OWN_COMMANDS, Permit, Scope};
use data::spec::Flags;
use wire::{Malformed, Reader, Writer};

use super::compiled::Ready;
use super::rules::{Access, Selector};
use crate::commands::known::Known;

/// Longest permit of one user, in bytes: each entry with a script of that user is so much longer.
pub(super) const PERMIT_BYTES_MAX: usize = 32 << 10;

const VERSION: u8 = 1;
const ALL_COMMANDS: u8 = 1;
const ALL_KEYS: u8 = 2;
const ALL_CHANNELS: u8 = 4;
const ALL_BUCKETS: u8 = 8;
const READS: u8 = 1;
const WRITES: u8 = 2;

/// Whether scripts may call this at all.
fn is_for_scripts(known: Known) -> bool {
    match known {
        Known::OnKeys(spec) => !spec.flags.has(Flags::NOSCRIPT),
        Known::Own(_) => OWN_COMMANDS.contains(&known.spec().name),
    }
}

/// The scope of one selector, encoded.
pub(super) fn scope_of(ready: &Ready, selector: &Selector) -> Vec<u8> {
    let has_all = selector.all_commands && selector.commands.is_empty();
    let of = |flag: u8, holds: bool| if holds { flag } else { 0 };
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    w.u8(of(ALL_COMMANDS, has_all)
        | of(ALL_KEYS, selector.all_keys)
        | of(ALL_CHANNELS, selector.all_channels)
        | of(ALL_BUCKETS, selector.buckets.is_none()));
    if !has_all {
        let names: Vec<&str> =
            ready.allowed().filter(|known| is_for_scripts(*known)).map(|known| known.spec().name).collect();
        w.bytes(names.join(" ").as_bytes());
        let with_first: Vec<(&str, &[u8])> = ready.allowed_with_first_argument().collect();
        w.count(with_first.len());
        for (name, first) in with_first {
            w.bytes(name.as_bytes());
            w.bytes(first);
        }
    }
    if !selector.all_keys {
        w.count(selector.keys.len());
        for (pattern, Access { reads, writes }) in &selector.keys {
            w.u8(of(READS, *reads) | of(WRITES, *writes));
            w.bytes(pattern);
        }
    }
    if !selector.all_channels {
        w.count(selector.channels.len());
        selector.channels.iter().for_each(|pattern| w.bytes(pattern));
    }
    out
}

/// The permit of these scopes.
pub(super) fn encode<'s>(scopes: impl ExactSizeIterator<Item = &'s [u8]>) -> Vec<u8> {
    let mut out = vec![VERSION];
    let mut w = Writer::new(&mut out);
    w.count(scopes.len());
    scopes.for_each(|scope| w.raw(scope));
    out
}

/// Reads a permit.
///
/// # Errors
/// It is none, or of another version.
pub(crate) fn decode(bytes: &[u8]) -> Result<Permit, Malformed> {
    let mut r = Reader::from_slice(bytes);
    if r.u8()? != VERSION {
        return Err(Malformed);
    }
    let scopes = (0..r.count(1)?).map(|_| read_scope(&mut r)).collect::<Result<_, _>>()?;
    if r.rest().is_empty() { Ok(Permit { scopes }) } else { Err(Malformed) }
}

fn read_scope(r: &mut Reader<'_>) -> Result<Scope, Malformed> {
    let has = r.u8()?;
    let mut scope = Scope { all_buckets: has & ALL_BUCKETS != 0, ..Scope::default() };
    if has & ALL_COMMANDS == 0 {
        let names = r.slice()?.split(|byte| *byte == b' ').filter(|name| !name.is_empty());
        scope.commands = Some(names.map(<[u8]>::to_vec).collect::<BTreeSet<_>>());
        for _ in 0..r.count(2)? {
            scope.first_arguments.push((r.slice()?.to_vec(), r.slice()?.to_vec()));
        }
    }
    if has & ALL_KEYS == 0 {
        let mut keys = Vec::new();
        for _ in 0..r.count(2)? {
            let access = r.u8()?;
            keys.push(KeyPattern::new(r.slice()?, access & READS != 0, access & WRITES != 0));
        }
        scope.keys = Some(keys);
    }
    if has & ALL_CHANNELS == 0 {
        let mut channels = Vec::new();
        for _ in 0..r.count(1)? {
            channels.push(Glob::new(r.slice()?));
        }
        scope.channels = Some(channels);
    }
    Ok(scope)
}
