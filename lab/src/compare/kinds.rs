//! Who can be compared, and how each side differs from the others.

use super::rows::{Row, Work};

/// Clients that share one connection where connections are shared, as etcd's own benchmark tool is told to have it.
const CLIENTS_OF_CONNECTION: u32 = 4;
/// Seconds of load around a kill in all.
const KILL_SECONDS: f64 = 12.0;
/// The same for NATS, whose followers wait 4 to 9 s for a leader before they elect one (nats-server, `server/raft.go`,
/// `minElectionTimeout` and `maxElectionTimeout`): a load that ended sooner would not see the end of the silence.
const KILL_SECONDS_NATS: f64 = 30.0;
/// How the sides of `--peers` are called.
const RIVALS: [SideKind; 5] =
    [SideKind::Redis, SideKind::RedisWait, SideKind::Etcd, SideKind::Cassandra, SideKind::Nats];

/// Who can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideKind {
    /// Three nodes of Dictum.
    Dictum,
    /// One Redis that syncs each write.
    Redis,
    /// A primary and two replicas, `WAIT 1` behind each write.
    RedisWait,
    /// Three nodes of etcd.
    Etcd,
    /// Three nodes of Cassandra, QUORUM reads and writes.
    Cassandra,
    /// Three nodes of NATS, a key-value bucket of JetStream with three replicas.
    Nats,
}

impl SideKind {
    /// The word that it is called by, as [`crate::record::Side::id`].
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            SideKind::Dictum => "dictum",
            SideKind::Redis => "redis",
            SideKind::RedisWait => "redis-wait",
            SideKind::Etcd => "etcd",
            SideKind::Cassandra => "cassandra",
            SideKind::Nats => "nats",
        }
    }

    /// Whether it does not speak RESP, and [`crate::peers`] drives it.
    #[must_use]
    pub fn is_driven_by_peers(self) -> bool {
        matches!(self, SideKind::Etcd | SideKind::Cassandra | SideKind::Nats)
    }

    /// Whether one node leads, which a load is then sent to. In Cassandra any node takes any operation.
    #[must_use]
    pub fn has_leader(self) -> bool {
        self != SideKind::Cassandra
    }

    /// Whether the row is something that this side has: Redis elects no leader, a read is not followed by WAIT, and clients that
    /// [`crate::peers`] drives have no pipeline.
    #[must_use]
    pub fn can(self, row: &Row) -> bool {
        match self {
            SideKind::Dictum => true,
            SideKind::Redis => row.work != Work::Kill,
            SideKind::RedisWait => row.work != Work::Kill && row.load().writes(),
            SideKind::Etcd | SideKind::Cassandra | SideKind::Nats => row.load().pipeline == 1,
        }
    }

    /// Connections to each node that so many clients share. Drivers of Cassandra have one for each node, over which all questions go.
    #[must_use]
    pub fn connections(self, clients: u32) -> u32 {
        if self == SideKind::Cassandra { 1 } else { clients.div_ceil(CLIENTS_OF_CONNECTION) }
    }

    /// Seconds of load around a kill.
    #[must_use]
    pub fn kill_seconds(self) -> f64 {
        if self == SideKind::Nats { KILL_SECONDS_NATS } else { KILL_SECONDS }
    }

    /// How it is driven, for reports.
    #[must_use]
    pub fn driven(self) -> &'static str {
        match self {
            SideKind::Dictum | SideKind::Redis | SideKind::RedisWait => {
                "at the leader by RESP, a connection for each client"
            }
            SideKind::Etcd => "at the leader by gRPC, four clients on each connection; a record is one value",
            SideKind::Cassandra => {
                "at all nodes by CQL, prepared statements, one connection to each; key text, value blob; a record is one value"
            }
            SideKind::Nats => {
                "at the bucket's leader by its protocol, four clients on each connection; reads without allow_direct; a record is one value"
            }
        }
    }

    /// Reads rivals' names, separated by commas.
    ///
    /// # Errors
    /// A sentence: which are known.
    pub fn parse(text: &str) -> Result<Vec<SideKind>, String> {
        let mut sides = Vec::new();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let Some(side) = RIVALS.into_iter().find(|side| side.id() == name) else {
                return Err(match name {
                    "dictum" => "Dictum is always compared: name its rivals in --peers".to_owned(),
                    other => {
                        format!("there is no rival `{other}`: write some of {}", RIVALS.map(SideKind::id).join(","))
                    }
                });
            };
            if sides.contains(&side) {
                return Err(format!("{name} is named twice in --peers"));
            }
            sides.push(side);
        }
        Ok(sides)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::ROWS;
    use super::*;

    #[test]
    fn rivals_are_read_and_others_are_told() {
        assert_eq!(SideKind::parse("redis, etcd").unwrap(), [SideKind::Redis, SideKind::Etcd]);
        assert_eq!(SideKind::parse("redis,redis-wait,etcd,cassandra,nats").unwrap(), RIVALS);
        assert!(SideKind::parse("redis,redis").unwrap_err().contains("twice"));
        assert!(SideKind::parse("dictum").unwrap_err().contains("always compared"));
        assert!(SideKind::parse("oracle").unwrap_err().contains("redis-wait,etcd,cassandra,nats"));
    }

    #[test]
    fn each_side_has_the_rows_that_are_its_own() {
        let names = |kind: SideKind| ROWS.iter().filter(|row| kind.can(row)).map(|row| row.name).collect::<Vec<_>>();
        assert_eq!(names(SideKind::Dictum).len(), ROWS.len());
        assert_eq!(names(SideKind::RedisWait), ["set1", "set256", "set50x16", "ycsb-a", "ycsb-b"]);
        for kind in RIVALS.into_iter().filter(|kind| kind.is_driven_by_peers()) {
            assert_eq!(names(kind), ["set1", "set256", "get256", "ycsb-a", "ycsb-b", "ycsb-c", "kill"], "{kind:?}");
        }
    }

    #[test]
    fn connections_are_shared_as_each_side_has_it() {
        assert_eq!([1, 4, 5].map(|clients| SideKind::Etcd.connections(clients)), [1, 1, 2]);
        assert_eq!(SideKind::Cassandra.connections(256), 1);
    }
}
