"""How a bench begins and ends: one at a time, and what was found goes to the screen and to a file."""

import json
import sys
import time

from . import machine
from .run import say


def write(name, about, results, marks):
    """Writes what was found to a file of its own."""
    folder = machine.WORK / "results"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.write_text(json.dumps({"machine": about, "results": results, "marks": marks}, indent=1) + "\n")
    say(f"results: {path}")


def conclude(name, about, results, marks, require):
    """Tells the marks (row, what it came to, what it must or nothing, whether it does), writes all of it; with `require` the exit code is 1 unless all pass."""
    widths = [max((len(mark[column]) for mark in marks), default=0) for column in range(3)]
    say("")
    for row, found, target, passes in marks:
        verdict = "" if not target else "pass" if passes else "FAIL"
        say(f"{row:{widths[0]}}  {found:{widths[1]}}  {target:{widths[2]}}  {verdict}")
    write(name, about, results, marks)
    if require and not all(mark[3] for mark in marks):
        sys.exit(1)


def run(name, parse, compare):
    """Runs a bench by its command line, unless another one runs."""
    options = parse(sys.argv[1:])
    with machine.only_run(f"bench/{name}"):
        try:
            compare(options)
        except machine.BenchError as problem:
            sys.exit(f"bench/{name}: {problem}")
        except KeyboardInterrupt:
            sys.exit(130)
