use super::*;

fn framed(payloads: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for payload in payloads {
        FrameWriter::append(&mut out, |buffer| buffer.extend_from_slice(payload)).expect("it is small");
    }
    out
}

/// What a reader says of `input` in pieces of `bytes_each`.
fn read(input: &[u8], bytes_each: usize) -> (Vec<Bytes>, Option<FrameError>) {
    let mut reader = FrameReader::with_limit(1000);
    let mut found = Vec::new();
    for piece in input.chunks(bytes_each) {
        reader.push(piece);
        loop {
            match reader.next() {
                Ok(Some(payload)) => found.push(payload),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(reader.next(), Err(error), "an error lasts");
                    reader.push(b"more");
                    assert_eq!(reader.buffered_bytes(), 0);
                    return (found, Some(error));
                }
            }
        }
    }
    (found, None)
}

#[test]
fn a_frame_has_this_form() {
    assert_eq!(framed(&[b"123456789"]), b"\x09\0\0\0\x83\x92\x06\xe3123456789");
}

#[test]
fn frames_read_as_they_were_written() {
    let long = [7u8; 1000];
    let payloads: [&[u8]; 4] = [b"a", &long, b"\0\0\0\0\0\0\0\0\0", b"last"];
    let input = framed(&payloads);
    for bytes_each in [1, 2, 3, 7, 8, 9, 500, usize::MAX] {
        let (found, error) = read(&input, bytes_each);
        assert!(found.iter().eq(payloads.iter()) && error.is_none());
    }
    let mut frames = split_frames(&input[..input.len() - 1]);
    assert!(frames.by_ref().eq(payloads[..3].iter().map(|payload| Ok(*payload))));
    assert_eq!(frames.rest().len(), 8 + 3);
}

#[test]
fn damage_is_noticed_wherever_it_is() {
    let input = framed(&[b"first", b"second"]);
    for at in 0..input.len() {
        for bit in 0..8 {
            let mut damaged = input.clone();
            damaged[at] ^= 1 << bit;
            let (found, error) = read(&damaged, usize::MAX);
            // A longer length may wait for bytes that never come; nothing wrong is ever handed out.
            let expected: &[&[u8]] = if at < 13 { &[] } else { &[b"first"] };
            assert!(found.iter().eq(expected.iter()), "bit {bit} of byte {at}");
            let length_grew = matches!(at, 0..2 | 13..15) && error.is_none();
            assert!(error.is_some() || length_grew, "bit {bit} of byte {at}");
            assert_eq!(split_frames(&damaged).filter(Result::is_ok).count(), found.len());
        }
    }
}

#[test]
fn lengths_are_checked_before_the_payload_comes() {
    assert_eq!(read(b"\0\0\0\0", 1), (vec![], Some(FrameError::Empty)));
    let too_large = FrameError::TooLarge { bytes: 1001, bytes_max: 1000 };
    assert_eq!(read(&1001u32.to_le_bytes(), 1), (vec![], Some(too_large)));
    let mut reader = FrameReader::new();
    reader.push(&u32::MAX.to_le_bytes());
    let bytes_max = PEER_MESSAGE_BYTES_MAX;
    assert_eq!(reader.next(), Err(FrameError::TooLarge { bytes: u32::MAX as usize, bytes_max }));
}

#[test]
fn an_unfinished_frame_leaves_no_trace() {
    let mut out = b"before".to_vec();
    {
        let mut frame = FrameWriter::begin(&mut out);
        frame.payload().extend_from_slice(b"half");
        assert_eq!(frame.payload_bytes(), 4);
    }
    assert_eq!(out, b"before");
    assert_eq!(FrameWriter::begin(&mut out).finish(), Err(FrameError::Empty));
    assert_eq!(out, b"before");
}
