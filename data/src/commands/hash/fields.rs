//! What the commands on the expiry of fields have in common: their arguments, and how a deadline is read.

use crate::args::parse_integer;
use crate::commands::options::Expiry;
use crate::commands::prelude::*;
use base::WallTime;

/// The latest deadline that a field may have, in milliseconds since the epoch: that of Redis.
const DEADLINE_MS_MAX: i64 = (1 << 46) - 1;

/// `FIELDS numfields field [field ...]` at `index`, to the end. `not_positive` is said of a number that is none.
pub(super) fn parse_fields<'a>(
    args: Args<'a>,
    index: usize,
    not_positive: &'static str,
) -> Result<&'a [&'a [u8]], Failure> {
    if !args.is(index, "FIELDS") {
        return Err(Failure::Text("ERR Mandatory argument FIELDS is missing or not at the right position"));
    }
    let count = args.get(index + 1).ok().and_then(parse_integer).filter(|count| *count > 0);
    let count = count.ok_or(Failure::Text(not_positive))?;
    if usize::try_from(count) != Ok(args.len().saturating_sub(index + 2)) {
        return Err(Failure::Text("ERR The `numfields` parameter must match the number of arguments"));
    }
    args.fields_from(index + 2)
}

/// What most commands say of a number of fields that is not positive.
pub(super) const NOT_POSITIVE: &str = "ERR Number of fields must be a positive integer";

/// A deadline as the argument at `index` says it. It is looked at without the time, which is known later: see [`deadline_of`].
pub(super) fn parse_expiry(
    args: Args<'_>,
    index: usize,
    (unit_ms, absolute): (i64, bool),
    command: &'static str,
) -> Result<Expiry, Failure> {
    let amount = args.integer(index)?;
    if amount < 0 {
        return Err(Failure::Text("ERR invalid expire time, must be >= 0"));
    }
    if amount > DEADLINE_MS_MAX / unit_ms {
        return Err(Failure::InvalidExpireTime(command));
    }
    Ok(Expiry { amount, unit_ms, absolute, command })
}

/// The deadline; an error if it is too late.
pub(super) fn deadline_of(expiry: Expiry, now: WallTime) -> Result<WallTime, Failure> {
    let deadline = expiry.deadline(now)?;
    if deadline.0 > DEADLINE_MS_MAX as u64 { Err(Failure::InvalidExpireTime(expiry.command)) } else { Ok(deadline) }
}
