"""The command line of bench/workers, and what it measures."""

import argparse
import json
import os
import shutil
import statistics
import time
from pathlib import Path

from . import install, machine
from .cluster import FLUSH_AFTER
from .ending import conclude
from .ending import run as run_bench
from .partition_run import KEYS, VALUE_BYTES, load, processor_seconds
from .run import describe, say

EPILOG = """\
Machines (`dictum start --workers N`) that are a cluster of their own, one or --machines, and a bucket of 64 partitions: SET and GET of 256 bytes
under 100,000 keys by redis-benchmark, through the port that the first machine's workers share. Where there are processors enough, the busiest
worker is what limits all: so each figure is the busiest worker's processor time for an operation of the whole cluster, and the ratio is what it
is with the first number of workers by that. All workers together take more than one does: a command that comes to another worker than its
partition's is carried there, and where they share processors turns are smaller.
  set256, get256          256 clients, one command at a time
  set50x16, get50x16      50 clients, 16 commands at a time
No targets; the rates that redis-benchmark counts are told as well, and mean something where processors are left over.

Examples:
  bench/workers                                    1, 2 and 4 workers, 3 repeats
  bench/workers --machines 3 --workers 1,2

Rows: set256 get256 set50x16 get50x16."""

PARTITIONS = 64
BUCKET = "many"
# Name, command, clients, pipeline, requests.
ROWS = [
    ("set256", "set", 256, 1, 150_000),
    ("get256", "get", 256, 1, 300_000),
    ("set50x16", "set", 50, 16, 500_000),
    ("get50x16", "get", 50, 16, 1_500_000),
]


def parse(arguments):
    """Reads the options."""
    parser = argparse.ArgumentParser(prog="bench/workers", epilog=EPILOG, description="Measures what a machine gains by several worker loops.",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", metavar="ROWS", help="rows, separated by commas (default: all)")
    parser.add_argument("--workers", metavar="COUNTS", default="1,2,4", help="how many workers, separated by commas (default 1,2,4)")
    parser.add_argument("--machines", type=int, default=1, help="how many machines there are, with three voters at the most (default 1)")
    parser.add_argument("--repeat", type=int, default=3, help="repeats of every row (default 3)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the operations of every run (default 1)")
    parser.add_argument("--dictum", metavar="FILE", help="a built dictum; default: cargo builds it")
    parser.add_argument("--base-port", type=int, default=28701, help="first port of the workers (default 28701)")
    options = parser.parse_args(arguments)
    known = [row[0] for row in ROWS]
    options.rows = options.rows.split(",") if options.rows else known
    for name in options.rows:
        if name not in known:
            parser.error(f"no row {name!r}; there are {', '.join(known)}")
    options.workers = [int(count) for count in options.workers.split(",")]
    return options


class Machines:
    """Machines of some workers each on empty folders, with the bucket in them."""

    def __init__(self, program, base_port, machines, workers):
        self.program, self.port, self.machines, self.workers = program, base_port, machines, workers
        self.folder = machine.WORK / "data" / f"workers-{workers}"
        self.processes = []

    def start(self):
        """Starts them; returns when every worker leads its share of the partitions."""
        shutil.rmtree(self.folder, ignore_errors=True)
        places = range(0, 20 * self.machines, 20)
        machine.require_free_ports([self.port + place + offset for place in places for offset in [0] + [
            first + worker for first in (500, 1000) for worker in range(self.workers)]], "Dictum")
        environment = {k: v for k, v in os.environ.items() if not k.startswith("DICTUM_")}
        cluster = ",".join(f"n{number}=127.0.0.1:{self.port + 1000 + place}" for number, place in enumerate(places, 1))
        for number, place in enumerate(places, 1):
            self.processes.append(machine.start(
                [self.program, "start", "--node", f"n{number}", "--cluster", cluster, "--workers", self.workers, "--io-threads", 1, "--resp",
                 f"127.0.0.1:{self.port + place}", "--http", f"127.0.0.1:{self.port + 500 + place}", "--dir", self.folder / f"n{number}"],
                f"workers-{self.workers}-{number}.log", env=environment))
        machine.wait_until(lambda: len(self.list()) == self.machines * self.workers, "the workers")
        make = [self.program, "bucket", "create", BUCKET, "--partitions", PARTITIONS, "--at", f"127.0.0.1:{self.port}"]
        # A majority of the council has to be up, which grows just now.
        machine.wait_until(lambda: machine.run(make, 60), "the bucket")

        def has_settled():
            nodes = self.list()
            leads = [node["leads"] for node in nodes]
            return sum(leads) == PARTITIONS + 2 and max(leads) - min(leads) <= 3 and not any(node["bytes_to_send"] for node in nodes)

        machine.wait_until(has_settled, "the partitions to be spread", 60)

    def list(self):
        """All nodes that are up."""
        listed = json.loads(machine.run([self.program, "node", "list", "--json", "--at", f"127.0.0.1:{self.port}"], 30))
        return [node for node in listed if node["seen"] == "up"]

    def times(self):
        """Processor seconds of each worker."""
        pids = [process.pid for process in self.processes]
        if self.workers > 1:
            pids = [pid for parent in pids for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
        return {pid: processor_seconds(pid) for pid in pids}

    def stop(self):
        """Ends them and removes their data."""
        for process in self.processes:
            machine.stop(process)
        shutil.rmtree(self.folder, ignore_errors=True)


def measure(server, row, options):
    """One row: what the workers took for an operation, in microseconds, and the rate."""
    machine.quietness(1.0, 20)
    before = server.times()
    rate, _ = load(server.port, 1, row, options.scale)
    took = [seconds - before[pid] for pid, seconds in server.times().items()]
    operations = max(1000, int(row[4] * options.scale))
    return {"row": row[0], "workers": server.workers, "busiest": max(took) * 1e6 / operations, "all": sum(took) * 1e6 / operations, "rate": rate}


def compare(options):
    """Prepares, measures, and writes what was found."""
    install.redis(say)
    program = install.dictum(say, options.dictum)
    about, results = describe(), []
    for workers in options.workers:
        server = Machines(program, options.base_port, options.machines, workers)
        try:
            server.start()
            load(server.port, 1, ("", "set", 50, 16, 400_000), 1.0)
            # The first flush makes the files of each partition, and all connections that follow find it done.
            time.sleep(FLUSH_AFTER + 3)
            for _ in range(options.repeat):
                for row in (row for row in ROWS if row[0] in options.rows):
                    results.append(measure(server, row, options))
                    say("  {row:9} {workers:2} workers: the busiest {busiest:5.2f} µs, all {all:6.2f} µs an operation; {rate:9,.0f}/s".format(
                        **results[-1]))
        finally:
            server.stop()
    marks = []
    for row in options.rows:
        of = {workers: statistics.median(r["busiest"] for r in results if r["row"] == row and r["workers"] == workers)
              for workers in options.workers}
        first = of[options.workers[0]]
        text = ", ".join(f"{workers}: {busiest:.2f} µs ({first / busiest:.2f}×)" for workers, busiest in of.items())
        marks.append((row, text, "", True))
    conclude("workers", about, results, marks, require=False)


def main():
    """Runs the bench."""
    run_bench("workers", parse, compare)
