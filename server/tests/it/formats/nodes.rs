//! What the council's state says of nodes, in the versions that the other folders do not have: with zones, and behind `dictum unsafe-recover`.

use super::*;

/// Where these folders are, beside those of the versions.
pub const FOLDER: &str = "nodes";
/// Each with the nodes that have founded its cluster. What is started of it is the first one.
const LISTS: [(&str, &[&str]); 2] = [("zones", &["n1"]), ("alone", &["n1", "n2", "n3"])];

/// The zone of a founder.
fn zone(name: &str) -> String {
    name.replace('n', "rack-")
}

/// Where each of the founders is reached.
fn cluster(founders: &[&str]) -> Vec<String> {
    let ports: [u16; 3] = free_ports();
    founders.iter().zip(ports).map(|(name, port)| format!("{name}=127.0.0.1:{port}")).collect()
}

/// One of the founders, on a folder.
fn start(folder: &Path, name: &str, cluster: &[String]) -> Result<(Process, String), String> {
    let [resp, http] = free_ports().map(|port: u16| format!("127.0.0.1:{port}"));
    let mut command = dictum(&["start", "--node", name, "--cluster", &cluster.join(","), "--zone", &zone(name)]);
    command.args(["--resp", &resp, "--http", &http, "--log-bytes-per-snapshot", "2KiB", "--dir"]);
    command.arg(folder).stdout(Stdio::null());
    Process::start(command).map(|process| (process, resp))
}

/// The founders that have these folders, each with its address; with other ports where somebody else took one meanwhile.
fn start_all(folders: &[&Path], founders: &[&str]) -> (Vec<(Process, String)>, Vec<String>) {
    wait_for("nodes", || {
        let cluster = cluster(founders);
        let all = folders.iter().zip(founders).map(|(folder, name)| start(folder, name, &cluster));
        let started: Result<Vec<_>, String> = all.collect();
        match started {
            Ok(started) => Some((started, cluster)),
            Err(reason) if reason.contains("is in use by another process; stop") => None,
            Err(reason) => panic!("it has ended: {reason}"),
        }
    })
}

/// Name, number, zone and state of each node, as the council has them.
fn list(resp: &str) -> Vec<String> {
    let said = output(dictum(&["node", "list", "--json", "--at", resp]));
    let nodes: Vec<serde_json::Value> = serde_json::from_slice(&said.stdout).unwrap_or_default();
    nodes.iter().map(|node| format!("{} {} {} {}", node["name"], node["id"], node["zone"], node["state"])).collect()
}

/// What the check says, and what the node answers that is started on a copy.
fn dump(folder: &Path, founders: &[&str]) -> String {
    let (code, mut text) = check(folder);
    writeln!(text, "(exit code {code})\n").expect("a string takes all text");
    let folder = copy(folder);
    let (mut started, _) = start_all(&[folder.path()], founders);
    let (process, resp) = started.pop().expect("it runs");
    let told = wait_for("an answer", || Some(list(&resp)).filter(|list| !list.is_empty()));
    let mut client = Client::connect(&resp).expect("it listens");
    let value = eventually_on(&mut client, &["GET", "key"]);
    // Its number is the next that nobody had.
    let token = eventually_on(&mut client, &["DICTUM.NODE", "TOKEN"]);
    let token = String::from_utf8(token.as_bytes().expect("a token").to_vec()).expect("it is text");
    // Who speaks less than the cluster is not let in.
    let newest = base::versions::NEWEST.to_string();
    let join = ["DICTUM.NODE", "JOIN", &token, "new", "127.0.0.1:1", "1", "", &newest];
    let welcome = eventually_on(&mut client, &join);
    let number = welcome.as_array().and_then(|flat| flat[1].as_integer()).expect("a number");
    writeln!(text, "{}\nkey {}\nthe next number {number}", told.join("\n"), short(&value)).expect("as above");
    assert!(process.stop(), "it ends well");
    text
}

#[test]
fn lists_of_nodes_are_read_as_ever() {
    for (name, founders) in LISTS {
        let folder = root().join(FOLDER);
        let golden = folder.join(format!("{name}.txt"));
        let said = dump(&folder.join(name), founders);
        if rewrites() {
            fs::write(&golden, &said).expect("writable");
        }
        let expected = fs::read_to_string(&golden).expect("it is committed");
        assert!(said == expected, "{} says\n{expected}\nbut now it is\n{said}", golden.display());
    }
}

/// Makes those that are not there. Only when asked for.
#[test]
#[ignore = "makes fixtures: see tests/formats/README.md"]
fn make_lists_of_nodes() {
    for (name, founders) in LISTS {
        let folder = root().join(FOLDER).join(name);
        if folder.exists() {
            continue;
        }
        let made: Vec<TempDir> = founders.iter().map(|_| tempdir().expect("a temporary folder")).collect();
        let folders: Vec<&Path> = made.iter().map(TempDir::path).collect();
        let (started, cluster) = start_all(&folders, founders);
        eventually(&started[0].1, &["SET", "key", name]);
        let all_named = || {
            let list = list(&started[0].1);
            founders.iter().all(|founder| list.iter().any(|line| line.contains(&zone(founder)))).then_some(())
        };
        wait_for("all zones", all_named);
        started.into_iter().for_each(|(process, _)| assert!(process.stop(), "it ends well"));
        if founders.len() > 1 {
            let mut command = dictum(&["unsafe-recover", "--accept-loss", "--cluster", &cluster.join(",")]);
            command.arg(folders[0]);
            let said = output(command);
            assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        }
        let (mut started, _) = start_all(&folders[..1], founders);
        let (process, resp) = started.pop().expect("it runs");
        // So many that the state has it, and not the log alone.
        for number in 0..100 {
            let ttl = (number % 2 * 4_000_000_000_u64).to_string();
            eventually(&resp, &["DICTUM.BUCKET", "SET", "default", "TTL", &ttl]);
        }
        assert!(process.stop(), "it ends well");
        let said = check(folders[0]).1;
        let saved = said.lines().find_map(|line| line.trim_start().strip_prefix("4294967295/0 at ")?.split(':').next());
        assert!(saved.is_some_and(|at| at.parse().is_ok_and(|at: u64| at > 20)), "{said}");
        shrink(folders[0]);
        fs::create_dir_all(&folder).expect("writable");
        let copied = Command::new("cp").arg("-r").arg(folders[0].join(".")).arg(&folder).status();
        assert!(copied.expect("cp runs").success());
        fs::write(root().join(FOLDER).join(format!("{name}.txt")), dump(&folder, founders)).expect("writable");
    }
}
