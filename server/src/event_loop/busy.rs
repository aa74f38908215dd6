//! Signs of life while the loop is at one long step of the node, or waits for the disk itself.
//!
//! The loop that applies entries also sends the pings. An honest `HSET` of half a million fields takes longer than followers are patient, and would cost the
//! leader its leadership. So a thread beside the loop looks at it: while one step takes long, the thread tells all peers that this node is alive and busy
//! ([`node::busy_sign`]). It vouches for the loop within a bound, [`BUSY_MAX`]; a loop that hangs is suspected like a process that was stopped.
//!
//! ```text
//!   AtLoop ──begin──► InStep ──end──► AtLoop        the loop
//!                       ▲ │
//!                       └─┴─ Sending                 the thread, for a few microseconds
//! ```
//! Both write to the same sockets. The thread does so only while the loop is inside of a step, where it writes nothing, and first it sends what the loop has left: a peer that was
//! busy itself has taken half of a frame perhaps, and would hear no sign until the step is over. The loop waits at the end of a step while the thread sends.

use std::net::TcpStream;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use std::{io, thread};

use base::Time;
use base::limits::{BUSY_AFTER, BUSY_MAX};
use wire::FrameWriter;

use super::output::SharedOutput;
use crate::clock::Clock;
use crate::peer_tls::Socket;

const AT_LOOP: u8 = 0;
const IN_STEP: u8 = 1;
const SENDING: u8 = 2;

/// The loop's side. The thread ends with it.
#[derive(Debug, Default)]
pub(super) struct Busy(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: AtomicU8,
    /// When the step began, in nanoseconds of the loop's clock.
    since: AtomicU64,
    links: Mutex<Vec<Watched>>,
}

/// A link on which signs may be sent.
#[derive(Debug)]
struct Watched {
    place: usize,
    socket: Socket<TcpStream>,
    /// The whole frame.
    sign: Vec<u8>,
    /// Bytes that go before it.
    output: SharedOutput,
}

impl Busy {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(super) fn start(clock: Clock) -> io::Result<Busy> {
        let busy = Busy::default();
        let shared = Arc::downgrade(&busy.0);
        thread::Builder::new().name("busy".to_owned()).spawn(move || watch(&shared, clock))?;
        Ok(busy)
    }

    /// Shares the list of links with whoever keeps the links.
    pub(super) fn links(&self) -> BusyLinks {
        BusyLinks(Arc::clone(&self.0))
    }

    /// A step begins that may take long. Nothing is written to a peer until [`Busy::end`].
    pub(super) fn begin(&self, now: Time) {
        self.0.since.store(now.0, Ordering::Relaxed);
        self.0.state.store(IN_STEP, Ordering::Release);
    }

    /// The step is over.
    pub(super) fn end(&self) {
        while self.0.state.compare_exchange(IN_STEP, AT_LOOP, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            // A few microseconds: the thread never waits while it sends.
            thread::yield_now();
        }
    }
}

/// The links on which the thread may send.
#[derive(Clone, Debug, Default)]
pub(super) struct BusyLinks(Arc<Shared>);

impl BusyLinks {
    /// From now on signs go out on this link, behind what waits in `output`, if its version knows them.
    pub(super) fn add(&self, place: usize, socket: &Socket<mio::net::TcpStream>, version: u16, output: SharedOutput) {
        let Some(payload) = node::busy_sign(version) else { return };
        let mut sign = Vec::new();
        let framed = FrameWriter::append(&mut sign, |out| out.extend_from_slice(&payload));
        let copied = std::os::fd::AsFd::as_fd(socket.stream()).try_clone_to_owned();
        // Without a descriptor left there are no signs on this link: it is as it was before there were any.
        if let (Ok(()), Ok(copied)) = (framed, copied) {
            self.0.links().push(Watched { place, socket: socket.with(TcpStream::from(copied)), sign, output });
        }
    }

    /// The link is gone.
    pub(super) fn remove(&self, place: usize) {
        self.0.links().retain(|link| link.place != place);
    }
}

impl Shared {
    fn links(&self) -> MutexGuard<'_, Vec<Watched>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One look at the loop.
    fn look(&self, now: Time) {
        let took = now.since(Time(self.since.load(Ordering::Relaxed)));
        if self.state.load(Ordering::Acquire) != IN_STEP || took < BUSY_AFTER || took > BUSY_MAX {
            return;
        }
        let mut links = self.links();
        if self.state.compare_exchange(IN_STEP, SENDING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        links.iter_mut().for_each(Watched::send);
        self.state.store(IN_STEP, Ordering::Release);
    }
}

impl Watched {
    fn send(&mut self) {
        let mut output = self.output.lock();
        // A link that is broken is found out by the loop. One that has too much to take already needs no further sign in its way.
        if output.flush(&mut self.socket).is_ok() && output.waiting_bytes() == 0 {
            let _ = output.send(&mut self.socket, self.sign.clone());
        }
    }
}

fn watch(shared: &Weak<Shared>, clock: Clock) {
    const LOOK_EVERY: Duration = BUSY_AFTER;
    loop {
        thread::sleep(LOOK_EVERY);
        let Some(shared) = shared.upgrade() else { return };
        shared.look(clock.now().time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read};
    use std::net::TcpListener;

    fn pair() -> (mio::net::TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        far.set_nonblocking(true).unwrap();
        (mio::net::TcpStream::from_std(near), far)
    }

    fn received(far: &mut TcpStream) -> usize {
        let mut buffer = [0; 1024];
        match far.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn signs_are_sent_while_a_step_is_long_and_not_for_ever() {
        let (busy, (near, mut far)) = (Busy::default(), pair());
        let output = SharedOutput::default();
        // The socket outlives the link, as it does in the loop.
        let near = Socket::Plain(near);
        busy.links().add(7, &near, base::versions::NEWEST, output.clone());
        let at = |duration: Duration| Time(1_000_000_000) + duration;
        busy.0.look(at(BUSY_AFTER));
        assert_eq!(received(&mut far), 0, "the loop is in no step");
        busy.begin(at(Duration::ZERO));
        busy.0.look(at(BUSY_AFTER / 2));
        assert_eq!(received(&mut far), 0, "the step is short");
        busy.0.look(at(BUSY_AFTER));
        assert!(received(&mut far) > 0);
        busy.0.look(at(BUSY_MAX + BUSY_AFTER));
        assert_eq!(received(&mut far), 0, "the loop hangs");
        busy.end();
        busy.0.look(at(BUSY_AFTER));
        assert_eq!(received(&mut far), 0, "the step is over");
        busy.links().remove(7);
        busy.begin(at(Duration::ZERO));
        busy.0.look(at(BUSY_AFTER));
        assert_eq!(received(&mut far), 0, "the link is gone");
    }

    /// The other node was busy, too, and has not taken all that the loop sent before its step began.
    #[test]
    fn what_the_loop_has_left_is_sent_first() {
        let (busy, (near, mut far)) = (Busy::default(), pair());
        let mut near = Socket::Plain(near);
        let output = SharedOutput::default();
        busy.links().add(7, &near, base::versions::NEWEST, output.clone());
        let sign = busy.0.links()[0].sign.len();
        // More than the sockets hold.
        let left = 64 << 20;
        output.lock().send(&mut near, vec![7; left]).expect("it waits");
        assert!(output.lock().waiting_bytes() > 0);
        let at = |duration: Duration| Time(1_000_000_000) + duration;
        busy.begin(at(Duration::ZERO));
        let mut taken = 0;
        for look in 1.. {
            busy.0.look(at(BUSY_AFTER + Duration::from_micros(look)));
            while let count @ 1.. = received(&mut far) {
                taken += count;
            }
            if output.lock().waiting_bytes() == 0 && taken > left {
                break;
            }
            assert!(look < 1_000_000, "{taken} of {left}");
        }
        assert_eq!((taken - left) % sign, 0, "whole signs behind it");
    }

    #[test]
    fn links_of_earlier_versions_get_no_signs() {
        let (busy, (near, _far)) = (Busy::default(), pair());
        busy.links().add(0, &Socket::Plain(near), base::versions::OLDEST, SharedOutput::default());
        assert!(busy.0.links().is_empty());
    }
}
