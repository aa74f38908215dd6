//! Subscriptions to changes, on whole clusters: what is told, from which node, and behind what.

use base::versions::NEWEST;
use base::{BucketId, PartitionId};
use wire::{ReplyLimits, ReplyParser, Value};

use crate::common::{CLIENT, Cluster, field, pass_until};
use node::{ConnectionId, Input};

const DEFAULT: PartitionId = PartitionId { bucket: BucketId(0), index: 0 };
const SUBSCRIBER: ConnectionId = ConnectionId(2);

/// Nodes of which all know that they speak the newest version; the first leads, and the key `k` is there.
pub fn cluster(count: usize) -> Cluster {
    let mut cluster = Cluster::new(count);
    for me in 0..count as u16 {
        assert_eq!(cluster.ask(me, "SET k 0"), "+OK\r\n");
    }
    pass_until(&mut cluster, "all know that they speak the newest version", |cluster| {
        cluster.nodes.iter().all(|node| node.cluster_version() == NEWEST)
    });
    cluster
}

fn alone() -> Cluster {
    cluster(1)
}

/// Everything that a connection has heard, taken away.
pub fn values(cluster: &mut Cluster, me: u16, connection: ConnectionId) -> Vec<Value> {
    let mut parser = ReplyParser::new(ReplyLimits::default());
    parser.push(&cluster.heard_bytes(me, connection));
    std::iter::from_fn(|| parser.next().expect("it is RESP")).collect()
}

/// A value in a line: pushes begin with `>`, arrays stand in brackets.
fn line(value: &Value) -> String {
    let list = |items: &[Value]| items.iter().map(line).collect::<Vec<_>>().join(" ");
    match value {
        Value::Push(items) => format!(">{}", list(items)),
        Value::Array(items) => format!("[{}]", list(items)),
        Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Null => "-".to_owned(),
        Value::Simple(text) | Value::Error(text) => text.clone(),
        other => format!("{other:?}"),
    }
}

/// The same without what differs from run to run: `T` stands for stamps and times, and tokens tell no history.
pub fn plain(value: &Value) -> String {
    fn smooth(value: &mut Value) {
        match value {
            Value::Push(parts) | Value::Array(parts) => parts.iter_mut().for_each(smooth),
            Value::Integer(number) if *number > 1 << 40 => *value = Value::Bulk(b"T".to_vec()),
            Value::Bulk(bytes) => {
                let text = String::from_utf8_lossy(bytes).into_owned();
                if let Some((bucket, rest)) = text.split_once('~') {
                    *bytes = format!("{bucket}{}", &rest[16..]).into_bytes();
                }
            }
            _ => {}
        }
    }
    let mut value = value.clone();
    smooth(&mut value);
    line(&value)
}

/// A connection that subscribes, and what it has heard.
struct Subscriber {
    me: u16,
    heard: Vec<String>,
}

impl Subscriber {
    /// A new connection to a node.
    fn new(cluster: &mut Cluster, me: u16, protocol: u8) -> Subscriber {
        cluster.open(me, SUBSCRIBER);
        if protocol == 3 {
            cluster.ask_as(me, SUBSCRIBER, "HELLO 3");
        }
        Subscriber { me, heard: Vec::new() }
    }

    /// Subscribes: the token.
    #[track_caller]
    fn subscribe(&mut self, cluster: &mut Cluster, words: &str) -> String {
        cluster.say_as(self.me, SUBSCRIBER, &format!("DICTUM.SUBSCRIBE {words}"));
        for _ in 0..2000 {
            let mut values = values(cluster, self.me, SUBSCRIBER).into_iter();
            if let Some(answer) = values.next() {
                self.heard.extend(values.map(|value| plain(&value)));
                let Value::Array(parts) = answer else { panic!("{answer:?}") };
                return line(&parts[1]);
            }
            cluster.pass();
        }
        panic!("no answer");
    }

    /// The next messages, once there are so many.
    #[track_caller]
    fn hear(&mut self, cluster: &mut Cluster, count: usize) -> Vec<String> {
        for _ in 0..2000 {
            self.heard.extend(values(cluster, self.me, SUBSCRIBER).iter().map(plain));
            if self.heard.len() >= count {
                return std::mem::take(&mut self.heard);
            }
            cluster.pass();
        }
        panic!("heard {:?} only", self.heard);
    }

    fn close(self, cluster: &mut Cluster) {
        cluster.give(self.me, Input::Closed { connection: SUBSCRIBER });
    }
}

/// A subscriber in RESP3, who has heard that he is live, and his token.
#[track_caller]
fn subscriber(cluster: &mut Cluster, me: u16, words: &str) -> (Subscriber, String) {
    let mut subscriber = Subscriber::new(cluster, me, 3);
    let token = subscriber.subscribe(cluster, words);
    subscriber.hear(cluster, 1);
    (subscriber, token)
}

#[test]
fn a_subscriber_is_told_each_change_with_its_value() {
    let mut cluster = alone();
    let mut subscriber = Subscriber::new(&mut cluster, 0, 3);
    subscriber.subscribe(&mut cluster, "PREFIX cart: KEY k");
    assert_eq!(subscriber.hear(&mut cluster, 1), [">dictum.live 1 0:1"]);
    for line in [
        "SET cart:1 apple",
        "SET other x",
        "MSET cart:1 pear cart:2 fig",
        "HSET cart:h a 1 b 2",
        "SPOP none",
        "JSON.SET cart:j $ [1,{}]",
        "SET k v PX 200",
        "DEL cart:1 other",
        "APPEND cart:2 gy",
        "FLUSHALL",
    ] {
        cluster.ask(0, line);
    }
    assert_eq!(
        subscriber.hear(&mut cluster, 9),
        [
            ">dictum.change 1 [0 2 T] [set set cart:1 apple - [new]]",
            ">dictum.change 1 [0 4 T] [set set cart:1 pear - []]",
            ">dictum.change 1 [0 5 T] [set set cart:2 fig - [new]]",
            ">dictum.change 1 [0 6 T] [set hset cart:h [hset a 1 b 2] - [new effect]]",
            ">dictum.change 1 [0 7 T] [set json.set cart:j [1,{}] - [new json]]",
            ">dictum.change 1 [0 8 T] [set set k v T []]",
            ">dictum.change 1 [0 9 T] [del del cart:1 - - []]",
            ">dictum.change 1 [0 11 T] [set append cart:2 figgy - []]",
            ">dictum.change 1 [0 12 T] [flush flushed  - - []]",
        ]
    );
    // What expires is a change as any other.
    cluster.ask(0, "SET k v PX 50");
    assert_eq!(subscriber.hear(&mut cluster, 2)[1], ">dictum.change 1 [0 14 T] [expire expired k - - []]");
    assert_eq!(cluster.ask_as(0, SUBSCRIBER, "DICTUM.UNSUBSCRIBE 1"), "+OK\r\n");
    cluster.ask(0, "SET k v");
    assert_eq!(cluster.ask_as(0, SUBSCRIBER, "PING"), "+PONG\r\n");
}

#[test]
fn it_goes_on_from_a_token_at_any_node() {
    let mut cluster = cluster(3);
    let (mut first, token) = subscriber(&mut cluster, 1, "ALL");
    cluster.ask(0, "SET a 1");
    cluster.ask(2, "SET b 2");
    let told = first.hear(&mut cluster, 2);
    assert!(told[0].contains("set a 1") && told[1].contains("set b 2"), "{told:?}");
    first.close(&mut cluster);
    cluster.ask(0, "SET c 3");
    // The others have recorded the same, though nobody has subscribed there.
    for me in [2, 0] {
        let mut again = Subscriber::new(&mut cluster, me, 3);
        assert_eq!(again.subscribe(&mut cluster, &format!("FROM {token} ALL")), token);
        let told = again.hear(&mut cluster, 4);
        let keys: Vec<&str> =
            told.iter().filter_map(|told| told.split("[set set ").nth(1)?.split(' ').next()).collect();
        assert_eq!(keys, ["a", "b", "c"], "{told:?}");
        // This replica may have had the third one a moment after the others.
        assert!(told.iter().any(|told| told.starts_with(">dictum.live 1 0:")), "{told:?}");
        again.close(&mut cluster);
    }
}

/// Five nodes, three of which have the default partition; one that has it not, and one that leads.
pub fn with_some_away() -> (Cluster, u16, u16) {
    let mut cluster = cluster(5);
    assert_eq!(cluster.ask(0, "DICTUM.NODE VOTERS 3"), "+OK\r\n");
    let without = |cluster: &Cluster| -> Vec<u16> {
        (0..5).filter(|node| cluster.nodes[usize::from(*node)].is_without(DEFAULT)).collect()
    };
    pass_until(&mut cluster, "two nodes are without", |cluster| without(cluster).len() == 2);
    let away = without(&cluster)[0];
    let leads = cluster.nodes[usize::from(away)].leader(DEFAULT).map(|(leader, _)| leader.0).expect("somebody leads");
    (cluster, away, leads)
}

/// The keys that were set, by the messages of a subscriber.
fn keys_set(told: &[String]) -> Vec<String> {
    told.iter().filter_map(|told| Some(told.split("[set set ").nth(1)?.split(' ').next()?.to_owned())).collect()
}

/// Hears so many keys that were set.
#[track_caller]
fn hear_keys(subscriber: &mut Subscriber, cluster: &mut Cluster, count: usize) -> Vec<String> {
    let mut keys = Vec::new();
    while keys.len() < count {
        keys.extend(keys_set(&subscriber.hear(cluster, 1)));
    }
    keys
}

#[test]
fn a_node_without_a_copy_is_told_by_those_that_have_one() {
    let (mut cluster, away, leads) = with_some_away();
    let (mut first, token) = subscriber(&mut cluster, away, "ALL");
    cluster.ask(leads, "SET a 1");
    assert_eq!(cluster.ask(away, "SET b 2"), "+OK\r\n");
    assert_eq!(hear_keys(&mut first, &mut cluster, 2), ["a", "b"]);
    // It goes on when its source is gone.
    let has = |node: &u16| !cluster.nodes[usize::from(*node)].is_without(DEFAULT);
    let others: Vec<u16> = (0..5).filter(|node| ![away, leads].contains(node)).filter(has).collect();
    for gone in others {
        cluster.cut = vec![(away, gone)];
        cluster.ask(leads, &format!("SET without-{gone} 3"));
        assert_eq!(hear_keys(&mut first, &mut cluster, 1), [format!("without-{gone}")]);
        cluster.cut.clear();
    }
    first.close(&mut cluster);
    // Somebody goes on from a token of another node, which lies before what this node was told.
    cluster.ask(leads, "SET d 4");
    let mut again = Subscriber::new(&mut cluster, away, 3);
    assert_eq!(again.subscribe(&mut cluster, &format!("FROM {token} ALL")), token);
    let keys = hear_keys(&mut again, &mut cluster, 5);
    assert_eq!((keys[0].as_str(), keys[4].as_str()), ("a", "d"), "{keys:?}");
    again.close(&mut cluster);
    // Patterns are compared where the keys are, so there are not to be many of them.
    let mut refused = Subscriber::new(&mut cluster, away, 3);
    let patterns: Vec<String> = (0..65).map(|number| format!("MATCH {number}*")).collect();
    cluster.say_as(away, SUBSCRIBER, &format!("DICTUM.SUBSCRIBE {} WITH STATE", patterns.join(" ")));
    let told = refused.hear(&mut cluster, 1);
    assert!(told[0].starts_with("NOCOPY this node has no copy of partition 0; these have: "), "{told:?}");
}

/// Hears on another connection of a node until something is told.
#[track_caller]
fn hear_on(cluster: &mut Cluster, me: u16, connection: ConnectionId, words: &str, until: &str) -> Vec<String> {
    cluster.open(me, connection);
    cluster.ask_as(me, connection, "HELLO 3");
    cluster.say_as(me, connection, words);
    let mut told = Vec::new();
    for _ in 0..3000 {
        told.extend(values(cluster, me, connection).iter().map(plain));
        if told.iter().any(|told| told.contains(until)) {
            return told;
        }
        cluster.pass();
    }
    panic!("heard {told:?} only");
}

#[test]
fn a_place_before_what_a_node_without_a_copy_was_told_is_no_gap() {
    let (mut cluster, away, leads) = with_some_away();
    let (earlier, token) = subscriber(&mut cluster, leads, "ALL");
    earlier.close(&mut cluster);
    cluster.ask(leads, "SET early 1");
    // The ring of this node begins behind that.
    let (mut stays, _) = subscriber(&mut cluster, away, "ALL");
    cluster.ask(leads, "SET late 2");
    assert_eq!(hear_keys(&mut stays, &mut cluster, 1), ["late"]);
    let words = format!("DICTUM.SUBSCRIBE FROM {token} ALL");
    let told = hear_on(&mut cluster, away, ConnectionId(31), &words, "dictum.live");
    assert_eq!(
        (keys_set(&told), told.iter().any(|told| told.contains("gap"))),
        (vec!["early".to_owned(), "late".to_owned()], false),
        "{told:?}"
    );
    // Those who were live have missed nothing, and heard nothing twice.
    cluster.ask(leads, "SET last 3");
    assert_eq!(hear_keys(&mut stays, &mut cluster, 1), ["last"]);
}

#[test]
fn a_token_of_another_history_is_followed_by_what_is_there_where_there_is_no_copy() {
    let (mut cluster, away, _) = with_some_away();
    let words = "DICTUM.SUBSCRIBE FROM 0~00000000000000fe:1 ALL ON GAP RESTATE";
    let told = hear_on(&mut cluster, away, ConnectionId(31), words, "dictum.live");
    assert!(told.iter().any(|told| told.contains("begun-anew restate")), "{told:?}");
    assert!(told.iter().any(|told| told.contains("[string k ")), "{told:?}");
}

#[test]
fn what_is_there_is_told_where_there_is_no_copy() {
    let (mut cluster, away, leads) = with_some_away();
    for number in 0..300 {
        assert_eq!(cluster.ask(leads, &format!("SET key:{number} {number}")), "+OK\r\n");
    }
    for (words, count) in [
        ("ALL", 301),
        ("PREFIX key:1", 111),
        ("MATCH key:?? KEY key:299", 91),
        ("KEYS 3 key:7 key:8 none", 2),
        ("KEY none", 0),
    ] {
        let mut subscriber = Subscriber::new(&mut cluster, away, 3);
        assert_eq!(subscriber.subscribe(&mut cluster, &format!("{words} WITH STATE")), "-");
        let (mut states, mut number) = (std::collections::BTreeSet::new(), 0);
        // Keys change while they are told.
        let mut told: Vec<String> = Vec::new();
        for passes in 0.. {
            if told.iter().any(|told| told.starts_with(">dictum.live")) {
                break;
            }
            assert!(passes < 5_000, "{words}: {} told", told.len());
            cluster.say(leads, format!("SET key:{number} changed\r\n").as_bytes());
            number = (number + 1) % 300;
            cluster.pass();
            cluster.heard(leads, CLIENT);
            subscriber.heard.extend(values(&mut cluster, away, SUBSCRIBER).iter().map(plain));
            told = subscriber.heard.clone();
        }
        for told in told.iter().filter(|told| told.starts_with(">dictum.state")) {
            let key = told.split("[string ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a key");
            assert!(states.insert(key.to_owned()), "{key} was told twice");
        }
        assert_eq!(states.len(), count, "{words}: {told:?}");
        subscriber.close(&mut cluster);
    }
}

#[test]
fn what_a_node_gives_up_and_gets_back_is_told_without_a_gap() {
    let (mut cluster, away, _) = with_some_away();
    let (mut stays, _) = subscriber(&mut cluster, away, "ALL");
    assert_eq!(cluster.ask(0, "DICTUM.NODE VOTERS 5"), "+OK\r\n");
    let (mut number, mut answered) = (0, 0);
    // It gets a copy, and gives it up again; meanwhile keys change.
    for (voters, is_without) in [(5, false), (3, true), (5, false)] {
        assert_eq!(cluster.ask(0, &format!("DICTUM.NODE VOTERS {voters}")), "+OK\r\n");
        let order = if is_without { "DRAIN" } else { "PROMOTE" };
        assert_eq!(cluster.ask(0, &format!("DICTUM.NODE {order} n{}", away + 1)), "+OK\r\n");
        for _ in 0..3000 {
            cluster.say(0, format!("SET n {number}\r\n").as_bytes());
            number += 1;
            cluster.pass();
            answered += cluster.heard(0, CLIENT).matches("+OK").count();
            if cluster.nodes[usize::from(away)].is_without(DEFAULT) == is_without {
                break;
            }
        }
        assert_eq!(cluster.nodes[usize::from(away)].is_without(DEFAULT), is_without, "VOTERS {voters}");
    }
    while answered < number {
        answered += cluster.hear(0).matches("+OK").count();
    }
    assert_eq!(cluster.ask(0, "SET last 1"), "+OK\r\n");
    let mut values = Vec::new();
    while !values.iter().any(|value: &String| value.contains("set last")) {
        values.extend(stays.hear(&mut cluster, 1));
    }
    let told = values.iter().filter(|it| it.contains("[set set n ")).count();
    assert!(!values.iter().any(|it| it.contains("gap")), "{values:?}");
    assert_eq!(told, number, "each was told once");
}

#[test]
fn what_is_there_is_told_before_what_changes() {
    let mut cluster = cluster(3);
    for line in
        ["SET cart:s v PX 99999999", "HSET cart:h a 1", "JSON.SET cart:j $ [1]", "SET other x", "XADD cart:x * f v"]
    {
        cluster.ask(1, line);
    }
    let mut subscriber = Subscriber::new(&mut cluster, 1, 3);
    assert_eq!(subscriber.subscribe(&mut cluster, "PREFIX cart: WITH STATE"), "-", "it has no place yet");
    let mut told = subscriber.hear(&mut cluster, 5);
    assert_eq!(told.pop().expect("it is live"), ">dictum.live 1 0:8");
    told.sort();
    assert_eq!(
        told,
        [
            ">dictum.state 1 [0 4] [string cart:s v T []]",
            ">dictum.state 1 [0 5] [hash cart:h [hset a 1] - [effect]]",
            ">dictum.state 1 [0 6] [ReJSON-RL cart:j [1] - [json]]",
            ">dictum.state 1 [0 8] [stream cart:x - - [omitted]]",
        ]
    );
    cluster.ask(0, "SET cart:s w");
    assert_eq!(subscriber.hear(&mut cluster, 1), [">dictum.change 1 [0 9 T] [set set cart:s w - []]"]);
    // The token goes on from there, at any node.
    let listed = cluster.ask_as(1, SUBSCRIBER, "DICTUM.SUBSCRIPTIONS");
    let token = listed.split("\r\n").find(|line| line.contains('~')).expect("it has a place now").to_owned();
    subscriber.close(&mut cluster);
    let mut again = Subscriber::new(&mut cluster, 0, 3);
    again.subscribe(&mut cluster, &format!("PREFIX cart: FROM {token}"));
    assert_eq!(again.hear(&mut cluster, 1), [">dictum.live 1 0:9"]);
    // Of a token of another history what is there is told, if that is wanted.
    let (before, after) = token.split_at(2);
    let strange = format!("{before}{}{}", if after.starts_with('0') { '1' } else { '0' }, &after[1..]);
    again.subscribe(&mut cluster, &format!("FROM {strange} KEY cart:s KEY none VALUES none ON GAP RESTATE"));
    assert_eq!(
        again.hear(&mut cluster, 3),
        [
            ">dictum.gap 2 [0 9 9] begun-anew restate",
            ">dictum.state 2 [0 9] [string cart:s - - [omitted]]",
            ">dictum.live 2 0:9"
        ]
    );
}

#[test]
fn recording_begins_with_the_first_and_ends_a_while_behind_the_last() {
    let mut cluster = alone();
    let recorded = |cluster: &Cluster| {
        let partition = base::PartitionId::default();
        node::recorded(&cluster.nodes[0], partition, base::Revision(0)).map(|kept| (kept.floor.0, kept.changes.len()))
    };
    cluster.ask(0, "SET k 1");
    assert_eq!(recorded(&cluster), None, "nobody subscribes");
    let (first, token) = subscriber(&mut cluster, 0, "ALL");
    cluster.ask(0, "SET k 2");
    assert_eq!(recorded(&cluster), Some((2, 1)));
    first.close(&mut cluster);
    cluster.ask(0, "SET k 3");
    assert_eq!(recorded(&cluster), Some((2, 2)), "who comes back finds what there was");
    for _ in 0..3 {
        cluster.now.wall.0 += 240_000;
        cluster.now.time = cluster.now.time + std::time::Duration::from_secs(240);
        cluster.pass();
    }
    pass_until(&mut cluster, "it leads", |cluster| cluster.nodes[0].leader(base::PartitionId::default()).is_some());
    cluster.ask(0, "SET k 4");
    assert_eq!(recorded(&cluster), None, "nobody has come back");
    let mut again = Subscriber::new(&mut cluster, 0, 3);
    assert_eq!(again.subscribe(&mut cluster, &format!("FROM {token} ALL")), token);
    assert_eq!(again.hear(&mut cluster, 1), [">dictum.gap 2 [0 2 5] retention end"]);
    assert_eq!(
        cluster.ask_as(0, SUBSCRIBER, "DICTUM.UNSUBSCRIBE 2"),
        "-ERR this connection has no such subscription\r\n"
    );
}

#[test]
fn as_long_as_somebody_subscribes_recording_goes_on() {
    let mut cluster = alone();
    let (mut subscriber, _) = subscriber(&mut cluster, 0, "ALL");
    for number in 0..10 {
        cluster.now.wall.0 += 240_000;
        cluster.now.time = cluster.now.time + std::time::Duration::from_secs(240);
        pass_until(&mut cluster, "it leads", |cluster| cluster.nodes[0].leader(base::PartitionId::default()).is_some());
        (0..40).for_each(|_| cluster.pass());
        cluster.ask(0, &format!("SET k {number}"));
        let told = subscriber.hear(&mut cluster, 1);
        assert!(told.iter().any(|told| told.contains(&format!("set k {number}"))), "{told:?}");
        assert!(!told.iter().any(|told| told.contains("gap")), "{told:?}");
    }
}

#[test]
fn a_change_comes_behind_the_answer_of_its_own_client() {
    let mut cluster = cluster(3);
    let (mut subscriber, _) = subscriber(&mut cluster, 0, "ALL");
    // The read waits for a confirmation, and the write behind it may be applied before that has come.
    let bytes = "GET k\r\nSET k 1\r\nGET k\r\nSET k 2\r\n";
    cluster.give(0, Input::Received { connection: SUBSCRIBER, bytes: bytes.as_bytes() });
    let heard = subscriber.hear(&mut cluster, 6);
    let place = |what: &str| heard.iter().position(|told| told.contains(what)).expect("it is told");
    let answers: Vec<usize> =
        heard.iter().enumerate().filter(|(_, told)| *told == "OK").map(|(place, _)| place).collect();
    assert!(place("set k 1") > answers[0] && place("set k 2") > answers[1], "{heard:?}");
}

#[test]
fn resp2_gets_arrays_and_other_commands_are_refused_meanwhile() {
    let mut cluster = alone();
    let mut subscriber = Subscriber::new(&mut cluster, 0, 2);
    subscriber.subscribe(&mut cluster, "KEYS 2 a b VALUES none KIND set");
    assert_eq!(subscriber.hear(&mut cluster, 1), ["[dictum.live 1 0:1]"]);
    cluster.ask(0, "SET a 1");
    cluster.ask(0, "DEL a");
    cluster.ask(0, "SET c 1");
    cluster.ask(0, "SET b 1");
    assert_eq!(
        subscriber.hear(&mut cluster, 2),
        [
            "[dictum.change 1 [0 2 T] [set set a - - [new omitted]]]",
            "[dictum.change 1 [0 5 T] [set set b - - [new omitted]]]"
        ]
    );
    assert!(cluster.ask_as(0, SUBSCRIBER, "GET a").starts_with("-ERR Can't execute 'get'"));
    assert_eq!(cluster.ask_as(0, SUBSCRIBER, "DICTUM.UNSUBSCRIBE 1"), "+OK\r\n");
    assert_eq!(cluster.ask_as(0, SUBSCRIBER, "GET b"), "$1\r\n1\r\n");
}

#[test]
fn what_cannot_be_subscribed_to_is_said() {
    let mut cluster = alone();
    let (mut subscriber, token) = subscriber(&mut cluster, 0, "KEY a");
    let ask = |cluster: &mut Cluster, line: &str| cluster.ask(0, &format!("DICTUM.SUBSCRIBE {line}"));
    assert!(ask(&mut cluster, "FROM 7~x:1 ALL").contains("no token of changes"));
    let other = token.replacen('0', "7", 1);
    assert!(ask(&mut cluster, &format!("FROM {other} ALL")).contains("another bucket"));
    assert!(ask(&mut cluster, "PREFIX a ODD b").contains("syntax error"));
    assert!(ask(&mut cluster, "FROM NOW").contains("of which keys"));
    assert!(cluster.ask(0, "DICTUM.SUBSCRIBE").contains("wrong number of arguments"));
    assert!(cluster.ask(0, "DICTUM.UNSUBSCRIBE 1").contains("no such subscription"), "it is another connection's");
    cluster.ask(0, "MULTI");
    assert!(ask(&mut cluster, "ALL").contains("not allowed inside a transaction"));
    cluster.ask(0, "DISCARD");
    // A token of another history: nothing of it is told.
    let (before, after) = token.split_at(2);
    let strange = format!("{before}{}{}", if after.starts_with('0') { '1' } else { '0' }, &after[1..]);
    assert_eq!(
        subscriber.subscribe(&mut cluster, &format!("FROM {strange} KEY a")),
        "-",
        "it is nowhere in the history that there is"
    );
    let told = subscriber.hear(&mut cluster, 1);
    assert!(told.last().expect("it is told").contains("begun-anew end"), "{told:?}");
    let listed = cluster.ask_as(0, SUBSCRIBER, "DICTUM.SUBSCRIPTIONS");
    assert!(
        listed.starts_with("*1\r\n*4\r\n:1\r\n$4\r\nlive\r\n") && listed.ends_with("*2\r\n$3\r\nKEY\r\n$1\r\na\r\n")
    );
}

#[test]
fn a_dropped_bucket_ends_its_subscriptions() {
    let mut cluster = alone();
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET CREATE b PARTITIONS 4"), "+OK\r\n");
    let mut subscriber = Subscriber::new(&mut cluster, 0, 3);
    cluster.ask_as(0, SUBSCRIBER, "SELECT b");
    let token = subscriber.subscribe(&mut cluster, "ALL");
    assert_eq!(token.split(',').count(), 4, "{token}");
    cluster.ask(0, "SELECT b");
    cluster.ask(0, "SET x 1");
    cluster.ask(0, "SET y 1");
    let told = subscriber.hear(&mut cluster, 3);
    assert!(told.iter().any(|told| told.contains("set x 1")) && told.iter().any(|told| told.contains("set y 1")));
    assert_eq!(cluster.ask(0, "DICTUM.BUCKET DROP b CONFIRM"), "+OK\r\n");
    let told = subscriber.hear(&mut cluster, 1);
    assert!(told.last().expect("it is told").contains("bucket-dropped end"), "{told:?}");
    assert_eq!(cluster.ask_as(0, SUBSCRIBER, "PING"), "+PONG\r\n");
}

#[test]
fn rights_are_those_to_read_all_keys_that_may_be_told() {
    let mut cluster = alone();
    let rules = "on nopass resetchannels -@all +dictum.subscribe +ping %R~cart:* %R~a?b %W~w:* ~key";
    assert_eq!(cluster.ask(0, &format!("ACL SETUSER ann {rules}")), "+OK\r\n");
    cluster.open(0, SUBSCRIBER);
    assert_eq!(cluster.ask_as(0, SUBSCRIBER, "AUTH ann x"), "+OK\r\n");
    let may = |cluster: &mut Cluster, words: &str| {
        let answer = cluster.ask_as(0, SUBSCRIBER, &format!("DICTUM.SUBSCRIBE {words}"));
        assert!(answer.starts_with('*') || answer.starts_with("-NOPERM"), "{words}: {answer}");
        cluster.give(0, Input::Closed { connection: SUBSCRIBER });
        cluster.open(0, SUBSCRIBER);
        cluster.ask_as(0, SUBSCRIBER, "AUTH ann x");
        answer.starts_with('*')
    };
    for words in ["PREFIX cart:", "PREFIX cart:1", "KEY cart:7 KEY key", "MATCH cart:*x", "MATCH a?b", "KEY axb"] {
        assert!(may(&mut cluster, words), "{words}");
    }
    for words in
        ["ALL", "PREFIX car", "PREFIX \"\"", "KEY w:1", "KEY cart:1 KEY other", "MATCH a??", "PREFIX a", "MATCH *"]
    {
        assert!(!may(&mut cluster, words), "{words}");
    }
    assert!(cluster.ask(0, "ACL LOG 1").contains("toplevel"), "refusals are in the log");
    // Who may read all keys may subscribe to all, by whatever rule.
    assert_eq!(cluster.ask(0, "ACL SETUSER ann %R~*"), "+OK\r\n");
    assert!(may(&mut cluster, "ALL"));
    // A connection whose rights change is closed: a subscription needs no further command.
    cluster.ask_as(0, SUBSCRIBER, "DICTUM.SUBSCRIBE PREFIX cart:");
    let closed = cluster.closed.len();
    assert_eq!(cluster.ask(0, "ACL SETUSER ann ~more"), "+OK\r\n");
    assert!(cluster.closed.len() > closed);
    assert_eq!(cluster.ask(0, "ACL SETUSER bob on nopass ~* &* +get"), "+OK\r\n");
    cluster.open(0, ConnectionId(3));
    cluster.ask_as(0, ConnectionId(3), "AUTH bob x");
    assert!(cluster.ask_as(0, ConnectionId(3), "DICTUM.SUBSCRIBE ALL").starts_with("-NOPERM User bob"));
}

#[test]
fn what_has_not_begun_can_be_given_up() {
    let mut cluster = alone();
    let mut subscriber = Subscriber::new(&mut cluster, 0, 3);
    let bytes = b"DICTUM.SUBSCRIBE ALL\r\nRESET\r\nDICTUM.SUBSCRIPTIONS\r\n";
    cluster.give(0, Input::Received { connection: SUBSCRIBER, bytes });
    let heard = subscriber.hear(&mut cluster, 3);
    assert_eq!(heard, ["ERR the subscription has not begun: RESET came first", "RESET", "[]"]);
    cluster.ask(0, "SET k 1");
    assert_eq!(cluster.ask_as(0, SUBSCRIBER, "PING"), "+PONG\r\n", "it is told nothing, and may say everything");
}

#[test]
fn a_connection_has_so_many_subscriptions_and_a_node_so_many_patterns() {
    let mut cluster = alone();
    let (mut subscriber, _) = subscriber(&mut cluster, 0, "KEY none");
    for number in 1..1024 {
        subscriber.subscribe(&mut cluster, &format!("KEY {number}"));
    }
    assert!(cluster.ask_as(0, SUBSCRIBER, "DICTUM.SUBSCRIBE KEY more").contains("1024 subscriptions"));
    let patterns = |from: usize| (from..from + 1024).map(|number| format!(" MATCH *{number}")).collect::<String>();
    for (place, connection) in (3..7).map(ConnectionId).enumerate() {
        cluster.open(0, connection);
        let answer = cluster.ask_as(0, connection, &format!("DICTUM.SUBSCRIBE{}", patterns(place * 1024)));
        assert!(answer.starts_with('*'), "{answer}");
    }
    cluster.open(0, ConnectionId(8));
    let answer = cluster.ask_as(0, ConnectionId(8), "DICTUM.SUBSCRIBE MATCH *x");
    assert!(answer.contains("as many subscriptions to changes as it takes"), "{answer}");
    // What goes makes room.
    cluster.give(0, Input::Closed { connection: ConnectionId(3) });
    assert!(cluster.ask_as(0, ConnectionId(8), "DICTUM.SUBSCRIBE MATCH *x").starts_with('*'));
}

#[test]
fn a_cluster_of_older_nodes_has_none() {
    let mut cluster = Cluster::with(1, |config| config.newest = 7);
    assert_eq!(cluster.ask(0, "SET k v"), "+OK\r\n");
    assert!(cluster.ask(0, "DICTUM.SUBSCRIBE ALL").contains("once all nodes of the cluster speak version 8"));
    assert!(field("a:1\r\n", "a").is_some());
    assert_eq!(cluster.ask_as(0, CLIENT, "GET k"), "$1\r\nv\r\n");
}
