"""The command line of tests/faults/run."""

import argparse
import inspect
import os
import shutil
import subprocess
import sys
import time
import traceback

from . import disk_faults, network_faults, process_faults, store_faults
from .build import build_dictum, build_load
from .load import Load, judge
from .processes import WORK, Failure, Missing, run, say

SCENARIOS = {one.__name__.replace("_", "-"): one
             for module in (process_faults, disk_faults, store_faults, network_faults) for one in module.SCENARIOS}
PACKAGES = ["redis-server", "redis-tools", "strace", "xfsprogs", "iptables", "iproute2"]

EPILOG = """\
Examples:
  tests/faults/run                          every scenario (about 12 minutes, as root)
  tests/faults/run kill-leader restart-all  two of them
  tests/faults/run --list                   what there is
  tests/faults/run --install                gets the Debian packages that scenarios need, then stops

Each scenario starts three real nodes, puts a mixed load from 40 connections on them, does its harm, and lets two
independent checkers judge the recorded history: porcupine (Go) and the one of `dictum sim`. It passes if the
history is linearizable, so that nothing acknowledged was lost, and the group went on as promised.
Histories, logs and pictures of violations stay in tests/faults/work. Exit code 1: a scenario failed."""


class Context:
    """What a scenario is given."""

    def __init__(self, options, work):
        self.program, self.work = options.dictum, work
        self._rounds = options.rounds
        self.options = ["-rate", str(options.rate), "-expiry"] + ([] if options.no_once else ["-once"])

    def rounds(self, usual):
        """How often to repeat the fault."""
        return self._rounds or usual

    def load(self, addresses, prefix=()):
        """The recorded load on these addresses."""
        return Load(addresses, self.work, *self.options, prefix=prefix)

    def judge(self, load, expected="linearizable"):
        """Prints what the load saw and lets both checkers judge it."""
        judge(self.program, load, expected)


def prepare(options, names):
    """Builds what the scenarios need."""
    build_load("tests/faults/run")
    if options.dictum or names != ["alarm"]:
        options.dictum = build_dictum("tests/faults/run", options.dictum)


def one_scenario(name, options):
    """Runs a scenario and returns `pass`, `FAIL` or `skipped`."""
    scenario = SCENARIOS[name]
    work = WORK / name
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    say(f"{name}: {inspect.getdoc(scenario)}")
    context = Context(options, work)
    began = time.monotonic()
    try:
        load = scenario(context)
        if load is not None:
            context.judge(load)
        result, why = "pass", ""
    except Missing as problem:
        result, why = "skipped", str(problem)
    except Failure as problem:
        result, why = "FAIL", str(problem)
    except subprocess.TimeoutExpired as problem:
        result, why = "FAIL", str(problem)
    except Exception:  # a fault of the test itself must not end the other scenarios
        result, why = "FAIL", traceback.format_exc()
    say(f"  {result} after {time.monotonic() - began:.0f} s{': ' + why if why else ''}\n")
    if result == "pass" and not options.keep:
        for node in ("n1", "n2", "n3"):
            shutil.rmtree(work / node, ignore_errors=True)
    return result


def main():
    """Runs the scenarios that were asked for."""
    parser = argparse.ArgumentParser(prog="tests/faults/run", epilog=EPILOG,
                                     description="Real processes under faults, with recorded and checked histories.",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", nargs="*", help="names (default: all)")
    parser.add_argument("--list", action="store_true", help="list the scenarios and stop")
    parser.add_argument("--install", action="store_true", help="install the packages that scenarios need and stop")
    parser.add_argument("--dictum", metavar="FILE", help="a built dictum (default: cargo builds a release)")
    parser.add_argument("--rounds", type=int, default=0, help="how often each scenario repeats its fault")
    parser.add_argument("--rate", type=int, default=2000, help="operations a second of the load (default 2000)")
    parser.add_argument("--no-once", action="store_true", help="do not use DICTUM.ONCE in the load")
    parser.add_argument("--keep", action="store_true", help="keep the data folders of scenarios that pass")
    parser.add_argument("--require-all", action="store_true", help="count a skipped scenario as failed")
    options = parser.parse_args()
    if options.list:
        for name, scenario in SCENARIOS.items():
            print(f"{name:16} {inspect.getdoc(scenario).splitlines()[0]}")
        return
    if options.install:
        run(["apt-get", "update"], 600)
        run(["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES], 1200,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"})
        say("installed: " + " ".join(PACKAGES))
        return
    names = options.scenario or list(SCENARIOS)
    for name in names:
        if name not in SCENARIOS:
            parser.error(f"no scenario {name!r}; --list shows them")
    prepare(options, names)
    results = {name: one_scenario(name, options) for name in names}
    for name, result in results.items():
        say(f"{name:16} {result}")
    failed = sum(r == "FAIL" or (r == "skipped" and options.require_all) for r in results.values())
    skipped = sum(r == "skipped" for r in results.values())
    say(f"{list(results.values()).count('pass')} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)
