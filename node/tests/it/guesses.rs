//! Guesses of the password are counted, and slow after three a second from one host.

use std::time::Duration;

use crate::common::{Cluster, field};
use node::{ConnectionId, Input, Listener};

const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";

fn guarded() -> Cluster {
    Cluster::with(1, |config| config.password = Some("secret".to_owned()))
}

fn open(cluster: &mut Cluster, number: u64, address: &str) -> ConnectionId {
    let connection = ConnectionId(100 + number);
    let (address, local_address) = (address.to_owned(), "10.0.0.1:7001".to_owned());
    cluster.give(0, Input::Opened { connection, address, local_address, listener: Listener::Forwards });
    connection
}

fn pass(cluster: &mut Cluster, length: Duration) {
    let end = cluster.now.time + length;
    while cluster.now.time < end {
        cluster.pass();
    }
}

#[test]
fn after_three_failures_a_second_answers_wait_right_ones_too() {
    let mut cluster = guarded();
    let guesser = open(&mut cluster, 0, "10.0.0.9:1000");
    cluster.give(0, Input::Received { connection: guesser, bytes: &b"AUTH wrong\r\n".repeat(10) });
    assert_eq!(cluster.heard(0, guesser), WRONG.repeat(3));
    let right = open(&mut cluster, 1, "10.0.0.9:1001");
    cluster.say_as(0, right, "HELLO 3 AUTH default secret");
    let other = open(&mut cluster, 2, "10.0.0.8:1000");
    assert_eq!(cluster.ask_as(0, other, "AUTH secret"), "+OK\r\n", "another host does not wait");
    pass(&mut cluster, Duration::from_millis(900));
    assert_eq!((cluster.heard(0, guesser), cluster.heard(0, right)), (String::new(), String::new()));
    pass(&mut cluster, Duration::from_millis(200));
    assert_eq!(cluster.heard(0, guesser), WRONG.repeat(3));
    // Its turn came behind that one, when three had been wrong again.
    pass(&mut cluster, Duration::from_millis(3000));
    assert!(cluster.heard(0, right).starts_with("%"), "it is let in");
    assert_eq!(cluster.heard(0, guesser), WRONG.repeat(4));
    // A connection that has shown the password waits for nothing.
    cluster.give(0, Input::Received { connection: guesser, bytes: &b"AUTH wrong\r\n".repeat(4) });
    assert_eq!(cluster.ask_as(0, right, "AUTH secret"), "+OK\r\n");
    assert_eq!(cluster.ask_as(0, guesser, "QUIT"), WRONG.repeat(3));
    let info = cluster.ask_as(0, other, "INFO stats");
    assert_eq!(field(&info, "acl_access_denied_auth"), Some("13"));
}

#[test]
fn many_connections_guess_no_faster_than_one() {
    let mut cluster = guarded();
    let guessers: Vec<ConnectionId> =
        (0..50).map(|it| open(&mut cluster, it, &format!("10.0.0.9:{}", 1000 + it))).collect();
    for round in 0..20 {
        for guesser in &guessers {
            cluster.say_as(0, *guesser, &format!("AUTH guess{round}"));
        }
    }
    pass(&mut cluster, Duration::from_secs(5));
    let answers: usize = guessers.iter().map(|guesser| cluster.heard(0, *guesser).matches("WRONGPASS").count()).sum();
    assert!((12..=18).contains(&answers), "{answers} in five seconds");
    // A connection that goes away while it waits leaves nothing behind.
    for guesser in guessers {
        cluster.give(0, Input::Closed { connection: guesser });
    }
    pass(&mut cluster, Duration::from_secs(2));
    let client = open(&mut cluster, 99, "10.0.0.9:9");
    assert_eq!(cluster.ask_as(0, client, "AUTH secret"), "+OK\r\n");
}
