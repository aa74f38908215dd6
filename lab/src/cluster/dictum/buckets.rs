//! Buckets of a cluster: made for a load, and dropped when it is over.

use std::time::{Duration, Instant};

use super::super::ask::Asker;
use super::super::system::System;
use super::{Cluster, start};
use crate::drive::Target;
use crate::drive::blocking::Blocking;

/// How long one question may take: a bucket of many partitions elects many leaders first.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

impl Cluster {
    /// Makes a persistent bucket of so many partitions. Returns when every node serves every partition of it.
    ///
    /// # Errors
    /// When it cannot be made, or does not serve in time.
    pub fn make_bucket(&self, name: &str, partitions: u32) -> Result<(), String> {
        let count = partitions.to_string();
        self.bucket_order(&["DICTUM.BUCKET", "CREATE", name, "PARTITIONS", &count])?;
        let end = Instant::now() + self.options.patience;
        let mut target = Target::parse(&format!("redis://{}", self.addresses().join(",")))?;
        target.bucket = Some(name.to_owned());
        for (_, address) in &target.addresses {
            start::wait(end, || {
                let mut connection = Blocking::open(*address, &target.greeting(), ANSWER_PATIENCE)?;
                // It writes to each partition: done, each has a leader that this node reaches.
                match connection.ask(&["FLUSHDB"])?.as_error() {
                    None => Ok(()),
                    Some(error) => Err(format!("the bucket {name} does not serve: {error}")),
                }
            })?;
        }
        Ok(())
    }

    /// Drops a bucket with all its keys.
    ///
    /// # Errors
    /// When it cannot be dropped.
    pub fn drop_bucket(&self, name: &str) -> Result<(), String> {
        self.bucket_order(&["DICTUM.BUCKET", "DROP", name, "CONFIRM"])
    }

    fn bucket_order(&self, words: &[&str]) -> Result<(), String> {
        let first: &Asker = &self.node(0)?.resp;
        first.call(words, ANSWER_PATIENCE).map(|_| ())
    }
}
