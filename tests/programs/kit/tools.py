"""redis-cli and redis-benchmark, as they come with the distribution's package."""

import csv
import io
import re

from harness.processes import Failure, require, run, say

from .packages import place


def transcript(context, file, needs="get"):
    """Runs the commands of a transcript and compares what each prints."""
    require("redis-cli", "bash")
    lines = [line for line in file.read_text().split("\n") if not line.startswith("#")]
    entries, entry = [], None
    for line in lines:
        if line.startswith(("$ ", "+ $ ")):
            entry = (line[2:] if line[0] == "$" else line[4:], line[0] == "+", [])
            entries.append(entry)
        elif entry:
            entry[2].append(line)
    entries = [one for one in entries if not (one[1] and context.redis)]
    wrong = []
    with context.cluster() as cluster:
        context.needs(cluster, needs)
        if context.redis:
            cluster.reply(cluster.nodes[0], "flushall")
        else:
            cluster.reply(cluster.nodes[0], "del", "ready")
        functions = "".join('NODE%d="redis-cli -h %s -p %s"; n%d() { $NODE%d "$@"; }; ' % (n, *address.rsplit(":", 1), n, n)
                            for n, address in enumerate(context.addresses(cluster), 1))
        for command, _, wanted in entries:
            printed = run(["bash", "-c", functions + command], 60, check=False, cwd=context.work)
            got = (printed.stdout + printed.stderr).replace("\r", "").rstrip("\n").split("\n")
            while wanted and not wanted[-1]:
                wanted.pop()
            while got and not got[-1]:
                got.pop()
            same = len(got) == len(wanted) and all(
                re.fullmatch(want[2:], line) if want.startswith("~ ") else line == want for line, want in zip(got, wanted))
            if not same:
                wrong.append(f"$ {command}\n  prints\n    " + "\n    ".join(got) + "\n  and should print\n    "
                             + "\n    ".join(wanted))
    if wrong:
        raise Failure(f"{len(wrong)} of {len(entries)} commands:\n" + "\n".join(wrong))
    return f"{len(entries)} commands, each with what it prints"


def redis_cli(context):
    """redis-cli: formats, protocols, standard input, scans, subscriptions; what it prints, to the letter."""
    return transcript(context, place("redis-cli") / "session.txt")


def redis_cli_scripts(context):
    """redis-cli: EVAL and --eval."""
    return transcript(context, place("redis-cli") / "scripts.txt", needs="eval")


def redis_cli_buckets(context):
    """redis-cli: databases by number, buckets by name, and wrong choices."""
    return transcript(context, place("redis-cli") / "buckets.txt")


def benchmark(context, *runs):
    """Runs redis-benchmark with its default tests and these words, each time on the leader; every test must end well."""
    require("redis-benchmark")
    names = [line for line in (place("redis-benchmark") / "tests.txt").read_text().splitlines() if line[0] != "#"]
    with context.cluster() as cluster:
        for number, words in enumerate(runs):
            node = cluster.nodes[0] if context.redis else cluster.leader()
            host, port = node.resp.rsplit(":", 1)
            done = run(["redis-benchmark", "-h", host, "-p", port, "--csv", *words], 900, check=False)
            (context.work / f"benchmark-{number}.csv").write_text(done.stdout + done.stderr)
            rates = {row["test"]: float(row["rps"]) for row in csv.DictReader(io.StringIO(done.stdout[done.stdout.find('"test"'):]))}
            said = [line for line in (done.stdout + done.stderr).splitlines() if "rror" in line]
            if done.returncode != 0 or said or list(rates) != names or min(rates.values()) <= 0:
                raise Failure(f"redis-benchmark {' '.join(words)} ended with {done.returncode} after {len(rates)} of "
                              f"{len(names)} tests (the last: {list(rates)[-1:]}): {said[:3]}")
            say(f"  {' '.join(words)}, thousand requests a second: "
                + ", ".join(f"{name.split(' ')[0]} {rate / 1000:.1f}" for name, rate in rates.items()))
    return f"{len(names)} tests, {len(runs)} times"


def redis_benchmark(context):
    """redis-benchmark: all its default tests, over RESP2 and over RESP3 with two threads."""
    return benchmark(context, ["-n", "20000"], ["-n", "20000", "--threads", "2", "-3"])


def redis_benchmark_pipelined(context):
    """redis-benchmark: the same with pipelines of 16 and 100,000 keys."""
    return benchmark(context, ["-n", "100000", "-P", "16", "-r", "100000"])


SESSIONS = {"redis-cli": redis_cli, "redis-cli:scripts": redis_cli_scripts, "redis-cli:buckets": redis_cli_buckets,
            "redis-benchmark": redis_benchmark, "redis-benchmark:pipelined": redis_benchmark_pipelined}
