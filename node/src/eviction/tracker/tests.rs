use super::*;

/// Lets a trace go by: `+a` writes, `a` reads, `-a` removes, `!a` means that `a` has to go first now.
fn trace(policy: Policy, words: &str) {
    let mut tracker = Tracker::new(policy);
    for (number, word) in words.split_whitespace().enumerate() {
        let key = &word[usize::from(!word.starts_with(|first: char| first.is_alphabetic()))..];
        let at = KeyRef::new(key.as_bytes());
        match &word[..1] {
            "+" => tracker.written(&Blob::new(key.as_bytes())),
            "-" => tracker.removed(at),
            "!" => {
                let gone = tracker.pop();
                let gone = gone.as_ref().map(|key| String::from_utf8_lossy(key));
                assert_eq!(gone.as_deref(), Some(key), "{policy:?}: word {number} of {words}");
                assert!(!tracker.knows(at));
            }
            _ => assert!(tracker.touched(at), "{policy:?}: {key} is not known, word {number} of {words}"),
        }
    }
}

#[test]
fn fifo_lets_the_oldest_value_go() {
    trace(Policy::Fifo, "+a +b +c a a !a !b +d !c !d");
    trace(Policy::Fifo, "+a +b +a !b !a");
    trace(Policy::Fifo, "+a +b -a +a !b !a");
}

#[test]
fn lru_lets_the_key_go_that_was_not_asked_for_for_longest() {
    trace(Policy::Lru, "+a +b +c a !b +d c !a !d !c");
    trace(Policy::Lru, "+a +b +a b a +c !b !a !c");
}

#[test]
fn lfu_lets_the_key_go_that_was_asked_for_least() {
    trace(Policy::Lfu, "+a +b +c a a b !c !b !a");
    // Of those with one count the one that came to it first.
    trace(Policy::Lfu, "+a +b a b +c +d !c !d !a !b");
    // A scan does not push out what is hot.
    trace(Policy::Lfu, "+hot hot hot +a !a +b !b +c !c hot !hot");
}

#[test]
fn lfu_forgets_what_was_hot_long_ago() {
    let mut words = "+old +new ".to_owned() + &"old ".repeat(14);
    words += &"new ".repeat(450);
    // Fifteen uses of the old one have been halved away by a few hundred of the other.
    words += "+late late !old !late !new";
    trace(Policy::Lfu, &words);
}

#[test]
fn s3_fifo_keeps_what_is_asked_for_again() {
    // What is asked for once more passes on, the rest goes in its order.
    trace(Policy::S3Fifo, "+a +b +c +d a c !b !d !a !c");
    // What comes back soon after it went is not put on probation again.
    trace(Policy::S3Fifo, "+a +b +c !a +a +d +e !b !c !d !e !a");
}

#[test]
fn every_key_goes_once_whatever_happens_before() {
    for policy in [Policy::Fifo, Policy::Lru, Policy::Lfu, Policy::S3Fifo] {
        let mut rng = base::Rng::new(7);
        let mut tracker = Tracker::new(policy);
        let mut expected: BTreeSet<String> = BTreeSet::new();
        for _ in 0..20_000 {
            let key = format!("k{}", rng.below(200));
            let at = KeyRef::new(key.as_bytes());
            match rng.below(10) {
                0..=3 => {
                    tracker.written(&Blob::new(key.as_bytes()));
                    expected.insert(key);
                }
                4..=6 => assert_eq!(tracker.touched(at), expected.contains(&key)),
                7 => {
                    tracker.removed(at);
                    expected.remove(&key);
                }
                8 => assert_eq!(tracker.touched_at(at.order), expected.contains(&key)),
                _ => {
                    let gone = tracker.pop().map(|key| String::from_utf8_lossy(&key).into_owned());
                    assert_eq!(gone.is_none(), expected.is_empty());
                    gone.iter().for_each(|key| assert!(expected.remove(key), "{key} was not there"));
                }
            }
            assert_eq!(tracker.len(), expected.len() as u64);
            assert!(tracker.ghosts.len() <= 200 && tracker.small <= expected.len());
        }
        // Under another policy the same keys are known.
        let mut other = tracker.under(Policy::Lru);
        assert_eq!((tracker.len(), other.len()), (0, expected.len() as u64));
        while let Some(key) = other.pop() {
            assert!(expected.remove(&*String::from_utf8_lossy(&key)));
        }
        assert!(expected.is_empty());
    }
}

#[test]
fn another_policy_takes_over_the_order() {
    let mut tracker = Tracker::new(Policy::Lru);
    for key in ["a", "b", "c", "a"] {
        tracker.written(&Blob::new(key.as_bytes()));
    }
    let mut tracker = tracker.under(Policy::Fifo);
    let gone: Vec<Blob> = std::iter::from_fn(|| tracker.pop()).collect();
    assert_eq!(gone, [Blob::new(b"b"), Blob::new(b"c"), Blob::new(b"a")]);
}

/// Of ten thousand keys, asked for as often as one in the number of their place, a tenth is kept.
fn hits_of_zipf(policy: Policy, with_scan: bool) -> f64 {
    const KEYS: u64 = 10_000;
    let mut rng = base::Rng::new(11);
    let sums: Vec<f64> = (1..=KEYS)
        .scan(0.0, |sum, place| {
            *sum += 1.0 / place as f64;
            Some(*sum)
        })
        .collect();
    let total = sums[sums.len() - 1];
    let mut tracker = Tracker::new(policy);
    let (mut hits, mut asked) = (0, 0);
    for number in 0..200_000_u64 {
        let scanned = with_scan && number % 4 == 0;
        let drawn = rng.below(1 << 53) as f64 / (1_u64 << 53) as f64 * total;
        let key = if scanned { KEYS + number } else { sums.partition_point(|sum| *sum < drawn) as u64 };
        let key = Blob::new(&key.to_le_bytes());
        let hit = tracker.touched(KeyRef::new(&key));
        if !hit {
            if tracker.len() >= KEYS / 10 {
                tracker.pop();
            }
            tracker.written(&key);
        }
        if number > 50_000 && !scanned {
            asked += 1;
            hits += u64::from(hit);
        }
    }
    hits as f64 / f64::from(asked)
}

#[test]
fn hot_keys_are_hit() {
    let hits = |with_scan| {
        [Policy::Fifo, Policy::Lru, Policy::Lfu, Policy::S3Fifo].map(|policy| hits_of_zipf(policy, with_scan))
    };
    let ([fifo, lru, lfu, s3_fifo], scanned) = (hits(false), hits(true));
    println!("zipfian: {fifo:.3} {lru:.3} {lfu:.3} {s3_fifo:.3}; with a scan: {scanned:.3?}");
    // With the thousand hottest keys it would be 0.76.
    assert!(fifo < lru && lru < s3_fifo.max(lfu), "{fifo} {lru} {lfu} {s3_fifo}");
    assert!(lfu > 0.70 && s3_fifo > 0.70, "{lfu} {s3_fifo}");
    assert!(scanned[2] > scanned[1] + 0.03 && scanned[3] > scanned[1] + 0.03, "scans push out nothing: {scanned:?}");
}
