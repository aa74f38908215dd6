//! Scripts and libraries of functions, which are part of the state as keys are: every replica must find them, also after a failover.
//!
//! They stand among the elements, where no collection is, so that they are flushed, imaged and transferred as all others:
//! ```text
//!   (CODE, 0, SHA1 in hexadecimal) ─► script
//!   (CODE, 1, name of a library)   ─► code
//!   (CODE, 2, name of a function)  ─► library, SHA1 of its code, description, flags
//!   (CODE, 3, "")                  ─► bytes of all scripts
//! ```
//! FLUSHALL leaves them. Nobody is told of changes: no key has changed.

use super::{Collections, PART_SCORES, QUEUE};
use crate::blob::Blob;
use crate::codec::{Reader, put_bytes, put_number};
use crate::failure::Failure;
use crate::image::Malformed;
use crate::kept::{ElementKey, ElementRef};
use crate::script::library::{Registered, is_name};
use base::versions::Feature;
use std::collections::BTreeSet;
use std::ops::Bound;

/// Where they stand. The queue is no sorted set and has no such part.
pub(crate) const CODE: u64 = QUEUE | PART_SCORES;

const SCRIPTS: u64 = 0;
const LIBRARIES: u64 = 1;
const FUNCTIONS: u64 = 2;
const TOTAL: u64 = 3;

/// Bytes of scripts that EVAL leaves behind; beyond, it runs them and keeps none, and EVALSHA does not know them.
const EVAL_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Bytes of all scripts.
const SCRIPT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// What a script counts for beside its bytes.
const SCRIPT_BYTES: u64 = 100;
/// Libraries, at most.
const LIBRARIES_MAX: usize = 1000;
/// Functions of all of them, at most.
const FUNCTIONS_MAX: usize = 10_000;

/// A library, as FUNCTION LIST shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Library {
    pub name: Blob,
    pub code: Blob,
}

/// A function, as FCALL finds it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub library: Blob,
    /// SHA1 of the library's code, in hexadecimal.
    pub sha: String,
    pub function: Registered,
}

fn key(order: u64, name: &[u8]) -> ElementKey {
    ElementKey { collection: CODE, order, name: Blob::new(name) }
}

impl Found {
    fn write(&self) -> Blob {
        let mut bytes = Vec::new();
        put_bytes(&mut bytes, &self.library);
        put_bytes(&mut bytes, self.sha.as_bytes());
        put_number(&mut bytes, u64::from(self.function.description.is_some()));
        put_bytes(&mut bytes, self.function.description.as_deref().unwrap_or_default());
        put_number(&mut bytes, self.function.flags.len() as u64);
        self.function.flags.iter().for_each(|flag| put_bytes(&mut bytes, flag));
        Blob::from(bytes)
    }

    fn read(name: &[u8], value: &[u8]) -> Result<Found, Malformed> {
        let mut reader = Reader::new(value);
        let library = Blob::new(reader.bytes()?);
        let sha = String::from_utf8(reader.bytes()?.to_vec()).map_err(|_| Malformed("a SHA1 is no text"))?;
        let has_description = reader.number()? != 0;
        let description = reader.bytes()?;
        let mut flags = Vec::new();
        for _ in 0..reader.number()? {
            flags.push(reader.bytes()?.to_vec());
        }
        let description = has_description.then(|| description.to_vec());
        let function = Registered { name: name.to_vec(), description, flags };
        if reader.is_at_end() {
            Ok(Found { library, sha, function })
        } else {
            Err(Malformed("bytes follow a function"))
        }
    }
}

/// Refuses what cannot stand among scripts and libraries.
pub(super) fn check(key: &ElementKey, value: &Blob) -> Result<(), Malformed> {
    match key.order {
        SCRIPTS if key.name.len() == 40 => Ok(()),
        LIBRARIES if is_name(&key.name) => Ok(()),
        FUNCTIONS => Found::read(&key.name, value).map(drop),
        TOTAL if value.len() == 8 && key.name.is_empty() => Ok(()),
        _ => Err(Malformed("what stands among the scripts is none")),
    }
}

impl Collections {
    fn code(&self, order: u64, name: &[u8]) -> Option<Blob> {
        self.elements.get(ElementRef { collection: CODE, order, name })
    }

    /// What stands there of one sort: name and value.
    fn all_code(&self, order: u64) -> impl Iterator<Item = (Blob, Blob)> {
        let end = key(order + 1, b"");
        self.range_before(CODE, Bound::Included((order, b"")), &end).map(|(key, value)| (key.name, value))
    }

    /// The script of a SHA1, in lower case.
    pub(crate) fn script(&self, sha: &str) -> Option<Blob> {
        self.code(SCRIPTS, sha.as_bytes())
    }

    fn script_bytes(&self) -> u64 {
        let total = self.code(TOTAL, b"");
        total.and_then(|bytes| bytes.as_slice().try_into().ok()).map_or(0, u64::from_be_bytes)
    }

    /// Whether there is room for another script, left behind by EVAL or asked for.
    pub(crate) fn has_room_for(&self, body: &[u8], is_loaded: bool) -> bool {
        let limit = if is_loaded { SCRIPT_BYTES_MAX } else { EVAL_BYTES_MAX };
        self.script_bytes() + body.len() as u64 + SCRIPT_BYTES <= limit
    }

    /// Keeps a script that is not kept yet.
    pub(crate) fn keep_script(&mut self, sha: &str, body: &[u8]) {
        let total = self.script_bytes() + body.len() as u64 + SCRIPT_BYTES;
        self.elements.insert(key(SCRIPTS, sha.as_bytes()), Blob::new(body));
        self.elements.insert(key(TOTAL, b""), Blob::new(&total.to_be_bytes()));
    }

    fn remove_code(&mut self, orders: &[u64]) {
        for order in orders {
            let names: Vec<Blob> = self.all_code(*order).map(|(name, _)| name).collect();
            names.iter().for_each(|name| self.elements.erase(key(*order, name)));
        }
    }

    /// Forgets all scripts.
    pub(crate) fn forget_scripts(&mut self) {
        self.remove_code(&[SCRIPTS, TOTAL]);
    }

    /// Forgets all libraries.
    pub(crate) fn forget_libraries(&mut self) {
        self.remove_code(&[LIBRARIES, FUNCTIONS]);
    }

    /// A library's code.
    pub(crate) fn library(&self, name: &[u8]) -> Option<Blob> {
        self.code(LIBRARIES, name)
    }

    /// A function of any library.
    pub(crate) fn function(&self, name: &[u8]) -> Option<Found> {
        Found::read(name, &self.code(FUNCTIONS, name)?).ok()
    }

    /// The same, whatever the case of its letters: functions of a Redis have names without one.
    pub(crate) fn function_in_any_case(&self, name: &[u8], version: u16) -> Option<Found> {
        if let found @ Some(_) = self.function(name) {
            return found;
        }
        if !Feature::AsRedis.is_in(version) {
            return None;
        }
        self.functions().find(|found| found.function.name.eq_ignore_ascii_case(name))
    }

    /// All libraries, by their names.
    pub(crate) fn libraries(&self) -> impl Iterator<Item = Library> {
        self.all_code(LIBRARIES).map(|(name, code)| Library { name, code })
    }

    /// All functions, by their names.
    pub(crate) fn functions(&self) -> impl Iterator<Item = Found> {
        self.all_code(FUNCTIONS).filter_map(|(name, value)| Found::read(&name, &value).ok())
    }

    /// Keeps a library and its functions; in place of the one of that name, if there is one and that is wanted.
    pub(crate) fn keep_library(
        &mut self,
        name: &[u8],
        code: &[u8],
        functions: Vec<Registered>,
        replaces: bool,
        version: u16,
    ) -> Result<(), Failure> {
        let is_there = self.library(name).is_some();
        if is_there && !replaces {
            return Err(Failure::built(&[b"ERR Library '", name, b"' already exists"].concat()));
        }
        let in_any_case = Feature::AsRedis.is_in(version);
        let others = self.functions().filter(|found| in_any_case && found.library.as_slice() != name);
        let others: BTreeSet<Vec<u8>> = others.map(|found| found.function.name.to_ascii_lowercase()).collect();
        for function in &functions {
            let is_taken = others.contains(&function.name.to_ascii_lowercase())
                || self.function(&function.name).is_some_and(|found| found.library.as_slice() != name);
            if is_taken {
                return Err(Failure::built(&[b"ERR Function ", &function.name[..], b" already exists"].concat()));
            }
        }
        if self.libraries().count() >= LIBRARIES_MAX || self.functions().count() + functions.len() > FUNCTIONS_MAX {
            return Err(Failure::Text("ERR there are too many libraries or functions; FUNCTION DELETE makes room"));
        }
        self.forget_library(name);
        let sha = crate::script::sha1(code);
        self.elements.insert(key(LIBRARIES, name), Blob::new(code));
        for function in functions {
            let at = key(FUNCTIONS, &function.name);
            let found = Found { library: Blob::new(name), sha: sha.clone(), function };
            self.elements.insert(at, found.write());
        }
        Ok(())
    }

    /// Forgets a library and its functions; whether there was one.
    pub(crate) fn forget_library(&mut self, name: &[u8]) -> bool {
        if self.library(name).is_none() {
            return false;
        }
        let own: Vec<Found> = self.functions().filter(|found| found.library.as_slice() == name).collect();
        for found in own {
            self.elements.erase(key(FUNCTIONS, &found.function.name));
        }
        self.elements.erase(key(LIBRARIES, name));
        true
    }

    /// Everything of this sort, to be put back when all else goes.
    pub(super) fn take_code(&self) -> Vec<(ElementKey, Blob)> {
        self.range(CODE, Bound::Unbounded).collect()
    }
}
