use super::*;
use base::WallTime;
use data::{EntryContext, apply, evict};

const CONTEXT: EntryContext = EntryContext {
    time: WallTime(1),
    seed: 1,
    value_bytes_max: 1 << 20,
    ttl_ms: 0,
    full_at_bytes: 0,
    names_events: false,
    recorded_bytes_max: None,
    slots: data::Slots::ALL,
    version: base::versions::OLDEST,
    work_max: base::limits::WORK_DEFAULT,
};

fn written(tree: &mut Tree, evicting: &mut Evicting, key: &str) {
    let applied = apply(tree, &CONTEXT, &[b"SET", key.as_bytes(), b"value"]);
    evicting.follow(&applied.changes, tree.bytes());
}

/// Chooses and evicts down to so many keys; what went, in its order.
fn down_to(tree: &mut Tree, evicting: &mut Evicting, keys: u64) -> Vec<String> {
    let each = tree.bytes() / tree.len();
    let victims = evicting.choose(tree, keys * each);
    let body = Eviction::encode(keys * each, &victims);
    let Eviction { down_to, victims } = Eviction::decode(&body).expect("it was just encoded");
    let applied = evict(tree, &CONTEXT, &victims, down_to);
    evicting.follow(&applied.changes, tree.bytes());
    applied.changes.iter().map(|change| String::from_utf8_lossy(&change.key).into_owned()).collect()
}

#[test]
fn what_was_not_asked_for_goes() {
    let (mut tree, mut evicting) = (Tree::new(), Evicting::new(Policy::Lru));
    for key in ["a", "b", "c", "d"] {
        written(&mut tree, &mut evicting, key);
    }
    evicting.touch(b"a", &tree, false);
    assert_eq!(down_to(&mut tree, &mut evicting, 2), ["b", "c"]);
    assert_eq!((tree.len(), evicting.evicted), (2, 2));
    assert!(down_to(&mut tree, &mut evicting, 2).is_empty(), "there is room");
}

#[test]
fn a_key_that_was_written_since_it_was_chosen_stays() {
    let (mut tree, mut evicting) = (Tree::new(), Evicting::new(Policy::Fifo));
    ["a", "b", "c"].iter().for_each(|key| written(&mut tree, &mut evicting, key));
    let victims = evicting.choose(&tree, 0);
    assert_eq!(victims.len(), 3);
    written(&mut tree, &mut evicting, "b");
    let victims: Vec<(&[u8], Revision)> = victims.iter().map(|(key, revision)| (&**key, *revision)).collect();
    let applied = evict(&mut tree, &CONTEXT, &victims, 0);
    evicting.follow(&applied.changes, tree.bytes());
    assert_eq!(applied.changes.len(), 2);
    assert!(tree.get(KeyRef::new(b"b")).is_some());
    // The same entry once more finds nothing.
    assert!(evict(&mut tree, &CONTEXT, &victims, 0).changes.is_empty());
    assert_eq!(down_to(&mut tree, &mut evicting, 0), ["b"]);
}

#[test]
fn what_is_not_known_goes_first_and_what_was_read_does_not() {
    let (mut tree, mut evicting) = (Tree::new(), Evicting::new(Policy::Lru));
    for number in 0..1000 {
        written(&mut tree, &mut evicting, &format!("k{number}"));
    }
    // As after a restart.
    drop(evicting.forget());
    evicting.touch(b"k7", &tree, true);
    assert_eq!(evicting.take_read(), [KeyRef::new(b"k7").order]);
    evicting.touch(b"never", &tree, true);
    evicting.touch_orders(&[KeyRef::new(b"k8").order, KeyRef::new(b"never").order], &tree);
    assert_eq!(evicting.tracker.len(), 2);
    written(&mut tree, &mut evicting, "late");
    let mut gone = 0;
    while tree.len() > 3 {
        let keys = (tree.len() - 100).max(3);
        gone += down_to(&mut tree, &mut evicting, keys).len();
    }
    assert!(gone <= 998);
    for key in ["k7", "k8", "late"] {
        assert!(tree.get(KeyRef::new(key.as_bytes())).is_some(), "{key} has gone");
    }
}

#[test]
fn an_eviction_that_was_given_up_leaves_nothing_behind() {
    let (mut tree, mut evicting) = (Tree::new(), Evicting::new(Policy::S3Fifo));
    for number in 0..2000 {
        written(&mut tree, &mut evicting, &format!("k{number}"));
    }
    // Chosen, and the entry never came: they are not known any more, and found all the same.
    assert!(evicting.choose(&tree, tree.bytes() / 2).len() >= 1000);
    while tree.len() > 10 {
        let before = tree.len();
        down_to(&mut tree, &mut evicting, 10);
        assert!(tree.len() < before);
    }
}

#[test]
fn an_entry_has_a_bounded_size() {
    let (mut tree, mut evicting) = (Tree::new(), Evicting::new(Policy::Fifo));
    for number in 0..EVICT_BATCH_MAX + 10 {
        written(&mut tree, &mut evicting, &format!("k{number}"));
    }
    assert_eq!(evicting.choose(&tree, 0).len(), EVICT_BATCH_MAX);
    let long = "x".repeat(30_000);
    for number in 0..20 {
        written(&mut tree, &mut evicting, &format!("{long}{number}"));
    }
    drop(evicting.forget());
    let bytes: usize = evicting.choose(&tree, 0).iter().map(|(key, _)| key.len()).sum();
    assert!(bytes < EVICT_KEY_BYTES_MAX + 40_000, "{bytes}");
}

#[test]
fn malformed_entries_are_told() {
    assert!(Eviction::decode(&[]).is_err());
    let body = Eviction::encode(7, &[(Blob::new(b"key"), Revision(3))]);
    assert_eq!(Eviction::decode(&body), Ok(Eviction { down_to: 7, victims: vec![(b"key", Revision(3))] }));
    for length in 0..body.len() {
        assert!(Eviction::decode(&body[..length]).is_err(), "{length}");
    }
}
