//! `RESTORE key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]`

use crate::algorithms::dump::{Damage, Dumped, check, restore};
use crate::args::{check_field, check_member};
use crate::commands::prelude::*;
use crate::commands::stream::xgroup::check_names;
use base::WallTime;
use base::limits::KEY_BYTES_MAX;

/// Gives a key the value that `DUMP` answered, here or in a Redis.
pub struct Restore<'a> {
    key: KeyRef<'a>,
    /// Intact, and not read so far: it may hold a hundred times as much.
    payload: &'a [u8],
    /// Milliseconds; 0 for no expiry.
    ttl_ms: u64,
    /// Whether `ttl_ms` is a date and not a duration.
    absolute: bool,
    replace: bool,
}

impl<'a> WriteCommand<'a> for Restore<'a> {
    const SPEC: Spec = Spec {
        name: "restore",
        arity: -4,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::GROWS).and(Flags::DANGEROUS),
        keys: Keys::ONE,
        group: Group::Generic,
        since: "2.6.0",
        complexity: "O(N) where N is the size of the value",
        summary: "Creates a key from what DUMP answered.",
        arguments: "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]",
        example: "RESTORE number 0 \"\\x00\\xc0\\n\\n\\x00n\\x9fWE\\x0e\\xaec\\xbb\"",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let (mut replace, mut absolute) = (false, false);
        // Idle time and frequency are checked and then forgotten: nothing here is evicted by them.
        let (mut idle, mut frequency) = (None, None);
        let mut index = 4;
        while index < args.len() {
            let has_value = index + 1 < args.len();
            if args.is(index, "REPLACE") {
                replace = true;
            } else if args.is(index, "ABSTTL") {
                absolute = true;
            } else if args.is(index, "IDLETIME") && has_value && frequency.is_none() {
                index += 1;
                idle = Some(args.integer(index)?);
                if idle < Some(0) {
                    return Err(Failure::Text("ERR Invalid IDLETIME value, must be >= 0"));
                }
            } else if args.is(index, "FREQ") && has_value && idle.is_none() {
                index += 1;
                let given = args.integer(index)?;
                if !(0..=255).contains(&given) {
                    return Err(Failure::Text("ERR Invalid FREQ value, must be >= 0 and <= 255"));
                }
                frequency = Some(given);
            } else {
                return Err(Failure::Syntax);
            }
            index += 1;
        }
        let ttl_ms =
            u64::try_from(args.integer(2)?).map_err(|_| Failure::Text("ERR Invalid TTL value, must be >= 0"))?;
        let payload = args.get(3)?;
        check(payload).map_err(refused)?;
        Ok(Restore { key: args.key(1)?, payload, ttl_ms, absolute, replace })
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let value = restore(self.payload, tx.meter());
        tx.meter().check()?;
        let value = value.map_err(refused)?;
        check_length(longest_word(&value))?;
        let version = tx.version();
        let member_fits = |member: &Blob| check_member(member, version);
        match &value {
            Dumped::String(_) | Dumped::Json(_) | Dumped::List(_) => {}
            Dumped::Stream(stream) => {
                let names = stream.groups.iter().flat_map(|group| {
                    std::iter::once(&group.name).chain(group.consumers.iter().map(|consumer| &consumer.name))
                });
                check_names(names.map(|name| name.as_slice()))?;
            }
            Dumped::Hash(fields) => fields.iter().try_for_each(|(field, value, _)| {
                check_field(field, version)?;
                // As in a command: both go through one message.
                check_length((field.len().saturating_sub(KEY_BYTES_MAX) + value.len()) as u64)
            })?,
            Dumped::Set(members) => members.iter().try_for_each(member_fits)?,
            Dumped::SortedSet(members) => members.iter().try_for_each(|(member, _)| member_fits(member))?,
        }
        tx.check_length(longest_word(&value))?;
        if !self.replace && tx.exists(self.key) {
            return Err(Failure::Text("BUSYKEY Target key name already exists."));
        }
        let deadline = match (self.ttl_ms, self.absolute) {
            (0, _) => None,
            (date, true) => Some(WallTime(date)),
            (duration, false) => Some(WallTime(tx.time().0.saturating_add(duration))),
        };
        let now = tx.time();
        let is_ahead = |deadline: Option<WallTime>| deadline.is_none_or(|deadline| deadline > now);
        let value = match value {
            Dumped::String(bytes) => Value::String(bytes.into()),
            Dumped::List(elements) => tx.make_list(elements.into_iter()),
            Dumped::Stream(stream) => tx.make_stream(stream),
            Dumped::Json(text) => Value::Json(text),
            // Of fields whose time is up nothing is left; perhaps not even the hash.
            Dumped::Hash(fields) if !fields.iter().any(|(.., deadline)| is_ahead(*deadline)) => {
                tx.remove(self.key);
                return Ok(Reply::Ok);
            }
            Dumped::Hash(fields) => tx.make_hash(fields),
            Dumped::Set(members) => tx.make_named(Kind::Set, members.into_iter().map(|member| (member, Blob::EMPTY))),
            Dumped::SortedSet(members) => tx.make_sorted(members.into_iter()),
        };
        tx.put(self.key, value, deadline);
        Ok(Reply::Ok)
    }
}

fn refused(damage: Damage) -> Failure {
    match damage {
        Damage::VersionOrChecksum => Failure::Text("ERR DUMP payload version or checksum are wrong"),
        Damage::Format => Failure::Text("ERR Bad data format"),
    }
}

/// The bytes of a string, or of the longest field, value or member.
fn longest_word(value: &Dumped) -> u64 {
    let length = match value {
        Dumped::String(bytes) => bytes.len(),
        Dumped::List(elements) => elements.iter().map(|element| element.len()).max().unwrap_or(0),
        Dumped::Stream(stream) => stream.entries.iter().map(|(_, value)| value.len()).max().unwrap_or(0),
        Dumped::Json(text) => text.as_slice().len(),
        Dumped::Hash(fields) => fields.iter().map(|(field, value, _)| field.len().max(value.len())).max().unwrap_or(0),
        Dumped::Set(members) => members.iter().map(|member| member.len()).max().unwrap_or(0),
        Dumped::SortedSet(members) => members.iter().map(|(member, _)| member.len()).max().unwrap_or(0),
    };
    length as u64
}
