//! `DICTUM.BUCKET …`: buckets are created, listed, changed and dropped. Orders go through the council's log, and what is listed is read
//! there as linearizably as any key.

use base::versions::Feature;
use bytes::Bytes;
use data::Failure;
use data::spec::Group;

use super::{ADMIN, Entry, Local, container, helps, spec, special};
use crate::bucket::{BucketKind, DEFAULT_NAME, Settings, check_any_name, check_name, database_number};
use crate::council::{COUNCIL, Order, no_such_bucket};
use crate::entry::Kind;
use crate::node::Node;
use crate::router::ReadKind;
use crate::session::Session;

const GROUP: Group = Group::Dictum;
const SETTINGS: &str = "name [KIND persistent|ephemeral|cache] [PARTITIONS number] [QUOTA bytes] [POLICY fifo|lru|lfu|s3-fifo|node] \
                        [DURABILITY majority|persist-majority|all] [CONSISTENCY linearizable|session|local] [TTL seconds] \
                        [VALUE-BYTES-MAX bytes]";

/// The table of this family.
pub(super) static ENTRIES: &[Entry] =
    &[container("dictum.bucket", GROUP, "0.1.0", "Creates, lists, changes and drops buckets.", SUBCOMMANDS)];

static SUBCOMMANDS: &[Entry] = &[
    special(
        spec("dictum.bucket|create", -3, GROUP, "0.1.0", "Creates a bucket.", SETTINGS),
        ADMIN,
        Local::Bucket(Wanted::Create),
    ),
    special(
        spec("dictum.bucket|list", 2, GROUP, "0.1.0", "Lists all buckets with their settings.", ""),
        ADMIN,
        Local::Bucket(Wanted::List),
    ),
    special(
        spec("dictum.bucket|show", 3, GROUP, "0.1.0", "Returns the settings of a bucket.", "name"),
        ADMIN,
        Local::Bucket(Wanted::Show),
    ),
    special(
        spec("dictum.bucket|set", -5, GROUP, "0.1.0", "Changes settings of a bucket.", SETTINGS),
        ADMIN,
        Local::Bucket(Wanted::Set),
    ),
    special(
        spec("dictum.bucket|drop", -3, GROUP, "0.1.0", "Removes a bucket with all its keys.", "name CONFIRM"),
        &["admin", "noscript", "@dangerous"],
        Local::Bucket(Wanted::Drop),
    ),
    helps("dictum.bucket|help", GROUP, super::ALWAYS),
];

/// Which of the subcommands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    Create,
    List,
    Show,
    Set,
    Drop,
}

/// Carries `DICTUM.BUCKET` out; the connection is aimed at the council.
pub(crate) fn run(node: &mut Node, session: &mut Session, wanted: Wanted, words: &[&[u8]]) {
    let name = words.get(2).copied().unwrap_or_default();
    let order = match wanted {
        Wanted::List | Wanted::Show => {
            node.submit_read(session, COUNCIL, ReadKind::Buckets, |out| out.extend_from_slice(name));
            return;
        }
        Wanted::Create => create(node, words),
        Wanted::Set => set(node, words),
        Wanted::Drop => drop(node, words),
    };
    match order.and_then(|order| node.check_order(&order).map(|()| order)) {
        Ok(order) => {
            // To create is the only one that needs room; to drop, and to lower a limit, is how it is freed.
            let kind = (Kind::Council, wanted == Wanted::Create);
            node.submit_write(session, COUNCIL, kind, Bytes::from(order.encode()));
        }
        Err(failure) => node.refuse(session, &failure),
    }
}

fn create(node: &Node, words: &[&[u8]]) -> Result<Order, Failure> {
    let name = match database_number(words[2]) {
        Some(_) if node.has(Feature::Databases) => check_any_name(words[2])?.to_owned(),
        _ => check_name(words[2])?.to_owned(),
    };
    let mut settings = Settings::of_kind(BucketKind::Persistent);
    settings.change(&words[3..], true)?;
    let (identities, founders) = node.founding(settings.kind)?;
    Ok(Order::Create { name, settings, identities, founders })
}

fn set(node: &Node, words: &[&[u8]]) -> Result<Order, Failure> {
    let name = check_any_name(words[2])?.to_owned();
    // What cannot be is refused at once; what it is changed from is known for certain only where it is applied.
    if let Some(bucket) = node.buckets.named(&name) {
        bucket.settings.clone().change(&words[3..], false)?;
    }
    Ok(Order::Set { name, words: words[3..].iter().map(|word| word.to_vec()).collect() })
}

fn drop(node: &Node, words: &[&[u8]]) -> Result<Order, Failure> {
    let name = check_any_name(words[2])?.to_owned();
    if name == DEFAULT_NAME {
        return Err(Failure::Text("ERR the default bucket cannot be dropped"));
    }
    let confirmed = matches!(words.get(3..), Some([word]) if word.eq_ignore_ascii_case(b"confirm"));
    if !confirmed {
        let text = format!(
            "ERR dropping a bucket removes all its keys for ever; if that is meant, say DICTUM.BUCKET DROP {name} CONFIRM"
        );
        return Err(Failure::built(text.as_bytes()));
    }
    let bucket = node.buckets.named(&name).ok_or_else(|| no_such_bucket(&name))?;
    Ok(Order::Drop { name, id: bucket.id })
}
