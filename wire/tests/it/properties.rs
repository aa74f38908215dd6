//! Promises that hold for all inputs of a form: how input is cut does not matter, and what is written reads back.

use proptest::collection::vec;
use proptest::prelude::*;

use wire::{
    Arguments, ArgumentsRef, FrameReader, FrameWriter, Hello, Protocol, ReplyParser, Request, RequestLimits,
    RequestParser, Value, encode_command, quote, split_frames, split_line,
};

/// Cuts `input` at the given places, wherever those are.
fn cut<'a>(input: &'a [u8], places: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = places.iter().map(|place| place.index(input.len() + 1)).collect();
    places.sort_unstable();
    let mut pieces = Vec::new();
    let mut last = 0;
    for place in places {
        pieces.push(&input[last..place]);
        last = place;
    }
    pieces.push(&input[last..]);
    pieces
}

fn parse(pieces: &[&[u8]], limits: RequestLimits) -> Vec<Result<Arguments, String>> {
    let mut parser = RequestParser::new(limits);
    let mut found = Vec::new();
    for piece in pieces {
        let mut input = *piece;
        loop {
            match parser.next(&mut input) {
                Ok(Some(Request::Command(arguments))) => found.push(Ok(arguments.to_owned())),
                Ok(Some(too_large)) => found.push(Err(format!("{too_large:?}"))),
                Ok(None) => break,
                Err(error) => {
                    found.push(Err(error.to_string()));
                    return found;
                }
            }
        }
    }
    found
}

fn word() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(any::<u8>(), 0..20), vec(prop::sample::select(&b"\r\n$*1 \"'\\x\0"[..]), 0..8)]
}

fn command() -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec(word(), 1..6)
}

/// A command as a client may send it: as an array, or as a line of quoted words.
fn send(out: &mut Vec<u8>, words: &[Vec<u8>], inline: bool) {
    if inline {
        let quoted: Vec<String> = words.iter().map(|word| quote(word)).collect();
        out.extend_from_slice(quoted.join(" ").as_bytes());
        out.extend_from_slice(b"\r\n");
    } else {
        encode_command(out, words);
    }
}

fn value() -> impl Strategy<Value = Value> {
    let text = "[ -~]{0,12}";
    let leaf = prop_oneof![
        text.prop_map(Value::Simple),
        text.prop_map(Value::Error),
        any::<i64>().prop_map(Value::Integer),
        vec(any::<u8>(), 0..20).prop_map(Value::Bulk),
        Just(Value::Null),
        any::<bool>().prop_map(Value::Boolean),
        prop::num::f64::NORMAL.prop_map(Value::Double),
        "-?[0-9]{1,30}".prop_map(Value::BigNumber),
        vec(any::<u8>(), 0..20).prop_map(|text| Value::Verbatim { format: *b"txt", text }),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let pairs = vec((inner.clone(), inner.clone()), 0..4);
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::Array),
            vec(inner.clone(), 0..5).prop_map(Value::Set),
            vec(inner.clone(), 0..5).prop_map(Value::Push),
            pairs.clone().prop_map(Value::Map),
            (pairs, inner).prop_map(|(attributes, value)| Value::Attributed { attributes, value: Box::new(value) }),
        ]
    })
}

proptest! {
    #[test]
    fn commands_read_as_they_were_sent(
        commands in vec((command(), any::<bool>()), 0..8),
        places in vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let mut input = Vec::new();
        commands.iter().for_each(|(words, inline)| send(&mut input, words, *inline));
        let expected: Vec<_> = commands.iter().map(|(words, _)| Ok(Arguments::from_words(words))).collect();
        prop_assert_eq!(&parse(&[&input], RequestLimits::default()), &expected);
        prop_assert_eq!(&parse(&cut(&input, &places), RequestLimits::default()), &expected);
    }

    #[test]
    fn what_is_too_large_harms_nothing_else(
        commands in vec(command(), 0..12),
        places in vec(any::<prop::sample::Index>(), 0..12),
        argument_bytes_max in 0usize..12,
        command_bytes_max in 0usize..80,
    ) {
        let limits = RequestLimits { argument_bytes_max, command_bytes_max, is_for_strangers: false };
        let mut input = Vec::new();
        commands.iter().for_each(|words| encode_command(&mut input, words));
        let found = parse(&cut(&input, &places), limits);
        prop_assert_eq!(&parse(&[&input], limits), &found);
        prop_assert_eq!(found.len(), commands.len());
        for (words, found) in commands.iter().zip(found) {
            let total: usize = words.iter().map(|word| word.len() + 4).sum();
            let fits = total <= command_bytes_max && words.iter().all(|word| word.len() <= argument_bytes_max);
            prop_assert_eq!(found.is_ok(), fits);
            prop_assert!(!fits || found == Ok(Arguments::from_words(words)));
        }
    }

    #[test]
    fn encodings_of_commands_read_back(words in command(), behind in vec(any::<u8>(), 0..5)) {
        let arguments = Arguments::from_words(&words);
        let mut bytes = arguments.encoding().to_vec();
        bytes.extend_from_slice(&behind);
        let (read, rest) = ArgumentsRef::decode_prefix(&bytes).expect("it is whole");
        prop_assert_eq!(read, arguments.as_ref());
        prop_assert_eq!(rest, &behind[..]);
        prop_assert!(read.iter().eq(words.iter().map(Vec::as_slice)));
        prop_assert!((0..words.len()).all(|index| read.get(index) == Some(&words[index][..])));
    }

    #[test]
    fn quoted_words_split_into_themselves(words in command()) {
        let line: Vec<String> = words.iter().map(|word| quote(word)).collect();
        prop_assert_eq!(split_line(line.join(" \t").as_bytes()), Ok(words));
    }

    #[test]
    fn replies_read_as_they_were_written(
        values in vec(value(), 0..4),
        places in vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let mut out = Vec::new();
        values.iter().for_each(|value| value.encode(&mut out, Protocol::Resp3));
        let mut parser = ReplyParser::default();
        let mut found = Vec::new();
        for piece in cut(&out, &places) {
            parser.push(piece);
            while let Some(value) = parser.next().expect("it is well-formed") {
                found.push(value);
            }
        }
        prop_assert!(parser.is_idle());
        prop_assert_eq!(found, values);
    }

    #[test]
    fn frames_read_as_they_were_written(
        payloads in vec(vec(any::<u8>(), 1..100), 0..6),
        places in vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let mut out = Vec::new();
        for payload in &payloads {
            FrameWriter::append(&mut out, |buffer| buffer.extend_from_slice(payload)).expect("it is small");
        }
        prop_assert!(split_frames(&out).eq(payloads.iter().map(|payload| Ok(&payload[..]))));
        let mut reader = FrameReader::new();
        let mut found = Vec::new();
        for piece in cut(&out, &places) {
            reader.push(piece);
            while let Some(payload) = reader.next().expect("it is well-formed") {
                found.push(payload.to_vec());
            }
        }
        prop_assert_eq!(reader.buffered_bytes(), 0);
        prop_assert_eq!(found, payloads);
    }

    #[test]
    fn greetings_read_as_they_were_written(
        cluster in any::<u64>(), node in "\\PC{0,40}", id in any::<u16>(), incarnation in any::<u64>(),
        needs in any::<u16>(),
    ) {
        let (version, speaks) = (wire::PEER_PROTOCOL_VERSION, base::versions::Versions::ALL);
        let address = node.clone();
        let hello = Hello { version, speaks, needs, cluster, address, node, id: base::NodeId(id), incarnation };
        for hello in [hello.in_version(base::versions::OLDEST), hello] {
            let mut payload = Vec::new();
            hello.encode(&mut payload);
            prop_assert_eq!(Hello::decode(&payload), Ok(hello));
        }
    }

    #[test]
    fn garbage_breaks_no_promise(data in vec(any::<u8>(), 0..300)) {
        wire::fuzzing::fuzz_request(&data);
        wire::fuzzing::fuzz_reply(&data);
        wire::fuzzing::fuzz_frame(&data);
    }
}
