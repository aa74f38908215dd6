"""The sides of the comparison. Each starts its servers, measures a row, and stops. All fsync for real, all keep
their data below WORK/data, all listen on loopback; keys have 16 bytes and values 256."""

import json
import os
import shutil
import urllib.request
from base64 import b64encode

from .cluster import Cluster, port_of
from .install import BIN
from .machine import WORK, BenchError, require_free_ports, run, start, stop, wait_until

DATA = WORK / "data"
KEYS = 100_000
VALUE_BYTES = 256
# The one key of etcd's read rows, 16 bytes.
READ_KEY = "read:00000000001"


def fresh_folder(name):
    """An empty folder for a server's data."""
    folder = DATA / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def drive(*arguments, seconds=120):
    """Runs our load program and returns its one line of JSON."""
    return json.loads(run([BIN / "drive", *arguments], seconds=seconds))


def redis_benchmark(port, test, clients, pipeline, requests):
    """Runs redis-benchmark once and returns its figures."""
    text = run(["redis-benchmark", "-h", "127.0.0.1", "-p", port, "-t", test, "-d", VALUE_BYTES, "-r", KEYS,
                "-n", requests, "-c", clients, "-P", pipeline, "--csv"], seconds=300)
    for line in text.splitlines():
        fields = line.strip().strip('"').split('","')
        if fields[0].lower() == test and len(fields) == 8:
            rate, _, _, p50, _, p99, longest = (float(f) for f in fields[1:])
            return {"rate": rate, "p50_ms": p50, "p99_ms": p99, "max_ms": longest, "operations": requests}
    raise BenchError(f"redis-benchmark printed no figures:\n{text[-500:]}")


class Side:
    """One system under measurement. `requests` maps a row's name to the number of operations of one run."""

    name = ""
    title = ""
    requests = {"set1": 8_000, "set256": 150_000, "set50x16": 300_000, "get256": 150_000, "get50x16": 500_000}

    def __init__(self, scale):
        self.scale = scale
        self.processes = []

    def count(self, row):
        """Operations of one run of the row, as --scale has it."""
        return max(500, int(self.requests[row.name] * self.scale))

    def can(self, row):
        """Whether this side has something to compare in that row."""
        return self.name in row.targets

    def stop(self):
        """Ends all that `start` began and removes the data."""
        for process in self.processes:
            stop(process)
        self.processes = []
        shutil.rmtree(DATA / self.name, ignore_errors=True)


def redis_server(port, folder, *extra):
    """Starts one Redis whose every write is fsynced before it is answered."""
    return start(["redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", folder, "--save", "",
                  "--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0",
                  "--maxclients", "5000", *extra], f"redis-{port}.log")


def redis_answers(port):
    """Whether a Redis answers there."""
    return run(["redis-cli", "-p", port, "ping"], 5).strip() == "PONG"


class Redis(Side):
    """Redis, one node, append-only file synced at every write: one copy, so a weaker promise than Dictum's."""

    name, title = "redis", "Redis, 1 node, AOF always"
    port = 17379

    def start(self):
        """Starts the server on an empty folder and writes every key."""
        require_free_ports([self.port], self.title)
        self.processes = [redis_server(self.port, fresh_folder(self.name))]
        wait_until(lambda: redis_answers(self.port), "Redis")
        drive("fill", "-addr", f"127.0.0.1:{self.port}", "-keys", KEYS, "-size", VALUE_BYTES)

    def measure(self, row):
        """Drives the row's load once."""
        test, clients, pipeline = row.load
        return redis_benchmark(self.port, test, clients, pipeline, self.count(row))


class RedisWait(Side):
    """Redis, one primary and two replicas, WAIT 1 after each write: two copies, but no election and no promise."""

    name, title = "redis-wait", "Redis, 1+2, AOF always, WAIT 1"
    port = 17479
    requests = {"set1": 4_000, "set256": 80_000}

    def start(self):
        """Starts primary and replicas and waits until both replicas follow."""
        ports = [self.port, self.port + 1, self.port + 2]
        require_free_ports(ports, self.title)
        folder = fresh_folder(self.name)
        for port in ports:
            (folder / str(port)).mkdir()
            extra = [] if port == self.port else ["--replicaof", "127.0.0.1", self.port]
            self.processes.append(redis_server(port, folder / str(port), *extra))
            wait_until(lambda port=port: redis_answers(port), "Redis")

        def following():
            text = run(["redis-cli", "-p", self.port, "info", "replication"], 5)
            return text.count("state=online") == 2

        wait_until(following, "Redis's replicas")
        drive("fill", "-addr", f"127.0.0.1:{self.port}", "-keys", KEYS, "-size", VALUE_BYTES)

    def measure(self, row):
        """Drives SET + WAIT 1 with our own client: redis-benchmark cannot send two commands as one operation."""
        _, clients, _ = row.load
        figures = drive("setwait", "-addr", f"127.0.0.1:{self.port}", "-clients", clients, "-requests",
                        self.count(row), "-replicas", 1, "-size", VALUE_BYTES, "-keys", KEYS)
        if figures["too_few_replicas"]:
            raise BenchError(f"WAIT was answered too small {figures['too_few_replicas']} times")
        return figures


class Etcd(Side):
    """etcd, three nodes: the same promise as Dictum's."""

    name, title = "etcd", "etcd, 3 nodes"
    base = 17579
    requests = {"set1": 2_000, "set256": 40_000, "get256": 50_000}

    def __init__(self, scale):
        super().__init__(scale)
        self.clients = [f"127.0.0.1:{self.base + node}" for node in range(3)]
        self.peers = [f"http://127.0.0.1:{self.base + 10 + node}" for node in range(3)]

    def _start_node(self, node, state):
        cluster = ",".join(f"e{n}={peer}" for n, peer in enumerate(self.peers))
        client = f"http://{self.clients[node]}"
        return start([BIN / "etcd", "--name", f"e{node}", "--data-dir", DATA / self.name / f"e{node}",
                      "--listen-client-urls", client, "--advertise-client-urls", client,
                      "--listen-peer-urls", self.peers[node], "--initial-advertise-peer-urls", self.peers[node],
                      "--initial-cluster", cluster, "--initial-cluster-state", state,
                      "--quota-backend-bytes", 8 << 30, "--log-level", "error"], f"etcd-{node}.log")

    def _status(self, node):
        request = urllib.request.Request(f"http://{self.clients[node]}/v3/maintenance/status", b"{}", method="POST")
        with urllib.request.urlopen(request, timeout=2) as answer:
            return json.load(answer)

    def _leader(self):
        """Index of the node that all three take for the leader, or None."""
        seen = [self._status(node) for node in range(3)]
        leaders = {s.get("leader", "0") for s in seen}
        if len(leaders) != 1:
            return None
        ids = [s["header"]["member_id"] for s in seen]
        leader = leaders.pop()
        return {"node": ids.index(leader)} if leader in ids else None

    def start(self):
        """Starts three nodes on empty folders and puts the first keys."""
        ports = [self.base + n for n in range(3)] + [self.base + 10 + n for n in range(3)]
        require_free_ports(ports, self.title)
        fresh_folder(self.name)
        self.processes = [self._start_node(node, "new") for node in range(3)]
        wait_until(self._leader, "etcd's leader")
        self._tool(256, "put", "--key-size", 16, "--val-size", VALUE_BYTES, "--total", 5000, "--key-space-size", KEYS)
        # The tool's own keys are random bytes; the reads are of one key that can be named.
        key, value = (b64encode(text).decode() for text in (READ_KEY.encode(), b"x" * VALUE_BYTES))
        body = json.dumps({"key": key, "value": value}).encode()
        request = urllib.request.Request(f"http://{self.clients[0]}/v3/kv/put", body, method="POST")
        urllib.request.urlopen(request, timeout=5).close()

    def _tool(self, clients, command, *arguments):
        """Runs etcd's benchmark tool, with the load on the leader as in Dictum's rows."""
        connections = 1 if clients == 1 else max(1, clients // 4)
        text = run([BIN / "etcd-benchmark", "--precise", "--endpoints", ",".join(self.clients), "--target-leader",
                    "--conns", connections, "--clients", clients, command, *arguments], seconds=300)
        found = {}
        for line in text.splitlines():
            words = line.split()
            if line.strip().startswith("Requests/sec:"):
                found["rate"] = float(words[-1])
            elif line.strip().startswith("Slowest:"):
                found["max_ms"] = 1000 * float(words[-2] if words[-1] == "secs." else words[-1])
            elif "% in" in line and words[0] in ("50%", "99%"):
                found[f"p{words[0][:-1]}_ms"] = 1000 * float(words[2])
        if "rate" not in found or "p50_ms" not in found:
            raise BenchError(f"etcd's benchmark tool printed no figures:\n{text[-500:]}")
        if "Error distribution" in text:
            raise BenchError(f"etcd's benchmark tool met errors:\n{text[-500:]}")
        return found

    def measure(self, row):
        """Drives the row's load once with etcd's own tool."""
        test, clients, _ = row.load
        if test == "set":
            return self._tool(clients, "put", "--key-size", 16, "--val-size", VALUE_BYTES, "--total",
                              self.count(row), "--key-space-size", KEYS)
        return self._tool(clients, "range", READ_KEY, "--consistency", "l", "--total", self.count(row))

    def kill_leader(self):
        """Kills the leader under load, measures the gap, and brings the node back."""
        leader = wait_until(self._leader, "etcd's leader")["node"]
        others = [self.clients[n] for n in range(3) if n != leader]
        figures = drive("gap", "-kind", "etcd", "-addrs", ",".join([*others, self.clients[leader]]), "-kill",
                        self.processes[leader].pid, "-after", "6s")
        stop(self.processes[leader])
        self.processes[leader] = self._start_node(leader, "existing")

        def caught_up():
            applied = [int(self._status(n)["raftAppliedIndex"]) for n in range(3)]
            return self._leader() and max(applied) - applied[leader] < 10

        wait_until(caught_up, "etcd's restarted node", 60)
        return figures


class Dictum(Side):
    """Dictum, three nodes by `dictum dev`; the load goes to the leader."""

    name, title = "dictum", "Dictum, 3 nodes"
    requests = {"set1": 6_000, "set256": 120_000, "set50x16": 250_000, "get256": 120_000, "get50x16": 400_000}

    def __init__(self, scale, program, base_port):
        super().__init__(scale)
        settings = {name: value for name, value in os.environ.items() if name.startswith("DICTUM_")}
        self.cluster = Cluster(program, base_port, settings=settings)

    def can(self, row):
        """Dictum is in every row."""
        return True

    def start(self):
        """Starts `dictum dev` on an empty folder and writes every key."""
        self.cluster.start()
        drive("fill", "-addr", self.cluster.leader()["resp"], "-keys", KEYS, "-size", VALUE_BYTES)

    def stop(self):
        """Ends all nodes."""
        self.cluster.stop()

    def measure(self, row):
        """Drives the row's load once against the leader."""
        test, clients, pipeline = row.load
        return redis_benchmark(port_of(self.cluster.leader()), test, clients, pipeline, self.count(row))

    def kill_leader(self):
        """Kills the leader under load, measures the gap, and brings the node back."""
        cluster = self.cluster
        leader = cluster.leader()
        others = [node["resp"] for node in cluster.nodes if node is not leader]
        figures = drive("gap", "-kind", "resp", "-addrs", ",".join([*others, leader["resp"]]), "-kill",
                        leader["pid"], "-after", "4s")
        cluster.restart(leader)
        marker = figures["acknowledged"]
        run(["redis-cli", "-p", others[0].rsplit(":", 1)[1], "set", "bench:marker", marker], 10)

        def caught_up():
            return run(["redis-cli", "-p", port_of(leader), "get", "bench:marker"], 10).strip() == str(marker)

        wait_until(caught_up, "the restarted node of Dictum", 60)
        wait_until(lambda: lag_of(cluster.status(leader)) < 100, "the restarted node to catch up", 60)
        return figures


def lag_of(status):
    """How many decided entries the asked node has not applied, as far as its status tells; 0 if it does not."""
    own = [node for node in status.get("nodes", []) if node.get("name") == status.get("node")]
    positions = [node["applied"] for node in status.get("nodes", []) if isinstance(node.get("applied"), int)]
    if own and isinstance(own[0].get("applied"), int) and positions:
        return max(positions) - own[0]["applied"]
    return 0
