//! Payloads of `DUMP`: those of Redis, and what is damaged.

use super::*;

fn restored(payload: &[u8]) -> Result<Vec<u8>, Damage> {
    match restore(payload, &Meter::default())? {
        Dumped::String(text) => Ok(text),
        other => panic!("{other:?}"),
    }
}

fn footed(body: &[u8], version: u16) -> Vec<u8> {
    let mut payload = body.to_vec();
    payload.extend(version.to_le_bytes());
    payload.extend(crc64_redis(&payload).to_le_bytes());
    payload
}

#[test]
fn payloads_are_those_of_redis_7() {
    // Answers of redis-server 7.0.15 to `DUMP`.
    for (value, payload) in
        [(&b"10"[..], &b"\x00\xc0\n\n\x00n\x9fWE\x0e\xaec\xbb"[..]), (b"hello", b"\x00\x05hello\n\x00cr\xdfve4 \n")]
    {
        assert_eq!(dump_string(value), payload);
    }
}

#[test]
fn every_shape_comes_back() {
    let mut rng = base::Rng::new(8);
    let mut values: Vec<Vec<u8>> =
        [i64::MIN, -40_000, -32_769, -129, -1, 0, 127, 128, 32_767, 32_768, 1 << 31, i64::MAX]
            .map(|integer| integer.to_string().into_bytes())
            .to_vec();
    values.extend([&b""[..], b"-0", b"007", b"+5"].map(<[u8]>::to_vec));
    for length in [1, 20, 21, 63, 64, 100, 16_383, 16_384, 70_000] {
        values.push(vec![b'x'; length]);
        values.push((0..length).map(|_| rng.next_u64() as u8).collect());
    }
    for value in values {
        assert_eq!(restored(&dump_string(&value)), Ok(value));
    }
}

#[test]
fn damage_is_told_apart() {
    let good = dump_string(b"hello");
    for index in 0..good.len() {
        let mut bad = good.clone();
        bad[index] ^= 0x10;
        assert_eq!(restored(&bad), Err(Damage::VersionOrChecksum), "byte {index}");
    }
    assert_eq!(restored(&good[2..]), Err(Damage::VersionOrChecksum));
    assert_eq!(restored(&good[..9]), Err(Damage::VersionOrChecksum));
    assert_eq!(restored(b""), Err(Damage::VersionOrChecksum));
    assert_eq!(restored(&footed(b"\x00\x01a", VERSION_READ_MAX + 1)), Err(Damage::VersionOrChecksum));
    assert_eq!(restored(&footed(b"\x00\x01a", VERSION_READ_MAX)), Ok(b"a".to_vec()));
    for body in
        [&b""[..], b"\x00", b"\x01\x01a", b"\x00\x05hell", b"\x00\xc2\x01", b"\x00\xc4\x01", b"\x00\xc3\x00\x05"]
    {
        assert_eq!(restored(&footed(body, 10)), Err(Damage::Format), "{body:?}");
    }
    let huge = b"\x00\x81\xff\xff\xff\xff\xff\xff\xff\xffa";
    assert_eq!(restored(&footed(huge, 10)), Err(Damage::Format));
    let bomb = b"\x00\xc3\x05\x81\xff\xff\xff\xff\xff\xff\xff\xff\xe0\xff\x00\x00\x00";
    assert_eq!(restored(&footed(bomb, 10)), Err(Damage::Format));
}

#[test]
fn no_payload_panics() {
    let mut rng = base::Rng::new(1);
    for _ in 0..20_000 {
        let mut body: Vec<u8> = (0..rng.below(24)).map(|_| rng.next_u64() as u8).collect();
        if rng.chance(3, 4) && body.len() > 1 {
            body[0] = *rng.pick(&[
                TYPE_STRING,
                TYPE_HASH,
                TYPE_HASH_ZIPLIST,
                TYPE_HASH_LISTPACK,
                TYPE_SET,
                TYPE_SET_INTEGERS,
                TYPE_SET_LISTPACK,
                TYPE_SORTED_SET_TEXT,
                TYPE_SORTED_SET,
                TYPE_SORTED_SET_ZIPLIST,
                TYPE_SORTED_SET_LISTPACK,
            ]);
            body[1] = *rng.pick(&[0xc0, 0xc1, 0xc2, 0xc3, 0x80, 0x81, 0x40, 0x05]);
        }
        let _ = restore(&footed(&body, 10), &Meter::default());
    }
}

fn hash(fields: &[(&str, &str)]) -> Dumped {
    Dumped::Hash(fields.iter().map(|(field, value)| (Blob::from(*field), Blob::from(*value), None)).collect())
}

#[test]
fn hashes_come_back() {
    let mut rng = base::Rng::new(9);
    for len in [1, 2, 63, 64, 500] {
        let word = |rng: &mut base::Rng| {
            let length = rng.below(40);
            Blob::from((0..length).map(|_| b'a' + rng.below(3) as u8).collect::<Vec<u8>>())
        };
        let fields: Vec<(Blob, Blob)> =
            (0..len).map(|number| (Blob::from(format!("{number}")), word(&mut rng))).collect();
        let payload = dump_hash(len, fields.clone().into_iter());
        let read = fields.into_iter().map(|(field, value)| (field, value, None)).collect();
        assert_eq!(restore(&payload, &Meter::default()), Ok(Dumped::Hash(read)));
    }
}

#[test]
fn damaged_hashes_are_refused() {
    for body in [&b"\x04\x00"[..], b"\x04\x01\x01a", b"\x04\x02\x01a\x01b\x01a\x01c", b"\x10\x00", b"\x0d\x00"] {
        assert_eq!(restore(&footed(body, 10), &Meter::default()), Err(Damage::Format), "{body:?}");
    }
    assert_eq!(restore(&footed(b"\x04\x01\x01a\xc0\x05", 10), &Meter::default()), Ok(hash(&[("a", "5")])));
}

#[test]
fn sets_come_back() {
    let members: Vec<Blob> = (0..500).map(|number| Blob::from(format!("{}", number * 77_777_777_u64))).collect();
    let payload = dump_set(members.len() as u64, members.clone().into_iter());
    assert_eq!(restore(&payload, &Meter::default()), Ok(Dumped::Set(members)));
    let set = |members: &[&str]| Dumped::Set(members.iter().map(|member| Blob::from(*member)).collect());
    // As a Redis packs them.
    let packed = b"\x0b\x0c\x02\0\0\0\x02\0\0\0\x01\0\x02\0";
    assert_eq!(restore(&footed(packed, 10), &Meter::default()), Ok(set(&["1", "2"])));
    let packed = b"\x14\x0b\x0b\0\0\0\x01\0\x82ab\x03\xff";
    assert_eq!(restore(&footed(packed, 11), &Meter::default()), Ok(set(&["ab"])));
}

#[test]
fn damaged_sets_are_refused() {
    for body in [&b"\x02\x00"[..], b"\x02\x02\x01a", b"\x02\x02\x01a\x01a", b"\x0b\x00", b"\x14\x00"] {
        assert_eq!(restore(&footed(body, 10), &Meter::default()), Err(Damage::Format), "{body:?}");
    }
}

#[test]
fn sorted_sets_come_back() {
    let of = |members: &[(&str, f64)]| {
        Dumped::SortedSet(members.iter().map(|(member, score)| (Blob::from(*member), *score)).collect())
    };
    let members = [("a", -1.5), ("b", f64::INFINITY), ("c", 1e300)];
    let payload = dump_sorted(3, members.iter().map(|(member, score)| (Blob::from(*member), *score)));
    assert_eq!(restore(&payload, &Meter::default()), Ok(of(&members)));
    let older = b"\x03\x03\x01a\x03-.5\x01b\xfe\x01c\xff";
    let expected = of(&[("a", -0.5), ("b", f64::INFINITY), ("c", f64::NEG_INFINITY)]);
    assert_eq!(restore(&footed(older, 10), &Meter::default()), Ok(expected));
    let packed = b"\x11\x0f\x0f\0\0\0\x02\0\x81a\x02\x831.5\x04\xff";
    assert_eq!(restore(&footed(packed, 10), &Meter::default()), Ok(of(&[("a", 1.5)])));
    for length in 1..payload.len() - 10 {
        let cut = restore(&footed(&payload[..length], 10), &Meter::default());
        assert_eq!(cut, Err(Damage::Format), "cut at {length}");
    }
}

#[test]
fn damaged_sorted_sets_are_refused() {
    let nan = [&b"\x05\x01\x01a"[..], &f64::NAN.to_le_bytes()].concat();
    let twice = [&b"\x05\x02\x01a"[..], &1f64.to_le_bytes(), b"\x01a", &2f64.to_le_bytes()].concat();
    for body in [&b"\x05\x00"[..], &nan, &twice, b"\x03\x01\x01a\xfd", b"\x03\x01\x01a\x01x", b"\x11\x00"] {
        assert_eq!(restore(&footed(body, 10), &Meter::default()), Err(Damage::Format), "{body:?}");
    }
}

#[test]
fn fields_that_expire_come_back() {
    let field = |name: &str, deadline: Option<u64>| {
        (Blob::from(name.as_bytes()), Blob::from(&b"v"[..]), deadline.map(WallTime))
    };
    let fields = vec![field("a", Some(1_893_456_000_000)), field("b", None), field("7", Some(1_893_456_900_000))];
    let payload = dump_fading_hash(WallTime(1_893_456_000_000), &fields);
    assert_eq!(restore(&payload, &Meter::default()), Ok(Dumped::Hash(fields)));
    assert_eq!(payload[0], 24);
    // All of them end somewhere inside.
    for len in 1..payload.len() - 11 {
        assert_eq!(read_value(&payload[..len], &Meter::default()), None, "{len}");
    }
    // A listpack of three words, as a Redis 7.4 has it: field, value, deadline.
    let mut listpack = vec![0; 6];
    listpack.extend([0x81, b'a', 2, 0x81, b'v', 2]);
    let deadline = 1_893_456_000_000_i64.to_le_bytes();
    listpack.push(0xf4);
    listpack.extend(deadline);
    listpack.push(9);
    listpack.push(0xff);
    let bytes = listpack.len() as u32;
    listpack[..4].copy_from_slice(&bytes.to_le_bytes());
    listpack[4] = 3;
    let mut payload = vec![25];
    payload.extend(deadline);
    put_text(&mut payload, &listpack);
    assert_eq!(read_value(&payload, &Meter::default()), Some(Dumped::Hash(vec![field("a", Some(1_893_456_000_000))])));
}
