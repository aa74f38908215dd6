use super::*;

#[test]
fn both_forms_read_alike() {
    let bytes = b"xxSETxxkeyxx";
    let spans = [Span { start: 2, length: 3 }, Span { start: 7, length: 3 }, Span { start: 12, length: 0 }];
    let borrowed = ArgumentsRef::from_spans(bytes, &spans);
    let owned = borrowed.to_owned();
    assert_eq!(owned.as_ref(), borrowed);
    assert_eq!(owned, Arguments::from_words(["SET", "key", ""]));
    for form in [borrowed, owned.as_ref()] {
        assert_eq!(form.len(), 3);
        assert_eq!(form.get(0), Some(&b"SET"[..]));
        assert_eq!(form.get(1), Some(&b"key"[..]));
        assert_eq!(form.get(2), Some(&b""[..]));
        assert_eq!(form.get(3), None);
        assert_eq!(form.iter().len(), 3);
        assert_eq!(form.payload_bytes(), 6);
        assert_eq!(form.encoded_bytes(), owned.encoding().len());
        assert_eq!(format!("{form:?}"), r#"["SET", "key", ""]"#);
        let mut out = Vec::new();
        form.encode_into(&mut out);
        assert_eq!(out, owned.encoding()[..]);
    }
    assert_eq!(&owned.encoding()[..], b"\x03\0\0\0\x03\0\0\0SET\x03\0\0\0key\0\0\0\0");
}

#[test]
fn damaged_encodings_are_refused() {
    let encoding = Arguments::from_words(["GET", "some key"]).encoding().clone();
    for length in 0..encoding.len() {
        assert_eq!(ArgumentsRef::decode(&encoding[..length]).err(), Some(Malformed), "cut to {length}");
    }
    let mut longer = encoding.to_vec();
    longer.push(7);
    assert_eq!(ArgumentsRef::decode(&longer).err(), Some(Malformed));
    let (arguments, rest) = ArgumentsRef::decode_prefix(&longer).expect("the prefix is whole");
    assert_eq!((arguments.len(), rest), (2, &[7u8][..]));
    assert_eq!(Arguments::decode(Bytes::from(longer)).err(), Some(Malformed));
    assert_eq!(ArgumentsRef::decode(&u32::MAX.to_le_bytes()).err(), Some(Malformed));
    let mut many = 1_100_000u32.to_le_bytes().to_vec();
    many.resize(4 + 4 * 1_100_000, 0);
    assert_eq!(ArgumentsRef::decode(&many).map(ArgumentsRef::len), Ok(1_100_000));
    many[..4].copy_from_slice(&(ARGUMENTS_MAX as u32 + 1).to_le_bytes());
    assert_eq!(ArgumentsRef::decode(&many).err(), Some(Malformed), "more than any command may have");
}
