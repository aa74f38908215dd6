use base::{BucketId, PartitionId};

use super::*;
use crate::bucket::{Bucket, BucketKind, Settings};

fn carry_out_at(registry: &mut Registry, clock: u64, change: Change) -> Result<Reply, Failure> {
    let (buckets, map) = (Buckets::default(), Map::default());
    registry.carry_out(change, &Surroundings { clock: WallTime(clock), buckets: &buckets, map: &map, planted: None })
}

fn carry_out(registry: &mut Registry, change: Change) -> Result<Reply, Failure> {
    carry_out_at(registry, 0, change)
}

fn member(name: &str) -> Member {
    Member { name: name.to_owned(), peer_address: format!("{name}:9001") }
}

fn join(name: &str, token: u8, nonce: u64) -> Change {
    join_in("", name, token, nonce)
}

fn join_in(zone: &str, name: &str, token: u8, nonce: u64) -> Change {
    let founders = vec![member("n1"), member("n2")];
    Change::Join { digest: [token; 20], member: member(name), zone: zone.to_owned(), nonce, founders, newest: 6 }
}

/// As it was said before a map was named.
fn remove(node: u16) -> Change {
    Change::Remove { node: NodeId(node), epoch: None, nodes: 0 }
}

fn token(token: u8, until: u64) -> Change {
    Change::Token(Token { digest: [token; 20], until: WallTime(until) })
}

fn number(reply: Reply) -> i64 {
    let Reply::Map(pairs) = reply else { panic!("{reply:?} is no welcome") };
    let (_, Reply::Integer(id)) = &pairs[0] else { panic!("{pairs:?} names no number") };
    *id
}

#[test]
fn somebody_always_serves() {
    let mut registry = Registry::default();
    let drain = |node, drained| Change::Drain { node: NodeId(node), drained, nodes: 3 };
    assert_eq!(carry_out(&mut registry, drain(2, true)), Ok(Reply::Ok));
    assert_eq!(carry_out(&mut registry, drain(2, true)), Ok(Reply::Ok), "said again");
    assert_eq!(carry_out(&mut registry, Change::Leave { node: NodeId(0), nodes: 3 }), Ok(Reply::Ok));
    assert!(carry_out(&mut registry, drain(1, true)).is_err());
    assert_eq!((&registry.drained, &registry.leaving), (&vec![NodeId(2)], &vec![NodeId(0)]));
    assert_eq!(carry_out(&mut registry, drain(0, false)), Ok(Reply::Ok));
    assert!(registry.leaving.is_empty() && registry.serves(NodeId(0)), "it stays");
    assert!(carry_out(&mut registry, Change::Voters { count: 8 }).is_err());
}

#[test]
fn a_token_lets_one_node_in_and_only_in_time() {
    let mut registry = Registry::default();
    assert!(carry_out(&mut registry, join("n3", 7, 1)).is_err(), "without a token");
    assert_eq!(carry_out(&mut registry, token(7, 100)), Ok(Reply::Ok));
    assert!(carry_out_at(&mut registry, 100, join("n3", 7, 1)).is_err(), "too late");
    assert_eq!(carry_out_at(&mut registry, 99, join("n3", 7, 1)).map(number), Ok(2));
    assert_eq!(carry_out_at(&mut registry, 200, join("n3", 7, 1)).map(number), Ok(2), "it asks again");
    assert!(carry_out(&mut registry, join("n4", 7, 2)).is_err(), "the token was used");
    for name in ["n1", "n3", "no name", ""] {
        assert_eq!(carry_out(&mut registry, token(8, 100)), Ok(Reply::Ok));
        assert!(carry_out(&mut registry, join(name, 8, 2)).is_err(), "{name:?}");
    }
    for number in 9..base::limits::TOKENS_MAX as u8 + 9 {
        let _ = carry_out(&mut registry, token(number, 100));
    }
    assert!(carry_out(&mut registry, token(250, 100)).is_err(), "too many");
    assert_eq!(carry_out_at(&mut registry, 101, token(250, 200)), Ok(Reply::Ok), "those have ended");
}

#[test]
fn numbers_are_not_given_twice() {
    let mut registry = Registry::default();
    let enter = |registry: &mut Registry, name: &str, nonce| {
        assert_eq!(carry_out(registry, token(7, 100)), Ok(Reply::Ok));
        carry_out(registry, join(name, 7, nonce)).map(number)
    };
    assert_eq!(enter(&mut registry, "n3", 1), Ok(2));
    assert_eq!(carry_out(&mut registry, remove(2)), Ok(Reply::Ok));
    assert!(registry.removed.is_empty(), "nobody wanted it to leave");
    for node in [2, 0] {
        assert_eq!(carry_out(&mut registry, Change::Leave { node: NodeId(node), nodes: 2 }), Ok(Reply::Ok));
        assert_eq!(carry_out(&mut registry, remove(node)), Ok(Reply::Ok));
    }
    let last = Change::Leave { node: NodeId(1), nodes: 2 };
    assert!(carry_out(&mut registry, last).is_err(), "whoever is gone does not count");
    assert_eq!((registry.removed.clone(), registry.joined.len()), (vec![NodeId(0), NodeId(2)], 0));
    assert_eq!(enter(&mut registry, "n3", 1), Ok(3), "another one of that name, even if it has drawn the same number");
    assert_eq!(enter(&mut registry, "n1", 5), Ok(4), "the founder of that name is gone");
    assert!(!registry.serves(NodeId(0)) && registry.serves(NodeId(1)));
}

#[test]
fn who_holds_a_part_of_an_ephemeral_bucket_leaves_only_where_others_can_take_it_over() {
    let settings = Settings::of_kind(BucketKind::Ephemeral);
    let bucket = Bucket { name: "e".to_owned(), settings, memories: vec![true; 3], ..Bucket::default_bucket() };
    let buckets = Buckets { list: vec![bucket], ..Buckets::default() };
    let leave = |registry: &Registry, node, nodes| {
        let around = Surroundings { clock: WallTime(0), buckets: &buckets, map: &Map::default(), planted: None };
        registry.clone().carry_out(Change::Leave { node: NodeId(node), nodes }, &around)
    };
    let registry = Registry { version: Feature::MovingMemories.since(), ..Registry::default() };
    assert_eq!(leave(&registry, 1, 5), Ok(Reply::Ok));
    assert_eq!(leave(&registry, 3, 5), Ok(Reply::Ok), "it has none");
    assert!(leave(&registry, 1, 3).is_err(), "two would be left");
    let with = |change: &dyn Fn(&mut Registry)| {
        let mut registry = registry.clone();
        change(&mut registry);
        leave(&registry, 1, 4)
    };
    assert_eq!(with(&|_| ()), Ok(Reply::Ok));
    assert!(with(&|it| it.removed = vec![NodeId(3)]).is_err());
    assert!(with(&|it| it.leaving = vec![NodeId(2)]).is_err());
    assert!(with(&|it| it.absent = vec![NodeId(2)]).is_err());
    assert!(with(&|it| it.drained = vec![NodeId(3)]).is_err(), "it shall get nothing");
    assert_eq!(with(&|it| it.drained = vec![NodeId(2)]), Ok(Reply::Ok), "it keeps what it has");
    assert_eq!(with(&|it| (it.voters, it.removed) = (1, vec![NodeId(3)])), Ok(Reply::Ok), "one is enough");
    assert!(with(&|it| it.version = OLDEST).is_err(), "nothing moves in a cluster of that version");
}

/// The same by a node that speaks so much.
fn speaking(newest: u16, change: Change) -> Change {
    let Change::Join { digest, member, zone, nonce, founders, .. } = change else { panic!("nobody joins") };
    Change::Join { digest, member, zone, nonce, founders, newest }
}

#[test]
fn the_version_rises_when_all_are_named_and_nobody_joins_who_speaks_less() {
    let mut registry = Registry { removed: vec![NodeId(2)], ..Registry::default() };
    assert_eq!(carry_out(&mut registry, token(7, 100)), Ok(Reply::Ok));
    assert!(carry_out(&mut registry, join("n4", 7, 1)).is_ok(), "the cluster has the oldest version");
    let raise = |version, speak: &[u16]| {
        let speak = speak.iter().copied().map(NodeId).collect();
        Change::Version { version, speak, founders: 3 }
    };
    assert_eq!(carry_out(&mut registry, raise(7, &[0, 1])), Ok(Reply::Ok));
    assert_eq!(registry.version, 6, "one has joined and is not known to speak it");
    assert_eq!(carry_out(&mut registry, raise(7, &[0, 1, 3])), Ok(Reply::Ok));
    assert_eq!(registry.version, 7, "who was removed is not asked");
    assert_eq!(carry_out(&mut registry, raise(6, &[0, 1, 3])), Ok(Reply::Ok));
    assert_eq!(registry.version, 7, "it does not fall");
    assert_eq!(carry_out(&mut registry, token(8, 100)), Ok(Reply::Ok));
    assert!(carry_out(&mut registry, join("n5", 8, 2)).is_err());
    assert!(carry_out(&mut registry, speaking(7, join("n5", 8, 2))).is_ok());
    assert_eq!([raise(9, &[]).version(), join("n", 1, 1).version(), speaking(7, join("n", 1, 1)).version()], [9, 6, 7]);
}

#[test]
fn changes_are_read_as_they_are_written() {
    let at = PartitionId { bucket: BucketId(1), index: 3 };
    let changes = [
        Change::Drain { node: NodeId(4), drained: true, nodes: 5 },
        Change::Voters { count: 3 },
        token(3, 17),
        join("n9", 3, 8),
        join_in("b", "n9", 3, 8),
        Change::Zone { node: NodeId(4), zone: "b".to_owned() },
        Change::Zone { node: NodeId(4), zone: String::new() },
        Change::Leave { node: NodeId(4), nodes: 5 },
        remove(4),
        Change::Remove { node: NodeId(4), epoch: Some(300), nodes: 3 },
        Change::Absent { node: NodeId(4), absent: true },
        Change::ReplaceAfter(Some(Duration::from_secs(60))),
        Change::ReplaceAfter(None),
        Change::Pause(true),
        Change::Name(9),
        Change::Version { version: 7, speak: vec![NodeId(0), NodeId(4)], founders: 3 },
        speaking(7, join("n9", 3, 8)),
        speaking(7, join_in("b", "n9", 3, 8)),
        Change::Map(Map { epoch: 4, seats: [(at, vec![NodeId(2), NodeId(0)])].into() }),
    ];
    for change in changes {
        let mut bytes = Vec::new();
        change.encode(&mut Writer::new(&mut bytes));
        let mut r = Reader::from_slice(&bytes);
        assert_eq!(Change::decode(&mut r), Ok(change));
        assert_eq!(r.finish(), Ok(()));
        for length in 0..bytes.len() {
            let mut cut = Reader::from_slice(&bytes[..length]);
            assert!(Change::decode(&mut cut).is_err(), "cut to {length}");
        }
    }
}

#[test]
fn a_node_has_the_label_that_it_was_last_started_with() {
    let mut registry = Registry::default();
    let told = |registry: &mut Registry, node, zone: &str| {
        carry_out(registry, Change::Zone { node: NodeId(node), zone: zone.to_owned() })
    };
    assert_eq!(told(&mut registry, 0, "a"), Ok(Reply::Ok));
    assert_eq!(carry_out(&mut registry, token(7, 100)), Ok(Reply::Ok));
    assert!(carry_out(&mut registry, join_in("no zone", "n3", 7, 1)).is_err());
    assert_eq!(carry_out(&mut registry, join_in("b", "n3", 7, 1)).map(number), Ok(2), "the token is good still");
    assert_eq!([0, 1, 2].map(|node| registry.zone_of(NodeId(node)).to_owned()), ["a", "", "b"]);
    assert_eq!(told(&mut registry, 2, "c"), Ok(Reply::Ok));
    assert_eq!(carry_out(&mut registry, join_in("b", "n3", 7, 1)).map(number), Ok(2), "it asks again");
    assert_eq!(told(&mut registry, 0, ""), Ok(Reply::Ok));
    assert!(told(&mut registry, 1, &"z".repeat(ZONE_BYTES_MAX + 1)).is_err());
    assert_eq!(registry.zones, [(NodeId(2), "c".to_owned())].into());
    assert_eq!(carry_out(&mut registry, Change::Leave { node: NodeId(2), nodes: 2 }), Ok(Reply::Ok));
    assert_eq!(carry_out(&mut registry, remove(2)), Ok(Reply::Ok));
    assert_eq!(told(&mut registry, 2, "c"), Ok(Reply::Ok), "it was on its way");
    assert!(registry.zones.is_empty());
}

/// The nodes tell who founded the cluster by the settings of their first start, and a founder may have moved since.
#[test]
fn the_first_that_joins_meets_the_founders_where_they_are_now() {
    let moved = |address: &str| Change::Address { node: NodeId(1), address: address.to_owned() };
    let joins_at = |address: &str| match join("n3", 7, 1) {
        Change::Join { digest, zone, nonce, founders, newest, .. } => {
            let member = Member { name: "n3".to_owned(), peer_address: address.to_owned() };
            Change::Join { digest, member, zone, nonce, founders, newest }
        }
        _ => panic!("nobody joins"),
    };
    let mut registry = Registry::default();
    assert_eq!(carry_out(&mut registry, token(7, 100)), Ok(Reply::Ok));
    assert_eq!(carry_out(&mut registry, moved("new:9001")), Ok(Reply::Ok));
    assert!(carry_out(&mut registry, joins_at("new:9001")).is_err(), "a founder is there");
    assert_eq!(carry_out(&mut registry, joins_at("n2:9001")).map(number), Ok(2), "nobody is there any more");
    assert_eq!(registry.founders[1].peer_address, "new:9001");
}
