//! The C that is compiled into the binary is the C that was reviewed: `docs/vendored.md` has a row for each crate that can compile some, with the
//! locked version.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Crates by which others compile, or bind to, C.
const COMPILERS: [&str; 3] = ["cc", "cmake", "bindgen"];

fn read(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)).unwrap()
}

/// Every locked package that can compile C, with its version. One of this tree has no source, and the version of its manifest.
fn locked() -> BTreeSet<(String, String)> {
    let lock = read("Cargo.lock");
    let packages = lock.split("[[package]]").skip(1);
    let can_compile = packages.filter(|package| {
        let dependencies = package.lines().filter_map(|line| line.strip_prefix(" \"")?.strip_suffix("\","));
        // With a version behind the name, if the tree has several.
        dependencies.filter_map(|name| name.split(' ').next()).any(|name| COMPILERS.contains(&name))
    });
    let field = |package: &str, name: &str| {
        let value = package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \"")?.strip_suffix('"'));
        value.expect("a package has a name and a version").to_owned()
    };
    can_compile.map(|package| (field(package, "name"), field(package, "version"))).collect()
}

/// The first two cells of each row of the table, without the head.
fn reviewed() -> BTreeSet<(String, String)> {
    let text = read("docs/vendored.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.map(|row| {
        let mut cells = row.split('|').map(|cell| cell.trim().trim_matches('`').to_owned());
        (cells.next().expect("a crate"), cells.next().expect("a version"))
    });
    cells.collect()
}

#[test]
fn vendored_c_has_the_versions_that_were_reviewed() {
    let locked = locked();
    assert!(locked.iter().any(|(name, _)| name == "libmimalloc-sys"), "Cargo.lock is read: {locked:?}");
    assert_eq!(
        locked,
        reviewed(),
        "left: Cargo.lock; right: docs/vendored.md. Review what is new, then change its row"
    );
}
