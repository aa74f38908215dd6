//! The messages of this process to systemd, by the protocol of `sd_notify(3)`: datagrams of `NAME=value` lines to the socket that `NOTIFY_SOCKET` names.
//!
//! | told | when |
//! |---|---|
//! | `READY=1` | the node serves; or it listens and has looked for a leader for a while: the other nodes may be down, and that is no reason to call this start a failed one |
//! | `STATUS=…` | one line for people, when it has changed |
//! | `WATCHDOG=1` | by the loop itself at the end of its turns, never by another thread: a loop that hangs is found out |
//! | `STOPPING=1` | at an orderly stop |
//!
//! With `--workers` the process that systemd has started has no node. It is to its workers what systemd is to it: they tell it the same, through their standard output, and it
//! tells systemd what comes of that ([`Reports`]).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::Command;
use std::time::Duration;

use crate::log;

/// Where systemd listens.
const SOCKET: &str = "NOTIFY_SOCKET";
/// After so many microseconds without a sign of life systemd ends the process …
const WATCHDOG: &str = "WATCHDOG_USEC";
/// … if it is this one.
const WATCHDOG_PROCESS: &str = "WATCHDOG_PID";
/// Tells a worker that its parent listens, and for how many microseconds that waits for a sign of life; 0: for ever.
const WORKER_REPORTS: &str = "DICTUM_WORKER_REPORTS";
/// The line by which the parent knows which worker has told something. Names with `X_` mean nothing to systemd.
const WORKER_LINE: &str = "X_DICTUM_WORKER";
/// Signs of life in the time that systemd waits for one. So most of it is left for a turn that takes long.
const SIGNS_PER_TIMEOUT: u32 = 8;
/// Longest line for people, in bytes, with its name.
const STATUS_BYTES_MAX: usize = 400;
/// Longest datagram that a worker sends.
const REPORT_BYTES_MAX: usize = 1024;

/// Tells it.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    to: Option<Listening>,
    watchdog: Option<Duration>,
}

/// The receiver of the messages: systemd itself, or the process that supervises this worker.
#[derive(Debug)]
enum Listening {
    Manager(UnixDatagram, SocketAddr),
    Parent(UnixDatagram, u16),
}

impl Notifier {
    /// Of this process: to systemd; or of a worker, to its parent; or to nobody.
    pub(crate) fn of_process(worker: Option<u16>) -> Notifier {
        let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        if let Some(worker) = worker {
            return match variable(WORKER_REPORTS) {
                Some(microseconds) => Notifier::of_worker(worker, &microseconds),
                None => Notifier::default(),
            };
        }
        let Some(name) = variable(SOCKET) else { return Notifier::default() };
        let is_other = variable(WATCHDOG_PROCESS).is_some_and(|process| process != std::process::id().to_string());
        let watchdog = variable(WATCHDOG).filter(|_| !is_other).and_then(|text| duration(&text));
        let socket = || {
            let socket = UnixDatagram::unbound()?;
            socket.set_nonblocking(true)?;
            Ok::<_, io::Error>((socket, address(&name)?))
        };
        match socket() {
            Ok((socket, address)) => Notifier { to: Some(Listening::Manager(socket, address)), watchdog },
            Err(error) => {
                log::warning(&format!("systemd is told nothing: {SOCKET} is {name:?}: {error}"));
                Notifier::default()
            }
        }
    }

    fn of_worker(worker: u16, microseconds: &str) -> Notifier {
        let Ok(output) = io::stdout().as_fd().try_clone_to_owned() else { return Notifier::default() };
        Notifier { to: Some(Listening::Parent(UnixDatagram::from(output), worker)), watchdog: duration(microseconds) }
    }

    /// Says if there is a receiver; without one a message goes nowhere.
    pub(crate) fn is_heard(&self) -> bool {
        self.to.is_some()
    }

    /// How long a sign of life is waited for before this process is ended; none: for ever.
    pub(crate) fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// How often a sign of life is due.
    pub(crate) fn signs_every(&self) -> Option<Duration> {
        self.watchdog.map(|watchdog| watchdog / SIGNS_PER_TIMEOUT)
    }

    /// Tells some lines. False if they could not be sent now: another try may go better.
    pub(crate) fn tell(&self, lines: &str) -> bool {
        let sent = match &self.to {
            None => return true,
            Some(Listening::Manager(socket, address)) => socket.send_to_addr(lines.as_bytes(), address),
            Some(Listening::Parent(socket, worker)) => {
                socket.send(format!("{WORKER_LINE}={worker}\n{lines}").as_bytes())
            }
        };
        sent.is_ok()
    }

    /// Tells people what this process does; only what was told last is seen.
    pub(crate) fn status(&self, text: &str) -> bool {
        self.tell(&status_line(text))
    }
}

/// The line that tells people.
pub(crate) fn status_line(text: &str) -> String {
    let mut line = "STATUS=".to_owned();
    for c in text.chars().map(|c| if c.is_control() { ' ' } else { c }) {
        if line.len() + c.len_utf8() > STATUS_BYTES_MAX {
            break;
        }
        line.push(c);
    }
    line.push('\n');
    line
}

/// A length of time in microseconds; none for 0.
fn duration(text: &str) -> Option<Duration> {
    text.parse().ok().filter(|microseconds| *microseconds > 0).map(Duration::from_micros)
}

/// A path, or with a leading `@` a name in Linux's own space of names for sockets.
fn address(name: &str) -> io::Result<SocketAddr> {
    match name.strip_prefix('@') {
        #[cfg(target_os = "linux")]
        Some(name) => {
            use std::os::linux::net::SocketAddrExt;
            SocketAddr::from_abstract_name(name)
        }
        #[cfg(not(target_os = "linux"))]
        Some(_) => Err(io::ErrorKind::Unsupported.into()),
        None => SocketAddr::from_pathname(name),
    }
}

/// Has a child process tell systemd nothing: it is not the one that was started.
pub(crate) fn silence(child: &mut Command) {
    for variable in [SOCKET, WATCHDOG, WATCHDOG_PROCESS] {
        child.env_remove(variable);
    }
}

/// The socket on which a supervising process receives its workers' reports. A signal of this process wakes the thread that waits on it.
#[derive(Debug)]
pub(crate) struct Reports {
    listens: UnixDatagram,
    tells: UnixDatagram,
}

/// One report of a worker.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Report {
    pub(crate) worker: u16,
    pub(crate) is_ready: bool,
    pub(crate) lives: bool,
    pub(crate) status: Option<String>,
}

impl Reports {
    /// Makes the way for reports, on which these signals are a reason to wake up, too.
    pub(crate) fn open(signals: &[i32]) -> io::Result<Reports> {
        let (listens, tells) = UnixDatagram::pair()?;
        // Nobody waits until the other end has read: what is not sent is sent later.
        tells.set_nonblocking(true)?;
        for signal in signals {
            signal_hook::low_level::pipe::register(*signal, tells.try_clone()?)?;
        }
        Ok(Reports { listens, tells })
    }

    /// Tells here, as a worker does.
    #[cfg(test)]
    pub(crate) fn notifier(&self, worker: u16, watchdog: Option<Duration>) -> Notifier {
        let socket = self.tells.try_clone().expect("a descriptor");
        Notifier { to: Some(Listening::Parent(socket, worker)), watchdog }
    }

    /// Has a worker that is about to start tell how it is, and give signs of life within `watchdog`.
    pub(crate) fn ask(&self, worker: &mut Command, watchdog: Option<Duration>) -> io::Result<()> {
        worker.stdout(OwnedFd::from(self.tells.try_clone()?));
        worker.env(WORKER_REPORTS, watchdog.map_or(0, |watchdog| watchdog.as_micros()).to_string());
        Ok(())
    }

    /// Waits until there is a report or a signal, or for so long, and takes all reports.
    pub(crate) fn wait(&self, longest: Option<Duration>) -> io::Result<Vec<Report>> {
        // Zero would mean to wait for ever.
        self.listens.set_read_timeout(longest.map(|longest| longest.max(Duration::from_millis(1))))?;
        let mut reports = Vec::new();
        let mut buffer = [0; REPORT_BYTES_MAX];
        let first = self.listens.recv(&mut buffer);
        self.listens.set_nonblocking(true)?;
        let mut received = first;
        while let Ok(length) = received {
            reports.extend(Report::read(&buffer[..length]));
            received = self.listens.recv(&mut buffer);
        }
        self.listens.set_nonblocking(false)?;
        match received {
            Err(error) if is_nothing_new(&error) => Ok(reports),
            Err(error) => Err(error),
            Ok(_) => Ok(reports),
        }
    }
}

fn is_nothing_new(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

impl Report {
    /// None if it is not from a worker: a signal, or something that was printed.
    fn read(bytes: &[u8]) -> Option<Report> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut report = Report::default();
        for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
            match name {
                WORKER_LINE => report.worker = value.parse().ok()?,
                "READY" => report.is_ready = true,
                "WATCHDOG" => report.lives = true,
                "STATUS" => report.status = Some(value.to_owned()),
                _ => {}
            }
        }
        (report.worker > 0).then_some(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_workers_tell_is_taken_and_nothing_else() {
        let reports = Reports::open(&[]).expect("a pair of sockets");
        let [first, second] = [1, 2].map(|worker| reports.notifier(worker, None));
        assert!(first.tell("READY=1\nSTATUS=leader\n"));
        assert!(second.tell("WATCHDOG=1\n") && second.status("waits\nfor n1"));
        reports.tells.send(b"X").expect("as a signal does");
        reports.tells.send(b"STATUS=of nobody\n").expect("it is sent");
        reports.tells.send(&[0xff; 3]).expect("it is sent");
        let of = |worker| Report { worker, ..Report::default() };
        let expected = [
            Report { is_ready: true, status: Some("leader".to_owned()), ..of(1) },
            Report { lives: true, ..of(2) },
            Report { status: Some("waits for n1".to_owned()), ..of(2) },
        ];
        assert_eq!(reports.wait(None).expect("it can be read"), expected);
        assert_eq!(reports.wait(Some(Duration::ZERO)).expect("it can be read"), []);
    }

    #[test]
    fn nobody_waits_for_one_who_does_not_listen() {
        let reports = Reports::open(&[]).expect("a pair of sockets");
        let worker = reports.notifier(1, None);
        let mut sent = 0;
        while worker.tell("WATCHDOG=1\n") {
            sent += 1;
            assert!(sent < 1_000_000);
        }
        assert_eq!(reports.wait(None).expect("it can be read").len(), sent);
        assert!(worker.tell("READY=1\n"), "there is room again");
    }

    #[test]
    fn a_signal_wakes_the_thread_that_waits() {
        let reports = Reports::open(&[signal_hook::consts::SIGWINCH]).expect("a pair of sockets");
        signal_hook::low_level::raise(signal_hook::consts::SIGWINCH).expect("a signal");
        assert_eq!(reports.wait(None).expect("it can be read"), []);
    }

    #[test]
    fn addresses_and_times_are_read_as_systemd_writes_them() {
        assert_eq!(address("/run/x").expect("a path").as_pathname(), Some(std::path::Path::new("/run/x")));
        #[cfg(target_os = "linux")]
        {
            use std::os::linux::net::SocketAddrExt;
            assert_eq!(address("@x/y").expect("a name").as_abstract_name(), Some(&b"x/y"[..]));
        }
        assert_eq!(duration("2500000"), Some(Duration::from_millis(2500)));
        assert_eq!((duration("0"), duration("soon")), (None, None));
        let long = status_line(&"ä".repeat(STATUS_BYTES_MAX));
        assert!(long.len() <= STATUS_BYTES_MAX + 1 && long.ends_with("ä\n"));
    }

    #[test]
    fn nobody_is_told_where_nobody_listens() {
        let silent = Notifier::default();
        assert!(!silent.is_heard() && silent.signs_every().is_none());
        assert!(silent.tell("READY=1\n"));
    }
}
