//! Faults for a system that the laboratory did not start: a shell command of the user's for each of them.
//!
//! A command is run by `sh -c` with these variables: `LAB_NODE` (the node's name), `LAB_ADDRESS` (where clients reach it), and, where they
//! mean something, `LAB_DELAY_MS`, `LAB_CUT` (`both`, `deaf`, `mute`) and `LAB_SHARES`. One that fails or takes too long is an error that
//! shows what it said last. For `slow-disk`, `slow-links` and `noise` the same command undoes it, with 0 or nothing.

pub mod file;

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::cluster::ask::Asker;
use crate::cluster::dictum::status::Status;
use crate::cluster::process;
use crate::cluster::{Cut, System};
use crate::record::Side;

/// What there can be a command for.
pub const ACTIONS: &[&str] =
    &["kill", "terminate", "start", "pause", "resume", "cut", "heal", "slow-disk", "slow-links", "noise", "leader"];
/// How long a command may take unless told otherwise.
pub const PATIENCE_DEFAULT: Duration = Duration::from_secs(30);
/// How long a question to a node may take.
const ASK_PATIENCE: Duration = Duration::from_millis(500);

/// A system that is reached by its addresses, and acted on by commands.
#[derive(Debug)]
pub struct Hooks {
    side: Side,
    nodes: Vec<(String, Asker)>,
    /// By one of [`ACTIONS`]. What `leader` prints is the leader's name; without it, `DICTUM.STATUS` is asked.
    commands: BTreeMap<String, String>,
    patience: Duration,
}

impl Hooks {
    /// `nodes` are names and addresses (`HOST:PORT`) for clients, `commands` shell commands by action, each with `patience` to end.
    ///
    /// # Errors
    /// When an address cannot be resolved, or there is no such action.
    pub fn new(
        side: Side,
        nodes: &[(String, String)],
        commands: BTreeMap<String, String>,
        patience: Duration,
    ) -> Result<Hooks, String> {
        commands.keys().try_for_each(|action| known(action))?;
        let resolve = |(name, address): &(String, String)| {
            let found: Result<Option<SocketAddr>, _> = address.to_socket_addrs().map(|mut all| all.next());
            match found {
                Ok(Some(found)) => Ok((name.clone(), Asker::new(found))),
                Ok(None) => Err(format!("{address} has no address; write HOST:PORT")),
                Err(error) => Err(format!("{address}: {error}; write HOST:PORT")),
            }
        };
        let nodes = nodes.iter().map(resolve).collect::<Result<_, _>>()?;
        Ok(Hooks { side, nodes, commands, patience })
    }

    /// Runs the command of an action; answers what it has said last.
    fn run(&self, action: &str, node: Option<usize>, more: &[(&str, String)]) -> Result<String, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let text = self.commands.get(action).ok_or_else(|| {
            format!("there is no command for {action}; give one, as the cluster was not started by the laboratory")
        })?;
        let mut command = Command::new("sh");
        command.args(["-c", text]).envs(more.iter().map(|(name, value)| (name, value)));
        if let Some(node) = node {
            let (name, asker) =
                self.nodes.get(node).ok_or_else(|| format!("there is no node with the number {node}"))?;
            command.env("LAB_NODE", name).env("LAB_ADDRESS", asker.address().to_string());
        }
        process::without_input(&mut command);
        // A file, not a pipe: what the command leaves running in the background may hold it open.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let log = std::env::temp_dir().join(format!("dictum-lab-hook-{}-{number}", std::process::id()));
        let done = process::log_to(&mut command, &log).and_then(|start| {
            let mut process = process::spawn(command, &format!("the command for {action}"))?;
            let status = process.wait(self.patience).inspect_err(|_| {
                // With all that it has started; the group was made for it.
                if let Some(group) = i32::try_from(process.id()).ok().and_then(Pid::from_raw) {
                    let _ = kill_process_group(group, Signal::KILL);
                }
            });
            let said = process::tail(&log, start);
            match status {
                Ok(status) if status.success() => Ok(said),
                Ok(status) => Err(format!("the command for {action} failed ({status}): {text}\nit said last:\n{said}")),
                Err(reason) => Err(format!("{reason}: {text}\nit said last:\n{said}")),
            }
        });
        let _ = std::fs::remove_file(&log);
        done
    }

    fn act(&self, action: &str, node: usize, more: &[(&str, String)]) -> Result<(), String> {
        self.run(action, Some(node), more).map(|_| ())
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|(other, _)| other == name)
    }
}

/// Whether there can be a command for it.
fn known(action: &str) -> Result<(), String> {
    if ACTIONS.contains(&action) {
        return Ok(());
    }
    Err(format!("there is no action {action:?} to have a command for; choose among {}", ACTIONS.join(", ")))
}

impl System for Hooks {
    fn side(&self) -> Side {
        self.side.clone()
    }

    fn names(&self) -> Vec<String> {
        self.nodes.iter().map(|(name, _)| name.clone()).collect()
    }

    fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(|(_, asker)| asker.address().to_string()).collect()
    }

    fn can(&self, action: &str) -> bool {
        self.commands.contains_key(action)
    }

    fn leader(&self) -> Result<usize, String> {
        if self.commands.contains_key("leader") {
            let said = self.run("leader", None, &[])?;
            let name = said.lines().last().unwrap_or_default().trim();
            return self
                .place(name)
                .ok_or_else(|| format!("the command for leader says {name:?}, which is no node's name"));
        }
        let mut reason = "the system has no nodes".to_owned();
        for (_, asker) in &self.nodes {
            let status = asker.text(&["DICTUM.STATUS"], ASK_PATIENCE).and_then(|text| Status::parse(&text));
            match status.map(|status| status.leader()) {
                Ok(Some(name)) => {
                    return self.place(&name).ok_or_else(|| {
                        format!("{name} leads, which is no node's name here; give the nodes the names that they have themselves")
                    });
                }
                Ok(None) => reason = "no node knows a leader".to_owned(),
                Err(error) => reason = format!("{error}; give a command for leader if this is not Dictum"),
            }
        }
        Err(reason)
    }

    fn is_current(&self, node: usize) -> bool {
        self.nodes.get(node).is_some_and(|(_, asker)| asker.call(&["PING"], ASK_PATIENCE).is_ok())
    }

    fn kill(&self, node: usize) -> Result<(), String> {
        self.act("kill", node, &[])
    }

    fn terminate(&self, node: usize) -> Result<(), String> {
        self.act("terminate", node, &[])
    }

    fn start_again(&self, node: usize) -> Result<(), String> {
        self.act("start", node, &[])
    }

    fn pause(&self, node: usize) -> Result<(), String> {
        self.act("pause", node, &[])
    }

    fn resume(&self, node: usize) -> Result<(), String> {
        self.act("resume", node, &[])
    }

    fn cut(&self, node: usize, cut: Cut) -> Result<(), String> {
        self.act("cut", node, &[("LAB_CUT", format!("{cut:?}").to_lowercase())])
    }

    fn heal(&self) -> Result<(), String> {
        self.run("heal", None, &[]).map(|_| ())
    }

    fn slow_links(&self, node: usize, delay: Duration) -> Result<(), String> {
        self.act("slow-links", node, &[("LAB_DELAY_MS", delay.as_millis().to_string())])
    }

    fn slow_disk(&self, node: usize, delay: Duration) -> Result<(), String> {
        self.act("slow-disk", node, &[("LAB_DELAY_MS", delay.as_millis().to_string())])
    }

    fn noise(&self, shares: &[f64]) -> Result<(), String> {
        let shares: Vec<String> = shares.iter().map(f64::to_string).collect();
        self.run("noise", None, &[("LAB_SHARES", shares.join(" "))]).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn hooks(commands: &[(&str, &str)], patience: Duration) -> Result<Hooks, String> {
        let nodes = [("a".to_owned(), "127.0.0.1:1".to_owned()), ("b".to_owned(), "127.0.0.1:2".to_owned())];
        let commands = commands.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        Hooks::new(Side::default(), &nodes, commands, patience)
    }

    #[test]
    fn commands_know_what_they_are_for() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("said");
        let write = format!("echo $LAB_NODE $LAB_ADDRESS $LAB_CUT $LAB_DELAY_MS >>{}", file.display());
        let commands = [("kill", &*write), ("cut", &*write), ("slow-disk", &*write), ("leader", "echo I look; echo b")];
        let hooks = hooks(&commands, PATIENCE_DEFAULT).expect("they are right");
        hooks.kill(0).expect("it succeeds");
        hooks.cut(1, Cut::Deaf).expect("it succeeds");
        hooks.slow_disk(1, Duration::from_millis(10)).expect("it succeeds");
        let said = std::fs::read_to_string(&file).expect("a file");
        assert_eq!(said, "a 127.0.0.1:1\nb 127.0.0.1:2 deaf\nb 127.0.0.1:2 10\n");
        assert_eq!(hooks.leader(), Ok(1));
        assert!(!hooks.is_current(0), "nobody listens there");
    }

    #[test]
    fn failures_show_what_was_said() {
        let commands = [
            ("kill", "echo no such host >&2; exit 4"),
            ("pause", "echo I wait; sleep 600 & wait"),
            ("leader", "echo c"),
        ];
        let hooks = hooks(&commands, Duration::from_millis(200)).expect("they are right");
        let told = hooks.kill(0).expect_err("it fails");
        assert!(told.contains("exit status: 4") && told.contains("  no such host"), "{told}");
        let begin = Instant::now();
        let told = hooks.pause(0).expect_err("it takes too long");
        assert!(told.contains("has not ended within 0.2 s") && told.contains("I wait"), "{told}");
        assert!(begin.elapsed() < Duration::from_secs(60));
        assert!(hooks.resume(0).expect_err("there is none").contains("no command for resume"));
        assert!(hooks.leader().expect_err("no node").contains("\"c\""));
        assert!(hooks.kill(7).is_err());
    }

    #[test]
    fn what_is_given_is_checked() {
        assert!(hooks(&[("explode", "true")], PATIENCE_DEFAULT).expect_err("no action").contains("choose among kill"));
        let nodes = [("a".to_owned(), "nowhere".to_owned())];
        let wrong = Hooks::new(Side::default(), &nodes, BTreeMap::new(), PATIENCE_DEFAULT);
        assert!(wrong.expect_err("no port").contains("HOST:PORT"));
    }
}
