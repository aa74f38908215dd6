//! A key that is moved to another database or server is removed only if its revision is what it was when it was copied. So every change of what is copied, the
//! value and the deadline, has to show in the revision: this holds it against every command of the pages.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test may read files")]

use std::collections::BTreeMap;

use base::WallTime;
use data::{Reply, Tree};

use crate::transcript::{START_MS, Session, pages, split};

/// The copied parts of each key, and its revision.
fn copied(session: &mut Session) -> BTreeMap<Vec<u8>, (Reply, [Reply; 2])> {
    let Reply::Array(keys) = session.run(&split("KEYS *")) else { panic!("KEYS answers keys") };
    let mut out = BTreeMap::new();
    for key in keys {
        let Reply::Bulk(key) = key else { panic!("a key is a text") };
        let mut ask = |name: &str| session.run(&[name.as_bytes().to_vec(), key.to_vec()]);
        let content = [ask("DUMP"), ask("PEXPIRETIME")];
        out.insert(key.to_vec(), (ask("DICTUM.REVISION"), content));
    }
    out
}

#[test]
fn every_change_of_what_is_copied_shows_in_the_revision() {
    let mut seen = 0;
    let mut silent = Vec::new();
    for (name, _, page) in pages() {
        let mut session = Session { tree: Tree::new(), clock: WallTime(START_MS) };
        for line in page.lines() {
            if line == "```dictum" {
                session = Session { tree: Tree::new(), clock: WallTime(START_MS) };
            }
            let Some(command) = line.strip_prefix("> ") else { continue };
            let before = copied(&mut session);
            session.run(&split(command));
            for (key, (revision, content)) in copied(&mut session) {
                let Some((revision_before, content_before)) = before.get(&key) else { continue };
                if *content_before != content {
                    seen += 1;
                    if *revision_before == revision {
                        silent.push(format!("{name}.md: {command}"));
                    }
                }
            }
        }
    }
    assert!(silent.is_empty(), "changes without another revision: {silent:#?}");
    assert!(seen > 300, "{seen} changes are hardly all");
}
