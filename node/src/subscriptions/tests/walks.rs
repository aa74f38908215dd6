//! Subscriptions with state: walks over the stored keys.

use super::*;

#[test]
fn walks_take_so_much_work_until_the_next_tick_and_connections_take_turns() {
    let (mut all, mut sink, mut state) = (subscriptions(1 << 20), Connections::default(), State(Tree::new()));
    keys_in_order(6).iter().for_each(|key| state.apply(&mut all, &format!("SET {key} v")));
    for _ in 0..20 {
        begin_with_state(&mut all, 1, &[("all", "")]);
    }
    begin_with_state(&mut all, 2, &[("all", "")]);
    let mut told = Vec::new();
    while all.has_work() {
        let mut keys = 0;
        while all.goes_on() {
            keys += all.tell(NOW, &mut sink, &state).keys;
        }
        assert!(keys <= 2, "{keys} within a tick");
        told.extend(sink.told(2));
        if told.len() < 7 {
            assert!(sink.told(1).len() <= 2, "it has twenty walks, and the other one has one");
        }
        next(&mut all, &mut sink, &state);
    }
    assert_eq!((told.len(), all.walkers.is_empty()), (7, true));
}

/// A tick, and the turn of it.
fn next(all: &mut Subscriptions, sink: &mut Connections, state: &State) -> Told {
    assert_eq!(all.tell_progress(NOW, 1, sink), 0);
    all.tell(NOW, sink, state)
}

/// A node with a state: what it applies is recorded.
struct State(Tree);

impl States for State {
    fn tree(&self, partition: PartitionId) -> Option<&Tree> {
        (partition == PARTITION).then_some(&self.0)
    }
}

impl State {
    fn apply(&mut self, all: &mut Subscriptions, line: &str) {
        let context = EntryContext { recorded_bytes_max: Some(64), ..EntryContext::default() };
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let before = self.0.revision();
        let applied = data::apply(&mut self.0, &context, &words);
        assert!(!matches!(applied.reply, Reply::Error(_)), "{line}: {:?}", applied.reply);
        all.recorded(PARTITION, (before, 7), applied.records);
    }
}

/// Keys in the order of the store.
fn keys_in_order(count: u64) -> Vec<String> {
    let mut keys: Vec<StoreKey> = (0..count).map(|key| StoreKey::new(format!("k{key}").as_bytes())).collect();
    keys.sort();
    keys.iter().map(|key| String::from_utf8_lossy(&key.key).into_owned()).collect()
}

/// Begins one that wants to know what is there.
fn begin_with_state(all: &mut Subscriptions, connection: u64, words: &[(&str, &str)]) {
    let asked = Asked {
        bucket: BucketId(0),
        history: 0xfe,
        partitions: 1,
        filter: {
            let mut filter = filter(words);
            filter.sort_keys();
            filter
        },
        with_values: true,
        with_state: true,
        restates: true,
        from: vec![(PARTITION, None)],
        is_of_another: false,
    };
    let waiting = (ConnectionId(connection), 0);
    all.wait(waiting, asked);
    let (_, token) = all.open(waiting, &[Some(Revision(0))]).expect("it was waiting");
    assert!(token.is_none(), "it is nowhere yet");
}

#[test]
fn what_is_there_is_told_key_by_key_and_of_changes_those_of_keys_that_were_told() {
    let (mut all, mut sink, mut state) = (subscriptions(1 << 20), Connections::default(), State(Tree::new()));
    let keys = keys_in_order(6);
    keys.iter().for_each(|key| state.apply(&mut all, &format!("SET {key} v")));
    begin_with_state(&mut all, 1, &[("prefix", "k")]);
    // Two keys at a time.
    next(&mut all, &mut sink, &state);
    assert_eq!(sink.told(1), [format!("has {}", keys[0]), format!("has {}", keys[1])]);
    assert_eq!(all.tell_progress(NOW + PROGRESS_EVERY, 1, &mut sink), 0, "nowhere is no place");
    // One that was told changes, one that was not, one goes that was told, one that was not, and others come.
    for line in ["SET @0 w", "SET @4 w", "DEL @1", "DEL @3"] {
        let line = (0..6).fold(line.to_owned(), |line, place| line.replace(&format!("@{place}"), &keys[place]));
        state.apply(&mut all, &line);
    }
    next(&mut all, &mut sink, &state);
    assert_eq!(sink.told(1), ["7".to_owned(), "9".to_owned(), format!("has {}", keys[2]), format!("has {}", keys[4])]);
    state.apply(&mut all, &format!("SET {} w", keys[5]));
    next(&mut all, &mut sink, &state);
    assert_eq!(sink.told(1), [format!("has {}", keys[5]), "live 11".to_owned()]);
    state.apply(&mut all, "SET q x");
    state.apply(&mut all, &format!("SET {} w", keys[3]));
    next(&mut all, &mut sink, &state);
    assert_eq!((sink.told(1), all.has_work()), (vec!["13".to_owned()], false));
}

#[test]
fn keys_that_are_named_are_looked_up_and_a_flush_takes_away_what_was_told() {
    let (mut all, mut sink, mut state) = (subscriptions(1 << 20), Connections::default(), State(Tree::new()));
    let keys = keys_in_order(100);
    keys.iter().for_each(|key| state.apply(&mut all, &format!("SET {key} v")));
    let named = [("key", &*keys[90]), ("key", &keys[5]), ("key", "none"), ("key", &keys[50])];
    begin_with_state(&mut all, 1, &named);
    let told = next(&mut all, &mut sink, &state);
    assert!((1..=2).contains(&told.keys), "two keys are looked up, of which one may not be there");
    state.apply(&mut all, "FLUSHALL");
    while all.has_work() {
        next(&mut all, &mut sink, &state);
    }
    let told = sink.told(1);
    assert_eq!(told[0], format!("has {}", keys[5]));
    assert_eq!(told[told.len() - 2..], ["101", "live 101"]);
}

#[test]
fn one_that_does_not_read_goes_on_among_the_keys_where_it_was() {
    let (mut all, mut sink, mut state) = (subscriptions(1 << 20), Connections::default(), State(Tree::new()));
    let keys = keys_in_order(5);
    keys.iter().for_each(|key| state.apply(&mut all, &format!("SET {key} v")));
    sink.takes.insert(1, RefCell::new(1));
    begin_with_state(&mut all, 1, &[("all", "")]);
    next(&mut all, &mut sink, &state);
    assert_eq!((sink.told(1), all.has_work()), (vec![format!("has {}", keys[0])], false));
    sink.takes.clear();
    all.on_room(ConnectionId(1));
    while all.has_work() {
        next(&mut all, &mut sink, &state);
    }
    let rest: Vec<String> = keys[1..].iter().map(|key| format!("has {key}")).chain(["live 5".to_owned()]).collect();
    assert_eq!(sink.told(1), rest);
}

#[test]
fn behind_a_gap_it_is_told_what_is_there_unless_it_cannot_keep_up() {
    let memory = 10 * record(1, "k").bytes();
    let (mut all, mut sink, mut state) = (subscriptions(memory), Connections::default(), State(Tree::new()));
    state.apply(&mut all, "SET a v");
    begin_with_state(&mut all, 1, &[("all", "")]);
    next(&mut all, &mut sink, &state);
    assert_eq!(sink.told(1), ["has a", "live 1"]);
    sink.refuse.insert(1, NoRoom::Full);
    for _ in 0..30 {
        state.apply(&mut all, "SET b v");
    }
    next(&mut all, &mut sink, &state);
    sink.refuse.clear();
    all.on_room(ConnectionId(1));
    let mut told = Told::default();
    while all.has_work() {
        let part = next(&mut all, &mut sink, &state);
        (told.gaps, told.restated, told.keys) =
            (told.gaps + part.gaps, told.restated + part.restated, told.keys + part.keys);
    }
    assert_eq!((told.gaps, told.restated, told.keys), (1, 1, 2));
    let heard = sink.told(1);
    assert!(heard[0].starts_with("gap") && heard[0].ends_with("too-slow restate"), "{heard:?}");
    assert_eq!(heard[3..], ["live 31"]);
    // Among the keys it is left behind again: that has no end.
    for key in keys_in_order(6) {
        state.apply(&mut all, &format!("SET {key} v"));
    }
    sink.sent.clear();
    sink.takes.insert(2, RefCell::new(1));
    begin_with_state(&mut all, 2, &[("all", "")]);
    next(&mut all, &mut sink, &state);
    for _ in 0..30 {
        state.apply(&mut all, "SET b v");
    }
    sink.takes.clear();
    all.on_room(ConnectionId(2));
    while all.has_work() {
        next(&mut all, &mut sink, &state);
    }
    let heard = sink.told(2);
    assert!(heard[1].starts_with("gap") && heard[1].ends_with("too-slow end"), "{heard:?}");
    assert_eq!(heard.len(), 2);
}

#[test]
fn a_walk_that_cannot_be_finished_gives_no_token() {
    let (mut all, mut sink, mut state) = (subscriptions(1 << 20), Connections::default(), State(Tree::new()));
    state.apply(&mut all, &format!("SET {} v", "a".repeat(4000)));
    begin_with_state(&mut all, 1, &[("match", &format!("*{}b", "a".repeat(200)))]);
    next(&mut all, &mut sink, &state);
    let Some(Reply::Array(shown)) = all.describe(all.last) else { panic!("it is there") };
    assert_eq!((&shown[2], sink.told(1).len()), (&Reply::Nil, 0), "it lacks keys");
    next(&mut all, &mut sink, &state);
    assert!(sink.told(1)[0].contains("pattern-too-costly end"));
    assert!(all.is_empty() && all.walkers.is_empty());
}
