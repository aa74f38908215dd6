//! From a backup into an RDB file, which a Redis loads.
//!
//! A Redis has databases by number, and libraries of functions for all of them. So the bucket `default` is database 0, the bucket `5` database 5, and the libraries are those of
//! the first database that is written; one bucket of any other name can be written alone, as database 0.

use std::io::{self, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use node::rdb::RdbWriter;
use node::{COMPATIBLE_VERSION, RebuildError};

use super::chain::Chain;
use super::manifest::Bucket;
use super::restoring::Scratch;
use crate::check::Progress;

/// What was written.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub keys: u64,
    /// Buckets that have no number.
    pub without_number: Vec<String>,
    /// Databases whose libraries of functions are not in the file.
    pub without_libraries: Vec<u64>,
}

/// The number of the database that a bucket is, if it is one.
pub(super) fn database_of(bucket: &str) -> Option<u64> {
    if bucket == "default" {
        return Some(0);
    }
    let number: u64 = bucket.parse().ok()?;
    (number > 0 && number.to_string() == bucket).then_some(number)
}

/// Writes all databases of the backup in `dir`, or one bucket of any name.
pub(super) fn export(
    dir: &Path,
    bucket: Option<&str>,
    scratch: &Scratch,
    out: &mut dyn Write,
    progress: &Progress,
) -> Result<Written, String> {
    let chain = Chain::open(dir)?;
    let mut written = Written::default();
    let mut databases: Vec<(u64, &Bucket)> = Vec::new();
    for it in &chain.newest().buckets {
        let name = it.bucket.name.as_str();
        match bucket {
            Some(wanted) if wanted == name => databases.push((database_of(name).unwrap_or(0), it)),
            Some(_) => {}
            None => match database_of(name) {
                Some(number) => databases.push((number, it)),
                None => written.without_number.push(name.to_owned()),
            },
        }
    }
    if let (Some(name), true) = (bucket, databases.is_empty()) {
        return Err(format!("the backup has no bucket '{name}'"));
    }
    databases.sort_by_key(|(number, _)| *number);
    let mut file = RdbWriter::new(|bytes: &[u8]| {
        progress.go_on()?;
        out.write_all(bytes).map_err(unwritten)
    });
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()).to_string();
    let about = [
        ("redis-ver", COMPATIBLE_VERSION),
        ("redis-bits", "64"),
        ("ctime", &now),
        ("dictum", env!("CARGO_PKG_VERSION")),
    ];
    about.into_iter().try_for_each(|(name, value)| file.auxiliary(name, value))?;
    for (place, (number, bucket)) in databases.into_iter().enumerate() {
        for index in 0..bucket.partitions.len() {
            let about = |text| format!("bucket {}, partition {index}: {text}", bucket.bucket.name);
            let archives = scratch.read_all(&chain, bucket, index, progress).map_err(about)?;
            if let (Some(newest), 0) = (archives.first(), index) {
                // Libraries stand before all keys.
                if place == 0 {
                    newest.rdb_libraries(&mut file)?;
                } else if newest.has_libraries() {
                    written.without_libraries.push(number);
                }
                file.database(number, bucket.partitions.iter().map(|partition| partition.keys).sum())?;
            }
            for (place, archive) in archives.iter().enumerate() {
                written.keys += archive.rdb(&archives[..place], &mut file).map_err(|error| match error {
                    RebuildError::Unreadable(text) => about(text),
                    RebuildError::Said(text) => text,
                })?;
            }
            drop(archives);
            scratch.clear().map_err(about)?;
        }
    }
    file.end()?;
    out.flush().map_err(unwritten)?;
    Ok(written)
}

fn unwritten(error: io::Error) -> String {
    format!("the output cannot be written: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_are_told_from_buckets_by_name() {
        assert_eq!(["default", "5", "15", "1000"].map(database_of), [Some(0), Some(5), Some(15), Some(1000)]);
        assert_eq!(["users", "0", "05", "+5", "5a", "", "99999999999999999999"].map(database_of), [None; 7]);
    }
}
