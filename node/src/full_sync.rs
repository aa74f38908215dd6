//! `SYNC` and `PSYNC`: a client asks for all keys as an RDB file, as a replica of a Redis and `redis-cli --rdb` do.
//!
//! The node only decides whether the client may have it. The file is made by the owner ([`crate::Outbox::full_syncs`]): it takes the connection over, sends the file on it and
//! closes it. So the node sees the connection closed, and later the end of the work ([`Input::FullSyncEnded`](crate::Input::FullSyncEnded)). An owner that cannot do that ends it with an
//! error, which the client is answered.
//!
//! No stream of writes follows the file. A replica of a Redis that loads it asks with `PSYNC` and the identifier that it was told from then on, and is told each time that there
//! is no such link: it keeps what it has, and loads nothing again.

use std::collections::BTreeSet;

use base::limits::FULL_SYNCS_MAX;
use data::{Failure, Reply};

use crate::door::ConnectionId;
use crate::node::Node;
use crate::session::{Block, Session};

const TOO_MANY: Failure =
    Failure::Text("ERR this node makes two RDB files for clients already; ask another node, or try again later");
const NO_STREAM: Failure = Failure::Text(
    "NOMASTERLINK Dictum sends all keys as an RDB file, and no stream of writes behind it: only PSYNC ? -1 and SYNC are answered",
);
const INSIDE: Failure = Failure::Text("ERR SYNC and PSYNC are for connections of RESP");
const LISTENS: Failure =
    Failure::Text("ERR SYNC and PSYNC need a connection that subscribes to nothing and does not monitor");
const FILTERED: Failure =
    Failure::Text("ERR REPLCONF rdb-filter-only is not supported: the file has keys and functions");

/// All keys are to be sent to a client. Given to the owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FullSync {
    /// The connection of the command. It takes no further command.
    pub connection: ConnectionId,
    /// Which of its commands; for [`crate::Input::FullSyncEnded`].
    pub slot: u64,
    /// The client has said `PSYNC`: before all else it is told by which identifier it could ask for what follows.
    pub is_psync: bool,
}

/// The files that are being made for clients of this node.
#[derive(Debug, Default)]
pub(crate) struct FullSyncs {
    /// By the connection that asked.
    under_way: BTreeSet<ConnectionId>,
    /// For the owner.
    pub new: Vec<FullSync>,
}

impl FullSyncs {
    /// Whether one may begin. `words` are those of the command.
    fn check(&self, words: &[&[u8]]) -> Result<(), Failure> {
        match words {
            [_, id, offset] if *id != b"?" || *offset != b"-1" => Err(NO_STREAM),
            [_] | [_, _, _] if self.under_way.len() >= FULL_SYNCS_MAX => Err(TOO_MANY),
            [_] | [_, _, _] => Ok(()),
            _ => Err(Failure::Syntax),
        }
    }

    fn begin(&mut self, sync: FullSync) {
        self.under_way.insert(sync.connection);
        self.new.push(sync);
    }
}

/// `SYNC`, `PSYNC id offset`: everything before them on the connection is answered.
pub(crate) fn begin(node: &mut Node, session: &mut Session, words: &[&[u8]]) {
    let refused = if session.is_inside {
        Some(INSIDE)
    } else if session.subscriptions.is_some() || node.monitors.contains(&session.id) {
        Some(LISTENS)
    } else {
        node.full_syncs.check(words).err()
    };
    if let Some(failure) = refused {
        return node.refuse(session, &failure);
    }
    let slot = session.open_slot(0);
    session.block = Some(Block::Slot(slot));
    node.full_syncs.begin(FullSync { connection: session.id, slot, is_psync: words.len() > 1 });
}

/// The owner has ended it; with an error it never began.
pub(crate) fn on_ended(node: &mut Node, connection: ConnectionId, slot: u64, error: Option<&'static str>) {
    node.full_syncs.under_way.remove(&connection);
    if let Some(text) = error {
        node.deliver(connection, slot, &Reply::Error(Failure::Text(text)));
    }
}

/// `REPLCONF option value …`: what a replica says of itself before it asks. Nothing of it matters here.
pub(crate) fn replconf(words: &[&[u8]]) -> Result<Reply, Failure> {
    let (pairs, rest) = words[1..].as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Failure::Syntax);
    }
    const KNOWN: [&str; 6] = ["listening-port", "ip-address", "capa", "version", "rdb-only", "rdb-filter-only"];
    for [option, value] in pairs {
        let is = |name: &str| option.eq_ignore_ascii_case(name.as_bytes());
        if !KNOWN.into_iter().any(is) {
            let text = format!("ERR Unrecognized REPLCONF option: {}", String::from_utf8_lossy(option));
            return Err(Failure::built(text.as_bytes()));
        }
        if is("rdb-filter-only") && !value.is_empty() {
            return Err(FILTERED);
        }
    }
    Ok(Reply::Ok)
}
