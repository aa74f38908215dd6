"""The command line of bench/partitions, and what it measures."""

import argparse
import csv
import io
import json
import os
import statistics
import time

from . import install, machine
from .cluster import Cluster, port_of
from .ending import conclude
from .ending import run as run_bench
from .run import describe, say

EPILOG = """\
Speed: SET and GET of 256 bytes under 100,000 keys by redis-benchmark, in a bucket of many partitions (--partitions) and in one of
one, in the same cluster, in turns; the load goes to the node that leads the one. Each many/one ≥ 0.9×.
Idle: three nodes with a bucket of 1,024 partitions on which nothing is asked. Processor time of a node ≤ 1 % of one processor, memory of
a replica ≤ 64 KiB: what the nodes' resident memory grew by when the bucket was made, by replica.

Examples:
  bench/partitions                                 everything, 3 repeats
  bench/partitions --rows set256,get256 --partitions 8
  bench/partitions --rows idle --seconds 60

Rows: set1 set256 set50x16 get256 get50x16 idle."""

KEYS = 100_000
VALUE_BYTES = 256
# Name, command, clients, pipeline, requests.
SPEED = [
    ("set1", "set", 1, 1, 10_000),
    ("set256", "set", 256, 1, 150_000),
    ("set50x16", "set", 50, 16, 500_000),
    ("get256", "get", 256, 1, 300_000),
    ("get50x16", "get", 50, 16, 2_000_000),
]
IDLE_PARTITIONS = 1024
RATIO_MIN = 0.9
PROCESSOR_PERCENT_MAX = 1.0
REPLICA_BYTES_MAX = 64 * 1024


def parse(arguments):
    """Reads the options."""
    parser = argparse.ArgumentParser(prog="bench/partitions", epilog=EPILOG,
                                     description="Measures what many partitions cost beside one.",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", metavar="ROWS", help="rows, separated by commas (default: all)")
    parser.add_argument("--repeat", type=int, default=3, help="repeats of every row of speed (default 3)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the operations of every run (default 1)")
    parser.add_argument("--partitions", type=int, default=64, help="how many partitions (default 64)")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long idle nodes are watched (default 30)")
    parser.add_argument("--dictum", metavar="FILE", help="a built dictum; default: cargo builds it")
    parser.add_argument("--base-port", type=int, default=28501, help="first port of Dictum's nodes (default 28501)")
    parser.add_argument("--require", action="store_true", help="exit with 1 unless every target is reached")
    options = parser.parse_args(arguments)
    known = [row[0] for row in SPEED] + ["idle"]
    options.rows = options.rows.split(",") if options.rows else known
    for name in options.rows:
        if name not in known:
            parser.error(f"no row {name!r}; there are {', '.join(known)}")
    return options


def make_bucket(program, cluster, name, partitions):
    """Makes a bucket; its number for SELECT. It is ready when every partition has taken a write."""
    at = cluster.nodes[0]["resp"]
    made = machine.run([program, "bucket", "create", name, "--partitions", partitions, "--json", "--at", at], 60)
    number = json.loads(made)["number"]
    machine.wait_until(lambda: "error" not in machine.run(
        ["redis-cli", "-p", port_of(cluster.leader()), "-n", number, "flushdb"], 30).lower(), f"the bucket {name}")
    return number


def load(port, number, row, scale):
    """One run of redis-benchmark: operations per second and p50 in milliseconds."""
    _, test, clients, pipeline, requests = row
    text = machine.run(["redis-benchmark", "-h", "127.0.0.1", "-p", port, "--dbnum", number, "-t", test, "-c", clients, "-P",
                        pipeline, "-n", max(1000, int(requests * scale)), "-r", KEYS, "-d", VALUE_BYTES, "--csv"], seconds=300)
    figures = [line for line in csv.reader(io.StringIO(text)) if len(line) == 8 and line[0] != "test"]
    if not figures:
        raise machine.BenchError(f"redis-benchmark printed no figures:\n{text[-500:]}")
    return float(figures[-1][1]), float(figures[-1][4])


def speed(program, options, results):
    """Rows of speed: both buckets in one cluster, in turns."""
    rows = [row for row in SPEED if row[0] in options.rows]
    if not rows:
        return
    cluster = Cluster(program, options.base_port, settings={})
    cluster.start()
    try:
        buckets = {"one": 0, "many": make_bucket(program, cluster, "many", options.partitions)}
        port = port_of(cluster.leader())
        for number in buckets.values():
            load(port, number, ("", "set", 50, 16, 400_000), 1.0)
        cluster.let_flush()
        for repeat in range(options.repeat):
            say(f"repeat {repeat + 1} of {options.repeat}")
            for row in rows:
                for name in list(buckets)[::1 if repeat % 2 == 0 else -1]:
                    machine.quietness(1.0, 20)
                    rate, p50 = load(port, buckets[name], row, options.scale)
                    say(f"  {row[0]:9} {name:5} {rate:11,.0f} op/s  p50 {p50:.3f} ms")
                    results.append({"repeat": repeat, "row": row[0], "bucket": name, "rate": rate, "p50_ms": p50})
    finally:
        cluster.stop()


def processor_seconds(pid):
    """Processor time of a process, all threads, in seconds."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid):
    """Resident memory of a process."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def idle(program, options, results):
    """Nodes with many partitions that nobody asks anything."""
    cluster = Cluster(program, options.base_port, settings={})
    cluster.start()
    try:
        pids = [node["pid"] for node in cluster.nodes]
        machine.quietness(2.0, 30)
        before = [resident_bytes(pid) for pid in pids]
        make_bucket(program, cluster, "idle", IDLE_PARTITIONS)
        machine.quietness(2.0, 60)
        grown = [resident_bytes(pid) - was for pid, was in zip(pids, before)]
        began, was = time.monotonic(), [processor_seconds(pid) for pid in pids]
        time.sleep(options.seconds)
        passed = time.monotonic() - began
        percent = [100 * (processor_seconds(pid) - then) / passed for pid, then in zip(pids, was)]
        say(f"  idle      {IDLE_PARTITIONS} partitions: " + ", ".join(f"{it:.2f} %" for it in percent) + " of a processor; " +
            ", ".join(f"{it / IDLE_PARTITIONS / 1024:.1f} KiB" for it in grown) + " for a replica")
        results.append({"row": "idle", "percent": percent, "replica_bytes": [it / IDLE_PARTITIONS for it in grown]})
    finally:
        cluster.stop()


def judged(results, rows):
    """What each row came to, what it must, and whether it does."""
    marks = []
    for name, *_ in SPEED:
        both = [[r["rate"] for r in results if r["row"] == name and r.get("bucket") == bucket] for bucket in ("many", "one")]
        if name in rows and all(both):
            ratio = statistics.median(many / one for many, one in zip(*both))
            marks.append((name, f"many against one {ratio:5.2f}×", f"≥ {RATIO_MIN}×", ratio >= RATIO_MIN))
    for found in (r for r in results if r["row"] == "idle"):
        percent, size = max(found["percent"]), max(found["replica_bytes"])
        marks.append(("idle", f"processor {percent:.2f} %", f"≤ {PROCESSOR_PERCENT_MAX} %", percent <= PROCESSOR_PERCENT_MAX))
        marks.append(("idle", f"memory {size / 1024:.1f} KiB", f"≤ {REPLICA_BYTES_MAX // 1024} KiB", size <= REPLICA_BYTES_MAX))
    return marks


def compare(options):
    """Prepares, measures, and writes what was found."""
    install.redis(say)
    program = install.dictum(say, options.dictum)
    about, results = describe(), []
    free, stolen = machine.quietness(2.0)
    say(f"{about['processors']} processors, kernel {about['kernel']}; idle {free:.0f} %, stolen {stolen:.0f} %")
    speed(program, options, results)
    if "idle" in options.rows:
        idle(program, options, results)
    marks = judged(results, options.rows)
    conclude("partitions", about, results, marks, options.require)


def main():
    """Runs the bench."""
    run_bench("partitions", parse, compare)
