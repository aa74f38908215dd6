//! What two nodes say to each other first: in which version, and whether they talk at all.

use std::io;

use base::limits::NODES_EVER_MAX;
use base::versions::{OLDEST, Versions};
use base::{NodeId, Time};
use tls::KeyHash;
use wire::{FrameWriter, Hello};

use super::{LIVELY, NEWEST_AGAIN_AFTER, Ourselves, Peers, Stage};

impl Peers {
    /// Sends our Hello, in that version.
    pub(super) fn greet(&mut self, place: usize, version: u16) -> io::Result<()> {
        let Some(link) = &mut self.links[place] else { return Ok(()) };
        let Ourselves { name, address, me, cluster, speaks, incarnation } = &self.ourselves;
        let hello = Hello {
            version,
            speaks: *speaks,
            needs: self.version,
            cluster: *cluster,
            node: name.clone(),
            address: address.clone(),
            id: *me,
            incarnation: *incarnation,
        };
        let mut greeting = Vec::new();
        FrameWriter::append(&mut greeting, |payload| hello.in_version(version).encode(payload))
            .expect("a Hello is short and not empty");
        link.greeted_in = Some(version);
        link.output.lock().send(&mut link.socket, greeting)?;
        Ok(())
    }

    /// In which version whoever was dialled is greeted: in the newest, unless that was just closed without an answer.
    pub(super) fn greeting_for(&mut self, place: usize) -> u16 {
        let dialled = self.links[place].as_ref().and_then(|link| link.dialled);
        let is_old =
            dialled.and_then(|peer| self.peers.get_mut(&peer)).is_some_and(|peer| std::mem::take(&mut peer.is_old));
        let Versions { oldest, newest } = self.ourselves.speaks;
        if is_old && self.version == oldest { oldest } else { newest }
    }

    /// Whoever was dialled has closed the link: it may not know the version in which it was greeted.
    pub(super) fn note_unanswered(&mut self, place: usize, now: Time) {
        let Some(link) = &self.links[place] else { return };
        let (Some(dialled), Some(version)) = (link.dialled, link.greeted_in) else { return };
        if link.stage != Stage::Greeting || version == OLDEST {
            return;
        }
        if let Some(peer) = self.peers.get_mut(&dialled) {
            peer.is_old = peer.up.is_none();
            peer.dial_at = peer.up.map(|_| now + NEWEST_AGAIN_AFTER).or(peer.dial_at);
        }
    }

    /// Tells a caller why it is not answered.
    pub(super) fn refuse(&mut self, place: usize, hello: &Hello, why: &str) {
        let Some(link) = self.links[place].as_mut().filter(|link| link.dialled.is_none()) else { return };
        let (mut frame, mut is_told) = (Vec::new(), false);
        let name = &self.ourselves.name;
        let framed =
            FrameWriter::append(&mut frame, |payload| is_told = hello.refuse(&format!("{name} says: {why}"), payload));
        if framed.is_ok() && is_told {
            // The link ends in any case.
            let _ = link.output.lock().send(&mut link.socket, frame);
        }
    }

    /// Tells a node that was called, and is not even greeted, why.
    pub(super) fn refuse_unheard(&mut self, place: usize, why: &str) -> io::Result<()> {
        let Some(link) = &mut self.links[place] else { return Ok(()) };
        let (mut frame, name) = (Vec::new(), &self.ourselves.name);
        FrameWriter::append(&mut frame, |payload| Hello::refuse_unheard(&format!("{name} says: {why}"), payload))
            .expect("a refusal is short and not empty");
        link.output.lock().send(&mut link.socket, frame).map(drop)
    }

    /// Why no link is made with a node under this key, if none is. In plain text a link has none.
    pub(super) fn is_unknown_by(&self, id: NodeId, key: Option<KeyHash>) -> Option<String> {
        let known = &self.peers.get(&id)?.keys;
        let name = self.name(id);
        let is_trusted = |key: &KeyHash| self.trusted.iter().any(|(of, trusted)| *of == name && trusted == key);
        let shown = key.filter(|key| !known.is_empty() && !known.contains(key) && !is_trusted(key))?.whole();
        Some(format!(
            "{name:?} shows the key {shown}, and {} knows it by another one; if that was lost with its folder, say `dictum node forget-keys {name}` at a node that is well. If it has this one rightly, and {} cannot hear so from others, start {} with --peer-keys {name}={shown}",
            self.ourselves.name, self.ourselves.name, self.ourselves.name,
        ))
    }

    /// In which version a link with a caller is, if it is one who may call.
    pub(super) fn check(
        &self,
        hello: &Hello,
        (dialled, key): (Option<NodeId>, Option<KeyHash>),
        now: Time,
    ) -> Result<u16, String> {
        let (id, me) = (hello.id, self.ourselves.me);
        if hello.cluster != self.ourselves.cluster {
            return Err(format!(
                "it is {:?} of another cluster; give all founders the same --cluster list",
                hello.node
            ));
        }
        if id == me {
            return Err(format!("another node says that it is {:?} too; start each name only once", hello.node));
        }
        if id.0 >= NODES_EVER_MAX {
            return Err(format!("{:?} says that its number is {id}, and no node has one as high", hello.node));
        }
        let version = hello.agree(self.ourselves.speaks, self.version)?;
        // It may have joined, and this node not have heard of it: the node will see.
        let Some(peer) = self.peers.get(&id) else { return Ok(version) };
        if !peer.is_removed && peer.member.as_ref().is_some_and(|member| member.name != hello.node) {
            return Err(format!(
                "it is {:?}, and number {id} is {:?}; give all founders the same --cluster list",
                hello.node,
                self.name(id)
            ));
        }
        if let Some(why) = self.is_unknown_by(id, key) {
            return Err(why);
        }
        if peer.up.is_some() && hello.incarnation < peer.started {
            return Err(format!(
                "another process with the name {:?} was started after it; is its folder a copy? Stop one of them",
                hello.node
            ));
        }
        // A process that has ended leaves no link behind, and one that stands still is not heard. So a second one with an empty folder, or one of another cluster
        // that was given the same names, does not take the place of a node that lives.
        let lively = peer.up.and_then(|up| self.links[up].as_ref()).filter(|link| now.since(link.heard) < LIVELY);
        if lively.is_some() && hello.incarnation != peer.started {
            return Err(format!(
                "{:?} runs in another process, which was heard just now; start each name only once",
                hello.node
            ));
        }
        if lively.is_some_and(|link| link.key.is_some() && link.key != key) {
            // Other nodes know the secret, too.
            return Err(format!("{:?} is linked under another key; start each name only once", hello.node));
        }
        match dialled {
            Some(expected) if expected != id => Err(format!(
                "{:?} answers at the address of {:?}; correct the addresses in --cluster",
                hello.node,
                self.name(expected)
            )),
            // Unless it was waited for in vain.
            None if id > me && peer.up.is_some() => Err(format!("{:?} is to be called, not to call", hello.node)),
            Some(_) | None => Ok(version),
        }
    }
}
