//! What orders make of the lists.

use super::*;

fn order(tree: &mut Tree, order: Order) -> Reply {
    apply(tree, &EntryContext::default(), Position(1), &order.encode()).unwrap()
}

/// As nodes carry it out that apply entries of an earlier version.
fn order_in(tree: &mut Tree, order: Order, version: u16) -> Reply {
    let context = EntryContext { version, ..EntryContext::default() };
    apply(tree, &context, Position(1), &order.encode()).unwrap()
}

fn create(name: &str) -> Order {
    let settings = Settings::of_kind(BucketKind::Persistent);
    Order::Create { name: name.to_owned(), settings, identities: vec![1, 2, 3], founders: Vec::new() }
}

#[test]
fn nobody_founds_a_bucket_that_was_removed() {
    let mut tree = Tree::new();
    let gone = Registry { removed: vec![NodeId(2)], ..Registry::default() };
    gone.write(&mut tree, &EntryContext::default());
    assert_eq!(order(&mut tree, create("a")), Reply::Error(FOUNDER_GONE), "all found it");
    let by = |founders: &[u16], identities: usize| {
        let Order::Create { name, settings, .. } = create("a") else { unreachable!() };
        let founders = founders.iter().map(|id| NodeId(*id)).collect();
        Order::Create { name, settings, identities: vec![1; identities], founders }
    };
    assert_eq!(order(&mut tree, by(&[1, 2, 3], 4)), Reply::Error(FOUNDER_GONE));
    assert_eq!(order(&mut tree, by(&[0, 1, 3], 4)), Reply::Ok);
}

fn numbers(tree: &Tree) -> Vec<(u32, u16, String)> {
    let list = Buckets::read(tree).unwrap().list;
    list.into_iter().map(|bucket| (bucket.id.0, bucket.number, bucket.name)).collect()
}

#[test]
fn numbers_are_given_once_and_names_are_unique() {
    let mut tree = Tree::new();
    assert_eq!(order(&mut tree, create("a")), Reply::Ok);
    assert_eq!(order(&mut tree, create("b")), Reply::Ok);
    assert!(matches!(order(&mut tree, create("a")), Reply::Error(_)));
    let drop = |id| Order::Drop { name: "a".to_owned(), id: BucketId(id) };
    assert!(matches!(order(&mut tree, drop(2)), Reply::Error(_)), "another bucket's number");
    assert_eq!(order(&mut tree, drop(1)), Reply::Ok);
    assert_eq!(order(&mut tree, create("c")), Reply::Ok);
    let all = [(0, 0, "default".to_owned()), (3, 1, "c".to_owned()), (2, 2, "b".to_owned())];
    assert_eq!(numbers(&tree), all, "SELECT's number is used again, the bucket's own is not");
    let buckets = Buckets::read(&tree).unwrap();
    assert!(buckets.has_dropped(BucketId(1)) && !buckets.has_dropped(BucketId(3)) && !buckets.has_dropped(BucketId(4)));
}

#[test]
fn settings_change_and_the_default_bucket_stays() {
    let mut tree = Tree::new();
    let set = |name: &str, words: &[&str]| Order::Set {
        name: name.to_owned(),
        words: words.iter().map(|word| word.as_bytes().to_vec()).collect(),
    };
    assert_eq!(order(&mut tree, set("default", &["quota", "1mb", "ttl", "5"])), Reply::Ok);
    assert!(matches!(order(&mut tree, set("default", &["kind", "cache"])), Reply::Error(_)));
    assert!(matches!(order(&mut tree, set("none", &["ttl", "5"])), Reply::Error(_)));
    let settings = Buckets::read(&tree).unwrap().list[0].settings.clone();
    assert_eq!((settings.quota_bytes, settings.ttl_ms), (1 << 20, 5000));
    let drop = Order::Drop { name: DEFAULT_NAME.to_owned(), id: BucketId(0) };
    assert!(matches!(order(&mut tree, drop), Reply::Error(_)));
}

#[test]
fn an_ephemeral_bucket_begins_anew_when_too_few_remember_it() {
    let mut tree = Tree::new();
    let settings = Settings::of_kind(BucketKind::Ephemeral);
    let name = "e".to_owned();
    let (identities, founders) = (vec![11, 12, 13], Vec::new());
    assert_eq!(order(&mut tree, Order::Create { name, settings, identities, founders }), Reply::Ok);
    let join = |id, node, identity| Order::Join { id: BucketId(id), node: NodeId(node), identity };
    let recovered = |id, node, identity| Order::Recovered { id: BucketId(id), node: NodeId(node), identity };
    let state = |tree: &Tree| {
        let bucket = Buckets::read(tree).unwrap().list[1].clone();
        (bucket.id.0, bucket.identities, bucket.memories)
    };
    // One after another: each recovers before the next is lost.
    assert_eq!(order(&mut tree, join(1, 0, 21)), Reply::Ok);
    assert!(matches!(order(&mut tree, recovered(1, 0, 11)), Reply::Error(_)), "not that memory");
    assert_eq!(order(&mut tree, recovered(1, 0, 21)), Reply::Ok);
    assert_eq!(order(&mut tree, join(1, 0, 21)), Reply::Ok);
    assert_eq!(order(&mut tree, join(1, 1, 22)), Reply::Ok);
    assert_eq!(state(&tree), (1, vec![21, 22, 13], vec![true, false, true]));
    // Two at once.
    assert_eq!(order(&mut tree, join(1, 2, 23)), Reply::Ok);
    assert_eq!(state(&tree), (2, vec![0, 22, 23], vec![false, true, true]));
    assert!(matches!(order(&mut tree, join(1, 0, 31)), Reply::Error(_)), "the old one is gone");
    assert_eq!(order(&mut tree, join(2, 0, 31)), Reply::Ok);
    assert_eq!(order(&mut tree, recovered(2, 0, 31)), Reply::Ok);
    assert_eq!(state(&tree), (2, vec![31, 22, 23], vec![true, true, true]));
    // Again two, one of which has not come back since.
    assert_eq!(order(&mut tree, join(2, 0, 41)), Reply::Ok);
    assert_eq!(order(&mut tree, join(2, 1, 42)), Reply::Ok);
    assert_eq!(state(&tree), (3, vec![41, 42, 0], vec![true, true, false]));
    assert_eq!(order(&mut tree, join(3, 1, 52)), Reply::Ok);
    assert_eq!(state(&tree), (3, vec![41, 52, 0], vec![true, false, false]), "one alone cannot found it");
    assert_eq!(order(&mut tree, join(3, 2, 53)), Reply::Ok);
    assert_eq!(state(&tree), (4, vec![0, 52, 53], vec![false, true, true]));
}

/// A bucket in memory of the nodes 0, 1 and 2, whose memories are called 11, 12 and 13; number 1.
fn in_memory() -> Tree {
    let mut tree = Tree::new();
    let (settings, founders) = (Settings::of_kind(BucketKind::Ephemeral), Vec::new());
    let settings = Settings { partitions: 2, ..settings };
    let made = Order::Create { name: "e".to_owned(), settings, identities: vec![11, 12, 13], founders };
    assert_eq!(order(&mut tree, made), Reply::Ok);
    tree
}

fn second(tree: &Tree) -> crate::bucket::Bucket {
    Buckets::read(tree).unwrap().list[1].clone()
}

fn move_to(number: u64, to: &[(u16, u64)]) -> Order {
    let to = to.iter().map(|(node, identity)| (NodeId(*node), *identity)).collect();
    Order::Move { id: BucketId(1), number, to }
}

fn settled(number: u64, partitions: &[u16]) -> Order {
    Order::Settled { id: BucketId(1), number, partitions: partitions.to_vec() }
}

#[test]
fn the_voters_of_a_bucket_in_memory_move_when_all_partitions_say_so() {
    let mut tree = in_memory();
    let nodes = |list: &[u16]| list.iter().copied().map(NodeId).collect::<Vec<_>>();
    assert!(matches!(order(&mut tree, settled(0, &[0])), Reply::Error(_)), "nothing moves");
    assert!(matches!(order(&mut tree, move_to(2, &[(1, 12), (2, 13), (4, 15)])), Reply::Error(_)), "not the next");
    assert!(matches!(order(&mut tree, move_to(1, &[(0, 11), (1, 12), (2, 13)])), Reply::Error(_)), "not elsewhere");
    let on = move_to(1, &[(1, 12), (2, 13), (4, 15)]);
    assert_eq!(Order::decode(&on.encode()), Ok(on.clone()));
    assert_eq!(order(&mut tree, on), Reply::Ok);
    let bucket = second(&tree);
    assert_eq!((bucket.voters(), bucket.wanted_voters()), (nodes(&[0, 1, 2]), nodes(&[1, 2, 4])));
    assert!((0..5).all(|node| bucket.is_remembered_by(NodeId(node)) == (node != 3)));
    assert!(matches!(order(&mut tree, move_to(2, &[(0, 11), (1, 12), (4, 15)])), Reply::Error(_)), "only back");
    let first = settled(1, &[1]);
    assert_eq!(Order::decode(&first.encode()), Ok(first.clone()));
    assert_eq!(order(&mut tree, first), Reply::Ok);
    assert_eq!(second(&tree).voters(), nodes(&[0, 1, 2]));
    assert_eq!(order(&mut tree, settled(1, &[0, 1])), Reply::Ok);
    let bucket = second(&tree);
    assert_eq!((bucket.voters(), bucket.is_moving()), (nodes(&[1, 2, 4]), false));
    assert_eq!((bucket.identities, bucket.memories), (vec![0, 12, 13, 0, 15], vec![false, true, true, false, true]));
    assert!(matches!(order(&mut tree, settled(1, &[0])), Reply::Error(_)), "said again");
    // And back, before all have followed.
    assert_eq!(order(&mut tree, move_to(2, &[(0, 21), (1, 12), (2, 13)])), Reply::Ok);
    assert_eq!(order(&mut tree, settled(2, &[0])), Reply::Ok);
    assert_eq!(order(&mut tree, move_to(3, &[(1, 0), (2, 0), (4, 0)])), Reply::Ok);
    assert_eq!(second(&tree).wanted_voters(), nodes(&[1, 2, 4]));
    assert!(matches!(order(&mut tree, settled(2, &[1])), Reply::Error(_)), "of the move before");
    assert!(matches!(order(&mut tree, move_to(4, &[(0, 21), (1, 12), (2, 13)])), Reply::Error(_)));
    assert_eq!(order(&mut tree, settled(3, &[0, 1])), Reply::Ok);
    let bucket = second(&tree);
    assert_eq!((bucket.voters(), bucket.identities), (nodes(&[1, 2, 4]), vec![0, 12, 13, 0, 15]));
}

/// Two of five have lost their memory, and recover from the other three. With votes of their own alone they never could.
#[test]
fn the_voters_of_a_bucket_in_memory_do_not_become_those_who_have_forgotten_it() {
    let mut tree = Tree::new();
    let now = Feature::RememberedMoves.since();
    let settings = Settings { partitions: 1, ..Settings::of_kind(BucketKind::Ephemeral) };
    let identities = vec![11, 12, 13, 14, 15];
    let made = Order::Create { name: "e".to_owned(), settings, identities, founders: Vec::new() };
    assert_eq!(order(&mut tree, made), Reply::Ok);
    for (node, identity) in [(1, 22), (3, 24)] {
        let join = Order::Join { id: BucketId(1), node: NodeId(node), identity };
        assert_eq!(order(&mut tree, join), Reply::Ok);
    }
    let to_the_forgetful = move_to(1, &[(1, 22), (2, 13), (3, 24)]);
    assert!(matches!(order_in(&mut tree, to_the_forgetful.clone(), now), Reply::Error(_)));
    assert!(!second(&tree).is_moving());
    // As versions before understood that order; the log may have it.
    let mut before = tree.clone();
    assert_eq!(order_in(&mut before, to_the_forgetful.clone(), now - 1), Reply::Ok);
    let recovered = Order::Recovered { id: BucketId(1), node: NodeId(3), identity: 24 };
    assert_eq!(order(&mut tree, recovered), Reply::Ok);
    assert_eq!(order_in(&mut tree, to_the_forgetful, now), Reply::Ok, "one of three is no majority");
    assert_eq!(order(&mut tree, settled(1, &[0])), Reply::Ok);
    // Newcomers have a copy before they vote.
    assert_eq!(order_in(&mut tree, move_to(2, &[(1, 22), (2, 13), (5, 16)]), now), Reply::Ok);
}

#[test]
fn a_bucket_in_memory_that_moves_is_lost_with_a_majority_of_either_group() {
    let join = |node, identity| Order::Join { id: BucketId(1), node: NodeId(node), identity };
    let nodes = |list: &[u16]| list.iter().copied().map(NodeId).collect::<Vec<_>>();
    let moving = || {
        let mut tree = in_memory();
        assert_eq!(order(&mut tree, move_to(1, &[(1, 12), (2, 13), (3, 14)])), Reply::Ok);
        tree
    };
    // The former voters cannot go on; those who come next may have: they found it.
    let mut tree = moving();
    assert_eq!((order(&mut tree, join(0, 21)), second(&tree).id), (Reply::Ok, BucketId(1)));
    assert_eq!(order(&mut tree, join(1, 22)), Reply::Ok);
    let bucket = second(&tree);
    assert_eq!(
        (bucket.id, bucket.founders.clone(), bucket.voters()),
        (BucketId(2), nodes(&[1, 2, 3]), nodes(&[1, 2, 3]))
    );
    assert_eq!((bucket.identities, bucket.memories), (vec![0, 22, 13, 14], vec![false, true, true, true]));
    // The other way round.
    let mut tree = moving();
    assert_eq!((order(&mut tree, join(3, 24)), order(&mut tree, join(2, 23))), (Reply::Ok, Reply::Ok));
    let bucket = second(&tree);
    assert_eq!((bucket.id, bucket.voters()), (BucketId(2), nodes(&[0, 1, 2])));
    assert_eq!((&bucket.identities[..3], &bucket.memories[..3]), (&[11, 12, 23][..], &[true; 3][..]));
    // One of each, as neither has lost its majority.
    let mut tree = moving();
    assert_eq!((order(&mut tree, join(0, 21)), order(&mut tree, join(3, 24))), (Reply::Ok, Reply::Ok));
    assert_eq!(second(&tree).id, BucketId(1));
    assert_eq!(order(&mut tree, Order::Recovered { id: BucketId(1), node: NodeId(3), identity: 24 }), Reply::Ok);
    assert_eq!(second(&tree).memories, [false, true, true, true]);
}

/// Its bytes are in journals that nobody but `dictum unsafe-recover` writes: they must not change.
#[test]
fn who_goes_on_alone_has_all_that_is_in_memory_anew() {
    let mut tree = Tree::new();
    let settings = Settings::of_kind(BucketKind::Ephemeral);
    let (identities, founders) = (vec![11, 12, 13], Vec::new());
    let made = Order::Create { name: "e".to_owned(), settings, identities, founders };
    assert_eq!((order(&mut tree, create("p")), order(&mut tree, made)), (Reply::Ok, Reply::Ok));
    for change in [Change::Name(5), Change::Drain { node: NodeId(1), drained: true, nodes: 3 }] {
        assert_eq!(order(&mut tree, Order::Nodes(change)), Reply::Ok);
    }
    let alone = Order::Alone { node: NodeId(1), others: vec![NodeId(0), NodeId(2)], below: 11, cluster: 6 };
    assert_eq!(alone.encode(), [9, 1, 0, 2, 0, 0, 2, 0, 11, 0, 6, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(Order::decode(&alone.encode()), Ok(alone.clone()));
    let lasting = Buckets::read(&tree).unwrap().list[1].clone();
    assert_eq!(order(&mut tree, alone), Reply::Ok);
    let registry = Registry::read(&tree).unwrap();
    assert_eq!((registry.cluster, &registry.absent[..]), (6, &[NodeId(0), NodeId(2)][..]));
    assert!(registry.drained.is_empty() && registry.comes_from(5) && !registry.comes_from(6));
    let behind = |id| registry.left_behind(NodeId(id));
    assert!(behind(0) && !behind(1) && behind(2) && behind(10) && !behind(11));
    let buckets = Buckets::read(&tree).unwrap().list;
    assert_eq!(buckets[1], lasting);
    assert_eq!((&buckets[2].founders, &buckets[2].memories), (&vec![NodeId(1)], &vec![false, false]));
    let (id, before) = (buckets[2].id, buckets[2].clone());
    assert_eq!(order(&mut tree, Order::Join { id, node: NodeId(1), identity: 7 }), Reply::Ok);
    let anew = Buckets::read(&tree).unwrap().list[2].clone();
    assert!(anew.id != id && anew.born == before.born && anew.memories == [false, true], "{anew:?}");
    assert!(matches!(order(&mut tree, Order::Join { id: anew.id, node: NodeId(0), identity: 8 }), Reply::Error(_)));
}

#[test]
fn there_is_a_limit() {
    let mut tree = Tree::new();
    for number in 1..BUCKETS_MAX {
        assert_eq!(order(&mut tree, create(&format!("b{number}"))), Reply::Ok);
    }
    assert!(matches!(order(&mut tree, create("one-more")), Reply::Error(_)));
}

/// Whoever led the council found that nothing needs a node any more, and was deposed; before its order is decided the node serves again, gets votes, and is to leave
/// once more. It is found anew then.
#[test]
fn an_order_to_remove_a_node_is_of_the_map_that_it_was_found_by() {
    let seats = |seats: &[u16]| [(COUNCIL, seats.iter().map(|id| NodeId(*id)).collect())].into();
    let map = |epoch, of: &[u16]| Order::Nodes(Change::Map(Map { epoch, seats: seats(of) }));
    let leave = || Order::Nodes(Change::Leave { node: NodeId(3), nodes: 4 });
    let serve = || Order::Nodes(Change::Drain { node: NodeId(3), drained: false, nodes: 4 });
    let remove = |epoch| Order::Nodes(Change::Remove { node: NodeId(3), epoch: Some(epoch), nodes: 4 });
    let is_removed = |tree: &Tree| Registry::read(tree).unwrap().removed.contains(&NodeId(3));
    let mut before = Tree::new();
    // The default bucket has votes of founders, as long as no map says otherwise.
    let default =
        Map { epoch: 1, seats: [COUNCIL, crate::group::DEFAULT_PARTITION].map(|id| (id, vec![NodeId(0)])).into() };
    for told in [leave(), Order::Nodes(Change::Map(default.clone()))] {
        assert_eq!(order(&mut before, told), Reply::Ok);
    }
    let follows = |orders: Vec<Order>| {
        let mut tree = before.clone();
        orders.into_iter().for_each(|told| drop(order(&mut tree, told)));
        is_removed(&tree)
    };
    assert!(follows(vec![remove(1)]), "nothing has come between");
    assert!(!follows(vec![serve(), remove(1)]), "it stays");
    assert!(follows(vec![serve(), leave(), remove(1)]), "it has got nothing meanwhile");
    assert!(!follows(vec![serve(), map(2, &[0, 3]), leave(), remove(1)]), "it has a vote");
    let last = Order::Nodes(Change::Map(Map { epoch: 3, ..default }));
    assert!(!follows(vec![serve(), map(2, &[0, 3]), leave(), last.clone(), remove(1)]), "it may have one still");
    assert!(follows(vec![serve(), map(2, &[0, 3]), leave(), last, remove(3)]), "it was found anew");
    // A bucket is made without a new map.
    let made = || Order::Create {
        name: "b".to_owned(),
        settings: Settings::of_kind(BucketKind::Persistent),
        identities: vec![1; 4],
        founders: Vec::new(),
    };
    assert!(!follows(vec![serve(), made(), leave(), remove(1)]), "it votes in what was made");
}

/// What a node does that is older than what it meets: it says so and changes nothing. A registry of a later version comes to it with a snapshot or stands on its disk, and so it stops
/// (`Node::follow_council`, `Node::start`); an order of a later version comes in the log.
#[test]
fn what_a_later_version_has_written_is_refused_and_nothing_is_done() {
    let mut tree = Tree::new();
    let newest = Registry { alone: vec![Alone { former: 1, node: NodeId(0), below: 9 }], ..Registry::default() };
    newest.write(&mut tree, &EntryContext::default());
    let Some(Value::String(bytes)) = tree.get(KeyRef::new(b"nodes")).map(|record| record.value.clone()) else {
        panic!("it is a string")
    };
    let later = [&[bytes[0] + 1], &bytes[1..], b"more"].concat();
    data::apply(&mut tree, &EntryContext::default(), &[b"set", b"nodes", &later]);
    assert_eq!(Registry::read(&tree), Err(Malformed));
    let before = tree.digest();
    let orders = [Order::Nodes(Change::Name(5)), create("a"), Order::Nodes(Change::Pause(true))];
    for told in orders {
        assert!(apply(&mut tree, &EntryContext::default(), Position(1), &told.encode()).is_err(), "{told:?}");
    }
    for unknown in [vec![ALONE + 1], vec![NODES, 15], vec![NODES, 200, 0, 0], Vec::new()] {
        assert!(apply(&mut tree, &EntryContext::default(), Position(1), &unknown).is_err(), "{unknown:?}");
    }
    assert_eq!(tree.digest(), before);
}

#[test]
fn a_budget_is_kept_and_needs_a_version_that_knows_it() {
    let settings = Settings { work_max: 5000, ..Settings::of_kind(BucketKind::Persistent) };
    let (name, founders) = ("b".to_owned(), vec![NodeId(0), NodeId(2)]);
    let create = Order::Create { name, settings, identities: vec![1, 2], founders };
    assert_eq!(Order::decode(&create.encode()), Ok(create.clone()));
    let set = Order::Set { name: "b".to_owned(), words: vec![b"Work-Max".to_vec(), b"6000".to_vec()] };
    for order in [&create, &set] {
        assert_eq!(order.version(), Feature::Budgets.since());
    }
    let mut buckets = Buckets::default();
    buckets.carry_out(create, Position(1), base::versions::NEWEST).expect("it can be made");
    buckets.carry_out(set, Position(2), base::versions::NEWEST).expect("it can be changed");
    let mut tree = Tree::new();
    buckets.write(&mut tree, &EntryContext::default());
    let read = Buckets::read(&tree).expect("it was written");
    assert_eq!(read.named("b").map(|bucket| bucket.settings.work_max), Some(6000));
    let too_few = Order::Set { name: "b".to_owned(), words: vec![b"work-max".to_vec(), b"99".to_vec()] };
    assert!(buckets.carry_out(too_few, Position(3), base::versions::NEWEST).is_err());
}

#[test]
fn a_database_is_made_once_and_named_buckets_stand_behind_them() {
    use base::versions::{NEWEST, OLDEST};
    let database = |number| Order::Database { number, identities: Vec::new(), founders: Vec::new() };
    let named = |name: &str| Order::Create {
        name: name.to_owned(),
        settings: Settings::of_kind(BucketKind::Persistent),
        identities: Vec::new(),
        founders: Vec::new(),
    };
    let order = database(5);
    assert_eq!(Order::decode(&order.encode()), Ok(order));
    let order = Order::Settings(vec![("hz".to_owned(), "10".to_owned())]);
    assert_eq!(Order::decode(&order.encode()), Ok(order));
    let mut buckets = Buckets::default();
    assert_eq!(buckets.carry_out(named("old"), Position(1), OLDEST), Ok(Reply::Ok));
    let first = buckets.carry_out(database(5), Position(2), NEWEST);
    assert_eq!(first, Ok(Reply::Integer(2)));
    assert_eq!(buckets.carry_out(database(5), Position(3), NEWEST), first, "it is there");
    assert_eq!(buckets.carry_out(named("new"), Position(4), NEWEST), Ok(Reply::Ok));
    // A bucket that had the number before there were databases is that database.
    assert_eq!(buckets.carry_out(database(1), Position(5), NEWEST), Ok(Reply::Integer(1)));
    assert!(buckets.carry_out(named("1"), Position(6), NEWEST).is_err());
    let numbers: Vec<(&str, u16)> = buckets.list.iter().map(|it| (it.name.as_str(), it.number)).collect();
    assert_eq!(numbers, [("default", 0), ("old", 1), ("5", 5), ("new", 1024)]);
}
