//! `DICTUM.STATUS`, as far as the laboratory reads it (docs/status.md).

use serde::Deserialize;

/// What one node knows of its cluster.
#[derive(Debug, Deserialize)]
pub(crate) struct Status {
    leader: Option<String>,
    #[serde(default)]
    partitions: Vec<Partition>,
    nodes: Vec<Member>,
}

#[derive(Debug, Deserialize)]
struct Partition {
    bucket: u64,
    leader: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Member {
    me: bool,
    up: bool,
    role: String,
    /// None where it has nothing of the first partition.
    decided: Option<u64>,
    applied: Option<u64>,
}

impl Status {
    /// Reads the reply.
    ///
    /// # Errors
    /// When it is not what docs/status.md says.
    pub(crate) fn parse(json: &str) -> Result<Status, String> {
        serde_json::from_str(json).map_err(|error| format!("DICTUM.STATUS cannot be understood: {error}"))
    }

    /// The name of who leads the default bucket; each bucket has a leader of its own.
    pub(crate) fn leader(&self) -> Option<String> {
        let default = self.partitions.iter().find(|partition| partition.bucket == 0);
        default.map_or(&self.leader, |partition| &partition.leader).clone()
    }

    /// Up to where the node that answers has applied the log; `None` while it recovers.
    pub(crate) fn applied(&self) -> Option<u64> {
        self.me().filter(|node| node.role != "recovering").and_then(|node| node.applied)
    }

    /// Up to where the node that answers knows the log to be decided.
    pub(crate) fn decided(&self) -> Option<u64> {
        self.me().and_then(|node| node.decided)
    }

    fn me(&self) -> Option<&Member> {
        self.nodes.iter().find(|node| node.me)
    }

    /// How many nodes can be reached, the one that answers among them.
    pub(crate) fn up(&self) -> usize {
        self.nodes.iter().filter(|node| node.me || node.up).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_buckets_leader_counts() {
        let text = r#"{"version":"0.1.0","node":"n1","cluster":["n1","n2"],"leader":"n2","ballot":"1.1","partitions":[
            {"bucket":0,"index":0,"name":"default","role":"follower","leader":"n2","ballot":"1.1"},
            {"bucket":4294967295,"index":0,"name":"council","role":"leader","leader":"n1","ballot":"1.0"}],"nodes":[
            {"name":"n1","me":true,"up":true,"peer":"127.0.0.1:1","role":"follower","decided":9,"applied":7},
            {"name":"n2","me":false,"up":false,"peer":"127.0.0.1:2","role":"leader","decided":3,"applied":3}]}"#;
        let status = Status::parse(text).expect("the documented shape");
        assert_eq!((status.leader().as_deref(), status.applied(), status.decided()), (Some("n2"), Some(7), Some(9)));
        assert_eq!(status.up(), 1);
        let status = Status::parse(&text.replace("\"follower\",\"decided\"", "\"recovering\",\"decided\""));
        assert_eq!(status.expect("the same shape").applied(), None);
        let status = Status::parse(r#"{"leader":null,"nodes":[]}"#).expect("the same shape");
        assert_eq!((status.leader(), status.applied(), status.up()), (None, None, 0));
        assert!(Status::parse("[]").is_err());
    }
}
