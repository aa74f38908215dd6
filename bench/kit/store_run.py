"""The command line of bench/store."""

import argparse
import json
import sys
import time

from . import install, machine
from .run import describe, say
from .store_rows import ROWS, Bench, Skip

EPILOG = """\
Rows (3 nodes, every write fsynced, on one disk, unless the row says otherwise):
  resident       10 million keys × 100 B, an eighth in memory: GET p99 uniform ≤ 2×, zipfian ≤ 1.2× of all in memory
  rss            1 million keys × 64 B: RSS per node ≤ 1.3× redis-server's
  restart        a node with 5 GB after kill -9 until it answers: ≤ 5 s
  compaction     SET for 10 minutes: p99.9 ≤ 3× of the state in memory, never 50 ms without a reply
  catchup        SET while a node takes a snapshot of 1.1 GB: one is enough, never 50 ms without a reply
  amplification  2 million keys × 256 B overwritten 3 times: written ≤ 12× the user's bytes, on disk ≤ 1.6× the data
  ephemeral      SET into an ephemeral bucket ≥ 1.1× of one into a persistent bucket
  hits           hit ratios of the cache policies (an example of the room storage)

Examples:
  bench/store                                    all rows at full size: 70 minutes, 25 GB of disk, 12 GB of memory
  bench/store --scale 0.05                       all rows, small: ten minutes
  bench/store --rows restart,rss --dictum target/release/dictum
  bench/store --rows compaction --minutes 2

Ratios are taken within one run. The state of the machine is printed before each measurement and what was busy (idle
share, processor time by thread of the leader, bytes written and read per node) after it. With a --scale below 1 the
log between two flushes (256 MiB) shrinks likewise. A small scale says whether a row works, and how figures move; whether
a target is reached only the full size says. The processors are not to be given to this bench first, as root can for
bench/peers: the kernel's own threads, which complete what is written, would wait for it, and stalls be measured that are not there"""


def parse(arguments):
    """Reads the options."""
    parser = argparse.ArgumentParser(prog="bench/store", epilog=EPILOG,
                                     description="Measures Dictum's store: memory, restarts, stalls, writes, space.",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", metavar="ROWS", help="rows, separated by commas (default: all)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on keys and times (default 1)")
    parser.add_argument("--repeat", type=int, default=3, help="repeats of what is measured in turns (default 3)")
    parser.add_argument("--minutes", type=float, help="of each side of compaction (default 10 × scale)")
    parser.add_argument("--policy", help="cache policy of the store: fifo, lru, lfu, s3-fifo (default: the server's)")
    parser.add_argument("--memory-limit", type=int, metavar="BYTES",
                        help="memory of the store's three nodes together, page cache included (control groups; root)")
    parser.add_argument("--dictum", metavar="FILE", help="a built dictum; default: cargo builds it")
    parser.add_argument("--base-port", type=int, default=26001, help="first port of the nodes (default 26001)")
    parser.add_argument("--require", action="store_true", help="exit with 1 unless every target is reached")
    options = parser.parse_args(arguments)
    options.rows = options.rows.split(",") if options.rows else list(ROWS)
    for name in options.rows:
        if name not in ROWS:
            parser.error(f"no row {name!r}; there are {', '.join(ROWS)}")
    return options


def main():
    """Runs the bench."""
    options = parse(sys.argv[1:])
    with machine.only_run("bench/store"):
        measure(options)


def measure(options):
    """Prepares, measures the rows, and writes what was found."""
    failed = []
    about = describe()
    try:
        install.drive(say)
        install.redis(say)
        bench = Bench(install.dictum(say, options.dictum), options.base_port, options.scale, options.repeat,
                      options.minutes, options.policy, options.memory_limit, say)
        idle, stolen = machine.quietness(2.0)
        say(f"{about['processors']} processors, kernel {about['kernel']}; idle {idle:.0f} %, stolen {stolen:.0f} %; "
            f"scale {options.scale:g}")
        for name in options.rows:
            say(f"\n{name}: {ROWS[name].__doc__}")
            try:
                ROWS[name](bench)
            except Skip as reason:
                say(f"  skipped: {reason}")
            except machine.BenchError as problem:
                say(f"  FAILED: {problem}")
                failed.append(name)
    except machine.BenchError as problem:
        sys.exit(f"bench/store: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)
    say("")
    for mark in bench.marks:
        say(f"{mark['row']:14} {mark['what']:60} {mark['figure']:8.2f}  target {mark['target']:g}  "
            f"{'pass' if mark['pass'] else 'FAIL'}")
    folder = machine.WORK / "results"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"store-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.write_text(json.dumps({"machine": about, "scale": options.scale, "results": bench.results,
                                "marks": bench.marks}, indent=1) + "\n")
    say(f"results: {path}")
    if failed or options.require and not all(mark["pass"] for mark in bench.marks):
        sys.exit(1)
