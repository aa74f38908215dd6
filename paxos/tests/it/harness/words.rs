//! How transcripts name things.

use base::{Ballot, Position};
use paxos::{Entry, HardState, Knowledge, Leading, Member, Members, Message, Record, Replica, RoleName};

use super::disk::Batch;

/// `n1` for node 0.
pub fn node_name(index: usize) -> String {
    format!("n{}", index + 1)
}

/// `2.n1`: round 2 of n1.
pub fn ballot_words(ballot: Ballot) -> String {
    if ballot == Ballot::default() {
        return "nothing".to_owned();
    }
    format!("{}.{}", ballot.round, node_name(usize::from(ballot.node.0)))
}

/// `voters n1 n2`, or, while the group is joint, `voters n1 n2 and n2 n3`.
pub fn members_words(members: &Members) -> String {
    let list = |list: &[Member]| -> String {
        list.iter().map(|member| format!(" {}", node_name(usize::from(member.node.0)))).collect()
    };
    let and = if members.is_joint() { " and" } else { "" };
    format!("voters{}{and}{}", list(&members.voters), list(&members.incoming))
}

/// `3 "pear"`, or `3 opening`; with `[ballot]` when that is not the one that the reader expects.
pub fn entry_words(position: Position, entry: &Entry, expected: Option<Ballot>) -> String {
    let payload = match &entry.payload[..] {
        [] => "opening".to_owned(),
        payload if Members::is_in(payload) => members_words(&Members::decode(position, payload).expect("a group")),
        payload => format!("{:?}", String::from_utf8_lossy(payload)),
    };
    let ballot =
        if expected == Some(entry.ballot) { String::new() } else { format!(" [{}]", ballot_words(entry.ballot)) };
    format!("{position} {payload}{ballot}")
}

fn entries_words(previous: Position, entries: &[Entry], expected: Option<Ballot>) -> String {
    let positions = (previous.0 + 1..).map(Position);
    let words: Vec<String> =
        positions.zip(entries).map(|(position, entry)| entry_words(position, entry, expected)).collect();
    words.join(", ")
}

/// `3 [2.n1]`: position 3, whose entry has ballot 2.n1.
fn place_words(position: Position, ballot: Ballot) -> String {
    if position == Position(0) { "0".to_owned() } else { format!("{position} [{}]", ballot_words(ballot)) }
}

/// The message's name and what matters in it.
pub fn message_words(message: &Message) -> String {
    match message {
        Message::PreVote { ballot } => format!("PreVote {}", ballot_words(*ballot)),
        Message::PreVoteReply { ballot, granted: true, .. } => format!("PreVoteReply {}: yes", ballot_words(*ballot)),
        Message::PreVoteReply { ballot, promised, .. } => {
            format!("PreVoteReply {}: no, has promised {}", ballot_words(*ballot), ballot_words(*promised))
        }
        Message::Prepare { ballot } => format!("Prepare {}", ballot_words(*ballot)),
        Message::Promise { ballot, tail, incarnation, incarnations } => {
            let lives = if incarnations.is_empty() {
                format!("; incarnation {incarnation}, has never voted")
            } else if incarnations.iter().all(|number| number == incarnation) {
                String::new()
            } else {
                format!("; incarnation {incarnation}, knows {incarnations:?}")
            };
            format!("Promise {}: log ends at {}{lives}", ballot_words(*ballot), place_words(tail.last, tail.ballot))
        }
        Message::Refuse { promised } => format!("Refuse: has promised {}", ballot_words(*promised)),
        Message::Accept { ballot, previous, previous_ballot, entries, decided } => {
            let news = if entries.is_empty() {
                "nothing new".to_owned()
            } else {
                entries_words(*previous, entries, Some(*ballot))
            };
            let place = place_words(*previous, *previous_ballot);
            format!("Accept {}: after {place}: {news}; decided {decided}", ballot_words(*ballot))
        }
        Message::Held { ballot, last } => format!("Held {}: up to {last}, not on disk", ballot_words(*ballot)),
        Message::Accepted { ballot, last } => format!("Accepted {}: up to {last}", ballot_words(*ballot)),
        Message::Decided { ballot, decided } => format!("Decided {}: up to {decided}", ballot_words(*ballot)),
        Message::Mismatch { ballot, previous, last, decided } => format!(
            "Mismatch {}: not the same at {previous}; log ends at {last}, decided {decided}",
            ballot_words(*ballot)
        ),
        Message::Confirm { ballot, round } => format!("Confirm {}: round {round}", ballot_words(*ballot)),
        Message::Confirmed { ballot, round } => format!("Confirmed {}: round {round}", ballot_words(*ballot)),
        Message::Fetch { ballot: Some(ballot), previous, previous_ballot, decided, until } => {
            let place = place_words(*previous, *previous_ballot);
            format!("Fetch for {}: after {place} up to {until}; decided {decided}", ballot_words(*ballot))
        }
        Message::Fetch { previous, until, .. } => format!("Fetch: decided entries after {previous} up to {until}"),
        Message::Fetched { ballot: Some(ballot), previous, previous_ballot, entries } => {
            let place = place_words(*previous, *previous_ballot);
            let news = entries_words(*previous, entries, None);
            format!("Fetched for {}: after {place}: {news}", ballot_words(*ballot))
        }
        Message::Fetched { previous, entries, .. } => {
            format!("Fetched: after {previous}: {}", entries_words(*previous, entries, None))
        }
        Message::Learns { ballot, incarnation } => {
            format!("Learns {}: has no vote, incarnation {incarnation}", ballot_words(*ballot))
        }
        Message::Leaves { ballot, incarnation } => {
            format!("Leaves {}: would begin anew, and not as {incarnation}", ballot_words(*ballot))
        }
        Message::Left { ballot, incarnation, .. } => {
            format!("Left {}: may begin anew, and is {incarnation} no more", ballot_words(*ballot))
        }
        Message::HandOver { ballot } => format!("HandOver {}", ballot_words(*ballot)),
        Message::Recover { incarnation, blank: true } => format!("Recover: empty folder, incarnation {incarnation}"),
        Message::Recover { incarnation, .. } => format!("Recover: memory lost, incarnation {incarnation}"),
        Message::RecoverReply { knowledge, .. } => format!("RecoverReply: {}", knowledge_words(knowledge)),
    }
}

fn knowledge_words(knowledge: &Knowledge) -> String {
    match knowledge {
        Knowledge::Blank { incarnation } => format!("mine is empty too, incarnation {incarnation}"),
        Knowledge::Original { incarnations } => {
            format!("the group was founded with that incarnation of yours; I know {incarnations:?}")
        }
        Knowledge::Amnesiac => "I have lost memory myself".to_owned(),
        Knowledge::Lost { known } => format!("I know another incarnation of you: {known}"),
        Knowledge::Noted { promised, leads, .. } => {
            let leads = leads.map_or(String::new(), |Leading { ballot, last, .. }| {
                format!(", I lead {} and my log ends at {last}", ballot_words(ballot))
            });
            format!("noted; I have promised {}{leads}", ballot_words(*promised))
        }
    }
}

/// What a batch stores, in comparison with the state stored before.
pub fn record_words(batch: &Batch, before: Option<&HardState>) -> String {
    let blank = HardState::default();
    let before = before.unwrap_or(&blank);
    let state = &batch.state;
    let mut words = Vec::new();
    if state.promised != before.promised {
        words.push(format!("the promise of {}", ballot_words(state.promised)));
    }
    for record in &batch.records {
        match record {
            Record::State => {}
            Record::Append { previous, entries } if entries.is_empty() => {
                words.push(format!("that the log ends at {previous}"));
            }
            Record::Append { previous, entries } => {
                words.push(entries_words(*previous, entries, Some(state.promised)));
            }
            Record::Replace { position, .. } => words.push(format!("another entry {position}")),
            Record::Reset { position, ballot, .. } => {
                words.push(format!("that the log begins after {}", place_words(*position, *ballot)));
            }
        }
    }
    if state.incarnation != before.incarnation && before != &blank {
        words.push(format!("its new incarnation {}", state.incarnation));
    }
    if state.incarnations != before.incarnations {
        words.push(format!("the incarnations {:?}", state.incarnations));
    }
    if state.recovering != before.recovering {
        words.push(if state.recovering { "that it recovers" } else { "that it has recovered" }.to_owned());
    }
    if state.joins != before.joins {
        words.push(if state.joins { "that it has never voted" } else { "that it votes" }.to_owned());
    }
    if state.decided != before.decided {
        words.push(format!("decided {}", state.decided));
    }
    if words.is_empty() { "its state".to_owned() } else { words.join("; ") }
}

/// What a replica has become.
pub fn role_words(replica: &Replica) -> String {
    match replica.role() {
        RoleName::Leader => format!("is now leader of {}", ballot_words(replica.promised())),
        RoleName::Follower => "is now a follower".to_owned(),
        RoleName::Candidate => "is now a candidate".to_owned(),
        RoleName::Recovering => "is now recovering".to_owned(),
    }
}

/// The entries that became decided after `before`.
pub fn decided_words(replica: &Replica, before: Position) -> String {
    let positions = (before.0 + 1..=replica.decided().0).map(Position);
    let words: Vec<String> = positions
        .map(|position| match replica.log().get(position) {
            Some(entry) => entry_words(position, entry, Some(entry.ballot)),
            None => format!("{position}"),
        })
        .collect();
    words.join(", ")
}

/// One line for a replica: role, promise, log.
pub fn replica_words(replica: &Replica) -> String {
    let role = match replica.role() {
        RoleName::Leader => "leader",
        RoleName::Follower => "follower",
        RoleName::Candidate => "candidate",
        RoleName::Recovering => "recovering",
    };
    let log = replica.log();
    let mut words = Vec::new();
    if log.base() > Position(0) {
        words.push(format!("…{} in a snapshot", log.base()));
    }
    let mut ballot = Ballot::default();
    for position in (log.first().0..=log.last().0).map(Position) {
        match log.get(position) {
            Some(entry) => {
                words.push(entry_words(position, entry, Some(ballot)));
                ballot = entry.ballot;
            }
            None => words.push(format!("{position} LOST")),
        }
    }
    let log = if words.is_empty() { "empty".to_owned() } else { words.join(", ") };
    format!("{role:<10} promised {:<7}  decided {}  log: {log}", ballot_words(replica.promised()), replica.decided())
}
