"""The command line of bench/types, and what it measures."""

import argparse
import csv
import io
import statistics
import subprocess
import sys

from . import install, machine
from .cluster import port_of
from .ending import run as run_bench
from .ending import write
from .run import describe, say
from .sides import Dictum, Redis, drive
from .type_rows import BY_NAME, FILLS, MULTI, NUMBERS, ROWS, SET

EPILOG = """\
Three kinds of rows, all with 50 clients × pipeline 16 at Dictum's leader, every write fsynced:
  set hset …    a write of 256 bytes against Dictum's own SET of 256 bytes: ≥ 0.6×
  rb-…          each default test of redis-benchmark against one Redis with AOF always: ≥ 0.5×, of reads 0.6×
  zrange …      long answers against the same Redis: ≥ 0.5×
  eval          a script of two calls against Dictum's own MULTI of the same two (`multi`): ≥ 0.7×
  publish       messages to ten subscribers, spread over all nodes, against the same Redis: ≥ 0.5×

Examples:
  bench/types                                    everything that is there, 3 repeats
  bench/types --rows set,hset,zadd --dictum target/release/dictum
  bench/types --rows zrange-rank,hgetall --repeat 1

A row begins when the machine is idle: it does not pay for what the row before it still writes in the background, on either side.
A row whose command Dictum does not know is named as absent. Ratios are taken within a repeat, and their median is judged.
Every side writes below bench/work/data, one side at a time, and each repeat begins with another side."""


# A row begins when most of the machine has been idle for a second, or after so long.
REST_SECONDS_MAX = 40


class Absent(Exception):
    """The side does not know a command of the row."""


def parse(arguments):
    """Reads the options."""
    parser = argparse.ArgumentParser(prog="bench/types", epilog=EPILOG,
                                     description="Measures the types of values beside Redis and beside SET.",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", metavar="ROWS", help="rows, separated by commas (default: all)")
    parser.add_argument("--repeat", type=int, default=3, help="repeats of every row (default 3)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the operations of every run (default 1)")
    parser.add_argument("--dictum", metavar="FILE", help="a built dictum; default: cargo builds it")
    parser.add_argument("--base-port", type=int, default=28001, help="first port of Dictum's nodes (default 28001)")
    parser.add_argument("--require", action="store_true", help="exit with 1 unless every target is reached")
    options = parser.parse_args(arguments)
    names = options.rows.split(",") if options.rows else list(BY_NAME)
    for name in names:
        if name not in BY_NAME:
            parser.error(f"no row {name!r}; there are {', '.join(BY_NAME)}")
    options.rows = [row for row in ROWS if row.name in names]
    for base in (MULTI, SET):
        if any(row.against == base.name for row in options.rows) and base not in options.rows:
            options.rows.insert(0, base)
    return options


def port_of_side(side):
    """Where the load of a side goes."""
    return port_of(side.cluster.leader()) if side.name == "dictum" else side.port


def cli(port, commands):
    """Sends commands, some at a time, and refuses answers that are errors."""
    commands = list(commands)
    for begin in range(0, len(commands), 20):
        cli_at_once(port, commands[begin:begin + 20])


def cli_at_once(port, commands):
    """Sends commands in one go."""
    packed = io.BytesIO()
    for words in commands:
        packed.write(b"*%d\r\n" % len(words))
        for word in words:
            packed.write(b"$%d\r\n%b\r\n" % (len(word.encode()), word.encode()))
    done = subprocess.run(["redis-cli", "-p", str(port), "--pipe"], input=packed.getvalue(), capture_output=True,
                          timeout=300, check=False)
    text = (done.stdout + done.stderr).decode(errors="replace")
    if "unknown command" in text:
        raise Absent
    if "errors: 0" not in text:
        raise machine.BenchError(f"filling failed:\n{text[-500:]}")


def by_drive(side, load, requests):
    """One run of a program of our own: operations, seconds that they took, and p99 in milliseconds or None."""
    address = f"127.0.0.1:{port_of_side(side)}"
    if load.subscribers:
        nodes = side.cluster.nodes if side.name == "dictum" else [{"resp": address}]
        found = drive("publish", "-addr", address, "-subscribe", ",".join(node["resp"] for node in nodes),
                      "-subscribers", load.subscribers, "-messages", requests)
    else:
        words = [word for command in load.commands for word in (*command, ";")][:-1]
        found = drive("packets", "-addr", address, "-pipeline", 16, "-requests", requests, "-numbers", NUMBERS, *words)
    return found["operations"], found["seconds"], found.get("p99_ms")


def once(side, load, scale):
    """One run: operations, seconds that they took, and p99 in milliseconds or None."""
    requests = max(1000, int(load.requests * scale))
    if load.commands or load.subscribers:
        return by_drive(side, load, requests)
    port = port_of_side(side)
    arguments = ["redis-benchmark", "-h", "127.0.0.1", "-p", port, "-c", 50, "-P", 16, "-n", requests, "--csv"]
    arguments += ["-t", load.test] if load.test else ["-r", NUMBERS, *load.words]
    try:
        text = machine.run(arguments, seconds=300)
    except machine.BenchError as problem:
        if "unknown command" in str(problem):
            raise Absent from None
        raise
    rows = [row for row in csv.reader(io.StringIO(text)) if len(row) == 8 and row[0] != "test"]
    if "unknown command" in text:
        raise Absent
    if not rows:
        raise machine.BenchError(f"redis-benchmark printed no figures:\n{text[-500:]}")
    # The tests of LRANGE fill their list first, and print that, too; and "ping_mbulk" is the last of two that a -t of it prints.
    return requests, requests / float(rows[-1][1]), float(rows[-1][6])


def measure(side, row, scale):
    """A row, once: operations per second, and the worst p99 of its loads, where it is a figure."""
    runs = [once(side, load, scale) for load in row.loads]
    return sum(n for n, _, _ in runs) / sum(s for _, s, _ in runs), max((p99 for _, _, p99 in runs if p99 is not None), default=None)


def measure_side(side, rows, repeat, options, results):
    """All rows of a side, from an empty folder."""
    side.start()
    filled = set()
    try:
        for row in rows:
            try:
                if row.fill and row.fill not in filled:
                    cli(port_of_side(side), FILLS[row.fill]())
                    filled.add(row.fill)
                # No row pays for what the one before it, or what was filled in, still writes in the background.
                machine.quietness(1.0, REST_SECONDS_MAX)
                before = machine.processor_times()
                rate, p99 = measure(side, row, options.scale)
            except Absent:
                say(f"  {side.name:7} {row.name:14} absent")
                results.append({"repeat": repeat, "side": side.name, "row": row.name, "rate": None})
                continue
            idle, stolen = machine.share_since(before)
            tail = "" if p99 is None else f"p99 {p99:.2f} ms"
            say(f"  {side.name:7} {row.name:14} {rate:9,.0f} op/s  {tail}   [idle {idle:.0f} % stolen {stolen:.0f} %]")
            results.append({"repeat": repeat, "side": side.name, "row": row.name, "rate": rate, "p99_ms": p99})
    finally:
        side.stop()


def judged(results, rows):
    """For each row the median ratio against its side, and whether it is enough."""
    rates = {(r["repeat"], r["side"], r["row"]): r["rate"] for r in results}
    marks = []
    for row in rows:
        if row.against == row.name:
            continue
        ratios = []
        for (repeat, side, name), rate in rates.items():
            if side != "dictum" or name != row.name or not rate:
                continue
            other = rates.get((repeat, "redis", name) if row.against == "redis" else (repeat, "dictum", row.against))
            if other:
                ratios.append(rate / other)
        ratio = statistics.median(ratios) if ratios else None
        marks.append({"row": row.name, "title": row.title, "against": row.against, "target": row.target, "ratio": ratio,
                      "pass": ratio is not None and ratio >= row.target})
    return marks


def compare(options):
    """Prepares, measures, and writes what was found."""
    install.drive(say)
    install.redis(say)
    sides = [Dictum(install.dictum(say, options.dictum), options.base_port)]
    if any(row.against == "redis" for row in options.rows):
        sides.append(Redis())
    about, results = describe(), []
    idle, stolen = machine.quietness(2.0)
    say(f"{about['processors']} processors, kernel {about['kernel']}; idle {idle:.0f} %, stolen {stolen:.0f} %")
    for repeat in range(options.repeat):
        say(f"repeat {repeat + 1} of {options.repeat}")
        for side in sides if repeat % 2 == 0 else sides[::-1]:
            rows = [row for row in options.rows if side.name == "dictum" or row.against == "redis"]
            measure_side(side, rows, repeat, options, results)
    marks = judged(results, options.rows)
    say("")
    for mark in marks:
        found = "absent" if mark["ratio"] is None else f"{mark['ratio']:5.2f}×"
        say(f"{mark['title']:44} against {mark['against']:6} {found:>7}  ≥ {mark['target']}×  {'pass' if mark['pass'] else 'FAIL'}")
    write("types", about, results, marks)
    if options.require and not all(mark["pass"] for mark in marks):
        sys.exit(1)


def main():
    """Runs the bench."""
    run_bench("types", parse, compare)
