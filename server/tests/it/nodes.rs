//! Real nodes are drained and serve again while a client counts on each of them, and none of its commands fails.

#![allow(clippy::disallowed_methods, reason = "tests of real processes use real files")]

use std::sync::atomic::AtomicBool;

use rustix::process::Signal;
use serde_json::Value as Json;
use tempfile::tempdir;
use wire::Value;

use crate::common::counting::{Stops, count};
use crate::common::{Dev, dictum, eventually, http, output, signal, wait_for, wait_for_end};

/// What `dictum node …` prints as JSON.
fn node_command(resp: &str, words: &[&str]) -> Vec<Json> {
    let words = [&["node"], words, &["--at", resp, "--json"]].concat();
    let said = output(dictum(&words));
    serde_json::from_slice(&said.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&said.stderr)))
}

/// It is refused with this text, and nothing is done.
fn refuses(resp: &str, words: &[&str], why: &str) {
    let said = output(dictum(&[&["node"], words, &["--at", resp]].concat()));
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(
        !said.status.success() && text.contains(why) && text.to_lowercase().contains("nothing was changed"),
        "{text}"
    );
}

/// A cluster of three that is left with two bears no failure any more.
#[test]
fn a_removal_says_which_failures_are_borne_then() {
    let folder = tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &[]);
    let asked = &dev.nodes[0].resp;
    eventually(asked, &["SET", "k", "v"]);
    refuses(asked, &["remove", "n3"], "2 nodes vote then instead of 3: no failure is borne, instead of 1");
    assert_eq!(node_command(asked, &["list"]).len(), 3);
    assert_eq!(node_command(asked, &["remove", "n3", "--yes"]).len(), 2);
    assert_eq!(eventually(asked, &["GET", "k"]), Value::bulk("v"));
    // As many as before.
    let wanted = b"auto-replace";
    eventually(asked, &["DICTUM.NODE", "AUTO-REPLACE", "700"]);
    wait_for("the setting at the node that is asked", || {
        let Value::Array(settings) = eventually(asked, &["DICTUM.NODE", "SETTINGS"]) else { return None };
        let place = settings.iter().position(|word| word.as_bytes() == Some(wanted))?;
        (settings[place + 1] == Value::Integer(700)).then_some(())
    });
}

fn of<'a>(nodes: &'a [Json], name: &str) -> &'a Json {
    nodes.iter().find(|node| node["name"] == name).expect("every node is listed")
}

#[test]
fn a_drained_node_costs_no_error_and_its_votes_go_where_they_can() {
    let folder = tempdir().expect("a temporary folder");
    let dev = Dev::start(folder.path(), &["--nodes", "5"]);
    let asked = &dev.nodes[4].resp;
    eventually(asked, &["DICTUM.BUCKET", "CREATE", "b", "PARTITIONS", "4"]);
    let stop = AtomicBool::new(false);
    let counted: Vec<i64> = std::thread::scope(|scope| {
        let stop = &stop;
        let stops = Stops(stop);
        let counters: Vec<_> =
            dev.nodes.iter().map(|node| scope.spawn(move || count(&node.resp, None, &node.name, 0, stop))).collect();
        refuses(asked, &["voters", "3"], "one failure is borne, instead of 2");
        refuses(asked, &["voters", "2", "--yes"], "say --force if it is meant");
        refuses(asked, &["voters", "1", "--force"], "nothing is served unless that one is up");
        node_command(asked, &["voters", "3", "--yes"]);
        let settings = output(dictum(&["node", "settings", "--at", asked]));
        let said = String::from_utf8_lossy(&settings.stdout).into_owned();
        assert!(
            said.starts_with("voters        3 of 5 nodes (set): one failure is borne\nauto-replace  after 600 s\n"),
            "{said}"
        );
        let listed = node_command(asked, &["list"]);
        let of_all = |name: &str, value: u64| listed.len() == 5 && listed.iter().all(|node| node[name] == value);
        assert!(of_all("voters", 3) && of_all("founders", 5) && of_all("auto_replace", 600), "{listed:?}");
        let table = String::from_utf8(output(dictum(&["node", "list", "--at", asked])).stdout).expect("it is text");
        assert!(
            table.contains(
                "3 nodes vote in each partition: one failure is borne.\nA node that is gone is replaced after 600 s.\n"
            ),
            "{table}"
        );
        assert!(table.lines().all(|line| line.chars().count() <= 80), "it fits 80 columns: {table}");
        // Four of the bucket and the default one have three each, the council has five.
        let votes = |nodes: &[Json]| nodes.iter().filter_map(|node| node["votes"].as_u64()).sum::<u64>();
        wait_for("three votes in each of five", || (votes(&node_command(asked, &["list"])) == 20).then_some(()));
        let drained = node_command(asked, &["drain", "n1"]);
        let (state, leads) = (&of(&drained, "n1")["state"], &of(&drained, "n1")["leads"]);
        assert_eq!((state, leads), (&"drained".into(), &0.into()));
        wait_for("no vote at n1", || (of(&node_command(asked, &["list"]), "n1")["votes"] == 0).then_some(()));
        let answer = http::ask(&dev.nodes[1].http, "POST /v1/nodes/n1/promote", &[], b"").expect("an answer");
        assert_eq!(answer.status, 204);
        let change = |body: &[u8]| {
            let json = [("content-type", "application/json")];
            http::ask(&dev.nodes[2].http, "PATCH /v1/nodes", &json, body).expect("an answer").status
        };
        assert_eq!((change(b"{\"auto_replace\":300}"), change(b"{}")), (204, 400));
        assert_eq!(change(b"{\"auto_replace\":7,\"voters\":3}"), 400, "one at a time");
        assert_eq!(change(b"{\"auto_replace\":99999999}"), 422);
        wait_for("the setting is read back", || {
            let settings = http::ask(&dev.nodes[0].http, "GET /v1/nodes/settings", &[], b"").expect("an answer").json();
            (settings["auto_replace"] == 300 && settings["paused"] == false).then_some(())
        });
        assert_eq!(change(b"{\"auto_replace\":0}"), 204);
        wait_for("n1 leads again", || {
            let nodes = http::ask(&dev.nodes[0].http, "GET /v1/nodes", &[], b"").expect("an answer").json();
            (of(nodes.as_array()?, "n1")["leads"].as_u64()? > 0).then_some(())
        });
        drop(stops);
        counters.into_iter().map(|counter| counter.join().expect("nothing failed")).collect()
    });

    // Who has no vote may be gone: what was counted is there, at whoever is asked.
    let nodes = node_command(asked, &["drain", "n2"]);
    assert_eq!(of(&nodes, "n2")["leads"], 0);
    wait_for("no vote at n2", || (of(&node_command(asked, &["list"]), "n2")["votes"] == 0).then_some(()));
    signal(dev.nodes[1].pid, Signal::KILL);
    assert!(wait_for_end(dev.nodes[1].pid));
    for (node, number) in dev.nodes.iter().zip(counted) {
        assert_eq!(eventually(asked, &["GET", &node.name]), Value::bulk(&*number.to_string()));
    }
    let text = String::from_utf8_lossy(&output(dictum(&["node", "drain", "n9", "--at", asked])).stderr).into_owned();
    assert!(text.contains("there is no node 'n9'; there are n1, n2, n3, n4, n5"), "{text}");
}
