use super::*;
use base::Rng;

fn told(elements: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut bytes = empty();
    for element in elements {
        tell(&mut bytes, place_of(&element.to_le_bytes())).expect("sound");
    }
    bytes
}

fn registers_of(bytes: &[u8]) -> Registers {
    let mut registers = [0; REGISTERS];
    raise(&mut registers, bytes).expect("sound");
    registers
}

#[test]
fn it_is_the_hash_of_redis() {
    // What a Redis 7.0 has for these after PFADD: PFDEBUG DECODE.
    assert_eq!(place_of(b"a"), (12711, 2));
    assert_eq!(place_of(b""), (5938, 2));
}

#[test]
fn registers_are_kept_in_both_encodings() {
    let mut rng = Rng::new(7);
    for _ in 0..20 {
        let mut bytes = empty();
        let mut model = [0u8; REGISTERS];
        for round in 0..4000 {
            let register =
                if rng.chance(1, 2) { rng.below(200) as usize } else { rng.below(REGISTERS as u64) as usize };
            let number = 1 + rng.below(if round > 3000 { 51 } else { 4 }) as u8;
            let would = would_change(&bytes, (register, number));
            assert_eq!(would, model[register] < number);
            assert_eq!(tell(&mut bytes, (register, number)), Ok(would));
            model[register] = model[register].max(number);
            if round % 97 == 0 {
                assert_eq!(registers_of(&bytes), model);
                assert!(is_one(&bytes) && check(&bytes).is_ok());
                assert!(is_dense(&bytes) || bytes.len() <= SPARSE_BYTES_MAX);
                assert_eq!(count(&bytes), Ok(count_registers(&model)));
            }
        }
        assert!(is_dense(&bytes));
        assert_eq!(bytes.len(), DENSE_BYTES);
        assert_eq!(registers_of(&bytes), model);
    }
}

#[test]
fn telling_all_is_telling_one_after_the_other() {
    let mut rng = Rng::new(8);
    for round in 0..40 {
        let share = 1 + round * 7;
        let registers: Registers = std::array::from_fn(|_| {
            let most = if rng.chance(1, 500) { 40 } else { 3 };
            if rng.below(share) == 0 { 1 + rng.below(most) as u8 } else { 0 }
        });
        let before = told((0..rng.below(300)).map(|number| number * 31));
        let (mut at_once, mut single) = (before.clone(), before);
        tell_all(&mut at_once, &registers).expect("sound");
        for (register, &number) in registers.iter().enumerate().filter(|(_, number)| **number > 0) {
            tell(&mut single, (register, number)).expect("sound");
        }
        assert_eq!(at_once, single, "round {round}");
    }
}

#[test]
fn estimates_are_near() {
    for elements in [0u64, 1, 2, 10, 100, 1_000, 10_000, 100_000] {
        let bytes = told(0..elements);
        let count = count(&bytes).expect("sound");
        // Six times the standard error of 1.04 by the root of the registers.
        let error = (elements as f64 * 6.0 * 1.04 / 128.0).ceil() as u64;
        assert!(count.abs_diff(elements) <= error, "{elements}: {count}");
        assert!(elements > 10 || count == elements, "{elements}: {count}");
    }
}

#[test]
fn the_cached_count_has_its_mark() {
    let mut bytes = empty();
    assert_eq!(cached(&bytes), Some(0));
    mark_stale(&mut bytes);
    assert_eq!(cached(&bytes), None);
    assert_eq!(cached(b"HYLL"), None);
}

#[test]
fn damaged_ones_are_noticed() {
    let sound = told(0..200);
    assert!(check(&sound).is_ok());
    // Any bytes behind the head: none is misread, and what is sound stays so.
    let mut rng = Rng::new(9);
    for _ in 0..20_000 {
        let mut bytes = sound.clone();
        for _ in 0..=rng.below(3) {
            let at = rng.below(bytes.len() as u64) as usize;
            match rng.below(3) {
                0 => bytes[at] = rng.next_u64() as u8,
                1 => bytes.truncate(at.max(HEAD_BYTES)),
                _ => bytes.insert(at, rng.next_u64() as u8),
            }
        }
        if !is_one(&bytes) {
            continue;
        }
        let is_sound = check(&bytes).is_ok();
        assert_eq!(count(&bytes).is_ok(), is_sound);
        assert_eq!(raise(&mut [0; REGISTERS], &bytes).is_ok(), is_sound);
        let place = (rng.below(REGISTERS as u64) as usize, 1 + rng.below(51) as u8);
        let mut after = bytes.clone();
        match tell(&mut after, place) {
            Ok(_) if is_sound => assert!(check(&after).is_ok()),
            Ok(_) => {}
            Err(Corrupt) => assert!(!is_sound && after == bytes, "refused, and changed"),
        }
        assert_eq!(make_dense(&mut bytes).is_ok(), is_sound);
    }
}
