//! The messages of the replicas' own protocol, and entries, as bytes.

use paxos::{Entry, Knowledge, Leading, Members, Message, Tail};
use wire::{Malformed, Reader, Writer};

pub(crate) fn encode_entries(w: &mut Writer<'_>, entries: &[Entry]) {
    w.count(entries.len());
    for entry in entries {
        w.ballot(entry.ballot);
        w.bytes(&entry.payload);
    }
}

pub(crate) fn decode_entries(r: &mut Reader<'_>) -> Result<Vec<Entry>, Malformed> {
    let count = r.count(3)?;
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        entries.push(Entry { ballot: r.ballot()?, payload: r.bytes()? });
    }
    Ok(entries)
}

fn encode_numbers(w: &mut Writer<'_>, numbers: &[u64]) {
    w.count(numbers.len());
    for number in numbers {
        w.u64(*number);
    }
}

fn decode_numbers(r: &mut Reader<'_>) -> Result<Vec<u64>, Malformed> {
    let count = r.count(8)?;
    (0..count).map(|_| r.u64()).collect()
}

pub(crate) fn encode_members(w: &mut Writer<'_>, members: &Members) {
    w.position(members.at);
    w.bytes(&members.encode());
}

pub(crate) fn decode_members(r: &mut Reader<'_>) -> Result<Members, Malformed> {
    let at = r.position()?;
    Members::decode(at, r.slice()?).map_err(|_| Malformed)
}

fn encode_tail(w: &mut Writer<'_>, tail: Tail) {
    w.ballot(tail.ballot);
    w.position(tail.last);
}

fn decode_tail(r: &mut Reader<'_>) -> Result<Tail, Malformed> {
    Ok(Tail { ballot: r.ballot()?, last: r.position()? })
}

pub(super) fn encode_paxos(w: &mut Writer<'_>, message: &Message) {
    match message {
        Message::PreVote { ballot } => {
            w.u8(1);
            w.ballot(*ballot);
        }
        Message::PreVoteReply { ballot, granted, promised, tail } => {
            w.u8(2);
            w.ballot(*ballot);
            w.bool(*granted);
            w.ballot(*promised);
            encode_tail(w, *tail);
        }
        Message::Prepare { ballot } => {
            w.u8(3);
            w.ballot(*ballot);
        }
        Message::Promise { ballot, tail, incarnation, incarnations } => {
            w.u8(4);
            w.ballot(*ballot);
            encode_tail(w, *tail);
            w.u64(*incarnation);
            encode_numbers(w, incarnations);
        }
        Message::Refuse { promised } => {
            w.u8(5);
            w.ballot(*promised);
        }
        Message::Accept { ballot, previous, previous_ballot, entries, decided } => {
            w.u8(6);
            w.ballot(*ballot);
            w.position(*previous);
            w.ballot(*previous_ballot);
            w.position(*decided);
            encode_entries(w, entries);
        }
        Message::Accepted { ballot, last } => {
            w.u8(7);
            w.ballot(*ballot);
            w.position(*last);
        }
        Message::Decided { ballot, decided } => {
            w.u8(8);
            w.ballot(*ballot);
            w.position(*decided);
        }
        Message::Mismatch { ballot, previous, last, decided } => {
            w.u8(9);
            w.ballot(*ballot);
            w.position(*previous);
            w.position(*last);
            w.position(*decided);
        }
        Message::Confirm { ballot, round } => {
            w.u8(10);
            w.ballot(*ballot);
            w.u64(*round);
        }
        Message::Confirmed { ballot, round } => {
            w.u8(11);
            w.ballot(*ballot);
            w.u64(*round);
        }
        Message::Fetch { ballot, previous, previous_ballot, decided, until } => {
            w.u8(12);
            w.option(*ballot, |w, ballot| w.ballot(ballot));
            w.position(*previous);
            w.ballot(*previous_ballot);
            w.position(*decided);
            w.position(*until);
        }
        Message::Fetched { ballot, previous, previous_ballot, entries } => {
            w.u8(13);
            w.option(*ballot, |w, ballot| w.ballot(ballot));
            w.position(*previous);
            w.ballot(*previous_ballot);
            encode_entries(w, entries);
        }
        Message::HandOver { ballot } => {
            w.u8(14);
            w.ballot(*ballot);
        }
        Message::Recover { incarnation, blank } => {
            w.u8(15);
            w.u64(*incarnation);
            w.bool(*blank);
        }
        Message::RecoverReply { incarnation, knowledge } => {
            w.u8(16);
            w.u64(*incarnation);
            encode_knowledge(w, knowledge);
        }
        Message::Held { ballot, last } => {
            w.u8(17);
            w.ballot(*ballot);
            w.position(*last);
        }
        Message::Learns { ballot, incarnation } => {
            w.u8(18);
            w.ballot(*ballot);
            w.u64(*incarnation);
        }
        Message::Leaves { ballot, incarnation } => {
            w.u8(19);
            w.ballot(*ballot);
            w.u64(*incarnation);
        }
        Message::Left { ballot, incarnation, members } => {
            w.u8(20);
            w.ballot(*ballot);
            w.u64(*incarnation);
            encode_members(w, members);
        }
    }
}

fn encode_knowledge(w: &mut Writer<'_>, knowledge: &Knowledge) {
    match knowledge {
        Knowledge::Blank { incarnation } => {
            w.u8(1);
            w.u64(*incarnation);
        }
        Knowledge::Original { incarnations } => {
            w.u8(2);
            encode_numbers(w, incarnations);
        }
        Knowledge::Amnesiac => w.u8(5),
        Knowledge::Lost { known } => {
            w.u8(3);
            w.u64(*known);
        }
        Knowledge::Noted { promised, incarnations, leads, members } => {
            w.u8(if members.is_some() { 6 } else { 4 });
            w.ballot(*promised);
            encode_numbers(w, incarnations);
            w.option(*leads, |w, Leading { ballot, last, knowable }| {
                w.ballot(ballot);
                w.position(last);
                w.position(knowable);
            });
            if let Some(members) = members {
                encode_members(w, members);
            }
        }
    }
}

pub(super) fn decode_paxos(r: &mut Reader<'_>) -> Result<Message, Malformed> {
    Ok(match r.u8()? {
        1 => Message::PreVote { ballot: r.ballot()? },
        2 => Message::PreVoteReply {
            ballot: r.ballot()?,
            granted: r.bool()?,
            promised: r.ballot()?,
            tail: decode_tail(r)?,
        },
        3 => Message::Prepare { ballot: r.ballot()? },
        4 => Message::Promise {
            ballot: r.ballot()?,
            tail: decode_tail(r)?,
            incarnation: r.u64()?,
            incarnations: decode_numbers(r)?,
        },
        5 => Message::Refuse { promised: r.ballot()? },
        6 => Message::Accept {
            ballot: r.ballot()?,
            previous: r.position()?,
            previous_ballot: r.ballot()?,
            decided: r.position()?,
            entries: decode_entries(r)?,
        },
        7 => Message::Accepted { ballot: r.ballot()?, last: r.position()? },
        8 => Message::Decided { ballot: r.ballot()?, decided: r.position()? },
        9 => Message::Mismatch {
            ballot: r.ballot()?,
            previous: r.position()?,
            last: r.position()?,
            decided: r.position()?,
        },
        10 => Message::Confirm { ballot: r.ballot()?, round: r.u64()? },
        11 => Message::Confirmed { ballot: r.ballot()?, round: r.u64()? },
        12 => Message::Fetch {
            ballot: r.option(Reader::ballot)?,
            previous: r.position()?,
            previous_ballot: r.ballot()?,
            decided: r.position()?,
            until: r.position()?,
        },
        13 => Message::Fetched {
            ballot: r.option(Reader::ballot)?,
            previous: r.position()?,
            previous_ballot: r.ballot()?,
            entries: decode_entries(r)?,
        },
        14 => Message::HandOver { ballot: r.ballot()? },
        15 => Message::Recover { incarnation: r.u64()?, blank: r.bool()? },
        16 => Message::RecoverReply { incarnation: r.u64()?, knowledge: decode_knowledge(r)? },
        17 => Message::Held { ballot: r.ballot()?, last: r.position()? },
        18 => Message::Learns { ballot: r.ballot()?, incarnation: r.u64()? },
        19 => Message::Leaves { ballot: r.ballot()?, incarnation: r.u64()? },
        20 => {
            let (ballot, incarnation) = (r.ballot()?, r.u64()?);
            Message::Left { ballot, incarnation, members: Box::new(decode_members(r)?) }
        }
        _ => return Err(Malformed),
    })
}

fn decode_knowledge(r: &mut Reader<'_>) -> Result<Knowledge, Malformed> {
    Ok(match r.u8()? {
        1 => Knowledge::Blank { incarnation: r.u64()? },
        2 => Knowledge::Original { incarnations: decode_numbers(r)? },
        3 => Knowledge::Lost { known: r.u64()? },
        5 => Knowledge::Amnesiac,
        kind @ (4 | 6) => Knowledge::Noted {
            promised: r.ballot()?,
            incarnations: decode_numbers(r)?,
            leads: r.option(|r| Ok(Leading { ballot: r.ballot()?, last: r.position()?, knowable: r.position()? }))?,
            members: if kind == 6 { Some(Box::new(decode_members(r)?)) } else { None },
        },
        _ => return Err(Malformed),
    })
}
