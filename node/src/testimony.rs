//! Decides which claims about folders a node believes when another node than the folder's own tells them.
//!
//! Claims ([`crate::lives`]) make a node end, make it give its memory up, or make all others ignore it. So a node does not take another member's word for a claim: a member
//! that is mistaken, or is not what it seems, could end every other node.
//!
//! 1. Each node signs its own claims with its own key, and sends them to all others: at its start, and then twice a second while its journal goes on.
//! 2. Each keeps the newest signed claim of every other node. It sends that to every node that knows less, by the claims in that node's ping: also to the node itself.
//! 3. A claim that another node tells counts if the node that it is about has signed it.
//! 4. What a ping says of the receiver, unsigned, counts if most of the other voters of the council say the same ([`hear_most`]). The incarnations that replicas have noted
//!    on their disks come this way: the process that had such an incarnation may be gone, with what it signed.
//!
//! A process that recovers has no claim yet. It signs the incarnation under which it recovers. Another node that has noted this incarnation shows the signature to later
//! processes of the folder.
//!
//! A node believes in any case what another one says of itself, in its own pings. A node that has no key cannot verify anything: it believes every word, as all did before
//! there were keys. So do all nodes while the cluster is of an earlier version. (docs/decisions/2026-11-25-restored-folders.md)

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use base::versions::Feature;
use base::{NodeId, Time};
use bytes::Bytes;
use paxos::RoleName;
use wire::{Malformed, Reader, Writer};

use crate::council::COUNCIL;
use crate::door::{Level, Planted};
use crate::intake;
use crate::lives::Claim;
use crate::node::{Node, place_of};
use crate::peer::{PeerMessage, Ping};
use crate::registry::NodeKey;

/// A node signs its claim again so long after the last time, while its journal goes on.
const SIGNED_EVERY: Duration = Duration::from_millis(500);
/// The same while somebody has heard of another process with this folder.
const SIGNED_IN_DOUBT_EVERY: Duration = Duration::from_millis(50);
/// A node is sent what it lacks this often at the most.
const ANSWERED_EVERY: Duration = Duration::from_millis(200);
/// Most signed claims that one ping has sent in answer.
const SENT_AT_ONCE: usize = 8;
/// Most signatures of one sender that a node verifies in each [`ANSWERED_EVERY`]. An honest sender sends up to [`SENT_AT_ONCE`] in that time, and its own.
const JUDGED_MAX: usize = 4 * SENT_AT_ONCE;
/// Longest public key, and longest signature, in bytes. ML-DSA-65 has 1,974 (with its frame of DER) and 3,309.
const SIGNED_PART_MAX: usize = 8 << 10;
/// The signed bytes begin with this purpose, so a signature that was made for another one does not pass for that of a claim.
const PURPOSE: &[u8] = b"Dictum claim about a folder, version 1\n";

/// Signs with a node's own key, and judges what other nodes have signed with theirs. It does so at once, and by nothing but what it is given.
pub trait Signer: fmt::Debug + Send + Sync {
    /// This node's public key.
    fn public(&self) -> &[u8];

    /// The hash of a public key, by which the council knows the node that has the key.
    fn hash_of(&self, public: &[u8]) -> NodeKey;

    /// A signature by this node's key. The bytes begin with what the signature is for.
    ///
    /// # Errors
    /// The system has no randomness or no memory.
    fn sign(&self, bytes: &[u8]) -> Result<Vec<u8>, String>;

    /// True if the node that has this public key has signed these bytes.
    fn is_signed(&self, public: &[u8], bytes: &[u8], signature: &[u8]) -> bool;
}

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

/// The bytes that a node signs.
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
    /// The unsigned claims about all folders in the last ping of each other node that had any.
    said: BTreeMap<NodeId, BTreeMap<NodeId, Claim>>,
    /// When each was sent what it lacks.
    answered: BTreeMap<NodeId, Time>,
    /// How many signatures of each sender this node has verified.
    judged: BTreeMap<NodeId, Judged>,
    /// When this node could not sign.
    failed: Option<Time>,
}

/// Verifying takes the loop's time, so a node verifies a bounded number for each sender.
#[derive(Debug, Default)]
struct Judged {
    since: Time,
    count: usize,
    /// When one was refused last.
    refused: Option<Time>,
}

impl Judged {
    /// True if this node verifies one more: at most [`JUDGED_MAX`] in each [`ANSWERED_EVERY`], and none for so long after one that it refused.
    fn may_judge(&mut self, now: Time) -> bool {
        if self.refused.is_some_and(|at| now.since(at) < ANSWERED_EVERY) {
            return false;
        }
        if now.since(self.since) >= ANSWERED_EVERY {
            (self.since, self.count) = (now, 0);
        }
        self.count += 1;
        self.count <= JUDGED_MAX
    }
}

impl Testimony {
    /// A link is new: what was sent before may be lost.
    pub(crate) fn on_peer_up(&mut self, peer: NodeId) {
        self.answered.remove(&peer);
    }

    /// The claims that nodes have signed with keys that are not theirs any more, as `is_its` says.
    fn take_of_former_keys(&mut self, is_its: impl Fn(&SignedClaim) -> bool) -> Vec<NodeId> {
        let gone: Vec<NodeId> =
            self.of_others.values().filter(|signed| !is_its(signed)).map(|signed| signed.node).collect();
        gone.iter().for_each(|node| drop(self.of_others.remove(node)));
        self.of_recovering.retain(|_, signed| is_its(signed));
        gone
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
        self.judged.remove(&node);
    }
}

/// True if this node believes claims of others only with a signature of the node that they are about: it has a key, and the cluster knows the keys of others. A cluster of
/// an earlier version knows none. A node that has just been started does not know the cluster's version yet, and waits for signatures.
fn needs_signatures(node: &Node) -> bool {
    let knows_keys = node.cluster_name() == 0 || Feature::SignedClaims.is_in(node.cluster_version());
    node.config.signer.is_some() && knows_keys && node.config.planted != Some(Planted::UnsignedClaims)
}

/// A ping says what its sender knows of nodes' folders.
pub(crate) fn on_lives(node: &mut Node, from: NodeId, ping: &Ping) {
    let me = node.config.me;
    let is_known = |about: &NodeId| *about == me || node.roll.get(*about).is_some();
    let said: BTreeMap<NodeId, Claim> = ping.lives.iter().filter(|(about, _)| is_known(about)).copied().collect();
    if !needs_signatures(node) {
        said.iter().for_each(|(about, claim)| node.lives.hear_of(*about, *claim));
    } else if !said.is_empty() {
        node.testimony.is_doubted |= said.get(&me).is_some_and(|claim| contradicts(claim, &node.claim()));
        node.testimony.said.insert(from, said);
        hear_most(node);
    }
    // A ping with claims has all that its sender knows; and so has the first one of a link, also if that is nothing.
    if ping.since == 0 || !ping.lives.is_empty() {
        send_what_it_lacks(node, from, ping);
    }
}

/// True if this node could not go on as it is, were the claim true: another process has had its folder, or it had a later memory.
fn contradicts(said: &Claim, own: &Claim) -> bool {
    said.outdates(own) || own.incarnation != 0 && said.incarnation > own.incarnation
}

/// Believes what most of the other voters say of this node's folder: that another process had on its disk something that this folder lacks; or that the node had a later
/// memory, up to the latest incarnation that so many of them reach. It counts the two apart, because a node ends by the first and recovers by the second.
fn hear_most(node: &mut Node) {
    let (me, own) = (node.config.me, node.claim());
    let Some(g) = place_of(&node.groups, COUNCIL) else { return };
    let others: Vec<NodeId> = node.voters_of(g).into_iter().filter(|id| *id != me).collect();
    // One is never most: of two nodes, each could end the other.
    let most = (others.len() / 2 + 1).max(2);
    let said: Vec<Claim> = others
        .iter()
        .filter_map(|id| node.testimony.said.get(id)?.get(&me))
        .filter(|claim| contradicts(claim, &own))
        .copied()
        .collect();
    let mut later: Vec<u64> = said.iter().map(|claim| claim.incarnation).filter(|it| *it > own.incarnation).collect();
    later.sort_unstable_by(|a, b| b.cmp(a));
    let outdating: Vec<Claim> = said.into_iter().filter(|claim| claim.outdates(&own)).collect();
    let believed = match later.get(most - 1) {
        Some(incarnation) => Some(Claim { incarnation: *incarnation, ..Claim::default() }),
        None if outdating.len() >= most => outdating.into_iter().min_by_key(|claim| claim.journal),
        None => None,
    };
    if let Some(claim) = believed {
        node.probe("node: most say what its folder lacks");
        node.lives.hear_of(me, claim);
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
    // The proof of what this node's replica has noted. The next process needs a higher incarnation only than those that replicas have noted.
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
    // A signature is verified only where something follows from the claim.
    if !is_news || !node.testimony.judged.entry(from).or_default().may_judge(node.now.time) {
        return;
    }
    let key = signer.hash_of(&signed.public);
    let is_its_key = node.registry.keys.of(about).contains(&key) || about == me && node.config.key == Some(key);
    let is_signed = || signer.is_signed(&signed.public, &statement(about, &signed.claim), &signed.signature);
    if !is_its_key || !is_signed() {
        // This node may not have heard of the key yet; then it is told again.
        if is_its_key {
            node.testimony.judged.entry(from).or_default().refused = Some(node.now.time);
            node.probe("node: a claim that its node has not signed refused");
            intake::note_nonsense(node, from, "claims of other nodes that those have not signed");
        }
        return;
    }
    if about == me {
        node.lives.hear_of(about, signed.claim);
        node.testimony.is_doubted = true;
    } else if node.lives.hear(about, signed.claim) {
        node.testimony.of_others.insert(about, signed);
    } else {
        // Of a process that was begun from an earlier copy, and goes on.
        return;
    }
    node.probe("node: a signed claim believed");
}

/// The council knows some nodes by other keys than before. What was signed with a former one may be the word of a thief, so it is forgotten; what the node says itself is
/// heard again with its next ping.
pub(crate) fn on_keys(node: &mut Node) {
    let Some(signer) = node.config.signer.clone() else { return };
    let keys = &node.registry.keys;
    let is_its = |signed: &SignedClaim| keys.of(signed.node).contains(&signer.hash_of(&signed.public));
    for about in node.testimony.take_of_former_keys(is_its) {
        node.lives.forget(about);
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
            (node.testimony.is_doubted, node.testimony.failed) = (false, None);
            let message = PeerMessage::SignedClaim(Box::new(signed));
            let others = node.detectors.iter().map(|detector| detector.peer);
            let others: Vec<NodeId> =
                others.filter(|peer| Feature::SignedClaims.is_in(node.version_with(*peer))).collect();
            others.into_iter().for_each(|peer| node.send(peer, &message));
        }
        Err(reason) => {
            if node.testimony.failed.replace(time).is_none() {
                let text =
                    format!("this node cannot sign what it says of its folder: {reason}. It goes on, and tries again");
                node.event(Level::Error, text);
            }
        }
    }
}

/// The claim that this node has to sign now, if it has to.
fn claim_to_sign(node: &Node) -> Option<Claim> {
    node.config.signer.as_ref()?;
    if node.testimony.failed.is_some_and(|at| node.now.time.since(at) < SIGNED_EVERY) {
        return None;
    }
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
