//! The transfer thread: makes the blocks of snapshots for peers, writes those that come from peers, and frees what nobody needs any
//! more. All of it may take long (a store is read and written), and none of it is waited for by the loop.

use std::io;
use std::sync::mpsc;
use std::thread;

use base::ordered::OrderedWrite;
use node::{BlockJob, Outbox, ReceiveJob, Rubbish};
use storage::{CachedStore, LsmStore};

use crate::caches;
use crate::event_loop::{Control, Messenger};

enum Work {
    Make(BlockJob),
    Take(Box<ReceiveJob>),
    Free(Vec<Rubbish>),
}

/// The loop's end of it. The thread ends with the process.
pub(crate) struct Transfers {
    work: mpsc::Sender<Work>,
    messenger: Messenger,
}

/// Starts the thread. `store` is the one that the node was started with.
pub(crate) fn start(store: Option<CachedStore<LsmStore>>, messenger: Messenger) -> io::Result<Transfers> {
    let (sender, receiver) = mpsc::channel();
    let of_thread = messenger.clone();
    // Not in the background: what is kept of the log meanwhile is bounded, and with the processor busy it might take too long.
    thread::Builder::new().name("transfers".to_owned()).spawn(move || run(&receiver, store.as_ref(), &of_thread))?;
    Ok(Transfers { work: sender, messenger })
}

impl Transfers {
    /// Takes what the node wants done.
    pub(crate) fn give(&self, outbox: &mut Outbox) {
        for job in outbox.make_blocks.drain(..) {
            self.send(Work::Make(job));
        }
        for job in outbox.take_blocks.drain(..) {
            self.send(Work::Take(Box::new(job)));
        }
        if !outbox.rubbish.is_empty() {
            self.send(Work::Free(std::mem::take(&mut outbox.rubbish)));
        }
    }

    fn send(&self, work: Work) {
        // The thread is gone only if it has panicked: then nothing is made any more, and everything else goes on.
        let reason = || "the transfer thread is gone; restart the node to get it back".to_owned();
        match self.work.send(work) {
            Ok(()) | Err(mpsc::SendError(Work::Free(_))) => {}
            Err(mpsc::SendError(Work::Make(job))) => {
                self.messenger.tell(Control::BlockMade(Box::new(job.fail(reason()))))
            }
            Err(mpsc::SendError(Work::Take(job))) => {
                self.messenger.tell(Control::BlocksTaken(Box::new(job.fail(reason()))));
            }
        }
    }
}

fn run(work: &mpsc::Receiver<Work>, store: Option<&CachedStore<LsmStore>>, messenger: &Messenger) {
    while let Ok(work) = work.recv() {
        match work {
            Work::Make(job) => messenger.tell(Control::BlockMade(Box::new(job.make()))),
            Work::Take(mut job) => {
                if let Some(store) = store {
                    caches::assign(store, job.partition(), &job.spaces());
                }
                while job.step(store.map(|store| store as &dyn OrderedWrite)) {}
                messenger.tell(Control::BlocksTaken(Box::new(job.done())));
            }
            Work::Free(rubbish) => drop(rubbish),
        }
    }
}
