//! Those who are of no cluster, or of another one.

use std::io::{Read, Write};

use tls::{HANDSHAKE_BYTES_MAX, Handshake, Progress};

use crate::pipe::{End, pipe};
use crate::{meet, node, secret};

/// The node's verdict on a caller that sends this and then nothing more. None if it waits.
fn refusal(answers: Handshake, ends: &mut [End; 2], bytes: &[u8]) -> Option<String> {
    let mut handshake = answers;
    let mut rest = bytes;
    loop {
        while !rest.is_empty() {
            let Ok(count) = ends[0].write(rest) else { break };
            rest = &rest[count..];
        }
        let is_last = rest.is_empty();
        match handshake.advance(&mut ends[1]) {
            Ok(Progress::Waits(_)) if is_last => return None,
            Ok(Progress::Waits(waits)) => handshake = waits,
            Ok(Progress::Done(..)) => panic!("a stranger was let in"),
            Err(failure) => return Some(failure.reason),
        }
        // It reads what it is told, or the node could not go on.
        let _ = ends[0].read(&mut [0; 100_000]);
    }
}

#[test]
fn another_secret_is_refused_on_both_sides() {
    let (first, second) = (node(&secret()), node(&secret()));
    let mut ends = pipe(usize::MAX);
    let [calls, answers] = meet(first.call().expect("begun"), second.answer().expect("begun"), &mut ends);
    let said = answers.expect("an end").expect_err("a stranger");
    assert!(said.contains("does not know this cluster's secret"), "{said}");
    let said = calls.expect("an end").expect_err("it was refused");
    assert!(said.contains("another secret"), "{said}");
}

#[test]
fn those_who_do_not_speak_tls_are_told_apart() {
    let node = node(&secret());
    for bytes in [&b"\0\0\0\x11DICP and so on, a frame"[..], b"GET / HTTP/1.1\r\n\r\n", b"*1\r\n$4\r\nPING\r\n"] {
        let said = refusal(node.answer().expect("begun"), &mut pipe(usize::MAX), bytes).expect("it is refused");
        assert!(said.contains("does not speak TLS"), "{said}");
    }
    // The other way round: a node that knows no TLS closes the connection.
    let mut ends = pipe(usize::MAX);
    ends[1].close();
    let failure = node.call().expect("begun").advance(&mut ends[0]).expect_err("nobody is there");
    assert!(failure.is_silent && failure.reason.contains("--cluster-secret"), "{failure:?}");
}

#[test]
fn a_handshake_without_end_is_ended() {
    let node = node(&secret());
    // A message of a handshake in the smallest records that there are: it would be 64 KiB long, and takes six times as many bytes.
    let mut bytes = vec![0x16, 3, 1, 0, 4, 1, 0, 0xff, 0xff];
    for _ in 0..0xffff {
        bytes.extend([0x16, 3, 3, 0, 1, 0]);
    }
    assert!(bytes.len() > 2 * HANDSHAKE_BYTES_MAX);
    let said = refusal(node.answer().expect("begun"), &mut pipe(usize::MAX), &bytes).expect("it is refused");
    assert!(said.contains("too long") || said.contains("buffer full"), "{said}");
}

/// Somebody in the middle, with keys of his own on both sides, passes the proofs on.
#[test]
fn nobody_in_the_middle_can_pass_a_proof_on() {
    let shared = secret();
    let (caller, called, middle) = (node(&shared), node(&shared), node(&secret()));
    let (mut near, mut far) = (pipe(usize::MAX), pipe(usize::MAX));
    let [mut ends_near, mut ends_far] = [[None, None], [None, None]];
    // The middle negotiates with both. It has no proof of its own, and its own are worth nothing.
    for (outcomes, ends, calls, answers) in [
        (&mut ends_near, &mut near, caller.call(), middle.answer()),
        (&mut ends_far, &mut far, middle.call(), called.answer()),
    ] {
        *outcomes =
            meet(calls.expect("begun"), answers.expect("begun"), ends).map(|outcome| outcome.map(|it| it.is_ok()));
    }
    assert_eq!((ends_near[0], ends_far[1]), (Some(false), Some(false)), "neither believes the middle");
}

/// Each bit of what a caller sends counts: changed anywhere, nobody is let in, nothing panics, and nobody waits who should know better for ever.
#[test]
fn no_changed_handshake_lets_anybody_in() {
    let shared = secret();
    let (caller, called) = (node(&shared), node(&shared));
    let mut rng = 0x2026_1128_u64;
    let mut draw = |below: usize| {
        rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (rng >> 33) as usize % below
    };
    for round in 0..400 {
        let mut ends = pipe(usize::MAX);
        let mut calls = Some(caller.call().expect("begun"));
        let mut answers = Some(called.answer().expect("begun"));
        let changed_flight = round % 2;
        let (mut flight, mut changed_at, mut is_in) = (0, 0, [false; 2]);
        for _ in 0..20 {
            if let Some(handshake) = calls.take() {
                match handshake.advance(&mut ends[0]) {
                    Ok(Progress::Waits(waits)) => calls = Some(waits),
                    Ok(Progress::Done(..)) => is_in[0] = true,
                    Err(_) => ends[0].close(),
                }
            }
            let mut count = 0;
            ends[0].sent(|bytes| {
                count = bytes.len();
                if count > 0 && flight == changed_flight {
                    changed_at = draw(count);
                    bytes[changed_at] ^= 1 << draw(8);
                }
            });
            flight += usize::from(count > 0);
            if let Some(handshake) = answers.take() {
                match handshake.advance(&mut ends[1]) {
                    Ok(Progress::Waits(waits)) => answers = Some(waits),
                    Ok(Progress::Done(..)) => is_in[1] = true,
                    Err(_) => ends[1].close(),
                }
            }
        }
        assert!(flight > changed_flight, "round {round}");
        // TLS has two fields that nobody looks at: the version of the first record, and all of the record that only middle boxes read.
        let says_nothing = changed_at < 3 || (changed_flight == 1 && changed_at < 6);
        let expected = [says_nothing && is_in[0]; 2];
        assert_eq!(is_in, expected, "round {round}, byte {changed_at} of flight {changed_flight}");
    }
}
