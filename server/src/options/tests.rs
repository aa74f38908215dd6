//! Settings: precedence, and what is said about wrong ones.

use super::*;

fn arguments() -> StartArguments {
    StartArguments {
        node: Some("n2".to_owned()),
        cluster: Some("n2=127.0.0.1:9002, n1=127.0.0.1:9001,n3=host.example:9003".to_owned()),
        dir: Some("data".into()),
        ..StartArguments::default()
    }
}

fn file(text: &str) -> File {
    file::parse(text).expect("a file that can be read")
}

#[test]
fn members_are_sorted_and_defaults_are_filled_in() {
    let options = Options::check(arguments(), File::default()).expect("it is complete");
    let (founders, me) = options.founding.expect("it founds the cluster");
    assert_eq!((me, options.name.as_str(), options.peer), (NodeId(1), "n2", None));
    assert_eq!(founders.iter().map(|member| &member.name[..]).collect::<Vec<_>>(), ["n1", "n2", "n3"]);
    assert_eq!(founders[1].peer_address, "127.0.0.1:9002");
    assert_eq!(options.request_timeout, REQUEST_TIMEOUT);
    assert_eq!(options.value_bytes_max, VALUE_BYTES_DEFAULT);
}

#[test]
fn a_flag_beats_the_file() {
    let text = "node = 'n1'\nvalue-bytes-max = '1MiB'\nmaxclients = 5\nio-threads = 3\nrequest-timeout = 2\nlog-level = 'debug'";
    let options = Options::check(arguments(), file(text)).expect("it is complete");
    assert_eq!(options.name, "n2");
    assert_eq!((options.value_bytes_max, options.clients_max, options.io_threads), (1 << 20, 5, 3));
    assert_eq!((options.request_timeout, options.log_level), (Duration::from_secs(2), Level::Debug));
    let flags = StartArguments { value_bytes_max: Some(Size(7)), maxclients: Some(6), ..arguments() };
    let options = Options::check(flags, file(text)).expect("it is complete");
    assert_eq!((options.value_bytes_max, options.clients_max), (7, 6));
}

#[test]
fn the_disk_and_the_cache_have_settings() {
    let options = Options::check(arguments(), File::default()).expect("it is complete");
    let quota_bytes = memory::Plan::of(memory::total()).values;
    let cache = CacheSettings { quota_bytes, policy: CachePolicy::S3Fifo };
    assert_eq!((options.disk_low_mark, options.cache), (None, cache));
    let text = "disk-low-mark = '1GiB'\nmemory-quota = '64MiB'\ncache-policy = 'lru'";
    let options = Options::check(arguments(), file(text)).expect("it is complete");
    let cache = CacheSettings { quota_bytes: 64 << 20, policy: CachePolicy::Lru };
    assert_eq!((options.disk_low_mark, options.cache), (Some(DiskMark::Bytes(1 << 30)), cache));
    let flags = StartArguments {
        disk_low_mark: Some(DiskMark::Bytes(0)),
        memory_quota: Some(Size(5)),
        cache_policy: Some(CachePolicy::Lfu),
        ..arguments()
    };
    let options = Options::check(flags, file(text)).expect("it is complete");
    let cache = CacheSettings { quota_bytes: 5, policy: CachePolicy::Lfu };
    assert_eq!((options.disk_low_mark, options.cache), (Some(DiskMark::Bytes(0)), cache));
    let wrong = Options::check(arguments(), file("cache-policy = 'random'")).expect_err("there is none");
    assert!(wrong.contains("fifo, lru, lfu or s3-fifo"), "{wrong}");
    let of_file = |text: &str| Options::check(arguments(), file(text)).map(|options| options.disk_low_mark);
    assert_eq!(of_file("disk-low-mark = '5%'"), Ok(Some(DiskMark::Percent(5))));
    assert!(of_file("disk-low-mark = '100%'").is_err_and(|error| error.contains("from 0% to 99%")));
    assert!(of_file("disk-low-mark = '5 parts'").is_err_and(|error| error.contains("as 5%")));
}

#[test]
fn keys_of_other_nodes_are_read_whole_or_not_at_all() {
    let read = |keys: &str, secret: bool| {
        let cluster_secret = secret.then(|| "cluster.secret".into());
        let given = StartArguments { peer_keys: Some(keys.to_owned()), cluster_secret, ..arguments() };
        Options::check(given, File::default()).map(|options| options.peer_keys)
    };
    let (one, other) = ("0a".repeat(32), "FF".repeat(32));
    let found = read(&format!("n2={one}, n3={other}"), true).expect("these are keys");
    assert_eq!(found, [("n2".to_owned(), KeyHash([10; 32])), ("n3".to_owned(), KeyHash([255; 32]))]);
    for wrong in ["n2", "n2=", &format!("n2={}", &one[1..]), &format!("n2=+{}", &one[1..]), &format!("n2={one}0")] {
        let said = read(wrong, true).expect_err("it is no key");
        assert!(said.contains("is no key of a node; write it as n1=HASH"), "{wrong}: {said}");
    }
    assert!(read(&format!("n2={one}"), false).is_err_and(|said| said.contains("--cluster-secret FILE")));
}

#[test]
fn the_fingerprint_is_of_the_names_only() {
    let one = Options::check(arguments(), File::default()).expect("it is complete");
    let moved = "n1=a:1,n2=b:2,n3=c:3".to_owned();
    let moved = Options::check(StartArguments { cluster: Some(moved), ..arguments() }, File::default());
    let of = |options: Result<Options, String>| {
        fingerprint(&options.expect("it is complete").founding.expect("it founds").0)
    };
    let one = of(Ok(one));
    assert_eq!(one, of(moved));
    let larger = "n1=a:1,n2=b:2,n3=c:3,n4=d:4".to_owned();
    let larger = Options::check(StartArguments { cluster: Some(larger), ..arguments() }, File::default());
    assert_ne!(one, of(larger));
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let complaint = |change: &dyn Fn(&mut StartArguments)| {
        let mut arguments = arguments();
        change(&mut arguments);
        Options::check(arguments, File::default()).expect_err("it is wrong")
    };
    let text = |text: &str| Some(text.to_owned());
    assert!(complaint(&|a| a.cluster = None).contains("add --cluster"));
    assert!(complaint(&|a| a.cluster = text("n1")).contains("NAME=HOST:PORT"));
    assert!(complaint(&|a| a.cluster = text("n1=host")).contains("NAME=HOST:PORT"));
    assert!(complaint(&|a| a.cluster = text("n1=host:0")).contains("NAME=HOST:PORT"));
    assert!(complaint(&|a| a.cluster = text("n1=host:1,n1=host:2")).contains("twice"));
    assert!(complaint(&|a| a.cluster = text("n1=host:1,n2=host:1")).contains("same address"));
    assert!(complaint(&|a| a.cluster = text("n 1=host:1")).contains("letters, digits"));
    assert!(complaint(&|a| a.cluster = text(" , ")).contains("is empty"));
    assert!(complaint(&|a| a.node = None).contains("one of n1, n2, n3"));
    assert!(complaint(&|a| a.node = text("n9")).contains("not in --cluster"));
    assert!(complaint(&|a| a.dir = None).contains("--dir FOLDER"));
    assert!(complaint(&|a| a.resp = text("7001")).contains("IP:PORT"));
    assert!(complaint(&|a| a.http = text("localhost:7001")).contains("different ports"));
    assert!(complaint(&|a| a.value_bytes_max = Some(Size(1 << 40))).contains("choose between"));
    assert!(complaint(&|a| a.request_timeout = Some(Wait(Duration::ZERO))).contains("choose between"));
    assert!(complaint(&|a| a.io_threads = Some(0)).contains("choose 1 to 64"));
    assert!(complaint(&|a| a.io_threads = Some(65)).contains("choose 1 to 64"));
    assert!(complaint(&|a| a.maxclients = Some(0)).contains("at least 1"));
    assert!(complaint(&|a| a.fault_sync_delay = Some(60_001)).contains("at most 60000 ms"));
}

#[test]
fn sizes_and_times_have_units() {
    assert_eq!("16MiB".parse(), Ok(Size(16 << 20)));
    assert_eq!("3 k".parse(), Ok(Size(3 << 10)));
    assert_eq!("12".parse(), Ok(Size(12)));
    assert!("".parse::<Size>().is_err() && "1X".parse::<Size>().is_err());
    assert!("99999999999G".parse::<Size>().is_err());
    assert_eq!("500ms".parse(), Ok(Wait(Duration::from_millis(500))));
    assert_eq!("5".parse(), Ok(Wait(Duration::from_secs(5))));
    assert!("soon".parse::<Wait>().is_err());
}

#[test]
fn the_listener_for_clients_that_route_by_themselves_is_asked_for() {
    let options = Options::check(arguments(), File::default()).expect("it is complete");
    assert_eq!((options.cluster_address, &options.cluster_bucket[..]), (None, "default"));
    let text = "cluster-address = 'localhost:7501'\ncluster-announce = 'db.example:17501'\ncluster-bucket = 'users'";
    let options = Options::check(arguments(), file(text)).expect("it is complete");
    assert_eq!(options.cluster_address, Some("127.0.0.1:7501".parse().expect("an address")));
    assert_eq!((options.cluster_announce.as_deref(), &options.cluster_bucket[..]), (Some("db.example:17501"), "users"));
    for (wrong, how) in [
        ("cluster-address = 'db.example:7501'", "IP:PORT"),
        ("cluster-address = '127.0.0.1:7001'", "a port of its own"),
        ("cluster-announce = 'db.example'", "HOST:PORT"),
        ("cluster-announce = 'db.example:0'", "HOST:PORT"),
        ("cluster-announce = 'a b:7501'", "HOST:PORT"),
    ] {
        let said = Options::check(arguments(), file(wrong)).expect_err("it is refused");
        assert!(said.contains(how), "{wrong}: {said}");
    }
}

#[test]
fn a_zone_has_a_label_that_can_be_shown() {
    let options = Options::check(arguments(), File::default()).expect("it is complete");
    assert_eq!(options.zone, "");
    let options = Options::check(arguments(), file("zone = 'rack-7'")).expect("it is complete");
    assert_eq!(options.zone, "rack-7");
    let flags = StartArguments { zone: Some(String::new()), ..arguments() };
    let options = Options::check(flags, file("zone = 'rack-7'")).expect("it is complete");
    assert_eq!(options.zone, "", "an empty flag beats the file, too");
    for wrong in ["rack 7".to_owned(), "z".repeat(base::limits::ZONE_BYTES_MAX + 1)] {
        let reason = Options::check(StartArguments { zone: Some(wrong), ..arguments() }, File::default());
        assert!(reason.expect_err("it is none").contains("--zone"));
    }
}

#[test]
fn workers_have_settings_of_their_own() {
    let flags = || StartArguments {
        workers: Some(3),
        http: Some("0.0.0.0:8001".to_owned()),
        cluster_address: Some("0.0.0.0:7101".to_owned()),
        memory_quota: Some(Size(900)),
        cluster: Some("n1=a.example:9001,n2=b.example:9001".to_owned()),
        ..arguments()
    };
    let worker = |number| {
        let flags = StartArguments { worker: number, worker_token: Some("5ca1".to_owned()), ..flags() };
        Options::check(flags, File::default()).expect("it is complete")
    };
    let machine = worker(None);
    assert_eq!((machine.workers, machine.worker, machine.io_threads, &machine.zone[..]), (3, None, 1, ""));
    let first = worker(Some(1));
    assert_eq!((&first.name[..], &first.zone[..], first.http.port()), ("n2", "n2", 8001));
    assert!(first.founding.is_some() && first.join.is_none() && first.token.is_none());
    let third = worker(Some(3));
    assert_eq!((&third.name[..], &third.zone[..], third.resp), ("n2.3", "n2", first.resp));
    assert_eq!((third.http.port(), third.cluster_address.map(|it| it.port())), (8003, Some(7103)));
    assert_eq!((third.join.as_deref(), third.token.as_deref()), (Some("b.example:9001"), Some("5ca1")));
    assert_eq!((third.peer_announce.as_deref(), third.peer.as_deref()), (Some("b.example:9003"), None));
    assert_eq!((third.dir, third.cache.quota_bytes), (PathBuf::from("data/worker-3"), 300));
    // One that has joined, and listens elsewhere than it is known.
    let flags = StartArguments {
        cluster: None,
        join: Some("a.example:9001".to_owned()),
        token: Some("feed".to_owned()),
        peer: Some("0.0.0.0:9101".to_owned()),
        peer_announce: Some("c.example:9201".to_owned()),
        zone: Some("rack-7".to_owned()),
        worker: Some(2),
        ..flags()
    };
    let second = Options::check(flags, File::default()).expect("it is complete");
    assert_eq!(
        (second.peer.as_deref(), second.peer_announce.as_deref()),
        (Some("0.0.0.0:9102"), Some("c.example:9202"))
    );
    assert_eq!((second.join.as_deref(), second.token, &second.zone[..]), (Some("c.example:9201"), None, "rack-7"));
}

#[test]
fn what_does_not_go_with_workers_is_said() {
    let complaint = |change: &dyn Fn(&mut StartArguments)| {
        let mut arguments = StartArguments { workers: Some(2), ..arguments() };
        change(&mut arguments);
        Options::check(arguments, File::default()).expect_err("it is wrong")
    };
    let text = |text: &str| Some(text.to_owned());
    assert!(complaint(&|a| a.workers = Some(0)).contains("choose 1 to 16"));
    assert!(complaint(&|a| a.workers = Some(17)).contains("choose 1 to 16"));
    assert!(complaint(&|a| a.worker = Some(3)).contains("there are 2"));
    assert!(complaint(&|a| a.resp = text("127.0.0.1:0")).contains("give --resp a port"));
    assert!(complaint(&|a| a.http = text("127.0.0.1:65535")).contains("above port 65535 is no room"));
    assert!(complaint(&|a| a.cluster = text("n2=h:9001,n3=h:9002")).contains("which --cluster gives to n3"));
    assert!(
        complaint(&|a| a.http = text("127.0.0.1:7000")).contains("needs 127.0.0.1:7001 for --http, and --resp has it")
    );
    let near = |a: &mut StartArguments| a.cluster_address = text("127.0.0.1:8002");
    assert!(complaint(&near).contains("worker 2 needs 127.0.0.1:8002 for --http, and --cluster-address has it"));
    let joins = |a: &mut StartArguments| (a.cluster, a.join, a.token) = (None, text("h:9001"), text("5ca1"));
    assert!(complaint(&joins).contains("give --peer"));
}

#[test]
fn entries_to_step_over_are_named_as_messages_name_them() {
    let entry = |bucket, index, position| (PartitionId { bucket: base::BucketId(bucket), index }, Position(position));
    let read = |text: &str| text.parse::<StepOver>().map(|it| (it.0, it.1));
    assert_eq!(read("0/0@17"), Ok(entry(0, 0, 17)));
    assert_eq!(read("4294967295/0@9"), Ok(entry(u32::MAX, 0, 9)), "the council");
    let flags = StartArguments { step_over: vec![StepOver(entry(3, 2, 8).0, Position(8))], ..arguments() };
    assert_eq!(Options::check(flags, File::default()).expect("it is complete").step_over, [entry(3, 2, 8)]);
    for wrong in ["", "17", "0/0", "0@17", "0/0@0", "0/0@", "0/70000@1", "a/0@1", "0/0@-1"] {
        assert!(read(wrong).is_err_and(|error| error.contains("0/0@4711")), "{wrong}");
    }
}
