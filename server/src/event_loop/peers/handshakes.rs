//! Handshakes, on a thread of their own: what a stranger costs is no turn of the loop.
//!
//! ```text
//!   loop: accepted, or connected ──► thread: TLS, and the proof of the cluster's secret ──► loop: greets
//! ```
//! The loop gets links whose other side knows the secret, and hears why a node that it called is none of the cluster. Strangers are ended after a while, and are few.
//! One machine that opens many connections takes places from itself only ([`Desk::place`]), and calls of this node come before all callers.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use base::NodeId;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token, Waker};
use tls::{Failure, Handshake, KeyHash, Progress, Session};
use wire::{FrameReader, FrameWriter, Hello, JoinReply, JoinRequest};

use super::{GREETING_BYTES_MAX, GREETING_TIMEOUT};
use crate::event_loop::{Control, Messenger};
use crate::peer_tls::{PeerSecurity, PeerTlsMode, Socket};

/// How many callers the thread takes before it goes on with those that it has.
const CALLERS_AT_ONCE: usize = 16;
const WAKE: Token = Token(usize::MAX);

/// A link whose handshake has come to an end.
#[derive(Debug)]
pub(crate) struct Arrival {
    /// Whom this node has called; nobody if it was called.
    pub(super) dialled: Option<NodeId>,
    pub(super) remote: SocketAddr,
    /// The link, and the key of the node at its other end where it is under TLS; or why there is none.
    pub(super) outcome: Result<(Socket<TcpStream>, Option<KeyHash>), Failure>,
}

/// The loop's side. The thread ends with it.
#[derive(Debug)]
pub(in crate::event_loop) struct Handshakes {
    /// Calls of this node: of each other node one at a time.
    calls: mpsc::Sender<Order>,
    callers: mpsc::SyncSender<Order>,
    waker: Waker,
    mode: PeerTlsMode,
}

#[derive(Debug)]
struct Order {
    stream: std::net::TcpStream,
    dialled: Option<NodeId>,
    remote: SocketAddr,
    /// The time that it waits for the thread is a part of this.
    until: Instant,
}

enum Stage {
    /// The first bytes tell in which language the caller speaks.
    Listening,
    Negotiating(Box<Handshake>),
    /// It speaks in plain text, and is told that this does not do.
    Refusing(Box<FrameReader>),
}

struct UnderWay {
    stream: TcpStream,
    stage: Stage,
    dialled: Option<NodeId>,
    remote: SocketAddr,
    until: Instant,
}

impl Handshakes {
    /// Starts the thread. Callers take at most so many descriptors: a fifth of them while they wait for the thread.
    ///
    /// # Errors
    /// The system has no thread left, or no descriptor.
    pub(in crate::event_loop) fn start(
        security: PeerSecurity,
        messenger: Messenger,
        files_max: usize,
    ) -> io::Result<Handshakes> {
        let waiting_max = files_max / 5;
        let callers_max = files_max - waiting_max;
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let (calls, own) = mpsc::channel();
        let (callers, others) = mpsc::sync_channel(waiting_max);
        let mode = security.mode;
        let mut desk = Desk { poll, security, messenger, under_way: Vec::new(), callers_max };
        thread::Builder::new().name("handshakes".to_owned()).spawn(move || desk.run(&own, &others))?;
        Ok(Handshakes { calls, callers, waker, mode })
    }

    /// Whether nodes that speak in plain text are spoken to.
    pub(super) fn takes_plain(&self) -> bool {
        self.mode == PeerTlsMode::Prefer
    }

    /// Gives a connection to the thread: one that this node has made to a peer, or one that somebody else has made. It is in no poll. False if so many callers wait
    /// that this one is not taken.
    #[must_use]
    pub(super) fn give(&self, stream: TcpStream, dialled: Option<NodeId>, remote: SocketAddr) -> bool {
        let until = Instant::now() + GREETING_TIMEOUT;
        let order = Order { stream: std::net::TcpStream::from(stream), dialled, remote, until };
        // An error of the first kind means that the thread has ended, as it does with the process.
        let is_taken = match dialled {
            Some(_) => self.calls.send(order).is_ok(),
            None => self.callers.try_send(order).is_ok(),
        };
        let _ = self.waker.wake();
        is_taken
    }
}

/// The thread's side.
struct Desk {
    poll: Poll,
    security: PeerSecurity,
    messenger: Messenger,
    under_way: Vec<Option<UnderWay>>,
    callers_max: usize,
}

impl Desk {
    fn run(&mut self, calls: &mpsc::Receiver<Order>, callers: &mpsc::Receiver<Order>) {
        let mut events = Events::with_capacity(self.callers_max + 1);
        let mut more_wait = false;
        loop {
            let now = Instant::now();
            let next = self.under_way.iter().flatten().map(|it| it.until).min();
            let timeout = next.map(|at| at.saturating_duration_since(now) + Duration::from_millis(1));
            let timeout = if more_wait { Some(Duration::ZERO) } else { timeout };
            if self.poll.poll(&mut events, timeout).is_err() {
                // A signal, which is for another thread.
                events.clear();
            }
            for event in &events {
                if event.token() != WAKE {
                    self.advance(event.token().0);
                }
            }
            let is_over = self.take_all(calls, usize::MAX).is_none();
            match self.take_all(callers, CALLERS_AT_ONCE) {
                Some(more) if !is_over => more_wait = more,
                _ => return,
            }
            let now = Instant::now();
            for place in 0..self.under_way.len() {
                if self.under_way[place].as_ref().is_some_and(|it| it.until <= now) {
                    self.end(place, "no handshake came in time");
                }
            }
        }
    }

    /// Takes so many orders, and says whether more may wait; none if the loop has ended.
    fn take_all(&mut self, orders: &mpsc::Receiver<Order>, count: usize) -> Option<bool> {
        for _ in 0..count {
            match orders.try_recv() {
                Ok(order) => self.take(order),
                Err(mpsc::TryRecvError::Empty) => return Some(false),
                Err(mpsc::TryRecvError::Disconnected) => return None,
            }
        }
        Some(true)
    }

    fn take(&mut self, order: Order) {
        let Order { stream, dialled, remote, until } = order;
        let stage = match dialled {
            None => Ok(Stage::Listening),
            Some(_) => self.security.tls.call().map(|handshake| Stage::Negotiating(Box::new(handshake))),
        };
        let stage = match stage {
            Ok(stage) => stage,
            Err(reason) => return self.tell(dialled, remote, Err(Failure::from(reason))),
        };
        let place = self.place(dialled.is_none());
        let mut stream = TcpStream::from_std(stream);
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = self.poll.registry().register(&mut stream, Token(place), interest);
        self.under_way[place] = Some(UnderWay { stream, stage, dialled, remote, until });
        match registered {
            Ok(()) => self.advance(place),
            Err(error) => self.end(place, &error.to_string()),
        }
    }

    /// A place for one more. Callers have so many; calls of this node, of which there is one for each other node, have theirs in any case. Where callers have none left one
    /// of them makes way: of the address that has most of them one that has not even begun to speak, and of these the one that has waited for longest.
    fn place(&mut self, is_caller: bool) -> usize {
        let claims: Vec<Option<Claim>> =
            self.under_way.iter().map(|it| it.as_ref().and_then(UnderWay::claim)).collect();
        if is_caller
            && claims.iter().flatten().count() >= self.callers_max
            && let Some(place) = makes_way(&claims)
        {
            self.end(place, "too many callers have not proven who they are");
            return place;
        }
        self.under_way.iter().position(Option::is_none).unwrap_or_else(|| {
            self.under_way.push(None);
            self.under_way.len() - 1
        })
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
    fn end(&mut self, place: usize, reason: &str) {
        if let Some(UnderWay { stream, dialled, remote, .. }) = self.under_way[place].take() {
            self.arrive(stream, dialled, remote, Err(Failure::from(reason.to_owned())));
        }
    }

    /// Gives a link back to the loop, or says why there is none.
    fn arrive(&self, mut stream: TcpStream, dialled: Option<NodeId>, remote: SocketAddr, ended: Ended) {
        let outcome = ended.and_then(|secured| {
            self.poll.registry().deregister(&mut stream).map_err(|error| Failure::from(error.to_string()))?;
            // It goes to another poll.
            let stream = TcpStream::from_std(std::net::TcpStream::from(stream));
            Ok(match secured {
                None => (Socket::Plain(stream), None),
                Some((session, key)) => (Socket::secured(stream, *session), Some(key)),
            })
        });
        self.tell(dialled, remote, outcome);
    }

    fn tell(
        &self,
        dialled: Option<NodeId>,
        remote: SocketAddr,
        outcome: Result<(Socket<TcpStream>, Option<KeyHash>), Failure>,
    ) {
        self.messenger.tell(Control::Arrived(Box::new(Arrival { dialled, remote, outcome })));
    }
}

/// The outcome of a handshake: a session and the other side's key, or none for a link in plain text; or why there is no link.
type Ended = Result<Option<(Box<Session>, KeyHash)>, Failure>;

/// By this a caller keeps its place.
#[derive(Clone, Copy, Debug)]
struct Claim {
    address: IpAddr,
    has_spoken: bool,
    until: Instant,
}

impl UnderWay {
    /// None of a call of this node.
    fn claim(&self) -> Option<Claim> {
        let has_spoken = !matches!(self.stage, Stage::Listening);
        let claim = Claim { address: self.remote.ip(), has_spoken, until: self.until };
        self.dialled.is_none().then_some(claim)
    }
}

/// The caller that makes way for one more: see [`Desk::place`].
fn makes_way(claims: &[Option<Claim>]) -> Option<usize> {
    let mut of_each: BTreeMap<IpAddr, usize> = BTreeMap::new();
    for claim in claims.iter().flatten() {
        *of_each.entry(claim.address).or_default() += 1;
    }
    let stays = |claim: &Claim| {
        let of_others = claims.len() - of_each.get(&claim.address).copied().unwrap_or_default();
        (of_others, claim.has_spoken, claim.until)
    };
    let places = claims.iter().enumerate().filter_map(|(place, claim)| Some((place, stays(claim.as_ref()?))));
    places.min_by_key(|(_, stays)| *stays).map(|(place, _)| place)
}

/// How a step of a handshake came out.
enum Next {
    Waits(Stage),
    Ends(Ended),
}

impl Next {
    fn fails(reason: impl ToString) -> Next {
        Next::Ends(Err(Failure::from(reason.to_string())))
    }
}

fn go_on(stream: &mut TcpStream, stage: Stage, security: &PeerSecurity) -> Next {
    let handshake = match stage {
        Stage::Negotiating(handshake) => *handshake,
        Stage::Refusing(reader) => return refuse(stream, reader),
        Stage::Listening => {
            let mut first = [0; 3];
            match stream.peek(&mut first).map(|count| (count, tls::begins_tls(&first[..count]))) {
                Ok((0, _)) => return Next::fails("the other side closed it"),
                Ok((_, None)) => return Next::Waits(Stage::Listening),
                Ok((_, Some(true))) => match security.tls.answer() {
                    Ok(handshake) => handshake,
                    Err(reason) => return Next::fails(reason),
                },
                Ok(_) if security.mode == PeerTlsMode::Prefer => return Next::Ends(Ok(None)),
                Ok(_) => return refuse(stream, Box::new(FrameReader::with_limit(GREETING_BYTES_MAX))),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Next::Waits(Stage::Listening),
                Err(error) => return Next::fails(error),
            }
        }
    };
    match handshake.advance(stream) {
        Ok(Progress::Waits(handshake)) => Next::Waits(Stage::Negotiating(Box::new(handshake))),
        Ok(Progress::Done(session, key)) => Next::Ends(Ok(Some((Box::new(session), key)))),
        Err(failure) => Next::Ends(Err(failure)),
    }
}

/// Reads the greeting of a caller that speaks in plain text, and tells it why it is not answered: its operator has forgotten the secret.
fn refuse(stream: &mut TcpStream, mut reader: Box<FrameReader>) -> Next {
    const REASON: &str = "it speaks in plain text; give it this cluster's --cluster-secret";
    let mut buffer = [0; GREETING_BYTES_MAX];
    let payload = loop {
        match reader.next() {
            Ok(Some(payload)) => break payload,
            Ok(None) => {}
            // It is none of Dictum's.
            Err(_) => return Next::fails(REASON),
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Next::fails(REASON),
            Ok(count) => reader.push(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Next::Waits(Stage::Refusing(reader)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Next::fails(REASON),
        }
    };
    const TOLD: &str = "links to this cluster are under TLS; give this node the cluster's --cluster-secret";
    let mut frame = Vec::new();
    let framed = FrameWriter::append(&mut frame, |out| {
        if JoinRequest::is_in(&payload) {
            JoinReply::Refused(format!("ERR {TOLD}")).encode(out);
        } else if let Ok(hello) = Hello::decode(&payload) {
            let _ = hello.refuse(TOLD, out);
        }
    });
    if framed.is_ok() {
        // The link ends in any case.
        let _ = stream.write(&frame);
    }
    Next::fails(REASON)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_opens_many_makes_way_for_all_others() {
        let begun = Instant::now();
        let claim = |host: u8, has_spoken, seconds| {
            let (address, until) = (IpAddr::from([10, 0, 0, host]), begun + Duration::from_secs(seconds));
            Some(Claim { address, has_spoken, until })
        };
        // The first is a call of this node.
        let mut claims = vec![None, claim(1, true, 1), claim(2, true, 2), claim(2, false, 4), claim(2, false, 3)];
        for place in [4, 3, 1, 2] {
            assert_eq!(makes_way(&claims), Some(place));
            claims[place] = None;
        }
        assert_eq!(makes_way(&claims), None);
    }
}
