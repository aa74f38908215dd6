"""The command line of bench/peers, and the order of the measurements."""

import argparse
import os
import platform
import sys
import time

from . import install, machine, report
from .rows import BY_NAME, ROWS
from .sides import Dictum, Etcd, Redis, RedisWait

EPILOG = """\
Examples:
  bench/peers                                          everything, 3 repeats, 10 kills (about 8 minutes)
  bench/peers --only dictum,redis --rows set1,set256   two sides, two rows
  bench/peers --only dictum,etcd --rows kill --kills 4
  bench/peers --dictum target/release/dictum --scale 0.3 --repeat 1     a quick look

Rows: set1 set256 set50x16 get256 get50x16 kill.  Sides: redis redis-wait etcd dictum.

Every side fsyncs for real below bench/work/data, on the same disk, one side at a time; each repeat begins with
another side. Compare figures of one run only, and only if the machine was quiet: the idle and the stolen share
of the processors are printed before each measurement. Results go to bench/work/results as JSON and CSV.
On a machine that others use at the same time, root can at least give the processors to the bench first:
  setsid -w sh -c 'echo -15 >/proc/self/autogroup; bench/peers'"""


def say(text):
    """Prints at once, also into a pipe."""
    print(text, flush=True)


def parse(arguments):
    """Reads the options."""
    parser = argparse.ArgumentParser(prog="bench/peers", epilog=EPILOG,
                                     description="Measures Dictum beside Redis and etcd on this machine.",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="SIDES", help="sides, separated by commas (default: all)")
    parser.add_argument("--rows", metavar="ROWS", help="rows, separated by commas (default: all)")
    parser.add_argument("--repeat", type=int, default=3, help="repeats of every row (default 3)")
    parser.add_argument("--kills", type=int, default=10, help="kills of a leader in all (default 10)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the operations of every run (default 1)")
    parser.add_argument("--dictum", metavar="FILE", help="a built dictum; default: cargo builds it")
    parser.add_argument("--base-port", type=int, default=27001, help="first port of Dictum's nodes (default 27001)")
    parser.add_argument("--patience", type=float, default=0, metavar="SECONDS",
                        help="how long to wait for a quiet machine before each measurement (default 0: only look)")
    parser.add_argument("--prepare", action="store_true", help="install and build what is needed, then stop")
    parser.add_argument("--require", action="store_true", help="exit with 1 unless every target is reached")
    options = parser.parse_args(arguments)
    known = ["redis", "redis-wait", "etcd", "dictum"]
    options.sides = options.only.split(",") if options.only else known
    options.rows = options.rows.split(",") if options.rows else [row.name for row in ROWS]
    for name in options.sides:
        if name not in known:
            parser.error(f"no side {name!r}; there are {', '.join(known)}")
    for name in options.rows:
        if name not in BY_NAME:
            parser.error(f"no row {name!r}; there are {', '.join(BY_NAME)}")
    options.rows = [row for row in ROWS if row.name in options.rows]
    return options


def prepare(options):
    """Gets what the chosen sides need and returns them."""
    install.drive(say)
    if {"redis", "redis-wait", "dictum"} & set(options.sides):
        install.redis(say)
    sides = []
    if "redis" in options.sides:
        sides.append(Redis(options.scale))
    if "redis-wait" in options.sides:
        sides.append(RedisWait(options.scale))
    if "etcd" in options.sides:
        install.etcd(say)
        sides.append(Etcd(options.scale))
    if "dictum" in options.sides:
        sides.append(Dictum(options.scale, install.dictum(say, options.dictum), options.base_port))
    return sides


def measured(measure, options, repeat, side, row):
    """One measurement with the machine's state around it, printed and returned."""
    idle, stolen = machine.quietness(patience=options.patience)
    before = machine.processor_times()
    figures = measure()
    idle_during, stolen_during = machine.share_since(before)
    result = {"repeat": repeat, "side": side.name, "row": row.name, **figures, "idle_before": round(idle, 1),
              "stolen_before": round(stolen, 1), "idle_during": round(idle_during, 1),
              "stolen_during": round(stolen_during, 1)}
    if row.load is None:
        text = f"longest gap {figures['gap_ms']:7.0f} ms   (load before {figures['rate_before']:,.0f} op/s)"
        if not figures["recovered"]:
            text += "   NO WRITE SINCE"
    else:
        text = f"{figures['rate']:9,.0f} op/s   p50 {figures['p50_ms']:.3f}  p99 {figures['p99_ms']:.3f} ms"
    mark = " !" if idle < 90 or stolen > 1 or stolen_during > 2 else "  "
    say(f"  [idle {idle:3.0f} % stolen {stolen:2.0f} %{mark}] {side.name:10} {row.name:9} {text}")
    return result


def measure_all(options, sides):
    """All repeats; each begins with another side, so that no side always meets the same state of the machine."""
    results = []
    for repeat in range(options.repeat):
        say(f"repeat {repeat + 1} of {options.repeat}")
        first = repeat % len(sides)
        for side in sides[first:] + sides[:first]:
            rows = [row for row in options.rows if side.can(row)]
            if not rows:
                continue
            side.start()
            try:
                for row in rows:
                    if row.load is not None:
                        results.append(measured(lambda row=row: side.measure(row), options, repeat, side, row))
                        continue
                    # The kills are spread over the repeats: the first ones take what does not divide evenly.
                    kills = options.kills // options.repeat + (repeat < options.kills % options.repeat)
                    for kill in range(kills):
                        result = measured(side.kill_leader, options, repeat * options.kills + kill, side, row)
                        results.append(result)
            finally:
                side.stop()
    return results


def describe():
    """The machine, for the record."""
    return {"processors": os.cpu_count(), "kernel": platform.release(), "system": platform.platform(),
            "load_average": os.getloadavg(), "started": time.strftime("%Y-%m-%dT%H:%M:%S%z")}


def main():
    """Runs the bench."""
    options = parse(sys.argv[1:])
    with machine.only_run("bench/peers"):
        compare(options)


def compare(options):
    """Prepares, measures, and writes what was found."""
    try:
        sides = prepare(options)
        if options.prepare:
            say("all is there")
            return
        about = describe()
        idle, stolen = machine.quietness(2.0)
        say(f"{about['processors']} processors, kernel {about['kernel']}; idle {idle:.0f} %, stolen {stolen:.0f} %")
        if idle < 90 or stolen > 1:
            say("this machine is not quiet: figures may show half of anything; ratios less so")
        results = measure_all(options, sides)
    except machine.BenchError as problem:
        sys.exit(f"bench/peers: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)
    marks = report.table(results, options.rows, sides, say)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    say(f"\nresults: {report.write(machine.WORK / 'results', stamp, about, results, marks)}")
    if options.require and not (marks and all(mark["pass"] for mark in marks)):
        sys.exit(1)
