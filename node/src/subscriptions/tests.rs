mod walks;

use std::cell::RefCell;

use data::{After, Blob, ChangeKind, EntryContext, StoreKey};
use wire::{ReplyLimits, ReplyParser, Value};

use super::delivery::TURN_MESSAGES_MAX;
use super::filter::tests::filter;
use super::opening::Asked;
use super::*;

const NOW: Time = Time(1);
const PARTITION: PartitionId = PartitionId { bucket: BucketId(0), index: 0 };

/// Nodes without a state.
struct Nothing;

const NOTHING: Nothing = Nothing;

impl States for Nothing {
    fn tree(&self, _: PartitionId) -> Option<&Tree> {
        None
    }
}

/// Connections by their numbers: those named take nothing, for this reason.
#[derive(Default)]
struct Connections {
    refuse: BTreeMap<u64, NoRoom>,
    /// A connection takes so many messages, and is full then.
    takes: BTreeMap<u64, RefCell<usize>>,
    sent: BTreeMap<u64, Vec<u8>>,
    over: Vec<u64>,
}

impl Sink for Connections {
    fn protocol(&self, connection: ConnectionId) -> Result<Protocol, NoRoom> {
        match self.refuse.get(&connection.0) {
            Some(why) => Err(*why),
            None if self.takes.get(&connection.0).is_some_and(|left| *left.borrow() == 0) => Err(NoRoom::Full),
            None => Ok(Protocol::Resp3),
        }
    }

    fn send(&mut self, connection: ConnectionId, parts: [&[u8]; 2]) {
        if let Some(left) = self.takes.get(&connection.0) {
            *left.borrow_mut() -= 1;
        }
        self.sent.entry(connection.0).or_default().extend_from_slice(&parts.concat());
    }

    fn over(&mut self, connection: ConnectionId) {
        self.over.push(connection.0);
    }
}

impl Connections {
    /// What a connection was told since the last call, a word for each message: the revision of a change, and other messages by their names.
    fn told(&mut self, connection: u64) -> Vec<String> {
        let mut parser = ReplyParser::new(ReplyLimits::default());
        parser.push(&self.sent.remove(&connection).unwrap_or_default());
        let mut told = Vec::new();
        while let Some(value) = parser.next().expect("it is RESP") {
            let Value::Push(parts) = value else { panic!("{value:?}") };
            let text = |place: usize| match &parts[place] {
                Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                other => format!("{other:?}"),
            };
            let word = text(0);
            told.push(match (word.strip_prefix("dictum.").expect("it is ours"), &parts[2]) {
                ("state", _) => match &parts[3] {
                    Value::Array(words) => {
                        format!("has {}", String::from_utf8_lossy(words[1].as_bytes().expect("a key")))
                    }
                    other => panic!("{other:?}"),
                },
                ("change", Value::Array(numbers)) => match numbers[1] {
                    Value::Integer(revision) => revision.to_string(),
                    ref other => panic!("{other:?}"),
                },
                ("gap", Value::Array(numbers)) => format!("gap {:?} {} {}", numbers, text(3), text(4)),
                (word, _) => format!("{word} {}", text(2).split_once(':').expect("it is a token").1),
            });
        }
        told
    }
}

fn record(revision: u64, key: &str) -> ChangeRecord {
    ChangeRecord {
        revision: Revision(revision),
        kind: ChangeKind::Set,
        event: Blob::new(b"set"),
        key: Blob::new(key.as_bytes()),
        is_new: false,
        deadline: None,
        after: After::String(Blob::new(b"v")),
    }
}

/// Two keys of the tests take 208 units of work: those are told between two ticks.
fn settings(memory_bytes: usize) -> SubscriptionSettings {
    SubscriptionSettings { memory_bytes, walk_work: 150, walk_work_per_tick: 208 }
}

fn subscriptions(memory: usize) -> Subscriptions {
    let mut subscriptions = Subscriptions::new(settings(memory), Position(0), None);
    subscriptions.recorded(PARTITION, (Revision(0), 0), Vec::new());
    subscriptions
}

/// Changes of this key, up to a revision.
fn change(subscriptions: &mut Subscriptions, from: u64, key: &str, count: u64) {
    for revision in from..from + count {
        subscriptions.recorded(PARTITION, (Revision(revision - 1), 7), vec![record(revision, key)]);
    }
}

/// Begins a subscription of a connection, behind a revision or where the partition is.
fn begin(
    subscriptions: &mut Subscriptions,
    connection: u64,
    prefix: &str,
    from: Option<u64>,
    now: u64,
) -> SubscriptionId {
    let asked = Asked {
        bucket: BucketId(0),
        history: 0xfe,
        partitions: 1,
        filter: filter(&[("prefix", prefix)]),
        with_values: true,
        with_state: false,
        restates: false,
        from: vec![(PARTITION, from.map(Revision))],
        is_of_another: false,
    };
    let waiting = (ConnectionId(connection), 0);
    subscriptions.wait(waiting, asked);
    let (id, token) = subscriptions.open(waiting, &[Some(Revision(now))]).expect("it was waiting");
    let is_ahead = from.is_some_and(|from| from > now);
    let revisions = token.map(|token| token.revisions);
    assert_eq!(revisions, (!is_ahead).then(|| vec![Some(Revision(from.unwrap_or(now)))]));
    id
}

#[test]
fn live_ones_are_told_what_they_want_and_those_from_a_token_what_they_have_missed() {
    let (mut all, mut sink) = (subscriptions(1 << 20), Connections::default());
    change(&mut all, 1, "a:1", 3);
    begin(&mut all, 1, "a:", None, 3);
    begin(&mut all, 2, "", Some(1), 3);
    begin(&mut all, 3, "b:", Some(0), 3);
    all.tell(NOW, &mut sink, &NOTHING);
    assert_eq!(sink.told(1), ["live 3"]);
    assert_eq!(sink.told(2), ["2", "3", "live 3"]);
    assert_eq!(sink.told(3), ["live 3"]);
    change(&mut all, 4, "a:2", 1);
    change(&mut all, 5, "b:2", 1);
    let told = all.tell(NOW, &mut sink, &NOTHING);
    assert_eq!((told.messages, told.fell_behind, all.goes_on()), (4, 0, false));
    assert_eq!([1, 2, 3].map(|connection| sink.told(connection)), [vec!["4"], vec!["4", "5"], vec!["5"]]);
    // Once told, nothing is told again; but how far all are is told to those that did not know.
    assert_eq!(all.tell_progress(NOW, 1, &mut sink), 0, "they were told a moment ago");
    let later = NOW + PROGRESS_EVERY;
    assert_eq!(all.tell_progress(later, 1, &mut sink), 3);
    assert_eq!([1, 2, 3].map(|connection| sink.told(connection)), [["progress 5"], ["progress 5"], ["progress 5"]]);
    assert_eq!(all.tell_progress(later + PROGRESS_EVERY, 1, &mut sink), 0, "nothing has changed");
}

#[test]
fn a_subscriber_who_does_not_read_is_told_later_and_holds_up_nobody() {
    let (mut all, mut sink) = (subscriptions(1 << 20), Connections::default());
    begin(&mut all, 1, "", None, 0);
    begin(&mut all, 2, "", None, 0);
    all.tell(NOW, &mut sink, &NOTHING);
    assert_eq!([sink.told(1), sink.told(2)], [["live 0"], ["live 0"]]);
    sink.takes.insert(1, RefCell::new(2));
    change(&mut all, 1, "k", 4);
    let told = all.tell(NOW, &mut sink, &NOTHING);
    assert_eq!((told.fell_behind, all.goes_on(), all.has_work()), (1, false, false));
    assert_eq!(sink.told(1), ["1", "2"]);
    assert_eq!(sink.told(2), ["1", "2", "3", "4"]);
    change(&mut all, 5, "k", 1);
    all.tell(NOW, &mut sink, &NOTHING);
    assert_eq!((sink.told(1).len(), sink.told(2)), (0, vec!["5".to_owned()]));
    // It has read two of them, then all.
    sink.takes.insert(1, RefCell::new(2));
    all.on_room(ConnectionId(1));
    all.tell(NOW, &mut sink, &NOTHING);
    assert_eq!(sink.told(1), ["3", "4"]);
    sink.takes.clear();
    all.on_room(ConnectionId(1));
    assert_eq!(all.tell(NOW, &mut sink, &NOTHING).came_live, 1);
    assert_eq!(sink.told(1), ["5"]);
    // One that has enough for a turn goes on in the next; one whose answers are held up when these are out.
    sink.refuse.insert(2, NoRoom::NextTurn);
    change(&mut all, 6, "k", 1);
    all.tell(NOW, &mut sink, &NOTHING);
    assert!(all.goes_on());
    sink.refuse.clear();
    all.tell(NOW, &mut sink, &NOTHING);
    assert_eq!([sink.told(1), sink.told(2)], [["6"], ["6"]]);
    sink.refuse.insert(2, NoRoom::Later);
    change(&mut all, 7, "k", 2);
    all.tell(NOW, &mut sink, &NOTHING);
    assert!(all.has_work() && !all.goes_on());
    sink.refuse.clear();
    all.tell(NOW, &mut sink, &NOTHING);
    assert_eq!([sink.told(1), sink.told(2)], [["7", "8"], ["7", "8"]]);
}

#[test]
fn what_is_gone_is_told_as_a_gap_and_ends_it() {
    let memory = 10 * record(1, "k").bytes();
    let (mut all, mut sink) = (subscriptions(memory), Connections::default());
    begin(&mut all, 1, "", None, 0);
    begin(&mut all, 2, "", None, 0);
    all.tell(NOW, &mut sink, &NOTHING);
    sink.refuse.insert(1, NoRoom::Full);
    change(&mut all, 1, "k", 8);
    all.tell(NOW, &mut sink, &NOTHING);
    change(&mut all, 9, "k", 8);
    all.tell(NOW, &mut sink, &NOTHING);
    sink.refuse.clear();
    all.on_room(ConnectionId(1));
    assert_eq!(all.tell(NOW, &mut sink, &NOTHING).gaps, 1);
    let gap = |from: u64, to: u64, why: &str| {
        format!("gap {:?} {why} end", [Value::Integer(0), Value::Integer(from as i64), Value::Integer(to as i64)])
    };
    assert_eq!(sink.told(1), ["live 0".to_owned(), gap(0, 6, "too-slow")]);
    assert_eq!((sink.told(2).len(), all.count(), &sink.over[..]), (17, 1, &[1][..]));
    // More than there is room for within one turn: live ones learn of it as well.
    change(&mut all, 17, "k", 30);
    all.tell(NOW, &mut sink, &NOTHING);
    assert_eq!(sink.told(2), [gap(16, 36, "retention")], "it has read everything: the node is to blame");
    begin(&mut all, 3, "", Some(20), 46);
    begin(&mut all, 4, "", Some(44), 46);
    all.tell(NOW, &mut sink, &NOTHING);
    assert_eq!(sink.told(3), [gap(20, 36, "retention")]);
    assert_eq!(sink.told(4), ["45", "46", "live 46"]);
    // From a place where nobody has been, it is another history.
    begin(&mut all, 5, "", Some(50), 46);
    all.tell(NOW, &mut sink, &NOTHING);
    assert_eq!(sink.told(5), [gap(50, 46, "begun-anew")]);
    // The bucket goes.
    all.end_partition(PARTITION, Reason::BucketDropped);
    all.tell(NOW, &mut sink, &NOTHING);
    assert_eq!((sink.told(4), all.count()), (vec![gap(46, 46, "bucket-dropped")], 0));
    assert!(all.is_empty() && all.watched.is_empty() && all.of_connection.is_empty() && all.size == Size::default());
}

#[test]
fn a_turn_tells_so_much_and_the_next_one_goes_on_where_it_was() {
    let (mut all, mut sink) = (subscriptions(1 << 20), Connections::default());
    let count = TURN_MESSAGES_MAX as u64 / 3 * 2;
    for connection in 0..count {
        begin(&mut all, connection, "", None, 0);
    }
    while all.has_work() {
        all.tell(NOW, &mut sink, &NOTHING);
    }
    sink.sent.clear();
    change(&mut all, 1, "k", 3);
    assert!(all.tell(NOW, &mut sink, &NOTHING).messages == TURN_MESSAGES_MAX && all.goes_on());
    assert_eq!(all.told_last, Some(PARTITION));
    // In the middle of a change nobody is told how far it is, and a new one waits.
    assert_eq!(all.tell_progress(NOW + PROGRESS_EVERY, 1, &mut sink), 0);
    begin(&mut all, count, "", Some(1), 3);
    let mut turns = 1;
    while all.has_work() {
        assert!(all.tell(NOW, &mut sink, &NOTHING).messages <= TURN_MESSAGES_MAX);
        turns += 1;
    }
    assert!(turns >= 2);
    assert!((0..count).all(|connection| sink.told(connection) == ["1", "2", "3"]));
    assert_eq!(sink.told(count), ["2", "3", "live 3"]);
}

#[test]
fn nothing_recorded_is_waited_for_and_another_state_is_a_gap() {
    let (mut all, mut sink) = (Subscriptions::new(settings(1 << 20), Position(0), None), Connections::default());
    begin(&mut all, 1, "", None, 5);
    all.tell(NOW, &mut sink, &NOTHING);
    assert!(sink.told(1).is_empty() && all.has_work(), "nothing is recorded yet");
    all.begin(PARTITION, Revision(5));
    all.tell(NOW, &mut sink, &NOTHING);
    assert_eq!(sink.told(1), ["live 5"]);
    // This replica has not come so far as the one that gave the token.
    begin(&mut all, 2, "", Some(7), 9);
    all.tell(NOW, &mut sink, &NOTHING);
    change(&mut all, 6, "k", 3);
    all.tell(NOW, &mut sink, &NOTHING);
    assert_eq!(sink.told(2), ["8", "live 8"]);
    sink.sent.clear();
    // It gets another state.
    all.unrecorded(PARTITION);
    all.begin(PARTITION, Revision(20));
    all.tell(NOW, &mut sink, &NOTHING);
    assert_eq!(sink.told(1).len(), 1);
    assert_eq!((sink.told(2).len(), all.count()), (1, 0));
}

#[test]
fn what_ends_leaves_nothing_behind() {
    let (mut all, mut sink) = (subscriptions(1 << 20), Connections::default());
    let first = begin(&mut all, 1, "a", None, 0);
    begin(&mut all, 1, "b", None, 0);
    begin(&mut all, 2, "c", None, 0);
    all.tell(NOW, &mut sink, &NOTHING);
    assert!(!all.end(ConnectionId(2), first), "it is another connection's");
    assert!(all.end(ConnectionId(1), first) && !all.end(ConnectionId(1), first));
    assert_eq!((all.count_of(ConnectionId(1)), all.partitions().count()), (1, 1));
    change(&mut all, 1, "a", 1);
    sink.sent.clear();
    assert_eq!(all.tell(NOW, &mut sink, &NOTHING).messages, 0);
    sink.refuse.insert(1, NoRoom::Full);
    change(&mut all, 2, "b", 1);
    all.tell(NOW, &mut sink, &NOTHING);
    all.leave(ConnectionId(1));
    all.leave(ConnectionId(2));
    assert!(all.is_empty() && all.watched.is_empty() && all.waiting.stalled.is_empty() && all.size == Size::default());
    let asked = Asked {
        bucket: BucketId(0),
        history: 0,
        partitions: 1,
        filter: filter(&[("key", "k")]),
        with_values: true,
        with_state: false,
        restates: false,
        from: vec![(PARTITION, None)],
        is_of_another: false,
    };
    all.wait((ConnectionId(3), 5), asked);
    assert!(!all.is_empty());
    all.leave(ConnectionId(3));
    assert!(all.is_empty() && all.size == Size::default());
    change(&mut all, 3, "a", 1);
    assert!(!all.has_work(), "what changes concerns nobody");
}

#[test]
fn a_pattern_that_costs_too_much_ends_its_subscription_alone() {
    let (mut all, mut sink) = (subscriptions(1 << 20), Connections::default());
    begin(&mut all, 1, "", None, 0);
    let asked = |from: Option<u64>| Asked {
        bucket: BucketId(0),
        history: 0,
        partitions: 1,
        filter: filter(&[("match", &format!("*{}b", "a".repeat(200)))]),
        with_values: true,
        with_state: false,
        restates: false,
        from: vec![(PARTITION, from.map(Revision))],
        is_of_another: false,
    };
    all.wait((ConnectionId(2), 0), asked(None));
    all.open((ConnectionId(2), 0), &[Some(Revision(0))]).expect("it was waiting");
    all.tell(NOW, &mut sink, &NOTHING);
    change(&mut all, 1, &"a".repeat(4000), 1);
    all.tell(NOW, &mut sink, &NOTHING);
    assert_eq!(sink.told(1), ["live 0", "1"]);
    let told = sink.told(2);
    assert!(told[1].contains("pattern-too-costly end"), "{told:?}");
    // The same for one that is behind.
    all.wait((ConnectionId(3), 0), asked(Some(0)));
    all.open((ConnectionId(3), 0), &[Some(Revision(1))]).expect("it was waiting");
    while all.has_work() {
        all.tell(NOW, &mut sink, &NOTHING);
    }
    let told = sink.told(3);
    assert!(told[0].contains("pattern-too-costly end"), "{told:?}");
    assert_eq!((all.count(), all.size.patterns), (1, 0));
}

#[test]
fn who_is_live_hears_of_it_once_there_is_room() {
    let (mut all, mut sink) = (subscriptions(1 << 20), Connections::default());
    change(&mut all, 1, "k", 2);
    sink.takes.insert(1, RefCell::new(2));
    begin(&mut all, 1, "", Some(0), 2);
    all.tell(NOW, &mut sink, &NOTHING);
    assert_eq!(sink.told(1), ["1", "2"]);
    assert!(all.has_work() && all.tell_progress(NOW + PROGRESS_EVERY, 1, &mut sink) == 0);
    sink.takes.clear();
    all.tell(NOW, &mut sink, &NOTHING);
    assert_eq!((sink.told(1), all.has_work()), (vec!["live 2".to_owned()], false));
}

#[test]
fn partitions_take_turns() {
    let other = PartitionId { bucket: BucketId(0), index: 1 };
    let (mut all, mut sink) = (subscriptions(1 << 20), Connections::default());
    all.recorded(other, (Revision(0), 0), Vec::new());
    for connection in 0..TURN_MESSAGES_MAX as u64 {
        let asked = Asked {
            bucket: BucketId(0),
            history: 0,
            partitions: 2,
            filter: filter(&[("all", "")]),
            with_values: true,
            with_state: false,
            restates: false,
            from: vec![(PARTITION, None), (other, None)],
            is_of_another: false,
        };
        all.wait((ConnectionId(connection), 0), asked);
        all.open((ConnectionId(connection), 0), &[Some(Revision(0)); 2]).expect("it was waiting");
    }
    while all.has_work() {
        all.tell(NOW, &mut sink, &NOTHING);
    }
    sink.sent.clear();
    // Each has more than a turn tells.
    change(&mut all, 1, "k", 2);
    all.recorded(other, (Revision(0), 7), vec![record(1, "k")]);
    all.tell(NOW, &mut sink, &NOTHING);
    all.tell(NOW, &mut sink, &NOTHING);
    assert_eq!(sink.told(0).len(), 2, "one of each");
}
