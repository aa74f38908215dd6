//! The file that describes a cluster which the laboratory did not start: its nodes, and a shell command for each fault.
//!
//! ```toml
//! name = "staging"                        # for the report; this and the next three may be missing
//! durability = "fsynced on a majority"
//! consistency = "linearizable"
//! seconds = 30                            # that a command may take
//! [nodes]                                 # the names that the nodes have themselves, and where clients reach them
//! n1 = "10.0.0.1:7001"
//! n2 = "10.0.0.2:7001"
//! [commands]                              # what has none is not done
//! kill = "ssh $LAB_NODE systemctl kill -s KILL dictum"
//! start = "ssh $LAB_NODE systemctl start dictum"
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::{Hooks, PATIENCE_DEFAULT};
use crate::record::Side;

/// Bytes of a file.
const BYTES_MAX: u64 = 1 << 20;
/// Nodes of a file.
const NODES_MAX: usize = 1_000;
/// Longest time in seconds that a command may be given.
const SECONDS_MAX: f64 = 600.0;
/// What is said where the file says nothing.
const UNSAID: &str = "as the cluster is set up; the laboratory did not start it";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    durability: Option<String>,
    consistency: Option<String>,
    seconds: Option<f64>,
    #[serde(default)]
    nodes: BTreeMap<String, String>,
    #[serde(default)]
    commands: BTreeMap<String, String>,
}

impl Hooks {
    /// Reads a file of this form. Where it names no nodes, `addresses` are the nodes `n1`, `n2`, … in their order.
    ///
    /// # Errors
    /// A sentence with the path and what is wrong there.
    pub fn read(path: &Path, addresses: &[String]) -> Result<Hooks, String> {
        let told = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let length = std::fs::metadata(path).map_err(|error| told(&error))?.len();
        if length > BYTES_MAX {
            return Err(told(&format!("{length} bytes are more than a file of hooks may have, {BYTES_MAX}")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| told(&error))?;
        Hooks::of_text(&text, addresses).map_err(|error| told(&error))
    }

    /// A system without commands: it can be measured, and nothing is done to it.
    ///
    /// # Errors
    /// When an address cannot be resolved, or there is none.
    pub fn without_commands(addresses: &[String]) -> Result<Hooks, String> {
        Hooks::of_text("", addresses)
    }

    fn of_text(text: &str, addresses: &[String]) -> Result<Hooks, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        let nodes: Vec<(String, String)> = if file.nodes.is_empty() {
            let numbered = addresses.iter().enumerate();
            numbered.map(|(number, address)| (format!("n{}", number + 1), address.clone())).collect()
        } else {
            file.nodes.into_iter().collect()
        };
        if nodes.is_empty() || nodes.len() > NODES_MAX {
            let count = nodes.len();
            return Err(format!("there are {count} nodes: write 1 to {NODES_MAX} under [nodes], or give --target"));
        }
        let patience = match file.seconds {
            None => PATIENCE_DEFAULT,
            Some(seconds) if seconds > 0.0 && seconds <= SECONDS_MAX => Duration::from_secs_f64(seconds),
            Some(seconds) => return Err(format!("seconds = {seconds}: write more than 0 and at most {SECONDS_MAX}")),
        };
        let told: Vec<String> = nodes.iter().map(|(name, address)| format!("{name} {address}")).collect();
        let side = Side {
            id: "target".to_owned(),
            name: file.name.unwrap_or_else(|| "the cluster under test".to_owned()),
            nodes: u32::try_from(nodes.len()).unwrap_or(u32::MAX),
            durability: file.durability.unwrap_or_else(|| UNSAID.to_owned()),
            consistency: file.consistency.unwrap_or_else(|| UNSAID.to_owned()),
            configuration: vec![("nodes".to_owned(), told.join(", "))],
        };
        Hooks::new(side, &nodes, file.commands, patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::System;

    #[test]
    fn a_file_names_nodes_and_commands() {
        let text = "name = \"staging\"\nseconds = 5\n[nodes]\nb = \"127.0.0.1:2\"\na = \"127.0.0.1:1\"\n[commands]\nkill = \"true\"\n";
        let hooks = Hooks::of_text(text, &[]).expect("it is right");
        assert_eq!((hooks.names(), hooks.side().nodes), (vec!["a".to_owned(), "b".to_owned()], 2));
        assert_eq!((hooks.addresses()[0].as_str(), hooks.side().name.as_str()), ("127.0.0.1:1", "staging"));
        assert!(hooks.can("kill") && !hooks.can("start") && hooks.kill(1).is_ok());
        let plain = Hooks::without_commands(&["127.0.0.1:7".to_owned()]).expect("it is right");
        assert_eq!((plain.names(), plain.can("kill")), (vec!["n1".to_owned()], false));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, reason) in [
            ("", "under [nodes], or give --target"),
            ("speed = 3", "unknown field"),
            ("seconds = 0\n[nodes]\na = \"127.0.0.1:1\"", "write more than 0"),
            ("[nodes]\na = \"nowhere\"", "HOST:PORT"),
            ("[nodes]\na = \"127.0.0.1:1\"\n[commands]\nexplode = \"true\"", "choose among kill"),
        ] {
            let told = Hooks::of_text(text, &[]).expect_err(text);
            assert!(told.contains(reason), "{text}: {told}");
        }
        assert!(Hooks::read(Path::new("/nowhere.toml"), &[]).expect_err("no file").contains("/nowhere.toml"));
    }
}
