"""The command line of bench/soak, and what it measures."""

import argparse
import subprocess
import threading
import time
from pathlib import Path

from . import install, machine
from .cluster import Cluster, port_of, resident_bytes
from .ending import conclude
from .ending import run as run_bench
from .hostile import Hostiles, ask, connect
from .run import describe, say

EPILOG = """\
Three nodes serve redis-benchmark's tests in rounds (SET, GET, INCR, lists, sets, hashes, sorted sets, MSET; 100,000 keys, 256 bytes; 50
clients, every other round with 16 commands at once), while hostile clients do their worst at all nodes (kit/hostile.py says what). One
more client writes a key every 20 ms and reads it back: its longest wait and its failures are told.
Every ten seconds the memory of every node is noted, and who leads under which ballot. At the end: the most that each node had in the last
five minutes, against the most in the first five behind --warm minutes (hostile clients come and go, so one look says little); elections,
and when; failures of the one client; whether all nodes are the processes that were started.

Examples:
  bench/soak                                   an hour
  bench/soak --minutes 5 --warm 2              a look
  bench/soak --rest 2                          the load pauses two seconds for each that it works (the machine is used by others)"""

TESTS = "set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,mset"
# The most that the memory of a node may come to at the end, as a share of the most at the start.
GROWTH_MAX = 1.2
# How many minutes at each end are compared, or a third of the time if that is less; seconds from look to look.
ENDS_MINUTES, LOOK_SECONDS = 5, 10


def parse(arguments):
    """Reads the options."""
    parser = argparse.ArgumentParser(prog="bench/soak", epilog=EPILOG,
                                     description="An hour of mixed load with hostile clients beside it: memory, elections, answers.",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60, help="how long, behind the warming (default 60)")
    parser.add_argument("--warm", type=float, default=5, help="minutes of the same before memory is noted as the start's (default 5)")
    parser.add_argument("--rest", type=float, default=0, help="seconds of pause for each second of load (default 0)")
    parser.add_argument("--dictum", metavar="FILE", help="a built dictum; default: cargo builds it")
    parser.add_argument("--base-port", type=int, default=29701, help="first port of the cluster (default 29701)")
    parser.add_argument("--require", action="store_true", help="exit with 1 unless everything passes")
    return parser.parse_args(arguments)


class Load:
    """redis-benchmark in rounds, at one node after the other."""

    def __init__(self, nodes, rest):
        self.nodes, self.rest, self.rounds, self.failures = nodes, rest, 0, []
        self.ended, self.process = threading.Event(), None
        self.thread = threading.Thread(target=self._go_on, daemon=True)

    def stop(self):
        """Ends what runs: a redis-benchmark whose node is gone goes round in circles for ever."""
        self.ended.set()
        if self.process and self.process.poll() is None:
            self.process.kill()

    def _go_on(self):
        while not self.ended.is_set():
            pipelined = self.rounds % 2
            began = time.monotonic()
            words = ["redis-benchmark", "-p", port_of(self.nodes[self.rounds % len(self.nodes)]), "-q", "-t", TESTS, "-r", "100000", "-d", "256",
                     "-c", "50", "-P", "16" if pipelined else "1", "-n", "50000" if pipelined else "10000"]
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            _, said = self.process.communicate()
            if self.process.returncode != 0 and not self.ended.is_set():
                self.failures.append(said.strip()[-200:])
            self.rounds += 1
            self.ended.wait(self.rest * (time.monotonic() - began))


class Witness:
    """A client that is served like anybody: writes a key, reads it back, and notes how long the slowest pair took."""

    def __init__(self, node):
        self.node, self.longest, self.pairs, self.failures = node, 0.0, 0, []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._go_on, daemon=True)

    def _go_on(self):
        connection = None
        while not self.ended.is_set():
            began = time.monotonic()
            try:
                connection = connection or connect(self.node["resp"])
                text = f"{self.pairs}"
                answers = (ask(connection, "SET", "witness", text), ask(connection, "GET", "witness"))
                if answers != (b"+OK\r\n", b"$%d\r\n%b\r\n" % (len(text), text.encode())):
                    self.failures.append(repr(answers))
            except OSError as problem:
                self.failures.append(str(problem))
                connection = None
            self.longest = max(self.longest, time.monotonic() - began)
            self.pairs += 1
            self.ended.wait(0.02)


def ballots(cluster):
    """Who leads each partition under which ballot, as the first node says."""
    try:
        said = cluster.status(cluster.nodes[0])
    except machine.BenchError:
        # `dictum status` fails while nobody leads.
        return {("any", 0): "nobody"}
    return {(part["name"], part["index"]): part["ballot"] for part in said["partitions"]}


def memory(cluster):
    """What each node has in memory, in bytes; fails if one is not the process that was started."""
    for node in cluster.nodes:
        if not Path(f"/proc/{node['pid']}").exists():
            raise machine.BenchError(f"{node['name']} has ended; see its log below {machine.WORK / 'data'}")
    return [resident_bytes(node["pid"]) for node in cluster.nodes]


def watch(cluster, options, results):
    """Looks until the time is up. Returns what each node had at every look behind the warming, and all ballots seen with their minutes."""
    began = time.monotonic()
    looks, seen = [], {}
    while (passed := (time.monotonic() - began) / 60) < options.warm + options.minutes:
        time.sleep(LOOK_SECONDS)
        now = memory(cluster)
        warming = passed < options.warm
        if not warming:
            looks.append((passed, now))
        for part, ballot in ballots(cluster).items():
            if not warming:
                seen.setdefault(part, {}).setdefault(ballot or "nobody", round(passed, 1))
        say(f"  {passed:5.1f} min  " + "  ".join(f"{bytes_ / 1e6:6.0f} MB" for bytes_ in now) + ("  warming" if warming else ""))
        results.append({"minute": passed, "memory": now})
    return looks, seen


def most_at_the_ends(looks, options):
    """The most that each node had in the first and in the last minutes."""
    share = min(ENDS_MINUTES, options.minutes / 3)
    ends = ([now for minute, now in looks if minute < options.warm + share],
            [now for minute, now in looks if minute >= options.warm + options.minutes - share])
    return [[max(of_one) for of_one in zip(*end)] for end in ends]


def soak(options):
    """Starts, watches, tells."""
    install.redis(say)
    cluster = Cluster(install.dictum(say, options.dictum), options.base_port, name="soak")
    about, results, load = describe(), [], None
    try:
        cluster.start()
        load, witness, hostiles = Load(cluster.nodes, options.rest), Witness(cluster.leader()), Hostiles(cluster.nodes)
        for one in (load.thread, witness.thread, hostiles):
            one.start()
        looks, seen = watch(cluster, options, results)
        witness.ended.set()
        load.ended.set()
        hostiles.stop()
        load.stop()
        load.thread.join(300)
        time.sleep(30)
        after = memory(cluster)
    finally:
        if load:
            load.stop()
        cluster.stop()
    say("")
    for name, rounds in hostiles.rounds.items():
        say(f"  {name}: {rounds} rounds, cut off in {hostiles.cut_off[name]}")
    say(f"  redis-benchmark: {load.rounds} rounds, {len(load.failures)} failed {load.failures[:3]}")
    say(f"  the witness: {witness.pairs} pairs, the longest took {1000 * witness.longest:.0f} ms")
    first, last = most_at_the_ends(looks, options)
    elections = {part: all_ for part, all_ in seen.items() if len(all_) > 1 or "nobody" in all_}
    marks = [(f"{node['name']}: most memory at the end against the start ({before / 1e6:.0f} MB)", f"{end / before:.2f}×",
              f"≤ {GROWTH_MAX}×", end <= GROWTH_MAX * before) for node, before, end in zip(cluster.nodes, first, last)]
    marks += [(f"{node['name']}: memory half a minute after the end", f"{rest / before:.2f}×", "", True)
              for node, rest, before in zip(cluster.nodes, after, first)]
    marks.append(("elections", f"{elections or 'none'}", "none", not elections))
    marks.append(("failures of the witness", f"{len(witness.failures)} {witness.failures[:3] or ''}", "0", not witness.failures))
    marks.append(("failures of redis-benchmark", f"{len(load.failures)}", "0", not load.failures))
    conclude("soak", about, results, marks, options.require)


def main():
    """Runs the bench."""
    run_bench("soak", parse, soak)
