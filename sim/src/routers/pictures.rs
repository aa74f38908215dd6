//! What `CLUSTER SLOTS` and `CLUSTER SHARDS` answer, in either protocol, as ranges of hash slots.

use wire::Value;

use crate::checkers::redirections::Range;
use crate::history::text_of;

/// What `CLUSTER SLOTS` answers: ranges, each with its master and then its replicas.
pub(super) fn of_slots(value: Value) -> Result<Vec<Range>, String> {
    items_of(value)?.into_iter().map(range_of).collect()
}

fn range_of(value: Value) -> Result<Range, String> {
    let mut items = items_of(value)?.into_iter();
    let mut bound = || number_of(items.next());
    let (first, last) = (bound()?, bound()?);
    let mut addresses = items.map(|node| {
        let mut parts = items_of(node)?.into_iter();
        Ok::<_, String>(format!("{}:{}", text(parts.next())?, number_of(parts.next())?))
    });
    let master = addresses.next().ok_or("a range without a master")??;
    Ok(Range { first, last, master, replicas: addresses.collect::<Result<_, _>>()? })
}

/// What `CLUSTER SHARDS` answers: shards, each with its ranges, its master and its replicas.
pub(super) fn of_shards(value: Value) -> Result<Vec<Range>, String> {
    let mut ranges = Vec::new();
    for shard in items_of(value)? {
        let mut fields = fields_of(shard)?;
        let nodes = items_of(fields.remove("nodes").ok_or("a shard without nodes")?)?;
        let (mut masters, mut replicas) = (Vec::new(), Vec::new());
        for node in nodes {
            let mut node = fields_of(node)?;
            let address = format!("{}:{}", text(node.remove("ip"))?, number_of(node.remove("port"))?);
            let role = text(node.remove("role"))?;
            if role == "master" { masters.push(address) } else { replicas.push(address) }
        }
        let [master] = masters.as_slice() else { return Err(format!("a shard with the masters {masters:?}")) };
        let bounds = items_of(fields.remove("slots").ok_or("a shard without slots")?)?;
        let bounds: Vec<i64> = bounds.into_iter().map(|bound| number_of(Some(bound))).collect::<Result<_, _>>()?;
        if !bounds.len().is_multiple_of(2) {
            return Err(format!("half a range in {bounds:?}"));
        }
        ranges.extend(bounds.as_chunks::<2>().0.iter().map(|[first, last]| Range {
            first: *first,
            last: *last,
            master: master.clone(),
            replicas: replicas.clone(),
        }));
    }
    Ok(ranges)
}

fn items_of(value: Value) -> Result<Vec<Value>, String> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(format!("{other:?} is no list")),
    }
}

/// A map, or what stands for one in RESP2.
fn fields_of(value: Value) -> Result<std::collections::BTreeMap<String, Value>, String> {
    let pairs: Vec<(Value, Value)> = match value {
        Value::Map(pairs) => pairs,
        other => {
            let mut items = items_of(other)?.into_iter();
            std::iter::from_fn(|| items.next().zip(items.next())).collect()
        }
    };
    pairs.into_iter().map(|(name, value)| Ok((text(Some(name))?, value))).collect()
}

fn number_of(value: Option<Value>) -> Result<i64, String> {
    match value {
        Some(Value::Integer(number)) => Ok(number),
        other => Err(format!("{other:?} is no number")),
    }
}

fn text(value: Option<Value>) -> Result<String, String> {
    match value {
        Some(Value::Bulk(bytes)) => Ok(text_of(&bytes)),
        other => Err(format!("{other:?} is no text")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.as_bytes().to_vec())
    }

    fn array(items: &[Value]) -> Value {
        Value::Array(items.to_vec())
    }

    #[test]
    fn both_answers_come_to_the_same() {
        let node = |port: i64| array(&[bulk("h"), Value::Integer(port), bulk("id"), array(&[])]);
        let bounds = [Value::Integer(0), Value::Integer(16383)];
        let slots = array(&[array(&[bounds[0].clone(), bounds[1].clone(), node(1), node(2)])]);
        let member = |port: i64, role: &str| {
            let pairs = [(bulk("ip"), bulk("h")), (bulk("port"), Value::Integer(port)), (bulk("role"), bulk(role))];
            Value::Map(pairs.to_vec())
        };
        let nodes = array(&[member(2, "replica"), member(1, "master")]);
        let shards = array(&[array(&[bulk("slots"), array(&bounds), bulk("nodes"), nodes.clone()])]);
        let range = Range { first: 0, last: 16383, master: "h:1".to_owned(), replicas: vec!["h:2".to_owned()] };
        assert_eq!(of_slots(slots), Ok(vec![range.clone()]));
        assert_eq!(of_shards(shards), Ok(vec![range]));
        assert!(of_slots(array(&[array(&bounds)])).is_err());
        let nobody = array(&[array(&[bulk("slots"), array(&bounds), bulk("nodes"), array(&[])])]);
        assert!(of_shards(nobody).is_err());
        let half = array(&[array(&[bulk("slots"), array(&bounds[..1]), bulk("nodes"), nodes])]);
        assert!(of_shards(half).is_err());
    }
}
