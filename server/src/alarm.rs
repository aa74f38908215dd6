//! Wakes the loop out of its sleep, at the cost of a system call only where it really sleeps.
//!
//! The protocol, for whoever has news: (1) put the news where the loop looks, (2) [`Alarm::ring`].
//! The loop: (1) [`Alarm::going_to_sleep`], (2) look at every place for news, (3) sleep only if there are none,
//! (4) [`Alarm::awake`]. All of it is sequentially consistent, so either the loop sees the news in its step 2
//! or the bringer sees in his that the loop is going to sleep.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use mio::{Registry, Token, Waker};

use crate::log;

/// See the file's head.
pub(crate) struct Alarm {
    sleeping: AtomicBool,
    waker: Waker,
}

impl Alarm {
    pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Alarm> {
        Ok(Alarm { sleeping: AtomicBool::new(false), waker: Waker::new(registry, token)? })
    }

    /// Wakes the loop if it sleeps or is about to.
    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::SeqCst)
            && self.sleeping.swap(false, Ordering::SeqCst)
            && let Err(error) = self.waker.wake()
        {
            // Cannot happen on an eventfd that the loop holds open; the loop's timers would wake it in the end.
            log::error(&format!("the loop could not be woken: {error}"));
        }
    }

    /// Said by the loop before it looks for news for the last time.
    pub(crate) fn going_to_sleep(&self) {
        self.sleeping.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Said by the loop when it is up again.
    pub(crate) fn awake(&self) {
        self.sleeping.store(false, Ordering::SeqCst);
    }
}
