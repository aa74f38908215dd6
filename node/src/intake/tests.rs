use base::limits::{VALUE_BYTES_MAX, WORK_MIN};
use base::versions::{NEWEST, OLDEST};
use base::{BucketId, Position, Revision};

use super::*;
use crate::council::COUNCIL;
use crate::words::encode_once;
use data::Slots;
use data::spec::Flags;

const BUCKET: Place = Place { is_council: false, version: NEWEST, newest: NEWEST, work_max: WORK_DEFAULT };
const OF_COUNCIL: Place = Place { is_council: true, ..BUCKET };

fn read_body(place: Place, kind: Kind, body: impl AsRef<[u8]>) -> Result<Option<Bytes>, Refused> {
    let body = Bytes::copy_from_slice(body.as_ref());
    read(place, 7, &Forwarded { kind, sequence: 9, body })
}

fn command(words: &[&[u8]]) -> Vec<u8> {
    Arguments::from_words(words.iter().copied()).encoding().to_vec()
}

fn once(id: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    encode_once(id, [&b"set"[..], b"k", b"v"].into_iter(), &mut body);
    body
}

fn transaction(watched: &[u8], key: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    let queued = [Arguments::from_words([&b"set"[..], key, b"v"])];
    words::encode_transaction([(watched, Revision(1))].into_iter(), &queued, &mut body);
    body
}

#[test]
fn what_nodes_forward_is_taken_as_it_is() {
    let order = Order::Drop { name: "b".to_owned(), id: BucketId(3) }.encode();
    for (place, kind, body) in [
        (BUCKET, Kind::Command, command(&[b"set", b"k", b"v"])),
        // Replicas answer these.
        (BUCKET, Kind::Command, command(&[b"no-such-command"])),
        (BUCKET, Kind::Command, command(&[b"get"])),
        (BUCKET, Kind::Command, command(&[])),
        (BUCKET, Kind::Once, once(b"id")),
        (BUCKET, Kind::Transaction, transaction(b"w", b"k")),
        (BUCKET, Kind::Evict, Eviction::encode(9, &[(data::Blob::new(b"k"), Revision(3))]).to_vec()),
        (BUCKET, Kind::Expire, 9_u64.to_le_bytes().to_vec()),
        (BUCKET, Kind::Compare, Vec::new()),
        (OF_COUNCIL, Kind::Compare, Vec::new()),
        (OF_COUNCIL, Kind::Time, Vec::new()),
        (OF_COUNCIL, Kind::Council, order),
    ] {
        assert_eq!(read_body(place, kind, &body), Ok(None), "{kind:?} {body:?}");
    }
}

#[test]
fn what_no_replica_could_apply_is_refused() {
    let long = vec![b'k'; KEY_BYTES_MAX + 1];
    let set = command(&[b"set", b"k", b"v"]);
    let (node, others, cluster) = (NodeId(1), Vec::new(), 5);
    let cases = [
        (BUCKET, Kind::Command, vec![5, 0, 0, 0]),
        (BUCKET, Kind::Command, Vec::new()),
        (BUCKET, Kind::Command, [&set[..], b"x"].concat()),
        // The marks of terms and of a permit, and nothing behind them.
        (BUCKET, Kind::Command, vec![0xff; 5]),
        (BUCKET, Kind::Command, vec![0xfc, 0xff, 0xff, 0xff]),
        (BUCKET, Kind::Command, vec![0xfb, 0xff, 0xff, 0xff, 200]),
        (BUCKET, Kind::Command, command(&[b"set", &long, b"v"])),
        (BUCKET, Kind::Command, command(&[b"mset", b"k", b"v", &long, b"v"])),
        (BUCKET, Kind::Once, once(b"")),
        (BUCKET, Kind::Once, once(&[b'i'; ONCE_ID_BYTES_MAX + 1])),
        (BUCKET, Kind::Once, vec![1]),
        (BUCKET, Kind::Transaction, transaction(&long, b"k")),
        (BUCKET, Kind::Transaction, transaction(b"w", &long)),
        (BUCKET, Kind::Transaction, vec![0xfe]),
        (BUCKET, Kind::Evict, vec![1]),
        (BUCKET, Kind::Evict, Eviction::encode(9, &[(data::Blob::new(&long), Revision(3))]).to_vec()),
        (BUCKET, Kind::Void, Vec::new()),
        (OF_COUNCIL, Kind::Void, Vec::new()),
        (BUCKET, Kind::Compare, vec![0; 9]),
        (OF_COUNCIL, Kind::Time, vec![0; 9]),
        (BUCKET, Kind::Expire, vec![0; 9]),
        // Each log has its own kinds.
        (OF_COUNCIL, Kind::Command, set),
        (BUCKET, Kind::Council, Order::Drop { name: "b".to_owned(), id: BucketId(3) }.encode()),
        (OF_COUNCIL, Kind::Council, vec![0]),
        (OF_COUNCIL, Kind::Council, vec![3; COUNCIL_ORDER_BYTES_MAX + 1]),
        (OF_COUNCIL, Kind::Council, Order::Alone { node, others, below: 9, cluster }.encode()),
    ];
    for (place, kind, body) in cases {
        assert!(
            matches!(read_body(place, kind, &body), Err(Refused::Nonsense(_))),
            "{kind:?} {:?}",
            &body[..body.len().min(20)]
        );
    }
}

#[test]
fn what_may_come_too_early_comes_again_and_nobody_raises_the_version_for_another() {
    let old = Place { version: OLDEST, ..OF_COUNCIL };
    let stepped = Order::SteppedOver { partition: COUNCIL, position: Position(1), digest: 2 }.encode();
    assert_eq!(read_body(OF_COUNCIL, Kind::Council, &stepped), Ok(None));
    assert_eq!(read_body(old, Kind::Council, &stepped), Err(NotNow));
    let oldest = Place { newest: OLDEST, ..old };
    assert!(matches!(read_body(oldest, Kind::Council, &stepped), Err(Refused::Nonsense(_))));
    for version in [OLDEST, NEWEST, u16::MAX] {
        let order = Order::Nodes(Change::Version { version, speak: vec![NodeId(0)], founders: 1 }).encode();
        assert_eq!(read_body(OF_COUNCIL, Kind::Council, &order), Err(Stale));
    }
    // Answers are kept from the first number on that is waited for.
    let of = |sequence| read(BUCKET, 7, &Forwarded { kind: Kind::Compare, sequence, body: Bytes::new() });
    assert_eq!((of(7 + WAITED_FOR_MAX), of(8 + WAITED_FOR_MAX)), (Ok(None), Err(NotNow)));
}

#[test]
fn a_budget_beyond_that_of_the_bucket_is_lowered() {
    let terms = |work_max| Terms {
        value_bytes_max: VALUE_BYTES_MAX,
        ttl_ms: 3,
        full_at_bytes: 4,
        slots: Slots { first: 5, end: 6 },
        work_max,
    };
    let of = |work_max| {
        let mut body = Vec::new();
        terms(work_max).encode(Flags::NONE, &mut body);
        body.extend(command(&[b"eval", b"while true do end", b"0"]));
        body
    };
    let generous = Place { work_max: 9 * WORK_DEFAULT, ..BUCKET };
    for (place, asked, gets) in [
        (BUCKET, u64::MAX, WORK_DEFAULT),
        (generous, u64::MAX, 9 * WORK_DEFAULT),
        // One of a bucket that allows less is no more than any may have.
        (Place { work_max: WORK_MIN, ..BUCKET }, 2 * WORK_DEFAULT, WORK_DEFAULT),
    ] {
        let lowered = read_body(place, Kind::Command, of(asked)).expect("it is taken").expect("it has another budget");
        assert_eq!(lowered, if gets == WORK_DEFAULT { with_default(&of(asked)) } else { of(gets) });
    }
    assert_eq!(read_body(generous, Kind::Command, of(9 * WORK_DEFAULT)), Ok(None));
    assert_eq!(read_body(BUCKET, Kind::Command, of(WORK_MIN)), Ok(None));
}

/// A body with the default budget written out.
fn with_default(body: &[u8]) -> Vec<u8> {
    let (at, mut body) = (body.len() - command(&[b"eval", b"while true do end", b"0"]).len(), body.to_vec());
    body[at - 8..at].copy_from_slice(&WORK_DEFAULT.to_le_bytes());
    body
}

#[test]
fn an_operator_is_told_once_a_minute_of_each_member() {
    let (mut nonsense, begin) = (Nonsense::default(), Time(0));
    assert_eq!(nonsense.note(NodeId(1), begin), Some(0));
    for second in 1..60 {
        assert_eq!(nonsense.note(NodeId(1), begin + Duration::from_secs(second)), None);
    }
    assert_eq!(nonsense.note(NodeId(2), begin + Duration::from_secs(59)), Some(0));
    assert_eq!(nonsense.note(NodeId(1), begin + Duration::from_secs(60)), Some(59));
}

#[test]
fn what_is_proposed_in_place_is_no_command() {
    let (kind, body) = in_place_of_refused();
    let words = Words::decode(&body).expect("it can be read");
    assert!(kind == Kind::Command && data::lookup(words.as_slice()[0]).is_none());
}
