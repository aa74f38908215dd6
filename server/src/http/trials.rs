//! Passwords under argon2id that clients of HTTP show: each is tried once, however many show it at once, and two of a host at a time. Others of that host wait.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use node::{HostFailures, PasswordOutcome, PasswordWork};
use tokio::sync::{Notify, oneshot, watch};

use crate::passwords::PasswordThread;

/// Most passwords of one host that are tried at once.
const OF_HOST_MAX: usize = 2;

/// What is under way will have come to this.
type Outcome = watch::Receiver<Option<PasswordOutcome>>;

/// See the file's head.
#[derive(Clone, Debug)]
pub(super) struct Trials(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    thread: PasswordThread,
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
    pub(super) fn new(thread: PasswordThread) -> Trials {
        let turn = tokio::sync::Mutex::new(());
        Trials(Arc::new(Shared { thread, state: Mutex::default(), is_over: Notify::new(), turn }))
    }

    /// What comes of work that somebody at this address has caused.
    pub(super) async fn run(&self, from: IpAddr, work: &PasswordWork) -> PasswordOutcome {
        let host = HostFailures::host(from);
        loop {
            // Before the look, so that nothing is missed that ends behind it.
            let is_over = self.0.is_over.notified();
            tokio::pin!(is_over);
            is_over.as_mut().enable();
            let Some(mut outcome) = self.enter(host, work) else {
                is_over.await;
                continue;
            };
            let outcome = outcome.wait_for(Option::is_some).await;
            return outcome.ok().and_then(|outcome| outcome.clone()).unwrap_or(PasswordOutcome::Failed);
        }
    }

    /// Begins work, or finds it under way. None if its host has to wait.
    fn enter(&self, host: IpAddr, work: &PasswordWork) -> Option<Outcome> {
        let mut state = self.0.lock();
        if let Some((_, outcome)) = state.under_way.iter().find(|(other, _)| other == work) {
            return Some(outcome.clone());
        }
        let count = state.of_hosts.entry(host).or_default();
        if *count >= OF_HOST_MAX {
            return None;
        }
        *count += 1;
        let (sender, outcome) = watch::channel(None);
        state.under_way.push((work.clone(), outcome.clone()));
        drop(state);
        // A client that goes away meanwhile does not give its place to the next: the thread works for it all the same.
        tokio::spawn(Arc::clone(&self.0).carry_out(host, work.clone(), sender));
        Some(outcome)
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
        let (tell, told) = oneshot::channel();
        self.thread.give(work.clone(), move |_, outcome| {
            // The receiver is this function, and gone only with the process.
            let _ = tell.send(outcome);
        });
        let outcome = told.await.unwrap_or(PasswordOutcome::Failed);
        drop(turn);
        {
            let mut state = self.lock();
            state.under_way.retain(|(other, _)| *other != work);
            if let Some(count) = state.of_hosts.get_mut(&host) {
                *count -= 1;
                if *count == 0 {
                    state.of_hosts.remove(&host);
                }
            }
        }
        sender.send_replace(Some(outcome));
        self.is_over.notify_waiters();
    }
}
