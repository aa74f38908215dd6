//! `GEOADD key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]`

use super::parse_place;
use crate::commands::prelude::*;
use crate::commands::sorted::zadd::ZAdd;

/// Gives members places; answers how many of them are new.
pub struct GeoAdd<'a>(ZAdd<'a>);

impl<'a> WriteCommand<'a> for GeoAdd<'a> {
    const SPEC: Spec = Spec {
        name: "geoadd",
        arity: -5,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::BOUNDED),
        keys: Keys::ONE,
        group: Group::Geo,
        since: "3.2.0",
        complexity: "O(log(N)) for each member, where N is the size of the sorted set",
        summary: "Gives members of a sorted set places on the Earth and returns how many of them are new.",
        arguments: "key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]",
        example: "GEOADD cities 13.361389 38.115556 Palermo 15.087269 37.502669 Catania",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let (mut only_new, mut only_known, mut counts_changes, mut index) = (false, false, false, 2);
        while index < args.len() {
            let option = match args.get(index)?.to_ascii_uppercase().as_slice() {
                b"NX" => &mut only_new,
                b"XX" => &mut only_known,
                b"CH" => &mut counts_changes,
                _ => break,
            };
            *option = true;
            index += 1;
        }
        let count = args.len() - index;
        if count == 0 || !count.is_multiple_of(3) || only_new && only_known {
            return Err(Failure::Syntax);
        }
        let mut members = Vec::with_capacity(count / 3);
        for at in (index..args.len()).step_by(3) {
            members.push((parse_place(args, at)?.score(), args.get(at + 2)?));
        }
        (index + 2..args.len()).step_by(3).try_for_each(|at| args.member(at).map(drop))?;
        Ok(GeoAdd(ZAdd::of_scores(args.key(1)?, (only_new, only_known), counts_changes, members)))
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx)
    }
}
