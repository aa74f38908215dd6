"""The command line of tests/operators/run."""

import argparse
import inspect
import os
import shutil
import subprocess
import sys
import time
import traceback
from contextlib import ExitStack
from pathlib import Path

from harness.build import build_dictum, build_load
from harness.load import Load
from harness.processes import ROOT, Failure, Missing, run, say

from .book import Book
from .closing import CLOSING, break_it
from .living import Living, Ports
from .steps import ARCHIVE, NEEDS, STEPS

WHO = "tests/operators/run"
WORK = Path(os.environ.get("OPERATORS_WORK", ROOT / "tests" / "operators" / "work"))
# With one node away clients wait for another leader, and no longer; with room for a loaded machine.
GAP_MS_MAX = 10_000
# Here all nodes are down at once.
ALL_DOWN = "new-addresses"

EPILOG = f"""\
Steps: {', '.join(STEPS)}.

Examples:
  tests/operators/run                                  a year, as fast as it goes (some minutes)
  tests/operators/run --minutes 60                     a day in an hour: calm between the steps
  tests/operators/run --earlier old/dictum             the first half of the year by an earlier Dictum, which is then upgraded
  tests/operators/run --only full-disk restore         the first day and these two
  tests/operators/run --break                          must fail: two acknowledged keys are deleted behind the checkers' back

A mixed load from 40 connections goes on from the first day to the last, and its recorded history is judged by two checkers,
porcupine (Go) and the one of `dictum sim`. Beside it entries are written into a book that must be whole at every node after every
step. Full disks need root, and the wrong clock a C compiler; without them these steps are skipped, which is said at the end.
Histories, logs and folders are in tests/operators/work. Exit code 0: all held; 1: something did not; 2: wrong words."""


class Year:
    """The cluster, what clients do with it, and what was seen so far."""

    def __init__(self, options, cluster):
        self.options, self.cluster = options, cluster
        self.clients = ExitStack()
        self.load = self.book = None

    def begin_load(self):
        """Clients begin: the recorded load and the book."""
        patience = 300 + round(self.options.minutes * 60)
        words = ["-rate", str(self.options.rate), "-expiry", "-once", "-settle", f"{patience - 60}s"]
        self.load = self.clients.enter_context(Load(self.cluster.addresses, self.cluster.work, *words, patience=patience))
        self.book = self.clients.enter_context(Book(lambda: self.cluster.nodes))

    def nodes_have_changed(self):
        """Clients are told which nodes there are now."""
        self.load.ask(self.cluster.addresses)

    def end_load(self):
        """Clients end; before that the recorded load reads every key through every node."""
        self.clients.close()
        return "clients have ended; the driver has asked every node for every key"

    def archive_at(self, node):
        """What a node says that the bucket has which the load does not touch."""
        return self.cluster.contents(node, ARCHIVE)

    def settle(self):
        """What must hold after every step."""
        self.cluster.wait_ready()
        self.cluster.wait_healthy()
        self.book.wait_for_more()
        return self.book.check(self.cluster.nodes)


class Report:
    """What became of each step, in order."""

    def __init__(self):
        self.rows = []

    def do(self, name, what):
        """Does one thing; returns whether it held. A step that cannot be done on this machine counts as having held."""
        began = time.monotonic()
        try:
            result, seen = "held", what()
        except Missing as problem:
            result, seen = "SKIPPED", str(problem)
        except (Failure, OSError, ValueError, subprocess.TimeoutExpired) as problem:
            result, seen = "FAILED", str(problem) or repr(problem)
        except Exception:  # a fault of the test itself must not keep the rest from being judged
            result, seen = "FAILED", traceback.format_exc()
        seconds = time.monotonic() - began
        say(f"  {result} after {seconds:.1f} s: {seen}")
        self.rows.append({"step": name, "result": result, "seconds": seconds, "gap": None, "seen": seen})
        return result != "FAILED"

    def add_gaps(self, summary):
        """Adds the longest time without an acknowledged write to each step; too long a one is a failure."""
        gaps = {one["name"]: one["gap_ms"] for one in summary["sections"]}
        for row in self.rows:
            row["gap"] = gaps.get(row["step"])
            if row["step"] != ALL_DOWN and row["result"] == "held" and (row["gap"] or 0) > GAP_MS_MAX:
                row["result"] = "FAILED"
                row["seen"] = f"{row['gap']:.0f} ms without an acknowledged write, expected at most {GAP_MS_MAX}; {row['seen']}"

    def of(self, result):
        """The names of the steps with that result."""
        return [row["step"] for row in self.rows if row["result"] == result]

    def show(self):
        """Prints the table."""
        say(f"\n{'step':14} {'result':8} {'seconds':>7} {'gap ms':>7}  seen")
        for row in self.rows:
            gap = "" if row["gap"] is None else f"{row['gap']:.0f}"
            say(f"{row['step']:14} {row['result']:8} {row['seconds']:7.1f} {gap:>7}  {' '.join(row['seen'].split())}")


def walk(options, names, report):
    """The year, step by step, and what must hold at its end."""
    calm = options.minutes * 60 / len(names)
    with Living(options.dictum, WORK, ["n1", "n2", "n3"], Ports(options.base_port), options.earlier) as cluster:
        year = Year(options, cluster)
        with year.clients:
            went = True
            for name in names:
                say(f"{name}: {inspect.getdoc(STEPS[name])}")
                if year.load:
                    year.load.mark(name)
                went = report.do(name, lambda name=name: whole(year, name))
                if not went:
                    say("  The year ends here; what was seen so far is judged.")
                    break
                if year.load:
                    year.load.run_for(calm)
            if year.load is None:
                return
            if options.break_it and went:
                break_it(year)
            say("last-day: clients end.")
            if not report.do("last-day", year.end_load):
                return
        report.add_gaps(year.load.summary)
        for name, closing in CLOSING.items():
            say(f"{name}: {inspect.getdoc(closing)}")
            report.do(name, lambda closing=closing: closing(year))


def whole(year, name):
    """A step and what must hold after every one, whether it was done or skipped."""
    try:
        seen = STEPS[name](year)
    except Missing:
        year.settle()
        raise
    year.settle()
    return seen


def prepare(options):
    """Builds what is needed, and makes an empty folder for all that a run leaves."""
    build_load(WHO)
    options.dictum = build_dictum(WHO, options.dictum)
    options.earlier = options.earlier and os.path.abspath(options.earlier)
    if os.path.ismount(WORK / "small"):
        run(["umount", "--lazy", WORK / "small"], check=False)
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)


def remove_folders():
    """Leaves histories and logs alone."""
    for folder in WORK.iterdir():
        if folder.is_dir():
            shutil.rmtree(folder, ignore_errors=True)


def main():
    """Walks through the year and says what held."""
    parser = argparse.ArgumentParser(prog=WHO, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     description="A year of an operator's life under load, with a checked history: 0 lost, 0 wrong.")
    parser.add_argument("--only", metavar="STEP", nargs="+", choices=STEPS, help="the first day and these steps, in the order of the year")
    parser.add_argument("--list", action="store_true", help="list the steps and stop")
    parser.add_argument("--dictum", metavar="FILE", help="a built dictum (default: cargo builds a release)")
    parser.add_argument("--earlier", metavar="FILE", help="an earlier dictum, which nodes run until the step upgrade; or a script that starts one with --speak-at-most")
    parser.add_argument("--minutes", type=float, default=0, help="calm in all, shared out among the steps (default: none)")
    parser.add_argument("--rate", type=int, default=500, help="operations a second of the checked load (default 500)")
    parser.add_argument("--megabytes", type=int, default=64, help="large values, which move with every copy (default 64)")
    parser.add_argument("--base-port", type=int, default=0, metavar="PORT", help="the first of some 60 ports, each used once (default: free ones)")
    parser.add_argument("--keep", action="store_true", help="keep the nodes' folders also if all held")
    parser.add_argument("--require-all", action="store_true", help="count a skipped step as failed")
    parser.add_argument("--break", action="store_true", dest="break_it",
                        help="at the end of the year delete an acknowledged key of the checked load and one of the book behind the checkers' back: the run must fail")
    options = parser.parse_args()
    if options.list:
        for name, step in STEPS.items():
            print(f"{name:14} {inspect.getdoc(step).splitlines()[0]}")
        return
    wanted = {"start", *(options.only or STEPS)}
    wanted |= {NEEDS[name] for name in wanted if name in NEEDS}
    names = [name for name in STEPS if name in wanted]
    prepare(options)
    report = Report()
    walk(options, names, report)
    report.show()
    failed, skipped = report.of("FAILED"), report.of("SKIPPED")
    if skipped:
        say(f"skipped, so not shown: {', '.join(skipped)}")
    if failed or (skipped and options.require_all):
        say(f"FAILED: {', '.join(failed) or 'a step was skipped'}; see {WORK}")
        sys.exit(1)
    if not options.keep:
        remove_folders()
    say("the year held: 0 lost, 0 wrong")
