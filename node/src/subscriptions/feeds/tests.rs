use base::{BucketId, Position};
use data::{After, Blob, ChangeKind};

use super::super::SubscriptionSettings;
use super::*;

const P: PartitionId = PartitionId { bucket: BucketId(0), index: 0 };
const SOURCES: [NodeId; 2] = [NodeId(1), NodeId(2)];

fn subscriptions(memory_bytes: usize) -> Subscriptions {
    let settings = SubscriptionSettings { memory_bytes, ..SubscriptionSettings::default() };
    Subscriptions::new(settings, Position(0), None)
}

fn record(revision: u64, bytes: usize) -> ChangeRecord {
    ChangeRecord {
        revision: Revision(revision),
        kind: ChangeKind::Set,
        event: Blob::new(b"set"),
        key: Blob::new(b"k"),
        is_new: false,
        deadline: None,
        after: After::String(Blob::new(&vec![b'v'; bytes])),
    }
}

/// A source that has the changes behind `floor` up to `head`.
fn source(floor: u64, head: u64, bytes: usize) -> Subscriptions {
    let mut source = subscriptions(64 << 20);
    source.recorded(P, (Revision(floor), 0), Vec::new());
    change(&mut source, floor, head, bytes);
    source
}

fn change(source: &mut Subscriptions, from: u64, to: u64, bytes: usize) {
    for revision in from..to {
        source.recorded(P, (Revision(revision), revision + 1), vec![record(revision + 1, bytes)]);
    }
}

fn at(ms: u64) -> Time {
    Time::default() + Duration::from_millis(ms)
}

/// Carries questions and answers back and forth until nobody says anything.
fn talk(here: &mut Subscriptions, there: &mut Subscriptions, asked: Vec<Question>, now: Time) -> Vec<Taken> {
    let (mut questions, mut taken) = (asked, Vec::new());
    loop {
        for question in questions.drain(..) {
            there.feeds.ask(P, (NodeId(0), question.feed), question.after, now);
        }
        let answers = there.answers();
        if answers.is_empty() {
            return taken;
        }
        for answer in answers {
            let (how, question) = here.take_fed((SOURCES[0], P, answer.feed), answer.after, answer.records);
            taken.push(how);
            questions.extend(question);
        }
    }
}

fn follower(from: u64) -> Subscriptions {
    let mut here = subscriptions(64 << 20);
    here.recorded(P, (Revision(from), 0), Vec::new());
    here.watched.entry(P).or_default();
    here
}

fn ask(here: &mut Subscriptions, ms: u64) -> Vec<Question> {
    here.feeds.is_on = true;
    let due = here.due(at(ms), &BTreeSet::from([P]));
    due.into_iter().filter_map(|partition| here.question(partition, &SOURCES)).collect()
}

fn kept(here: &Subscriptions) -> (u64, u64) {
    let (floor, records) = here.kept(P).expect("a ring");
    (floor.0, floor.0 + records.count() as u64)
}

#[test]
fn all_is_told_in_pieces_and_then_what_changes() {
    let (mut here, mut there) = (follower(5), source(0, 3000, 2000));
    let asked = ask(&mut here, 10_000);
    assert_eq!(asked, [Question { to: SOURCES[0], partition: P, feed: 1, after: Revision(5) }]);
    let taken = talk(&mut here, &mut there, asked, at(10_000));
    assert!(taken.len() > 20 && taken.iter().all(|it| *it == Taken::Yes), "{taken:?}");
    assert_eq!(kept(&here), (5, 3000));
    assert_eq!(here.rings.after(P, Revision(2999)).map(|mut all| all.next().map(|it| it.stamp)), Ok(Some(3000)));
    change(&mut there, 3000, 3002, 10);
    assert_eq!(talk(&mut here, &mut there, Vec::new(), at(10_000)), [Taken::Yes]);
    assert_eq!(kept(&here), (5, 3002));
    // Nothing is asked before its time, and the source has nothing to say but that it is there.
    assert_eq!(ask(&mut here, 10_400), []);
    let asked = ask(&mut here, 10_600);
    assert_eq!((asked.len(), asked[0].after), (1, Revision(3002)));
    assert_eq!(talk(&mut here, &mut there, asked, at(10_600)), [Taken::Yes]);
    // Nobody asks any more.
    there.due(at(20_000), &BTreeSet::new());
    assert_eq!(there.feeds.followed().count(), 0);
}

#[test]
fn what_the_source_has_lost_begins_the_ring_anew() {
    let (mut here, mut there) = (follower(5), source(9, 12, 10));
    let asked = ask(&mut here, 10_000);
    assert_eq!(talk(&mut here, &mut there, asked, at(10_000)), [Taken::Anew, Taken::Yes]);
    assert_eq!(kept(&here), (9, 12));
    // It has been given up meanwhile, and another one goes on.
    let asked = ask(&mut here, 13_000);
    assert_eq!(asked, [Question { to: SOURCES[1], partition: P, feed: 2, after: Revision(12) }]);
    let late = here.take_fed((SOURCES[0], P, 1), Revision(12), vec![(13, record(13, 1))]);
    assert_eq!(late, (Taken::No, None));
    let other = here.take_fed((SOURCES[1], P, 2), Revision(12), vec![(13, record(14, 1))]);
    assert_eq!(other, (Taken::No, None), "14 is not behind 12");
    assert_eq!(kept(&here), (9, 12));
}

#[test]
fn so_much_is_on_its_way_and_no_more() {
    let (mut here, mut there) = (follower(0), source(0, 3000, 2000));
    let asked = ask(&mut here, 10_000);
    there.feeds.ask(P, (NodeId(0), asked[0].feed), asked[0].after, at(10_000));
    let sent = |there: &mut Subscriptions| -> usize {
        let mut sent = 0;
        while there.feeds.goes_on() {
            sent += there.answers().iter().map(|answer| answer.records.len()).sum::<usize>();
        }
        sent
    };
    let first = sent(&mut there);
    assert!((400..600).contains(&first), "{first}");
    // Asking alone gives nothing: what was sent has not come.
    there.feeds.ask(P, (NodeId(0), asked[0].feed), Revision(0), at(10_500));
    assert_eq!(sent(&mut there), 0);
    there.feeds.ask(P, (NodeId(0), asked[0].feed), Revision(first as u64), at(10_600));
    assert!((400..600).contains(&sent(&mut there)));
}

#[test]
fn sources_take_turns_whatever_the_partition() {
    let three = [NodeId(1), NodeId(2), NodeId(3)];
    for index in 0..6 {
        let partition = PartitionId { index, ..P };
        let mut here = subscriptions(1 << 20);
        here.recorded(partition, (Revision(5), 0), Vec::new());
        here.watched.entry(partition).or_default();
        let mut asked = BTreeSet::new();
        for turn in 0..3 {
            assert_eq!(here.due(at(10_000 + 3_000 * turn), &BTreeSet::from([partition])), [partition]);
            asked.extend(here.question(partition, &three).map(|question| question.to));
        }
        assert_eq!(asked.len(), 3, "{index}: {asked:?}");
    }
}

#[test]
fn what_it_applies_itself_joins_what_it_is_told() {
    let (mut here, mut there) = (follower(5), source(0, 10, 10));
    let asked = ask(&mut here, 10_000);
    here.join(P, (Revision(3), 0), vec![record(4, 1)]);
    here.join(P, (Revision(8), 0), vec![record(9, 1)]);
    assert_eq!(kept(&here), (5, 5), "both leave something out");
    here.join(P, (Revision(5), 6), vec![record(6, 1), record(7, 1)]);
    assert_eq!(talk(&mut here, &mut there, asked, at(10_000)), [Taken::Yes]);
    assert_eq!(kept(&here), (5, 10));
    assert!(here.is_fed_less_than(P, Revision(11), at(10_000)) && !here.is_fed_less_than(P, Revision(10), at(1)));
    assert!(here.is_fed_less_than(P, Revision(11), at(20_000)), "it has waited for nothing yet");
    assert!(!here.is_fed_less_than(P, Revision(11), at(26_000)), "and not for ever");
    let far = here.take_fed((SOURCES[0], P, 1), Revision(u64::MAX), vec![(0, record(1, 1))]);
    assert_eq!(far.0, Taken::No);
}

#[test]
fn what_is_missing_before_the_ring_is_fetched_once() {
    let (mut here, mut there) = (follower(50), source(20, 60, 10));
    let asked = ask(&mut here, 10_000);
    talk(&mut here, &mut there, asked, at(10_000));
    assert_eq!(kept(&here), (50, 60));
    assert!(here.reaches_further(P), "there may be more");
    let asked = ask(&mut here, 10_100);
    assert_eq!(asked, [Question { to: SOURCES[0], partition: P, feed: 2, after: Revision(0) }]);
    assert!(here.reaches_further(P), "it was asked for, and has not come");
    assert_eq!(talk(&mut here, &mut there, asked, at(10_100)), [Taken::Anew, Taken::Yes]);
    // It has not more than that either: a subscriber before it is told a gap.
    assert_eq!(kept(&here), (20, 60));
    assert!(!here.reaches_further(P));
    assert!(here.is_fed(P, Revision(20)) && !here.is_fed(P, Revision(19)) && !here.is_fed(P, Revision(61)));
}
