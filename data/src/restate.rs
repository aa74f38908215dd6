//! The value of a stored key, as subscribers are told it (`WITH STATE`).
//!
//! It is said as a change says it ([`After`]): a string and a JSON document as they are, a value with elements as the command that makes it in an empty place.

use crate::blob::Blob;
use crate::change::After;
use crate::collections::ranked::Standing;
use crate::tree::Tree;
use crate::value::{Record, Value};
use crate::view::View;

/// What stands under the key of `record`, which is of `tree`, and the units of work that it took to find out. [`After::Omitted`] if the value has more than so many bytes, as the state counts them
/// (then its elements are not read), and where one command cannot say it: a stream, and a hash of which fields have deadlines.
#[must_use]
pub fn value_as_told(tree: &Tree, record: &Record, bytes_max: u64) -> (After, u64) {
    if record.value.bytes() > bytes_max {
        return (After::Omitted, 0);
    }
    // The limit of the last entry, or read, is not for this; nor is what this costs for the next one.
    tree.meter().begin(u64::MAX, u64::MAX);
    let after = after(tree, record);
    let work = tree.meter().spent();
    tree.meter().begin(u64::MAX, u64::MAX);
    (after, work)
}

fn after(tree: &Tree, record: &Record) -> After {
    let view = View::new(tree, tree.time(), 0);
    match &record.value {
        Value::String(bytes) => After::String(bytes.clone()),
        Value::Json(text) => After::Json(Blob::new(text.as_slice())),
        Value::Stream(_) => After::Omitted,
        Value::Hash(hash) if hash.has_deadlines() => After::Omitted,
        Value::Hash(hash) => effect("hset", view.elements(*hash, 0).map(|(_, field, value)| [field, value])),
        Value::Set(set) => effect("sadd", view.elements(*set, 0).map(|(_, member, _)| [member])),
        Value::SortedSet(set) => {
            let members = view.elements(*set, 0).filter_map(|(_, member, value)| {
                let score = Standing::read(&value)?.score;
                Some([Blob::from(score.to_string()), member])
            });
            effect("zadd", members)
        }
        Value::List(list) => effect("rpush", view.list_between(**list, 0, list.len()).map(|element| [element])),
    }
}

/// A command with these elements.
fn effect<const N: usize>(name: &str, elements: impl Iterator<Item = [Blob; N]>) -> After {
    After::Effect(std::iter::once(Blob::new(name.as_bytes())).chain(elements.flatten()).collect())
}

#[cfg(test)]
mod tests {
    use base::WallTime;

    use super::*;
    use crate::store::KeyRef;
    use crate::{EntryContext, apply};

    fn tree(lines: &[&str]) -> Tree {
        let mut tree = Tree::new();
        let context = EntryContext { time: WallTime(1), version: base::versions::NEWEST, ..EntryContext::default() };
        for line in lines {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let reply = apply(&mut tree, &context, &words).reply;
            assert!(!matches!(reply, crate::Reply::Error(_)), "{line}: {reply:?}");
        }
        tree
    }

    #[test]
    fn what_is_there_is_said_as_the_command_that_makes_it() {
        let long = format!("SET t {}", "v".repeat(1000));
        let tree = tree(&[
            "SET s v",
            &long,
            "JSON.SET j $ [1]",
            "HSET h a 1",
            "HSET h b 2",
            "SADD m x",
            "ZADD z 1.5 x",
            "ZADD z -inf y",
            "RPUSH l a b a",
            "XADD x 1-1 f v",
            "HSET e f v",
            "HPEXPIREAT e 99 FIELDS 1 f",
        ]);
        let said = |key: &str, bytes_max: u64| {
            let record = tree.get(KeyRef::new(key.as_bytes())).expect("it is there");
            // The last entry went over its budget; that is no concern of who is told.
            tree.meter().begin(0, 0);
            assert!(!tree.meter().visit(1));
            let (after, work) = value_as_told(&tree, &record, bytes_max);
            match after {
                After::Effect(words) => {
                    assert!(
                        work > 0 && tree.meter().spent() == 0,
                        "elements are read, and the next entry does not pay"
                    );
                    let words: Vec<String> =
                        words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
                    words.join(" ")
                }
                other => format!("{other:?}"),
            }
        };
        let all = u64::MAX;
        assert_eq!(said("s", all), format!("{:?}", After::String(Blob::new(b"v"))));
        assert_eq!(said("j", all), format!("{:?}", After::Json(Blob::new(b"[1]"))));
        assert!(["hset a 1 b 2", "hset b 2 a 1"].contains(&&*said("h", all)));
        assert_eq!(said("m", all), "sadd x");
        assert!(["zadd 1.5 x -inf y", "zadd -inf y 1.5 x"].contains(&&*said("z", all)));
        assert_eq!(said("l", all), "rpush a b a");
        assert_eq!((said("x", all), said("e", all)), ("Omitted".to_owned(), "Omitted".to_owned()));
        assert_eq!((said("l", 20), said("t", 999)), ("Omitted".to_owned(), "Omitted".to_owned()));
    }
}
