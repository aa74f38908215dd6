//! `JSON.NUMINCRBY key path number`, `JSON.NUMMULTBY key path number`

use super::{Json, Others, change_all};
use crate::commands::prelude::*;
use crate::json::layout::Layout;
use crate::json::path::Path;
use crate::json::read::Given;
use serde_json::Number;

/// Adds to numbers.
pub struct JsonNumIncrBy<'a>(Sum<'a>);

/// Multiplies numbers.
pub struct JsonNumMultBy<'a>(Sum<'a>);

struct Sum<'a> {
    key: KeyRef<'a>,
    path: Path<'a>,
    number: Number,
}

impl<'a> WriteCommand<'a> for JsonNumIncrBy<'a> {
    const SPEC: Spec = Spec {
        name: "json.numincrby",
        arity: 4,
        flags: Flags::WRITE.and(Flags::DENYOOM),
        keys: Keys::ONE,
        group: Group::Json,
        since: "1.0.0",
        complexity: "O(N), where N is the size of the document",
        summary: "Adds a number to the numbers that a path finds in a document.",
        arguments: "key path number",
        example: "JSON.NUMINCRBY user:7 $.visits 1",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Sum::parse(args).map(JsonNumIncrBy)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx, i64::checked_add, |one, other| one + other)
    }
}

impl<'a> WriteCommand<'a> for JsonNumMultBy<'a> {
    const SPEC: Spec = Spec {
        name: "json.nummultby",
        summary: "Multiplies the numbers that a path finds in a document by a number.",
        example: "JSON.NUMMULTBY user:7 $.score 2",
        ..JsonNumIncrBy::SPEC
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Sum::parse(args).map(JsonNumMultBy)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        self.0.apply(tx, i64::checked_mul, |one, other| one * other)
    }
}

impl<'a> Sum<'a> {
    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        let Some(Json::Number(number)) = Given::parse(args.get(3)?)?.scalar() else { return Err(Failure::NotAFloat) };
        Ok(Sum { key: args.key(1)?, path: Path::parse(args.get(2)?)?, number })
    }

    fn apply(
        self,
        tx: &mut Transaction<'_>,
        whole: fn(i64, i64) -> Option<i64>,
        real: fn(f64, f64) -> f64,
    ) -> Result<Reply, Failure> {
        let numbers = change_all(tx, self.key, &self.path, Others::Stay, Json::is_number, |value, _| {
            let sum = computed(value, &self.number, whole, real)?;
            *value = Json::Number(sum.clone());
            Ok(sum)
        })?;
        let all = Reply::Array(numbers.iter().map(|number| number.as_ref().map_or(Reply::Nil, reply)).collect());
        let text = if self.path.is_legacy() {
            let last = numbers.into_iter().flatten().next_back();
            Blob::from(
                last.ok_or_else(|| self.path.is_absent_or("does not contains a number"))?.to_string().into_bytes(),
            )
        } else {
            Layout::default().answer(&numbers, tx.meter())?
        };
        Ok(Reply::by_dialect(Reply::Bulk(text), all))
    }
}

/// Whole numbers stay whole as long as 64 bits hold them.
fn computed(
    value: &Json,
    number: &Number,
    whole: fn(i64, i64) -> Option<i64>,
    real: fn(f64, f64) -> f64,
) -> Result<Number, Failure> {
    if let (Some(one), Some(other)) = (value.as_i64(), number.as_i64())
        && let Some(sum) = whole(one, other)
    {
        return Ok(Number::from(sum));
    }
    let (one, other) = (value.as_f64().unwrap_or(f64::NAN), number.as_f64().unwrap_or(f64::NAN));
    Number::from_f64(real(one, other)).ok_or(Failure::Text("ERR result is not a number"))
}

fn reply(number: &Number) -> Reply {
    number.as_i64().map_or_else(|| Reply::Double(number.as_f64().unwrap_or_default()), Reply::Integer)
}
