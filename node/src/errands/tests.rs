//! Conversations, with what each side answers.

use super::*;

fn word(text: &str) -> Value {
    Value::Simple(text.to_owned())
}

fn look(revision: i64, payload: Option<&str>) -> Heard {
    let payload = payload.map_or(Value::Null, |text| Value::Bulk(text.as_bytes().to_vec()));
    replies(vec![
        word("OK"),
        word("QUEUED"),
        word("QUEUED"),
        word("QUEUED"),
        exec(vec![Value::Integer(revision), payload, Value::Integer(-1)]),
    ])
}

fn exec(items: Vec<Value>) -> Value {
    Value::Array(items)
}

fn created(answer: Value, revision: i64) -> Heard {
    replies(vec![word("OK"), word("QUEUED"), word("QUEUED"), exec(vec![answer, Value::Integer(revision)])])
}

fn replies(values: Vec<Value>) -> Heard {
    Heard::Replies(values)
}

fn one(value: Value) -> Heard {
    replies(vec![value])
}

fn error(text: &str) -> Value {
    Value::Error(text.to_owned())
}

/// A step in words that can be read: the side, and the commands without their lengths.
fn told(say: Say) -> String {
    match say {
        Say::To(side, bytes, count) => {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let words: Vec<&str> =
                text.split("\r\n").filter(|it| !it.is_empty() && !it.starts_with(['*', '$'])).collect();
            format!("{side:?} {} ({count})", words.join(" "))
        }
        Say::Done(answer) => format!("{answer:?}"),
    }
}

fn relocation(removes: bool, replaces: bool) -> Relocation {
    Relocation::new((b"default", b"k"), (b"5", b"l"), Wish { removes, replaces, durability: None })
}

/// Both sides' greetings, as they are taken.
fn welcome() -> Heard {
    replies(vec![word("OK"), word("OK")])
}

/// Up to where the copy is there, at revision 9, of a key at revision 7.
fn copied(relocation: &mut Relocation) -> String {
    relocation.go_on(Heard::Nothing);
    relocation.go_on(welcome());
    relocation.go_on(look(7, Some("value")));
    relocation.go_on(welcome());
    told(relocation.go_on(created(word("OK"), 9)))
}

#[test]
fn a_move_is_said_step_by_step() {
    let mut it = relocation(true, false);
    assert_eq!(told(it.go_on(Heard::Nothing)), "Source SELECT default DICTUM.CONSISTENCY linearizable (2)");
    assert_eq!(told(it.go_on(welcome())), "Source MULTI DICTUM.REVISION k DUMP k PEXPIRETIME k EXEC (5)");
    assert_eq!(told(it.go_on(look(7, Some("value")))), "Target SELECT 5 DICTUM.CONSISTENCY linearizable (2)");
    assert_eq!(told(it.go_on(welcome())), "Target MULTI RESTORE l 0 value ABSTTL DICTUM.REVISION l EXEC (4)");
    assert_eq!(told(it.go_on(created(word("OK"), 9))), "Source DICTUM.DEL k IFREVISION 7 (1)");
    assert_eq!(told(it.go_on(one(Value::Integer(1)))), "Integer(1)");
}

#[test]
fn a_copy_ends_when_it_is_there() {
    let mut it = relocation(false, true);
    it.go_on(Heard::Nothing);
    it.go_on(welcome());
    it.go_on(look(7, Some("value")));
    let said = told(it.go_on(welcome()));
    assert_eq!(said, "Target MULTI RESTORE l 0 value ABSTTL REPLACE DICTUM.REVISION l EXEC (4)");
    assert_eq!(told(it.go_on(created(word("OK"), 9))), "Integer(1)");
}

#[test]
fn a_key_that_is_there_already_is_left_alone() {
    let mut it = relocation(true, false);
    assert_eq!(copied(&mut it), "Source DICTUM.DEL k IFREVISION 7 (1)");
    let mut it = relocation(true, false);
    it.go_on(Heard::Nothing);
    it.go_on(welcome());
    assert_eq!(told(it.go_on(look(0, None))), "Integer(0)", "there is none");
    let mut it = relocation(true, false);
    it.go_on(Heard::Nothing);
    it.go_on(welcome());
    it.go_on(look(7, Some("value")));
    it.go_on(welcome());
    assert_eq!(told(it.go_on(created(error("BUSYKEY Target key name already exists."), 3))), "Integer(0)");
}

#[test]
fn who_changes_the_key_meanwhile_is_not_lost() {
    let mut it = relocation(true, false);
    copied(&mut it);
    assert_eq!(told(it.go_on(one(Value::Null))), "Target DICTUM.DEL l IFREVISION 9 (1)");
    let again = told(it.go_on(one(Value::Integer(1))));
    assert_eq!(again, "Source MULTI DICTUM.REVISION k DUMP k PEXPIRETIME k EXEC (5)", "with what it is now");
    it.go_on(look(8, Some("newer")));
    assert_eq!(told(it.go_on(created(word("OK"), 12))), "Source DICTUM.DEL k IFREVISION 8 (1)");
    // Somebody has removed it, and was told so: the copy goes, too.
    assert_eq!(told(it.go_on(one(Value::Integer(0)))), "Target DICTUM.DEL l IFREVISION 12 (1)");
    it.go_on(one(Value::Integer(1)));
    assert_eq!(told(it.go_on(look(0, None))), "Integer(0)");
    // The copy was changed as well.
    let mut it = relocation(true, false);
    copied(&mut it);
    it.go_on(one(Value::Null));
    assert!(told(it.go_on(one(Value::Null))).contains("it is in both now"));
    // One that never comes to rest.
    let mut it = relocation(true, false);
    copied(&mut it);
    let mut rounds = 1;
    let end = loop {
        it.go_on(one(Value::Null));
        match it.go_on(one(Value::Integer(1))) {
            Say::To(..) => rounds += 1,
            Say::Done(answer) => break answer,
        }
        it.go_on(look(rounds, Some("value")));
        it.go_on(created(word("OK"), 20 + rounds));
    };
    assert!(matches!(end, ErrandAnswer::Error(text) if text.starts_with("ERR the key changes all the time")));
    assert_eq!(rounds, 8);
}

#[test]
fn doubt_is_told() {
    let in_both = "the key may be in both databases now, and is in one of them";
    for step in 0..3 {
        let mut it = relocation(true, false);
        let last = match step {
            0 => {
                it.go_on(Heard::Nothing);
                it.go_on(welcome());
                it.go_on(look(7, Some("value")));
                it.go_on(welcome());
                it.go_on(one(error("UNKNOWN the outcome was not known in time")))
            }
            1 => {
                copied(&mut it);
                it.go_on(one(error("UNKNOWN the outcome was not known in time")))
            }
            _ => {
                copied(&mut it);
                it.go_on(Heard::NoAnswer(Side::Source))
            }
        };
        let said = told(last);
        assert!(said.contains("UNKNOWN") && said.contains(in_both), "{said}");
    }
    // A copy is taken back if the removal was certainly not done.
    let mut it = relocation(true, false);
    copied(&mut it);
    let refused = "CLUSTERDOWN no leader";
    assert_eq!(told(it.go_on(one(error(refused)))), "Target DICTUM.DEL l IFREVISION 9 (1)");
    assert_eq!(told(it.go_on(one(Value::Integer(1)))), format!("Error({refused:?})"));
    // Why a command could not even be queued is told, not what EXEC says of it.
    let mut it = relocation(true, false);
    it.go_on(Heard::Nothing);
    it.go_on(welcome());
    let refusals = vec![word("OK"), error("ERR one"), word("QUEUED"), word("QUEUED"), error("EXECABORT")];
    assert_eq!(told(it.go_on(replies(refusals))), "Error(\"ERR one\")");
}

fn migration(words: &str) -> Result<Migration, Failure> {
    let words: Vec<&[u8]> = words.split(' ').map(|it| if it == "-" { &b""[..] } else { it.as_bytes() }).collect();
    Migration::parse(b"default", None, &words)
}

#[test]
fn keys_go_to_another_server() {
    let mut it = migration("MIGRATE host 6379 - 3 0 REPLACE AUTH2 me secret KEYS a b c").expect("it is well formed");
    let target = Target::Server { host: "host".to_owned(), port: 6379, timeout: Duration::from_secs(1) };
    assert_eq!(it.target(), target);
    assert_eq!(told(it.go_on(Heard::Nothing)), "Source SELECT default DICTUM.CONSISTENCY linearizable (2)");
    assert_eq!(told(it.go_on(welcome())), "Source MULTI DICTUM.REVISION a DUMP a PEXPIRETIME a EXEC (5)");
    it.go_on(look(1, Some("one")));
    it.go_on(look(0, None));
    let said = told(it.go_on(look(3, Some("three"))));
    assert_eq!(said, "Target AUTH me secret SELECT 3 (2)");
    let said = told(it.go_on(replies(vec![word("OK"), word("OK")])));
    assert_eq!(said, "Target RESTORE a 0 one ABSTTL REPLACE RESTORE c 0 three ABSTTL REPLACE (2)");
    let said = told(it.go_on(replies(vec![error("ERR no"), word("OK")])));
    assert_eq!(said, "Source DICTUM.DEL c IFREVISION 3 (1)", "what was not taken stays");
    assert_eq!(told(it.go_on(one(Value::Integer(1)))), "Error(\"ERR Target instance replied with error: ERR no\")");

    let mut it = migration("MIGRATE host 6379 k 0 50 COPY").expect("it is well formed");
    it.go_on(Heard::Nothing);
    it.go_on(welcome());
    assert_eq!(told(it.go_on(look(1, Some("one")))), "Target SELECT 0 (1)");
    assert_eq!(told(it.go_on(one(word("OK")))), "Target RESTORE k 0 one ABSTTL (1)");
    assert_eq!(told(it.go_on(one(word("OK")))), "Status(\"OK\")");

    let mut it = migration("MIGRATE host 6379 k 0 50").expect("it is well formed");
    it.go_on(Heard::Nothing);
    it.go_on(welcome());
    assert_eq!(told(it.go_on(look(0, None))), "Status(\"NOKEY\")");

    let mut it = migration("MIGRATE host 6379 k 0 50").expect("it is well formed");
    it.go_on(Heard::Nothing);
    it.go_on(welcome());
    it.go_on(look(1, Some("one")));
    assert!(told(it.go_on(Heard::NoConnection(Side::Target))).contains("IOERR error or timeout connecting"));
}

#[test]
fn what_migrate_cannot_take_is_refused() {
    for (words, text) in [
        ("MIGRATE host x k 0 50", "ERR Invalid TCP port specified"),
        ("MIGRATE host 70000 k 0 50", "ERR Invalid TCP port specified"),
        ("MIGRATE host 1 k x 50", "ERR value is not an integer or out of range"),
        ("MIGRATE host 1 k 0 x", "ERR value is not an integer or out of range"),
        ("MIGRATE host 1 k 0 50 MAYBE", "ERR syntax error"),
        ("MIGRATE host 1 k 0 50 AUTH", "ERR syntax error"),
        (
            "MIGRATE host 1 k 0 50 KEYS a",
            "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
        ),
    ] {
        assert_eq!(migration(words).expect_err(words).to_string(), text, "{words}");
    }
}

/// The looks at all keys that are there to be sent in one batch, and what is said then.
fn looked_at_all(it: &mut Migration, payload: &str) -> (usize, String) {
    it.go_on(Heard::Nothing);
    let mut said = told(it.go_on(welcome()));
    let mut looks = 0;
    while said.starts_with("Source") {
        looks += 1;
        said = told(it.go_on(look(looks, Some(payload))));
    }
    (usize::try_from(looks).expect("it is small"), said)
}

#[test]
fn no_more_than_a_batch_is_in_memory() {
    let keys: Vec<String> = (0..100).map(|key| key.to_string()).collect();
    let words = format!("MIGRATE host 6379 - 0 0 KEYS {}", keys.join(" "));
    for (payload, expected) in [("small", 16), (&"x".repeat(400_000), 3), (&"x".repeat(2_000_000), 1)] {
        let mut it = migration(&words).expect("it is well formed");
        assert_eq!(looked_at_all(&mut it, payload).0, expected, "of {} bytes", payload.len());
    }
}

#[test]
fn only_an_ok_of_the_target_removes_a_key() {
    for reply in [Value::Null, Value::Integer(1), word("PONG"), Value::Array(Vec::new()), Value::Bulk(b"OK".to_vec())] {
        let mut it = migration("MIGRATE host 6379 k 0 50").expect("it is well formed");
        assert_eq!(looked_at_all(&mut it, "value").1, "Target SELECT 0 (1)");
        it.go_on(one(word("OK")));
        let said = told(it.go_on(one(reply.clone())));
        assert_eq!(said, "Error(\"ERR Target instance replied with error: it is no OK\")", "{reply:?}");
    }
}

#[test]
fn what_a_connection_asks_of_its_writes_is_asked_again() {
    let wish = Wish { removes: true, replaces: false, durability: Some("all") };
    let mut it = Relocation::new((b"default", b"k"), (b"5", b"l"), wish);
    let said = told(it.go_on(Heard::Nothing));
    assert_eq!(said, "Source SELECT default DICTUM.CONSISTENCY linearizable DICTUM.DURABILITY all (3)");
    let refused = replies(vec![word("OK"), word("OK"), error("ERR no")]);
    assert_eq!(told(it.go_on(refused)), "Error(\"ERR no\")");
}

#[test]
fn a_copy_that_somebody_took_is_not_made_a_second_time() {
    let mut it = relocation(true, false);
    copied(&mut it);
    it.go_on(one(Value::Null));
    let again = told(it.go_on(one(Value::Integer(0))));
    assert_eq!(again, "Source MULTI DICTUM.REVISION k DUMP k PEXPIRETIME k EXEC (5)");
    assert!(told(it.go_on(look(8, Some("newer")))).contains("its copy was taken by another client"));
    // Both are gone, as when their time had come.
    let mut it = relocation(true, false);
    copied(&mut it);
    it.go_on(one(Value::Integer(0)));
    it.go_on(one(Value::Integer(0)));
    assert_eq!(told(it.go_on(look(0, None))), "Integer(0)");
    // Why the key could not be removed is told in every case.
    let mut it = relocation(true, false);
    copied(&mut it);
    it.go_on(one(error("CLUSTERDOWN no leader")));
    let said = told(it.go_on(one(Value::Null)));
    assert!(said.contains("CLUSTERDOWN no leader") && said.contains("it is in both now"), "{said}");
}

#[test]
fn a_deadline_that_passes_on_the_way_leaves_no_key() {
    for removes in [true, false] {
        let mut it = relocation(removes, true);
        it.go_on(Heard::Nothing);
        it.go_on(welcome());
        it.go_on(look(7, Some("value")));
        it.go_on(welcome());
        assert_eq!(told(it.go_on(created(word("OK"), 0))), "Integer(0)");
    }
}
