//! Commands are given in the name of the user who asks.

use std::sync::Arc;
use std::time::Duration;

use super::super::client::Pool;
use super::super::login::Caller;
use super::*;

fn user(name: &str) -> Caller {
    Caller::User(Arc::from(name.as_bytes()))
}

#[test]
fn only_probes_are_asked_by_the_process() {
    let server = Server::start();
    for line in ["GET /livez", "GET /readyz", "GET /openapi.json"] {
        assert_eq!(server.ask(line).status, 200, "{line}");
    }
    assert_eq!(server.node.lock().users, [""]);
    for line in
        ["GET /v1/status", "GET /metrics", "GET /v1/keys/k", "GET /v1/buckets", "GET /getDictionary", "GET /v1/nodes"]
    {
        server.ask(line);
    }
    assert_eq!(server.node.lock().users, ["", "default"]);
}

#[test]
fn a_connection_serves_one_user_and_there_are_only_so_many() {
    const LINES_MAX: usize = 256 + 16 + 8;
    let (node, bridge) = FakeNode::start();
    let pool = Pool::new(bridge, Duration::from_secs(5));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        for name in ["ann", "bob", "ann", "bob", "ann"] {
            pool.call(&user(name), &[b"PING"]).await.expect("it answers");
        }
        assert_eq!(node.lock().users, ["ann", "bob"]);
        for number in 0..LINES_MAX {
            pool.call(&user(&number.to_string()), &[b"PING"]).await.expect("it answers");
        }
        // The one that was used last is still there, and the first ones are not.
        pool.call(&user("279"), &[b"PING"]).await.expect("it answers");
        pool.call(&user("bob"), &[b"PING"]).await.expect("it answers");
        let state = node.lock();
        assert_eq!(state.users.len(), LINES_MAX + 3);
        assert_eq!(state.opened - state.closed, LINES_MAX);
    });
}
