//! Passwords under argon2id that clients of HTTP show: each is tried once, however many show it at once, and two of a host at a time. Others of that host wait; a wrong one is counted
//! as a guess when it was tried, before the next is. What nobody waits for any more is not tried.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use node::{HostFailures, PasswordOutcome, PasswordWork};
use tokio::sync::{Notify, oneshot, watch};

use super::guesses::Guesses;
use super::problem::Problem;
use crate::passwords::PasswordThread;

/// Most passwords of one host that are tried at once.
const OF_HOST_MAX: usize = 2;

/// What is under way will have come to this.
type Outcome = watch::Receiver<Option<PasswordOutcome>>;

/// Most different passwords that wait for the thread. Hosts are easily had, as an owner of IPv6 addresses has many networks.
const UNDER_WAY_MAX: usize = 64;

/// See the file's head.
#[derive(Clone, Debug)]
pub(super) struct Trials(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    thread: PasswordThread,
    guesses: Arc<Guesses>,
    state: Mutex<State>,
    /// One of them is over.
    is_over: Notify,
    /// Has one at a time wait for the thread, first come, first served.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    under_way: Vec<(PasswordWork, Outcome)>,
    of_hosts: BTreeMap<IpAddr, usize>,
}

impl Trials {
    pub(super) fn new(thread: PasswordThread, guesses: Arc<Guesses>) -> Trials {
        let turn = tokio::sync::Mutex::new(());
        Trials(Arc::new(Shared { thread, guesses, state: Mutex::default(), is_over: Notify::new(), turn }))
    }

    /// What comes of work that somebody at this address has caused.
    ///
    /// # Errors
    /// Too many wait.
    pub(super) async fn run(&self, from: IpAddr, work: &PasswordWork) -> Result<PasswordOutcome, Problem> {
        let host = HostFailures::host(from);
        loop {
            // Others of this host may have been wrong meanwhile.
            self.0.guesses.wait(from).await?;
            // Before the look, so that nothing is missed that ends behind it.
            let is_over = self.0.is_over.notified();
            tokio::pin!(is_over);
            is_over.as_mut().enable();
            let Some(mut outcome) = self.enter(host, work)? else {
                is_over.await;
                continue;
            };
            let outcome = outcome.wait_for(Option::is_some).await;
            return Ok(outcome.ok().and_then(|outcome| outcome.clone()).unwrap_or(PasswordOutcome::Failed));
        }
    }

    /// Begins work, or finds it under way. None if its host has to wait.
    ///
    /// # Errors
    /// Too much is under way.
    fn enter(&self, host: IpAddr, work: &PasswordWork) -> Result<Option<Outcome>, Problem> {
        let mut state = self.0.lock();
        if let Some((_, outcome)) = state.under_way.iter().find(|(other, _)| other == work) {
            return Ok(Some(outcome.clone()));
        }
        if state.under_way.len() >= UNDER_WAY_MAX {
            let message = "Too many passwords wait to be tried: try again later.";
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "TRYAGAIN", message));
        }
        let count = state.of_hosts.entry(host).or_default();
        if *count >= OF_HOST_MAX {
            return Ok(None);
        }
        *count += 1;
        let (sender, outcome) = watch::channel(None);
        state.under_way.push((work.clone(), outcome.clone()));
        drop(state);
        // A client that goes away once the thread works for it does not give its place to the next.
        tokio::spawn(Arc::clone(&self.0).carry_out(host, work.clone(), sender));
        Ok(Some(outcome))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that runs under this lock can panic half way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn carry_out(
        self: Arc<Self>,
        host: IpAddr,
        work: PasswordWork,
        sender: watch::Sender<Option<PasswordOutcome>>,
    ) {
        let turn = self.turn.lock().await;
        if self.is_abandoned(&work, &sender) {
            self.leave(host, &work);
            return;
        }
        let outcome = self.ask(work.clone()).await;
        drop(turn);
        if outcome == PasswordOutcome::FitsNone {
            self.guesses.note(host);
        }
        self.leave(host, &work);
        sender.send_replace(Some(outcome));
    }

    /// Nobody waits for it any more. Nobody will: it is out of the list then.
    fn is_abandoned(&self, work: &PasswordWork, sender: &watch::Sender<Option<PasswordOutcome>>) -> bool {
        let mut state = self.lock();
        // One of the receivers is the list's.
        let is_abandoned = sender.receiver_count() <= 1;
        if is_abandoned {
            state.under_way.retain(|(other, _)| other != work);
        }
        is_abandoned
    }

    /// A place is free.
    fn leave(&self, host: IpAddr, work: &PasswordWork) {
        let mut state = self.lock();
        state.under_way.retain(|(other, _)| other != work);
        if let Some(count) = state.of_hosts.get_mut(&host) {
            *count -= 1;
            if *count == 0 {
                state.of_hosts.remove(&host);
            }
        }
        drop(state);
        self.is_over.notify_waiters();
    }

    async fn ask(&self, work: PasswordWork) -> PasswordOutcome {
        let (tell, told) = oneshot::channel();
        self.thread.give(work, move |_, outcome| {
            // The receiver is this function, and gone only with the process.
            let _ = tell.send(outcome);
        });
        told.await.unwrap_or(PasswordOutcome::Failed)
    }
}
