//! Virtual client connections: how other threads of this process (HTTP) talk to the node in the loop.
//!
//! A [`VirtualConnection`] is to the node what a socket is: RESP bytes go in, RESP bytes come out, in order,
//! cut anywhere. Each has its own session, so transactions and `HELLO 3` work as over a socket.
//!
//! ```text
//!  HTTP thread                            loop thread
//!  connection.send(bytes)   ── queue ──►  Input::Received
//!  connection.receive()     ◄─ channel ─  Outbox::clients
//! ```
//! The queue into the loop is one for all connections, so that the loop looks in one place once a turn.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};

/// Most bytes that one virtual connection may have waiting for the loop; [`VirtualConnection::send`] waits beyond.
pub const VIRTUAL_INPUT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A change by so many bytes of what is not taken is told to the node.
const TOLD_BYTES_MIN: usize = 64 * 1024;

/// Wakes the loop out of its sleep. Given by the loop; a no-op where the loop is awake.
pub(crate) type Wake = Arc<dyn Fn() + Send + Sync>;

/// A handle to the node in the loop, for other threads. Cheap to clone.
#[derive(Clone)]
pub struct Bridge {
    shared: Arc<Shared>,
}

/// A client connection without a socket. Dropping it closes it.
pub struct VirtualConnection {
    shared: Arc<Shared>,
    connection: u64,
    flow: Arc<Flow>,
    replies: mpsc::UnboundedReceiver<Bytes>,
}

/// What another thread asks of the loop, in order.
pub(crate) enum Request {
    /// With a user: in that user's name. Without one the connection may do everything.
    Open {
        connection: u64,
        description: String,
        user: Option<Arc<[u8]>>,
        line: ReplyLine,
    },
    Send {
        connection: u64,
        bytes: Bytes,
    },
    Close {
        connection: u64,
    },
    /// Much of what was answered on it was taken.
    Taken {
        connection: u64,
    },
}

/// The loop's end of a virtual connection. Dropping it ends the connection for the other side.
pub(crate) struct ReplyLine {
    flow: Arc<Flow>,
    replies: mpsc::UnboundedSender<Bytes>,
}

/// Taken by the loop once a turn.
pub(crate) struct Requests {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Vec<Request>>,
    /// Whether `queue` holds anything: lets the loop look without a lock.
    filled: AtomicBool,
    /// Numbers all connections of the process, those with sockets as well.
    connections: Arc<AtomicU64>,
    wake: Wake,
}

/// How much is under way on one connection, in both directions.
#[derive(Default)]
struct Flow {
    input_bytes: AtomicUsize,
    output_bytes: AtomicUsize,
    /// The last count of them that the node was told.
    told_bytes: AtomicUsize,
    paused: AtomicBool,
    room: Notify,
}

/// A bridge and the loop's end of it. `connections` hands out connection numbers.
pub(crate) fn bridge(connections: Arc<AtomicU64>, wake: Wake) -> (Bridge, Requests) {
    let shared = Arc::new(Shared { queue: Mutex::default(), filled: AtomicBool::new(false), connections, wake });
    (Bridge { shared: Arc::clone(&shared) }, Requests { shared })
}

impl Bridge {
    /// Opens a connection to the node. `description` stands where a socket has its address (`CLIENT LIST`),
    /// for example `http 127.0.0.1:50312`. The node greets nobody: the first bytes are the caller's.
    ///
    /// The connection may do everything: it is for what this process does by itself.
    #[must_use]
    pub fn open(&self, description: &str) -> VirtualConnection {
        self.open_as(description, None)
    }

    /// As [`Bridge::open`], with the rights of a user that the caller has let in. The connection ends with the user.
    #[must_use]
    pub fn open_for(&self, description: &str, user: &Arc<[u8]>) -> VirtualConnection {
        self.open_as(description, Some(Arc::clone(user)))
    }

    fn open_as(&self, description: &str, user: Option<Arc<[u8]>>) -> VirtualConnection {
        let connection = self.shared.connections.fetch_add(1, Ordering::Relaxed);
        let flow = Arc::new(Flow::default());
        let (sender, replies) = mpsc::unbounded_channel();
        let line = ReplyLine { flow: Arc::clone(&flow), replies: sender };
        self.shared.push(Request::Open { connection, description: description.to_owned(), user, line });
        VirtualConnection { shared: Arc::clone(&self.shared), connection, flow, replies }
    }
}

impl VirtualConnection {
    /// Sends RESP bytes to the node. Waits while the node has enough of this connection's commands
    /// ([`VIRTUAL_INPUT_BYTES_MAX`], or the node paused it). One piece may be of any size.
    ///
    /// Whether the node has closed the connection shows in [`VirtualConnection::receive`], not here.
    pub async fn send(&self, bytes: impl Into<Bytes>) {
        loop {
            let room = self.flow.room.notified();
            if !self.flow.is_full() {
                break;
            }
            room.await;
        }
        self.send_now(bytes);
    }

    /// As [`VirtualConnection::send`], without waiting: for callers that bound what they have under way themselves.
    pub fn send_now(&self, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        self.flow.input_bytes.fetch_add(bytes.len(), Ordering::Relaxed);
        self.shared.push(Request::Send { connection: self.connection, bytes });
    }

    /// The next reply bytes, cut anywhere; `None` once the node has closed the connection or the process stops.
    /// May be dropped while it waits (in a `select!` or a timeout) without losing anything.
    pub async fn receive(&mut self) -> Option<Bytes> {
        let bytes = self.replies.recv().await?;
        let left = self.flow.output_bytes.fetch_sub(bytes.len(), Ordering::AcqRel) - bytes.len();
        // The loop looks again what is left, so it does no harm if more has come meanwhile.
        if is_news(left, self.flow.told_bytes.load(Ordering::Acquire)) {
            self.shared.push(Request::Taken { connection: self.connection });
        }
        Some(bytes)
    }
}

/// True if the node is to be told this count of bytes that were not taken; `told`: the last one that it was told.
fn is_news(bytes: usize, told: usize) -> bool {
    bytes.abs_diff(told) >= TOLD_BYTES_MIN || (bytes == 0 && told > 0)
}

impl Drop for VirtualConnection {
    fn drop(&mut self) {
        self.shared.push(Request::Close { connection: self.connection });
    }
}

impl Flow {
    fn is_full(&self) -> bool {
        self.paused.load(Ordering::Acquire) || self.input_bytes.load(Ordering::Acquire) >= VIRTUAL_INPUT_BYTES_MAX
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Vec<Request>> {
        // Nothing that runs under this lock can panic half way through a change.
        self.queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn push(&self, request: Request) {
        self.lock().push(request);
        self.filled.store(true, Ordering::SeqCst);
        (self.wake)();
    }
}

impl Requests {
    /// Whether [`Requests::take`] would yield anything.
    pub(crate) fn waiting(&self) -> bool {
        self.shared.filled.load(Ordering::SeqCst)
    }

    /// Moves all that waits to the end of `into`.
    pub(crate) fn take(&self, into: &mut Vec<Request>) {
        let mut queue = self.shared.lock();
        self.shared.filled.store(false, Ordering::SeqCst);
        into.append(&mut queue);
    }
}

impl ReplyLine {
    /// Hands reply bytes over. Returns how many bytes the other side has not taken yet.
    pub(crate) fn reply(&self, bytes: Bytes) -> usize {
        let length = bytes.len();
        let before = self.flow.output_bytes.fetch_add(length, Ordering::AcqRel);
        // An error means that the other side is gone; its Close request is on its way.
        let _ = self.replies.send(bytes);
        before + length
    }

    /// How many bytes the other side has not taken, if the node is to be told of that now.
    pub(crate) fn unread_news(&self) -> Option<usize> {
        let bytes = self.flow.output_bytes.load(Ordering::Acquire);
        let is_news = is_news(bytes, self.flow.told_bytes.load(Ordering::Acquire));
        is_news.then(|| {
            self.flow.told_bytes.store(bytes, Ordering::Release);
            bytes
        })
    }

    /// Says that `length` bytes of input were given to the node.
    pub(crate) fn consumed(&self, length: usize) {
        self.flow.input_bytes.fetch_sub(length, Ordering::AcqRel);
        self.flow.room.notify_one();
    }

    /// Stops or lets go on what the other side sends.
    pub(crate) fn pause(&self, paused: bool) {
        self.flow.paused.store(paused, Ordering::Release);
        if !paused {
            self.flow.room.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
