//! Changes with their values, and stored keys, for the subscribers of nodes without a state.

use base::WallTime;
use base::limits::{KEY_BYTES_MAX, SUBSCRIPTION_PATTERN_BYTES_MAX, SUBSCRIPTION_WORDS_MAX};
use data::{After, Blob, ChangeRecord};
use wire::{Malformed, Reader, Writer};

use super::carried::CHANGE_KINDS;
use crate::subscriptions::Subscriptions;
use crate::subscriptions::feeds::Stamped;
use crate::subscriptions::frames::Stored;
use crate::subscriptions::pages::{PATTERNS_MAX, PageQuestion};
use crate::subscriptions::walk::{Ends, Page};

fn blob(r: &mut Reader<'_>) -> Result<Blob, Malformed> {
    Ok(Blob::new(r.slice()?))
}

fn blobs(r: &mut Reader<'_>) -> Result<Vec<Blob>, Malformed> {
    (0..r.count(1)?).map(|_| blob(r)).collect()
}

fn write_blobs<'a>(w: &mut Writer<'_>, of: impl ExactSizeIterator<Item = &'a Blob>) {
    w.count(of.len());
    of.for_each(|one| w.bytes(one));
}

fn encode_after(after: &After, w: &mut Writer<'_>) {
    match after {
        After::Gone => w.u8(0),
        After::Omitted => w.u8(1),
        After::String(bytes) => {
            w.u8(2);
            w.bytes(bytes);
        }
        After::Json(text) => {
            w.u8(3);
            w.bytes(text);
        }
        After::Effect(words) => {
            w.u8(4);
            write_blobs(w, words.iter());
        }
    }
}

fn decode_after(r: &mut Reader<'_>) -> Result<After, Malformed> {
    Ok(match r.u8()? {
        0 => After::Gone,
        1 => After::Omitted,
        2 => After::String(blob(r)?),
        3 => After::Json(blob(r)?),
        4 => After::Effect(blobs(r)?),
        _ => return Err(Malformed),
    })
}

/// Writes changes with what they leave behind.
pub(super) fn encode_records(records: &[Stamped], w: &mut Writer<'_>) {
    w.count(records.len());
    for (stamp, record) in records {
        w.u64(*stamp);
        w.u8(CHANGE_KINDS.iter().position(|kind| *kind == record.kind).unwrap_or_default() as u8);
        w.revision(record.revision);
        w.bool(record.is_new);
        w.bytes(&record.event);
        w.bytes(&record.key);
        w.option(record.deadline, |w, deadline| w.u64(deadline.0));
        encode_after(&record.after, w);
    }
}

/// Reads what [`encode_records`] has written.
pub(super) fn decode_records(r: &mut Reader<'_>) -> Result<Vec<Stamped>, Malformed> {
    let one = |r: &mut Reader<'_>| {
        let stamp = r.u64()?;
        let kind = *CHANGE_KINDS.get(usize::from(r.u8()?)).ok_or(Malformed)?;
        let (revision, is_new, event, key) = (r.revision()?, r.bool()?, blob(r)?, blob(r)?);
        let deadline = r.option(|r| r.u64().map(WallTime))?;
        let after = decode_after(r)?;
        Ok((stamp, ChangeRecord { revision, kind, event, key, is_new, deadline, after }))
    };
    (0..r.count(15)?).map(|_| one(r)).collect()
}

/// Writes a question for stored keys.
pub(super) fn encode_question(question: &PageQuestion, w: &mut Writer<'_>) {
    let PageQuestion { ticket, from, after, partitions, with_values, filter } = question;
    w.u64(*ticket);
    w.revision(*from);
    w.option(after.as_ref(), |w, after| w.bytes(after));
    w.u64(u64::from(*partitions));
    w.bool(*with_values);
    w.bool(filter.all);
    write_blobs(w, filter.keys.iter());
    write_blobs(w, filter.prefixes.iter());
    write_blobs(w, filter.patterns.iter().map(|pattern| &pattern.text));
}

/// Reads what [`encode_question`] has written.
pub(super) fn decode_question(r: &mut Reader<'_>) -> Result<PageQuestion, Malformed> {
    let (ticket, from, after) = (r.u64()?, r.revision()?, r.option(blob)?);
    let partitions = u16::try_from(r.u64()?).ok().filter(|partitions| *partitions > 0).ok_or(Malformed)?;
    let (with_values, all) = (r.bool()?, r.bool()?);
    let (keys, prefixes, patterns) = (blobs(r)?, blobs(r)?, blobs(r)?);
    let is_long = |word: &Blob| word.len() > KEY_BYTES_MAX;
    let patterns_are_long = patterns.iter().any(|text| text.len() > SUBSCRIPTION_PATTERN_BYTES_MAX);
    let count = keys.len() + prefixes.len() + patterns.len();
    if count > SUBSCRIPTION_WORDS_MAX
        || patterns.len() > PATTERNS_MAX
        || patterns_are_long
        || keys.iter().chain(&prefixes).any(is_long)
    {
        return Err(Malformed);
    }
    let filter = Subscriptions::filter_of(all, keys, prefixes, &patterns);
    Ok(PageQuestion { ticket, from, after, partitions, with_values, filter })
}

/// Writes stored keys.
pub(super) fn encode_page(page: &Page, w: &mut Writer<'_>) {
    let Page { revision, stored, last, ends } = page;
    w.revision(*revision);
    w.option(last.as_ref(), |w, last| w.bytes(last));
    w.u8(match ends {
        Ends::More => 0,
        Ends::AtEnd => 1,
        Ends::Undecided => 2,
    });
    w.count(stored.len());
    for Stored { key, revision, type_name, deadline, after } in stored {
        w.bytes(key);
        w.revision(*revision);
        w.bytes(type_name);
        w.option(*deadline, |w, deadline| w.u64(deadline.0));
        w.option(after.as_ref(), |w, after| encode_after(after, w));
    }
}

/// Reads what [`encode_page`] has written.
pub(super) fn decode_page(r: &mut Reader<'_>) -> Result<Page, Malformed> {
    let (revision, last) = (r.revision()?, r.option(blob)?);
    let ends = match r.u8()? {
        0 => Ends::More,
        1 => Ends::AtEnd,
        2 => Ends::Undecided,
        _ => return Err(Malformed),
    };
    let one = |r: &mut Reader<'_>| {
        let (key, revision, type_name) = (blob(r)?, r.revision()?, blob(r)?);
        let deadline = r.option(|r| r.u64().map(WallTime))?;
        Ok(Stored { key, revision, type_name, deadline, after: r.option(decode_after)? })
    };
    let stored = (0..r.count(5)?).map(|_| one(r)).collect::<Result<_, _>>()?;
    Ok(Page { revision, stored, last, ends })
}

#[cfg(test)]
mod tests {
    use base::versions::NEWEST;
    use base::{BucketId, PartitionId, Revision};
    use bytes::Bytes;
    use data::ChangeKind;

    use super::*;
    use crate::peer::PeerMessage;

    #[test]
    fn all_of_them_come_back_and_none_in_part() {
        let partition = PartitionId { bucket: BucketId(3), index: 4 };
        let word = |text: &str| Blob::new(text.as_bytes());
        let record = |after| ChangeRecord {
            revision: Revision(9),
            kind: ChangeKind::Deadline,
            event: word("expire"),
            key: word("k"),
            is_new: true,
            deadline: Some(WallTime(5)),
            after,
        };
        let afters = [
            After::Gone,
            After::Omitted,
            After::String(word("v")),
            After::Json(word("{}")),
            After::Effect(vec![word("hset"), word("")]),
        ];
        let empty = ChangeRecord { revision: Revision(0), event: word(""), key: word(""), ..record(After::Gone) };
        let shortest = ChangeRecord { deadline: None, ..empty };
        let records: Vec<Stamped> = afters.clone().map(|after| (1 << 60, record(after))).into();
        let stored = |after| Stored {
            key: word("k"),
            revision: Revision(1),
            type_name: word("hash"),
            deadline: Some(WallTime(7)),
            after,
        };
        let bare = Stored { key: word(""), revision: Revision(0), type_name: word(""), deadline: None, after: None };
        let page = |ends, last, stored| Box::new(Page { revision: Revision(5), stored, last, ends });
        let question = |filter| {
            Box::new(PageQuestion {
                ticket: 6,
                from: Revision(7),
                after: Some(word("k")),
                partitions: 16,
                with_values: true,
                filter,
            })
        };
        let some = Subscriptions::filter_of(false, vec![word("b"), word("a")], vec![word("p")], &[word("x*")]);
        let all = Subscriptions::filter_of(true, Vec::new(), Vec::new(), &[]);
        let messages = [
            PeerMessage::FollowChanges { partition, feed: 3, after: Revision(7) },
            PeerMessage::FedChanges { partition, feed: 3, after: Revision(8), records },
            PeerMessage::FedChanges { partition, feed: 3, after: Revision(8), records: vec![(0, shortest)] },
            PeerMessage::WantPage { partition, question: question(some) },
            PeerMessage::WantPage { partition, question: question(all) },
            PeerMessage::Page { partition, ticket: 1, page: page(Ends::More, None, vec![bare]) },
            PeerMessage::Page { partition, ticket: 1, page: page(Ends::Undecided, Some(word("k")), Vec::new()) },
            PeerMessage::Page {
                partition,
                ticket: 1,
                page: page(Ends::AtEnd, None, afters.map(|after| stored(Some(after))).into()),
            },
        ];
        for message in messages {
            let mut bytes = Vec::new();
            message.encode(NEWEST, &mut bytes);
            assert_eq!(PeerMessage::decode(&Bytes::from(bytes.clone()), NEWEST), Ok(message));
            for end in 0..bytes.len() {
                let part = Bytes::copy_from_slice(&bytes[..end]);
                assert!(PeerMessage::decode(&part, NEWEST).is_err(), "{end} of {bytes:?}");
            }
        }
    }

    #[test]
    fn a_question_has_so_many_words_at_the_most() {
        let partition = PartitionId { bucket: BucketId(3), index: 4 };
        let decodes = |keys: usize, pattern: usize| {
            let keys = (0..keys).map(|key| Blob::new(key.to_string().as_bytes())).collect();
            let filter = Subscriptions::filter_of(false, keys, Vec::new(), &[Blob::new(&vec![b'x'; pattern])]);
            let (ticket, from) = (1, Revision(0));
            let question = PageQuestion { ticket, from, after: None, partitions: 1, with_values: false, filter };
            let mut bytes = Vec::new();
            PeerMessage::WantPage { partition, question: Box::new(question) }.encode(NEWEST, &mut bytes);
            PeerMessage::decode(&Bytes::from(bytes), NEWEST).is_ok()
        };
        assert!(decodes(SUBSCRIPTION_WORDS_MAX - 1, SUBSCRIPTION_PATTERN_BYTES_MAX));
        assert!(!decodes(SUBSCRIPTION_WORDS_MAX, 1) && !decodes(1, SUBSCRIPTION_PATTERN_BYTES_MAX + 1));
    }
}
