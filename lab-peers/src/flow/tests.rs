//! Loads on stores in memory.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::*;

/// A store in memory whose second node refuses everything.
#[derive(Clone)]
struct Memory {
    refuses: bool,
}

/// A store that says it has stored.
#[derive(Clone)]
struct Forgetful;

impl Store for Forgetful {
    fn open(_: &str) -> Result<Forgetful, String> {
        Ok(Forgetful)
    }

    async fn put(&self, _: Vec<u8>, _: Vec<u8>) -> Result<(), String> {
        Ok(())
    }

    async fn get(&self, _: Vec<u8>) -> Result<Option<Vec<u8>>, String> {
        Ok(None)
    }
}

fn content() -> &'static Mutex<HashMap<Vec<u8>, Vec<u8>>> {
    static CONTENT: OnceLock<Mutex<HashMap<Vec<u8>, Vec<u8>>>> = OnceLock::new();
    CONTENT.get_or_init(Mutex::default)
}

impl Store for Memory {
    fn open(address: &str) -> Result<Memory, String> {
        Ok(Memory { refuses: address.ends_with(":2") })
    }

    async fn put(&self, key: Vec<u8>, value: Vec<u8>) -> Result<(), String> {
        tokio::task::yield_now().await;
        if self.refuses {
            return Err("refused".to_owned());
        }
        content().lock().unwrap().insert(key, value);
        Ok(())
    }

    async fn get(&self, key: Vec<u8>) -> Result<Option<Vec<u8>>, String> {
        tokio::task::yield_now().await;
        if self.refuses { Err("refused".to_owned()) } else { Ok(content().lock().unwrap().get(&key).cloned()) }
    }
}

fn request(task: Task) -> Request {
    Request {
        addresses: vec!["127.0.0.1:1".to_owned(), "127.0.0.1:2".to_owned()],
        task,
        workload: "ycsb-a".to_owned(),
        records: Some(50),
        clients: 4,
        connections: 2,
        seconds: 0.3,
        timeout_ms: 1_000,
        ..Request::default()
    }
}

#[test]
fn records_are_loaded_whole_and_worked_on() {
    let mut loading = request(Task::Load);
    loading.addresses.truncate(1);
    let (loaded, _) = work::<Memory>(&loading, &mut |_| {}).unwrap();
    assert_eq!((loaded.operations["load"].count, loaded.operations["load"].errors), (50, 0));
    assert!(content().lock().unwrap().values().all(|value| value.len() == 1_000), "ten fields of 100 bytes");

    let (measured, _) = work::<Memory>(&request(Task::Run), &mut |_| {}).unwrap();
    assert!(measured.operations["read"].count > 0 && measured.operations["update"].count > 0);
    // Two of the four clients begin with the node that refuses, and go on with the other one.
    let errors: u64 = measured.operations.values().map(|of| of.errors).sum();
    assert_eq!((errors, measured.errors["refused"]), (2, 2));
    assert!(measured.throughput > 0.0 && !measured.operations["read"].histogram.is_empty());
}

#[test]
fn what_cannot_be_done_is_told() {
    let scans =
        Request { workload: "ycsb-e".to_owned(), addresses: vec!["127.0.0.1:1".to_owned()], ..request(Task::Run) };
    let told = work::<Memory>(&scans, &mut |_| {}).unwrap_err();
    assert!(told.contains("ZRANGEBYSCORE cannot be done"), "{told}");
    let told = work::<Forgetful>(&request(Task::Load), &mut |_| {}).unwrap_err();
    assert!(told.contains("not what is read"), "{told}");
    let nobody = Request { clients: 0, ..request(Task::Run) };
    assert!(work::<Memory>(&nobody, &mut |_| {}).unwrap_err().contains("1 to 10000"));
}
