//! What the report says, without a folder.

use std::collections::BTreeMap;

use base::{Ballot, BucketId, NodeId, PartitionId, Position};
use node::Member;
use node::alone::{Fate, Plan};

use super::report::Report;
use crate::standing::Standing;

fn report(change: impl FnOnce(&mut Plan)) -> Report {
    let members = ["n1", "n2", "n3"].map(|name| Member { name: name.to_owned(), peer_address: format!("{name}:9001") });
    let voters: Vec<NodeId> = [0, 1, 2].map(NodeId).to_vec();
    let fate = |bucket: &str, last: u64| Fate {
        partition: PartitionId { bucket: BucketId(3), index: 1 },
        is_council: bucket.is_empty(),
        bucket: bucket.to_owned(),
        voters: voters.clone(),
        votes: true,
        decided: Position(7),
        last: Position(last),
        ballot: Ballot { round: 4, node: NodeId(2) },
        ..Fate::default()
    };
    let undecided = BTreeMap::from([("command", 2), ("expiry", 1)]);
    let mut plan = Plan {
        nodes: (0..).map(NodeId).zip(members.clone()).collect(),
        partitions: vec![fate("", 7), Fate { undecided, ..fate("users", 10) }],
        ephemeral: vec!["sessions".to_owned()],
        ..Plan::default()
    };
    change(&mut plan);
    let standing = Standing { founders: members.to_vec(), joined: Vec::new(), me: NodeId(0) };
    Report::new(&standing, "/data", plan, Vec::new())
}

#[test]
fn it_says_what_is_kept_what_is_lost_and_how_to_compare() {
    let text = report(|_| ()).to_string();
    for line in [
        "This would make n1 the only voter of everything that /data holds:",
        "council: the last entry is 7 of ballot 4.2, all known to be decided; who votes: n1, n2, n3",
        "users (3/1): the last entry is 10 of ballot 4.2; decided up to 7, perhaps decided and taken for it: command 2, expiry 1 (8 to 10); \
         who votes: n1, n2, n3",
        "Nothing was changed. To do it: dictum unsafe-recover --accept-loss … /data",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
    for part in [
        "every write that this disk never had",
        "ephemeral buckets held (sessions)",
        "The others (n2, n3)",
        "To compare:",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn it_says_what_is_worse_than_that() {
    let report = report(|plan| {
        plan.partitions[0].damage.push("entry 5 is lost".to_owned());
        plan.partitions[1].votes = false;
        plan.partitions.push(Fate { bucket: "new".to_owned(), is_empty: true, votes: true, ..Fate::default() });
    });
    assert!(report.is_damaged());
    assert_eq!(report.first_damage(), "council: entry 5 is lost");
    let text = report.to_string();
    for part in [
        "\n  damaged: entry 5 is lost\n",
        "\n  this node has no vote in it: nothing",
        "new (0/0): this disk has nothing of it",
        "--accept-loss --accept-damage …",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn programs_can_compare_survivors() {
    let json = serde_json::to_value(report(|_| ())).unwrap();
    assert_eq!(json["partitions"][1]["end"], serde_json::json!([4, 2, 10]));
    assert_eq!(json["partitions"][1]["perhaps_decided"]["command"], 2);
    assert!(json["is_done"] == false && json["is_alone"] == false, "{json}");
}

#[test]
fn when_there_is_nothing_to_do_it_says_so() {
    let text = report(|plan| plan.is_alone = true).to_string();
    assert!(text.starts_with("n1 votes alone in everything") && text.lines().count() == 1, "{text}");
}
