//! Builds Lua 5.1.5 for `mlua`, with our corrections: see the README.
//!
//! The sources come from the registry, are compared with the checksums of those that were reviewed, corrected (`edits.rs`), and compiled together
//! with what we add (`../c`).

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it runs in a build script, not in a node")]

mod edits;
mod reviewed;

use sha1::{Digest, Sha1};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

pub use Version::Lua51;

/// The only version that there is here.
#[derive(Debug, PartialEq, Eq)]
pub enum Version {
    /// 5.1.5.
    Lua51,
}

/// Builds Lua. Has what `mlua-sys` asks of the crate for which this one stands in.
#[derive(Debug, Default)]
pub struct Build;

/// What was built.
#[derive(Debug)]
pub struct Artifacts {
    folder: PathBuf,
}

/// What we add, and what it is called where it is compiled.
const OURS: [(&str, &str); 2] =
    [("dictum.h", include_str!("../c/dictum.h")), ("dictum.c", include_str!("../c/dictum.c"))];
const LIBRARY: &str = "lua5.1";

impl Build {
    /// A build.
    #[must_use]
    pub fn new() -> Build {
        Build
    }

    /// Builds it, from the build script of `mlua-sys`.
    ///
    /// # Panics
    /// If that cannot be done: the text says why.
    #[must_use]
    pub fn build(&self, _: Version) -> Artifacts {
        let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts"));
        let pristine = pristine_folder(&out);
        let sources = out.join("lua");
        fs::create_dir_all(&sources).unwrap_or_else(|error| panic!("cannot create {}: {error}", sources.display()));
        for (name, text) in corrected(&pristine).iter().map(|(name, text)| (*name, &**text)).chain(OURS) {
            let path = sources.join(name);
            fs::write(&path, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        }
        compile(&sources, &out.join("lib"));
        Artifacts { folder: out.join("lib") }
    }
}

impl Artifacts {
    /// Tells cargo what to link.
    pub fn print_cargo_metadata(&self) {
        println!("cargo:rustc-link-search=native={}", self.folder.display());
        println!("cargo:rustc-link-lib=static={LIBRARY}");
    }
}

/// Where the registry's sources of Lua are: beside the code of the crate that has them. Cargo tells nobody, but that code says in which file it is
/// when it panics; and it does if it shall build Lua for a machine that is none.
fn pristine_folder(out: &Path) -> PathBuf {
    let seen = Arc::new(Mutex::new(None));
    let seeing = Arc::clone(&seen);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        *seeing.lock().unwrap() = panic.location().map(|place| PathBuf::from(place.file()));
    }));
    let outcome = std::panic::catch_unwind(|| {
        pristine::Build::new().out_dir(out.join("nowhere")).target("nowhere").host("nowhere").build(pristine::Lua51)
    });
    std::panic::set_hook(before);
    assert!(outcome.is_err(), "lua-src built Lua for a machine that does not exist: its folder cannot be found so");
    let file = seen.lock().unwrap().take().expect("a panic has a place");
    let folder = file.parent().and_then(Path::parent).map(|crate_folder| crate_folder.join("lua-5.1.5"));
    folder.filter(|folder| folder.is_dir()).unwrap_or_else(|| {
        panic!("the sources of Lua are not where lua-src is, beside {}: are paths remapped?", file.display())
    })
}

/// The reviewed sources with all corrections.
fn corrected(pristine: &Path) -> Vec<(&'static str, String)> {
    let mut files: Vec<(&'static str, String)> = reviewed::FILES
        .iter()
        .map(|(name, checksum)| {
            let path = pristine.join(name);
            let text =
                fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
            let found: String = Sha1::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(
                &found,
                checksum,
                "{} is not the file that was reviewed: review it, then put its checksum into lua/src/reviewed.rs",
                path.display()
            );
            (*name, text)
        })
        .collect();
    for edit in edits::EDITS {
        let Some((_, text)) = files.iter_mut().find(|(name, _)| *name == edit.file) else {
            panic!("lua/src/edits.rs corrects {}, which Lua does not have", edit.file);
        };
        let count = text.matches(edit.find).count();
        assert_eq!(
            count, 1,
            "lua/src/edits.rs looks for this text in {} and finds it {count} times instead of once ({}):\n{}",
            edit.file, edit.why, edit.find
        );
        *text = text.replacen(edit.find, edit.put, 1);
    }
    files
}

fn compile(sources: &Path, out: &Path) {
    let mut build = cc::Build::new();
    if std::env::var("CARGO_CFG_UNIX").is_ok() {
        build.define("LUA_USE_POSIX", None);
    }
    build
        .cargo_metadata(false)
        .warnings(false)
        .include(sources)
        .out_dir(out)
        // Tests run scripts of fifty million instructions, too.
        .opt_level(2)
        .flag_if_supported("-fno-common")
        // Overflow of whole numbers is defined.
        .flag_if_supported("-fwrapv")
        // A product and a sum are rounded each, on every processor.
        .flag_if_supported("-ffp-contract=off")
        // It is linked into programs, never into libraries that are loaded later.
        .flag_if_supported("-ftls-model=initial-exec");
    for (name, _) in reviewed::FILES.iter().chain(&[("dictum.c", "")]).filter(|(name, _)| name.ends_with(".c")) {
        build.file(sources.join(name));
    }
    build.compile(LIBRARY);
}
