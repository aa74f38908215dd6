//! Clients that route by themselves: what one of them is told of a command whose keys another node leads.
//!
//! | keys of a command | what becomes of it |
//! |---|---|
//! | of different hash slots | `CROSSSLOT`, even where one partition has both: what a client may ask does not depend on how a bucket is cut |
//! | of a partition that this node leads | it is done here |
//! | of one that another node leads | `MOVED` to there; unless it only reads, and `READONLY` was said: then it reads what this node's replica has |
//! | of one whose leader has no address for such clients | it is forwarded: nobody could say where to |
//! | of one that nobody leads | `CLUSTERDOWN` |
//! | none | it is done by the node that is asked; if it is about all keys, it is about those of the slots that are shown as this node's |
//!
//! Nothing depends on whether this node is right about the leader: what it takes goes through its router as everything else, which finds the leader.

use base::BucketId;
use base::slots::hash_slot;
use data::Failure;
use data::spec::{Flags, Spec};

use crate::bucket::Bucket;
use crate::choice::{NOT_CHOSEN, NOTHING_CHOSEN};
use crate::door::Planted;
use crate::node::{Node, place_of};
use crate::routing::CROSS_SLOT;
use crate::session::Session;

/// What is known of a connection that routes by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Redirected {
    /// It has said `READONLY`: replicas may answer what it reads.
    pub read_only: bool,
    /// It has named its bucket by its user; if not, it sees that of the listener.
    pub has_chosen: bool,
}

/// Stands for the listener's bucket as long as there is none of that name. No bucket has this number.
const NOT_THERE: BucketId = BucketId(u32::MAX - 1);

// Redis's texts, which clients know.
const NOT_SERVED: Failure = Failure::Text("CLUSTERDOWN Hash slot not served");
const IS_REPLICA: Failure = Failure::Text("READONLY You can't write against a read only replica.");

/// Commands without keys that change what a partition holds. (`SCRIPT LOAD` and its kind, which Redis takes at replicas too, go to all partitions.)
const WRITES_WITHOUT_KEYS: [&str; 6] =
    ["flushall", "flushdb", "function|load", "function|delete", "function|flush", "function|restore"];

impl Node {
    /// A connection to the listener of those who route by themselves.
    pub(crate) fn begin_redirecting(&self, session: &mut Session) {
        session.redirected = Some(Redirected::default());
        session.begin_in(self.bucket_of_listener());
    }

    /// The bucket that the connection sees when nothing is said.
    pub(crate) fn usual_bucket(&self, session: &Session) -> BucketId {
        if session.redirected.is_some() { self.bucket_of_listener() } else { BucketId(0) }
    }

    /// The bucket that a user's name stands for.
    pub(crate) fn bucket_of_user(&self, session: &Session, user: &[u8]) -> Option<BucketId> {
        if user == b"default" {
            return Some(self.usual_bucket(session));
        }
        std::str::from_utf8(user).ok().and_then(|name| self.buckets.named(name)).map(|bucket| bucket.id)
    }

    fn bucket_of_listener(&self) -> BucketId {
        self.buckets.named(&self.config.cluster_bucket).map_or(NOT_THERE, |bucket| bucket.id)
    }

    /// Looks for the listener's bucket again if the one that the connection had is not there: it cannot `SELECT` another one.
    pub(crate) fn find_bucket_again(&self, session: &mut Session) {
        let is_lost = session.redirected.is_some_and(|it| !it.has_chosen) && self.buckets.of(session.bucket).is_none();
        if is_lost && session.queue.is_none() && session.watches.is_empty() {
            session.begin_in(self.bucket_of_listener());
        }
    }

    /// The bucket of a connection that routes by itself.
    ///
    /// # Errors
    /// With a text that says what to do, if it is not there.
    pub(crate) fn bucket_shown(&self, session: &Session) -> Result<&Bucket, Failure> {
        self.buckets.of(session.bucket).ok_or_else(|| {
            if session.bucket == NOT_CHOSEN {
                return Failure::Text(NOTHING_CHOSEN);
            }
            let name = &self.config.cluster_bucket;
            let text = format!(
                "CLUSTERDOWN there is no bucket {name}, which this listener shows (yet, or any more); the command was not done. \
                 Create it: DICTUM.BUCKET CREATE {name}"
            );
            Failure::built(text.as_bytes())
        })
    }

    /// Why a command is not done by this node, if so: see the file's head. `words` fit `spec`.
    pub(crate) fn redirection(&self, session: &Session, spec: &Spec, words: &[&[u8]]) -> Option<Failure> {
        session.redirected?;
        let writes = spec.flags.has(Flags::WRITE);
        let keys = spec.keys_of(words);
        if !keys.is_empty() {
            return self.redirection_of(session, keys.into_iter(), writes);
        }
        let bucket = match self.bucket_shown(session) {
            Ok(bucket) => bucket,
            Err(failure) => return Some(failure),
        };
        let changes = writes && WRITES_WITHOUT_KEYS.contains(&spec.name_of(words));
        (changes && self.topology(bucket).is_replica(self.config.me)).then_some(IS_REPLICA)
    }

    /// The same for these keys.
    pub(crate) fn redirection_of<'a>(
        &self,
        session: &Session,
        mut keys: impl Iterator<Item = &'a [u8]>,
        writes: bool,
    ) -> Option<Failure> {
        let Redirected { read_only, .. } = session.redirected?;
        let slot = hash_slot(keys.next()?);
        if !keys.all(|key| hash_slot(key) == slot) {
            return Some(CROSS_SLOT);
        }
        let bucket = match self.bucket_shown(session) {
            Ok(bucket) => bucket,
            Err(failure) => return Some(failure),
        };
        let partition = bucket.partition_of(slot);
        let is_here = place_of(&self.groups, partition).is_some_and(|g| self.groups[g].elsewhere.is_none());
        let reads_replica = (read_only || self.serves_all_reads()) && !writes && is_here;
        match self.leader(partition) {
            _ if reads_replica => None,
            None => Some(NOT_SERVED),
            Some((leader, _)) if leader == self.config.me => None,
            Some((leader, _)) => {
                let is_wrong = self.config.planted == Some(Planted::MovedToItself);
                let address = self.cluster_address_of(if is_wrong { self.config.me } else { leader });
                (!address.is_empty()).then(|| Failure::built(format!("MOVED {slot} {address}").as_bytes()))
            }
        }
    }

    /// Whether a read of the connection is served by this node's replica of a partition as it is, because `READONLY` was said.
    pub(crate) fn reads_replica(&self, session: &Session, g: usize) -> bool {
        let wants = session.redirected.is_some_and(|it| it.read_only || self.serves_all_reads());
        wants && self.groups[g].partition.replica.leads().is_none()
    }

    fn serves_all_reads(&self) -> bool {
        self.config.planted == Some(Planted::ServedWhereItShouldRedirect)
    }
}

/// Refuses names of shard channels that belong to different slots. (Any node serves any of them: a message reaches all nodes.)
///
/// # Errors
/// As Redis.
pub(crate) fn check_channels(session: &Session, names: &[&[u8]]) -> Result<(), Failure> {
    let differ = names.windows(2).any(|pair| hash_slot(pair[0]) != hash_slot(pair[1]));
    if session.redirected.is_some() && differ { Err(CROSS_SLOT) } else { Ok(()) }
}
