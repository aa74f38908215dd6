use super::*;

const PROMISED: Promised = Promised { settled: 1000, is_one_history: true, nodes_stay: true };
const HISTORY: &str = "0~00000000000000fe";

fn parts(revision: u64, key: &str) -> Vec<Value> {
    let numbers = [0, revision as i64, 9].map(Value::Integer).to_vec();
    vec![
        Value::Array(numbers),
        Value::Array([b"set", b"set", key.as_bytes()].map(|word| Value::Bulk(word.to_vec())).to_vec()),
    ]
}

fn changes() -> Changes {
    let mut changes = Changes::default();
    for (revision, key) in [(1, "k1"), (2, "x"), (3, "k2"), (4, "k1")] {
        let change = Change {
            key: key.as_bytes().to_vec(),
            is_of_all_keys: false,
            parts: parts(revision, key),
            at: revision * 100,
        };
        changes.note((HISTORY.to_owned(), 0), revision, change);
    }
    changes
}

fn place(revision: u64) -> Place {
    Place { history: HISTORY.to_owned(), revisions: vec![Some(revision)] }
}

fn told(revision: u64, key: &str) -> Told {
    Told::Change { partition: 0, revision, parts: parts(revision, key) }
}

fn stream(from: Option<u64>, began: u64, told: Vec<Told>) -> Stream {
    Stream {
        caller: 1,
        node: 0,
        wanted: Wanted::Prefix("k".to_owned()),
        from: from.map(place),
        restates: false,
        began: Some(place(began)),
        asked: 50,
        answered: 150,
        heard: 1000,
        told,
        until: None,
    }
}

fn judged(stream: Stream) -> Vec<String> {
    let mut changes = changes();
    changes.floors.insert((0, 0), vec![(0, 0), (300, 2)]);
    changes.streams.push(stream);
    check(&changes, PROMISED)
}

#[test]
fn what_is_right_is_right() {
    let all = || vec![told(1, "k1"), told(3, "k2"), Told::Live(place(3)), told(4, "k1"), Told::Place(place(4))];
    assert_eq!(judged(stream(None, 0, all())), [""; 0]);
    assert_eq!(judged(stream(Some(0), 0, all())), [""; 0]);
    assert_eq!(judged(stream(Some(2), 2, all()[1..].to_vec())), [""; 0]);
    let gone = Stream { until: Some(500), ..stream(Some(0), 0, vec![told(1, "k1")]) };
    assert_eq!(judged(gone), [""; 0]);
    let silent = Stream { heard: 900, ..stream(Some(0), 0, vec![told(1, "k1")]) };
    assert_eq!(judged(silent), [""; 0]);
}

#[test]
fn forged_streams_are_seen() {
    let is_told = |stream: Stream, what: &str| {
        let found = judged(stream);
        assert!(found.iter().any(|text| text.contains(what)), "{what}: {found:?}");
    };
    is_told(stream(Some(0), 0, vec![told(1, "k1"), told(4, "k1")]), "never told revision 3");
    is_told(stream(Some(0), 0, vec![Told::Live(place(1))]), "never told revision 1");
    is_told(
        stream(Some(0), 0, vec![told(1, "k1"), told(3, "k2"), Told::Live(place(3))]),
        "at the end it is at 3 of 0 and was not told 4",
    );
    is_told(stream(Some(0), 0, vec![told(1, "k1"), told(1, "k1")]), "told revision 1 of 0 behind 1");
    is_told(stream(Some(0), 0, vec![told(1, "k9")]), "and it was");
    is_told(stream(Some(1), 1, vec![told(2, "x")]), "does not want");
    is_told(stream(Some(4), 4, vec![told(5, "k1")]), "no node has recorded");
    is_told(stream(Some(4), 4, vec![Told::Live(place(5))]), "no node has recorded");
    is_told(stream(Some(1), 2, vec![]), "asked to go on from");
    is_told(stream(Some(2), 2, vec![told(3, "k2"), Told::Live(place(2))]), "behind 3");
    is_told(stream(Some(4), 4, vec![]), "not told that it is live");
    is_told(stream(Some(4), 4, vec![Told::Place(place(4))]), "was not live");
    is_told(stream(Some(4), 4, vec![Told::Live(place(4)), Told::Live(place(4))]), "was already live");
    is_told(Stream { asked: 250, answered: 260, ..stream(None, 1, vec![]) }, "more had changed");
    // The change that it begins behind was made long after the answer.
    let mut late = changes();
    late.truth.values_mut().filter_map(|all| all.get_mut(&3)).for_each(|change| change.at = SEEN_LATE + 200);
    late.streams.push(stream(None, 3, vec![]));
    let found = check(&late, PROMISED);
    assert!(found.iter().any(|text| text.contains("not there yet")), "{found:?}");
    let gap = |from, reason: &str, at| Told::Gap {
        partition: 0,
        from,
        to: 2,
        reason: reason.to_owned(),
        at,
        restates: false,
    };
    is_told(stream(Some(0), 0, vec![gap(1, "retention", 400)]), "never told revision 1");
    is_told(stream(Some(2), 2, vec![gap(1, "retention", 400)]), "and was at");
    is_told(stream(Some(0), 0, vec![gap(0, "retention", 200)]), "that its node had");
    is_told(stream(Some(0), 0, vec![gap(0, "begun-anew", 400)]), "nothing has begun anew");
    is_told(stream(Some(0), 0, vec![gap(0, "bucket-dropped", 400)]), "bucket that is there");
    let right = Stream { until: Some(400), ..stream(Some(0), 0, vec![gap(0, "retention", 400)]) };
    assert_eq!(judged(right), [""; 0]);
    let mut two = changes();
    two.note(
        (HISTORY.to_owned(), 0),
        1,
        Change { parts: parts(1, "z"), ..two.truth[&(HISTORY.to_owned(), 0)][&1].clone() },
    );
    assert!(check(&two, PROMISED)[0].contains("two nodes"));
}

/// Of a subscriber who begins with what is there, behind a state at revision 2 with keys of other times.
fn judged_with_state(told: Vec<Told>) -> Vec<String> {
    let mut changes = changes();
    let key = |key: &str, revision: u64| (key.as_bytes().to_vec(), (revision, standing(key, revision)));
    changes.note_state((HISTORY.to_owned(), 0), 2, [key("k0", 0), key("k1", 1), key("x", 2)].into());
    changes.streams.push(Stream { began: None, restates: true, ..stream(None, 0, told) });
    check(&changes, PROMISED)
}

fn standing(key: &str, revision: u64) -> Vec<Value> {
    let words = [Value::Bulk(b"string".to_vec()), Value::Bulk(key.as_bytes().to_vec())].into_iter();
    let left = [Value::Bulk(revision.to_string().into_bytes()), Value::Null, Value::Array(Vec::new())];
    vec![Value::Array([0, revision as i64].map(Value::Integer).to_vec()), Value::Array(words.chain(left).collect())]
}

fn has(key: &str, revision: u64) -> Told {
    Told::State { partition: 0, revision, key: key.as_bytes().to_vec(), parts: standing(key, revision) }
}

#[test]
fn a_subscriber_with_state_has_all_keys_when_it_is_live() {
    let right = [
        vec![has("k0", 0), has("k1", 1), told(3, "k2"), told(4, "k1"), Told::Live(place(4))],
        vec![has("k1", 1), told(4, "k1"), has("k2", 3), has("k0", 0), Told::Live(place(4))],
        vec![has("k0", 0), has("k1", 1), Told::Live(place(2)), told(3, "k2"), told(4, "k1")],
    ];
    right.into_iter().for_each(|told| assert_eq!(judged_with_state(told), [""; 0]));
    let is_told = |told: Vec<Told>, what: &str| {
        let found = judged_with_state(told);
        assert!(found.iter().any(|text| text.contains(what)), "{what}: {found:?}");
    };
    is_told(vec![has("k0", 0), has("k1", 1), told(3, "k2"), Told::Live(place(4))], "as it was at 1");
    is_told(vec![has("k0", 0), Told::Live(place(2))], "lacks k1");
    is_told(vec![Told::Live(place(2))], "lacks k0");
    is_told(vec![has("k0", 0), has("k1", 1), has("k9", 1), Told::Live(place(2))], "has k9, which is not there");
    is_told(vec![told(4, "k1"), has("k1", 4)], "twice");
    is_told(vec![has("k1", 4), told(4, "k1")], "again");
    is_told(vec![told(4, "k1"), told(3, "k2")], "behind");
    is_told(vec![has("x", 2), Told::Live(place(2))], "does not want");
    is_told(vec![has("k0", 0), has("k1", 1), told(3, "k9"), told(4, "k1"), Told::Live(place(4))], "and it was");
    is_told(vec![has("k0", 0), has("k1", 1)], "not told that it is live");
    let late = Told::State { partition: 0, revision: 1, key: b"k1".to_vec(), parts: standing("k1", 2) };
    is_told(vec![has("k0", 0), late, Told::Live(place(2))], "and it is");
    is_told(vec![has("k0", 0), has("k1", 1), Told::Live(place(2)), has("k2", 3)], "was not to be");
    // One that did not want that.
    let gap = Told::Gap { partition: 0, from: 1, to: 2, reason: "retention".to_owned(), at: 400, restates: true };
    assert!(judged(stream(Some(1), 1, vec![gap]))[0].contains("was not to be"));
}

#[test]
fn a_token_of_another_history_is_followed_by_a_gap_alone() {
    let other = Place { history: "0~0000000000000001".to_owned(), ..place(1) };
    let goes_on = |told: Vec<Told>| {
        let mut changes = changes();
        changes.streams.push(Stream { from: Some(other.clone()), until: Some(10), ..stream(None, 1, told) });
        check(&changes, Promised { is_one_history: false, ..PROMISED })
    };
    let gap = Told::Gap { partition: 0, from: 1, to: 4, reason: "begun-anew".to_owned(), at: 9, restates: false };
    assert_eq!(goes_on(vec![gap]), [""; 0]);
    assert!(goes_on(vec![told(3, "k2")])[0].contains("another history"));
}
