//! The settings of `dictum node`, and how many failures the cluster bears behind a change of them.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};

use serde::Serialize;
use utoipa::ToSchema;
use wire::Value;

use super::{Cluster, NodeInfo};

/// The answer of `DICTUM.NODE SETTINGS`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, ToSchema)]
#[schema(as = NodeSettings)]
pub(crate) struct Settings {
    /// How many vote in each partition; 0: as many as have founded the cluster.
    voters: u64,
    /// How many have founded it.
    founders: u64,
    /// After so many seconds a node that is gone is replaced; 0: never.
    auto_replace: u64,
    /// Votes and leaderships stay where they are.
    paused: bool,
}

/// How many of so many voters may fail.
fn failures_borne(voters: u64) -> u64 {
    voters.saturating_sub(1) / 2
}

impl Settings {
    pub(crate) fn read(reply: &Value) -> Option<Settings> {
        let pairs: Vec<(&Value, &Value)> = match reply {
            Value::Map(pairs) => pairs.iter().map(|(name, value)| (name, value)).collect(),
            Value::Array(flat) => flat.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect(),
            _ => return None,
        };
        let mut settings = Settings::default();
        for (name, value) in pairs {
            let number = value.as_integer().and_then(|number| u64::try_from(number).ok()).unwrap_or_default();
            match name.as_bytes()? {
                b"voters" => settings.voters = number,
                b"founders" => settings.founders = number,
                b"auto-replace" => settings.auto_replace = number,
                b"paused" => settings.paused = number > 0,
                _ => {}
            }
        }
        (settings.founders > 0).then_some(settings)
    }

    /// How many vote in each partition of a cluster with so many nodes.
    fn voters_of(self, nodes: u64) -> u64 {
        let wanted = if self.voters == 0 { self.founders } else { self.voters };
        wanted.min(nodes)
    }

    /// For people, below the list of the nodes.
    pub(super) fn summary(self, nodes: u64) -> String {
        let voters = self.voters_of(nodes);
        let nodes = if voters == 1 { "node votes" } else { "nodes vote" };
        let replaced = match self.auto_replace {
            0 => "never replaced".to_owned(),
            seconds => format!("replaced after {seconds} s"),
        };
        format!("{voters} {nodes} in each partition: {}.\nA node that is gone is {replaced}.\n", borne(voters))
    }

    /// For people, or as JSON.
    pub(super) fn show(self, nodes: u64, json: bool) -> String {
        if json {
            return serde_json::to_string(&self).expect("plain fields become JSON") + "\n";
        }
        let voters = self.voters_of(nodes);
        let set = if self.voters == 0 { "the number of founders" } else { "set" };
        let mut text = format!("voters        {voters} of {nodes} nodes ({set}): {}\n", borne(voters));
        let after = match self.auto_replace {
            0 => "never".to_owned(),
            seconds => format!("after {seconds} s"),
        };
        let _ = writeln!(text, "auto-replace  {after}");
        let _ = writeln!(
            text,
            "paused        {}",
            if self.paused { "yes: votes and leaderships stay where they are" } else { "no" }
        );
        text
    }
}

/// In words.
fn borne(voters: u64) -> String {
    match failures_borne(voters) {
        0 => "no failure is borne".to_owned(),
        1 => "one failure is borne".to_owned(),
        more => format!("{more} failures are borne"),
    }
}

/// In words how many failures fewer are borne behind a change, if any.
fn loss(before: u64, after: u64) -> Option<String> {
    let all = if after < 3 { format!("; nothing is served unless all {after} are up") } else { String::new() };
    let all = if after == 1 { "; nothing is served unless that one is up".to_owned() } else { all };
    (failures_borne(after) < failures_borne(before)).then(|| {
        format!(
            "{after} nodes vote then instead of {before}: {}, instead of {}{all}",
            borne(after),
            failures_borne(before)
        )
    })
}

/// Asks somebody at a terminal.
fn is_meant(text: &str) -> bool {
    eprint!("{text}. Go on? [y/N] ");
    let mut answer = String::new();
    let _ = io::stderr().flush();
    io::stdin().read_line(&mut answer).is_ok() && answer.trim().eq_ignore_ascii_case("y")
}

fn consent(loss: Option<String>, yes: bool) -> Result<(), String> {
    match loss {
        None => Ok(()),
        Some(text) if yes => {
            eprintln!("{text}");
            Ok(())
        }
        Some(text) if io::stdin().is_terminal() && io::stderr().is_terminal() => {
            if is_meant(&text) {
                Ok(())
            } else {
                Err("nothing was changed".to_owned())
            }
        }
        Some(text) => Err(format!("{text}. Nothing was changed; say --yes if it is meant")),
    }
}

impl Cluster {
    /// The settings, with all that was answered at any node before.
    pub(super) fn settings(&mut self) -> Result<Settings, String> {
        // A node tells settings as far as it has applied the council's log, and the list only once it has all of that.
        self.nodes()?;
        self.settings_now()
    }

    /// The same right after a list of the nodes. `None`: the node is of a version without the command.
    pub(super) fn settings_if_known(&mut self) -> Result<Option<Settings>, String> {
        match self.settings_now() {
            Ok(settings) => Ok(Some(settings)),
            Err(text) if text.starts_with("unknown subcommand") => Ok(None),
            Err(text) => Err(text),
        }
    }

    fn settings_now(&mut self) -> Result<Settings, String> {
        let reply = self.ask(&["DICTUM.NODE", "SETTINGS"])?;
        let strange = format!("the server at {} answered something that this version cannot read", self.endpoint);
        Settings::read(&reply).ok_or(strange)
    }

    /// Before another number of nodes votes.
    pub(super) fn weigh_voters(&mut self, count: u8, yes: bool, force: bool) -> Result<(), String> {
        let (settings, nodes) = (self.settings()?, self.nodes()?.len() as u64);
        let after = Settings { voters: u64::from(count), ..settings }.voters_of(nodes);
        if count > 0 && count.is_multiple_of(2) && !force {
            return Err(format!(
                "{count} is an even number: {}, as with {}. Nothing was changed; say --force if it is meant",
                borne(u64::from(count)),
                count - 1
            ));
        }
        consent(loss(settings.voters_of(nodes), after), yes)
    }

    /// Before nodes are removed.
    pub(super) fn weigh_removal(&mut self, names: &[String], yes: bool) -> Result<(), String> {
        let (settings, nodes) = (self.settings()?, self.nodes()?);
        // Those that leave already count no more. Without those that vote nowhere, as those that were left behind, as many failures are borne as before.
        let counts = |node: &&NodeInfo| node.state != "leaving";
        let stay = nodes.iter().filter(counts).count() as u64;
        let leaves = |node: &&NodeInfo| names.contains(&node.name) && node.votes > 0;
        let leave = nodes.iter().filter(counts).filter(leaves).count() as u64;
        consent(loss(settings.voters_of(stay), settings.voters_of(stay - leave)), yes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_failures_borne_are_said() {
        assert_eq!(loss(3, 3), None);
        assert_eq!(loss(4, 3), None, "as many as before");
        assert_eq!(loss(5, 4).as_deref(), Some("4 nodes vote then instead of 5: one failure is borne, instead of 2"));
        assert_eq!(
            loss(3, 2).as_deref(),
            Some(
                "2 nodes vote then instead of 3: no failure is borne, instead of 1; nothing is served unless all 2 are up"
            )
        );
        assert!(loss(3, 1).expect("fewer").ends_with("unless that one is up"));
        assert_eq!(loss(2, 1), None);
    }

    #[test]
    fn as_many_vote_as_are_wanted_and_there() {
        let settings = Settings { voters: 0, founders: 3, auto_replace: 0, paused: false };
        assert_eq!((settings.voters_of(5), settings.voters_of(2)), (3, 2));
        assert_eq!(Settings { voters: 5, ..settings }.voters_of(9), 5);
        assert!(
            settings
                .show(3, false)
                .starts_with("voters        3 of 3 nodes (the number of founders): one failure is borne\n")
        );
        let most = Settings { voters: 7, founders: 7, auto_replace: 31_536_000, paused: true };
        let shown = [most.show(64, false), Settings { voters: 0, ..most }.show(64, false), most.summary(64)].concat();
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "it fits 80 columns: {shown}");
        assert_eq!(
            settings.summary(1),
            "1 node votes in each partition: no failure is borne.\nA node that is gone is never replaced.\n"
        );
        assert_eq!(settings.show(3, true), "{\"voters\":0,\"founders\":3,\"auto_replace\":0,\"paused\":false}\n");
    }
}
