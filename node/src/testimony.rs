//! What nodes say of other nodes' folders, and what counts of that.
//!
//! By claims ([`crate::lives`]) a node ends, gives its memory up, or is heard by nobody. So nobody takes another member's word for such a claim: one that is mistaken, or is
//! not what it seems, would end every other node.
//!
//! 1. Each node signs its own claims with its own key, and sends them to all others: at its start, and then twice a second while its journal goes on.
//! 2. Each keeps the newest signed claim of every other node. It sends that to every node that knows less, by the claims in that node's ping: also to the node itself.
//! 3. A claim that another node tells counts if the node that it is about has signed it.
//! 4. What a ping says of the receiver, unsigned, counts if most of the other voters of the council say the same. The incarnations that replicas have noted on their disks
//!    come this way: the process that had such an incarnation may be gone, with what it signed.
//!
//! A process that recovers has no claim yet. It signs under which incarnation it does: with that, one other node that has noted it can prove it to a process that comes later.
//!
//! What a node says of itself, in its own pings, counts in any case. A node that has no key cannot verify anything: it believes every word, as all did before there were
//! keys; and so it is while the cluster is of an earlier version. (docs/decisions/2026-11-25-restored-folders.md)

use std::collections::BTreeMap;
use std::time::Duration;

use base::versions::Feature;
use base::{NodeId, Time};
use bytes::Bytes;
use paxos::RoleName;
use wire::{Malformed, Reader, Writer};

use crate::council::COUNCIL;
use crate::door::Planted;
use crate::intake;
use crate::lives::Claim;
use crate::node::{Node, place_of};
use crate::peer::{PeerMessage, Ping};

/// A claim is signed again so long after the last one, while the journal goes on. A signature takes about a third of a millisecond.
const SIGNED_EVERY: Duration = Duration::from_millis(500);
/// The same while somebody has heard of another process with this folder.
const SIGNED_IN_DOUBT_EVERY: Duration = Duration::from_millis(50);
/// A node is sent what it lacks this often at the most.
const ANSWERED_EVERY: Duration = Duration::from_millis(200);
/// Most signed claims that one ping has sent in answer.
const SENT_AT_ONCE: usize = 8;
/// Longest public key, and longest signature, in bytes. ML-DSA-65 has 1,974 (with its frame of DER) and 3,309.
const SIGNED_PART_MAX: usize = 8 << 10;
/// What a signature is for: none made for another purpose passes for one of a claim.
const PURPOSE: &[u8] = b"Dictum claim about a folder, version 1\n";

/// A claim, as its node has signed it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SignedClaim {
    pub node: NodeId,
    pub claim: Claim,
    /// The public key of that node.
    pub public: Bytes,
    pub signature: Bytes,
}

impl SignedClaim {
    pub(crate) fn encode(&self, w: &mut Writer<'_>) {
        w.node(self.node);
        self.claim.encode(w);
        w.bytes(&self.public);
        w.bytes(&self.signature);
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<SignedClaim, Malformed> {
        let (node, claim) = (r.node()?, Claim::decode(r)?);
        let mut part = || match r.slice()? {
            // Copied, as it is kept: otherwise all that came with it would be.
            part if part.len() <= SIGNED_PART_MAX => Ok(Bytes::copy_from_slice(part)),
            _ => Err(Malformed),
        };
        Ok(SignedClaim { node, claim, public: part()?, signature: part()? })
    }
}

/// What is signed.
fn statement(node: NodeId, claim: &Claim) -> Vec<u8> {
    let mut bytes = PURPOSE.to_vec();
    let mut w = Writer::new(&mut bytes);
    w.node(node);
    claim.encode(&mut w);
    bytes
}

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Testimony {
    /// This node's own newest one, and when it was signed.
    own: Option<(SignedClaim, Time)>,
    /// Somebody has heard of another process with this node's folder, or of a later memory.
    is_doubted: bool,
    /// The newest one of each other node.
    of_others: BTreeMap<NodeId, SignedClaim>,
    /// The same of processes that recover, which have no memory yet: under which incarnation they do.
    of_recovering: BTreeMap<NodeId, SignedClaim>,
    /// What each other node has said last of all folders, unsigned.
    said: BTreeMap<NodeId, BTreeMap<NodeId, Claim>>,
    /// When each was sent what it lacks.
    answered: BTreeMap<NodeId, Time>,
}

impl Testimony {
    /// A link is new: what was sent before may be lost.
    pub(crate) fn on_peer_up(&mut self, peer: NodeId) {
        self.answered.remove(&peer);
    }

    /// True if some other node says that this one had a later memory than this. It may be mistaken.
    pub(crate) fn may_have_later_life(&self, node: NodeId, incarnation: u64) -> bool {
        let said = self.said.values().filter_map(|said| said.get(&node));
        said.map(|claim| claim.incarnation).any(|later| later > incarnation)
    }

    /// A node was removed.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.of_others.remove(&node);
        self.of_recovering.remove(&node);
        self.said.remove(&node);
        self.answered.remove(&node);
    }
}

/// Whether words about a node count only with that node's signature: where this node has a key, and the cluster knows those of others. As long as it is of an earlier version,
/// it knows none.
fn needs_signature(node: &Node, from: NodeId, about: NodeId) -> bool {
    let signs = |version: u16| Feature::SignedClaims.is_in(version);
    let both_sign = signs(node.version_with(from)) && node.newest_of(about).is_none_or(signs);
    // A node that has just been started does not know the cluster's version yet.
    let knows_none = node.cluster_name() != 0 && !signs(node.cluster_version());
    node.config.signer.is_some() && both_sign && !knows_none && node.config.planted != Some(Planted::UnsignedClaims)
}

/// A ping says what its sender knows of nodes' folders.
pub(crate) fn on_lives(node: &mut Node, from: NodeId, ping: &Ping) {
    let me = node.config.me;
    let is_known = |about: &NodeId| *about == me || node.roll.get(*about).is_some();
    let said: BTreeMap<NodeId, Claim> = ping.lives.iter().filter(|(about, _)| is_known(about)).copied().collect();
    for (about, claim) in &said {
        if !needs_signature(node, from, *about) {
            node.lives.hear_of(*about, *claim);
        }
    }
    if !said.is_empty() {
        let of_me = said.get(&me).copied();
        node.testimony.said.insert(from, said);
        if let Some(claim) = of_me.filter(|_| needs_signature(node, from, me)) {
            node.testimony.is_doubted |= contradicts(&claim, &node.claim());
            hear_the_others(node, claim);
        }
    }
    // A ping with claims has all that its sender knows; and so has the first one of a link, also if that is nothing.
    if ping.since == 0 || !ping.lives.is_empty() {
        send_what_it_lacks(node, from, ping);
    }
}

/// Whether a claim is of another process than the one that has `own`, and one that would have to be believed if it were true.
fn contradicts(said: &Claim, own: &Claim) -> bool {
    said.outdates(own) || own.incarnation != 0 && said.incarnation > own.incarnation
}

/// Takes for true what most others say of this node's folder, if `said`, by one of them, is such a thing.
fn hear_the_others(node: &mut Node, said: Claim) {
    let own = node.claim();
    if !contradicts(&said, &own) {
        return;
    }
    let me = node.config.me;
    let Some(g) = place_of(&node.groups, COUNCIL) else { return };
    let others: Vec<NodeId> = node.voters_of(g).into_iter().filter(|id| *id != me).collect();
    let told = |id: &NodeId| node.testimony.said.get(id)?.get(&me);
    let say_so = others.iter().filter(|id| told(id).is_some_and(|claim| contradicts(claim, &own))).count();
    // One is never most: of two nodes, each could end the other.
    if say_so >= 2 && say_so * 2 > others.len() {
        node.probe("node: most say what its folder lacks");
        node.lives.hear_of(me, said);
    }
}

/// Sends a node the signed claims that are news to it.
fn send_what_it_lacks(node: &mut Node, to: NodeId, ping: &Ping) {
    let time = node.now.time;
    let was_answered = node.testimony.answered.get(&to).is_some_and(|at| time.since(*at) < ANSWERED_EVERY);
    if was_answered || !Feature::SignedClaims.is_in(node.version_with(to)) {
        return;
    }
    node.testimony.answered.insert(to, time);
    let knows = |signed: &&SignedClaim| {
        let of_it = if signed.node == to { Some(&ping.claim) } else { None };
        let told = ping.lives.iter().filter(|(about, _)| *about == signed.node).map(|(_, claim)| claim);
        told.chain(of_it).any(|known| !signed.claim.is_news_after(known))
    };
    let first = node.testimony.own.iter().map(|(signed, _)| signed).filter(|_| ping.since == 0);
    let lacking = node.testimony.of_others.values().filter(|signed| !knows(signed));
    // The proof of what this node's replica has noted. What it has not noted, the next process of that folder need not be above.
    let noted = node.testimony.of_recovering.get(&to).filter(|signed| {
        let council = place_of(&node.groups, COUNCIL).map(|g| &node.groups[g].partition.replica);
        let is_noted = council.is_some_and(|it| it.incarnation_known_of(to) == signed.claim.incarnation);
        is_noted && ping.claim.incarnation != 0 && signed.claim.incarnation > ping.claim.incarnation
    });
    let sent: Vec<SignedClaim> = first.chain(noted).chain(lacking).take(SENT_AT_ONCE).cloned().collect();
    for signed in sent {
        node.probe("node: a signed claim passed on");
        node.send(to, &PeerMessage::SignedClaim(Box::new(signed)));
    }
}

/// Somebody sends a claim that is signed, as it says.
pub(crate) fn on_signed(node: &mut Node, from: NodeId, signed: SignedClaim) {
    let (me, about) = (node.config.me, signed.node);
    let Some(signer) = node.config.signer.clone() else { return };
    if signed.claim.incarnation == 0 || about != me && node.roll.get(about).is_none() {
        return;
    }
    // A signature is looked at only where something follows.
    if signed.claim.process == 0 && about != me {
        // It is for the node itself, which verifies it: this one may not know the key yet. Nobody else can put one in its place.
        if from == about {
            node.testimony.of_recovering.insert(about, signed);
        }
        return;
    }
    let is_news = if about == me {
        contradicts(&signed.claim, &node.claim()) && signed.claim.is_news_after(&node.lives.of(me))
    } else {
        node.testimony.of_others.get(&about).is_none_or(|known| signed.claim.is_news_after(&known.claim))
    };
    if !is_news {
        return;
    }
    let key = signer.hash_of(&signed.public);
    let is_its_key = node.registry.keys.of(about).contains(&key) || about == me && node.config.key == Some(key);
    let is_signed = || signer.is_signed(&signed.public, &statement(about, &signed.claim), &signed.signature);
    if !is_its_key || !is_signed() {
        // This node may not have heard of the key yet; then it is told again.
        if is_its_key {
            node.probe("node: a claim that its node has not signed refused");
            intake::note_nonsense(node, from, "claims of other nodes that those have not signed");
        }
        return;
    }
    node.probe("node: a signed claim believed");
    node.lives.hear_of(about, signed.claim);
    if about == me {
        node.testimony.is_doubted = true;
    } else {
        node.testimony.of_others.insert(about, signed);
    }
}

/// Signs this node's claim, if it is time. In each turn.
pub(crate) fn tick(node: &mut Node) {
    let Some(claim) = claim_to_sign(node) else { return };
    let Some(signer) = node.config.signer.clone() else { return };
    let (me, time) = (node.config.me, node.now.time);
    match signer.sign(&statement(me, &claim)) {
        Ok(signature) => {
            let public = Bytes::copy_from_slice(signer.public());
            let signed = SignedClaim { node: me, claim, public, signature: signature.into() };
            node.testimony.own = Some((signed.clone(), time));
            node.testimony.is_doubted = false;
            let message = PeerMessage::SignedClaim(Box::new(signed));
            let others = node.detectors.iter().map(|detector| detector.peer);
            let others: Vec<NodeId> =
                others.filter(|peer| Feature::SignedClaims.is_in(node.version_with(*peer))).collect();
            others.into_iter().for_each(|peer| node.send(peer, &message));
        }
        // The system has no randomness or no memory: it is tried again in time.
        Err(_) => {
            node.probe("node: a claim could not be signed");
            if let Some((_, at)) = &mut node.testimony.own {
                *at = time;
            }
        }
    }
}

/// What is to be signed now, if anything is.
fn claim_to_sign(node: &Node) -> Option<Claim> {
    node.config.signer.as_ref()?;
    let claim = node.claim();
    if let Some((own, at)) = &node.testimony.own
        && own.claim.process == claim.process
        && own.claim.incarnation == claim.incarnation
    {
        let every = if node.testimony.is_doubted { SIGNED_IN_DOUBT_EVERY } else { SIGNED_EVERY };
        let is_due = claim.journal > own.claim.journal && node.now.time.since(*at) >= every;
        return is_due.then_some(claim);
    }
    if claim.incarnation != 0 {
        return Some(claim);
    }
    // It recovers. Others note under which incarnation it does, and it signs that: should it end before it has recovered, they can prove to the next process what they have noted.
    let council = &node.groups[place_of(&node.groups, COUNCIL)?].partition.replica;
    let drawn = Claim { incarnation: council.incarnation(), ..Claim::default() };
    let is_signed = node.testimony.own.as_ref().is_some_and(|(own, _)| own.claim == drawn);
    (council.role() == RoleName::Recovering && drawn.incarnation != 0 && !is_signed).then_some(drawn)
}
