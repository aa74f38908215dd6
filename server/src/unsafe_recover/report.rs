//! What would be lost, or was: to people in sentences, to programs as JSON.

use std::collections::BTreeMap;
use std::fmt;

use node::alone::{Fate, Plan};
use serde::Serialize;

use crate::standing::Standing;

/// See the file's head.
#[derive(Serialize, Debug, Default)]
pub(super) struct Report {
    /// Who goes on.
    pub node: String,
    pub folder: String,
    /// Who does not.
    pub others: Vec<String>,
    pub partitions: Vec<Partition>,
    /// Buckets in memory only, which begin anew.
    pub ephemeral: Vec<String>,
    /// What `dictum check` finds damaged.
    pub damage: Vec<String>,
    /// It is so already.
    pub is_alone: bool,
    /// It was done just now.
    pub is_done: bool,
}

#[derive(Serialize, Debug, Default)]
pub(super) struct Partition {
    pub partition: String,
    pub is_council: bool,
    pub bucket: String,
    pub voters: Vec<String>,
    pub votes: bool,
    pub is_empty: bool,
    pub state: u64,
    pub decided: u64,
    /// Where its log ends: the round and the node of the last entry's ballot, and its position. Greater is further, the first number first.
    pub end: [u64; 3],
    /// Entries behind the decided ones by kind.
    pub perhaps_decided: BTreeMap<&'static str, u64>,
    pub damage: Vec<String>,
}

impl Report {
    pub fn new(standing: &Standing, folder: &str, plan: Plan, damage: Vec<String>) -> Report {
        let name = |id: &base::NodeId| plan.nodes.get(id).map_or_else(|| id.to_string(), |member| member.name.clone());
        let partition = |fate: &Fate| Partition {
            partition: fate.partition.to_string(),
            is_council: fate.is_council,
            bucket: fate.bucket.clone(),
            voters: fate.voters.iter().map(name).collect(),
            votes: fate.votes,
            is_empty: fate.is_empty,
            state: fate.state.0,
            decided: fate.decided.0,
            end: [fate.ballot.round, u64::from(fate.ballot.node.0), fate.last.0],
            perhaps_decided: fate.undecided.clone(),
            damage: fate.damage.clone(),
        };
        Report {
            node: standing.own().name.clone(),
            folder: folder.to_owned(),
            others: plan.nodes.keys().filter(|id| **id != standing.me).map(name).collect(),
            partitions: plan.partitions.iter().map(partition).collect(),
            ephemeral: plan.ephemeral.clone(),
            damage,
            is_alone: plan.is_alone,
            is_done: false,
        }
    }

    pub fn is_damaged(&self) -> bool {
        !self.damage.is_empty() || self.partitions.iter().any(|partition| !partition.damage.is_empty())
    }

    /// One thing that is damaged, for a refusal.
    pub fn first_damage(&self) -> String {
        let of_partition = |it: &Partition| it.damage.first().map(|damage| format!("{}: {damage}", it.called()));
        let first = self.damage.first().cloned();
        first.or_else(|| self.partitions.iter().find_map(of_partition)).unwrap_or_default()
    }
}

impl Partition {
    fn called(&self) -> String {
        match self.bucket.as_str() {
            "" if self.is_council => "council".to_owned(),
            "" => format!("a bucket that the council does not know ({})", self.partition),
            bucket => format!("{bucket} ({})", self.partition),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { node, folder, .. } = self;
        let others = self.others.join(", ");
        if self.is_alone {
            return writeln!(
                f,
                "{node} votes alone in everything that {folder} holds: there is nothing to do, start it."
            );
        }
        if self.is_done {
            writeln!(f, "{node} votes alone from now on, in everything that {folder} held:\n")?;
        } else {
            writeln!(f, "This would make {node} the only voter of everything that {folder} holds:\n")?;
        }
        for partition in &self.partitions {
            writeln!(f, "{partition}")?;
        }
        for damage in &self.damage {
            writeln!(f, "\ndamaged: {damage}")?;
        }
        writeln!(
            f,
            "\nLost, although it was acknowledged: every write that this disk never had. An acknowledged write is on the disks of a majority, and \
             {node} need not\nhave been among these. How many such writes there are cannot be seen here."
        )?;
        if !self.ephemeral.is_empty() {
            let names = self.ephemeral.join(", ");
            writeln!(
                f,
                "Lost: what the ephemeral buckets held ({names}); they begin anew, empty, in the memory of {node} alone."
            )?;
        }
        if self.is_done {
            return writeln!(
                f,
                "\nStart {node} as ever. Nothing is taken any more from the other nodes of before ({others}), should they come back, and they are told so; do \
                 not start\nthem where {node} cannot be reached. Then remove each of them (dictum node remove NAME --force), and let new ones join."
            );
        }
        writeln!(
            f,
            "\nThe others ({others}) would not be listened to any more. If more than half of those who vote can still be started, with their folders, start \
             these\ninstead: then nothing is lost.\n\n\
             To compare: run this on the folder of every node that is left. Further is whose last entry has the greater ballot; with the same ballot, whose \
             position\nis greater (in JSON: the greater `end`). Choose the node that is furthest, above all in the partitions that matter most to you; keep the \
             other folders."
        )?;
        let damage = if self.is_damaged() { " --accept-damage" } else { "" };
        writeln!(f, "\nNothing was changed. To do it: dictum unsafe-recover --accept-loss{damage} … {folder}")
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let called = self.called();
        if self.is_empty {
            write!(f, "{called}: this disk has nothing of it; it begins empty")?;
        } else {
            let ([round, node, last], decided) = (self.end, self.decided);
            write!(f, "{called}: the last entry is {last} of ballot {round}.{node}")?;
            if self.perhaps_decided.is_empty() {
                write!(f, ", all known to be decided")?;
            } else {
                write!(f, "; decided up to {decided}, perhaps decided and taken for it:")?;
                for (index, (kind, count)) in self.perhaps_decided.iter().enumerate() {
                    write!(f, "{} {kind} {count}", if index == 0 { "" } else { "," })?;
                }
                let first = decided + 1;
                write!(f, " ({first} to {last})")?;
            }
        }
        write!(f, "; who votes: {}", self.voters.join(", "))?;
        if !self.votes {
            write!(f, "\n  this node has no vote in it: nothing that was acknowledged had to reach it")?;
        }
        for damage in &self.damage {
            write!(f, "\n  damaged: {damage}")?;
        }
        Ok(())
    }
}
