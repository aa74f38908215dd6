use super::*;
use crate::reply::Reply;
use crate::tree::Tree;
use crate::view::View;
use crate::{EntryContext, apply, read};
use base::Rng;
use base::versions::NEWEST;

/// Saved by a Redis 7.0.15 with every way of keeping a value, some of them by `CONFIG SET` of their limits.
const FILE: &[u8] = include_bytes!("redis-7.0.rdb");

/// All items of a file that comes in pieces of so many bytes.
fn items(file: &[u8], piece: usize) -> Result<Vec<Item>, RdbError> {
    let (mut reader, mut items) = (RdbReader::default(), Vec::new());
    for piece in file.chunks(piece) {
        reader.push(piece);
        while let Some(item) = reader.next()? {
            items.push(item);
        }
    }
    if reader.is_at_end() { Ok(items) } else { Err(RdbError { offset: 0, text: "it is cut short" }) }
}

fn ask(tree: &Tree, line: &str) -> Reply {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    read(&View::new(tree, WallTime(1_700_000_000_000), 1).in_version(NEWEST), &words)
}

fn text(reply: &Reply) -> String {
    match reply {
        Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Reply::Array(items) | Reply::Set(items) => items.iter().map(text).collect::<Vec<_>>().join(" "),
        Reply::Map(pairs) | Reply::Pairs(pairs) => {
            pairs.iter().map(|(a, b)| text(a) + " " + &text(b)).collect::<Vec<_>>().join(" ")
        }
        Reply::Integer(number) => number.to_string(),
        Reply::Double(number) => number.to_string(),
        other => format!("{other:?}"),
    }
}

#[test]
fn what_a_redis_has_saved_is_all_there() {
    let found = items(FILE, 1 << 20).expect("a file");
    let mut trees = [Tree::new(), Tree::new()];
    let mut libraries = 0;
    for item in &found {
        let Item::Key(Key { database, name, deadline, payload }) = item else {
            libraries += 1;
            continue;
        };
        let at = deadline.map_or(0, |deadline| deadline.0).to_string();
        let context = EntryContext { time: WallTime(1_700_000_000_000), version: NEWEST, ..EntryContext::default() };
        let words: [&[u8]; 5] = [b"RESTORE", name, at.as_bytes(), payload, b"ABSTTL"];
        let restored = apply(&mut trees[usize::from(*database == 5)], &context, &words).reply;
        assert_eq!(restored, Reply::Ok, "{}", String::from_utf8_lossy(name));
    }
    assert_eq!((libraries, trees[0].len(), trees[1].len()), (1, 20, 1));
    for (question, answer) in [
        ("GET plain", "value"),
        ("GET small", "17"),
        ("GET medium", "-3000"),
        ("GET large", "2000000000"),
        ("GET not-so-small", "123456789012345"),
        ("STRLEN compressed", "148"),
        ("GET 12345", "number-as-key"),
        ("PEXPIRETIME fades", "4102444800123"),
        ("HMGET hash-packed f g", "v 7"),
        ("HMGET hash f g h i", "v 7 x y"),
        ("SMISMEMBER set-of-numbers 1 2 3 4", "1 1 1 0"),
        ("SMISMEMBER set a b c 4", "1 1 1 1"),
        ("ZRANGE sorted-packed 0 -1", "a b"),
        ("ZRANGE sorted 0 2 WITHSCORES", "b -inf a 1.5 c 3"),
        ("LRANGE list 0 -1", "a b c d e f g h"),
        ("LRANGE list-packed 0 -1", "x"),
        ("XRANGE stream - +", "5-1 f v g w 6-0 f v"),
        ("XLEN nothing", "0"),
        ("PFCOUNT sketch", "3"),
    ] {
        assert_eq!(text(&ask(&trees[0], question)), answer, "{question}");
    }
    let Reply::Array(pending) = ask(&trees[0], "XPENDING stream readers - + 10") else { panic!("an array") };
    assert_eq!(pending.len(), 2);
    assert_eq!(text(&ask(&trees[1], "GET in-five")), "v");
}

#[test]
fn it_may_come_in_any_pieces() {
    let whole = items(FILE, FILE.len());
    assert!(whole.is_ok());
    for piece in [1, 2, 3, 7, 64, 500] {
        assert_eq!(items(FILE, piece), whole, "in pieces of {piece}");
    }
}

#[test]
fn a_flipped_bit_is_found() {
    for place in 0..FILE.len() {
        let mut file = FILE.to_vec();
        file[place] ^= 1 << (place % 8);
        assert!(items(&file, 64).is_err(), "byte {place}");
        assert!(items(&FILE[..place], 64).is_err(), "cut at {place}");
    }
}

/// Whatever the bytes are: an error or an end, soon, and nothing that was not there.
#[test]
fn any_bytes_are_read_to_some_end() {
    let mut rng = Rng::new(7);
    for _ in 0..20_000 {
        let mut file = FILE.to_vec();
        for _ in 0..rng.between(1, 6) {
            let place = rng.below(file.len() as u64) as usize;
            file[place] = rng.next_u64() as u8;
        }
        let _ = items(&file, 200);
        let random: Vec<u8> = b"REDIS0011".iter().copied().chain((0..60).map(|_| rng.next_u64() as u8)).collect();
        let _ = items(&random, 30);
    }
}

#[test]
fn other_files_are_told() {
    let said = |file: &[u8]| items(file, 10).expect_err("it is none").text;
    assert_eq!(said(b"REDIS0099 and more"), "the file is of a version of Redis that is not known here");
    assert_eq!(said(b"*3\r\n$3\r\nSET\r\n"), "this is no RDB file");
    assert_eq!(said(b"REDIS0011\xf6"), "functions as a test version of Redis 7.0 had them");
    assert_eq!(said(b"REDIS0011\x63\x01k"), "a value is of a type that is not known here");
    assert_eq!(
        said(b"REDIS0011\x00\x01k\x81\xff\xff\xff\xff\xff\xff\xff\xff"),
        "an item is longer than 4 GiB, or says so"
    );
    // Without a checksum, as before Redis 5, or with rdbchecksum no.
    assert_eq!(items(b"REDIS0004\xff", 3), Ok(Vec::new()));
    assert_eq!(items(b"REDIS0011\xff\0\0\0\0\0\0\0\0", 3), Ok(Vec::new()));
}
