"""The command line of bench/ycsb: the same workload on the same redis-server by Java's YCSB and by `dictum lab run`, in turns."""

import argparse
import importlib.util
import json
import shutil
import socket
import statistics
import sys
import time

from . import install, machine
from .machine import ROOT, WORK, BenchError

EPILOG = """\
Examples:
  bench/ycsb --repeat 5 --seconds 20 --dictum target/release/dictum
  bench/ycsb --rate 3000

Both work on the same 10,000 records of ten fields of 100 bytes in one redis-server (in memory, or with --fsync), which the laboratory loads: that Java's
YCSB finds all of them shows that both draw the same keys. Two programs agree in a figure when the ranges of their repeats overlap, or
when their medians differ by no more than the wider of the two ranges. Java's figures have the start of its machine in them.
Without --rate, on few cores, the programs compete with the server for processors, and the one that costs less lets it do more: then
throughput tells the cost of the programs. With a --rate well below that, both measure the server."""

RECORDS = 10_000
WORKLOADS = {"a": ("readproportion=0.5", "updateproportion=0.5"), "c": ("readproportion=1", "updateproportion=0")}
PERCENTILES = (50, 95, 99)


def say(text):
    """Prints at once, also into a pipe."""
    print(text, flush=True)


def java_client():
    """Builds Java's YCSB with our binding, as tests/programs does, and returns the beginning of its command."""
    for tool in ("java", "mvn"):
        if not shutil.which(tool):
            raise BenchError(f"{tool} is needed for Java's YCSB: install Maven and a JDK, 17 or newer")
    # Its package is called `kit`, as this one is: it is imported under its own name.
    sys.path[:0] = [str(ROOT / "tests" / "faults")]
    spec = importlib.util.spec_from_file_location("program_packages", ROOT / "tests" / "programs" / "kit" / "packages.py")
    packages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(packages)
    return packages.java(packages.place("ycsb"), "site.ycsb.Client")


def free_port():
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def java_run(client, port, workload, options):
    """One run of Java's YCSB: throughput, and percentiles in milliseconds by kind. Every operation must have been right."""
    told = {"hosts": f"127.0.0.1:{port}", "recordcount": RECORDS, "operationcount": 2_000_000_000, "threadcount": options.clients,
            "maxexecutiontime": options.seconds, "workload": "site.ycsb.workloads.CoreWorkload", "fieldcount": 10, "fieldlength": 100,
            "requestdistribution": "zipfian", "measurementtype": "hdrhistogram",
            "hdrhistogram.percentiles": ",".join(map(str, PERCENTILES))}
    words = [word for one in [*(f"{key}={value}" for key, value in told.items()), *WORKLOADS[workload]] for word in ("-p", one)]
    if options.rate:
        words += ["-target", str(options.rate)]
    printed = machine.run([*client, "-db", "RespClient", "-t", *words], options.seconds + 120)
    rows = (line.split(", ") for line in printed.splitlines() if line.startswith("["))
    found = {(row[0].strip("[]"), row[1]): float(row[2]) for row in rows if len(row) == 3}
    wrong = {key: count for key, count in found.items() if key[1].startswith("Return=") and key[1] != "Return=OK"}
    if wrong or ("OVERALL", "Throughput(ops/sec)") not in found:
        raise BenchError(f"Java's YCSB was answered wrongly: {wrong or printed[-500:]}")
    figures = {"throughput": found["OVERALL", "Throughput(ops/sec)"]}
    for kind in ("READ", "UPDATE"):
        for percentile in PERCENTILES:
            latency = next((found[key] for key in found if key[0] == kind and key[1].startswith(f"{percentile}thPercentile")), None)
            if latency is not None:
                figures[f"{kind.lower()} p{percentile} ms"] = latency / 1000
    return figures


def lab_run(dictum, port, workload, options, *more):
    """One run of `dictum lab run`: the same figures."""
    export = WORK / "ycsb.json"
    pace = ["--rate", options.rate, "--arrivals", "constant"] if options.rate else []
    machine.run([dictum, "lab", "run", f"ycsb-{workload}", "--target", f"redis://127.0.0.1:{port}", "--clients", options.clients,
                 "--records", RECORDS, "--seconds", options.seconds, "--warm-up", 0, "--quiet", "--allow-saturated", "--out",
                 WORK / "results", "--export", export, *pace, *more], options.seconds + 120)
    measured = json.loads(export.read_text())["record"]["measurements"][0]
    if measured["errors"]:
        raise BenchError(f"the laboratory was answered wrongly: {measured['errors']}")
    figures = {"throughput": measured["throughput"]}
    for kind, operation in sorted(measured["operations"].items()):
        for percentile in PERCENTILES:
            # From the sending, as Java's: at a rate, `latency` counts from when an operation was due.
            spread = operation["service"] or operation["latency"]
            figures[f"{kind} p{percentile} ms"] = spread[f"p{percentile}"] / 1e6
    return figures


def agree(ours, theirs):
    """Whether two sets of repeats cannot be told apart."""
    overlap = max(min(ours), min(theirs)) <= min(max(ours), max(theirs))
    widest = max(max(ours) - min(ours), max(theirs) - min(theirs))
    return overlap or abs(statistics.median(ours) - statistics.median(theirs)) <= widest


def told(values):
    """The median, and from the least to the greatest."""
    digits = 0 if max(values) >= 1000 else 3
    return f"{statistics.median(values):12,.{digits}f} ({min(values):,.{digits}f} … {max(values):,.{digits}f})"


def compare(options):
    """Measures in turns and prints both side by side."""
    install.redis(say)
    client, dictum = java_client(), install.dictum(say, options.dictum)
    port, folder = free_port(), WORK / "data" / "ycsb"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    idle, stolen = machine.quietness(2.0)
    say(f"idle {idle:.0f} %, stolen {stolen:.0f} %; {options.clients} clients, {options.seconds} s, {options.repeat} repeats")
    machine.start(["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", folder,
                   *(["--appendonly", "yes", "--appendfsync", "always"] if options.fsync else ["--appendonly", "no"])], "ycsb.log")
    machine.wait_until(lambda: machine.run(["redis-cli", "-p", port, "ping"], 5).strip() == "PONG", "redis-server")
    # Loads the records, and works on them for a moment.
    lab_run(dictum, port, "c", argparse.Namespace(clients=options.clients, seconds=1, rate=0))
    results = []
    for workload in options.workloads:
        programs = [("lab", lambda w=workload: lab_run(dictum, port, w, options, "--no-load")),
                    ("java", lambda w=workload: java_run(client, port, w, options))]
        for repeat in range(options.repeat):
            for name, measure in programs if repeat % 2 == 0 else programs[::-1]:
                figures = measure()
                say(f"  {workload} {name:4} {figures['throughput']:9,.0f} op/s")
                results.append({"workload": workload, "program": name, "repeat": repeat, **figures})
        of = {name: [r for r in results if r["program"] == name and r["workload"] == workload] for name in ("lab", "java")}
        say(f"\nYCSB {workload.upper():21} {'the laboratory':>34} {'Java':>34}")
        for figure in [key for key in of["lab"][0] if key not in ("workload", "program", "repeat")]:
            ours, theirs = ([r[figure] for r in of[name]] for name in ("lab", "java"))
            ratio = statistics.median(ours) / statistics.median(theirs)
            word = "agree" if agree(ours, theirs) else "DIFFER"
            say(f"  {figure:24} {told(ours):>34} {told(theirs):>34}  {ratio:5.2f}×  {word}")
        say("")
    path = WORK / "results" / f"ycsb-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.write_text(json.dumps({"idle": idle, "stolen": stolen, "results": results}, indent=1) + "\n")
    say(f"results: {path}")


def main():
    """Runs the bench."""
    parser = argparse.ArgumentParser(prog="bench/ycsb", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     description="Measures the same redis-server by the laboratory's YCSB and by Java's.")
    parser.add_argument("--workloads", default="a,c", metavar="LETTERS", help="workloads, separated by commas (default a,c)")
    parser.add_argument("--clients", type=int, default=16, help="clients (default 16)")
    parser.add_argument("--rate", type=int, default=0, help="operations a second, all clients together (default: as fast as answers come)")
    parser.add_argument("--seconds", type=int, default=15, help="seconds of each run (default 15)")
    parser.add_argument("--repeat", type=int, default=3, help="repeats of each (default 3)")
    parser.add_argument("--fsync", action="store_true", help="the server fsyncs each write, so that it takes most of the time, not its clients")
    parser.add_argument("--dictum", metavar="FILE", help="a built dictum; default: cargo builds it")
    options = parser.parse_args()
    options.workloads = options.workloads.split(",")
    for letter in options.workloads:
        if letter not in WORKLOADS:
            parser.error(f"no workload {letter!r}; there are {', '.join(WORKLOADS)}")
    if options.repeat < 1 or options.seconds < 1 or options.clients < 1:
        parser.error("--repeat, --seconds and --clients are at least 1")
    with machine.only_run("bench/ycsb"):
        try:
            compare(options)
        except BenchError as problem:
            sys.exit(f"bench/ycsb: {problem}")
        except KeyboardInterrupt:
            sys.exit(130)
