//! Sends all keys to a client as an RDB file: what `SYNC` and `PSYNC` ask for ([`node::FullSync`]), as `redis-cli --rdb` and `dictum import --from` do.
//!
//! ```text
//! client:  PSYNC ? -1 ─►
//! node:                  ◄─ +FULLRESYNC id 0    ◄─ an empty line each second …    ◄─ $length    ◄─ the file    ◄─ end
//! ```
//! 1. The loop gives the client's socket to a thread of its own: what a client does not read fills no memory, and none of this holds up the loop.
//! 2. The thread takes a backup of all databases by number through the front door of the cluster, as `dictum export --at` does, into a folder in that of the node; so it has those
//!    partitions, too, of which this node has no copy. Of it the file is written there: its length stands before it.
//! 3. A second thread sends the empty lines meanwhile. It finds out that the client has gone, or that the disk has room for the node alone, and has the work given up.
//! 4. The file is sent. A client has a minute for each 64 KiB. Then the connection is closed: no stream of writes follows.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use node::FullSync;
use storage::LsmOptions;

use crate::backup::{self, Scratch};
use crate::check::{Progress, bytes_text};
use crate::cli::asked::Asked;
use crate::options::{DiskMark, Options};
use crate::{background, log, low_disk, start};

/// The folder, in that of the node, in which the files are made. It is removed at each start.
pub(crate) const FOLDER: &str = "full-sync";
/// Between two signs of life.
const SIGN_EVERY: Duration = Duration::from_secs(1);
/// Bytes that are sent together, and how long a client has for them: as long as a replica waits for its master.
const SENT_BYTES: usize = 64 * 1024;
const SENT_WITHIN: Duration = Duration::from_secs(60);
/// How long a client has to end the connection after it has got everything.
const END_WITHIN: Duration = Duration::from_secs(5);
/// Tells the loop that one is over; with an error if it never began.
pub(crate) type Tell = Arc<dyn Fn(FullSync, Option<&'static str>) + Send + Sync>;

/// The loop's end.
pub(crate) struct FullSyncs(Arc<Means>);

struct Means {
    /// Where this node serves clients.
    at: SocketAddr,
    password: Option<String>,
    folder: PathBuf,
    disk_low_mark: Option<DiskMark>,
    tell: Tell,
    /// How many there were.
    begun: AtomicU64,
}

impl FullSyncs {
    /// For the node that listens there. Removes what an earlier process has left in its folder, which must be this process's alone.
    pub(crate) fn new(resp: &TcpListener, options: &Options, tell: Tell) -> FullSyncs {
        let folder = options.dir.join(FOLDER);
        if let Err(error) = std::fs::remove_dir_all(&folder)
            && error.kind() != ErrorKind::NotFound
        {
            log::warning(&format!("{} cannot be removed, and takes room: {error}", folder.display()));
        }
        FullSyncs(Arc::new(Means {
            at: reached(resp.local_addr().unwrap_or(options.resp)),
            password: options.password.clone(),
            folder,
            disk_low_mark: options.disk_low_mark,
            tell,
            begun: AtomicU64::new(0),
        }))
    }

    /// For the owner of the client's socket.
    pub(crate) fn ticket(&self, sync: FullSync) -> Ticket {
        Ticket { sync, means: Arc::clone(&self.0), is_taken: false }
    }
}

/// Memory and files of the store that a partition goes through: they come on top of the node's.
fn store_options() -> LsmOptions {
    LsmOptions {
        cache_bytes: 8 << 20,
        memtable_bytes: 8 << 20,
        journal_bytes_max: 16 << 20,
        open_files_max: 16,
        ..LsmOptions::default()
    }
}

/// Where this process reaches a listener of its own.
fn reached(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        });
    }
    address
}

/// A client that is to be sent all keys. Whatever becomes of it, the loop is told at its end.
pub(crate) struct Ticket {
    sync: FullSync,
    means: Arc<Means>,
    /// Its connection is this one's.
    is_taken: bool,
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Ticket").field(&self.sync).finish()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let error = (!self.is_taken).then_some(
            "ERR this connection cannot be given to the thread that sends the file: under TLS that is not done yet",
        );
        (self.means.tell)(self.sync, error);
    }
}

impl Ticket {
    /// Takes the connection over, with what is still to be written to it. Returns at once.
    pub(crate) fn take_over(mut self, stream: TcpStream, unsent: Vec<u8>) {
        self.is_taken = true;
        if let Err(error) = background::spawn("full-sync", move || self.serve(&stream, &unsent)) {
            log::warning(&format!("all keys could not be sent to a client: no thread can be started: {error}"));
        }
    }

    fn serve(&self, stream: &TcpStream, unsent: &[u8]) {
        let client = stream.peer_addr().map_or_else(|_| "a client".to_owned(), |address| format!("client {address}"));
        log::info(&format!("{client} asks for all keys as an RDB file"));
        let began = Instant::now();
        match self.send_all(stream, unsent) {
            Ok((keys, bytes)) => {
                let (size, took) = (bytes_text(bytes), began.elapsed().as_secs());
                log::info(&format!("{client} was sent {keys} keys as an RDB file: {size} in {took} s"));
            }
            Err(text) => log::warning(&format!("{client} was not sent all keys: {text}")),
        }
    }

    /// Returns how many keys, and how many bytes of the file.
    fn send_all(&self, stream: &TcpStream, unsent: &[u8]) -> Result<(u64, u64), String> {
        stream.set_nonblocking(false).map_err(unsent_as)?;
        send(stream, unsent, SENT_WITHIN).map_err(unsent_as)?;
        if self.sync.is_psync {
            // Nobody goes on from there: any other is as good.
            let id = format!("{:016x}{:016x}{:08x}", start::chance(), start::chance(), start::chance() >> 32);
            send(stream, format!("+FULLRESYNC {id} 0\r\n").as_bytes(), SENT_WITHIN).map_err(unsent_as)?;
        }
        let number = self.means.begun.fetch_add(1, Ordering::Relaxed);
        let scratch = Scratch::at(self.means.folder.join(number.to_string()), store_options());
        let made = scratch.and_then(|scratch| {
            let (keys, path) = self.make(stream, &scratch)?;
            let file = File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok((keys, file, scratch))
        });
        let (keys, mut file, _scratch) = match made {
            Ok(made) => made,
            Err(text) => {
                // It may be the client that is gone.
                let line = format!("-ERR {}\r\n", text.replace(['\r', '\n'], " "));
                if send(stream, line.as_bytes(), END_WITHIN).is_ok() {
                    end(stream);
                }
                return Err(text);
            }
        };
        let bytes = file.metadata().map_err(|error| error.to_string())?.len();
        send(stream, format!("${bytes}\r\n").as_bytes(), SENT_WITHIN).map_err(unsent_as)?;
        let mut buffer = vec![0; SENT_BYTES];
        loop {
            match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => send(stream, &buffer[..count], SENT_WITHIN).map_err(unsent_as)?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("the file cannot be read back: {error}")),
            }
        }
        end(stream);
        Ok((keys, bytes))
    }

    /// Makes the file, with signs of life to the client. Returns how many keys it has, and where it is.
    fn make(&self, stream: &TcpStream, scratch: &Scratch) -> Result<(u64, PathBuf), String> {
        let stop = Arc::new(OnceLock::new());
        let (done, is_done) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let means = &self.means;
            let reason = Arc::clone(&stop);
            let watch = move || {
                while is_done.recv_timeout(SIGN_EVERY) == Err(mpsc::RecvTimeoutError::Timeout) && reason.get().is_none()
                {
                    // The first reason is the one that counts.
                    if let Err(error) = send(stream, b"\n", SENT_WITHIN) {
                        let _ = reason.set(unsent_as(error));
                    } else if !low_disk::has_plenty(&means.folder, means.disk_low_mark) {
                        let _ =
                            reason.set("the disk of this node has no room for the file; ask another node".to_owned());
                    }
                }
            };
            let spawned = thread::Builder::new().name("full-sync-alive".to_owned()).spawn_scoped(scope, watch);
            spawned.map_err(|error| format!("no thread can be started: {error}"))?;
            if !low_disk::has_plenty(&means.folder, means.disk_low_mark) {
                return Err("the disk of this node has no room for the file; ask another node".to_owned());
            }
            let path = scratch.path().join("dump.rdb");
            let file = File::create_new(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let asked = Asked::of(means.at.to_string(), means.password.clone());
            let mut progress = Progress::hidden(Arc::clone(&stop));
            let mut out = BufWriter::with_capacity(SENT_BYTES, file);
            let keys = backup::rdb_of_cluster(scratch, &asked, &mut out, &mut progress)?;
            // Nothing may stand between the file and its length: the scope waits for the other thread.
            drop(done);
            Ok((keys, path))
        })
    }
}

fn unsent_as(error: io::Error) -> String {
    match error.kind() {
        ErrorKind::TimedOut => "it does not read what it is sent".to_owned(),
        _ => format!("it has gone: {error}"),
    }
}

/// Writes all of it; the client has so long for each 64 KiB.
fn send(mut stream: &TcpStream, bytes: &[u8], within: Duration) -> io::Result<()> {
    for part in bytes.chunks(SENT_BYTES) {
        let (mut rest, until) = (part, Instant::now() + within);
        while !rest.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            stream.set_write_timeout(Some(left))?;
            match stream.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => rest = &rest[count..],
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Ends this side, and waits a little for the other. Were the socket closed while something lies in it that the client has sent, such as a replica's `REPLCONF ACK`, the client
/// might lose the end of the file.
fn end(mut stream: &TcpStream) {
    let until = Instant::now() + END_WITHIN;
    let mut dropped = [0; 1024];
    let _ = stream.shutdown(Shutdown::Write);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return;
        }
        match stream.read(&mut dropped) {
            Ok(count) if count > 0 => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let client = TcpStream::connect(listener.local_addr().expect("it listens")).expect("it listens");
        (listener.accept().expect("it has connected").0, client)
    }

    #[test]
    fn a_client_that_never_reads_is_given_up_and_one_that_reads_gets_all() {
        let (node, client) = pair();
        let large = vec![7; 64 << 20];
        let began = Instant::now();
        let outcome = send(&node, &large, Duration::from_millis(200)).expect_err("nobody reads");
        assert_eq!(outcome.kind(), ErrorKind::TimedOut);
        assert!(began.elapsed() < Duration::from_secs(20));
        drop(client);

        let (node, mut client) = pair();
        let read = thread::spawn(move || {
            let mut all = Vec::new();
            // Something that the node does not read must not cost the end of the file.
            client.write_all(b"REPLCONF ACK 0\r\n").expect("it is there");
            client.read_to_end(&mut all).map(|_| all)
        });
        send(&node, &large, SENT_WITHIN).expect("it reads");
        end(&node);
        drop(node);
        assert!(read.join().expect("no panic").expect("no reset") == large);
    }

    #[test]
    fn a_ticket_that_nobody_takes_is_told_of() {
        let told = Arc::new(OnceLock::new());
        let heard = Arc::clone(&told);
        let means = Means {
            at: reached("0.0.0.0:7001".parse().expect("an address")),
            password: None,
            folder: PathBuf::new(),
            disk_low_mark: None,
            tell: Arc::new(move |sync, error| heard.set((sync, error)).expect("it is told once")),
            begun: AtomicU64::new(0),
        };
        assert_eq!(means.at.to_string(), "127.0.0.1:7001");
        let sync = FullSync { connection: node::ConnectionId(7), slot: 3, is_psync: true };
        drop(FullSyncs(Arc::new(means)).ticket(sync));
        let (of, error) = told.get().expect("it was told");
        assert!(*of == sync && error.is_some_and(|text| text.starts_with("ERR ")));
    }
}
