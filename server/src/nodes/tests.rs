//! How lists of nodes are read and shown.

use super::*;

#[test]
fn a_node_is_read_from_a_map_and_from_a_flat_list() {
    let word = |text: &str| Value::Bulk(text.as_bytes().to_vec());
    let pairs = vec![(word("name"), word("n1")), (word("leads"), Value::Integer(4)), (word("later"), word("x"))];
    let flat = pairs.iter().flat_map(|(name, value)| [name.clone(), value.clone()]).collect();
    let read = NodeInfo::read_list(&Value::Array(vec![Value::Map(pairs), Value::Array(flat)])).unwrap();
    let node = NodeInfo { name: "n1".to_owned(), leads: 4, ..NodeInfo::default() };
    assert_eq!(read, [node.clone(), node]);
    assert!(NodeInfo::read_list(&Value::Array(vec![Value::Integer(1)])).is_none());
    assert!(table(&read, None, Output::Narrow).starts_with("name  state  zone  seen  leads"));
    let with = |speaks: &[u64]| {
        let of = |(place, speaks): (usize, &u64)| NodeInfo {
            name: format!("n{place}"),
            speaks: *speaks,
            cluster_version: 6,
            ..NodeInfo::default()
        };
        versions(&speaks.iter().enumerate().map(of).collect::<Vec<NodeInfo>>())
    };
    assert_eq!(with(&[6, 6]), "The cluster has version 6.\n");
    assert_eq!(with(&[6, 7, 0]), "The cluster has version 6; version 7 waits for n0, n2.\n");
}
