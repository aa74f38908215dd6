//! Compares documents and paths with those of RedisJSON, command by command.
//!
//! Not run by default, since it needs a server and its module:
//! `REDIS_SERVER=valkey-server REDIS_JSON=/…/rejson.so cargo test -p data --test it redis_json:: -- --ignored --nocapture`. Written against 2.8.3. Texts of
//! errors are not compared, and what is known to differ is not drawn: there a filter tests a value that is neither array nor object by itself, and what is
//! absent is not different from anything (`[?@.b!=2]`), and `[?@.*]` passes no array; `JSON.CLEAR` counts otherwise where one value stands in another; what is removed from an object
//! leaves the others in another order.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test may read files and clocks")]

use crate::server::Redis;
use crate::transcript::{Session, lines};
use base::{Rng, WallTime};
use data::Tree;

fn draw_document(rng: &mut Rng, deep: u64) -> String {
    match rng.below(if deep == 0 { 7 } else { 12 }) {
        0 => rng.between(0, 4).to_string(),
        1 => "-7".to_owned(),
        2 => (*rng.pick(&["1.5", "0.25", "-2.75"])).to_owned(),
        3 => (*rng.pick(&["true", "false"])).to_owned(),
        4 => "null".to_owned(),
        5 | 6 => (*rng.pick(&["\"ab\"", "\"\"", "\"é\"", "\"b\""])).to_owned(),
        7..9 => {
            let items: Vec<String> = (0..rng.below(5)).map(|_| draw_document(rng, deep - 1)).collect();
            format!("[{}]", items.join(","))
        }
        _ => {
            let mut names = vec!["a", "b", "c", "d e"];
            names.truncate(rng.below(5) as usize);
            let members: Vec<String> =
                names.iter().map(|name| format!("\"{name}\":{}", draw_document(rng, deep - 1))).collect();
            format!("{{{}}}", members.join(","))
        }
    }
}

/// RedisJSON takes no negative step, no list of slices, no blank and no function of the standard.
fn draw_path(rng: &mut Rng) -> String {
    let mut path = "$".to_owned();
    if rng.chance(1, 3) {
        let filters = &["[?@.a]", "[?@.a==1]", "[?(@>1)]", "[?@.a>=1&&@.b]", "[?@=='ab'||@==true]", "[?@.a<$.b]"];
        let filter: &&str = rng.pick(filters);
        path.push_str(filter);
    }
    for _ in 0..rng.below(4) {
        let parts: &[&str] = match rng.below(11) {
            0..3 => &[".a", ".b", ".c", "['a']", "[\"d e\"]"],
            3..5 => &[".*", "[*]"],
            5..7 => &["[0]", "[1]", "[-1]", "[7]"],
            7 => &["[0:2]", "[1:]", "[:-1]", "[-2:]", "[0:9:2]"],
            8 => &["['a','b']", "['a','a']", "[0,0]", "[1,0,-1]"],
            _ => &["..a", "..b", "..*", "..[0]", "..[*]"],
        };
        let part: &&str = rng.pick(parts);
        path.push_str(part);
    }
    path
}

fn draw_command(rng: &mut Rng) -> Vec<String> {
    let path = draw_path(rng);
    let value = draw_document(rng, 1);
    let words: Vec<&str> = match rng.below(24) {
        0..4 => vec!["JSON.GET", "k", &path],
        4 => vec!["JSON.DEL", "k", &path],
        5 | 6 if path != "$" => vec!["JSON.SET", "k", &path, &value],
        7 => vec!["JSON.TOGGLE", "k", &path],
        8 => vec!["JSON.TYPE", "k", &path],
        9 => vec!["JSON.STRLEN", "k", &path],
        10 => vec!["JSON.STRAPPEND", "k", &path, "\"x\""],
        11 => vec!["JSON.ARRLEN", "k", &path],
        12 | 13 => vec!["JSON.ARRAPPEND", "k", &path, &value],
        14 => vec!["JSON.ARRINSERT", "k", &path, "0", &value],
        15 => vec!["JSON.ARRPOP", "k", &path],
        16 => vec!["JSON.ARRTRIM", "k", &path, "0", "1"],
        17 => vec!["JSON.OBJLEN", "k", &path],
        18 => vec!["JSON.OBJKEYS", "k", &path],
        19 => vec!["JSON.CLEAR", "k", &path],
        20 => vec!["JSON.NUMINCRBY", "k", &path, "2"],
        // Not JSON.MERGE, at which that server ends itself where arrays are met.
        21 => vec!["JSON.MGET", "k", "absent", &path],
        22 => vec!["JSON.RESP", "k", &path],
        _ => vec!["JSON.ARRINDEX", "k", &path, "1"],
    };
    // That server ends itself where it changes a value twice, or one inside another.
    let reads = ["GET", "MGET", "TYPE", "STRLEN", "ARRLEN", "OBJLEN", "OBJKEYS", "RESP", "ARRINDEX"];
    let is_safe =
        reads.iter().any(|read| words[0] == format!("JSON.{read}")) || !path.contains("..") && !path.contains(',');
    let words = if is_safe { words } else { vec!["JSON.GET", "k", &path] };
    words.into_iter().map(str::to_owned).collect()
}

#[test]
#[ignore = "needs a server and its module"]
fn answers_are_those_of_redis_json() {
    let server = std::env::var("REDIS_SERVER").expect("REDIS_SERVER names a server's program");
    let module = std::env::var("REDIS_JSON").expect("REDIS_JSON names the module");
    let rounds = std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(2000);
    let mut redis = Redis::start_with(&server, &["--loadmodule", &module]);
    let mut ours = Session { tree: Tree::new(), clock: WallTime(1000) };
    let words = |command: &[String]| -> Vec<Vec<u8>> { command.iter().map(|word| word.clone().into_bytes()).collect() };
    let (mut compared, mut differ) = (0, Vec::new());
    for seed in 0..rounds {
        let mut rng = Rng::new(seed);
        let document = format!("[{},{}]", draw_document(&mut rng, 3), draw_document(&mut rng, 2));
        let document = if rng.chance(1, 2) { document } else { format!("{{\"a\":{document},\"b\":1}}") };
        let mut told = Vec::new();
        let set = ["JSON.SET", "k", "$", &document].map(str::to_owned);
        for command in std::iter::once(set.to_vec()).chain((0..6).map(|_| draw_command(&mut rng))) {
            told.push(command.join(" "));
            let mine = lines(&ours.run(&words(&command)));
            let theirs = redis.run(&words(&command));
            let are_errors = |lines: &[String]| lines.len() == 1 && lines[0].starts_with("(error)");
            let is_same = mine == theirs || are_errors(&mine) && are_errors(&theirs);
            let get = ["JSON.GET", "k"].map(str::to_owned);
            let (left, right) = (lines(&ours.run(&words(&get))), redis.run(&words(&get)));
            compared += 1;
            let sorted = |lines: &[String]| {
                let mut bytes = lines.concat().into_bytes();
                bytes.sort_unstable();
                bytes
            };
            if is_same && left != right && sorted(&left) == sorted(&right) {
                break;
            }
            if !is_same || left != right {
                differ.push(format!(
                    "seed {seed}\n{}\n  ours   {mine:?} {left:?}\n  theirs {theirs:?} {right:?}",
                    told.join("\n")
                ));
                break;
            }
        }
    }
    println!("{compared} commands compared, {} differ", differ.len());
    for difference in differ.iter().take(12) {
        println!("{difference}\n");
    }
    assert!(differ.is_empty());
}
