//! Step 2 of a turn: what the sockets bring.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::{Now, Time};
use mio::net::TcpStream;
use mio::{Events, Token};
use node::{ConnectionId, Input, Listener};
use rustix::net::sockopt;

use super::{ALARM, CLUSTER, EventLoop, FIRST_CLIENT, FIRST_LINK, PEER, RESP, Step};
use crate::log;

/// How long to wait before accepting is tried again when the process has no file descriptors left.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// A connection on which nothing has come for so long is asked whether the other machine still knows it (as Redis).
const KEEP_ALIVE: Duration = Duration::from_secs(300);

/// Has the kernel find clients that are gone without a word.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    #[cfg(target_os = "linux")]
    sockopt::set_tcp_keepidle(stream, KEEP_ALIVE)?;
    Ok(())
}

/// The answer to a client of another machine in protected mode: the text of Redis 7.4, with the ways out that Dictum has.
const PROTECTED: &[u8] = b"-DENIED Dictum is running in protected mode because protected mode is enabled and no password is set for the default user. \
In this mode connections are only accepted from the loopback interface. If you want to connect from external computers to Dictum you may adopt \
one of the following solutions: 1) Just disable protected mode sending the command 'CONFIG SET protected-mode no' from the loopback interface by \
connecting to Dictum from the same host the server is running, however MAKE SURE Dictum is not publicly accessible from internet if you do so. The \
change is permanent and holds at all nodes. 2) Alternatively you can just disable the protected mode by setting the protected-mode option to 'no' in \
the nodes' configuration files, and then restarting the nodes. 3) If you started the server manually just for testing, restart it with the \
'--protected-mode no' option. 4) Set up an authentication password for the default user, with '--password-file FILE' at every node. NOTE: You only \
need to do one of the above things in order for the server to start accepting connections from the outside.\r\n";
/// Least time between two lines in the log about that.
const REFUSED_LINE_EVERY: Duration = Duration::from_secs(1);

/// Whether a client is on the node's own machine: its address is loopback, or that which it has called.
pub(crate) fn is_near(remote: IpAddr, local: IpAddr) -> bool {
    is_of_this_machine(remote) || remote.to_canonical() == local.to_canonical()
}

/// Whether the other end is on this machine. An address of IPv4 within one of IPv6 counts as itself.
fn is_of_this_machine(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

impl EventLoop {
    /// Protected mode: tells a client of another machine why, and lets it go.
    fn refuse_other_machine(&mut self, mut stream: TcpStream, address: SocketAddr, now: Time) {
        // What it has sent already is read: where something lies unread, closing throws the answer away. The answer fits any socket's buffer.
        let _ = stream.read(&mut self.buffer);
        let _ = stream.write(PROTECTED);
        if self.refused_at.is_none_or(|at| now.since(at) >= REFUSED_LINE_EVERY) {
            self.refused_at = Some(now);
            log::warning(&format!(
                "client {address} refused: it is on another machine, no password is set, and protected mode is on. Give the nodes a \
                 --password-file, or, in a network that you trust, --protected-mode no"
            ));
        }
    }

    /// Step 2 of a turn.
    pub(super) fn take_sockets(&mut self, events: &Events, now: Now) {
        let EventLoop { node, outbox, peers, buffer, poll, sockets, .. } = self;
        let step: &mut Step<'_> = &mut |input| node.step(now, input, outbox);
        sockets.read_unread(buffer, usize::MAX, now.time, step);
        peers.read_unread(buffer, now.time, step);
        peers.tick(poll.registry(), now.time, step);
        for event in events {
            match event.token() {
                ALARM => {}
                RESP => self.accept_clients(Listener::Forwards, now),
                CLUSTER => self.accept_clients(Listener::Redirects, now),
                PEER => self.peers.accept(&self.peer, self.poll.registry(), now.time),
                Token(token) => {
                    let EventLoop { node, outbox, peers, buffer, sockets, poll, .. } = self;
                    let step: &mut Step<'_> = &mut |input| node.step(now, input, outbox);
                    if token >= FIRST_CLIENT {
                        sockets.on_event(event, Some(buffer), now.time, step);
                    } else {
                        peers.on_event(token - FIRST_LINK, event, buffer, poll.registry(), now.time, step);
                    }
                }
            }
        }
        if self.accept_at.is_some_and(|at| at <= now.time) {
            self.accept_at = None;
            self.accept_clients(Listener::Forwards, now);
            self.accept_clients(Listener::Redirects, now);
        }
        let EventLoop { node, outbox, sockets, .. } = self;
        sockets.close_leaving(now.time, &mut |input| node.step(now, input, outbox));
    }

    fn accept_clients(&mut self, listener: Listener, now: Now) {
        loop {
            let socket = match listener {
                Listener::Forwards => Some(&self.resp),
                Listener::Redirects => self.cluster.as_ref(),
                Listener::Inside => None,
            };
            let Some(socket) = socket else { return };
            let (mut stream, address) = match socket.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => continue,
                Err(error) => {
                    log::warning(&format!(
                        "a client could not be accepted: {error}; trying again soon. If it says that too many files \
                         are open, raise the limit (ulimit -n) or lower --maxclients"
                    ));
                    self.accept_at = Some(now.time + ACCEPT_RETRY);
                    return;
                }
            };
            if self.is_protected.load(Ordering::Relaxed) && !is_of_this_machine(address.ip()) {
                self.refuse_other_machine(stream, address, now.time);
                continue;
            }
            if self.sockets.count() + self.porters.count() >= self.clients_max {
                let _ = stream.write(b"-ERR max number of clients reached\r\n");
                continue;
            }
            let connection = self.connections.fetch_add(1, Ordering::Relaxed);
            let local = stream.local_addr();
            let prepared = stream.set_nodelay(true).and_then(|()| keep_alive(&stream)).and_then(|()| {
                if self.porters.any() {
                    self.porters.insert(stream, connection);
                    return Ok(());
                }
                self.sockets.insert(stream, connection)
            });
            let (Ok(local), Ok(())) = (local, prepared) else {
                // The client has gone in the meantime.
                continue;
            };
            let opened = Input::Opened {
                connection: ConnectionId(connection),
                address: address.to_string(),
                local_address: local.to_string(),
                listener,
            };
            self.node.step(now, opened, &mut self.outbox);
        }
    }
}
