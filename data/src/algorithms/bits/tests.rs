use super::*;
use base::Rng;

fn random_bytes(rng: &mut Rng, most: u64) -> Vec<u8> {
    // Mostly dull bytes, so that searches have to go far.
    (0..rng.below(most + 1)).map(|_| *rng.pick(&[0, 0, 0, 0xff, 0xff, 0xff, 0x10, 0xfe, 0x5a])).collect()
}

#[test]
fn single_bits() {
    let mut bytes = vec![0; 2];
    set_bit(&mut bytes, 7, true);
    set_bit(&mut bytes, 8, true);
    assert_eq!(bytes, [1, 0x80]);
    assert!(bit(&bytes, 7) && bit(&bytes, 8) && !bit(&bytes, 9));
    assert!(!bit(&bytes, 16) && !bit(&bytes, u64::MAX), "beyond the end");
    set_bit(&mut bytes, 7, false);
    assert_eq!(bytes, [0, 0x80]);
}

#[test]
fn counting_and_searching_agree_with_looking_at_each_bit() {
    let mut rng = Rng::new(5);
    for _ in 0..3000 {
        let bytes = random_bytes(&mut rng, 40);
        if bytes.is_empty() {
            continue;
        }
        let last = rng.below(bytes.len() as u64 * 8);
        let first = rng.below(last + 1);
        let expected = (first..=last).filter(|&offset| bit(&bytes, offset)).count() as u64;
        assert_eq!(count(&bytes, first, last), expected, "{bytes:?} {first}..={last}");
        for value in [false, true] {
            let expected = (first..=last).find(|&offset| bit(&bytes, offset) == value);
            assert_eq!(position(&bytes, value, first, last), expected, "{value} in {bytes:?} {first}..={last}");
        }
    }
}

#[test]
fn ranges_count_from_either_end() {
    assert_eq!(resolve_range(0, -1, 6), Some((0, 5)));
    assert_eq!(resolve_range(-2, 100, 6), Some((4, 5)));
    assert_eq!(resolve_range(-100, -100, 6), Some((0, 0)));
    assert_eq!(resolve_range(3, 2, 6), None);
    assert_eq!(resolve_range(6, 9, 6), None);
    assert_eq!(resolve_range(0, -1, 0), None);
    assert_eq!(resolve_range(i64::MIN, i64::MAX, u64::from(u32::MAX)), Some((0, u64::from(u32::MAX) - 1)));
}

#[test]
fn combinations_agree_with_their_definition_bit_by_bit() {
    let mut rng = Rng::new(9);
    for _ in 0..2000 {
        let owned: Vec<Vec<u8>> = (0..rng.between(1, 4)).map(|_| random_bytes(&mut rng, 12)).collect();
        let sources: Vec<&[u8]> = owned.iter().map(Vec::as_slice).collect();
        let length = sources.iter().map(|source| source.len()).max().unwrap();
        for operation in [And, Or, Xor, Not, Difference, DifferenceOfRest, AndOr, ExactlyOne] {
            let result = combine(operation, &sources);
            assert_eq!(result.len(), length);
            for offset in 0..length as u64 * 8 {
                let first = bit(sources[0], offset);
                let set = sources.iter().filter(|source| bit(source, offset)).count();
                let rest = set > usize::from(first);
                let expected = match operation {
                    And => set == sources.len(),
                    Or => set > 0,
                    Xor => set % 2 == 1,
                    Not => !first,
                    Difference => first && !rest,
                    DifferenceOfRest => !first && rest,
                    AndOr => first && rest,
                    ExactlyOne => set == 1,
                };
                assert_eq!(bit(&result, offset), expected, "{operation:?} of {sources:?} at {offset}");
            }
        }
    }
    assert!(combine(Or, &[]).is_empty());
}

#[test]
fn field_types_have_bounds() {
    assert_eq!(FieldType::named(b"i64"), Some(FieldType { signed: true, bits: 64 }));
    assert_eq!(FieldType::named(b"u63"), Some(FieldType { signed: false, bits: 63 }));
    for wrong in [&b"u64"[..], b"i65", b"u0", b"i", b"", b"u08", b"U8", b"u+8", b"u8 ", b"i4294967304"] {
        assert_eq!(FieldType::named(wrong), None, "{wrong:?}");
    }
}

#[test]
fn fields_read_back_and_leave_their_neighbours_alone() {
    let mut rng = Rng::new(3);
    for _ in 0..5000 {
        let signed = rng.chance(1, 2);
        let field = FieldType { signed, bits: rng.between(1, if signed { 64 } else { 63 }) as u32 };
        let offset = rng.below(100);
        let mut bytes: Vec<u8> = (0..24).map(|_| rng.next_u64() as u8).collect();
        let before = bytes.clone();
        let value = rng.next_u64() as i64;
        let value = field.add(value, 0, Overflow::Wrap).expect("wrapping always gives something");
        field.set(&mut bytes, offset, value);
        assert_eq!(field.get(&bytes, offset), value, "{field:?} at {offset}");
        let inside = offset..offset + u64::from(field.bits);
        assert!((0..24 * 8).all(|at| inside.contains(&at) || bit(&bytes, at) == bit(&before, at)));
    }
    let byte = FieldType { signed: true, bits: 8 };
    assert_eq!(byte.get(&[0xff], 4), -16, "what lies beyond the end is zero");
    assert_eq!(byte.get(&[0xff], u64::MAX - 64), 0);
}

#[test]
fn overflow_wraps_saturates_or_fails() {
    use Overflow::{Fail, Saturate, Wrap};
    let (u2, i8_, i64_) = (
        FieldType { signed: false, bits: 2 },
        FieldType { signed: true, bits: 8 },
        FieldType { signed: true, bits: 64 },
    );
    assert_eq!([u2.add(3, 1, Wrap), u2.add(3, 1, Saturate), u2.add(3, 1, Fail)], [Some(0), Some(3), None]);
    assert_eq!([u2.add(0, -1, Wrap), u2.add(0, -1, Saturate), u2.add(0, -1, Fail)], [Some(3), Some(0), None]);
    assert_eq!(u2.add(-1, 0, Saturate), Some(3), "a negative value of an unsigned field is a huge one");
    assert_eq!([i8_.add(127, 1, Wrap), i8_.add(127, 1, Saturate)], [Some(-128), Some(127)]);
    assert_eq!([i8_.add(-128, -1, Wrap), i8_.add(-128, -1, Saturate)], [Some(127), Some(-128)]);
    assert_eq!([i64_.add(i64::MAX, 1, Wrap), i64_.add(i64::MAX, 1, Saturate)], [Some(i64::MIN), Some(i64::MAX)]);
    assert_eq!(i64_.add(5, -7, Fail), Some(-2));
}
