//! What every system under test can be asked and told, whoever made it. Nodes are numbered from 0.

use std::time::Duration;

use super::counters::Counters;
use crate::record::Side;

/// In which directions a node is cut off from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It neither hears the others nor is heard.
    Both,
    /// It is heard and hears nobody.
    Deaf,
    /// It hears and is not heard.
    Mute,
}

/// A system under test. Everything may be called from any thread, beside a load.
///
/// What a system cannot do it answers with an error that says so; the same holds for a node that does not run.
pub trait System: Send + Sync {
    /// What reports say of it.
    fn side(&self) -> Side;

    /// The nodes' names, by number.
    fn names(&self) -> Vec<String>;

    /// Where clients reach the nodes, `IP:PORT`, by number.
    fn addresses(&self) -> Vec<String>;

    /// Commands that every connection of a load sends first.
    fn prologue(&self) -> Vec<Vec<String>> {
        Vec::new()
    }

    /// A command that a load sends behind each write, in the same piece; the write is answered when both are.
    fn after_write(&self) -> Option<Vec<String>> {
        None
    }

    /// Who leads, as most of the nodes that answer see it.
    ///
    /// # Errors
    /// When nobody does at the moment.
    fn leader(&self) -> Result<usize, String>;

    /// Whether the node serves and has what the others have, but for what is on its way.
    fn is_current(&self, node: usize) -> bool;

    /// Ends the node at once, as `kill -9` does; returns when it is gone.
    ///
    /// # Errors
    /// See the trait.
    fn kill(&self, node: usize) -> Result<(), String>;

    /// Asks the node to stop in good order; does not wait.
    ///
    /// # Errors
    /// See the trait.
    fn terminate(&self, node: usize) -> Result<(), String>;

    /// Starts a node that has ended, as it was started before; waits for an end that was asked for, not for the node to serve.
    ///
    /// # Errors
    /// See the trait.
    fn start_again(&self, node: usize) -> Result<(), String>;

    /// Holds the node, with all its threads.
    ///
    /// # Errors
    /// See the trait.
    fn pause(&self, node: usize) -> Result<(), String>;

    /// Lets a node that is held go on.
    ///
    /// # Errors
    /// See the trait.
    fn resume(&self, node: usize) -> Result<(), String>;

    /// Cuts the node off from all others; clients still reach it.
    ///
    /// # Errors
    /// See the trait.
    fn cut(&self, _node: usize, _cut: Cut) -> Result<(), String> {
        Err(unable("cut a node off"))
    }

    /// Undoes all cuts.
    ///
    /// # Errors
    /// See the trait.
    fn heal(&self) -> Result<(), String> {
        Err(unable("heal what it cannot cut"))
    }

    /// Messages between the node and each other one arrive so much later, both ways; nothing for as usual.
    ///
    /// # Errors
    /// See the trait.
    fn slow_links(&self, _node: usize, _delay: Duration) -> Result<(), String> {
        Err(unable("delay messages"))
    }

    /// Every sync of the node's log takes so much longer; nothing for as usual.
    ///
    /// # Errors
    /// See the trait.
    fn slow_disk(&self, _node: usize, _delay: Duration) -> Result<(), String> {
        Err(unable("make a disk slow"))
    }

    /// Starts neighbours that take these shares of one processor each, instead of those before; none for silence.
    ///
    /// # Errors
    /// See the trait.
    fn noise(&self, _shares: &[f64]) -> Result<(), String> {
        Err(unable("make noise"))
    }

    /// Whether it is able to do one of [`crate::faults::hooks::ACTIONS`], as far as is known before it is tried.
    fn can(&self, _action: &str) -> bool {
        true
    }

    /// Up to which entry of its log each node has applied it, by number; nothing of a node that does not answer now. Empty if the system does
    /// not tell.
    fn applied(&self) -> Vec<Option<u64>> {
        Vec::new()
    }

    /// Process ids, by number; nothing for nodes that do not run on this machine, or not now.
    fn process_ids(&self) -> Vec<Option<u32>> {
        vec![None; self.names().len()]
    }

    /// Whether all nodes run that nobody has told to end; to be asked when a measurement is over, whose figures are worth nothing else.
    ///
    /// # Errors
    /// Which node has ended by itself, and what it has said last.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// What the system has used so far. The difference of two tells what happened between them.
    fn counters(&self) -> Counters {
        Counters::default()
    }
}

/// The error of a system that cannot do something.
fn unable(what: &str) -> String {
    format!("this system cannot {what}; choose another fault, or a cluster of Dictum that the laboratory starts")
}
