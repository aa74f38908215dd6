//! What `dictum unsafe-recover` does with a stopped node's folder, in the same steps.

use std::collections::BTreeMap;

use base::{NodeId, PartitionId, WallTime};
use node::alone::{Plan, Survivor, plan};
use node::inspect::{Digests, logs};
use node::{Member, Planted, Recovered};
use storage::{Identity, Journal, JournalOptions, LoadedIdentity, verify_journal};

use super::starting::{below, read_snapshots};
use crate::disk::SimDisk;

/// What the operator knows.
#[derive(Clone, Debug)]
pub struct Alone {
    /// Whose folder it is.
    pub me: NodeId,
    /// All founders of the cluster.
    pub founders: Vec<Member>,
    /// Who has joined since, as the folder's identity would say it.
    pub joined: Vec<(NodeId, Member)>,
    /// The new name of the cluster.
    pub cluster: u64,
    /// What the clock says.
    pub now: WallTime,
    /// For the journal.
    pub journal: JournalOptions,
    /// States are in the folder's store.
    pub uses_store: bool,
    /// A mistake for the checkers to find.
    pub planted: Option<Planted>,
}

impl Alone {
    /// What would be, and what the disk has of each log behind its state: nothing is changed.
    ///
    /// # Errors
    /// Why this node cannot be the one.
    pub fn look(&self, disk: &SimDisk) -> Result<(Plan, BTreeMap<PartitionId, Digests>), String> {
        let read = || {
            let journal = verify_journal(disk, &mut |_| ()).map_err(|error| error.to_string())?.recovered;
            self.recovered(disk, journal)
        };
        Ok((self.plan(read()?)?, logs(read()?)?))
    }

    /// Does it, as far as the disk goes along.
    ///
    /// # Errors
    /// What failed; either nothing was done or all of it.
    pub fn carry_out(&self, disk: &SimDisk) -> Result<(), String> {
        let opened = Journal::open(disk.clone(), self.journal);
        let (mut journal, recovered) = opened.map_err(|error| format!("the journal cannot be opened: {error}"))?;
        let planned = self.plan(self.recovered(disk, recovered)?)?;
        if !planned.is_alone {
            journal.commit(&[&planned.payload]).map_err(|error| format!("the journal cannot be written: {error}"))?;
        }
        Ok(())
    }

    fn recovered(&self, disk: &SimDisk, journal: storage::Recovered) -> Result<Recovered, String> {
        let incarnation = match Identity::load(disk).map_err(|error| format!("the identity cannot be read: {error}"))? {
            LoadedIdentity::Found(identity) => identity.incarnation,
            LoadedIdentity::Missing | LoadedIdentity::Damaged(_) => {
                return Err("the folder does not say whose it is".to_owned());
            }
        };
        let (snapshots, snapshot_damaged) =
            read_snapshots(disk).map_err(|error| format!("a snapshot cannot be read: {error}"))?;
        let store = self.uses_store.then(|| below(disk, std::sync::Arc::new(disk.store())));
        Ok(Recovered { incarnation, journal, snapshots, snapshot_damaged, store })
    }

    fn plan(&self, recovered: Recovered) -> Result<Plan, String> {
        let Alone { me, founders, joined, cluster, now, planted, .. } = self;
        let survivor = Survivor { me: *me, founders, joined, cluster: *cluster, now: *now, planted: *planted };
        plan(recovered, &survivor)
    }
}
