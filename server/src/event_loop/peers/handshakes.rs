//! Handshakes, on a thread of their own: what a stranger costs is no turn of the loop.
//!
//! ```text
//!   loop: accepted, or connected ──► thread: TLS, and the proof of the cluster's secret ──► loop: greets
//! ```
//! The loop gets links whose other side knows the secret, and hears why a node that it called is none of the cluster. Strangers are ended after a while, and are few: the
//! one that has waited for longest makes way.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use base::NodeId;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token, Waker};
use tls::{Handshake, Progress, Session};

use super::GREETING_TIMEOUT;
use crate::event_loop::{Control, Messenger};
use crate::peer_tls::{PeerSecurity, PeerTlsMode, Socket};

/// Most handshakes that are under way.
const UNDER_WAY_MAX: usize = 256;
const WAKE: Token = Token(UNDER_WAY_MAX);

/// A link whose handshake has come to an end.
#[derive(Debug)]
pub(crate) struct Arrival {
    /// Whom this node has called; nobody if it was called.
    pub(super) dialled: Option<NodeId>,
    pub(super) remote: SocketAddr,
    /// The link, or why there is none.
    pub(super) outcome: Result<Socket<TcpStream>, String>,
}

/// The loop's side. The thread ends with it.
#[derive(Debug)]
pub(in crate::event_loop) struct Handshakes {
    orders: mpsc::Sender<Order>,
    waker: Waker,
    mode: PeerTlsMode,
}

#[derive(Debug)]
struct Order {
    stream: std::net::TcpStream,
    dialled: Option<NodeId>,
    remote: SocketAddr,
}

enum Stage {
    /// The first bytes tell in which language the caller speaks.
    Listening,
    Negotiating(Box<Handshake>),
}

struct UnderWay {
    stream: TcpStream,
    stage: Stage,
    dialled: Option<NodeId>,
    remote: SocketAddr,
    until: Instant,
}

impl Handshakes {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread left, or no descriptor.
    pub(in crate::event_loop) fn start(security: PeerSecurity, messenger: Messenger) -> io::Result<Handshakes> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let (orders, taken) = mpsc::channel();
        let mode = security.mode;
        let mut desk = Desk { poll, security, messenger, under_way: Vec::new() };
        thread::Builder::new().name("handshakes".to_owned()).spawn(move || desk.run(&taken))?;
        Ok(Handshakes { orders, waker, mode })
    }

    /// Whether nodes that speak in plain text are spoken to.
    pub(super) fn takes_plain(&self) -> bool {
        self.mode == PeerTlsMode::Prefer
    }

    /// Gives a connection to the thread: one that this node has made to a peer, or one that somebody else has made. It is in no poll.
    pub(super) fn give(&self, stream: TcpStream, dialled: Option<NodeId>, remote: SocketAddr) {
        let stream = std::net::TcpStream::from(stream);
        // An error means that the thread has ended, as it does with the process.
        let _ = self.orders.send(Order { stream, dialled, remote });
        let _ = self.waker.wake();
    }
}

/// The thread's side.
struct Desk {
    poll: Poll,
    security: PeerSecurity,
    messenger: Messenger,
    under_way: Vec<Option<UnderWay>>,
}

impl Desk {
    fn run(&mut self, orders: &mpsc::Receiver<Order>) {
        let mut events = Events::with_capacity(UNDER_WAY_MAX + 1);
        loop {
            let now = Instant::now();
            let next = self.under_way.iter().flatten().map(|it| it.until).min();
            let timeout = next.map(|at| at.saturating_duration_since(now) + Duration::from_millis(1));
            if self.poll.poll(&mut events, timeout).is_err() {
                // A signal, which is for another thread.
                events.clear();
            }
            for event in &events {
                if event.token() != WAKE {
                    self.advance(event.token().0);
                }
            }
            loop {
                match orders.try_recv() {
                    Ok(order) => self.take(order),
                    Err(mpsc::TryRecvError::Empty) => break,
                    Err(mpsc::TryRecvError::Disconnected) => return,
                }
            }
            let now = Instant::now();
            for place in 0..self.under_way.len() {
                if self.under_way[place].as_ref().is_some_and(|it| it.until <= now) {
                    self.end(place, Err("no handshake came in time".to_owned()));
                }
            }
        }
    }

    fn take(&mut self, order: Order) {
        let Order { stream, dialled, remote } = order;
        let stage = match dialled {
            None => Ok(Stage::Listening),
            Some(_) => self.security.tls.call().map(|handshake| Stage::Negotiating(Box::new(handshake))),
        };
        let stage = match stage {
            Ok(stage) => stage,
            Err(text) => {
                return self.messenger.tell(Control::Arrived(Box::new(Arrival {
                    dialled,
                    remote,
                    outcome: Err(text),
                })));
            }
        };
        let place = self.place();
        let until = Instant::now() + GREETING_TIMEOUT;
        let mut stream = TcpStream::from_std(stream);
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = self.poll.registry().register(&mut stream, Token(place), interest);
        self.under_way[place] = Some(UnderWay { stream, stage, dialled, remote, until });
        match registered {
            Ok(()) => self.advance(place),
            Err(error) => self.end(place, Err(error.to_string())),
        }
    }

    /// A free place. Where there is none, a caller makes way who has waited for longest; callers alone can be so many.
    fn place(&mut self) -> usize {
        if let Some(place) = self.under_way.iter().position(Option::is_none) {
            return place;
        }
        if self.under_way.len() < UNDER_WAY_MAX {
            self.under_way.push(None);
            return self.under_way.len() - 1;
        }
        let waits = |place: &usize| self.under_way[*place].as_ref().map(|it| (it.dialled.is_some(), it.until));
        let place = (0..self.under_way.len()).min_by_key(waits).unwrap_or(0);
        self.end(place, Err("too many callers have not proven who they are".to_owned()));
        place
    }

    fn advance(&mut self, place: usize) {
        let Some(under_way) = self.under_way.get_mut(place) else { return };
        let Some(UnderWay { mut stream, stage, dialled, remote, until }) = under_way.take() else { return };
        match go_on(&mut stream, stage, &self.security) {
            Next::Waits(stage) => *under_way = Some(UnderWay { stream, stage, dialled, remote, until }),
            Next::Ends(outcome) => self.arrive(stream, dialled, remote, outcome),
        }
    }

    /// Ends the handshake at this place.
    fn end(&mut self, place: usize, outcome: Result<Option<Box<Session>>, String>) {
        if let Some(UnderWay { stream, dialled, remote, .. }) = self.under_way[place].take() {
            self.arrive(stream, dialled, remote, outcome);
        }
    }

    /// Gives a link back to the loop, or says why there is none.
    fn arrive(
        &self,
        mut stream: TcpStream,
        dialled: Option<NodeId>,
        remote: SocketAddr,
        outcome: Result<Option<Box<Session>>, String>,
    ) {
        let outcome = outcome.and_then(|session| {
            self.poll.registry().deregister(&mut stream).map_err(|error| error.to_string())?;
            // It goes to another poll.
            let stream = TcpStream::from_std(std::net::TcpStream::from(stream));
            Ok(match session {
                None => Socket::Plain(stream),
                Some(session) => Socket::secured(stream, *session),
            })
        });
        self.messenger.tell(Control::Arrived(Box::new(Arrival { dialled, remote, outcome })));
    }
}

/// How a step of a handshake came out.
enum Next {
    Waits(Stage),
    /// With a session, or none for a link in plain text; or why there is no link.
    Ends(Result<Option<Box<Session>>, String>),
}

fn go_on(stream: &mut TcpStream, stage: Stage, security: &PeerSecurity) -> Next {
    let handshake = match stage {
        Stage::Negotiating(handshake) => *handshake,
        Stage::Listening => {
            let mut first = [0; 3];
            match stream.peek(&mut first).map(|count| (count, tls::begins_tls(&first[..count]))) {
                Ok((0, _)) => return Next::Ends(Err("the other side closed it".to_owned())),
                Ok((_, None)) => return Next::Waits(Stage::Listening),
                Ok((_, Some(true))) => match security.tls.answer() {
                    Ok(handshake) => handshake,
                    Err(text) => return Next::Ends(Err(text)),
                },
                Ok(_) if security.mode == PeerTlsMode::Prefer => return Next::Ends(Ok(None)),
                Ok(_) => {
                    return Next::Ends(Err(
                        "it speaks in plain text; give it this cluster's --cluster-secret".to_owned()
                    ));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Next::Waits(Stage::Listening),
                Err(error) => return Next::Ends(Err(error.to_string())),
            }
        }
    };
    match handshake.advance(stream) {
        Ok(Progress::Waits(handshake)) => Next::Waits(Stage::Negotiating(Box::new(handshake))),
        Ok(Progress::Done(session, _)) => Next::Ends(Ok(Some(Box::new(session)))),
        Err(text) => Next::Ends(Err(text)),
    }
}
