//! XDELEX and XACKDEL do to each identifier what older commands do that are asked about every group, one after another.

use base::{Rng, WallTime};
use data::{EntryContext, Reply, Tree, apply};

const GROUPS: [&str; 2] = ["a", "b"];
const POLICIES: [&str; 4] = ["", "KEEPREF ", "DELREF ", "ACKED "];

fn run(tree: &mut Tree, line: &str) -> Reply {
    let words: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
    let context = EntryContext { time: WallTime(1000), value_bytes_max: 1 << 20, ..EntryContext::default() };
    let reply = apply(tree, &context, &words).reply;
    if let Reply::Error(failure) = &reply {
        let text = failure.to_string();
        assert!(["NOGROUP", "BUSYGROUP"].iter().any(|start| text.starts_with(start)), "{line}: {text}");
    }
    reply
}

fn is_pending(tree: &mut Tree, group: &str, id: &str) -> bool {
    matches!(run(tree, &format!("XPENDING s {group} {id} {id} 1")), Reply::Array(some) if !some.is_empty())
}

/// Whether some group has an entry pending, or has still to be given it.
fn is_needed(tree: &mut Tree, id: &str) -> bool {
    let Reply::Array(groups) = run(tree, "XINFO GROUPS s") else { return false };
    let number = |id: &str| id.split_once('-').and_then(|(ms, seq)| Some((ms.parse().ok()?, seq.parse().ok()?)));
    let wanted: Option<(u64, u64)> = number(id);
    let of = |group: Reply| match group {
        Reply::Map(fields) => fields.into_iter().find_map(|(name, value)| match (name, value) {
            (Reply::Bulk(name), Reply::Bulk(last)) if *name == *b"last-delivered-id" => {
                number(&String::from_utf8_lossy(&last))
            }
            _ => None,
        }),
        _ => None,
    };
    let lasts: Vec<(u64, u64)> = groups.into_iter().map(|group| of(group).expect("a group says it")).collect();
    lasts.into_iter().any(|last| Some(last) < wanted) || GROUPS.iter().any(|group| is_pending(tree, group, id))
}

/// What becomes of one identifier; `XACKDEL` if a group is named.
fn by_older_commands(tree: &mut Tree, group: Option<&str>, policy: &str, id: &str) -> i64 {
    if let Some(group) = group
        && run(tree, &format!("XACK s {group} {id}")) != Reply::Integer(1)
    {
        return -1;
    }
    match policy {
        "ACKED " if is_needed(tree, id) => return 2,
        "DELREF " => GROUPS.iter().for_each(|group| {
            run(tree, &format!("XACK s {group} {id}"));
        }),
        _ => {}
    }
    let was_there = run(tree, &format!("XDEL s {id}")) == Reply::Integer(1);
    if was_there || group.is_some() { 1 } else { -1 }
}

#[test]
fn what_becomes_of_each_entry_is_what_older_commands_would_do() {
    let mut seen = std::collections::BTreeMap::new();
    for seed in 0..500 {
        let mut rng = Rng::new(seed);
        let (mut ours, mut theirs) = (Tree::new(), Tree::new());
        for tree in [&mut ours, &mut theirs] {
            run(tree, "XGROUP CREATE s a 0 MKSTREAM");
        }
        for step in 1..80 {
            let id = |rng: &mut Rng| format!("{}-0", 1 + rng.below(step));
            let group = *rng.pick(&GROUPS);
            let both = match rng.below(12) {
                0..3 => format!("XADD s {step}-0 f v"),
                3 => format!("XGROUP CREATE s {group} {} MKSTREAM", if rng.chance(1, 2) { "0" } else { "$" }),
                4..7 => format!("XREADGROUP GROUP {group} anna COUNT {} STREAMS s >", 1 + rng.below(8)),
                7 => format!("XACK s {group} {} {} {}", id(&mut rng), id(&mut rng), id(&mut rng)),
                8 if rng.chance(1, 4) => format!("XGROUP DESTROY s {group}"),
                8 => format!("XDEL s {}", id(&mut rng)),
                _ => {
                    let policy = *rng.pick(&POLICIES);
                    let of = rng.chance(1, 2).then_some(group);
                    let ids: Vec<String> = (0..1 + rng.below(6)).map(|_| id(&mut rng)).collect();
                    let start = of.map_or("XDELEX s ".to_owned(), |group| format!("XACKDEL s {group} "));
                    let line = format!("{start}{policy}IDS {} {}", ids.len(), ids.join(" "));
                    let answer = run(&mut ours, &line);
                    let expected: Vec<i64> =
                        ids.iter().map(|id| by_older_commands(&mut theirs, of, policy, id)).collect();
                    expected.iter().for_each(|code| *seen.entry((of.is_some(), policy, *code)).or_insert(0) += 1);
                    let expected = expected.into_iter().map(Reply::Integer).collect();
                    assert_eq!(answer, Reply::Array(expected), "seed {seed}: {line}");
                    "XLEN s".to_owned()
                }
            };
            assert_eq!(run(&mut ours, &both), run(&mut theirs, &both), "seed {seed}: {both}");
            for question in ["DUMP s", "XINFO STREAM s FULL COUNT 0", "MEMORY USAGE s"] {
                assert_eq!(
                    run(&mut ours, question),
                    run(&mut theirs, question),
                    "seed {seed}: {question} after {both}"
                );
            }
        }
    }
    // Every answer of every form has been met, and often.
    assert_eq!(seen.len(), 2 * (3 * 2 + 3), "{seen:?}");
    assert!(seen.values().all(|count| *count > 20), "{seen:?}");
}
