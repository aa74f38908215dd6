//! Handshakes with clients, on a thread of their own: a thousand clients that come at once take no turn of the loop.
//!
//! ```text
//!   loop or porter: first bytes of a client ──► thread: TLS ──► loop or porter: goes on, with a session
//! ```
//! The client keeps its place among the sockets meanwhile (`ClientSocket::Away`), and so counts as one; what is to be written to it waits there.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token, Waker};
use tls::{ClientHandshake, ClientProgress, ClientSession, ClientTls};

use super::{Control, Messenger};
use crate::client_tls::{ClientSecurity, PlainText};

/// A client that speaks TLS has so long for its handshake, with the time that it waits for the thread.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// So many wait for the thread at the most: some seconds of its work. Whoever comes on top of that is closed, and comes again.
const WAITING_MAX: usize = 4096;
/// How many the thread takes before it goes on with those that it has.
const TAKEN_AT_ONCE: usize = 64;
const WAKE: Token = Token(usize::MAX);

/// The socket, which blocks in no poll any more, and the session; or why there is none.
pub(crate) type Handshaken = Result<(std::net::TcpStream, Box<ClientSession>), String>;

struct Order {
    stream: std::net::TcpStream,
    said: Vec<u8>,
    connection: u64,
    until: Instant,
}

/// How those who have sockets treat new clients.
#[derive(Clone)]
pub(super) struct ClientDoor {
    orders: mpsc::SyncSender<Order>,
    waker: Arc<Waker>,
    pub(super) plain_text: PlainText,
}

impl ClientDoor {
    /// Starts the thread, which ends with the process.
    ///
    /// # Errors
    /// The system has no thread left, or no descriptor.
    pub(super) fn start(security: ClientSecurity, messenger: Messenger) -> io::Result<ClientDoor> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
        let (orders, taken) = mpsc::sync_channel(WAITING_MAX);
        let ClientSecurity { tls, plain_text } = security;
        let mut desk = Desk { poll, tls, messenger, under_way: Vec::new(), free: Vec::new() };
        thread::Builder::new().name("client-tls".to_owned()).spawn(move || desk.run(&taken))?;
        Ok(ClientDoor { orders, waker, plain_text })
    }

    /// Gives a client to the thread, with what was read of it; its socket is in no poll. False if too many wait.
    #[must_use]
    pub(super) fn give(&self, stream: TcpStream, said: Vec<u8>, connection: u64) -> bool {
        let until = Instant::now() + HANDSHAKE_TIMEOUT;
        let order = Order { stream: std::net::TcpStream::from(stream), said, connection, until };
        let is_taken = self.orders.try_send(order).is_ok();
        // It wakes by itself when one that it has is due.
        let _ = self.waker.wake();
        is_taken
    }
}

struct UnderWay {
    stream: TcpStream,
    handshake: Box<ClientHandshake>,
    connection: u64,
    until: Instant,
}

/// The thread's side.
struct Desk {
    poll: Poll,
    tls: ClientTls,
    messenger: Messenger,
    under_way: Vec<Option<UnderWay>>,
    free: Vec<usize>,
}

impl Desk {
    fn run(&mut self, orders: &mpsc::Receiver<Order>) {
        let mut events = Events::with_capacity(1024);
        let mut more_wait = false;
        let mut looked = Instant::now();
        loop {
            let is_idle = self.free.len() == self.under_way.len();
            let timeout = match (more_wait, is_idle) {
                (true, _) => Some(Duration::ZERO),
                (false, true) => None,
                (false, false) => Some(HANDSHAKE_TIMEOUT / 10),
            };
            if self.poll.poll(&mut events, timeout).is_err() {
                // A signal, which is for another thread.
                events.clear();
            }
            for event in events.iter().filter(|event| event.token() != WAKE) {
                self.advance(event.token().0);
            }
            more_wait = false;
            for taken in 0..=TAKEN_AT_ONCE {
                match orders.try_recv() {
                    Ok(order) => self.take(order),
                    Err(mpsc::TryRecvError::Empty) => break,
                    Err(mpsc::TryRecvError::Disconnected) => return,
                }
                more_wait = taken == TAKEN_AT_ONCE;
            }
            let now = Instant::now();
            if now.duration_since(looked) >= HANDSHAKE_TIMEOUT / 10 {
                looked = now;
                for place in 0..self.under_way.len() {
                    if self.under_way[place].as_ref().is_some_and(|it| it.until <= now) {
                        self.end(place, "its handshake took too long");
                    }
                }
            }
        }
    }

    fn take(&mut self, order: Order) {
        let Order { stream, said, connection, until } = order;
        if until <= Instant::now() {
            return self.messenger.tell(Control::Handshaken(connection, Err("it has waited too long".to_owned())));
        }
        let handshake = match self.tls.answer(said) {
            Ok(handshake) => Box::new(handshake),
            Err(reason) => return self.messenger.tell(Control::Handshaken(connection, Err(reason))),
        };
        let mut stream = TcpStream::from_std(stream);
        let place = self.free.pop().unwrap_or_else(|| {
            self.under_way.push(None);
            self.under_way.len() - 1
        });
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = self.poll.registry().register(&mut stream, Token(place), interest);
        self.under_way[place] = Some(UnderWay { stream, handshake, connection, until });
        match registered {
            Ok(()) => self.advance(place),
            Err(error) => self.end(place, &error.to_string()),
        }
    }

    fn leave(&mut self, place: usize) -> Option<UnderWay> {
        let under_way = self.under_way.get_mut(place)?.take()?;
        self.free.push(place);
        Some(under_way)
    }

    fn end(&mut self, place: usize, reason: &str) {
        if let Some(UnderWay { connection, .. }) = self.leave(place) {
            self.messenger.tell(Control::Handshaken(connection, Err(reason.to_owned())));
        }
    }

    fn advance(&mut self, place: usize) {
        let Some(UnderWay { mut stream, handshake, connection, until }) = self.leave(place) else { return };
        let outcome = match handshake.advance(&mut stream) {
            Ok(ClientProgress::Waits(handshake)) => {
                self.free.pop();
                self.under_way[place] = Some(UnderWay { stream, handshake, connection, until });
                return;
            }
            Ok(ClientProgress::Done(session)) => {
                let left = self.poll.registry().deregister(&mut stream);
                left.map(|()| (std::net::TcpStream::from(stream), session)).map_err(|error| error.to_string())
            }
            Err(failure) => Err(failure.reason),
        };
        self.messenger.tell(Control::Handshaken(connection, outcome));
    }
}
