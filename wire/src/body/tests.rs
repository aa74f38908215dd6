use super::*;

#[test]
fn fields_read_as_they_were_written() {
    let partition = PartitionId { bucket: BucketId(70_000), index: 9 };
    let ballot = Ballot { round: 300, node: NodeId(2) };
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer.u8(1);
    writer.u16(0x0203);
    writer.u32(0x0405_0607);
    writer.u64(u64::MAX);
    writer.bool(true);
    writer.bytes(b"bytes");
    writer.bytes("text".as_bytes());
    writer.raw(b"raw");
    writer.option(Some(7), Writer::u16);
    writer.option(None, Writer::u16);
    writer.count(2);
    writer.raw(b"xy");
    writer.node(NodeId(5));
    writer.partition(partition);
    writer.ballot(ballot);
    writer.position(Position(u64::MAX));
    writer.revision(Revision(128));

    let message = Bytes::from(out);
    let mut reader = Reader::new(&message);
    assert_eq!(reader.u8(), Ok(1));
    assert_eq!(reader.u16(), Ok(0x0203));
    assert_eq!(reader.u32(), Ok(0x0405_0607));
    assert_eq!(reader.u64(), Ok(u64::MAX));
    assert_eq!(reader.bool(), Ok(true));
    let bytes = reader.bytes().expect("five bytes");
    assert_eq!(bytes, "bytes");
    assert!(message.as_ptr_range().contains(&bytes.as_ptr()), "nothing is copied");
    assert_eq!(reader.text(), Ok("text"));
    assert_eq!(reader.raw(3), Ok(&b"raw"[..]));
    assert_eq!(reader.option(Reader::u16), Ok(Some(7)));
    assert_eq!(reader.option(Reader::u16), Ok(None));
    assert_eq!(reader.count(1), Ok(2));
    assert_eq!(reader.raw(2), Ok(&b"xy"[..]));
    assert_eq!(reader.node(), Ok(NodeId(5)));
    assert_eq!(reader.partition(), Ok(partition));
    assert_eq!(reader.ballot(), Ok(ballot));
    assert_eq!(reader.position(), Ok(Position(u64::MAX)));
    assert_eq!(reader.clone().finish(), Err(Malformed), "a field is left");
    assert_eq!(reader.revision(), Ok(Revision(128)));
    assert_eq!(reader.u8(), Err(Malformed));
    assert_eq!(reader.finish(), Ok(()));
}

#[test]
fn integers_of_variable_length() {
    for (value, expected) in [
        (0, &[0][..]),
        (127, &[127]),
        (128, &[0x80, 1]),
        (16_384, &[0x80, 0x80, 1]),
        (u64::MAX, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
    ] {
        let mut out = Vec::new();
        Writer::new(&mut out).varint(value);
        assert_eq!(out, expected);
        assert_eq!(Reader::from_slice(&out).varint(), Ok(value));
        assert_eq!(Reader::from_slice(&out[..out.len() - 1]).varint(), Err(Malformed), "cut");
    }
    for value in [0, 1, -1, 63, -64, i64::MAX, i64::MIN] {
        let mut out = Vec::new();
        Writer::new(&mut out).signed(value);
        assert_eq!(Reader::from_slice(&out).signed(), Ok(value));
        assert!(out.len() == 1 || value.unsigned_abs() > 64);
    }
    for wrong in [&[0x80, 0][..], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], &[0x80; 11]] {
        assert_eq!(Reader::from_slice(wrong).varint(), Err(Malformed), "{wrong:?}");
    }
}

#[test]
fn claims_are_checked_against_what_is_there() {
    assert_eq!(Reader::from_slice(&[3, 1, 2]).slice(), Err(Malformed));
    assert_eq!(Reader::from_slice(&[3, 0, 0, 0, 0, 0]).count(2), Err(Malformed));
    assert_eq!(Reader::from_slice(&[2, 0, 0, 0, 0]).count(2), Ok(2));
    assert_eq!(Reader::from_slice(&[1]).count(0), Err(Malformed));
    assert_eq!(Reader::from_slice(&[2]).bool(), Err(Malformed));
    assert_eq!(Reader::from_slice(&[1, 0xff]).text(), Err(Malformed));
}
