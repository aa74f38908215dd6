//! How far the machines' audit trails are signed: each node is told that of its own, and notes what the council was told of the others.
//!
//! A trail here is a count and a digest of what stands in it. It is on disk at once, and outlives its process.

use std::collections::BTreeMap;

use base::NodeId;
use node::{AuditEvent, AuditRecord, TrailMark};

use super::Cluster;
use crate::chaos::SECOND;
use crate::door::Door;
use crate::process::{Happening, name_of};
use crate::trace::digest_of;

/// A mark of another node's trail stands in a trail.
pub(crate) const NOTED: &str = "sim: a mark of another node's audit trail was noted";

/// How often nodes tell the council in the simulator.
pub(super) const TOLD_EVERY: std::time::Duration = std::time::Duration::from_secs(2);
/// A mark that is older than that has come to every node, in the calm at the end.
const KNOWN_WITHIN: u64 = 10 * SECOND;

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Trail {
    /// The life of the process that was told the last mark.
    told_to: u64,
    /// When it was signed, and up to where.
    marks: Vec<(u64, TrailMark)>,
}

impl Trail {
    fn sign(&mut self, now: u64, records: &[&AuditEvent]) -> TrailMark {
        let (sequence, mut hash) = self.marks.last().map_or((0, [0; 32]), |(_, mark)| (mark.sequence, mark.hash));
        for event in records {
            let digest = digest_of(&[&hash[..], format!("{event:?}").as_bytes()].concat());
            hash[..8].copy_from_slice(&digest.to_le_bytes());
        }
        let mark = TrailMark { sequence: sequence + records.len() as u64, hash };
        self.marks.push((now, mark));
        mark
    }
}

impl<N: Door> Cluster<N> {
    /// Puts records into a machine's trail.
    ///
    /// Property: what is noted of another trail was signed there.
    pub(super) fn write_trail(&mut self, node: NodeId, records: &[AuditRecord]) {
        let (now, life) = (self.now, self.machine(node).life);
        let (mut news, mut noted) = (Vec::new(), Vec::new());
        for AuditRecord { event, .. } in records {
            match event {
                AuditEvent::TrailNoted { of, mark } => noted.push((of, *mark)),
                event => news.push(event),
            }
        }
        for (of, mark) in noted {
            *self.probes.entry(NOTED).or_default() += 1;
            let is_theirs = |(whose, trail): (&NodeId, &Trail)| {
                name_of(*whose) == *of && trail.marks.iter().any(|(_, signed)| *signed == mark)
            };
            if !self.trails.iter().any(is_theirs) {
                let text = format!("{} notes {mark:?} of the trail of {of}, which was never signed", name_of(node));
                self.violations.push(("audit", text));
            }
        }
        let trail = self.trails.entry(node).or_default();
        let mark = match trail.marks.last() {
            Some((_, mark)) if news.is_empty() => *mark,
            None if news.is_empty() => return,
            _ => trail.sign(now, &news),
        };
        if !news.is_empty() || std::mem::replace(&mut trail.told_to, life) != life {
            self.give(node, Happening::TrailSigned(mark));
        }
    }

    /// Property: in the calm at the end every node knows how far the trails of all others are signed.
    #[must_use]
    pub fn judge_trails(&self) -> Option<String> {
        if !self.chaos.users {
            return None;
        }
        let settled = self.now.saturating_sub(KNOWN_WITHIN);
        let running =
            || self.members().filter_map(|node| Some((node, self.machines[usize::from(node.0)].running.as_ref()?)));
        for (node, process) in running() {
            let Some(known) = process.node.trail_marks().map(|marks| marks.into_iter().collect::<BTreeMap<_, _>>())
            else {
                continue;
            };
            for (peer, _) in running().filter(|(peer, _)| *peer != node) {
                let marks = self.trails.get(&peer).map_or(&[][..], |trail| &trail.marks);
                let Some(least) = marks.iter().rposition(|(at, _)| *at <= settled) else { continue };
                let known = known.get(&peer);
                if !marks[least..].iter().any(|(_, mark)| Some(mark) == known) {
                    return Some(format!(
                        "{} knows of the trail of {} {known:?}, and it was signed up to {:?} long ago",
                        name_of(node),
                        name_of(peer),
                        marks[least].1
                    ));
                }
            }
        }
        None
    }
}
