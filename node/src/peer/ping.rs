//! Pings: what a node says of itself, as bytes. What is said in which of them: `node/pings.rs`.

use base::versions::Feature;
use base::{Ballot, NodeId, PartitionId, Position, WallTime};
use wire::{Malformed, Reader, Writer};

use crate::clock::Told;
use crate::door::DiskRoom;
use crate::lives::Claim;
use crate::pace::Pace;
use crate::transfer::movement::Moves;

/// How much room a disk has, as others are told: see [`DiskRoom`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum ToldRoom {
    #[default]
    Enough,
    Low,
    Full,
}

impl ToldRoom {
    pub(crate) fn of(room: DiskRoom) -> ToldRoom {
        match room {
            DiskRoom::Enough { .. } => ToldRoom::Enough,
            DiskRoom::Low { .. } => ToldRoom::Low,
            DiskRoom::Full { .. } => ToldRoom::Full,
        }
    }

    /// What is missing was not told.
    pub(crate) fn room(self) -> DiskRoom {
        match self {
            ToldRoom::Enough => DiskRoom::default(),
            ToldRoom::Low => DiskRoom::Low { missing: 0 },
            ToldRoom::Full => DiskRoom::Full { missing: 0 },
        }
    }
}

/// What a node says of itself, several times a second, to every other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ping {
    /// Which nodes the sender hears, itself among them.
    pub hears: Vec<NodeId>,
    /// The sender's cluster: [`crate::registry::Registry::cluster`]; 0 if it does not know it.
    pub cluster: u64,
    /// How much room the sender's disk has; what is missing is not said.
    pub disk: ToldRoom,
    /// Clients of the sender wait for changes: it wants to hear at once what is decided.
    pub waits: bool,
    /// The number of the sender's start: see [`Life::boot`].
    pub boot: u64,
    /// These four do not change in the life of a process: they are empty where they are not said, in a ping that adds to earlier ones.
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
    /// What the sender's clocks show.
    pub clock: Told,
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

pub(super) fn encode_copies(w: &mut Writer<'_>, copies: &[(NodeId, Position)]) {
    w.count(copies.len());
    for (node, position) in copies {
        w.node(*node);
        w.position(*position);
    }
}

pub(super) fn decode_copies(r: &mut Reader<'_>) -> Result<Vec<(NodeId, Position)>, Malformed> {
    (0..r.count(2)?).map(|_| Ok((r.node()?, r.position()?))).collect()
}

fn encode_nodes(w: &mut Writer<'_>, nodes: &[NodeId]) {
    w.count(nodes.len());
    nodes.iter().for_each(|node| w.node(*node));
}

fn decode_nodes(r: &mut Reader<'_>) -> Result<Vec<NodeId>, Malformed> {
    (0..r.count(1)?).map(|_| r.node()).collect()
}

/// Whether a ping says what does not change in the life of a process.
fn says_addresses(version: u16, since: u64) -> bool {
    since == 0 || !Feature::ShortPings.is_in(version)
}

/// Nodes of earlier versions know of a disk that is full, and take nothing then.
fn encode_room(w: &mut Writer<'_>, room: ToldRoom, version: u16) {
    match room {
        ToldRoom::Enough => w.u8(0),
        ToldRoom::Full if Feature::LowDisks.is_in(version) => w.u8(2),
        ToldRoom::Low | ToldRoom::Full => w.u8(1),
    }
}

fn decode_room(r: &mut Reader<'_>, version: u16) -> Result<ToldRoom, Malformed> {
    match r.u8()? {
        0 => Ok(ToldRoom::Enough),
        1 if Feature::LowDisks.is_in(version) => Ok(ToldRoom::Low),
        1 => Ok(ToldRoom::Full),
        2 if Feature::LowDisks.is_in(version) => Ok(ToldRoom::Full),
        _ => Err(Malformed),
    }
}

pub(super) fn encode_ping(w: &mut Writer<'_>, ping: &Ping, version: u16) {
    encode_nodes(w, &ping.hears);
    w.u64(ping.cluster);
    encode_room(w, ping.disk, version);
    w.bool(ping.waits);
    w.u64(ping.boot);
    // What tells whether they are there stands before them, since they may be left out.
    let numbers = |w: &mut Writer<'_>| {
        w.u64(ping.life);
        w.varint(ping.number);
        w.varint(ping.since);
    };
    if Feature::ShortPings.is_in(version) {
        numbers(w);
    }
    if says_addresses(version, ping.since) {
        w.bytes(ping.resp_address.as_bytes());
        w.bytes(ping.http_address.as_bytes());
        w.bytes(ping.cluster_address.as_bytes());
        w.bytes(ping.version.as_bytes());
    }
    if !Feature::ShortPings.is_in(version) {
        numbers(w);
    }
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
    if Feature::ToldClocks.is_in(version) {
        w.varint(ping.clock.own.0);
        w.varint(ping.clock.cluster.0);
        w.bool(ping.clock.is_outside);
        w.varint(ping.clock.settings);
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

pub(super) fn decode_ping(r: &mut Reader<'_>, version: u16) -> Result<Ping, Malformed> {
    let mut ping = Ping {
        hears: decode_nodes(r)?,
        cluster: r.u64()?,
        disk: decode_room(r, version)?,
        waits: r.bool()?,
        boot: r.u64()?,
        ..Ping::default()
    };
    let numbers = |r: &mut Reader<'_>, ping: &mut Ping| {
        (ping.life, ping.number, ping.since) = (r.u64()?, r.varint()?, r.varint()?);
        Ok::<(), Malformed>(())
    };
    if Feature::ShortPings.is_in(version) {
        numbers(r, &mut ping)?;
    }
    if says_addresses(version, ping.since) {
        ping.resp_address = r.text()?.to_owned();
        ping.http_address = r.text()?.to_owned();
        ping.cluster_address = r.text()?.to_owned();
        ping.version = r.text()?.to_owned();
    }
    if !Feature::ShortPings.is_in(version) {
        numbers(r, &mut ping)?;
    }
    ping.heard = (r.u64()?, r.varint()?);
    ping.pace = Pace::decode(r)?;
    ping.moves = Moves { left_bytes: r.varint()?, bytes_per_second: r.varint()? };
    ping.claim = Claim::decode(r)?;
    ping.lives = (0..r.count(20)?).map(|_| Ok((r.node()?, Claim::decode(r)?))).collect::<Result<_, Malformed>>()?;
    if Feature::ToldClocks.is_in(version) {
        ping.clock = Told {
            own: WallTime(r.varint()?),
            cluster: WallTime(r.varint()?),
            is_outside: r.bool()?,
            settings: r.varint()?,
        };
    }
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
