//! `dictum start --workers N`: a machine with several processors runs as many nodes, each a loop and a process of its own. [Why
//! so](../../docs/decisions/2026-11-26-workers.md).
//!
//! This process has no node itself. It
//! 1. starts the workers; those that are in no cluster yet as soon as one that is has given a token for them;
//! 2. starts again, after a while, whichever ends by a mistake; one that cannot be started at all ends them all, as it would end a node alone;
//! 3. on SIGINT or SIGTERM stops all of them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::{Command, ExitCode, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::children::{self, NodeProcess};
use crate::cli::connection::{Connection, Endpoint};
use crate::options::{Options, WORKER_TOKEN};
use crate::{log, standing, start};

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
    },
    /// As it was asked to, or because its node was removed from the cluster.
    Ended,
}

/// What the end of a worker means.
#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    AsAsked,
    /// With this exit code: somebody has to do something about it.
    CannotStart(u8),
    Mistake,
}

/// Runs the workers until they are stopped.
pub(crate) fn run(machine: &Options) -> ExitCode {
    match serve(machine) {
        Ok(code) => code,
        Err(reason) => {
            log::error(&reason);
            ExitCode::FAILURE
        }
    }
}

fn serve(machine: &Options) -> Result<ExitCode, String> {
    // From here on a signal is kept until it is asked for; before, it would end this process, which has no children.
    let mut signals =
        Signals::new([SIGCHLD, SIGINT, SIGTERM]).map_err(|error| format!("no signal handler: {error}"))?;
    // Workers share the port with whoever else shares it: that must be nobody.
    drop(start::listen("--resp", machine.resp)?);
    let mut workers = Vec::new();
    for number in 1..=machine.workers {
        let options = machine.clone().of_worker(number, None)?;
        workers.push(Worker { options, state: State::Waits { until: Instant::now() }, pause: PAUSE_MIN });
    }
    let outcome = watch(&mut workers, &mut signals);
    let processes = workers.iter_mut().filter_map(|worker| match &mut worker.state {
        State::Runs { process, .. } => Some(process),
        State::Waits { .. } | State::Ended => None,
    });
    children::stop(processes.collect(), &mut signals, |name| {
        log::warning(&format!("{name} does not stop by itself and is killed; nothing acknowledged is lost"));
    });
    outcome
}

/// Keeps the workers running, until that is over.
fn watch(workers: &mut [Worker], signals: &mut Signals) -> Result<ExitCode, String> {
    let mut said = String::new();
    loop {
        for worker in workers.iter_mut() {
            worker.start_if_due(&mut said)?;
        }
        let has_waiting = workers.iter().any(|worker| matches!(worker.state, State::Waits { .. }));
        let asked = |signal| signal != SIGCHLD;
        let is_asked = if has_waiting {
            thread::sleep(LOOK_EVERY);
            signals.pending().any(asked)
        } else {
            signals.wait().any(asked)
        };
        if is_asked {
            return Ok(ExitCode::SUCCESS);
        }
        for worker in workers.iter_mut() {
            if let Some(code) = worker.look() {
                return Ok(ExitCode::from(code));
            }
        }
        if workers.iter().all(|worker| matches!(worker.state, State::Ended)) {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

impl Worker {
    /// Starts it, if its time has come and it has what it needs. `said`: why the last one had to wait.
    fn start_if_due(&mut self, said: &mut String) -> Result<(), String> {
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
        let process = NodeProcess::start(&options.name, command)?;
        log::info(&format!("{} is process {}", options.name, process.id()));
        self.state = State::Runs { process, since: Instant::now() };
        Ok(())
    }

    /// Sees whether it has ended. If that is the end of all of them: the exit code.
    fn look(&mut self) -> Option<u8> {
        let State::Runs { process, since } = &mut self.state else { return None };
        let (status, ran_for) = (process.has_just_ended()?, since.elapsed());
        let name = &self.options.name;
        match meaning(status) {
            Meaning::AsAsked => {
                log::info(&format!("{name} has ended, and is not started again"));
                self.state = State::Ended;
            }
            Meaning::CannotStart(code) => {
                log::error(&format!("{name} cannot run ({status}): all workers of this machine are stopped"));
                self.state = State::Ended;
                return Some(code);
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
    match status.code() {
        Some(0) => Meaning::AsAsked,
        // Settings, folders and ports: `start::run`.
        Some(code @ (1 | 2)) => Meaning::CannotStart(code as u8),
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
        assert_eq!((of(1 << 8), of(2 << 8)), (Meaning::CannotStart(1), Meaning::CannotStart(2)));
        // A broken invariant, a panic, SIGKILL.
        assert_eq!([70 << 8, 101 << 8, 9].map(of), [Meaning::Mistake, Meaning::Mistake, Meaning::Mistake]);
    }

    #[test]
    fn a_listener_at_every_address_is_reached_at_this_machines_own() {
        let at = |text: &str| reached(text.parse().expect("an address")).to_string();
        assert_eq!((at("0.0.0.0:7001"), at("[::]:7001")), ("127.0.0.1:7001".to_owned(), "[::1]:7001".to_owned()));
        assert_eq!(at("10.0.0.4:7001"), "10.0.0.4:7001");
    }
}
