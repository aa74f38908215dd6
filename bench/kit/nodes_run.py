"""The command line of bench/nodes, and what it measures."""

import argparse
import json
import statistics
import time
import urllib.request

from . import install, machine
from .cluster import Cluster, port_of
from .ending import conclude
from .ending import run as run_bench
from .run import describe, say

EPILOG = """\
Processor time of all nodes together (user and system, by /proc) for an operation, at 9 nodes beside 3, both with three voters for each of the
64 partitions of a bucket, with the same load, by `dictum lab run`: SET and GET of 256 bytes under 100,000 keys, clients spread over all nodes.
Nothing is subtracted: pings and timers are in it. Each 9/3 ≤ 1.15×.
  set-rate, get-rate    an open loop: so many operations a second (--rate), Poisson
  set-closed, get-closed   a closed loop: each client waits for its answer (--clients)
  idle                  nobody asks for anything: the share of a processor that all nodes together take; no target
Both clusters run all the time and are asked in turns, the other one idle. Measured when votes, copies and leaders have settled.

Examples:
  bench/nodes                                      everything, 3 repeats
  bench/nodes --rows set-rate,get-rate --nodes 5 --rate 1000
  bench/nodes --hold 600                           starts the clusters, tells their ports and processes, and holds them, for a profiler

Rows: idle set-rate get-rate set-closed get-closed."""

KEYS = 100_000
VALUE_BYTES = 256
FEW, PARTITIONS = 3, 64
BUCKET = "many"
RATIO_MAX = 1.15
ROWS = ["idle", "set-rate", "get-rate", "set-closed", "get-closed"]


def parse(arguments):
    """Reads the options."""
    parser = argparse.ArgumentParser(prog="bench/nodes", epilog=EPILOG, description="Measures what many nodes cost beside three.",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", metavar="ROWS", help="rows, separated by commas (default: all)")
    parser.add_argument("--repeat", type=int, default=3, help="repeats of every row (default 3)")
    parser.add_argument("--nodes", type=int, default=9, help="how many nodes beside 3 (default 9)")
    parser.add_argument("--rate", type=int, default=3000, help="operations a second of the open loop (default 3000)")
    parser.add_argument("--clients", type=int, default=54, help="clients, of both loops (default 54)")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each row is measured (default 10)")
    parser.add_argument("--dictum", metavar="FILE", help="the dictum that is measured; default: cargo builds it")
    parser.add_argument("--lab", metavar="FILE", help="the dictum that measures; default: the one that is measured")
    parser.add_argument("--base-port", type=int, default=28601, help="first port of Dictum's nodes (default 28601)")
    parser.add_argument("--patience", type=float, default=60.0, metavar="SECONDS",
                        help="how long to wait for a quiet machine before each measurement (default 60)")
    parser.add_argument("--hold", type=float, metavar="SECONDS", help="measure nothing; hold the clusters for so long")
    parser.add_argument("--require", action="store_true", help="exit with 1 unless every target is reached")
    options = parser.parse_args(arguments)
    options.rows = options.rows.split(",") if options.rows else ROWS
    for name in options.rows:
        if name not in ROWS:
            parser.error(f"no row {name!r}; there are {', '.join(ROWS)}")
    return options


class Joined(Cluster):
    """A cluster that three nodes have founded and all others have joined."""

    def start(self, nodes):
        """Starts the founders, then those that join, one after the other."""
        super().start()
        for place in range(len(self.nodes), nodes):
            name, base = f"n{place + 1}", self.base_port + place
            at, peer = self.nodes[0]["resp"], self.nodes[0]["peer"]
            token = machine.run([self.program, "node", "token", "--at", at], 30).strip()
            resp, http, own = (f"127.0.0.1:{base + offset}" for offset in (0, 1000, 2000))
            node = {"name": name, "resp": resp, "http": http, "peer": own, "pid": 0,
                    "start": [self.program, "start", "--node", name, "--join", peer, "--token", token, "--resp", resp, "--http", http,
                              "--peer", own, "--dir", self.folder / name]}
            secret = self.folder / "cluster.secret"
            node["start"] += ["--cluster-secret", secret] if secret.exists() else []
            self.nodes.append(node)
            self.restart(node)
            machine.wait_until(lambda: any(listed["name"] == name and listed["seen"] == "up" for listed in self.list()), f"{name} to join")

    def list(self):
        """What the first node says of all nodes."""
        return json.loads(machine.run([self.program, "node", "list", "--json", "--at", self.nodes[0]["resp"]], 30))

    def make_bucket(self):
        """Makes the bucket, and waits until every node has its share of it, and nothing but that."""
        machine.run([self.program, "bucket", "create", BUCKET, "--partitions", PARTITIONS, "--at", self.nodes[0]["resp"]], 60)

        def has_settled():
            listed = self.list()
            votes = sum(node["votes"] for node in listed)
            # Everybody has a copy of the council, with a vote or without; of all else only who votes has one.
            council = len(self.nodes) - min(len(self.nodes), 5)
            leads = [node["leads"] for node in listed]
            return (votes >= FEW * (PARTITIONS + 1) and sum(node["replicas"] for node in listed) - votes == council
                    and sum(leads) == PARTITIONS + 2 and max(leads) - min(leads) <= 3 and not any(n["bytes_to_send"] for n in listed))

        machine.wait_until(has_settled, "votes, copies and leaders to settle", 120)

    def syncs(self):
        """How often the nodes have synced their journals since their starts."""
        total = 0
        for node in self.nodes:
            with urllib.request.urlopen(f"http://{node['http']}/metrics", timeout=10) as answer:
                lines = answer.read().decode().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("dictum_journal_syncs_total"))
        return total


def load(lab, cluster, kind, options, pace):
    """Gives a cluster a load; returns how many operations it was."""
    out = machine.WORK / "nodes.json"
    places = ",".join(node["resp"] for node in cluster.nodes)
    mix = "put=100" if kind == "set" else "get=100"
    machine.run([lab, "lab", "run", "puts-gets", "--target", f"redis://{places}", "--bucket", BUCKET, "--records", KEYS, "--field-bytes",
                 VALUE_BYTES, "--distribution", "uniform", "--mix", mix, "--clients", options.clients, "--allow-saturated", "--quiet",
                 "--out", machine.WORK / "lab", "--export", out, *pace], 600)
    of = json.loads(out.read_text())["record"]["measurements"][0]["operations"]
    return sum(kind["count"] for kind in of.values())


def measure(lab, cluster, row, options):
    """One row of one cluster: microseconds of processor for an operation, in user mode and in the kernel, and what else is to be told."""
    # Whatever else wants the processors makes turns larger and caches colder.
    machine.quietness(0.5, options.patience, 80.0)
    times = machine.processor_times()
    began, user_system, syncs = time.monotonic(), cluster.processor_seconds(), cluster.syncs()
    if row == "idle":
        time.sleep(options.seconds)
        done = 0
    else:
        kind, how = row.split("-")
        pace = ["--rate", options.rate, "--operations", int(options.rate * options.seconds)] if how == "rate" else [
            "--seconds", options.seconds, "--warm-up", 0]
        done = load(lab, cluster, kind, options, [*pace, "--no-load"])
    passed = time.monotonic() - began
    user, system = (now - then for now, then in zip(cluster.processor_seconds(), user_system))
    by = 1e6 / done if done else 100 / passed
    return {"row": row, "nodes": len(cluster.nodes), "cost": (user + system) * by, "user": user * by, "system": system * by, "operations": done,
            "seconds": passed, "idle": machine.share_since(times)[0], "syncs": (cluster.syncs() - syncs) / max(1, done)}


def tell(found):
    """Prints what one measurement came to."""
    if found["row"] == "idle":
        text = f"{found['cost']:7.2f} % of a processor ({found['user']:.2f} + {found['system']:.2f})"
    else:
        text = (f"{found['cost']:7.1f} µs an operation ({found['user']:.1f} + {found['system']:.1f}), {found['syncs']:.2f} syncs, "
                f"{found['operations'] / found['seconds']:,.0f}/s")
    text += f", machine idle {found['idle']:.0f} %"
    say(f"  {found['row']:10} {found['nodes']} nodes {text}")


def judged(results, options):
    """What each row came to, what it must, and whether it does."""
    marks = []
    for row in options.rows:
        few, many = ([r["cost"] for r in results if r["row"] == row and (r["nodes"] == FEW) == is_few] for is_few in (True, False))
        one, other = statistics.median(few), statistics.median(many)
        if row == "idle":
            marks.append((row, f"{one:6.2f} % {other:6.2f} %", "", True))
            continue
        ratio = statistics.median(b / a for a, b in zip(few, many))
        marks.append((row, f"{one:6.1f} µs {other:6.1f} µs {ratio:5.2f}×", f"≤ {RATIO_MAX}×", ratio <= RATIO_MAX))
    return marks


def compare(options):
    """Prepares, measures, and writes what was found."""
    install.redis(say)
    program = install.dictum(say, options.dictum)
    lab = options.lab or program
    about, results = describe(), []
    clusters = [Joined(program, options.base_port, "few"), Joined(program, options.base_port + 100, "many")]
    try:
        for cluster, nodes in zip(clusters, (FEW, options.nodes)):
            cluster.start(nodes)
            cluster.make_bucket()
            say(f"{nodes} nodes have settled: ports from {port_of(cluster.nodes[0])}, processes "
                f"{','.join(str(node['pid']) for node in cluster.nodes)}")
            load(lab, cluster, "get", options, ["--operations", 1000])
            cluster.let_flush()
        if options.hold:
            return time.sleep(options.hold)
        for repeat in range(options.repeat):
            say(f"repeat {repeat + 1} of {options.repeat}")
            for row in options.rows:
                for cluster in clusters[::1 if repeat % 2 == 0 else -1]:
                    results.append(measure(lab, cluster, row, options))
                    tell(results[-1])
    finally:
        for cluster in clusters:
            cluster.stop()
    marks = judged(results, options)
    conclude("nodes", about, results, marks, options.require)
    return None


def main():
    """Runs the bench."""
    run_bench("nodes", parse, compare)
