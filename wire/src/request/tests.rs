use super::*;

fn limits() -> RequestLimits {
    RequestLimits { argument_bytes_max: 10, command_bytes_max: 37, is_for_strangers: false }
}

/// Feeds `input` in pieces of `bytes_each` and tells what came out, one line for each request.
fn transcript(parser: &mut RequestParser, input: &[u8], bytes_each: usize) -> Vec<String> {
    let mut told = Vec::new();
    for mut piece in input.chunks(bytes_each) {
        loop {
            match parser.next(&mut piece) {
                Ok(Some(Request::Command(arguments))) => told.push(format!("{arguments:?}")),
                Ok(Some(Request::TooLarge { arguments, bytes, bytes_max })) => {
                    told.push(format!("too large: {arguments:?} then {bytes} over {bytes_max}"));
                }
                Ok(None) => break,
                Err(error) => {
                    told.push(format!("-{error}"));
                    return told;
                }
            }
        }
        assert!(piece.is_empty());
    }
    told
}

/// As a client would see it, whole and byte by byte.
fn told(input: &[u8]) -> Vec<String> {
    let whole = transcript(&mut RequestParser::new(limits()), input, input.len().max(1));
    for bytes_each in [1, 2, 3, 7] {
        assert_eq!(whole, transcript(&mut RequestParser::new(limits()), input, bytes_each));
    }
    whole
}

#[test]
fn commands_are_read() {
    let table: [(&str, &[&str]); 12] = [
        ("*1\r\n$4\r\nPING\r\n", &[r#"["PING"]"#]),
        ("*2\r\n$3\r\nGET\r\n$0\r\n\r\n*1\r\n$1\r\nx\r\n", &[r#"["GET", ""]"#, r#"["x"]"#]),
        ("*2\r\n$3\r\nGET\r\n$4\r\n\r\n\r\n\r\n", &[r#"["GET", "\r\n\r\n"]"#]),
        // Half a command is no command.
        ("*2\r\n$3\r\nGET\r\n$4\r\n\r\n\r\n\r", &[]),
        // Arrays of nothing, however negative, are passed over.
        ("*0\r\n*-1\r\n*-99\r\n*1\r\n$1\r\nx\r\n", &[r#"["x"]"#]),
        // Redis does not look at what ends a length or a word.
        ("*1\rx$1\ryxab*1\r\n$1\r\nx\r\n", &[r#"["x"]"#, r#"["x"]"#]),
        // Inline commands, among the others.
        ("PING\r\n*1\r\n$1\r\nx\r\nPING\n", &[r#"["PING"]"#, r#"["x"]"#, r#"["PING"]"#]),
        ("\r\n\n  \r\nSET a \"b c\"\r\n", &[r#"["SET", "a", "b c"]"#]),
        ("SET 'it''s' x\r\n", &["-ERR Protocol error: unbalanced quotes in request"]),
        ("GET \"\\x41\\n\" 'a\\'b'\r\n", &[r#"["GET", "A\n", "a'b"]"#]),
        ("$1\r\nPING\r\n", &[r#"["$1"]"#, r#"["PING"]"#]),
        ("PING a\rb\r\n", &[r#"["PING", "a", "b"]"#]),
    ];
    for (input, expected) in table {
        assert_eq!(told(input.as_bytes()), expected, "{input:?}");
    }
}

#[test]
fn protocol_errors_are_those_of_redis() {
    let table = [
        ("*a\r\n", "invalid multibulk length"),
        ("*\r\n", "invalid multibulk length"),
        ("*01\r\n", "invalid multibulk length"),
        ("*+1\r\n", "invalid multibulk length"),
        ("* 1\r\n", "invalid multibulk length"),
        ("*2147483648\r\n", "invalid multibulk length"),
        ("*99999999999999999999\r\n", "invalid multibulk length"),
        ("*1\r\n$a\r\n", "invalid bulk length"),
        ("*1\r\n$\r\n", "invalid bulk length"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$536870913\r\n", "invalid bulk length"),
        ("*1\r\n:1\r\n", "expected '$', got ':'"),
        ("*2\r\n$1\r\nx\r\nPING\r\n", "expected '$', got 'P'"),
        ("*1\r\n\r\n", "expected '$', got ' '"),
        ("*1\r\n\u{1}\r\n", "expected '$', got ' '"),
        ("\"\r\n", "unbalanced quotes in request"),
        ("a 'b\r\n", "unbalanced quotes in request"),
    ];
    for (input, expected) in table {
        assert_eq!(told(input.as_bytes()), [format!("-ERR Protocol error: {expected}")], "{input:?}");
        // Commands before the error count, what comes after it does not.
        let input = format!("*1\r\n$1\r\na\r\n{input}*1\r\n$1\r\nb\r\n");
        assert_eq!(told(input.as_bytes()), [r#"["a"]"#.to_owned(), format!("-ERR Protocol error: {expected}")]);
    }
}

#[test]
fn lines_without_end_are_errors_at_64_kib() {
    for (beginning, expected) in [
        ("*", "too big mbulk count string"),
        ("*1\r\n$", "too big bulk count string"),
        ("*1\r\n", "too big bulk count string"),
        ("", "too big inline request"),
    ] {
        let mark = beginning.rsplit('\n').next().map_or(0, str::len);
        let mut input = beginning.as_bytes().to_vec();
        input.resize(input.len() + INLINE_BYTES_MAX - mark, b'1');
        assert!(told(&input).is_empty(), "the longest line allowed");
        input.push(b'1');
        assert_eq!(told(&input), [format!("-ERR Protocol error: {expected}")]);
    }
    let mut longest = vec![b'a'; INLINE_BYTES_MAX];
    longest.push(b'\n');
    assert_eq!(told(&longest).len(), 1);
    longest.insert(0, b'a');
    assert_eq!(told(&longest), ["-ERR Protocol error: too big inline request"], "even with its end in sight");
}

#[test]
fn commands_over_a_limit_are_passed_over() {
    let table: [(&str, &[&str]); 5] = [
        (
            "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$11\r\n01234567890\r\n*1\r\n$1\r\nx\r\n",
            &[r#"too large: ["SET", "k"] then 11 over 10"#, r#"["x"]"#],
        ),
        // What follows the word that is too large is passed over too.
        (
            "*3\r\n$3\r\nSET\r\n$11\r\n01234567890\r\n$1\r\nk\r\n*1\r\n$1\r\nx\r\n",
            &[r#"too large: ["SET"] then 11 over 10"#, r#"["x"]"#],
        ),
        // Each word is short enough, all together are not.
        (
            "*3\r\n$10\r\n0123456789\r\n$10\r\n0123456789\r\n$6\r\n012345\r\n*1\r\n$1\r\nx\r\n",
            &[r#"too large: ["0123456789", "0123456789"] then 6 over 37"#, r#"["x"]"#],
        ),
        (
            "*3\r\n$10\r\n0123456789\r\n$10\r\n0123456789\r\n$5\r\n01234\r\n*1\r\n$1\r\nx\r\n",
            &[r#"["0123456789", "0123456789", "01234"]"#, r#"["x"]"#],
        ),
        // Errors count within what is passed over.
        ("*2\r\n$11\r\n01234567890\r\n!", &[]),
    ];
    for (input, expected) in table {
        assert_eq!(told(input.as_bytes()), expected, "{input:?}");
    }
    assert_eq!(told(b"*2\r\n$11\r\n01234567890\r\n!\r\n"), ["-ERR Protocol error: expected '$', got '!'"]);
}

#[test]
fn a_stranger_may_say_little() {
    let limits = RequestLimits { is_for_strangers: true, ..RequestLimits::default() };
    let said = |input: &str| {
        let whole = transcript(&mut RequestParser::new(limits), input.as_bytes(), input.len());
        assert_eq!(whole, transcript(&mut RequestParser::new(limits), input.as_bytes(), 1));
        whole
    };
    assert_eq!(said(&format!("*10\r\n{}", "$1\r\nx\r\n".repeat(10))).len(), 1);
    let too_many = format!("*11\r\n{}", "$1\r\nx\r\n".repeat(11));
    assert_eq!(said(&too_many), ["-ERR Protocol error: unauthenticated multibulk length"]);
    let word = |length: usize| format!("*1\r\n${length}\r\n{}\r\n", "x".repeat(length));
    assert!(said(&word(16 * 1024))[0].starts_with('['));
    assert_eq!(said(&word(16 * 1024 + 1)), ["-ERR Protocol error: unauthenticated bulk length"]);
    // A word that a command of this kind could not have costs nothing.
    let mut parser = RequestParser::new(limits);
    assert!(parser.next(&mut &b"*2\r\n$536870912\r\n"[..]).is_err());
    assert!(parser.held_bytes() < 1024);
}

#[test]
fn the_lengths_of_words_count() {
    // A command as it stands in an entry: four bytes for each word beside its own.
    let mut parser = RequestParser::new(RequestLimits { command_bytes_max: 40, ..limits() });
    assert_eq!(transcript(&mut parser, format!("*8\r\n{}", "$1\r\nx\r\n".repeat(8)).as_bytes(), 9999).len(), 1);
    let over = format!("*9\r\n{}", "$1\r\nx\r\n".repeat(9));
    for bytes_each in [1, 9999] {
        let mut parser = RequestParser::new(RequestLimits { command_bytes_max: 40, ..limits() });
        let told = transcript(&mut parser, over.as_bytes(), bytes_each);
        assert!(told[0].starts_with("too large") && told[0].ends_with("then 1 over 40"), "{told:?}");
    }
}

#[test]
fn the_hardest_limit_closes_and_the_lower_one_does_not() {
    let mut parser = RequestParser::new(RequestLimits {
        argument_bytes_max: usize::MAX,
        command_bytes_max: usize::MAX,
        is_for_strangers: false,
    });
    assert_eq!(parser.limits.argument_bytes_max, VALUE_BYTES_MAX);
    let mut input = &b"*1\r\n$536870912\r\n"[..];
    assert_eq!(parser.next(&mut input), Ok(None));
    assert!(parser.held_bytes() < 1024, "a claim costs nothing");
    assert_eq!(parser.next(&mut &b"x"[..]), Ok(None));
    assert!(parser.held_bytes() < 2 * TRUSTED_BYTES_MAX, "and is believed only so far");
    let mut input = &b"*1\r\n$536870913\r\n"[..];
    assert_eq!(RequestParser::default().next(&mut input), Err(ProtocolError::InvalidBulkLength));
}

#[test]
fn large_words_cost_what_their_bytes_cost() {
    let word: Vec<u8> = (0..3_000_000u32).map(|index| index as u8).collect();
    let mut input = Vec::new();
    crate::encode_command(&mut input, [b"SET", b"key", &word[..], b"XX"]);
    let mut parser = RequestParser::default();
    let mut commands = 0;
    for mut piece in input.chunks(1000) {
        while let Some(request) = parser.next(&mut piece).expect("it is well-formed") {
            let Request::Command(arguments) = request else { panic!("it is not too large") };
            assert_eq!(arguments.get(2), Some(&word[..]));
            commands += 1;
        }
        assert!(parser.held_bytes() <= word.len() + 100_000, "{} bytes held", parser.held_bytes());
    }
    assert_eq!(commands, 1);
    assert!(parser.is_idle());
    assert_eq!(parser.next(&mut &b"*1\r\n"[..]), Ok(None));
    assert!(parser.held_bytes() <= 2 * KEPT_BYTES_MAX, "a large command's memory is given back");
}

#[test]
fn many_words_in_small_pieces() {
    let words: Vec<Vec<u8>> = (0..50_000).map(|index| format!("{index}").into_bytes()).collect();
    let mut input = Vec::new();
    crate::encode_command(&mut input, &words);
    for bytes_each in [13, 64 * 1024, usize::MAX] {
        let mut parser = RequestParser::default();
        let mut commands = 0;
        for mut piece in input.chunks(bytes_each) {
            while let Some(Request::Command(arguments)) = parser.next(&mut piece).expect("it is well-formed") {
                assert!(arguments.iter().eq(words.iter().map(Vec::as_slice)));
                commands += 1;
            }
        }
        assert_eq!(commands, 1);
    }
}

#[test]
fn whole_commands_are_not_copied() {
    let input = b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n".repeat(3);
    let range = input.as_ptr_range();
    let mut parser = RequestParser::default();
    let mut rest = &input[..];
    while let Some(Request::Command(arguments)) = parser.next(&mut rest).expect("it is well-formed") {
        assert!(arguments.iter().all(|word| range.contains(&word.as_ptr())));
    }
    assert!(parser.is_idle());
    assert_eq!(parser.buffer.capacity(), 0);
}

#[test]
fn an_error_lasts() {
    let mut parser = RequestParser::default();
    let mut input = &b"*x\r\n*1\r\n$4\r\nPING\r\n"[..];
    for _ in 0..3 {
        assert_eq!(parser.next(&mut input), Err(ProtocolError::InvalidMultibulkLength));
    }
    assert_eq!(parser.next(&mut &b""[..]), Err(ProtocolError::InvalidMultibulkLength));
}

#[test]
fn error_replies_are_those_of_redis() {
    // As redis-server 7.0 answers.
    for (input, expected) in [
        (&b"*1\r\n:1\r\n"[..], &b"-ERR Protocol error: expected '$', got ':'\r\n"[..]),
        (b"*1\r\n\r\n", b"-ERR Protocol error: expected '$', got ' '\r\n"),
        (b"*1\r\n\x01\r\n", b"-ERR Protocol error: expected '$', got '\x01'\r\n"),
        (b"*1\r\n\xff\r\n", b"-ERR Protocol error: expected '$', got '\xff'\r\n"),
        (b"*1\r\n$-1\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
        (b"a \"b\r\n", b"-ERR Protocol error: unbalanced quotes in request\r\n"),
    ] {
        let mut out = Vec::new();
        let mut rest = input;
        RequestParser::default().next(&mut rest).expect_err("it is wrong").encode(&mut out);
        assert_eq!(out, expected);
    }
}

#[test]
fn a_command_has_as_many_words_as_its_bytes_let_it_have() {
    const WORDS: usize = 1_100_000;
    let mut input = format!("*{WORDS}\r\n").into_bytes();
    (0..WORDS).for_each(|_| input.extend_from_slice(b"$1\r\nx\r\n"));
    let words_in_pieces = |limits: RequestLimits, pieces: usize| {
        let mut parser = RequestParser::new(limits);
        let mut found = None;
        for mut piece in input.chunks(pieces) {
            match parser.next(&mut piece) {
                Ok(Some(Request::Command(arguments))) => found = Some(Ok(arguments.len())),
                Ok(Some(Request::TooLarge { bytes_max, .. })) => found = Some(Err(bytes_max)),
                Ok(None) => {}
                Err(error) => panic!("{error}"),
            }
        }
        found
    };
    for pieces in [input.len(), 65_536] {
        assert_eq!(words_in_pieces(RequestLimits::default(), pieces), Some(Ok(WORDS)));
        // Beyond the first 1,048,576 each takes 64 bytes of what a command may have.
        let command_bytes_max = WORDS + 4 * ARGUMENTS_PLAIN_MAX + (WORDS - ARGUMENTS_PLAIN_MAX) * WORD_BYTES;
        let limits = RequestLimits { command_bytes_max, ..RequestLimits::default() };
        assert_eq!(words_in_pieces(limits, pieces), Some(Ok(WORDS)));
        let limits = RequestLimits { command_bytes_max: command_bytes_max - 1, ..limits };
        assert_eq!(words_in_pieces(limits, pieces), Some(Err(command_bytes_max - 1)));
    }
}
