//! Messages between nodes, as bytes. One frame of `wire` carries one of them.

mod protocol;

use base::{Ballot, NodeId, PartitionId, Position, WallTime};
use bytes::Bytes;
use paxos::{Entry, Message};
use wire::{Malformed, Reader, Writer};

use crate::entry::{Kind, Life};
use crate::image::Ending;
use crate::lives::Claim;
use crate::pace::Pace;
use crate::transfer::movement::Moves;
pub(crate) use protocol::{decode_entries, decode_members, encode_entries, encode_members};
use protocol::{decode_paxos, encode_paxos};

/// A write on its way to the leader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Forwarded {
    pub kind: Kind,
    pub sequence: u64,
    pub body: Bytes,
}

/// What a node says of itself, several times a second, to every other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ping {
    /// Which nodes the sender hears, itself among them.
    pub hears: Vec<NodeId>,
    /// The sender's cluster: [`crate::registry::Registry::cluster`]; 0 if it does not know it.
    pub cluster: u64,
    pub disk_full: bool,
    /// Clients of the sender wait for changes: it wants to hear at once what is decided.
    pub waits: bool,
    /// The number of the sender's start: see [`Life::boot`].
    pub boot: u64,
    pub resp_address: String,
    pub http_address: String,
    pub cluster_address: String,
    pub version: String,
    /// Names the life of the sender's process whose pings `number` counts.
    pub life: u64,
    pub number: u64,
    /// `partitions` has what has changed after this ping; 0: all there is. See `node/pings.rs`.
    pub since: u64,
    /// The last ping of the receiver's that was taken: the life, and the number.
    pub heard: (u64, u64),
    pub pace: Pace,
    pub moves: Moves,
    /// What the sender's folder is, and what it knows of those of others: see [`crate::lives`].
    pub claim: Claim,
    pub lives: Vec<(NodeId, Claim)>,
    /// As received, ascending.
    pub partitions: Vec<PartitionNews>,
}

/// One partition, in a [`Ping`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct PartitionNews {
    pub partition: PartitionId,
    /// As `paxos::RoleName`, numbered.
    pub role: u8,
    pub promised: Ballot,
    pub leads: Option<Ballot>,
    pub decided: Position,
    pub persisted: Position,
    pub applied: Position,
    /// If the sender leads: up to where each node's disk has the log.
    pub copies: Vec<(NodeId, Position)>,
    /// If the sender leads: who votes; nobody while that is not decided, or is about to change.
    pub voters: Vec<NodeId>,
    /// If the sender leads: it does not take writes now.
    pub refuses: bool,
    /// It follows the leader of `promised` and lacks nothing up to `decided`: `paxos::Replica::rests`.
    pub rests: bool,
}

/// A message between nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PeerMessage {
    Ping(Ping),
    Paxos {
        partition: PartitionId,
        message: Message,
    },
    /// Writes for the leader, in the order of their sequence numbers.
    Forward {
        partition: PartitionId,
        life: Life,
        floor: u64,
        writes: Vec<Forwarded>,
    },
    /// "At which position may I serve the reads that I have?"
    ReadIndex {
        partition: PartitionId,
        ticket: u64,
    },
    /// The leader's answer, after a majority has confirmed it.
    ReadIndexReply {
        partition: PartitionId,
        ticket: u64,
        position: Position,
        clock: WallTime,
        ballot: Ballot,
    },
    /// "Tell me which nodes have the log on their disks, until all have it up to `position`."
    CopiesQuestion {
        partition: PartitionId,
        position: Position,
    },
    /// The leader's answer, and again whenever it changes: up to where each node's disk has the log.
    Copies {
        partition: PartitionId,
        ballot: Ballot,
        copies: Vec<(NodeId, Position)>,
    },
    /// "I hold a snapshot of this position for you." `transfer` grows with each of a sender's transfers.
    SnapshotOffer {
        partition: PartitionId,
        transfer: u64,
        position: Position,
        ballot: Ballot,
    },
    /// One block of a snapshot; the last one with what the receiver must have come to.
    SnapshotBlock {
        partition: PartitionId,
        transfer: u64,
        index: u64,
        ending: Option<Ending>,
        block: Bytes,
    },
    /// What the receiver of a snapshot wants: it has all blocks before `index`.
    SnapshotWant {
        partition: PartitionId,
        transfer: u64,
        index: u64,
        wish: Wish,
    },
    /// Keys of a bucket that evicts, by their places in the store's order: clients have read them at the sender.
    Touched {
        partition: PartitionId,
        orders: Vec<u64>,
    },
    /// What was published at the sender, and how many listen there: see [`crate::pubsub`]. `anew`: forget what you know of the listeners.
    Bulletin {
        number: u64,
        anew: bool,
        items: Bytes,
    },
    /// "I have heard your bulletins up to this one; and I know all of your listeners."
    BulletinsHeard {
        number: u64,
        whole: bool,
    },
    /// "You were removed from this cluster."
    Farewell {
        cluster: u64,
    },
    /// "I have gone on without this cluster, which is yours": see [`crate::alone`].
    LeftBehind {
        cluster: u64,
    },
}

/// What the receiver of a snapshot says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wish {
    /// Send the block.
    Next,
    /// Nothing now: it is still writing. The view is to be kept.
    Wait,
    /// Nothing more.
    Done,
}

const PING: u8 = 1;
const PAXOS: u8 = 2;
const FORWARD: u8 = 3;
const READ_INDEX: u8 = 4;
const READ_INDEX_REPLY: u8 = 5;
// 6 and 7 were blocks and wishes before transfers had numbers.
const SNAPSHOT_OFFER: u8 = 8;
const SNAPSHOT_BLOCK: u8 = 9;
const SNAPSHOT_WANT: u8 = 10;
const COPIES_QUESTION: u8 = 11;
const COPIES: u8 = 12;
const TOUCHED: u8 = 13;
const BULLETIN: u8 = 14;
const BULLETINS_HEARD: u8 = 15;
const FAREWELL: u8 = 16;
const LEFT_BEHIND: u8 = 17;

impl PeerMessage {
    /// Which partition it is about, if it is about one.
    pub(crate) fn partition(&self) -> Option<PartitionId> {
        match self {
            PeerMessage::Ping(_)
            | PeerMessage::Bulletin { .. }
            | PeerMessage::BulletinsHeard { .. }
            | PeerMessage::Farewell { .. }
            | PeerMessage::LeftBehind { .. } => None,
            PeerMessage::Paxos { partition, .. }
            | PeerMessage::Forward { partition, .. }
            | PeerMessage::ReadIndex { partition, .. }
            | PeerMessage::ReadIndexReply { partition, .. }
            | PeerMessage::CopiesQuestion { partition, .. }
            | PeerMessage::Copies { partition, .. }
            | PeerMessage::SnapshotOffer { partition, .. }
            | PeerMessage::SnapshotBlock { partition, .. }
            | PeerMessage::SnapshotWant { partition, .. }
            | PeerMessage::Touched { partition, .. } => Some(*partition),
        }
    }

    /// About so many bytes it takes, if these are many.
    pub(crate) fn bytes_expected(&self) -> usize {
        match self {
            PeerMessage::Paxos {
                message: Message::Accept { entries, .. } | Message::Fetched { entries, .. }, ..
            } => entries.iter().map(Entry::weight).sum(),
            PeerMessage::Bulletin { items, .. } => items.len(),
            _ => 0,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        match self {
            PeerMessage::Ping(ping) => {
                w.u8(PING);
                encode_ping(&mut w, ping);
            }
            PeerMessage::Paxos { partition, message } => {
                w.u8(PAXOS);
                w.partition(*partition);
                encode_paxos(&mut w, message);
            }
            PeerMessage::Forward { partition, life, floor, writes } => {
                w.u8(FORWARD);
                w.partition(*partition);
                w.u64(life.incarnation);
                w.u64(life.boot);
                w.u64(*floor);
                w.count(writes.len());
                for write in writes {
                    w.u8(write.kind.number());
                    w.u64(write.sequence);
                    w.bytes(&write.body);
                }
            }
            PeerMessage::ReadIndex { partition, ticket } => {
                w.u8(READ_INDEX);
                w.partition(*partition);
                w.u64(*ticket);
            }
            PeerMessage::ReadIndexReply { partition, ticket, position, clock, ballot } => {
                w.u8(READ_INDEX_REPLY);
                w.partition(*partition);
                w.u64(*ticket);
                w.position(*position);
                w.u64(clock.0);
                w.ballot(*ballot);
            }
            PeerMessage::CopiesQuestion { partition, position } => {
                w.u8(COPIES_QUESTION);
                w.partition(*partition);
                w.position(*position);
            }
            PeerMessage::Copies { partition, ballot, copies } => {
                w.u8(COPIES);
                w.partition(*partition);
                w.ballot(*ballot);
                encode_copies(&mut w, copies);
            }
            PeerMessage::SnapshotOffer { partition, transfer, position, ballot } => {
                w.u8(SNAPSHOT_OFFER);
                w.partition(*partition);
                w.u64(*transfer);
                w.position(*position);
                w.ballot(*ballot);
            }
            PeerMessage::SnapshotBlock { partition, transfer, index, ending, block } => {
                w.u8(SNAPSHOT_BLOCK);
                w.partition(*partition);
                w.u64(*transfer);
                w.u64(*index);
                w.option(*ending, |w, ending| {
                    w.u64(ending.records);
                    w.u64(ending.digest);
                });
                w.bytes(block);
            }
            PeerMessage::SnapshotWant { partition, transfer, index, wish } => {
                w.u8(SNAPSHOT_WANT);
                w.partition(*partition);
                w.u64(*transfer);
                w.u64(*index);
                w.u8(match wish {
                    Wish::Next => 1,
                    Wish::Wait => 2,
                    Wish::Done => 3,
                });
            }
            PeerMessage::Touched { partition, orders } => {
                w.u8(TOUCHED);
                w.partition(*partition);
                w.count(orders.len());
                orders.iter().for_each(|order| w.u64(*order));
            }
            PeerMessage::Bulletin { number, anew, items } => {
                w.u8(BULLETIN);
                w.varint(*number);
                w.bool(*anew);
                w.bytes(items);
            }
            PeerMessage::Farewell { cluster } => {
                w.u8(FAREWELL);
                w.u64(*cluster);
            }
            PeerMessage::LeftBehind { cluster } => {
                w.u8(LEFT_BEHIND);
                w.u64(*cluster);
            }
            PeerMessage::BulletinsHeard { number, whole } => {
                w.u8(BULLETINS_HEARD);
                w.varint(*number);
                w.bool(*whole);
            }
        }
    }

    pub(crate) fn decode(bytes: &Bytes) -> Result<PeerMessage, Malformed> {
        let mut r = Reader::new(bytes);
        let message = match r.u8()? {
            PING => PeerMessage::Ping(decode_ping(&mut r)?),
            PAXOS => PeerMessage::Paxos { partition: r.partition()?, message: decode_paxos(&mut r)? },
            FORWARD => {
                let partition = r.partition()?;
                let life = Life { incarnation: r.u64()?, boot: r.u64()? };
                let floor = r.u64()?;
                let count = r.count(10)?;
                let mut writes = Vec::with_capacity(count);
                for _ in 0..count {
                    let kind = Kind::from_number(r.u8()?)?;
                    writes.push(Forwarded { kind, sequence: r.u64()?, body: r.bytes()? });
                }
                PeerMessage::Forward { partition, life, floor, writes }
            }
            READ_INDEX => PeerMessage::ReadIndex { partition: r.partition()?, ticket: r.u64()? },
            READ_INDEX_REPLY => PeerMessage::ReadIndexReply {
                partition: r.partition()?,
                ticket: r.u64()?,
                position: r.position()?,
                clock: WallTime(r.u64()?),
                ballot: r.ballot()?,
            },
            COPIES_QUESTION => PeerMessage::CopiesQuestion { partition: r.partition()?, position: r.position()? },
            COPIES => {
                PeerMessage::Copies { partition: r.partition()?, ballot: r.ballot()?, copies: decode_copies(&mut r)? }
            }
            SNAPSHOT_OFFER => PeerMessage::SnapshotOffer {
                partition: r.partition()?,
                transfer: r.u64()?,
                position: r.position()?,
                ballot: r.ballot()?,
            },
            SNAPSHOT_BLOCK => PeerMessage::SnapshotBlock {
                partition: r.partition()?,
                transfer: r.u64()?,
                index: r.u64()?,
                ending: r.option(|r| Ok(Ending { records: r.u64()?, digest: r.u64()? }))?,
                block: r.bytes()?,
            },
            SNAPSHOT_WANT => PeerMessage::SnapshotWant {
                partition: r.partition()?,
                transfer: r.u64()?,
                index: r.u64()?,
                wish: match r.u8()? {
                    1 => Wish::Next,
                    2 => Wish::Wait,
                    3 => Wish::Done,
                    _ => return Err(Malformed),
                },
            },
            TOUCHED => {
                let partition = r.partition()?;
                let orders = (0..r.count(8)?).map(|_| r.u64()).collect::<Result<_, _>>()?;
                PeerMessage::Touched { partition, orders }
            }
            BULLETIN => PeerMessage::Bulletin { number: r.varint()?, anew: r.bool()?, items: r.bytes()? },
            FAREWELL => PeerMessage::Farewell { cluster: r.u64()? },
            LEFT_BEHIND => PeerMessage::LeftBehind { cluster: r.u64()? },
            BULLETINS_HEARD => PeerMessage::BulletinsHeard { number: r.varint()?, whole: r.bool()? },
            _ => return Err(Malformed),
        };
        r.finish()?;
        Ok(message)
    }
}

fn encode_copies(w: &mut Writer<'_>, copies: &[(NodeId, Position)]) {
    w.count(copies.len());
    for (node, position) in copies {
        w.node(*node);
        w.position(*position);
    }
}

fn decode_copies(r: &mut Reader<'_>) -> Result<Vec<(NodeId, Position)>, Malformed> {
    (0..r.count(2)?).map(|_| Ok((r.node()?, r.position()?))).collect()
}

fn encode_nodes(w: &mut Writer<'_>, nodes: &[NodeId]) {
    w.count(nodes.len());
    nodes.iter().for_each(|node| w.node(*node));
}

fn decode_nodes(r: &mut Reader<'_>) -> Result<Vec<NodeId>, Malformed> {
    (0..r.count(1)?).map(|_| r.node()).collect()
}

fn encode_ping(w: &mut Writer<'_>, ping: &Ping) {
    encode_nodes(w, &ping.hears);
    w.u64(ping.cluster);
    w.bool(ping.disk_full);
    w.bool(ping.waits);
    w.u64(ping.boot);
    w.bytes(ping.resp_address.as_bytes());
    w.bytes(ping.http_address.as_bytes());
    w.bytes(ping.cluster_address.as_bytes());
    w.bytes(ping.version.as_bytes());
    w.u64(ping.life);
    w.varint(ping.number);
    w.varint(ping.since);
    w.u64(ping.heard.0);
    w.varint(ping.heard.1);
    ping.pace.encode(w);
    w.varint(ping.moves.left_bytes);
    w.varint(ping.moves.bytes_per_second);
    ping.claim.encode(w);
    w.count(ping.lives.len());
    for (node, claim) in &ping.lives {
        w.node(*node);
        claim.encode(w);
    }
    w.count(ping.partitions.len());
    for news in &ping.partitions {
        w.partition(news.partition);
        w.u8(news.role);
        w.ballot(news.promised);
        w.option(news.leads, |w, ballot| w.ballot(ballot));
        w.position(news.decided);
        w.position(news.persisted);
        w.position(news.applied);
        encode_copies(w, &news.copies);
        encode_nodes(w, &news.voters);
        w.bool(news.refuses);
        w.bool(news.rests);
    }
}

fn decode_ping(r: &mut Reader<'_>) -> Result<Ping, Malformed> {
    let mut ping = Ping {
        hears: decode_nodes(r)?,
        cluster: r.u64()?,
        disk_full: r.bool()?,
        waits: r.bool()?,
        boot: r.u64()?,
        resp_address: r.text()?.to_owned(),
        http_address: r.text()?.to_owned(),
        cluster_address: r.text()?.to_owned(),
        version: r.text()?.to_owned(),
        life: r.u64()?,
        number: r.varint()?,
        since: r.varint()?,
        heard: (r.u64()?, r.varint()?),
        pace: Pace::decode(r)?,
        moves: Moves { left_bytes: r.varint()?, bytes_per_second: r.varint()? },
        claim: Claim::decode(r)?,
        lives: (0..r.count(20)?).map(|_| Ok((r.node()?, Claim::decode(r)?))).collect::<Result<_, Malformed>>()?,
        partitions: Vec::new(),
    };
    for _ in 0..r.count(10)? {
        let mut news = PartitionNews {
            partition: r.partition()?,
            role: r.u8()?,
            promised: r.ballot()?,
            leads: r.option(Reader::ballot)?,
            decided: r.position()?,
            persisted: r.position()?,
            applied: r.position()?,
            ..PartitionNews::default()
        };
        news.copies = decode_copies(r)?;
        news.voters = decode_nodes(r)?;
        news.refuses = r.bool()?;
        news.rests = r.bool()?;
        ping.partitions.push(news);
    }
    Ok(ping)
}
