//! Clients, connections and operations under way: plain structs of a worker.

use std::collections::VecDeque;
use std::net::SocketAddr;

use mio::net::TcpStream;

use crate::drive::Driver;

/// No connection yet.
pub(super) const NONE: usize = usize::MAX;

/// One client: its operations under way are at most the pipeline's depth.
#[derive(Debug)]
pub(super) struct Client {
    /// Its number in the whole load.
    pub number: u32,
    /// Its connection to each node, or [`NONE`]; without a cluster only the first place is used.
    pub links: Vec<usize>,
    /// Operations under way.
    pub under_way: u32,
    /// Free places that wait for a connection (open loop).
    pub parked: u32,
    /// It was called back, and begins nothing where it is.
    pub leaving: bool,
}

impl Client {
    pub(super) fn new(number: u32) -> Client {
        Client { number, links: Vec::new(), under_way: 0, parked: 0, leaving: false }
    }
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Until it is writable.
    Connecting,
    /// So many answers of the greeting are lacking.
    Greeting(usize),
    /// Ready.
    Open,
    /// Lost, or never had; to be tried again at this time.
    Down(u64),
}

/// One connection of one client.
#[derive(Debug)]
pub(super) struct Connection {
    /// The client's place among the worker's.
    pub client: usize,
    /// The place of the address among the target's, or the node's in the cluster's map.
    pub node: usize,
    pub address: SocketAddr,
    pub state: State,
    pub stream: Option<TcpStream>,
    pub driver: Driver,
    /// When the attempt to connect began.
    pub began: u64,
    /// Attempts that failed, one after the other.
    pub failures: u32,
    /// Written from `out_at` on.
    pub out: Vec<u8>,
    pub out_at: usize,
    /// The system's buffer is full: a `writable` is to come.
    pub blocked: bool,
    pub dirty: bool,
    /// The beginning of an answer that has not arrived whole.
    pub rest: Vec<u8>,
    /// Commands that have no answer yet, in the order in which they were written.
    pub awaited: VecDeque<Awaited>,
}

impl Connection {
    pub(super) fn is_open(&self) -> bool {
        self.state == State::Open
    }
}

/// A command that has no answer yet.
#[derive(Debug)]
pub(super) struct Awaited {
    /// Its operation's place, or [`Awaited::NOBODY`].
    pub flight: u32,
    /// When it was handed to the connection.
    pub from: u64,
    /// What some loads need to know of it.
    pub extra: Option<Box<Extra>>,
}

impl Awaited {
    /// The answer is of interest to nobody: that to `ASKING`.
    pub(super) const NOBODY: u32 = u32::MAX;
    /// The answer is the cluster's map.
    pub(super) const MAP: u32 = u32::MAX - 1;
}

/// The words of a command: for the observer, and to send it again to another node.
#[derive(Debug)]
pub(super) struct Extra {
    pub words: Vec<Vec<u8>>,
    pub redirected: u32,
}

/// An operation under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    /// The client's place among the worker's.
    pub client: u32,
    pub kind: u32,
    /// When it was due.
    pub intended: u64,
    /// When its first command was handed to a connection.
    pub sent: u64,
    /// How long after it was due that was, although its client was free.
    pub late: u64,
    pub token: u64,
    /// Answers that its step lacks.
    pub awaited: u32,
    pub follow: bool,
    pub failed: bool,
}
