"""The rows of bench/store: each starts what it compares, measures it, and says what must hold."""

import itertools
import json
import re
import shutil
import socket
import statistics
import subprocess
import time
from dataclasses import dataclass, field

from .cluster import Cluster, folder_bytes, input_output, resident_bytes, written_by_thread
from .install import BIN
from .machine import ROOT, WORK, BenchError, quietness, require_free_ports, run, start, stop, wait_until
from .watch import Watch

KEY_BYTES = 16
REDIS_PORT = 17979
# The server's default: a flush, or a snapshot, after so many bytes of log.
LOG_BYTES_PER_SNAPSHOT = 256 << 20
# Disk that must stay free whatever a row writes.
DISK_LEFT = 4 << 30


class Skip(Exception):
    """The row cannot be measured with this program; the text says why."""


@dataclass
class Bench:
    """What every row gets: the program, the scale, and where its results go."""

    program: str
    base_port: int
    scale: float
    repeat: int
    minutes: float
    policy: str | None
    memory_limit: int | None
    say: object
    results: list = field(default_factory=list)
    marks: list = field(default_factory=list)

    def count(self, full):
        """A number of operations or keys, as --scale has it."""
        return max(1000, int(full * self.scale))

    def cluster(self, state, name, offset=0, quota=None):
        """A cluster whose state is in memory or in the store; with a quota for its values where one is given."""
        settings = {"DICTUM_STATE": state}
        if self.scale < 1:
            # What stays in memory until the next flush must shrink with the data, or all of it would stay there.
            settings["DICTUM_LOG_BYTES_PER_SNAPSHOT"] = str(max(1 << 20, int(LOG_BYTES_PER_SNAPSHOT * self.scale)))
        if quota is not None and state == "store" and self.knows("--memory-quota"):
            settings["DICTUM_MEMORY_QUOTA"] = str(quota)
            if self.policy:
                settings["DICTUM_CACHE_POLICY"] = self.policy
        limit = self.memory_limit if state == "store" else None
        return Cluster(self.program, self.base_port + offset, name, settings=settings, memory_limit=limit)

    def knows(self, option):
        """Whether this program's nodes have such an option with a value, shown in their help or not."""
        asked = subprocess.run([self.program, "start", option, "1", "--help"], capture_output=True, check=False)
        return asked.returncode == 0

    def record(self, row, what, **figures):
        """Keeps figures for the file of results."""
        self.results.append({"row": row, "what": what, **figures})

    def judge(self, row, what, figure, target, lower_is_better=True, unit="×"):
        """Prints a figure against its target and keeps the mark."""
        passed = figure <= target if lower_is_better else figure >= target
        sign = "≤" if lower_is_better else "≥"
        self.say(f"  => {what:58} {figure:8.2f}{unit}  {sign} {target}{unit}  {'pass' if passed else 'FAIL'}")
        self.marks.append({"row": row, "what": what, "figure": figure, "target": target, "pass": passed})


def load(node, cluster=None, seconds=600, errors_allowed=0.0, **options):
    """Runs `drive load` against a node; returns its figures, with what bounds them if the cluster is given. More errors
    than that share of all answers end the row."""
    watch = Watch(cluster) if cluster else None
    arguments = [part for name, value in options.items() for part in (f"-{name}", value)]
    figures = json.loads(run([BIN / "drive", "load", "-addr", node["resp"], *arguments], seconds))
    if figures["errors"] > errors_allowed * figures["operations"]:
        raise BenchError(f"{figures['errors']} requests were answered with errors, first: {figures['first_error']}")
    if watch:
        figures["bounds"], figures["bounds_text"] = watch.describe()
    return figures


def fill(cluster, keys, size):
    """Writes every key once, in order, through the leader, and waits until every node has it."""
    began = time.monotonic()
    load(cluster.leader(), seconds=3600, command="set", choose="sequential", keys=keys, requests=keys, size=size,
         clients=8, pipeline=64)
    cluster.wait_for_peers(300)
    return time.monotonic() - began


def require_disk(needed):
    """Fails before anything is written if the disk is too small."""
    WORK.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(WORK).free
    if free < needed + DISK_LEFT:
        raise BenchError(f"this row may need {needed / 1e9:.0f} GB below {WORK} and leaves {DISK_LEFT / 1e9:.0f} GB; "
                         f"{free / 1e9:.0f} GB are free. Use --scale, or set BENCH_WORK")


def latency_text(figures):
    """A line of latencies."""
    return (f"{figures['rate']:9,.0f} op/s  p50 {figures['p50_ms']:.3f}  p99 {figures['p99_ms']:.3f}  "
            f"p99.9 {figures['p999_ms']:.3f}  max {figures['max_ms']:.1f} ms")


def resident(bench):
    """GET with an eighth of the data allowed in memory, against everything in memory; both clusters run side by side."""
    keys, size, clients = bench.count(10_000_000), 100, 64
    data = keys * (KEY_BYTES + size)
    quota = data // 8
    bench.say(f"  settings: {keys:,} keys × {size} B ({data / 1e9:.2f} GB), 3 nodes, GET linearizable at the leader, "
              f"{clients} clients unpipelined, closed loop")
    if not bench.knows("--memory-quota"):
        bench.say("  this dictum has no --memory-quota: the store is measured as it is, without a cache of values")
    else:
        bench.say(f"  memory quota {quota:,} B, policy {bench.policy or 'the default'}")
    if bench.memory_limit:
        bench.say(f"  memory of the store's nodes together, with the page cache, limited to {bench.memory_limit:,} B")
    else:
        bench.say("  the kernel's page cache is not limited (--memory-limit)")
    require_disk(data * 3 * 5)
    sides = {"memory": bench.cluster("memory", "memory"), "store": bench.cluster("store", "store", 10, quota)}
    try:
        for name, cluster in sides.items():
            cluster.start()
            took = fill(cluster, keys, size)
            cluster.wait_for_quiet()
            memory = [resident_bytes(node["pid"]) for node in cluster.nodes]
            bench.say(f"  {name:7} filled in {took:.0f} s; RSS per node {max(memory) / 1e6:,.0f} MB")
            bench.record("resident", f"{name}-rss", bytes=memory)
        for choose, target in (("uniform", 2.0), ("zipfian", 1.2)):
            measured = {"memory": [], "store": []}
            for repeat in range(bench.repeat):
                for name in ("memory", "store") if repeat % 2 == 0 else ("store", "memory"):
                    cluster = sides[name]
                    idle, stolen = quietness()
                    figures = load(cluster.leader(), cluster, command="get", choose=choose, keys=keys, clients=clients,
                                   warm=f"{max(2.0, 10 * bench.scale):.0f}s", time="15s", seed=repeat + 1)
                    if figures["absent"]:
                        raise BenchError(f"{figures['absent']} keys were not there")
                    figures |= {"idle_before": idle, "stolen_before": stolen}
                    measured[name].append(figures)
                    bench.say(f"  [idle {idle:3.0f} %] {name:7} {choose:8} {latency_text(figures)}")
                    bench.say(f"      {figures['bounds_text']}")
                    bench.record("resident", f"{name}-{choose}", repeat=repeat, **figures)
            for quantile, aim in (("p50_ms", None), ("p99_ms", target), ("p999_ms", None)):
                pairs = zip(measured["store"], measured["memory"], strict=True)
                ratio = statistics.median(ours[quantile] / theirs[quantile] for ours, theirs in pairs)
                title = f"GET {choose} {quantile.removesuffix('_ms')}, store / all in memory"
                if aim is None:
                    bench.say(f"     {title:58} {ratio:8.2f}×")
                    bench.record("resident", title, ratio=ratio)
                else:
                    bench.judge("resident", title, ratio, aim)
        info = sides["store"].info(sides["store"].leader())
        told = {name: value for name, value in info.items() if re.search("cache|resident|evict|hit", name)}
        bench.say(f"     the store's leader says: {told}")
    finally:
        for cluster in sides.values():
            cluster.stop()


def redis_copy(keys, size):
    """RSS of a redis-server that holds the same keys."""
    require_free_ports([REDIS_PORT], "redis-server")
    folder = WORK / "data" / "redis-rss"
    folder.mkdir(parents=True, exist_ok=True)
    process = start(["redis-server", "--port", REDIS_PORT, "--bind", "127.0.0.1", "--dir", folder, "--save", "",
                     "--appendonly", "no"], "redis-rss.log")
    try:
        node = {"resp": f"127.0.0.1:{REDIS_PORT}"}
        wait_until(lambda: run(["redis-cli", "-p", REDIS_PORT, "ping"], 5).strip() == "PONG", "Redis")
        load(node, command="set", choose="sequential", keys=keys, requests=keys, size=size, clients=8, pipeline=64)
        load(node, command="get", choose="sequential", keys=keys, requests=keys, clients=8, pipeline=64)
        return resident_bytes(process.pid)
    finally:
        stop(process)
        shutil.rmtree(folder, ignore_errors=True)


def rss(bench):
    """Memory per node against redis-server's, everything resident on every node."""
    keys, size = bench.count(1_000_000), 64
    data = keys * (KEY_BYTES + size)
    bench.say(f"  settings: {keys:,} keys × {size} B ({data / 1e6:.0f} MB), quota 4 × that, written once, then read once "
              "at every node, at rest for 20 s; Redis without AOF")
    require_disk(data * 3 * 5)
    theirs = redis_copy(keys, size)
    bench.say(f"  redis-server {theirs / 1e6:8.1f} MB   {theirs / keys:6.1f} B per key")
    bench.record("rss", "redis", bytes=theirs)
    for state in ("memory", "store"):
        cluster = bench.cluster(state, state, 0, 4 * data)
        try:
            cluster.start()
            empty = max(resident_bytes(node["pid"]) for node in cluster.nodes)
            fill(cluster, keys, size)
            cluster.wait_for_quiet()
            written = [resident_bytes(node["pid"]) for node in cluster.nodes]
            for node in cluster.nodes:
                load(node, command="get", choose="sequential", keys=keys, requests=keys, clients=8, pipeline=64)
            busy = [resident_bytes(node["pid"]) for node in cluster.nodes]
            cluster.wait_for_quiet()
            ours = [resident_bytes(node["pid"]) for node in cluster.nodes]
            kinds = memory_kinds(cluster.nodes[0]["pid"])
            leader = cluster.leader()["name"]
        finally:
            cluster.stop()
        names = ", ".join(f"{node['name']}{' (leads)' if node['name'] == leader else ''} {bytes_ / 1e6:.1f}"
                          for node, bytes_ in zip(cluster.nodes, ours, strict=True))
        bench.say(f"  {state:12} {names} MB; empty {empty / 1e6:.1f}, before the reads {max(written) / 1e6:.1f}, "
                  f"after them at once {max(busy) / 1e6:.1f}; "
                  f"of n1: {kinds}")
        bench.record("rss", state, bytes=ours, empty=empty, before_reads=written, after_reads=busy, kinds=kinds)
        ratio = statistics.mean(ours) / theirs
        if state == "store":
            bench.judge("rss", "RSS per node (mean) / redis-server, store", ratio, 1.3)
        else:
            bench.say(f"     {'RSS per node (mean) / redis-server, in memory':58} {ratio:8.2f}×")


def memory_kinds(pid):
    """What a process's RSS consists of, in MB."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        found = dict(line.split(":", 1) for line in file.read().splitlines() if line.startswith("Rss"))
    return {name: round(int(value.split()[0]) / 1024, 1) for name, value in found.items()}


def restart(bench):
    """A node holding 5 GB is killed while it is written to; how long until it answers a GET again."""
    keys, size = bench.count(5_000_000), 1000
    data = keys * (KEY_BYTES + size)
    kills = 10 if bench.scale >= 0.5 else 4
    bench.say(f"  settings: {keys:,} keys × {size} B ({data / 1e9:.2f} GB per node), 3 nodes, SET by 16 clients until the "
              f"kill and after it, {kills} kills, one node after the other; then a GET at that node every 2 ms")
    require_disk(int(data * 3 * 1.7) + (3 << 30))
    cluster = bench.cluster("store", "store", 0, data // 8)
    try:
        cluster.start()
        took = fill(cluster, keys, size)
        held = [folder_bytes(cluster.folder / node["name"] / "store") for node in cluster.nodes]
        bench.say(f"  filled in {took:.0f} s; on disk per node: {', '.join(f'{b / 1e9:.2f}' for b in held)} GB in store")
        times = []
        for kill in range(kills):
            node = cluster.nodes[kill % len(cluster.nodes)]
            leads = node is cluster.leader()
            other = next(n for n in cluster.nodes if n is not node)
            writer = start([BIN / "drive", "gap", "-kind", "resp", "-addrs", other["resp"], "-writers", 16, "-before",
                            "3s", "-after", "4s", "-timeout", "5s"], "restart-writer.log", stdout=subprocess.DEVNULL)
            time.sleep(3)
            cluster.kill(node)
            watch = time.monotonic()
            cluster.restart(node)
            answered = wait_until_served(cluster, node, keys)
            times.append(answered - watch)
            writer.wait()
            stop(writer)
            phases = start_phases(WORK / "logs" / f"dictum-{node['name']}.log")
            bench.say(f"  kill {kill + 1:2} of {node['name']}{' (led)' if leads else ''}: served after {times[-1]:.2f} s; "
                      f"{phases}")
            bench.record("restart", "kill", node=node["name"], led=leads, seconds=times[-1], phases=phases)
            cluster.wait_for_peers()
        bench.say(f"     median {statistics.median(times):.2f} s")
        bench.judge("restart", f"longest of {kills} restarts of {data / 1e9:.1f} GB until served", max(times), 5.0,
                    unit=" s")
    finally:
        cluster.stop()


def wait_until_served(cluster, node, keys):
    """Asks the node for one key after the other until one of them is answered with its value; when that was."""
    host, port = node["resp"].rsplit(":", 1)
    end = time.monotonic() + 120
    attempt = 0
    while time.monotonic() < end:
        cluster.require_running(node)
        try:
            with socket.create_connection((host, int(port)), 1) as connection:
                connection.settimeout(30)
                while True:
                    key = f"key:{attempt * 7919 % keys:012d}"
                    attempt += 1
                    connection.sendall(f"*2\r\n$3\r\nGET\r\n$16\r\n{key}\r\n".encode())
                    answer = connection.recv(65536)
                    if answer.startswith(b"$-1"):
                        raise BenchError(f"{node['name']} answered that {key} is not there")
                    if answer.startswith(b"$"):
                        return time.monotonic()
                    if not answer:
                        break
                    time.sleep(0.002)
        except OSError:
            time.sleep(0.002)
    raise BenchError(f"{node['name']} did not serve within 120 s; see {WORK / 'logs'}")


def start_phases(log):
    """From a node's log of its last start: how long each step took until the next line, where it was 0.05 s or more."""
    lines = log.read_text(errors="replace").splitlines()[-40:]
    begin = max((n for n, line in enumerate(lines) if "reads the journal and" in line), default=0)
    stamps = []
    for line in lines[begin:]:
        found = re.match(r"\S+T(\d+):(\d+):([\d.]+)Z \w+ +(.*)", line)
        if found:
            hours, minutes, seconds, text = found.groups()
            stamps.append((int(hours) * 3600 + int(minutes) * 60 + float(seconds), text[:60]))
    steps = [f"{later[0] - earlier[0]:.2f} s before “{later[1]}”" for earlier, later in itertools.pairwise(stamps)
             if later[0] - earlier[0] >= 0.05]
    return "; ".join(steps[:5])


def compaction(bench):
    """SET as fast as the cluster takes it, for minutes, on the store and in memory."""
    keys, size, clients = bench.count(2_000_000), 256, 64
    minutes = bench.minutes if bench.minutes else max(0.5, 10 * bench.scale)
    bench.say(f"  settings: {keys:,} keys × {size} B, SET uniform at the leader, {clients} clients unpipelined, "
              f"{minutes:g} minutes each, after filling")
    require_disk(keys * (KEY_BYTES + size) * 3 * 5 + (6 << 30))
    measured = {}
    for state in ("memory", "store"):
        cluster = bench.cluster(state, state, 0, keys * (KEY_BYTES + size) // 8)
        try:
            cluster.start()
            fill(cluster, keys, size)
            idle, _ = quietness()
            figures = load(cluster.leader(), cluster, seconds=60 * minutes + 120, command="set", choose="uniform",
                           keys=keys, size=size, clients=clients, warm="5s", time=f"{minutes * 60:.0f}s")
            measured[state] = figures
            bench.say(f"  [idle {idle:3.0f} %] {state:7} {latency_text(figures)}")
            bench.say(f"      longest time without any reply {figures['stall_ms']:.1f} ms (at {figures['stall_at_s']:.0f} "
                      f"s; {figures['stalls']} over 50 ms); {figures['over_50_ms']} replies took over 50 ms; slowest "
                      f"second {figures['slowest_second']:,} op")
            bench.say(f"      {figures['bounds_text']}")
            bench.record("compaction", state, **figures)
        finally:
            cluster.stop()
    ratio = measured["store"]["p999_ms"] / measured["memory"]["p999_ms"]
    rate = measured["store"]["rate"] / measured["memory"]["rate"]
    bench.judge("compaction", "SET p99.9 under full load, store / in memory", ratio, 3.0)
    bench.judge("compaction", "longest time without any reply, store", measured["store"]["stall_ms"], 50.0, unit=" ms")
    bench.say(f"     {'SET rate, store / in memory':58} {rate:8.2f}×")


def catchup(bench):
    """SET as fast as the cluster takes it, while a node that was away takes a snapshot and catches up."""
    keys, size, clients = bench.count(4_000_000), 256, 64
    seconds = max(15, int(90 * bench.scale))
    live = keys * (KEY_BYTES + size)
    bench.say(f"  settings: {keys:,} keys × {size} B ({live / 1e9:.2f} GB), one follower killed, all keys overwritten; then SET uniform at the "
              f"leader, {clients} clients unpipelined, for {seconds} s, and after 3 s the follower comes back; then the same without that")
    require_disk(live * 3 * 4 + (4 << 30))
    cluster = bench.cluster("store", "store", 0, live // 8)
    try:
        cluster.start()
        fill(cluster, keys, size)
        late = cluster.follower()
        cluster.kill(late)
        others = [node for node in cluster.nodes if node is not late]
        load(others[0], seconds=3600, command="set", choose="sequential", keys=keys, requests=keys, size=size, clients=8,
             pipeline=64)
        leader = cluster.leader()
        options = {"command": "set", "choose": "uniform", "keys": keys, "size": size, "clients": clients,
                   "time": f"{seconds}s"}
        parts = [part for name, value in options.items() for part in (f"-{name}", value)]
        loading = subprocess.Popen([str(part) for part in [BIN / "drive", "load", "-addr", leader["resp"], *parts]],
                                   stdout=subprocess.PIPE, text=True)
        try:
            time.sleep(3)
            began = time.monotonic()
            cluster.restart(late)
            level = None
            while loading.poll() is None:
                time.sleep(0.25)
                if level is None and is_level(cluster, leader, late):
                    level = time.monotonic() - began
            beside = json.loads(loading.stdout.read())
        finally:
            loading.kill()
            loading.wait()
        log = (WORK / "logs" / f"dictum-{late['name']}.log").read_text(errors="replace")
        snapshots = log[log.rindex("recovered from"):].count("has the state of position")
        bench.say(f"  beside it: {latency_text(beside)}; {beside['stalls']} stalls over 50 ms")
        if not snapshots:
            raise BenchError("the follower took no snapshot: what it lacked was still in the log")
        if level is None:
            raise BenchError(f"after {seconds} s under load and {snapshots} snapshots the follower had not caught up")
        bench.say(f"  the follower was level after {level:.1f} s and {snapshots} snapshot(s)")
        cluster.wait_for_peers()
        alone = load(leader, cluster, **options)
        bench.say(f"  without it: {latency_text(alone)}; longest time without any reply {alone['stall_ms']:.1f} ms")
        bench.record("catchup", "beside", seconds_until_level=level, snapshots=snapshots, **beside)
        bench.record("catchup", "without", **alone)
        bench.judge("catchup", "longest time without any reply while a node catches up", beside["stall_ms"], 50.0,
                    unit=" ms")
        bench.judge("catchup", "snapshots that it takes", snapshots, 1, unit="")
    finally:
        cluster.stop()


def is_level(cluster, leader, late):
    """Whether a node lacks no more than what is decided while it is asked."""
    cluster.require_running(late)
    try:
        first, second = cluster.info(late), cluster.info(leader)
        return int(second["dictum_decided"]) - int(first["dictum_applied"]) < 5000
    except (BenchError, KeyError):
        return False


def amplification(bench):
    """What three full overwrites write to the disk, and what they leave on it."""
    keys, size, clients = bench.count(2_000_000), 256, 256
    live, rounds = keys * (KEY_BYTES + size), 3
    bench.say(f"  settings: {keys:,} keys × {size} B ({live / 1e6:.0f} MB live), filled, then overwritten {rounds} times, "
              f"each time in another order, by {clients} clients unpipelined; until the disk is quiet")
    require_disk(live * 3 * 4 + (4 << 30))
    cluster = bench.cluster("store", "store", 0, live // 8)
    try:
        cluster.start()
        fill(cluster, keys, size)
        cluster.wait_for_quiet()
        before = [input_output(node["pid"]) for node in cluster.nodes]
        threads = [written_by_thread(node["pid"]) for node in cluster.nodes]
        for turn in range(rounds):
            figures = load(cluster.leader(), cluster, seconds=3600, command="set", choose="shuffled", keys=keys,
                           size=size, requests=keys, clients=clients, seed=turn + 1, time="1h", errors_allowed=0.02)
            if figures["errors"]:
                bench.say(f"  {figures['errors']} of the answers were errors, such as {figures['first_error'][:100]}")
            bench.say(f"  overwrite {turn + 1}: {latency_text(figures)}; on disk "
                      + ", ".join(f"{folder_bytes(cluster.folder / n['name'] / 'store') / live:.2f}" for n in cluster.nodes)
                      + " × the live data")
            bench.say(f"      {figures['bounds_text']}")
        cluster.wait_for_peers(120)
        cluster.wait_for_quiet()
        user = rounds * live
        writes, spaces = [], []
        for node, first, by_thread in zip(cluster.nodes, before, threads, strict=True):
            now = input_output(node["pid"])
            total = now["write_bytes"] - first["write_bytes"]
            cancelled = now["cancelled_write_bytes"] - first["cancelled_write_bytes"]
            parts = {name: bytes_ - by_thread.get(name, 0) for name, bytes_ in written_by_thread(node["pid"]).items()}
            parts["ended threads"] = total - sum(parts.values())
            store = folder_bytes(cluster.folder / node["name"] / "store")
            journals = folder_bytes(cluster.folder / node["name"] / "store", ".jnl")
            whole = folder_bytes(cluster.folder / node["name"])
            writes.append(total / user)
            spaces.append(store / live)
            shares = ", ".join(f"{name} {bytes_ / user:.2f}" for name, bytes_ in sorted(parts.items(), key=lambda i: -i[1])
                               if abs(bytes_) > user / 100)
            bench.say(f"  {node['name']}: written {total / user:.2f} × the user's bytes (by thread: {shares}; removed "
                      f"before it reached the disk: {cancelled / user:.2f}); store {store / live:.2f} × the live data "
                      f"(its journal {journals / live:.2f}), all files {whole / live:.2f} ×")
            bench.record("amplification", node["name"], written=total, cancelled=cancelled, user=user, parts=parts,
                         store=store, journals=journals, folder=whole, live=live)
        bench.judge("amplification", "written / user's bytes, the most of the nodes", max(writes), 12.0)
        bench.judge("amplification", "store on disk / live data, the most of the nodes", max(spaces), 1.6)
    finally:
        cluster.stop()


def ephemeral(bench):
    """SET into a bucket kept in memory only against one on disk, in the same cluster."""
    size, clients, keys = 256, 256, 100_000
    bench.say(f"  settings: {keys:,} keys × {size} B, SET uniform at the leader, {clients} clients unpipelined, in turns")
    cluster = bench.cluster("store", "store")
    try:
        cluster.start()
        leaders = {}
        for kind in ("persistent", "ephemeral"):
            made = subprocess.run([bench.program, "bucket", "create", f"bench-{kind}", "--kind", kind, "--at",
                                   cluster.nodes[0]["resp"]], capture_output=True, text=True, check=False)
            if made.returncode != 0:
                raise Skip(f"this dictum makes no {kind} bucket: {(made.stderr or made.stdout).strip()[:200]}")
            leaders[kind] = cluster.leader(f"bench-{kind}")
            bench.say(f"  bench-{kind}: the load goes to {leaders[kind]['name']}")
        rates = {"persistent": [], "ephemeral": []}
        for repeat in range(bench.repeat):
            for kind in ("persistent", "ephemeral") if repeat % 2 == 0 else ("ephemeral", "persistent"):
                idle, _ = quietness()
                figures = load(leaders[kind], cluster, command="set", choose="uniform", keys=keys, size=size,
                               clients=clients, warm="2s", time=f"{max(3.0, 10 * bench.scale):.0f}s",
                               select=f"bench-{kind}")
                rates[kind].append(figures["rate"])
                bench.say(f"  [idle {idle:3.0f} %] {kind:10} {latency_text(figures)}")
                bench.say(f"      {figures['bounds_text']}")
                bench.record("ephemeral", kind, repeat=repeat, **figures)
        ratio = statistics.median(a / b for a, b in zip(rates["ephemeral"], rates["persistent"], strict=True))
        bench.judge("ephemeral", "SET, ephemeral / persistent", ratio, 1.1, lower_is_better=False)
    finally:
        cluster.stop()


def hits(bench):
    """Hit ratios of the cache policies against the library's own, by an example of the room `storage`."""
    examples = sorted((ROOT / "storage" / "examples").glob("*hit*.rs"))
    if not examples:
        raise Skip("storage/examples has no example about hit ratios")
    name = examples[0].stem
    bench.say(f"  cargo run --release -p storage --example {name}")
    text = run(["cargo", "run", "--release", "-q", "-p", "storage", "--example", name], 3600, cwd=ROOT)
    for line in text.splitlines():
        bench.say(f"  {line}")
    largest = re.search(r"largest difference: ([0-9.]+) points", text)
    if largest is None:
        raise BenchError(f"{name} printed no “largest difference: … points”")
    bench.judge("hits", "hit ratio, largest difference to the library's own", float(largest.group(1)), 1.0,
                unit=" points")
    bench.record("hits", name, text=text)


ROWS = {"resident": resident, "rss": rss, "restart": restart, "compaction": compaction, "catchup": catchup,
        "amplification": amplification, "ephemeral": ephemeral, "hits": hits}
