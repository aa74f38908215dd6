//! Named subscriptions, on whole clusters: a client that attaches goes on behind what was acknowledged, and takes over from the one before.

use wire::Value;

use crate::common::Cluster;
use crate::subscriptions::{cluster, plain, values, with_some_away};
use node::{ConnectionId, Input};

/// A connection that attaches to names.
struct Worker {
    me: u16,
    connection: ConnectionId,
    heard: Vec<String>,
}

/// What an attachment was answered.
#[derive(Debug)]
struct Attached {
    token: Option<String>,
    epoch: i64,
}

fn text(value: &Value) -> String {
    String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned()
}

impl Worker {
    fn new(cluster: &mut Cluster, me: u16, number: u64) -> Worker {
        let connection = ConnectionId(100 + number);
        cluster.open(me, connection);
        cluster.ask_as(me, connection, "HELLO 3");
        Worker { me, connection, heard: Vec::new() }
    }

    /// Sends a line, and waits for its answer.
    fn ask(&mut self, cluster: &mut Cluster, line: &str) -> Value {
        cluster.say_as(self.me, self.connection, line);
        for _ in 0..4000 {
            let mut all = values(cluster, self.me, self.connection);
            let answer = all.iter().position(|value| !matches!(value, Value::Push(_))).map(|place| all.remove(place));
            self.heard.extend(all.iter().map(plain));
            if let Some(answer) = answer {
                return answer;
            }
            cluster.pass();
        }
        panic!("no answer to {line}");
    }

    #[track_caller]
    fn attach(&mut self, cluster: &mut Cluster, words: &str) -> Attached {
        let answer = self.ask(cluster, &format!("DICTUM.SUBSCRIBE NAME {words}"));
        let Value::Array(parts) = &answer else { panic!("{words}: {answer:?}") };
        let token = Some(text(&parts[1])).filter(|text| !text.is_empty());
        Attached { token, epoch: parts[2].as_integer().expect("an epoch") }
    }

    /// The keys and values of changes that it is told next, until one of this key.
    #[track_caller]
    fn hear_until(&mut self, cluster: &mut Cluster, last: &str) -> Vec<String> {
        for _ in 0..2000 {
            let new = values(cluster, self.me, self.connection);
            self.heard.extend(new.iter().map(plain));
            if self.heard.iter().any(|line| line.contains(last)) {
                let all = std::mem::take(&mut self.heard);
                return all.into_iter().filter(|line| !line.starts_with(">dictum.live")).collect();
            }
            cluster.pass();
        }
        panic!("nothing of {last}: {:?}", self.heard);
    }
}

/// The keys among messages of changes, in order.
fn keys(heard: &[String]) -> Vec<&str> {
    heard.iter().filter(|line| line.starts_with(">dictum.change")).filter_map(|line| line.split(' ').nth(7)).collect()
}

/// The token behind so many changes more in the only partition.
fn behind(token: &str, changes: u64) -> String {
    let (history, revision) = token.rsplit_once(':').expect("a token");
    format!("{history}:{}", revision.parse::<u64>().expect("a number") + changes)
}

#[test]
fn the_next_client_goes_on_behind_what_was_acknowledged() {
    let mut cluster = cluster(3);
    let mut first = Worker::new(&mut cluster, 1, 1);
    let attached = first.attach(&mut cluster, "mail PREFIX order:");
    let epoch = attached.epoch;
    for number in 0..5 {
        assert_eq!(cluster.ask(0, &format!("SET order:{number} v")), "+OK\r\n");
    }
    let heard = first.hear_until(&mut cluster, "order:4");
    assert_eq!(keys(&heard), ["order:0", "order:1", "order:2", "order:3", "order:4"], "{heard:?}");
    // The record of the name changes as it is made, and again when its beginning is noted: two changes before the first one.
    let place = |heard: &str| heard.split(' ').nth(3).map(|it| it.parse::<u64>().expect("a revision")).expect("one");
    let third = heard.iter().find(|line| line.contains("order:2")).expect("it was told");
    let token = attached.token.expect("it has a place");
    let (history, begins) = token.rsplit_once(':').expect("a token");
    let third = format!("{history}:{}", place(third));
    assert!(place(&heard[0]) > begins.parse::<u64>().expect("a number"));
    assert_eq!(first.ask(&mut cluster, &format!("DICTUM.ACK mail {epoch} {third}")), Value::Integer(1));
    assert_eq!(first.ask(&mut cluster, &format!("DICTUM.ACK mail {epoch} {third}")), Value::Integer(0));
    assert_eq!(
        first.ask(&mut cluster, &format!("DICTUM.ACK mail {epoch} {token}")),
        Value::Integer(0),
        "no place falls"
    );
    cluster.give(first.me, Input::Closed { connection: first.connection });
    assert_eq!(cluster.ask(0, "SET order:5 v"), "+OK\r\n");

    let mut next = Worker::new(&mut cluster, 2, 1);
    let attached = next.attach(&mut cluster, "mail");
    assert!(attached.epoch > epoch);
    assert_eq!(attached.token, Some(third));
    let heard = next.hear_until(&mut cluster, "order:5");
    assert_eq!(keys(&heard), ["order:3", "order:4", "order:5"], "{heard:?}");
}

#[test]
fn what_nobody_has_acknowledged_is_told_again_from_the_beginning() {
    let mut cluster = cluster(3);
    let mut first = Worker::new(&mut cluster, 1, 1);
    first.attach(&mut cluster, "mail ALL");
    cluster.give(first.me, Input::Closed { connection: first.connection });
    for number in 0..3 {
        assert_eq!(cluster.ask(0, &format!("SET k{number} v")), "+OK\r\n");
    }
    let mut next = Worker::new(&mut cluster, 0, 1);
    next.attach(&mut cluster, "mail");
    let heard = next.hear_until(&mut cluster, "k2");
    assert_eq!(keys(&heard), ["k0", "k1", "k2"], "and nothing of its own record: {heard:?}");
}

#[test]
fn whoever_attaches_takes_over_and_the_other_one_is_told() {
    let mut cluster = cluster(3);
    let mut old = Worker::new(&mut cluster, 1, 1);
    let Attached { token, epoch: mut before } = old.attach(&mut cluster, "mail ALL");
    let token = token.expect("a place");
    for me in [2, 1] {
        let mut new = Worker::new(&mut cluster, me, 10 + u64::from(me));
        let epoch = new.attach(&mut cluster, "mail").epoch;
        assert!(epoch > before);
        let heard = old.hear_until(&mut cluster, "moved-away");
        assert!(
            heard.iter().any(|line| line.starts_with(">dictum.moved-away") && line.ends_with(" mail")),
            "{heard:?}"
        );
        let refused = old.ask(&mut cluster, &format!("DICTUM.ACK mail {before} {}", behind(&token, 9)));
        let refused = refused.as_error().unwrap_or_default().to_owned();
        assert_eq!(refused, format!("STALE epoch {before} of 'mail' is over: it is {epoch} now"));
        assert_eq!(cluster.ask(0, &format!("SET k{epoch} v")), "+OK\r\n");
        new.hear_until(&mut cluster, &format!("k{epoch}"));
        (0..50).for_each(|_| cluster.pass());
        assert!(values(&mut cluster, old.me, old.connection).is_empty(), "it is told nothing more");
        (old, before) = (new, epoch);
    }
    // Its words are others, or it is gone.
    for line in ["DICTUM.SUB mail k9", "DICTUM.FORGET mail"] {
        let mut other = Worker::new(&mut cluster, 0, 30);
        assert_eq!(other.ask(&mut cluster, line), Value::Integer(1), "{line}");
        old.hear_until(&mut cluster, "moved-away");
        if line.contains("SUB") {
            old.attach(&mut cluster, "mail");
        }
        cluster.give(0, Input::Closed { connection: other.connection });
    }
    let gone = old.ask(&mut cluster, "DICTUM.SUBSCRIBE NAME mail");
    assert!(gone.as_error().is_some_and(|text| text.contains("no subscription of this name")), "{gone:?}");
}

#[test]
fn what_cannot_be_a_place_is_refused_or_told_as_a_gap() {
    let mut cluster = cluster(3);
    let mut worker = Worker::new(&mut cluster, 1, 1);
    let Attached { token, epoch } = worker.attach(&mut cluster, "mail ALL ON GAP restate");
    let token = token.expect("a place");
    for wrong in [format!("9{token}"), format!("{token},"), "x".to_owned()] {
        let refused = worker.ask(&mut cluster, &format!("DICTUM.ACK mail {epoch} {wrong}"));
        assert!(refused.as_error().is_some_and(|text| text.starts_with("ERR")), "{wrong}: {refused:?}");
    }
    // A client has acknowledged what has never been.
    assert_eq!(
        worker.ask(&mut cluster, &format!("DICTUM.ACK mail {epoch} {}", behind(&token, 1000))),
        Value::Integer(1)
    );
    let mut next = Worker::new(&mut cluster, 2, 1);
    next.attach(&mut cluster, "mail");
    let heard = next.hear_until(&mut cluster, "dictum.gap");
    assert!(heard.iter().any(|line| line.contains("begun-anew")), "{heard:?}");
    // The way out.
    let mut third = Worker::new(&mut cluster, 0, 1);
    let attached = third.attach(&mut cluster, "mail FROM now");
    assert!(attached.token.is_some());
    assert_eq!(cluster.ask(0, "SET k9 v"), "+OK\r\n");
    third.hear_until(&mut cluster, "k9");
}

#[test]
fn a_key_without_a_name_is_no_flush() {
    let mut cluster = cluster(1);
    let mut worker = Worker::new(&mut cluster, 0, 1);
    worker.attach(&mut cluster, "mail ALL");
    cluster.say(0, b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$1\r\nv\r\n");
    assert_eq!(cluster.hear(0), "+OK\r\n");
    assert_eq!(cluster.ask(0, "SET k9 v"), "+OK\r\n");
    let heard = worker.hear_until(&mut cluster, "k9");
    assert!(!heard.iter().any(|line| line.contains("moved-away")), "{heard:?}");
    assert_eq!(cluster.ask(0, "FLUSHALL"), "+OK\r\n");
    worker.hear_until(&mut cluster, "moved-away");
}

#[test]
fn a_name_is_taken_over_at_a_node_without_a_copy() {
    let (mut cluster, away, leads) = with_some_away();
    let mut old = Worker::new(&mut cluster, away, 1);
    old.attach(&mut cluster, "mail ALL");
    assert_eq!(cluster.ask(leads, "SET a 1"), "+OK\r\n");
    old.hear_until(&mut cluster, " a ");
    let mut new = Worker::new(&mut cluster, leads, 2);
    new.attach(&mut cluster, "mail");
    old.hear_until(&mut cluster, "moved-away");
    // And back again: it goes on from the beginning, as nothing was acknowledged.
    old.attach(&mut cluster, "mail");
    new.hear_until(&mut cluster, "moved-away");
    old.hear_until(&mut cluster, " a ");
}

#[test]
fn a_message_is_handled_and_acknowledged_in_one_transaction() {
    let mut cluster = cluster(3);
    let mut worker = Worker::new(&mut cluster, 0, 1);
    let Attached { token, epoch } = worker.attach(&mut cluster, "mail PREFIX order:");
    let token = token.expect("a place");
    assert_eq!(cluster.ask(1, "SET order:1 v"), "+OK\r\n");
    worker.hear_until(&mut cluster, "order:1");
    let place = behind(&token, 3);
    for line in ["MULTI", "INCR sent", &format!("DICTUM.ACK mail {epoch} {place}")] {
        worker.ask(&mut cluster, line);
    }
    assert_eq!(worker.ask(&mut cluster, "EXEC"), Value::Array(vec![Value::Integer(1), Value::Integer(1)]));
    // Another one has taken over before: nothing of the transaction that checks it with WATCH is done, and a plain acknowledgement is refused within.
    let mut other = Worker::new(&mut cluster, 2, 1);
    let attached = other.attach(&mut cluster, "mail");
    assert!(attached.epoch > epoch);
    assert_eq!(attached.token, Some(place));
    let named = other.ask(&mut cluster, "DICTUM.NAMED mail");
    let Value::Map(pairs) = &named else { panic!("{named:?}") };
    assert_eq!(pairs[0].1, Value::Integer(attached.epoch));
    assert!(text(&pairs[1].1).starts_with("n3 "), "{named:?}");
}

#[test]
fn what_is_there_comes_first_and_again_as_long_as_nothing_is_acknowledged() {
    let mut cluster = cluster(3);
    assert_eq!(cluster.ask(0, "SET cart:1 v"), "+OK\r\n");
    for round in 0..2 {
        let mut worker = Worker::new(&mut cluster, 1 + round, 1);
        let attached = worker.attach(&mut cluster, "ui WITH STATE PREFIX cart:");
        assert_eq!(attached.token, None);
        let heard = worker.hear_until(&mut cluster, "dictum.state");
        assert!(heard.iter().any(|line| line.contains("dictum.state") && line.contains("cart:1")), "{heard:?}");
    }
}

#[test]
fn rights_are_those_of_who_attaches() {
    let mut cluster = cluster(1);
    assert_eq!(cluster.ask(0, "ACL SETUSER ann on nopass ~order:* ~mail +@all"), "+OK\r\n");
    let mut ann = Worker::new(&mut cluster, 0, 1);
    assert_eq!(ann.ask(&mut cluster, "AUTH ann x"), Value::ok());
    for line in ["other PREFIX order:", "mail ALL", "mail PREFIX cart:"] {
        let refused = ann.ask(&mut cluster, &format!("DICTUM.SUBSCRIBE NAME {line}"));
        assert!(refused.as_error().is_some_and(|text| text.starts_with("NOPERM")), "{line}: {refused:?}");
    }
    ann.attach(&mut cluster, "mail PREFIX order:");
    // Somebody else has given the name other words.
    let mut root = Worker::new(&mut cluster, 0, 2);
    root.attach(&mut cluster, "mail ALL");
    let refused = ann.ask(&mut cluster, "DICTUM.SUBSCRIBE NAME mail");
    assert!(refused.as_error().is_some_and(|text| text.starts_with("NOPERM")), "{refused:?}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut cluster = cluster(1);
    let mut worker = Worker::new(&mut cluster, 0, 1);
    assert_eq!(cluster.ask(0, "SET dictum.sub:{odd} x"), "+OK\r\n");
    for (line, why) in [
        ("NAME", "syntax error"),
        ("NAME mail", "no subscription of this name"),
        ("NAME {x} ALL", "braces"),
        ("NAME odd ALL", "something else"),
        ("NAME mail FROM x ALL", "no token"),
        ("NAME mail ALL FROM now", "syntax error"),
        ("NAME mail KIND set", "of which keys"),
    ] {
        let refused = worker.ask(&mut cluster, &format!("DICTUM.SUBSCRIBE {line}"));
        assert!(refused.as_error().is_some_and(|text| text.contains(why)), "{line}: {refused:?}");
    }
    // A refused client has no subscription, and the connection goes on.
    assert_eq!(worker.ask(&mut cluster, "DICTUM.SUBSCRIPTIONS"), Value::Array(Vec::new()));
    worker.attach(&mut cluster, "mail ALL");
}
