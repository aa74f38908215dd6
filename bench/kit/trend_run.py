"""The command line of bench/trend, and what it measures."""

import argparse
import shutil
import statistics
import time

from . import install, machine
from .cluster import Cluster, port_of
from .ending import conclude
from .ending import run as run_bench
from .partition_run import SPEED, load
from .run import describe, say

EPILOG = """\
Builds the named commits and this tree (release, each once: the builds stay in bench/work/trend), starts a cluster of three nodes of
each, fills both with 100,000 keys, and lets redis-benchmark ask their leaders, in turns: SET and GET of 256 bytes. Prints, for each
row, the median of the repeats' ratios, this tree to each commit. A row below --least of the first commit is a FAIL.

Examples:
  bench/trend 777b66b                              this tree beside that commit, five times
  bench/trend 777b66b b07732a --rows set50x16,get50x16
  bench/trend 777b66b --dictum target/release/dictum --repeat 3

Rows: set1 set256 set50x16 get256 get50x16. On a machine that does something else the ratios mean little: what was idle is printed."""

FOLDER = "trend"


def parse(arguments):
    """Reads the options."""
    parser = argparse.ArgumentParser(prog="bench/trend", epilog=EPILOG,
                                     description="Measures this tree beside earlier commits, in turns.",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", nargs="+", metavar="COMMIT", help="what to compare with")
    parser.add_argument("--rows", metavar="ROWS", help="rows, separated by commas (default: all)")
    parser.add_argument("--repeat", type=int, default=5, help="repeats of every row (default 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the operations of every run (default 1)")
    parser.add_argument("--least", type=float, default=0.98, help="the least ratio to the first commit (default 0.98)")
    parser.add_argument("--dictum", metavar="FILE", help="a built dictum of this tree; default: cargo builds it")
    parser.add_argument("--base-port", type=int, default=28701, help="first port of the first cluster (default 28701)")
    parser.add_argument("--require", action="store_true", help="exit with 1 unless every row reaches the least ratio")
    options = parser.parse_args(arguments)
    known = [row[0] for row in SPEED]
    options.rows = options.rows.split(",") if options.rows else known
    for name in options.rows:
        if name not in known:
            parser.error(f"no row {name!r}; there are {', '.join(known)}")
    if options.repeat < 1:
        parser.error("--repeat is at least 1")
    return options


def built(commit):
    """The program of a commit; built in a work tree of its own unless it was before."""
    name = machine.run(["git", "-C", machine.ROOT, "rev-parse", "--verify", f"{commit}^{{commit}}"]).strip()
    program = machine.WORK / FOLDER / name
    if program.exists():
        return program
    tree = machine.WORK / FOLDER / "tree"
    machine.WORK.joinpath(FOLDER).mkdir(parents=True, exist_ok=True)
    if not tree.exists():
        machine.run(["git", "-C", machine.ROOT, "worktree", "prune"])
        machine.run(["git", "-C", machine.ROOT, "worktree", "add", "--detach", tree, name])
    machine.run(["git", "-C", tree, "checkout", "--detach", "--force", name])
    say(f"building {name[:8]} (some minutes)")
    machine.run(["cargo", "build", "--release", "--locked", "--bin", "dictum"], seconds=3600, cwd=tree)
    shutil.copy(tree / "target" / "release" / "dictum", program)
    return program


def measure(clusters, options, results):
    """Every row, with the clusters in turns."""
    for repeat in range(options.repeat):
        say(f"repeat {repeat + 1} of {options.repeat}")
        for row in [row for row in SPEED if row[0] in options.rows]:
            for side, cluster in list(clusters.items())[::1 if repeat % 2 == 0 else -1]:
                idle, _ = machine.quietness(1.0, 20)
                rate, p50 = load(port_of(cluster.leader()), 0, row, options.scale)
                say(f"  {row[0]:9} {side:10} {rate:11,.0f} op/s  p50 {p50:.3f} ms  ({idle:.0f} % idle before)")
                results.append({"repeat": repeat, "row": row[0], "side": side, "rate": rate, "p50_ms": p50})


def marks_of(options, results):
    """The median of each repeat's ratio, with what it must be: what changes on the machine from repeat to repeat concerns both sides of it."""
    marks = []
    for row in options.rows:
        rates = {}
        for result in results:
            if result["row"] == row:
                rates.setdefault(result["side"], []).append(result["rate"])
        for commit in options.commits:
            ratio = statistics.median(ours / theirs for ours, theirs in zip(rates["here"], rates[commit]))
            target = f"≥ {options.least}×" if commit == options.commits[0] else ""
            marks.append((f"{row} / {commit}", f"{ratio:.3f}×", target, ratio >= options.least))
    return marks


def compare(options):
    """Builds, measures, tells."""
    install.redis(say)
    programs = {commit: built(commit) for commit in options.commits}
    programs["here"] = install.dictum(say, options.dictum)
    about = describe()
    clusters = {side: Cluster(program, options.base_port + 10 * number, name=f"trend-{number}", settings={})
                for number, (side, program) in enumerate(programs.items())}
    results = []
    try:
        for cluster in clusters.values():
            cluster.start()
            load(port_of(cluster.leader()), 0, ("", "set", 50, 16, 400_000), 1.0)
        for cluster in clusters.values():
            cluster.let_flush()
        begun = time.monotonic()
        measure(clusters, options, results)
        say(f"measured for {time.monotonic() - begun:.0f} s")
    finally:
        for cluster in clusters.values():
            cluster.stop()
    conclude(FOLDER, about, results, marks_of(options, results), options.require)


def main():
    """Runs the bench."""
    run_bench(FOLDER, parse, compare)
