"""The command line of bench/peers: gets what `dictum lab compare` needs, lets it measure, and holds the ratios against the targets."""

import argparse
import json
import os
import platform
import subprocess
import sys
import time

from . import install, machine
from .rows import OTHERS, TARGETS, judge

SIDES = ["redis", "redis-wait", "etcd", "dictum"]
# Measured only if they are named, because they need Java, Maven and a minute more each. There are no targets against them.
OPTIONAL_SIDES = ["cassandra", "nats"]
# Who does not speak RESP, and how each is installed.
DRIVEN_BY_PEERS = {"etcd": install.etcd, "cassandra": install.cassandra, "nats": install.nats}
ROWS = [*TARGETS, *OTHERS]
EPILOG = f"""\
Examples:
  bench/peers                                          everything, 3 repeats, 10 kills
  bench/peers --only dictum,redis --rows set1,set256   two sides, two rows
  bench/peers --only dictum,etcd --rows kill --kills 4
  bench/peers --only dictum,cassandra,nats --rows set256,get256,ycsb-a
  bench/peers --dictum target/release/dictum --seconds 2 --repeat 1     a quick look
  bench/peers --append bench/history.jsonl             a release, or a run for the record

Rows: {' '.join(ROWS)}.  Sides: {' '.join(SIDES)}; only if they are named: {' '.join(OPTIONAL_SIDES)}.

It is `dictum lab compare` with the project's targets: that starts, fills and drives all sides, and draws the report. Every side
fsyncs for real below bench/work/data, on the same disk, one side at a time; each repeat begins with another side. Compare figures of
one run only, and only if the machine was quiet. Records and reports go to bench/work/results.
On a machine that others use at the same time, root can at least give the processors to the bench first:
  setsid -w sh -c 'echo -15 >/proc/self/autogroup; bench/peers'"""


def say(text):
    """Prints at once, also into a pipe."""
    print(text, flush=True)


def describe():
    """The machine, for the record."""
    return {"processors": os.cpu_count(), "kernel": platform.release(), "system": platform.platform(),
            "load_average": os.getloadavg(), "started": time.strftime("%Y-%m-%dT%H:%M:%S%z")}


def parse(arguments):
    """Reads the options."""
    parser = argparse.ArgumentParser(prog="bench/peers", epilog=EPILOG,
                                     description="Measures Dictum beside Redis and etcd, or also Cassandra and NATS, on this machine.",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="SIDES", help=f"sides, separated by commas, with dictum (default: {','.join(SIDES)})")
    parser.add_argument("--rows", metavar="ROWS", help="rows, separated by commas (default: all)")
    parser.add_argument("--repeat", type=int, default=3, help="repeats of every row (default 3)")
    parser.add_argument("--kills", type=int, default=10, help="kills of a leader in all (default 10)")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds that each row is measured (default 5)")
    parser.add_argument("--dictum", metavar="FILE", help="the dictum that is measured; default: cargo builds it")
    parser.add_argument("--lab", metavar="FILE", help="the dictum that measures; default: the one that is measured")
    parser.add_argument("--patience", type=float, default=0, metavar="SECONDS",
                        help="how long to wait for a quiet machine before the run (default 0: only look)")
    parser.add_argument("--append", metavar="FILE", help="also appends the run's line to this file, for trends")
    parser.add_argument("--prepare", action="store_true", help="install and build what is needed, then stop")
    parser.add_argument("--require", action="store_true", help="exit with 1 unless every target is reached")
    options = parser.parse_args(arguments)
    options.sides = options.only.split(",") if options.only else SIDES
    options.rows = options.rows.split(",") if options.rows else ROWS
    for what, names, known in (("side", options.sides, [*SIDES, *OPTIONAL_SIDES]), ("row", options.rows, ROWS)):
        for name in names:
            if name not in known:
                parser.error(f"no {what} {name!r}; there are {', '.join(known)}")
    if "dictum" not in options.sides or len(options.sides) < 2:
        parser.error("--only names dictum and at least one other side")
    return options


def command(options):
    """Gets what is needed, and returns the command that measures, without its --append."""
    if {"redis", "redis-wait"} & set(options.sides):
        install.redis(say)
    words = []
    driven = [side for side in DRIVEN_BY_PEERS if side in options.sides]
    for side in driven:
        DRIVEN_BY_PEERS[side](say)
    if driven:
        words = ["--peers-program", install.peers(say)]
    dictum = install.dictum(say, options.dictum)
    peers = ",".join(side for side in [*SIDES, *OPTIONAL_SIDES] if side in options.sides and side != "dictum")
    results = machine.WORK / "results"
    return [options.lab or dictum, "lab", "compare", "--peers", peers, "--rows", ",".join(options.rows), "--repeats",
            options.repeat, "--kills", options.kills, "--seconds", options.seconds, "--dictum", os.path.abspath(dictum),
            "--programs", install.BIN, "--data", machine.WORK / "data", "--out", results, *words]


def compare(options):
    """Measures, and holds what was found against the targets."""
    words = command(options)
    if options.prepare:
        say("all is there")
        return
    idle, stolen = machine.quietness(2.0, options.patience)
    say(f"idle {idle:.0f} %, stolen {stolen:.0f} %")
    if idle < 90 or stolen > 1:
        say("this machine is not quiet: figures may show half of anything; ratios less so")
    stem = machine.WORK / "results" / f"peers-{time.strftime('%Y%m%d-%H%M%S')}"
    stem.parent.mkdir(parents=True, exist_ok=True)
    line = stem.with_suffix(".jsonl")
    done = subprocess.run([str(word) for word in [*words, "--append", line, "-o", stem.with_suffix(".html")]], check=False)
    if done.returncode != 0 or not line.exists():
        raise machine.BenchError(f"`dictum lab compare` measured nothing that can be judged ({done.returncode}); it said why above")
    text = line.read_text().splitlines()[-1]
    say("\nDictum against each: ratio of medians (95 % limits), target, mark")
    marks = judge(json.loads(text)["rows"], say)
    if options.append:
        with open(options.append, "a", encoding="utf-8") as file:
            # What is kept in the project names no folder of the machine that it was measured on.
            file.write(text.replace(f"{machine.ROOT}/", "") + "\n")
    if options.require and not (marks and all(mark["pass"] for mark in marks)):
        sys.exit(1)


def main():
    """Runs the bench."""
    options = parse(sys.argv[1:])
    with machine.only_run("bench/peers"):
        try:
            compare(options)
        except machine.BenchError as problem:
            sys.exit(f"bench/peers: {problem}")
        except KeyboardInterrupt:
            sys.exit(130)
