//! The bytes of each message, and the numbers by which they are told apart.

use base::WallTime;
use base::versions::Feature;
use bytes::Bytes;
use wire::{Malformed, Reader, Writer};

use super::carried::{CarriedAnswer, CarriedRead, FedEntry, Outcome};
use super::changes::{decode_page, decode_question, decode_records, encode_page, encode_question, encode_records};
use super::ping::{decode_copies, decode_ping, encode_copies, encode_ping};
use super::protocol::{decode_paxos, encode_paxos};
use super::{Forwarded, PeerMessage, Wish};
use crate::entry::{Kind, Life};
use crate::image::Ending;
use crate::step_over::Said;
use crate::testimony::SignedClaim;

const PING: u8 = 1;
const PAXOS: u8 = 2;
const FORWARD: u8 = 3;
const READ_INDEX: u8 = 4;
const READ_INDEX_REPLY: u8 = 5;
// 6 and 7 were blocks and wishes before transfers had numbers.
const SNAPSHOT_OFFER: u8 = 8;
const SNAPSHOT_BLOCK: u8 = 9;
const SNAPSHOT_WANT: u8 = 10;
const COPIES_QUESTION: u8 = 11;
const COPIES: u8 = 12;
const TOUCHED: u8 = 13;
const BULLETIN: u8 = 14;
const BULLETINS_HEARD: u8 = 15;
const FAREWELL: u8 = 16;
const LEFT_BEHIND: u8 = 17;
/// As [`FORWARD`], by a node that has no state.
const FORWARD_FROM_ELSEWHERE: u8 = 18;
const OUTCOMES: u8 = 19;
const OUTLIVED: u8 = 20;
const CARRY: u8 = 21;
const CARRIED: u8 = 22;
const FOLLOW: u8 = 23;
const FEED: u8 = 24;
/// As [`READ_INDEX`], with a ballot.
const VOUCHING_READ_INDEX: u8 = 25;
/// As [`READ_INDEX_REPLY`], of what is decided.
const DECIDED_READ_INDEX_REPLY: u8 = 26;
const CARRY_THROUGH: u8 = 27;
const CARRY_FOR: u8 = 28;
const BUSY: u8 = 29;
const DIGEST: u8 = 31;
const STAND: u8 = 30;
const SIGNED_CLAIM: u8 = 32;
const FOLLOW_CHANGES: u8 = 33;
const FED_CHANGES: u8 = 34;
const WANT_PAGE: u8 = 35;
const PAGE: u8 = 36;

impl PeerMessage {
    /// Its bytes on a link of that version.
    pub(crate) fn encode(&self, version: u16, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        match self {
            PeerMessage::Ping(ping) => {
                w.u8(PING);
                encode_ping(&mut w, ping, version);
            }
            PeerMessage::Paxos { partition, message } => {
                w.u8(PAXOS);
                w.partition(*partition);
                encode_paxos(&mut w, message);
            }
            PeerMessage::Forward { partition, life, floor, elsewhere, writes } => {
                w.u8(if *elsewhere { FORWARD_FROM_ELSEWHERE } else { FORWARD });
                w.partition(*partition);
                encode_life(&mut w, *life);
                w.u64(*floor);
                w.count(writes.len());
                for write in writes {
                    w.u8(write.kind.number());
                    w.u64(write.sequence);
                    w.bytes(&write.body);
                }
            }
            PeerMessage::Outcomes { partition, life, outcomes } => {
                w.u8(OUTCOMES);
                w.partition(*partition);
                encode_life(&mut w, *life);
                Outcome::encode_all(outcomes, &mut w);
            }
            PeerMessage::Outlived { partition, life, by } => {
                w.u8(OUTLIVED);
                w.partition(*partition);
                encode_life(&mut w, *life);
                encode_life(&mut w, *by);
            }
            PeerMessage::Carry { partition, ticket, reads } => {
                w.u8(CARRY);
                w.partition(*partition);
                w.u64(*ticket);
                CarriedRead::encode_all(reads, &mut w);
            }
            PeerMessage::CarryThrough { partition, ticket, reads } => {
                w.u8(CARRY_THROUGH);
                w.partition(*partition);
                w.u64(*ticket);
                CarriedRead::encode_all(reads, &mut w);
            }
            PeerMessage::CarryFor { partition, asker, ticket, vouches, reads } => {
                w.u8(CARRY_FOR);
                w.partition(*partition);
                w.node(*asker);
                w.u64(*ticket);
                w.option(*vouches, |w, ballot| w.ballot(ballot));
                CarriedRead::encode_all(reads, &mut w);
            }
            PeerMessage::Carried { partition, ticket, revision, answers } => {
                w.u8(CARRIED);
                w.partition(*partition);
                w.u64(*ticket);
                w.revision(*revision);
                CarriedAnswer::encode_all(answers, &mut w);
            }
            PeerMessage::Follow { partition, feed } => {
                w.u8(FOLLOW);
                w.partition(*partition);
                w.u64(*feed);
            }
            PeerMessage::Feed { partition, feed, after, until, entries } => {
                w.u8(FEED);
                w.partition(*partition);
                w.u64(*feed);
                w.position(*after);
                w.position(*until);
                FedEntry::encode_all(entries, &mut w);
            }
            PeerMessage::FollowChanges { partition, feed, after } => {
                w.u8(FOLLOW_CHANGES);
                w.partition(*partition);
                w.u64(*feed);
                w.revision(*after);
            }
            PeerMessage::FedChanges { partition, feed, after, records } => {
                w.u8(FED_CHANGES);
                w.partition(*partition);
                w.u64(*feed);
                w.revision(*after);
                encode_records(records, &mut w);
            }
            PeerMessage::WantPage { partition, question } => {
                w.u8(WANT_PAGE);
                w.partition(*partition);
                encode_question(question, &mut w);
            }
            PeerMessage::Page { partition, ticket, page } => {
                w.u8(PAGE);
                w.partition(*partition);
                w.u64(*ticket);
                encode_page(page, &mut w);
            }
            PeerMessage::ReadIndex { partition, ticket, vouches } => {
                let vouches = vouches.filter(|_| Feature::VouchingQuestions.is_in(version));
                w.u8(if vouches.is_some() { VOUCHING_READ_INDEX } else { READ_INDEX });
                w.partition(*partition);
                w.u64(*ticket);
                vouches.inspect(|ballot| w.ballot(*ballot));
            }
            PeerMessage::ReadIndexReply { partition, ticket, position, clock, ballot, is_decided } => {
                w.u8(if *is_decided { DECIDED_READ_INDEX_REPLY } else { READ_INDEX_REPLY });
                w.partition(*partition);
                w.u64(*ticket);
                w.position(*position);
                w.u64(clock.0);
                w.ballot(*ballot);
            }
            PeerMessage::CopiesQuestion { partition, position } => {
                w.u8(COPIES_QUESTION);
                w.partition(*partition);
                w.position(*position);
            }
            PeerMessage::Copies { partition, ballot, copies } => {
                w.u8(COPIES);
                w.partition(*partition);
                w.ballot(*ballot);
                encode_copies(&mut w, copies);
            }
            PeerMessage::SnapshotOffer { partition, transfer, position, ballot } => {
                w.u8(SNAPSHOT_OFFER);
                w.partition(*partition);
                w.u64(*transfer);
                w.position(*position);
                w.ballot(*ballot);
            }
            PeerMessage::SnapshotBlock { partition, transfer, index, ending, block } => {
                w.u8(SNAPSHOT_BLOCK);
                w.partition(*partition);
                w.u64(*transfer);
                w.u64(*index);
                w.option(*ending, |w, ending| {
                    w.u64(ending.records);
                    w.u64(ending.digest);
                });
                w.bytes(block);
            }
            PeerMessage::SnapshotWant { partition, transfer, index, wish } => {
                w.u8(SNAPSHOT_WANT);
                w.partition(*partition);
                w.u64(*transfer);
                w.u64(*index);
                w.u8(match wish {
                    Wish::Next => 1,
                    Wish::Wait => 2,
                    Wish::Done => 3,
                });
            }
            PeerMessage::Busy => w.u8(BUSY),
            PeerMessage::SignedClaim(signed) => {
                w.u8(SIGNED_CLAIM);
                signed.encode(&mut w);
            }
            PeerMessage::Stand(said) => {
                w.u8(STAND);
                said.encode(&mut w);
            }
            PeerMessage::Digest { partition, position, ending } => {
                w.u8(DIGEST);
                w.partition(*partition);
                w.position(*position);
                w.u64(ending.records);
                w.u64(ending.digest);
            }
            PeerMessage::Touched { partition, orders } => {
                w.u8(TOUCHED);
                w.partition(*partition);
                w.count(orders.len());
                orders.iter().for_each(|order| w.u64(*order));
            }
            PeerMessage::Bulletin { number, anew, items } => {
                w.u8(BULLETIN);
                w.varint(*number);
                w.bool(*anew);
                w.bytes(items);
            }
            PeerMessage::Farewell { cluster } => {
                w.u8(FAREWELL);
                w.u64(*cluster);
            }
            PeerMessage::LeftBehind { cluster } => {
                w.u8(LEFT_BEHIND);
                w.u64(*cluster);
            }
            PeerMessage::BulletinsHeard { number, whole } => {
                w.u8(BULLETINS_HEARD);
                w.varint(*number);
                w.bool(*whole);
            }
        }
    }

    /// Reads it, on a link of that version.
    pub(crate) fn decode(bytes: &Bytes, version: u16) -> Result<PeerMessage, Malformed> {
        let mut r = Reader::new(bytes);
        let message = match r.u8()? {
            PING => PeerMessage::Ping(Box::new(decode_ping(&mut r, version)?)),
            PAXOS => PeerMessage::Paxos { partition: r.partition()?, message: decode_paxos(&mut r)? },
            kind @ (FORWARD | FORWARD_FROM_ELSEWHERE) => {
                let partition = r.partition()?;
                let life = decode_life(&mut r)?;
                let floor = r.u64()?;
                let count = r.count(10)?;
                let mut writes = Vec::with_capacity(count);
                for _ in 0..count {
                    let kind = Kind::from_number(r.u8()?)?;
                    // Nobody proposes it: it only takes the place of what is decided.
                    if kind == Kind::Void {
                        return Err(Malformed);
                    }
                    writes.push(Forwarded { kind, sequence: r.u64()?, body: r.bytes()? });
                }
                PeerMessage::Forward { partition, life, floor, elsewhere: kind == FORWARD_FROM_ELSEWHERE, writes }
            }
            OUTCOMES => {
                let (partition, life) = (r.partition()?, decode_life(&mut r)?);
                PeerMessage::Outcomes { partition, life, outcomes: Outcome::decode_all(&mut r)? }
            }
            OUTLIVED => {
                let (partition, life) = (r.partition()?, decode_life(&mut r)?);
                PeerMessage::Outlived { partition, life, by: decode_life(&mut r)? }
            }
            CARRY => {
                let (partition, ticket) = (r.partition()?, r.u64()?);
                PeerMessage::Carry { partition, ticket, reads: CarriedRead::decode_all(&mut r)? }
            }
            CARRY_THROUGH if Feature::CarriedThrough.is_in(version) => {
                let (partition, ticket) = (r.partition()?, r.u64()?);
                PeerMessage::CarryThrough { partition, ticket, reads: CarriedRead::decode_all(&mut r)? }
            }
            CARRY_FOR if Feature::CarriedThrough.is_in(version) => {
                let (partition, asker, ticket) = (r.partition()?, r.node()?, r.u64()?);
                let vouches = r.option(|r| r.ballot())?;
                PeerMessage::CarryFor { partition, asker, ticket, vouches, reads: CarriedRead::decode_all(&mut r)? }
            }
            CARRIED => {
                let (partition, ticket, revision) = (r.partition()?, r.u64()?, r.revision()?);
                PeerMessage::Carried { partition, ticket, revision, answers: CarriedAnswer::decode_all(&mut r)? }
            }
            FOLLOW => PeerMessage::Follow { partition: r.partition()?, feed: r.u64()? },
            FEED => {
                let (partition, feed) = (r.partition()?, r.u64()?);
                let (after, until) = (r.position()?, r.position()?);
                PeerMessage::Feed { partition, feed, after, until, entries: FedEntry::decode_all(&mut r)? }
            }
            FOLLOW_CHANGES if Feature::FedChanges.is_in(version) => {
                PeerMessage::FollowChanges { partition: r.partition()?, feed: r.u64()?, after: r.revision()? }
            }
            FED_CHANGES if Feature::FedChanges.is_in(version) => {
                let (partition, feed, after) = (r.partition()?, r.u64()?, r.revision()?);
                PeerMessage::FedChanges { partition, feed, after, records: decode_records(&mut r)? }
            }
            WANT_PAGE if Feature::FedChanges.is_in(version) => {
                PeerMessage::WantPage { partition: r.partition()?, question: Box::new(decode_question(&mut r)?) }
            }
            PAGE if Feature::FedChanges.is_in(version) => {
                let (partition, ticket) = (r.partition()?, r.u64()?);
                PeerMessage::Page { partition, ticket, page: Box::new(decode_page(&mut r)?) }
            }
            READ_INDEX => PeerMessage::ReadIndex { partition: r.partition()?, ticket: r.u64()?, vouches: None },
            VOUCHING_READ_INDEX if Feature::VouchingQuestions.is_in(version) => {
                let (partition, ticket) = (r.partition()?, r.u64()?);
                PeerMessage::ReadIndex { partition, ticket, vouches: Some(r.ballot()?) }
            }
            DECIDED_READ_INDEX_REPLY if !Feature::VouchingQuestions.is_in(version) => return Err(Malformed),
            kind @ (READ_INDEX_REPLY | DECIDED_READ_INDEX_REPLY) => PeerMessage::ReadIndexReply {
                partition: r.partition()?,
                ticket: r.u64()?,
                position: r.position()?,
                clock: WallTime(r.u64()?),
                ballot: r.ballot()?,
                is_decided: kind == DECIDED_READ_INDEX_REPLY,
            },
            COPIES_QUESTION => PeerMessage::CopiesQuestion { partition: r.partition()?, position: r.position()? },
            COPIES => {
                PeerMessage::Copies { partition: r.partition()?, ballot: r.ballot()?, copies: decode_copies(&mut r)? }
            }
            SNAPSHOT_OFFER => PeerMessage::SnapshotOffer {
                partition: r.partition()?,
                transfer: r.u64()?,
                position: r.position()?,
                ballot: r.ballot()?,
            },
            SNAPSHOT_BLOCK => PeerMessage::SnapshotBlock {
                partition: r.partition()?,
                transfer: r.u64()?,
                index: r.u64()?,
                ending: r.option(|r| Ok(Ending { records: r.u64()?, digest: r.u64()? }))?,
                block: r.bytes()?,
            },
            SNAPSHOT_WANT => PeerMessage::SnapshotWant {
                partition: r.partition()?,
                transfer: r.u64()?,
                index: r.u64()?,
                wish: match r.u8()? {
                    1 => Wish::Next,
                    2 => Wish::Wait,
                    3 => Wish::Done,
                    _ => return Err(Malformed),
                },
            },
            TOUCHED => {
                let partition = r.partition()?;
                let orders = (0..r.count(8)?).map(|_| r.u64()).collect::<Result<_, _>>()?;
                PeerMessage::Touched { partition, orders }
            }
            BULLETIN => PeerMessage::Bulletin { number: r.varint()?, anew: r.bool()?, items: r.bytes()? },
            FAREWELL => PeerMessage::Farewell { cluster: r.u64()? },
            LEFT_BEHIND => PeerMessage::LeftBehind { cluster: r.u64()? },
            BUSY if Feature::Busy.is_in(version) => PeerMessage::Busy,
            DIGEST if Feature::ToldDigests.is_in(version) => {
                let (partition, position) = (r.partition()?, r.position()?);
                PeerMessage::Digest { partition, position, ending: Ending { records: r.u64()?, digest: r.u64()? } }
            }
            SIGNED_CLAIM if Feature::SignedClaims.is_in(version) => {
                PeerMessage::SignedClaim(Box::new(SignedClaim::decode(&mut r)?))
            }
            STAND if Feature::StandsToEntries.is_in(version) => PeerMessage::Stand(Said::decode(&mut r)?),
            BULLETINS_HEARD => PeerMessage::BulletinsHeard { number: r.varint()?, whole: r.bool()? },
            _ => return Err(Malformed),
        };
        r.finish()?;
        Ok(message)
    }
}

fn encode_life(w: &mut Writer<'_>, life: Life) {
    w.u64(life.incarnation);
    w.u64(life.boot);
}

fn decode_life(r: &mut Reader<'_>) -> Result<Life, Malformed> {
    Ok(Life { incarnation: r.u64()?, boot: r.u64()? })
}
