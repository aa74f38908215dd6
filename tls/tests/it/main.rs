//! Handshakes over pipes in memory: who is let in, who is not, and what strangers can do.

mod pipe;
mod strangers;

use std::io::ErrorKind;

use pipe::{End, pipe};
use tls::{ClusterSecret, Handshake, NodeKey, PeerTls, Progress, Session};

/// A node of the cluster with this secret.
pub fn node(secret: &ClusterSecret) -> PeerTls {
    PeerTls::new(&NodeKey::generate().expect("a key"), secret.clone()).expect("it is a key")
}

/// A new secret.
pub fn secret() -> ClusterSecret {
    ClusterSecret::generate().expect("a secret")
}

/// How a handshake came out.
pub type Outcome = Result<(Session, tls::KeyHash), String>;

/// Lets both go on until each has come to an end, or nothing moves any more.
pub fn meet(calls: Handshake, answers: Handshake, ends: &mut [End; 2]) -> [Option<Outcome>; 2] {
    let mut under_way = [Some(calls), Some(answers)];
    let mut outcomes = [None, None];
    for _ in 0..100_000 {
        for place in 0..2 {
            let Some(handshake) = under_way[place].take() else { continue };
            match handshake.advance(&mut ends[place]) {
                Ok(Progress::Waits(handshake)) => under_way[place] = Some(handshake),
                Ok(Progress::Done(session, key)) => outcomes[place] = Some(Ok((session, key))),
                Err(failure) => {
                    outcomes[place] = Some(Err(failure.reason));
                    ends[place].close();
                }
            }
        }
        if under_way.iter().all(Option::is_none) {
            break;
        }
    }
    outcomes
}

#[test]
fn two_of_a_cluster_know_each_other_and_what_they_say_arrives() {
    let secret = secret();
    for room in [1, 7, 1000, usize::MAX] {
        let (first, second) = (node(&secret), node(&secret));
        let mut ends = pipe(room);
        let [calls, answers] = meet(first.call().expect("begun"), second.answer().expect("begun"), &mut ends);
        let (mut caller, of_called) = calls.expect("an end").expect("known");
        let (mut called, of_caller) = answers.expect("an end").expect("known");
        assert_eq!((of_called, of_caller), (second.hash(), first.hash()));

        // More than fits anywhere, in both directions at once.
        let said: Vec<u8> = (0..300_000u32).map(|number| (number % 251) as u8).collect();
        let (mut written, mut heard) = ([0, 0], [Vec::new(), Vec::new()]);
        let mut buffer = vec![0; 5000];
        while heard.iter().any(|heard| heard.len() < said.len()) {
            for (place, session) in [&mut caller, &mut called].into_iter().enumerate() {
                match session.write(&mut ends[place], &said[written[place]..]) {
                    Ok(count) => written[place] += count,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
                match session.flush(&mut ends[place]) {
                    Ok(()) => {}
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
                match session.read(&mut ends[place], &mut buffer) {
                    Ok(count) => heard[place].extend_from_slice(&buffer[..count]),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
            }
        }
        assert!(heard.iter().all(|heard| *heard == said));
    }
}

#[test]
fn a_session_that_is_changed_or_cut_off_on_its_way_is_over() {
    let secret = secret();
    for is_cut in [false, true] {
        let mut ends = pipe(usize::MAX);
        let (first, second) = (node(&secret), node(&secret));
        let [calls, answers] = meet(first.call().expect("begun"), second.answer().expect("begun"), &mut ends);
        let (mut caller, _) = calls.expect("an end").expect("known");
        let (mut called, _) = answers.expect("an end").expect("known");
        caller.write(&mut ends[0], b"a decided entry").expect("room");
        if is_cut {
            ends[0].close();
        } else {
            ends[0].sent(|bytes| *bytes.back_mut().expect("it was sent") ^= 1);
        }
        let mut buffer = [0; 100];
        let read = called.read(&mut ends[1], &mut buffer);
        if is_cut {
            assert_eq!(read.expect("what came whole is read"), 15);
            let error = called.read(&mut ends[1], &mut buffer).expect_err("nobody has ended it in order");
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        } else {
            assert_eq!(read.expect_err("it was changed").kind(), ErrorKind::InvalidData);
        }
    }
}
