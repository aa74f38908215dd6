//! `dictum start --workers N`: a machine with several processors runs as many nodes, each a loop and a process of its own. [Why
//! so](../../docs/decisions/2026-11-26-workers.md).
//!
//! This process has no node itself. It
//! 1. starts the workers; those that are in no cluster yet as soon as one that is has given a token for them;
//! 2. starts again, after a while, whichever ends by a mistake; one that cannot be started at all ends them all, as it would end a node alone; one that must not go on
//!    stays as it is, and the others run on;
//! 3. on SIGINT or SIGTERM stops all of them, and passes SIGHUP on;
//! 4. tells systemd how they are, by what each of them tells it (`systemd.rs`): `READY=1` when all that run are ready, those left aside that wait for a cluster that would let them
//!    in; and under a watchdog it kills one whose loop gives no sign of life, and gives signs of its own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::{Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::children::{self, NodeProcess};
use crate::cli::connection::{Connection, Endpoint};
use crate::exit::{self, Failure};
use crate::options::{Options, WORKER_TOKEN};
use crate::systemd::{Notifier, Report, Reports, status_line};
use crate::{log, secrets, standing, start};

/// How long a question for a token may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Between two such questions.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(200);
/// Before a worker is started again that has just been started: at first, and at the most. Twice as long each time.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(32);
/// Whoever has run for so long was well.
const WELL_AFTER: Duration = Duration::from_secs(60);
/// Between two looks at the clock while anybody waits for it.
const LOOK_EVERY: Duration = Duration::from_millis(10);

#[derive(Debug)]
struct Worker {
    options: Options,
    state: State,
    /// How long it waits when it ends next.
    pause: Duration,
}

#[derive(Debug)]
enum State {
    Waits {
        until: Instant,
    },
    Runs {
        process: NodeProcess,
        since: Instant,
        is_ready: bool,
        /// When it has told that its loop turns; from when it is ready on.
        lived_at: Instant,
        status: String,
    },
    /// As it was asked to, or because its node was removed from the cluster; or with an exit code that says that it must not be started again.
    Ended(u8),
}

/// What the end of a worker means.
#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    AsAsked,
    /// With this exit code: somebody has to do something about it.
    CannotStart(u8),
    /// With this exit code: its folder, or its disk, is not to be used by another start. It is no trouble of the other workers.
    MustNotGoOn(u8),
    Mistake,
}

/// The state that systemd last heard from this process.
#[derive(Debug)]
struct Told<'a> {
    notifier: &'a Notifier,
    is_ready: bool,
    status: String,
    lived_at: Instant,
}

/// Runs the workers until they are stopped.
pub(crate) fn run(machine: &Options, notifier: &Notifier) -> ExitCode {
    match serve(machine, notifier) {
        Ok(code) => {
            if code != exit::STOPPED {
                notifier.status(&format!("ended by a worker that has ended with exit code {code}, see the log"));
            }
            ExitCode::from(code)
        }
        Err(Failure { code, text }) => {
            notifier.status(&text);
            log::error(&text);
            ExitCode::from(code)
        }
    }
}

fn serve(machine: &Options, notifier: &Notifier) -> Result<u8, Failure> {
    // From here on a signal is kept until it is asked for; before, it would end this process, which has no children.
    const SIGNALS: [i32; 6] = [SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];
    let mut signals = Signals::new(SIGNALS).map_err(|error| format!("no signal handler: {error}"))?;
    let reports = Reports::open(&SIGNALS).map_err(|error| format!("no way for the workers' reports: {error}"))?;
    // Workers share the port with whoever else shares it: that must be nobody.
    drop(start::listen("--resp", machine.resp)?);
    let mut workers = Vec::new();
    for number in 1..=machine.workers {
        let options = machine.clone().of_worker(number, None).map_err(Failure::settings)?;
        workers.push(Worker { options, state: State::Waits { until: Instant::now() }, pause: PAUSE_MIN });
    }
    let told = Told { notifier, is_ready: false, status: String::new(), lived_at: Instant::now() };
    let outcome = watch(&mut workers, &mut signals, &reports, told);
    notifier.tell(&format!("STOPPING=1\n{}", status_line("stopping: the workers hand over")));
    let processes = workers.iter_mut().filter_map(|worker| match &mut worker.state {
        State::Runs { process, .. } => Some(process),
        State::Waits { .. } | State::Ended(_) => None,
    });
    children::stop(processes.collect(), &mut signals, |name| {
        log::warning(&format!("{name} does not stop by itself and is killed; nothing acknowledged is lost"));
    });
    outcome
}

/// Keeps the workers running, until that is over. The exit code.
fn watch(workers: &mut [Worker], signals: &mut Signals, reports: &Reports, mut told: Told<'_>) -> Result<u8, Failure> {
    let watchdog = told.notifier.watchdog();
    let mut said = String::new();
    loop {
        for worker in workers.iter_mut() {
            worker.start_if_due(&mut said, reports, watchdog)?;
        }
        let has_waiting = workers.iter().any(|worker| matches!(worker.state, State::Waits { .. }));
        let longest = if has_waiting { Some(LOOK_EVERY) } else { told.notifier.signs_every() };
        // The first look is for what came before a signal could wake this thread.
        if is_asked_to_stop(workers, signals) {
            return Ok(exit::STOPPED);
        }
        let news = reports.wait(longest).map_err(|error| format!("the workers' reports cannot be read: {error}"))?;
        if is_asked_to_stop(workers, signals) {
            return Ok(exit::STOPPED);
        }
        for worker in workers.iter_mut() {
            worker.hear(&news);
            worker.end_if_dead(watchdog);
            if let Some(code) = worker.look() {
                return Ok(code);
            }
        }
        told.tell(workers);
        let ends = workers.iter().map(|worker| match worker.state {
            State::Ended(code) => Some(code),
            State::Waits { .. } | State::Runs { .. } => None,
        });
        // With more than one, the one about which most has to be done.
        if let Some(codes) = ends.collect::<Option<Vec<u8>>>() {
            return Ok(codes.into_iter().max().unwrap_or(exit::STOPPED));
        }
    }
}

/// Takes the signals that have come: one of them makes the workers read their password again.
fn is_asked_to_stop(workers: &mut [Worker], signals: &mut Signals) -> bool {
    let mut stops = false;
    for signal in signals.pending() {
        match signal {
            SIGINT | SIGTERM => stops = true,
            SIGHUP => workers.iter_mut().for_each(Worker::read_again),
            // SIGCHLD wakes this thread; the others mean nothing here, and do no harm.
            _ => {}
        }
    }
    stops
}

impl Told<'_> {
    /// Tells systemd what is new.
    fn tell(&mut self, workers: &[Worker]) {
        if !self.notifier.is_heard() {
            return;
        }
        if self.notifier.signs_every().is_some_and(|every| self.lived_at.elapsed() >= every)
            && self.notifier.tell("WATCHDOG=1\n")
        {
            self.lived_at = Instant::now();
        }
        if !self.is_ready && are_ready(workers) {
            self.is_ready = self.notifier.tell("READY=1\n");
        }
        let status = workers.iter().map(Worker::status).collect::<Vec<_>>().join(" | ");
        if status != self.status && self.notifier.status(&status) {
            self.status = status;
        }
    }
}

/// True if at least one worker runs, and every running worker is ready.
fn are_ready(workers: &[Worker]) -> bool {
    let mut running = workers.iter().filter_map(|worker| match worker.state {
        State::Runs { is_ready, .. } => Some(is_ready),
        State::Waits { .. } | State::Ended(_) => None,
    });
    running.next().is_some_and(|first| first && running.all(|is_ready| is_ready))
}

impl Worker {
    /// Starts it, if its time has come and it has what it needs. `said`: why the last one had to wait.
    fn start_if_due(&mut self, said: &mut String, reports: &Reports, watchdog: Option<Duration>) -> Result<(), String> {
        match self.state {
            State::Waits { until } if until <= Instant::now() => {}
            _ => return Ok(()),
        }
        let options = &self.options;
        let mut token = None;
        if options.worker != Some(1) && standing::is_stranger(&options.dir)? {
            match ask_for_token(options) {
                Ok(given) => token = Some(given),
                Err(reason) => {
                    if *said != reason {
                        log::info(&format!("{} joins as soon as the cluster answers ({reason})", options.name));
                        *said = reason;
                    }
                    self.state = State::Waits { until: Instant::now() + ASK_AGAIN_AFTER };
                    return Ok(());
                }
            }
        }
        let program = std::env::current_exe();
        let program = program.map_err(|error| format!("the own program file cannot be found: {error}"))?;
        let mut command = Command::new(program);
        command.args(std::env::args_os().skip(1)).arg("--worker").arg(options.worker.unwrap_or(1).to_string());
        match token {
            Some(token) => command.env(WORKER_TOKEN, token),
            None => command.env_remove(WORKER_TOKEN),
        };
        let failed = |error| format!("{} cannot be started: {error}", options.name);
        reports.ask(&mut command, watchdog).map_err(failed)?;
        let process = NodeProcess::start(&options.name, command)?;
        log::info(&format!("{} is process {}", options.name, process.id()));
        let now = Instant::now();
        self.state = State::Runs { process, since: now, is_ready: false, lived_at: now, status: "starts".to_owned() };
        Ok(())
    }

    /// Has it read its password again, and reads it for the next one that joins. What is wrong with the file the worker says.
    fn read_again(&mut self) {
        if let Some(password) = self.options.password_file.as_ref().and_then(|path| secrets::read_again(path).ok()) {
            self.options.password = Some(password);
        }
        if let State::Runs { process, .. } = &self.state {
            process.signal(Signal::HUP);
        }
    }

    /// Takes what it has told. Of one that does not run any more there is nothing new.
    fn hear(&mut self, news: &[Report]) {
        let State::Runs { is_ready, lived_at, status, .. } = &mut self.state else { return };
        for report in news.iter().filter(|report| Some(report.worker) == self.options.worker) {
            if report.lives || report.is_ready {
                *lived_at = Instant::now();
            }
            *is_ready |= report.is_ready;
            if let Some(told) = &report.status {
                status.clone_from(told);
            }
        }
    }

    /// Kills it if it gives no sign of life, as systemd would kill a node alone. Before it is ready it may take its time.
    fn end_if_dead(&mut self, watchdog: Option<Duration>) {
        let State::Runs { process, is_ready: true, lived_at, .. } = &mut self.state else { return };
        if watchdog.is_some_and(|watchdog| lived_at.elapsed() >= watchdog) {
            let name = &self.options.name;
            log::error(&format!(
                "{name} has given no sign of life for {} s: it is killed",
                lived_at.elapsed().as_secs()
            ));
            process.kill();
            *lived_at = Instant::now();
        }
    }

    /// For people.
    fn status(&self) -> String {
        let name = &self.options.name;
        match &self.state {
            State::Waits { .. } => format!("{name}: waits to be started"),
            State::Runs { status, .. } => format!("{name}: {status}"),
            State::Ended(exit::STOPPED) => format!("{name}: has ended"),
            State::Ended(code) => format!("{name}: has ended with exit code {code}, see the log"),
        }
    }

    /// Sees whether it has ended. If that is the end of all of them: the exit code.
    fn look(&mut self) -> Option<u8> {
        let State::Runs { process, since, .. } = &mut self.state else { return None };
        let (status, ran_for) = (process.has_just_ended()?, since.elapsed());
        let name = &self.options.name;
        match meaning(status) {
            Meaning::AsAsked => {
                log::info(&format!("{name} has ended, and is not started again"));
                self.state = State::Ended(exit::STOPPED);
            }
            Meaning::CannotStart(code) => {
                log::error(&format!("{name} cannot run ({status}): all workers of this machine are stopped"));
                self.state = State::Ended(code);
                return Some(code);
            }
            Meaning::MustNotGoOn(code) => {
                log::error(&format!(
                    "{name} has ended ({status}) and is not started again: its last lines say why. The other workers of this machine run on"
                ));
                self.state = State::Ended(code);
            }
            Meaning::Mistake => {
                let pause = if ran_for >= WELL_AFTER { PAUSE_MIN } else { self.pause };
                self.pause = (pause * 2).min(PAUSE_MAX);
                log::error(&format!("{name} has ended: {status}; it is started again in {} s", pause.as_secs()));
                self.state = State::Waits { until: Instant::now() + pause };
            }
        }
        None
    }
}

fn meaning(status: ExitStatus) -> Meaning {
    match status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(exit::STOPPED | exit::AT_ONCE) => Meaning::AsAsked,
        Some(code @ (exit::NOT_NOW | exit::SETTINGS | exit::DAMAGED)) => Meaning::CannotStart(code),
        Some(code @ (exit::MUST_NOT | exit::DISK_FAILED)) => Meaning::MustNotGoOn(code),
        _ => Meaning::Mistake,
    }
}

/// Asks whichever worker answers for a token with which another one can join.
fn ask_for_token(options: &Options) -> Result<String, String> {
    let at = reached(options.resp);
    let failed = |error: std::io::Error| format!("{at}: {error}");
    let endpoint = Endpoint::parse(&at.to_string())?;
    let mut connection = Connection::open(&endpoint, Some(ANSWER_TIMEOUT)).map_err(failed)?;
    let login = options.password.as_deref().map(|password| vec!["AUTH", password]);
    let mut token = None;
    for words in login.into_iter().chain([vec!["DICTUM.NODE", "TOKEN"]]) {
        let reply = connection.call(&words).map_err(failed)?;
        if let Some(error) = reply.as_error() {
            return Err(error.to_owned());
        }
        token = reply.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    }
    token.ok_or_else(|| format!("{at} gives no token"))
}

/// Where this machine reaches what listens there.
fn reached(mut listens: SocketAddr) -> SocketAddr {
    match listens.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => listens.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => listens.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    listens
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn who_cannot_be_started_ends_them_all_and_who_dies_is_started_again() {
        let of = |wait_status| meaning(ExitStatus::from_raw(wait_status));
        assert_eq!(of(0), Meaning::AsAsked);
        assert_eq!([1, 2, 65].map(|code| of(code << 8)), [1, 2, 65].map(Meaning::CannotStart));
        // A stale folder or a broken invariant; a disk.
        assert_eq!([70, 74].map(|code| of(code << 8)), [70, 74].map(Meaning::MustNotGoOn));
        // A panic, SIGKILL.
        assert_eq!([101 << 8, 9].map(of), [Meaning::Mistake, Meaning::Mistake]);
    }

    #[test]
    fn a_listener_at_every_address_is_reached_at_this_machines_own() {
        let at = |text: &str| reached(text.parse().expect("an address")).to_string();
        assert_eq!((at("0.0.0.0:7001"), at("[::]:7001")), ("127.0.0.1:7001".to_owned(), "[::1]:7001".to_owned()));
        assert_eq!(at("10.0.0.4:7001"), "10.0.0.4:7001");
    }
}
