//! Passwords under argon2id: tried away from the loop, once each, and known after that.

use base::versions::NEWEST;
use node::{ConnectionId, Input, Listener, PasswordOutcome};

use crate::common::{Cluster, pass_until};

const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
/// `secret` at the least cost.
const HASH: &str = "$argon2id$v=19$m=8,t=1,p=1$";

/// A cluster that keeps new passwords under argon2id.
fn started(count: usize) -> Cluster {
    let mut cluster = Cluster::new(count);
    pass_until(&mut cluster, "the version has risen", |cluster| {
        cluster.nodes.iter().all(|node| node.cluster_version() == NEWEST)
    });
    assert_eq!(cluster.ask(0, "CONFIG SET acl-password-hash argon2id"), "+OK\r\n");
    for node in 0..count as u16 {
        while !cluster.ask(node, "CONFIG GET acl-password-hash").contains("argon2id") {
            cluster.pass();
        }
    }
    cluster
}

fn open(cluster: &mut Cluster, node: u16, number: u64, address: &str) -> ConnectionId {
    let connection = ConnectionId(100 + number);
    let (address, local_address) = (address.to_owned(), "10.0.0.1:7001".to_owned());
    cluster.give(node, Input::Opened { connection, address, local_address, listener: Listener::Forwards });
    connection
}

fn passwords_of(cluster: &mut Cluster, user: &str) -> Vec<String> {
    let answer = cluster.ask(0, &format!("ACL GETUSER {user}"));
    let (_, rest) = answer.split_once("passwords\r\n").expect("it has some");
    let (passwords, _) = rest.split_once("commands\r\n").expect("and commands");
    passwords.lines().filter(|line| line.len() > 10).map(str::to_owned).collect()
}

#[test]
fn a_password_is_kept_under_argon2id_and_tried_once_at_each_node() {
    let mut cluster = started(3);
    assert_eq!(cluster.ask(1, "ACL SETUSER ann on >secret ~* +@all"), "+OK\r\n");
    assert_eq!(cluster.passwords_tried, 1, "it was hashed");
    let kept = passwords_of(&mut cluster, "ann");
    assert!(kept.len() == 1 && kept[0].starts_with(HASH), "{kept:?}");
    assert!(cluster.ask(2, "ACL LIST").contains(&format!(" {} ", kept[0])));
    for node in 0..3 {
        let [one, other] = [1, 2].map(|number| open(&mut cluster, node, number, "10.0.0.9:1"));
        cluster.passwords_tried = 0;
        assert_eq!(cluster.ask_as(node, one, "AUTH ann wrong"), WRONG);
        assert_eq!(cluster.ask_as(node, one, "AUTH ann secret"), "+OK\r\n");
        assert_eq!(cluster.ask_as(node, one, "ACL WHOAMI"), "$3\r\nann\r\n");
        assert_eq!(cluster.passwords_tried, 2);
        // From now on it is known, and what is another one is wrong.
        cluster.say_as(node, other, "AUTH ann secret");
        assert_eq!(cluster.heard(node, other), "+OK\r\n");
        assert_eq!(cluster.ask_as(node, other, "AUTH ann wrong"), WRONG);
        assert!(cluster.ask_as(node, other, "HELLO 3 AUTH ann secret").starts_with('%'));
        assert_eq!(cluster.passwords_tried, 2);
    }
    // Other rules leave the password alone.
    assert_eq!(cluster.ask(0, "ACL SETUSER ann -get"), "+OK\r\n");
    let third = open(&mut cluster, 0, 3, "10.0.0.8:1");
    cluster.passwords_tried = 0;
    assert_eq!(cluster.ask_as(0, third, "AUTH ann secret"), "+OK\r\n");
    assert_eq!(cluster.passwords_tried, 0);
    // The same password again is the same hash, and that of a user who has another one's password is another hash.
    for _ in 0..6 {
        assert_eq!(cluster.ask(0, "ACL SETUSER ann on >secret"), "+OK\r\n");
    }
    assert_eq!(cluster.ask(0, "ACL SETUSER ann resetpass >secret"), "+OK\r\n");
    assert_eq!((passwords_of(&mut cluster, "ann"), cluster.passwords_tried), (kept.clone(), 0));
    assert_eq!(cluster.ask(0, "ACL SETUSER bob on >secret"), "+OK\r\n");
    assert_ne!(passwords_of(&mut cluster, "bob"), kept);
}

#[test]
fn a_password_is_taken_away_by_itself_or_by_its_hash() {
    let mut cluster = started(1);
    assert_eq!(cluster.ask(0, "ACL SETUSER ann on >one >two ~* +@all"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "CONFIG SET acl-password-hash sha256"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "ACL SETUSER ann >three"), "+OK\r\n");
    assert_eq!(passwords_of(&mut cluster, "ann").len(), 3);
    let client = open(&mut cluster, 0, 1, "10.0.0.9:1");
    for password in ["one", "two", "three"] {
        assert_eq!(cluster.ask_as(0, client, &format!("AUTH ann {password}")), "+OK\r\n");
    }
    assert_eq!(cluster.ask(0, "ACL SETUSER ann <two"), "+OK\r\n");
    assert_eq!(cluster.ask_as(0, client, "AUTH ann two"), WRONG);
    let missing = "The password you are trying to remove from the user does not exist\r\n";
    let refused = cluster.ask(0, "ACL SETUSER ann <two");
    assert!(refused.starts_with("-ERR Error in ACL SETUSER modifier '!") && refused.ends_with(missing), "{refused}");
    let hash = passwords_of(&mut cluster, "ann").into_iter().find(|text| text.starts_with(HASH)).expect("that of one");
    assert_eq!(cluster.ask(0, &format!("ACL SETUSER ann !{hash}")), "+OK\r\n");
    assert_eq!(cluster.ask_as(0, client, "AUTH ann one"), WRONG);
    assert_eq!(cluster.ask_as(0, client, "AUTH ann three"), "+OK\r\n");
    // What was told of one user makes another one.
    assert_eq!(cluster.ask(0, &format!("ACL SETUSER bob on {hash}")), "+OK\r\n");
    assert_eq!(cluster.ask_as(0, client, "AUTH bob one"), "+OK\r\n");
}

#[test]
fn what_costs_too_much_is_refused() {
    let mut cluster = started(1);
    assert_eq!(cluster.ask(0, "ACL SETUSER ann on >1 >2 >3 >4"), "+OK\r\n");
    let refused = cluster.ask(0, "ACL SETUSER ann >5");
    assert!(refused.contains("4 passwords under argon2id at the most"), "{refused}");
    assert!(!refused.contains(">5"), "{refused}");
    assert_eq!(cluster.ask(0, "ACL SETUSER ann resetpass >5"), "+OK\r\n");
    let many: String = (0..9).map(|number| format!(" >{number}")).collect();
    assert!(cluster.ask(0, &format!("ACL SETUSER bob{many}")).contains("8 passwords in the clear at the most"));
    let long = "x".repeat(4097);
    assert!(cluster.ask(0, &format!("ACL SETUSER bob >{long}")).contains("4096 bytes at the most"));
    let hash = passwords_of(&mut cluster, "ann").remove(0);
    for wrong in [hash.replace("m=8", "m=99999999"), hash.replace("t=1", "t=4000000000"), hash[..60].to_owned()] {
        let refused = cluster.ask(0, &format!("ACL SETUSER bob {wrong}"));
        assert!(refused.contains("The password must be $argon2id$v=19$"), "{refused}");
    }
    assert_eq!(cluster.ask(0, "ACL GETUSER bob"), "$-1\r\n", "nothing was done");
    cluster.passwords_tried = 0;
    let client = open(&mut cluster, 0, 1, "10.0.0.9:1");
    assert_eq!(cluster.ask_as(0, client, &format!("AUTH ann {long}")), WRONG);
    assert_eq!(cluster.passwords_tried, 0);
}

#[test]
fn a_transaction_logs_in_only_with_what_was_tried() {
    let mut cluster = started(1);
    assert_eq!(cluster.ask(0, "ACL SETUSER ann on >secret ~* +@all"), "+OK\r\n");
    let client = open(&mut cluster, 0, 1, "10.0.0.9:1");
    for (password, answer) in [("wrong", format!("*1\r\n{WRONG}")), ("secret", "*1\r\n+OK\r\n".to_owned())] {
        assert_eq!(cluster.ask_as(0, client, "MULTI"), "+OK\r\n");
        assert_eq!(cluster.ask_as(0, client, &format!("AUTH ann {password}")), "+QUEUED\r\n");
        assert_eq!(cluster.ask_as(0, client, "EXEC"), answer);
    }
    assert_eq!(cluster.passwords_tried, 3, "one hashed, two tried");
}

#[test]
fn strangers_wait_in_line_and_each_host_has_its_share() {
    let mut cluster = started(1);
    assert_eq!(cluster.ask(0, "ACL SETUSER ann on >secret ~* +@all"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "ACL SETUSER bob on >secret ~* +@all"), "+OK\r\n");
    cluster.holds_passwords_up = true;
    let mut clients = Vec::new();
    for host in 1..=6 {
        for port in 0..10 {
            let client = open(&mut cluster, 0, 10 * host + port, &format!("10.0.0.{host}:{}", 1 + port));
            cluster.say_as(0, client, &format!("AUTH ann guess{host}.{port}"));
            clients.push(client);
        }
    }
    cluster.pass();
    assert_eq!(cluster.password_work.len(), 4, "so many at once: two of the first host, two of the second");
    // Those who show the same wait for the same.
    for port in 0..20 {
        let client = open(&mut cluster, 0, 200 + port, &format!("10.0.1.1:{}", 1 + port));
        cluster.say_as(0, client, "AUTH bob secret");
        clients.push(client);
    }
    // Three of a host are wrong within a second, the others wait until that is over.
    cluster.passwords_tried = 0;
    cluster.holds_passwords_up = false;
    for _ in 0..40 {
        cluster.pass();
        assert!(cluster.password_work.len() <= 4);
    }
    let heard: Vec<String> = clients.iter().map(|client| cluster.heard(0, *client)).collect();
    for (host, answers) in heard[..60].chunks(10).enumerate() {
        let wrong = answers.iter().filter(|answer| *answer == WRONG).count();
        assert!((3..=5).contains(&wrong), "{host} {answers:?}");
    }
    assert!(heard[60..].iter().all(|answer| answer == "+OK\r\n"), "{:?}", &heard[60..]);
    // Three, and what was under way when the third was wrong.
    assert!(cluster.passwords_tried <= 6 * 5 + 1, "{}", cluster.passwords_tried);
}

#[test]
fn who_goes_leaves_nothing_behind_and_who_cannot_be_tried_is_told_so() {
    let mut cluster = started(1);
    assert_eq!(cluster.ask(0, "ACL SETUSER ann on >secret ~* +@all"), "+OK\r\n");
    cluster.holds_passwords_up = true;
    let gone: Vec<ConnectionId> = (0..50).map(|number| open(&mut cluster, 0, number, "10.0.0.9:1")).collect();
    for (number, client) in gone.iter().enumerate() {
        cluster.say_as(0, *client, &format!("AUTH ann guess{number}"));
    }
    for client in gone {
        cluster.give(0, Input::Closed { connection: client });
    }
    let client = open(&mut cluster, 0, 99, "10.0.0.9:1");
    cluster.say_as(0, client, "AUTH ann secret");
    cluster.pass();
    assert_eq!(cluster.password_work.len(), 2, "what was begun goes on");
    for (me, number, work) in std::mem::take(&mut cluster.password_work) {
        cluster.give(me, Input::PasswordTried { number, work, outcome: PasswordOutcome::FitsNone });
    }
    cluster.pass();
    let (me, number, work) = cluster.password_work.pop().expect("it is the next");
    assert!(cluster.password_work.is_empty());
    cluster.give(me, Input::PasswordTried { number, work, outcome: PasswordOutcome::Failed });
    cluster.pass();
    assert!(cluster.heard(0, client).starts_with("-TRYAGAIN the password could not be tried"));
    cluster.holds_passwords_up = false;
    assert_eq!(cluster.ask_as(0, client, "AUTH ann secret"), "+OK\r\n");
}

#[test]
fn a_hash_takes_the_place_of_the_digest() {
    let mut cluster = started(1);
    assert_eq!(cluster.ask(0, "CONFIG SET acl-password-hash sha256"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "ACL SETUSER ann on >secret >other ~* +@all"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "CONFIG SET acl-password-hash argon2id"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "ACL SETUSER ann >secret"), "+OK\r\n");
    let kept = passwords_of(&mut cluster, "ann");
    assert!(kept.len() == 2 && !kept[0].starts_with('$') && kept[1].starts_with(HASH), "{kept:?}");
    let client = open(&mut cluster, 0, 1, "10.0.0.9:1");
    for password in ["secret", "other"] {
        assert_eq!(cluster.ask_as(0, client, &format!("AUTH ann {password}")), "+OK\r\n");
    }
}

#[test]
fn every_guess_is_counted_whatever_stands_around_it() {
    // (what a stranger sends, whether it is tried at all)
    let ways: [(&str, bool); 6] = [
        ("HELLO 99 AUTH ann GUESS", false),
        ("HELLO 3 FOO AUTH ann GUESS", false),
        ("HELLO 3 AUTH ann GUESS SETNAME", false),
        ("AUTH ann GUESS", true),
        ("HELLO 3 AUTH bob his AUTH ann GUESS", true),
        ("HELLO 3 SETNAME auth AUTH ann GUESS", true),
    ];
    for (way, is_tried) in ways {
        let mut cluster = started(1);
        assert_eq!(cluster.ask(0, "ACL SETUSER ann on >secret ~* +@all"), "+OK\r\n");
        assert_eq!(cluster.ask(0, "ACL SETUSER bob on >his ~* +@all"), "+OK\r\n");
        cluster.passwords_tried = 0;
        for number in 0..30 {
            let client = open(&mut cluster, 0, 1 + number, "10.0.0.9:1");
            cluster.say_as(0, client, &way.replace("GUESS", &format!("guess{number}")));
            cluster.pass();
            // A client that hangs up guesses as well.
            cluster.give(0, Input::Closed { connection: client });
        }
        let tried = cluster.passwords_tried;
        assert_eq!((tried > 0, tried <= 5), (is_tried, true), "{way}: {tried}");
    }
}

#[test]
fn a_transaction_is_no_way_to_guess() {
    let mut cluster = started(1);
    assert_eq!(cluster.ask(0, "ACL SETUSER ann on >secret ~* +@all"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "CONFIG SET acl-password-hash sha256"), "+OK\r\n");
    assert_eq!(cluster.ask(0, "ACL SETUSER bob on >secret ~* +@all"), "+OK\r\n");
    for user in ["ann", "bob"] {
        let client = open(&mut cluster, 0, 1, if user == "ann" { "10.0.0.9:1" } else { "10.0.0.8:1" });
        assert_eq!(cluster.ask_as(0, client, "MULTI"), "+OK\r\n");
        for number in 0..20 {
            cluster.say_as(0, client, &format!("AUTH {user} guess{number}"));
        }
        (0..40).for_each(|_| cluster.pass());
        let queued = cluster.heard(0, client).matches("QUEUED").count();
        assert!((1..=4).contains(&queued), "{user}: {queued}");
        cluster.give(0, Input::Closed { connection: client });
    }
}

#[test]
fn who_cannot_be_tried_breaks_a_transaction_and_nobody_waits_for_ever() {
    let mut cluster = started(1);
    assert_eq!(cluster.ask(0, "ACL SETUSER ann on >secret ~* +@all"), "+OK\r\n");
    cluster.holds_passwords_up = true;
    let clients: Vec<ConnectionId> = (0..4).map(|number| open(&mut cluster, 0, number, "10.0.0.9:1")).collect();
    for (number, client) in clients.iter().enumerate() {
        assert_eq!(cluster.ask_as(0, *client, "MULTI"), "+OK\r\n");
        cluster.say_as(0, *client, &format!("AUTH ann guess{number}"));
        cluster.say_as(0, *client, "SET k v");
        cluster.say_as(0, *client, "EXEC");
    }
    // Two are under way, and the owner will say what comes of them. The others are given up.
    let mut heard = [String::new(), String::new()];
    for _ in 0..4000 {
        cluster.pass();
        for (heard, client) in heard.iter_mut().zip(&clients[2..]) {
            heard.push_str(&cluster.heard(0, *client));
        }
    }
    for heard in heard {
        let lines: Vec<&str> = heard.lines().collect();
        assert_eq!(lines.len(), 3, "{heard}");
        assert!(
            lines[0].starts_with("-TRYAGAIN") && lines[1] == "+QUEUED" && lines[2].starts_with("-EXECABORT"),
            "{heard}"
        );
    }
}
