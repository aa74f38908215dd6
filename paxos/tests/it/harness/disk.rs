//! A journal in memory: what is written, what is really on the disk, and what was lost from it.

use std::collections::VecDeque;

use base::{Ballot, Position};
use paxos::{Entry, HardState, Log, Members, Record, Restored, Token};

/// The records of one turn, and the hard state at its end. A crash keeps or loses it as a whole.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub token: Token,
    pub records: Vec<Record>,
    pub state: HardState,
}

/// A replica's folder.
#[derive(Clone, Debug)]
pub struct Disk {
    /// Drawn when the folder was made.
    pub incarnation: u64,
    pub durable: Vec<Batch>,
    pub pending: VecDeque<Batch>,
    pub snapshot: Option<(Position, Ballot)>,
    /// Who votes by the snapshot, unless it is the founders.
    pub members: Option<Members>,
    /// A range of entries that cannot be read any more.
    pub damaged: Option<(Position, Position)>,
    /// The end of the journal is damaged: what stood there is unknown.
    pub unprovable: bool,
}

impl Disk {
    /// A new folder.
    pub fn empty(incarnation: u64) -> Disk {
        Disk {
            incarnation,
            durable: Vec::new(),
            pending: VecDeque::new(),
            snapshot: None,
            members: None,
            damaged: None,
            unprovable: false,
        }
    }

    /// A new folder of a node that founds nothing.
    pub fn of_learner(index: usize) -> Disk {
        Disk::empty(71 + index as u64)
    }

    /// The folder of a replica that has just founded its group with `count - 1` others.
    pub fn founded(count: usize) -> Disk {
        let state = HardState { incarnation: 1, incarnations: vec![1; count], ..HardState::default() };
        let mut disk = Disk::empty(1);
        disk.durable.push(Batch { token: Token(0), records: vec![Record::State], state });
        disk
    }

    pub fn write(&mut self, batch: Batch) {
        self.pending.push_back(batch);
    }

    /// Brings the first `batches` to the disk; the token up to which everything is there, if that is news.
    pub fn sync(&mut self, batches: usize) -> Option<Token> {
        let mut token = None;
        for _ in 0..batches.min(self.pending.len()) {
            let batch = self.pending.pop_front()?;
            token = Some(batch.token);
            // From here on the journal itself says that memory was lost.
            self.unprovable = false;
            self.durable.push(batch);
        }
        token
    }

    /// What was on its way is lost, but for the first `survivors` batches.
    pub fn crash(&mut self, survivors: usize) {
        self.sync(survivors);
        self.pending.clear();
    }

    /// The last state that was written.
    pub fn last_state(&self) -> Option<&HardState> {
        self.pending.back().or(self.durable.last()).map(|batch| &batch.state)
    }

    /// The log as the durable records tell it.
    fn log(&self) -> Log {
        let mut log = Log::default();
        for record in self.durable.iter().flat_map(|batch| &batch.records) {
            match record {
                Record::State => {}
                Record::Append { previous, entries } => {
                    if *previous > log.last() {
                        // Right only behind a snapshot whose Reset never got to the disk.
                        let (covered, ballot) = self.snapshot.unwrap_or_default();
                        assert!(*previous <= covered, "the journal has a gap before {}", previous.next());
                        log = Log::new(*previous, if *previous == covered { ballot } else { Ballot::default() });
                    }
                    log.truncate_after(*previous);
                    entries.iter().for_each(|entry| {
                        log.append(entry.clone());
                    });
                }
                Record::Replace { position, payload } => {
                    log.replace(*position, payload.clone());
                }
                // It has begun anew.
                Record::Reset { position: Position(0), last: Position(0), .. } => log = Log::default(),
                Record::Reset { position, ballot, last } => {
                    log.reset(*position, *ballot);
                    assert_eq!(log.last(), *last, "the record says what the log is after it");
                }
            }
        }
        log
    }

    /// Whether this disk holds `entry` at `position`, or a snapshot that covers it.
    pub fn holds(&self, position: Position, entry: &Entry) -> bool {
        self.snapshot.is_some_and(|(covered, _)| covered >= position) || self.log().get(position) == Some(entry)
    }

    /// Reads the folder, as a node does when it starts.
    pub fn restore(&mut self) -> Restored {
        let state = self.durable.last().map(|batch| batch.state.clone());
        let mut log = self.log();
        let applied = self.snapshot.map_or(Position(0), |(position, _)| position);
        if let Some((position, ballot)) = self.snapshot
            && position > log.base()
        {
            log.reset(position, ballot);
        }
        let decided = state.as_ref().map_or(Position(0), |state| state.decided);
        let mut unprovable = self.unprovable;
        if let Some((from, until)) = self.damaged {
            let until = until.min(log.last());
            if until <= decided {
                log.lose(from, until);
            } else {
                // Undecided entries are lost: nobody can say what they were.
                unprovable = true;
                log.truncate_after(from.previous().max(decided));
            }
        }
        let members = self.members.clone();
        Restored { state, log, unprovable, incarnation: self.incarnation, applied, members }
    }
}
