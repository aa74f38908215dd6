"""The command line of tests/programs/run."""

import argparse
import inspect
import os
import shutil
import subprocess
import sys
import time
import traceback
from pathlib import Path

from harness.cluster import DictumCluster, RedisAlone
from harness.processes import ROOT, Failure, Missing, run, say

from . import clients, jobs, routing, tools, ycsb
from .packages import CACHE, PROGRAMS, place

WORK = Path(os.environ.get("PROGRAMS_WORK", PROGRAMS / "work"))
PACKAGES = ["redis-server", "redis-tools"]
SESSIONS = {name: session for module in (tools, clients, routing, jobs, ycsb) for name, session in module.SESSIONS.items()}

EPILOG = f"""\
Examples:
  tests/programs/run                         every program
  tests/programs/run redis-py ioredis:scripts  one program, and one part of another
  tests/programs/run --list                  what there is
  tests/programs/run --install               fetches and builds all packages, then stops
  tests/programs/run --redis rq              the same session against a Redis alone: is the session right?

Each program is the published one, at a pinned version. It gets three nodes of its own, on free ports, and its session
checks what it is answered. Packages come from the registries that pip, npm, go and mvn are set up for and stay in
{CACHE} (DICTUM_PROGRAMS_CACHE names another place). Logs stay in tests/programs/work.
Exit code 1: a session failed."""


class Context:
    """What a session is given."""

    def __init__(self, options, work):
        self.program, self.work, self.redis, self.count = options.dictum, work, options.redis, options.jobs

    def cluster(self, *options):
        """Three nodes, or with --redis one Redis that fsyncs."""
        return RedisAlone(self.work, True) if self.redis else DictumCluster(self.program, self.work, options=options)

    @staticmethod
    def needs(cluster, command):
        """Skips the session if the server does not know that command at all."""
        if not cluster.reply(cluster.nodes[0], "command", "info", command):
            raise Missing(f"needs {command.upper()}, which this server does not have")

    def addresses(self, cluster):
        """Three addresses, which are one and the same if it is a Redis."""
        return (cluster.addresses * 3)[:3]

    def environment(self, cluster, **more):
        """What a session's processes are told: DICTUM_HOSTS, and whether DICTUM_SERVER is `dictum` or `redis`."""
        told = {"DICTUM_HOSTS": ",".join(self.addresses(cluster)), "DICTUM_SERVER": "redis" if self.redis else "dictum"}
        return {**os.environ, **told, **{name: str(value) for name, value in more.items()}}


def prepare(options):
    """Finds or builds dictum."""
    if options.dictum:
        options.dictum = os.path.abspath(options.dictum)
        return
    if options.redis:
        return
    done = subprocess.run(["cargo", "build", "--release", "--locked", "--bin", "dictum"], cwd=ROOT, check=False)
    if done.returncode != 0:
        sys.exit("tests/programs/run: dictum does not build (see above)")
    options.dictum = os.path.join(ROOT, os.environ.get("CARGO_TARGET_DIR", "target"), "release", "dictum")


def install(names):
    """Fetches and builds everything, so that a later run needs no network."""
    if not all(shutil.which(tool) for tool in ("redis-server", "redis-cli", "redis-benchmark")):
        run(["apt-get", "update"], 600)
        run(["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES], 1200,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"})
    for name in dict.fromkeys(name.split(":")[0] for name in names):
        place(name)
    say(f"installed in {CACHE}")


def one_session(name, options):
    """Runs a session and returns `pass`, `FAIL` or `skipped`, with its summary."""
    work = WORK / name.replace(":", "-")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    say(f"{name}: {inspect.getdoc(SESSIONS[name]).splitlines()[0]}")
    began = time.monotonic()
    try:
        place(name.split(":")[0])
        result, why = "pass", SESSIONS[name](Context(options, work)) or ""
    except Missing as problem:
        result, why = "skipped", str(problem)
    except (Failure, subprocess.TimeoutExpired) as problem:
        result, why = "FAIL", str(problem)
    except Exception:  # a fault of the test itself must not end the other sessions
        result, why = "FAIL", traceback.format_exc()
    say(f"  {result} after {time.monotonic() - began:.0f} s{': ' + why if why else ''}\n")
    if result == "pass" and not options.keep:
        for node in ("n1", "n2", "n3", "redis"):
            shutil.rmtree(work / node, ignore_errors=True)
    return result


def main():
    """Runs the sessions that were asked for."""
    parser = argparse.ArgumentParser(prog="tests/programs/run", epilog=EPILOG,
                                     description="Real programs, from their packages, against three real nodes.",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("session", nargs="*", help="names (default: all)")
    parser.add_argument("--list", action="store_true", help="list the sessions and stop")
    parser.add_argument("--install", action="store_true", help="fetch and build the packages and stop")
    parser.add_argument("--dictum", metavar="FILE", help="a built dictum (default: cargo builds a release)")
    parser.add_argument("--redis", action="store_true", help="run against one Redis instead, to test the sessions")
    parser.add_argument("--jobs", type=int, default=10_000, help="how many jobs the queue libraries get (default 10000)")
    parser.add_argument("--keep", action="store_true", help="keep the data folders of sessions that pass")
    parser.add_argument("--require-all", action="store_true", help="count a skipped session as failed")
    options = parser.parse_args()
    if options.list:
        for name, session in SESSIONS.items():
            print(f"{name:18} {inspect.getdoc(session).splitlines()[0]}")
        return
    names = options.session or list(SESSIONS)
    for name in names:
        if name not in SESSIONS:
            parser.error(f"no session {name!r}; --list shows them")
    if options.install:
        install(names)
        return
    prepare(options)
    results = {name: one_session(name, options) for name in names}
    for name, result in results.items():
        say(f"{name:18} {result}")
    failed = sum(r == "FAIL" or (r == "skipped" and options.require_all) for r in results.values())
    skipped = sum(r == "skipped" for r in results.values())
    say(f"{list(results.values()).count('pass')} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)
