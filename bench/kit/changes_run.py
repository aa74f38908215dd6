"""The command line of bench/changes, and what it measures."""

import argparse
import re
import socket
import statistics
import threading
import time

from . import install, machine
from .cluster import Cluster, port_of
from .ending import conclude
from .ending import run as run_bench
from .hostile import words
from .partition_run import SPEED, load
from .run import describe, say

EPILOG = """\
Starts two clusters of three nodes with 100,000 keys of 256 bytes each. Nobody subscribes in the first one. In the second one somebody subscribes to
keys that there are not, so that changes are recorded and nobody is told any. redis-benchmark asks their leaders, in turns.
  set…          what recording costs: the second cluster beside the first
  still-set…    what a subscriber costs who asks for all changes and never reads: the second cluster with it beside the same without it
  told          ten subscribers of all changes at a follower, while redis-benchmark writes: messages that they were sent in a second, all together
  walk          one subscriber of all that is there: keys in a second, until it is live
A ratio is the median of the repeats' ratios; the least and the greatest stand behind it. NATS and etcd are not measured here.

Rows: set256 set50x16 still-set256 still-set50x16 told walk."""

WRITES = {row[0]: row for row in SPEED if row[0] in ("set256", "set50x16")}
LEAST = {"set256": 0.95, "set50x16": 0.95, "still-set256": 0.98, "still-set50x16": 0.98}
ROWS = [*LEAST, "told", "walk"]
SUBSCRIBERS = 10
LIVE = b"dictum.live"


def parse(arguments):
    """Reads the options."""
    parser = argparse.ArgumentParser(prog="bench/changes", epilog=EPILOG,
                                     description="Measures what subscriptions to changes cost, and how fast they are told.",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", metavar="ROWS", help="rows, separated by commas (default: all)")
    parser.add_argument("--repeat", type=int, default=5, help="repeats of every row (default 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the operations of every run (default 1)")
    parser.add_argument("--dictum", metavar="FILE", help="a built dictum; default: cargo builds it")
    parser.add_argument("--base-port", type=int, default=29301, help="first port of the first cluster (default 29301)")
    parser.add_argument("--require", action="store_true", help="exit with 1 unless every target is reached")
    options = parser.parse_args(arguments)
    options.rows = options.rows.split(",") if options.rows else ROWS
    for name in options.rows:
        if name not in ROWS:
            parser.error(f"no row {name!r}; there are {', '.join(ROWS)}")
    if options.repeat < 1:
        parser.error("--repeat is at least 1")
    return options


class Subscriber:
    """A connection that subscribes. It reads the answer, and nothing more unless `until` or `count` is called."""

    def __init__(self, node, *asked):
        self.socket = socket.create_connection(("127.0.0.1", int(port_of(node))), timeout=30)
        self.socket.sendall(words("HELLO", "3") + words("DICTUM.SUBSCRIBE", *asked))
        self.heard, self.messages = bytearray(), 0
        self.until(lambda text: re.search(rb"\*2\r\n:\d+\r\n", text))

    def until(self, found):
        """Reads until something is found; raises when nothing comes for long."""
        while not found(self.heard):
            more = self.socket.recv(1 << 20)
            if not more or more.startswith(b"-"):
                raise machine.BenchError(f"a subscriber is refused: {bytes(self.heard[-200:] + more)}")
            self.heard += more

    def count(self, stops):
        """Counts the changes that come, until it is told to stop."""
        self.socket.settimeout(0.2)
        rest = b""
        while not stops.is_set():
            try:
                more = self.socket.recv(1 << 20)
            except TimeoutError:
                continue
            if not more:
                return
            # A word may have come in two pieces.
            more = rest + more
            self.messages += more.count(b"dictum.change")
            rest = more[-12:]

    def close(self):
        """Ends it."""
        self.socket.close()


def writes(sides, name, options, results):
    """One row of writes: `sides` are names, ports, and what is done around a run. In turns, the second repeat the other way round."""
    row = WRITES[name.removeprefix("still-")]
    for repeat in range(options.repeat):
        for side, port, around in list(sides)[::1 if repeat % 2 == 0 else -1]:
            idle, _ = machine.quietness(1.0, 20)
            guest = around()
            rate, p50 = load(port, 0, row, options.scale)
            if guest:
                guest.close()
            say(f"  {name:15} {side:9} {rate:11,.0f} op/s  p50 {p50:.3f} ms  ({idle:.0f} % idle before)")
            results.append({"row": name, "side": side, "rate": rate, "p50_ms": p50})


def told(cluster, options, results):
    """Ten subscribers at a follower."""
    for _ in range(options.repeat):
        machine.quietness(1.0, 20)
        subscribers = [Subscriber(cluster.follower(), "ALL") for _ in range(SUBSCRIBERS)]
        stops = threading.Event()
        readers = [threading.Thread(target=subscriber.count, args=(stops,)) for subscriber in subscribers]
        for reader in readers:
            reader.start()
        began = time.monotonic()
        rate, _ = load(port_of(cluster.leader()), 0, WRITES["set50x16"], options.scale)
        took = time.monotonic() - began
        messages = sum(subscriber.messages for subscriber in subscribers)
        stops.set()
        for reader in readers:
            reader.join()
        for subscriber in subscribers:
            subscriber.close()
        say(f"  told            {messages / took:11,.0f} messages/s, {rate:,.0f} writes/s")
        results.append({"row": "told", "side": "all", "rate": messages / took, "writes": rate})


def walk(cluster, options, results):
    """Everything that is there."""
    for _ in range(options.repeat):
        machine.quietness(1.0, 20)
        began = time.monotonic()
        subscriber = Subscriber(cluster.follower(), "ALL", "WITH", "STATE")
        subscriber.until(lambda text: LIVE in text[-200:])
        took = time.monotonic() - began
        keys = subscriber.heard.count(b"dictum.state")
        subscriber.close()
        say(f"  walk            {keys / took:11,.0f} keys/s, {keys:,} keys in {took:.2f} s")
        results.append({"row": "walk", "side": "all", "rate": keys / took, "keys": keys, "seconds": took})


def marks_of(options, results):
    """The medians, with what each must be."""
    marks = []
    for row in options.rows:
        sides = {}
        for result in (result for result in results if result["row"] == row):
            sides.setdefault(result["side"], []).append(result["rate"])
        if row in LEAST:
            without = sides.pop("without")
            (beside,) = sides.values()
            ratios = [ours / theirs for ours, theirs in zip(beside, without, strict=True)]
            found = statistics.median(ratios)
            marks.append((row, f"{found:.3f}× ({min(ratios):.3f} … {max(ratios):.3f})", f"≥ {LEAST[row]}×", found >= LEAST[row]))
        else:
            what = "messages/s" if row == "told" else "keys/s"
            marks.append((row, f"{statistics.median(sides['all']):,.0f} {what}", "", True))
    return marks


def compare(options):
    """Starts the clusters, measures, tells."""
    install.redis(say)
    program = install.dictum(say, options.dictum)
    about, results = describe(), []
    plain, recorded = (Cluster(program, options.base_port + 10 * number, name=f"changes-{number}", settings={}) for number in range(2))
    try:
        for cluster in (plain, recorded):
            cluster.start()
            load(port_of(cluster.leader()), 0, ("", "set", 50, 16, 400_000), 1.0)
        listener = Subscriber(recorded.leader(), "PREFIX", "nobody:")
        for cluster in (plain, recorded):
            cluster.let_flush()
        nobody = lambda: None  # noqa: E731
        ports = [port_of(cluster.leader()) for cluster in (plain, recorded)]
        for row in options.rows:
            if row == "told":
                told(recorded, options, results)
            elif row == "walk":
                walk(recorded, options, results)
            elif row.startswith("still-"):
                still = lambda: Subscriber(recorded.leader(), "ALL")  # noqa: E731
                writes([("without", ports[1], nobody), ("still", ports[1], still)], row, options, results)
            else:
                writes([("without", ports[0], nobody), ("recorded", ports[1], nobody)], row, options, results)
        listener.close()
    finally:
        plain.stop()
        recorded.stop()
    conclude("changes", about, results, marks_of(options, results), options.require)


def main():
    """Runs the bench."""
    run_bench("changes", parse, compare)
