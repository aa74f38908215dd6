//! Connections that a part of the process opens in the name of a user have that user's rights, and end with the user.

use std::sync::Arc;

use node::{ConnectionId, Input, Listener};

use crate::common::Cluster;

const OPERATOR: ConnectionId = ConnectionId(500);

fn act_for(cluster: &mut Cluster, me: u16, number: u64, user: &str) -> ConnectionId {
    let connection = ConnectionId(number);
    let (address, local_address) = ("http".to_owned(), "127.0.0.1:8001".to_owned());
    cluster.give(me, Input::OpenedFor { connection, address, local_address, user: Arc::from(user.as_bytes()) });
    connection
}

fn operator(cluster: &mut Cluster, line: &str) {
    for _ in 0..1000 {
        // Until the version of the cluster has risen.
        if !cluster.ask_as(0, OPERATOR, line).starts_with("-ERR users cannot be changed yet") {
            return;
        }
        cluster.pass();
    }
    panic!("{line} is refused");
}

fn settled(cluster: &mut Cluster) {
    (0..20).for_each(|_| cluster.pass());
}

#[test]
fn they_have_the_rights_of_their_user_whatever_becomes_of_them() {
    let mut cluster = Cluster::new(3);
    cluster.open_at(0, OPERATOR, Listener::Inside);
    operator(&mut cluster, "ACL SETUSER ann on >secret ~cart:* +@read bucket=default");
    operator(&mut cluster, "DICTUM.BUCKET CREATE shop");
    settled(&mut cluster);
    let ann = act_for(&mut cluster, 1, 700, "ann");
    assert_eq!(
        cluster.ask_as(1, ann, "ACL WHOAMI"),
        "-NOPERM User ann has no permissions to run the 'acl|whoami' command\r\n"
    );
    assert_eq!(cluster.ask_as(1, ann, "DICTUM.GET cart:1"), "$-1\r\n");
    assert_eq!(cluster.ask_as(1, ann, "DICTUM.GET other"), "-NOPERM No permissions to access a key\r\n");
    assert!(cluster.ask_as(1, ann, "DICTUM.SET cart:1 v").starts_with("-NOPERM User ann has no permissions to run"));
    // What HTTP says beside its orders needs no right of its own, but the bucket.
    for line in [
        "SELECT default",
        "SELECT 0",
        "DICTUM.CONSISTENCY local",
        "DICTUM.CONSISTENCY default",
        "DICTUM.DURABILITY all",
    ] {
        assert_eq!(cluster.ask_as(1, ann, line), "+OK\r\n", "{line}");
    }
    for line in ["SELECT shop", "SELECT nosuch", "SELECT 7"] {
        assert!(cluster.ask_as(1, ann, line).starts_with("-NOPERM No permissions to access the bucket"), "{line}");
    }
    // Over the network these are judged as all others are.
    let outside = ConnectionId(701);
    cluster.open(1, outside);
    assert_eq!(cluster.ask_as(1, outside, "AUTH ann secret"), "+OK\r\n");
    assert!(cluster.ask_as(1, outside, "SELECT default").starts_with("-NOPERM User ann"));
    // A change holds for what is open, and no login makes it another user's.
    operator(&mut cluster, "ACL SETUSER ann resetkeys ~basket:* +acl|whoami");
    settled(&mut cluster);
    assert_eq!(cluster.ask_as(1, ann, "DICTUM.GET cart:1"), "-NOPERM No permissions to access a key\r\n");
    assert_eq!(cluster.ask_as(1, ann, "DICTUM.GET basket:1"), "$-1\r\n");
    assert_eq!(cluster.ask_as(1, ann, "RESET"), "+RESET\r\n");
    assert_eq!(cluster.ask_as(1, ann, "ACL WHOAMI"), "$3\r\nann\r\n");
    // With the user it ends; and without the user there is none.
    operator(&mut cluster, "ACL DELUSER ann");
    settled(&mut cluster);
    assert!(cluster.closed.contains(&(1, ann)));
    operator(&mut cluster, "ACL SETUSER bob off nopass +@all");
    settled(&mut cluster);
    for (number, user) in [(702, "ann"), (703, "bob"), (704, "")] {
        let connection = act_for(&mut cluster, 1, number, user);
        for line in ["GET k", "HELLO 3 SETNAME http", "DICTUM.TOKEN", "SELECT default"] {
            assert!(cluster.ask_as(1, connection, line).starts_with("-NOAUTH"), "{user}: {line}");
        }
    }
}

/// A client's certificate is a login, if it names a user.
#[test]
fn a_certificate_makes_a_connection_its_user_at_once() {
    let mut cluster = Cluster::with(1, |config| config.password = Some("secret".to_owned()));
    cluster.open_at(0, OPERATOR, Listener::Inside);
    operator(&mut cluster, "ACL SETUSER ann on >long ~* +get +acl|whoami +client|info");
    operator(&mut cluster, "ACL SETUSER bob off nopass ~* +@all");
    settled(&mut cluster);
    let mut secured = |number: u64, listener: Listener, name: Option<&str>| {
        let connection = ConnectionId(number);
        cluster.open_at(0, connection, listener);
        let (terms, name) = ("1.3/X25519MLKEM768".to_owned(), name.map(str::to_owned));
        cluster.give(0, Input::Secured { connection, terms, name });
        connection
    };
    let others = [None, Some("bob"), Some("nobody"), Some("")];
    let others: Vec<ConnectionId> =
        others.into_iter().zip(710..).map(|(name, number)| secured(number, Listener::Forwards, name)).collect();
    let ann = secured(700, Listener::Forwards, Some("ann"));
    let router = secured(701, Listener::Redirects, Some("ann"));
    let inside = secured(702, Listener::Inside, Some("ann"));
    for connection in others {
        assert!(cluster.ask_as(0, connection, "GET k").starts_with("-NOAUTH"));
        assert_eq!(cluster.ask_as(0, connection, "AUTH secret"), "+OK\r\n");
        assert!(
            cluster
                .ask_as(0, connection, "CLIENT INFO")
                .contains(" user=default redir=-1 resp=2 lib-name= lib-ver= tls=1.3/X25519MLKEM768\n")
        );
    }
    for connection in [ann, router] {
        assert_eq!(cluster.ask_as(0, connection, "ACL WHOAMI"), "$3\r\nann\r\n");
        assert_eq!(cluster.ask_as(0, connection, "GET k"), "$-1\r\n");
        assert!(cluster.ask_as(0, connection, "SET k v").starts_with("-NOPERM User ann"));
    }
    assert_eq!(cluster.ask_as(0, inside, "SET k v"), "+OK\r\n", "it is nobody's");
    // As after AUTH: another login makes it another user, and RESET nobody.
    assert_eq!(cluster.ask_as(0, router, "AUTH secret"), "+OK\r\n");
    assert_eq!(cluster.ask_as(0, router, "GET k"), "$1\r\nv\r\n");
    assert_eq!(cluster.ask_as(0, router, "RESET"), "+RESET\r\n");
    assert!(cluster.ask_as(0, router, "GET k").starts_with("-NOAUTH"));
    operator(&mut cluster, "ACL DELUSER ann");
    settled(&mut cluster);
    assert!(cluster.closed.contains(&(0, ann)));
}

/// The process's own connections are nobody's, whatever becomes of users; those for `default` are that user's.
#[test]
fn the_user_default_has_a_name_too() {
    let mut cluster = Cluster::new(1);
    cluster.open_at(0, OPERATOR, Listener::Inside);
    let default = act_for(&mut cluster, 0, 700, "default");
    assert_eq!(cluster.ask_as(0, default, "SET k v"), "+OK\r\n");
    operator(&mut cluster, "ACL SETUSER default -@all +ping");
    settled(&mut cluster);
    assert!(cluster.ask_as(0, default, "GET k").starts_with("-NOPERM User default"));
    assert_eq!(cluster.ask_as(0, default, "PING"), "+PONG\r\n");
    assert_eq!(cluster.ask_as(0, OPERATOR, "GET k"), "$1\r\nv\r\n");
}
