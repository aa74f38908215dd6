"""The command line of bench/members, and what it measures."""

import argparse
import asyncio
import json
import statistics
import time

from . import install, machine
from .cluster import Cluster, folder_bytes, port_of
from .partition_run import make_bucket
from .ending import conclude
from .ending import run as run_bench
from .run import describe, say
from .watchers import Watch, keys_of_all

EPILOG = """\
Three nodes, a bucket of 64 partitions, and a client for each partition that writes one key every 10 ms, spread over the nodes. What a write takes counts from
when it was due, with all that its client tries meanwhile.
kill   kill -9 of a node, which leads a third of the partitions: the longest write, median of all kills ≤ 1.0 s.
drain  a node is drained and promoted again: the longest write ≤ 50 ms, no errors.
grow   a fourth node joins a cluster with data (--megabytes of values for all keys together): how long until it has its share, and p99 meanwhile ≤ 3× of before.

Examples:
  bench/members                                    all rows
  bench/members --rows kill --repeat 3
  bench/members --rows grow --megabytes 5000

Rows: kill drain grow."""

PARTITIONS = 64
PACE = 0.01
KILL_SECONDS_MAX = 1.0
DRAIN_SECONDS_MAX = 0.05
GROW_RATIO_MAX = 3.0
ROWS = ["kill", "drain", "grow"]


def parse(arguments):
    """Reads the options."""
    parser = argparse.ArgumentParser(prog="bench/members", epilog=EPILOG,
                                     description="Measures what clients notice when nodes are killed, drained, or join.",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", metavar="ROWS", help="rows, separated by commas (default: all)")
    parser.add_argument("--repeat", type=int, default=10, help="kills, and drains (default 10)")
    parser.add_argument("--megabytes", type=int, default=1000, help="data before a node joins (default 1000)")
    parser.add_argument("--dictum", metavar="FILE", help="a built dictum; default: cargo builds it")
    parser.add_argument("--base-port", type=int, default=28601, help="first port of Dictum's nodes (default 28601)")
    parser.add_argument("--require", action="store_true", help="exit with 1 unless every target is reached")
    options = parser.parse_args(arguments)
    options.rows = options.rows.split(",") if options.rows else ROWS
    for name in options.rows:
        if name not in ROWS:
            parser.error(f"no row {name!r}; there are {', '.join(ROWS)}")
    return options


def listed(program, cluster):
    """What `dictum node list` says, by name; of a node that answers."""
    for node in cluster.nodes:
        try:
            answer = json.loads(machine.run([program, "node", "list", "--json", "--at", node["resp"]], 20))
        except machine.BenchError:
            continue
        nodes = answer["nodes"] if isinstance(answer, dict) else answer
        return {node["name"]: node for node in nodes}
    raise machine.BenchError("no node answers")


def evened(program, cluster, names):
    """Whether leaderships and votes are spread over these nodes."""
    nodes = listed(program, cluster)
    if any(name not in nodes or nodes[name]["seen"] != "up" for name in names):
        return False
    for what in ("leads", "votes"):
        counts = [nodes[name][what] for name in names]
        if max(counts) - min(counts) > 2:
            return False
    return True


def watched(cluster, number, during, pace=PACE):
    """Runs `during` while clients write. The watch."""
    watch = Watch(cluster.nodes, number, keys_of_all(PARTITIONS), pace)
    watch.result = asyncio.run(watch.run(during))
    return watch


def kills(program, cluster, number, options, results):
    """`kill -9`, again and again, of whoever leads most."""
    names = [node["name"] for node in cluster.nodes]
    longest = []
    for turn in range(options.repeat):
        machine.wait_until(lambda: evened(program, cluster, names), "leaderships to be spread", 120)
        node = cluster.nodes[turn % len(cluster.nodes)]
        leads = listed(program, cluster)[node["name"]]["leads"]
        moment = []

        def strike(victim=node, moment=moment):
            time.sleep(2.0)
            moment.append(time.monotonic())
            cluster.kill(victim)
            time.sleep(4.0)

        watch = watched(cluster, number, strike)
        # A write that was under way counts, too.
        took = watch.longest(moment[0] - 0.1, moment[0] + 3.5)
        before = watch.longest(0, moment[0] - 0.1)
        say(f"  kill {turn + 1:2}: {node['name']} led {leads}; the longest write {1000 * took:.0f} ms "
            f"(before: {1000 * before:.0f} ms), errors {len(watch.errors)}")
        longest.append(took)
        results.append({"row": "kill", "led": leads, "longest": took, "before": before, "errors": watch.errors[:5]})
        cluster.restart(node)
    median = statistics.median(longest)
    return "kill", f"longest write, median {median:.2f} s", f"≤ {KILL_SECONDS_MAX} s", median <= KILL_SECONDS_MAX


def drains(program, cluster, number, options, results):
    """A node is drained, and promoted again."""
    names = [node["name"] for node in cluster.nodes]
    longest, errors = [], 0
    for turn in range(options.repeat):
        machine.wait_until(lambda: evened(program, cluster, names), "leaderships to be spread", 120)
        node = cluster.nodes[turn % len(cluster.nodes)]
        other = cluster.nodes[(turn + 1) % len(cluster.nodes)]
        moments = []

        def strike(victim=node, at=other, moments=moments):
            time.sleep(1.5)
            moments.append(time.monotonic())
            machine.run([program, "node", "drain", victim["name"], "--at", at["resp"]], 60)
            moments.append(time.monotonic())
            time.sleep(0.5)
            machine.run([program, "node", "promote", victim["name"], "--at", at["resp"]], 60)

        watch = watched(cluster, number, strike)
        took, before = watch.longest(moments[0] - 0.05, moments[1] + 0.4), watch.longest(0, moments[0] - 0.05)
        say(f"  drain {turn + 1:2}: {node['name']}, {moments[1] - moments[0]:.2f} s; the longest write {1000 * took:.1f} ms "
            f"(before: {1000 * before:.1f} ms), errors {len(watch.errors)}")
        longest.append(took)
        errors += len(watch.errors)
        results.append({"row": "drain", "longest": took, "before": before, "errors": watch.errors[:5]})
    median = statistics.median(longest)
    return ("drain", f"longest write, median {1000 * median:.0f} ms, of all {1000 * max(longest):.0f}; {errors} errors",
            f"≤ {1000 * DRAIN_SECONDS_MAX:.0f} ms", median <= DRAIN_SECONDS_MAX and errors == 0)


def grow(program, cluster, number, options, results):
    """A fourth node joins."""
    value = 4096
    machine.run(["redis-benchmark", "-p", port_of(cluster.nodes[0]), "--dbnum", number, "-t", "set", "-d", value, "-c", 32, "-P", 8,
                 "-r", 10**9, "-n", options.megabytes * 10**6 // value, "-q"], 3600)
    cluster.wait_for_peers()
    machine.quietness(2.0, 60)
    folder = cluster.folder / "n4"
    ports = [cluster.base_port + offset + cluster.count for offset in (0, 1000, 2000)]
    machine.require_free_ports(ports, "a fourth node")
    at = cluster.nodes[0]
    token = machine.run([program, "node", "token", "--at", at["resp"]], 20).split()[0]
    peer = f"127.0.0.1:{cluster.base_port + 2000}"
    words = [program, "start", "--node", "n4", "--join", peer, "--token", token, "--dir", folder]
    secret = cluster.folder / "cluster.secret"
    words += ["--cluster-secret", secret] if secret.exists() else []
    for flag, port in zip(("--resp", "--http", "--peer"), ports):
        words += [flag, f"127.0.0.1:{port}"]
    names = [node["name"] for node in cluster.nodes] + ["n4"]
    moments = []

    def strike():
        time.sleep(20.0)
        moments.append(time.monotonic())
        cluster.restarted["n4"] = machine.start(words, "dictum-n4.log", env=cluster.environment)
        machine.wait_until(lambda: evened(program, cluster, names), "the fourth node to have its share", 3600)
        moments.append(time.monotonic())

    watch = watched(cluster, number, strike, 5 * PACE)
    began, ended = moments
    before, during = watch.percentile(0.99, began - 15, began), watch.percentile(0.99, began, ended)
    size = folder_bytes(folder) / 1e6
    ratio = during / before
    say(f"  grow: {options.megabytes} MB; the fourth node has its share ({size:.0f} MB on its disk) after {ended - began:.1f} s; p99 {1000 * before:.1f} ms "
        f"before, {1000 * during:.1f} ms meanwhile; longest {1000 * watch.longest(began, ended):.0f} ms, errors {len(watch.errors)}")
    results.append({"row": "grow", "megabytes": options.megabytes, "seconds": ended - began, "before": before, "during": during})
    return ("grow", f"{options.megabytes} MB in {ended - began:.0f} s, p99 {ratio:.2f}× of before, {len(watch.errors)} errors",
            f"≤ {GROW_RATIO_MAX:.0f}×", ratio <= GROW_RATIO_MAX and not watch.errors)


def compare(options):
    """Prepares, measures, and writes what was found."""
    install.redis(say)
    program = install.dictum(say, options.dictum)
    about, results, marks = describe(), [], []
    free, stolen = machine.quietness(2.0)
    say(f"{about['processors']} processors, kernel {about['kernel']}; idle {free:.0f} %, stolen {stolen:.0f} %")
    for name, row in (("kill", kills), ("drain", drains), ("grow", grow)):
        if name not in options.rows:
            continue
        cluster = Cluster(program, options.base_port, settings={})
        cluster.start()
        try:
            number = make_bucket(program, cluster, "many", PARTITIONS)
            marks.append(row(program, cluster, number, options, results))
        finally:
            cluster.stop()
    conclude("members", about, results, marks, options.require)


def main():
    """Runs the bench."""
    run_bench("members", parse, compare)
