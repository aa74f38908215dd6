//! File descriptors: who may have how many.
//!
//! A process may have so many, and clients take one each. The journal, the store and the links to peers must never be without: so clients of both kinds get what is
//! left, and not what there is. 300 idle HTTP connections once took the last one, and the node ended because its journal could not make a file.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::log;

/// The journal, the poll, listeners, the log, and what opens a file for a moment: snapshots, `/proc`, a name to look up.
const OWN_FILES: usize = 64;
/// Two for each of as many peers as most clusters have.
const PEER_FILES: usize = 32;
/// Most files of the store that it keeps open, if there are enough.
const STORE_FILES_MAX: usize = 900;
/// And no fewer than these.
const STORE_FILES_MIN: usize = 32;
/// Connections that each kind of client has at least, or the node does not start.
const CLIENTS_MIN: usize = 16;
/// With fewer a node does not start.
const FILES_MIN: usize = OWN_FILES + PEER_FILES + STORE_FILES_MIN + 2 * CLIENTS_MIN;

/// Who may have how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shares {
    /// Clients that speak RESP.
    pub(crate) clients: usize,
    /// Most of these that `CONFIG SET maxclients` may allow later.
    pub(crate) clients_room: usize,
    /// Connections of HTTP.
    pub(crate) http: usize,
    /// Files that the store keeps open.
    pub(crate) store: usize,
}

/// Raises the limit as far as the system lets us, and shares what there is.
///
/// # Errors
/// There are too few for a node.
pub(crate) fn share_out(clients_max: usize, http_max: usize) -> Result<Shares, String> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        log::debug(&format!("the limit of open files stays as it is: {error}"));
    }
    let files = getrlimit(Resource::Nofile).current;
    let files = files.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
    let shares = shares_of(files, clients_max, http_max)?;
    if shares.clients < clients_max || shares.http < http_max.min(clients_max) {
        log::warning(&format!(
            "at most {files} files may be open: so this node takes {} clients, of {clients_max} allowed, and {} HTTP connections; the others are kept for \
             its journal, its store and its peers. Raise the limit (ulimit -n), or lower --maxclients",
            shares.clients, shares.http
        ));
    }
    Ok(shares)
}

fn shares_of(files: usize, clients_max: usize, http_max: usize) -> Result<Shares, String> {
    if files < FILES_MIN {
        return Err(format!(
            "at most {files} files may be open, and a node needs {FILES_MIN}: for its journal, its store, its peers and some clients; raise the limit \
             (ulimit -n)"
        ));
    }
    let store = (files / 8).clamp(STORE_FILES_MIN, STORE_FILES_MAX);
    let left = files - OWN_FILES - PEER_FILES - store;
    // A quarter is for HTTP, unless RESP does not want the rest.
    let http = (left / 4).max(left.saturating_sub(clients_max)).min(http_max).max(CLIENTS_MIN);
    let clients_room = left - http;
    Ok(Shares { clients: clients_max.min(clients_room), clients_room, http, store })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_what_the_journal_needs() {
        let shares = |files| shares_of(files, 10_000, 10_000).expect("enough");
        assert_eq!(shares(256), Shares { clients: 96, clients_room: 96, http: 32, store: 32 });
        assert_eq!(shares(1024), Shares { clients: 600, clients_room: 600, http: 200, store: 128 });
        assert_eq!(shares(20_000), Shares { clients: 10_000, clients_room: 10_000, http: 9_004, store: 900 });
        let (clients_room, http) = (usize::MAX - 10_000 - 900 - OWN_FILES - PEER_FILES, 10_000);
        assert_eq!(shares(usize::MAX), Shares { clients: 10_000, clients_room, http, store: 900 });
        for files in FILES_MIN..5_000 {
            let Shares { clients, clients_room, http, store } = shares(files);
            assert!(
                clients <= clients_room && clients_room + http + store + OWN_FILES + PEER_FILES <= files,
                "{files}"
            );
            assert!(clients >= CLIENTS_MIN && http >= CLIENTS_MIN, "{files}");
        }
        assert!(shares_of(FILES_MIN - 1, 10_000, 10_000).is_err());
        assert_eq!(shares_of(1024, 20, 10_000).expect("enough").http, 780, "clients want no more");
    }
}
