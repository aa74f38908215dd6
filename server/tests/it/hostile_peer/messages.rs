//! The messages of a member, written from the description of the messages (`node/src/peer.rs`): pings, and one message at least of each kind.

use base::{Ballot, NodeId, PartitionId, Position, Rng};
use wire::{Arguments, Malformed, Reader, Writer};

pub const PING: u8 = 1;
pub const PAXOS: u8 = 2;
pub const FORWARD: u8 = 3;
pub const FAREWELL: u8 = 16;
pub const LEFT_BEHIND: u8 = 17;
const SIGNED_CLAIM: u8 = 32;
const FORWARD_FROM_ELSEWHERE: u8 = 18;
/// A key that hostile frames would write.
pub const HOSTILE_KEY: &str = "hostile";
/// The role of a follower.
const FOLLOWS: u8 = 2;
/// A reply that is nothing.
const NIL: &[u8] = &[2];

/// What a node says of its folder: incarnation, process, start, journal.
#[derive(Clone, Copy, Default, Debug)]
pub struct Claim {
    pub incarnation: u64,
    pub process: u64,
    pub boot: u64,
    pub journal: u64,
}

impl Claim {
    fn read(r: &mut Reader<'_>) -> Result<Claim, Malformed> {
        Ok(Claim { incarnation: r.u64()?, process: r.u64()?, boot: r.varint()?, journal: r.varint()? })
    }

    fn write(self, w: &mut Writer<'_>) {
        w.u64(self.incarnation);
        w.u64(self.process);
        w.varint(self.boot);
        w.varint(self.journal);
    }
}

/// One partition, as a node sees it.
#[derive(Clone, Copy, Default, Debug)]
pub struct News {
    pub partition: PartitionId,
    /// The ballot that the node has promised.
    pub promised: Ballot,
    pub decided: Position,
}

impl News {
    fn read(r: &mut Reader<'_>) -> Result<News, Malformed> {
        let (partition, _role, promised) = (r.partition()?, r.u8()?, r.ballot()?);
        let (_leads, decided) = (r.option(Reader::ballot)?, r.position()?);
        let (_persisted, _applied) = (r.position()?, r.position()?);
        for _ in 0..r.count(2)? {
            let (_node, _copy) = (r.node()?, r.position()?);
        }
        read_nodes(r)?;
        let (_refuses, _rests) = (r.bool()?, r.bool()?);
        Ok(News { partition, promised, decided })
    }

    fn led_by(self, node: NodeId, rng: &mut Rng) -> News {
        News { promised: Ballot { round: self.promised.round.saturating_add(rng.below(3)), node }, ..self }
    }
}

/// The fields of a ping that these tests use.
#[derive(Clone, Debug, Default)]
pub struct Ping {
    pub cluster: u64,
    pub boot: u64,
    pub life: u64,
    pub number: u64,
    /// The last ping of the receiver's that was taken.
    pub heard: (u64, u64),
    pub claim: Claim,
    /// What the sender knows of the folders of all.
    pub lives: Vec<(NodeId, Claim)>,
    /// The sender's clock, and the cluster's as it has it.
    pub clocks: [u64; 2],
    pub partitions: Vec<News>,
}

impl Ping {
    /// Reads one of the newest version; none if it is no ping.
    pub fn read(payload: &[u8]) -> Option<Ping> {
        let mut r = Reader::from_slice(payload.strip_prefix(&[PING])?);
        Ping::read_body(&mut r).ok()
    }

    fn read_body(r: &mut Reader<'_>) -> Result<Ping, Malformed> {
        let mut ping = Ping::default();
        read_nodes(r)?;
        ping.cluster = r.u64()?;
        let (_disk, _waits) = (r.u8()?, r.bool()?);
        ping.boot = r.u64()?;
        (ping.life, ping.number) = (r.u64()?, r.varint()?);
        let since = r.varint()?;
        if since == 0 {
            let (_resp, _http, _cluster, _version) = (r.text()?, r.text()?, r.text()?, r.text()?);
        }
        ping.heard = (r.u64()?, r.varint()?);
        let _pace = (r.varint()?, r.varint()?, r.varint()?, r.u8()?, r.varint()?);
        let _moves = (r.varint()?, r.varint()?);
        ping.claim = Claim::read(r)?;
        ping.lives = (0..r.count(20)?).map(|_| Ok((r.node()?, Claim::read(r)?))).collect::<Result<_, _>>()?;
        ping.clocks = [r.varint()?, r.varint()?];
        let (_is_outside, _settings) = (r.bool()?, r.varint()?);
        ping.partitions = (0..r.count(10)?).map(|_| News::read(r)).collect::<Result<_, _>>()?;
        Ok(ping)
    }

    /// As a node sends it that hears all three, follows in its partitions, and has no addresses for clients.
    pub fn payload(&self) -> Vec<u8> {
        let mut bytes = vec![PING];
        let mut w = Writer::new(&mut bytes);
        let nobody = News::default();
        put(&mut w, nobody, &[V(3), Node(0), Node(1), Node(2), Q(self.cluster), B(0), B(0), Q(self.boot)]);
        put(&mut w, nobody, &[Q(self.life), V(self.number), V(0), V(0), V(0), V(0), V(0)]);
        put(&mut w, nobody, &[Q(self.heard.0), V(self.heard.1), V(0), V(0), V(0), B(0), V(0), V(0), V(0)]);
        self.claim.write(&mut w);
        w.count(self.lives.len());
        for (node, claim) in &self.lives {
            w.node(*node);
            claim.write(&mut w);
        }
        put(&mut w, nobody, &[V(self.clocks[0]), V(self.clocks[1]), B(0), V(0)]);
        w.count(self.partitions.len());
        for news in &self.partitions {
            w.partition(news.partition);
            // It tells of nobody's copies, and of no voters; it takes no writes, and does not rest.
            put(&mut w, *news, &[B(FOLLOWS), Round, B(0), At, At, At, V(0), V(0), B(1), B(0)]);
        }
        bytes
    }
}

fn read_nodes(r: &mut Reader<'_>) -> Result<(), Malformed> {
    (0..r.count(1)?).try_for_each(|_| r.node().map(drop))
}

/// A farewell, or the word that the receiver was left behind.
pub fn outcast(kind: u8, cluster: u64) -> Vec<u8> {
    let mut bytes = vec![kind];
    Writer::new(&mut bytes).u64(cluster);
    bytes
}

/// A field of a message. What is about the log is said of the partition as the receiver knows it.
#[derive(Clone, Copy)]
enum Field<'a> {
    /// One byte: a kind, a truth.
    B(u8),
    /// Eight bytes.
    Q(u64),
    /// A varint: a count, a revision.
    V(u64),
    Node(u16),
    /// The ballot that the receiver has promised.
    Ballot,
    /// Up to where the receiver knows the log to be decided.
    At,
    /// Bytes, and their length before them.
    Bytes(&'a [u8]),
}
use Field::{At, B, Ballot as Round, Bytes, Node, Q, V};

fn put(w: &mut Writer<'_>, about: News, fields: &[Field<'_>]) {
    for field in fields {
        match *field {
            B(byte) => w.u8(byte),
            Q(number) => w.u64(number),
            V(number) => w.varint(number),
            Node(node) => w.node(NodeId(node)),
            Round => w.ballot(about.promised),
            At => w.position(about.decided),
            Bytes(bytes) => w.bytes(bytes),
        }
    }
}

fn message(kind: u8, about: News, fields: &[Field<'_>]) -> Vec<u8> {
    let mut bytes = vec![kind];
    let mut w = Writer::new(&mut bytes);
    w.partition(about.partition);
    put(&mut w, about, fields);
    bytes
}

/// A write that the member forwards: one command, of these words, behind all that it has written before.
pub fn forward(kind: u8, about: News, claim: Claim, sequence: u64, words: &[u8]) -> Vec<u8> {
    let sequence = (1 << 40) + sequence;
    let write = [Q(sequence), V(1), B(1), Q(sequence), Bytes(words)];
    message(kind, about, &[&[Q(claim.incarnation), Q(claim.boot)][..], &write].concat())
}

/// The answer to a node that asks by which number others know it: the replica of this number has lost its memory.
pub fn lost(partition: PartitionId, asked_as: u64, known: u64) -> Vec<u8> {
    message(PAXOS, News { partition, ..News::default() }, &[B(16), Q(asked_as), B(3), Q(known)])
}

/// The partition and the number, where a node asks that.
pub fn asks_as(payload: &[u8]) -> Option<(PartitionId, u64)> {
    let mut r = Reader::from_slice(payload.strip_prefix(&[PAXOS])?);
    let partition = r.partition().ok()?;
    let is_it = r.u8().ok()? == 15;
    is_it.then_some((partition, r.u64().ok()?))
}

/// An entry that says who votes: the first three nodes under this incarnation, and nobody comes in.
fn voters(incarnation: u64) -> Vec<u8> {
    let voter = |node: u8| [&[node, 0][..], &incarnation.to_le_bytes()].concat();
    [&[254, 1, 3][..], &voter(0), &voter(1), &voter(2), &[0]].concat()
}

/// A candidate's first message for a ballot.
pub fn prepare(about: News) -> Vec<u8> {
    message(PAXOS, about, &[B(3), Round])
}

/// A leader's message with an entry that says who votes.
pub fn accept_voters(about: News) -> Vec<u8> {
    message(PAXOS, about, &[B(6), Round, At, Round, At, V(1), Round, Bytes(&voters(1))])
}

/// The messages of replicas, by their kinds.
fn paxos(about: News, own: u64) -> Vec<Vec<u8>> {
    let members = voters(own);
    // Entries: the number of them, then a ballot and a payload each.
    let fields: [&[Field<'_>]; 23] = [
        &[B(1), Round],
        &[B(2), Round, B(1), Round, Round, At],
        &[B(3), Round],
        &[B(4), Round, Round, At, Q(own), V(0)],
        &[B(5), Round],
        &[B(6), Round, At, Round, At, V(1), Round, Bytes(b"")],
        &[B(6), Round, At, Round, At, V(1), Round, Bytes(&members)],
        &[B(7), Round, At],
        &[B(8), Round, At],
        &[B(9), Round, At, At, At],
        &[B(10), Round, Q(own)],
        &[B(11), Round, Q(own)],
        &[B(12), B(1), Round, At, Round, At, At],
        &[B(13), B(1), Round, At, Round, V(1), Round, Bytes(b"")],
        &[B(14), Round],
        &[B(15), Q(own), B(0)],
        &[B(16), Q(own), B(1), Q(own)],
        &[B(16), Q(own), B(2), V(1), Q(own)],
        &[B(16), Q(own), B(6), Round, V(0), B(0), At, Bytes(&members)],
        &[B(17), Round, At],
        &[B(18), Round, Q(own)],
        &[B(19), Round, Q(own)],
        &[B(20), Round, Q(own), At, Bytes(&members)],
    ];
    fields.into_iter().map(|fields| message(PAXOS, about, fields)).collect()
}

/// A message of each kind but a ping, of this partition and near what the receiver knows of it.
///
/// Half of them are of the leadership that the receiver knows, and half of one that the sender, who has the number `own`, says to have won.
pub fn all_kinds(about: News, own: NodeId, ping: &Ping, rng: &mut Rng) -> Vec<Vec<u8>> {
    let number = rng.below(1000);
    let about = if rng.chance(1, 2) { about } else { about.led_by(own, rng) };
    let (incarnation, boot) = (ping.claim.incarnation, ping.claim.boot);
    let write = Arguments::from_words(["SET", HOSTILE_KEY, "x"]);
    let read = Arguments::from_words(["GET", HOSTILE_KEY]);
    let reads = [V(1), B(1), B(0), B(1), B(0), Bytes(read.encoding())];
    let of = |kind: u8, fields: &[Field<'_>]| message(kind, about, fields);
    let mut all = paxos(about, incarnation);
    all.extend([
        forward(FORWARD, about, ping.claim, number, write.encoding()),
        of(4, &[Q(number)]),
        of(5, &[Q(number), At, Q(ping.clocks[0]), Round]),
        of(8, &[Q(number), At, Round]),
        of(9, &[Q(number), Q(0), B(1), Q(7), Q(9), Bytes(b"block")]),
        of(10, &[Q(number), Q(0), B(1)]),
        of(11, &[At]),
        of(12, &[Round, V(1), Node(2), At]),
        of(13, &[V(2), Q(1), Q(number)]),
        b"\x0e\x01\x01\x10\x01\x04news\x05hello\x03\x01n\x02".to_vec(),
        vec![15, 1, 1],
        forward(FORWARD_FROM_ELSEWHERE, about, ping.claim, number, write.encoding()),
        of(19, &[Q(incarnation), Q(boot), V(1), Q(number), At, V(number), B(1), Bytes(NIL), V(0)]),
        of(20, &[Q(incarnation), Q(boot), Q(incarnation), Q(boot + 1)]),
        of(21, &[&[Q(number)][..], &reads].concat()),
        of(22, &[Q(number), V(number), V(1), Bytes(NIL), V(0), B(0)]),
        of(23, &[Q(number)]),
        of(24, &[Q(number), At, At, V(0)]),
        of(25, &[Q(number), Round]),
        of(26, &[Q(number), At, Q(ping.clocks[0]), Round]),
        of(27, &[&[Q(number)][..], &reads].concat()),
        of(28, &[&[Node(1), Q(number), B(0)][..], &reads].concat()),
        vec![29],
        of(30, &[At, B(7), Q(number), B(1), B(0)]),
        of(31, &[At, Q(7), Q(number)]),
        signed_claim(NodeId(number as u16 % 3), Claim { journal: ping.claim.journal + number, ..ping.claim }),
    ]);
    all
}

/// A claim about a node's folder, under a signature that its node never made.
pub fn signed_claim(about: NodeId, claim: Claim) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut w = Writer::new(&mut bytes);
    w.u8(SIGNED_CLAIM);
    w.node(about);
    claim.write(&mut w);
    w.bytes(&[7; 1974]);
    w.bytes(&[7; 3309]);
    bytes
}
