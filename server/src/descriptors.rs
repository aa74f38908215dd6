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
/// Most callers at the address for peers that have not proven yet that they are nodes.
const HANDSHAKE_FILES_MAX: usize = 320;
/// So many of them there may be in any case.
const HANDSHAKE_FILES_MIN: usize = 16;
/// Most files of the store that it keeps open, if there are enough.
const STORE_FILES_MAX: usize = 900;
/// And no fewer than these.
const STORE_FILES_MIN: usize = 32;
/// Connections that each kind of client has at least, or the node does not start.
const CLIENTS_MIN: usize = 16;
/// With fewer a node does not start.
const FILES_MIN: usize = OWN_FILES + PEER_FILES + HANDSHAKE_FILES_MIN + STORE_FILES_MIN + 2 * CLIENTS_MIN;

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
    /// Callers at the address for peers whose handshakes are under way.
    pub(crate) handshakes: usize,
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
    let handshakes = (files / 16).clamp(HANDSHAKE_FILES_MIN, HANDSHAKE_FILES_MAX);
    let left = files - OWN_FILES - PEER_FILES - handshakes - store;
    // A quarter is for HTTP, unless RESP does not want the rest.
    let http = (left / 4).max(left.saturating_sub(clients_max)).min(http_max).max(CLIENTS_MIN);
    let clients_room = left - http;
    Ok(Shares { clients: clients_max.min(clients_room), clients_room, http, store, handshakes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_what_the_journal_needs() {
        let shares = |files| shares_of(files, 10_000, 10_000).expect("enough");
        let of =
            |clients, clients_room, http, store, handshakes| Shares { clients, clients_room, http, store, handshakes };
        assert_eq!(shares(256), of(84, 84, 28, 32, 16));
        assert_eq!(shares(1024), of(552, 552, 184, 128, 64));
        assert_eq!(shares(20_000), of(10_000, 10_000, 8_684, 900, 320));
        let (clients_room, http) = (usize::MAX - 10_000 - 900 - 320 - OWN_FILES - PEER_FILES, 10_000);
        assert_eq!(shares(usize::MAX), of(10_000, clients_room, http, 900, 320));
        for files in FILES_MIN..5_000 {
            let Shares { clients, clients_room, http, store, handshakes } = shares(files);
            let all = clients_room + http + store + handshakes + OWN_FILES + PEER_FILES;
            assert!(clients <= clients_room && all <= files, "{files}");
            assert!(clients >= CLIENTS_MIN && http >= CLIENTS_MIN, "{files}");
        }
        assert!(shares_of(FILES_MIN - 1, 10_000, 10_000).is_err());
        assert_eq!(shares_of(1024, 20, 10_000).expect("enough").http, 716, "clients want no more");
    }
}
