//! No read builds an answer that is larger than it may be: what is too large is refused on the way, or ends early.

use base::WallTime;
use base::versions::NEWEST;
use data::{EntryContext, Reply, Tree, View, apply, read};

/// What answers may have here, and the elements of which there are more than that.
const BYTES_MAX: u64 = 16 * 1024;
const COUNT: usize = 2000;

fn words(line: &str) -> Vec<&[u8]> {
    line.split(' ').map(str::as_bytes).collect()
}

/// A state in which everything is large.
fn full() -> Tree {
    let mut tree = Tree::new();
    let mut run = |line: &str| {
        let context = EntryContext { time: WallTime(1000), version: NEWEST, ..EntryContext::default() };
        let reply = apply(&mut tree, &context, &words(line)).reply;
        assert!(!matches!(reply, Reply::Error(_)), "{}: {reply:?}", &line[..line.len().min(60)]);
    };
    let value = "v".repeat(BYTES_MAX as usize + 1);
    run(&format!("SET value {value}"));
    run("SET part vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv");
    run(&format!("SET one {}", "ab".repeat(COUNT)));
    run(&format!("SET two {}", "acb".repeat(COUNT)));
    run(&format!("HSET fields value {value}"));
    for number in 0..COUNT {
        run(&format!("SET key:{number} v"));
        run(&format!("HSET hash field:{number} value:{number}"));
        run(&format!("SADD set member:{number}"));
        run(&format!("ZADD zset {number} member:{number}"));
        run(&format!("GEOADD places {} 40 member:{number}", number as f64 / 1000.0));
        run("RPUSH list some-element");
        run(&format!("XADD stream {}-0 f v", number + 1));
    }
    run(&format!("RPUSH long {value}"));
    run(&format!("SET weight_some-element {value}"));
    run("XGROUP CREATE stream group 0");
    run("XREADGROUP GROUP group consumer STREAMS stream >");
    for number in 0..COUNT {
        run(&format!("XGROUP CREATE stream group:{number} 0"));
        run(&format!("XGROUP CREATECONSUMER stream group consumer:{number}"));
    }
    run("XGROUP CREATE stream many 0");
    for number in 0..COUNT {
        run(&format!("XREADGROUP GROUP many consumer:{number} COUNT 1 STREAMS stream >"));
    }
    let members: Vec<String> = (0..COUNT).map(|number| format!("\"a-member:{number}\":[{number},\"v\"]")).collect();
    run("JSON.SET small $ {\"a\":\"vvvvvvvv\"}");
    run(&format!("JSON.SET document $ {{{}}}", members.join(",")));
    tree
}

/// For each command that only reads, what asks it for much; or why its answer is never large.
enum Case {
    Asks(&'static [&'static str]),
    /// A number, a name or an element; or as much for each word of the command.
    Little,
}
use Case::{Asks, Little};

fn case(name: &str) -> Option<Case> {
    Some(match name {
        "dictum.named" => Little,
        "get" | "dictum.get" => Asks(&["{} value"]),
        "getrange" | "substr" => Asks(&["{} value 0 -1"]),
        "mget" => Asks(&["{} value value", "{} repeat:part"]),
        "lcs" => Asks(&["{} one two IDX WITHMATCHLEN"]),
        "dump" => Asks(&["{} hash", "{} set", "{} zset", "{} list", "{} stream"]),
        "keys" => Asks(&["{} *"]),
        "scan" => Asks(&["{} 0 COUNT 1000000"]),
        "sort_ro" => Asks(&[
            "{} list ALPHA",
            "{} set BY nosort",
            "{} zset ALPHA GET # GET nothing:*",
            "{} list BY nosort LIMIT 0 1 GET weight_*",
        ]),
        "hget" => Asks(&["{} fields value"]),
        "hmget" => Asks(&["{} fields value value", "{} hash repeat:field:1"]),
        "hgetall" | "hkeys" | "hvals" => Asks(&["{} hash"]),
        "hrandfield" => Asks(&["{} hash 1000000", "{} hash -3000 WITHVALUES", "{} fields -3 WITHVALUES"]),
        "hscan" => Asks(&["{} hash 0 COUNT 1000000"]),
        "smembers" => Asks(&["{} set"]),
        "srandmember" => Asks(&["{} set 1000000", "{} set -3000"]),
        "sscan" => Asks(&["{} set 0 COUNT 1000000"]),
        "sinter" | "sunion" | "sdiff" => Asks(&["{} set"]),
        "lrange" => Asks(&["{} list 0 -1", "{} long 0 0"]),
        "lindex" => Asks(&["{} long 0"]),
        "lpos" => Asks(&["{} list some-element COUNT 0", "{} list some-element RANK -1 COUNT 0"]),
        "zrange" => Asks(&["{} zset 0 -1", "{} zset -inf +inf BYSCORE WITHSCORES", "{} zset - + BYLEX"]),
        "zrevrange" => Asks(&["{} zset 0 -1"]),
        "zrangebyscore" => Asks(&["{} zset -inf +inf"]),
        "zrevrangebyscore" => Asks(&["{} zset +inf -inf"]),
        "zrangebylex" => Asks(&["{} zset - +"]),
        "zrevrangebylex" => Asks(&["{} zset + -"]),
        "zrandmember" => Asks(&["{} zset 1000000", "{} zset -3000"]),
        "zscan" => Asks(&["{} zset 0 COUNT 1000000"]),
        "zunion" | "zinter" | "zdiff" => Asks(&["{} 1 zset"]),
        "geosearch" => Asks(&["{} places FROMLONLAT 0 40 BYRADIUS 10000 km WITHDIST WITHCOORD"]),
        "georadius_ro" => Asks(&["{} places 0 40 10000 km"]),
        "georadiusbymember_ro" => Asks(&["{} places member:1 10000 km"]),
        "xrange" => Asks(&["{} stream - +"]),
        "xrevrange" => Asks(&["{} stream + -"]),
        "xread" => Asks(&["{} STREAMS stream stream 0 0"]),
        "xpending" => Asks(&["{} stream group - + 1000000", "{} stream group - + 1000000 consumer", "{} stream many"]),
        "xinfo" => Asks(&[
            "{} STREAM stream FULL COUNT 0",
            "{} STREAM stream FULL COUNT 1",
            "{} GROUPS stream",
            "{} CONSUMERS stream group",
        ]),
        "json.get" => Asks(&[
            "{} document",
            "{} document $.*",
            "{} document INDENT xxxxxxxx NEWLINE yyyyyyy $",
            "{} document $..* $.*",
        ]),
        "json.mget" => Asks(&["{} document document $", "{} repeat:small $.a"]),
        "json.resp" => Asks(&["{} document", "{} document $..*"]),
        "json.objkeys" => Asks(&["{} document", "{} document $"]),
        "json.type" | "json.arrlen" | "json.objlen" | "json.strlen" => Asks(&["{} document $..*"]),
        "json.arrindex" => Asks(&["{} document $..* 1"]),
        "json.debug" => Asks(&["{} MEMORY document $..*"]),
        "eval_ro" => Asks(&["{} return(redis.call('GET',KEYS[1])) 1 value"]),
        // The code that is kept is bounded as a whole, and so is what functions answer.
        "fcall_ro" | "evalsha_ro" => Little,
        _ => return None,
    })
}

#[test]
fn no_read_builds_more_than_it_may() {
    let little = [
        "bitcount",
        "bitfield_ro",
        "bitpos",
        "dbsize",
        "digest",
        "dictum.revision",
        "exists",
        "expiretime",
        "geodist",
        "geohash",
        "geopos",
        "getbit",
        "hexists",
        "hexpiretime",
        "hlen",
        "hpexpiretime",
        "hpttl",
        "hstrlen",
        "httl",
        "llen",
        "memory",
        "object",
        "pexpiretime",
        "pfcount",
        "pttl",
        "randomkey",
        "scard",
        "sintercard",
        "sismember",
        "smismember",
        "strlen",
        "touch",
        "ttl",
        "type",
        "xlen",
        "zcard",
        "zcount",
        "zintercard",
        "zlexcount",
        "zmscore",
        "zrank",
        "zrevrank",
        "zscore",
    ];
    let tree = full();
    let (mut unknown, mut wrong) = (Vec::new(), Vec::new());
    for entry in data::commands::COMMANDS.iter().filter(|entry| !entry.is_write()) {
        let name = entry.spec.name;
        let Some(case) = case(name) else {
            unknown.extend((!little.contains(&name)).then_some(name));
            continue;
        };
        let Asks(lines) = case else { continue };
        for line in lines {
            let line = line.replace("{}", name);
            let line: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let repeated = |word: String| match word.strip_prefix("repeat:") {
                Some(word) => vec![word.to_owned(); COUNT],
                None => vec![word],
            };
            let line: Vec<String> = line.into_iter().flat_map(repeated).collect();
            let words: Vec<&[u8]> = line.iter().map(String::as_bytes).collect();
            let asked = line.join(" ").chars().take(80).collect::<String>();
            let of = |answer_max| {
                let view = View::new(&tree, WallTime(1000), 7).in_version(NEWEST).with_answer_max(answer_max);
                read(&view, &words)
            };
            let (whole, bounded) = (of(u64::MAX), of(BYTES_MAX));
            let (is_large, fails) = (whole.bytes() > BYTES_MAX, matches!(bounded, Reply::Error(_)));
            let ends_early = ["scan", "hscan", "sscan", "zscan", "xread"].contains(&name);
            let is_right = match ends_early {
                // A page ends behind what has reached its limit.
                true => !fails && bounded.bytes() <= 8 * BYTES_MAX,
                false => fails,
            };
            if matches!(whole, Reply::Error(_)) || !is_large || !is_right {
                wrong.push(format!("{asked}: {} bytes, and bounded {}", whole.bytes(), bounded.bytes()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(unknown.is_empty(), "what may these answer? {unknown:?}");
}
