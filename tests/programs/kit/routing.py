"""Clients in cluster mode: they route by themselves, over a bucket of several partitions. A session of a library is a program of its own, as those of
clients.py; in the middle it says `kill a leader` and `start it again`, and is told when that is done."""

import csv
import io
import subprocess
import threading
import time

from harness.processes import Failure, Missing, require, run, say, wait_until

from .packages import java, place

BUCKET, PARTITIONS = "parted", 12
SECONDS = 300


def _commands(name):
    there = place(name)
    return {
        "redis-py": lambda: [there / "venv/bin/python", there / "cluster.py"],
        "go-redis": lambda: [there / "session", "cluster"],
        "ioredis": lambda: ["node", there / "cluster.mjs"],
        "jedis": lambda: java(there, "Routing"),
    }[name]()


def cluster_of(context):
    """Three nodes whose listeners for such clients show a bucket of several partitions."""
    if context.redis:
        raise Missing("needs a cluster, and a Redis alone is none")
    return context.cluster("--cluster-bucket", BUCKET)


def ask(node, *words):
    """What a node answers on the listener for such clients, or an empty text."""
    host, port = node.routes.rsplit(":", 1)
    return run(["redis-cli", "-h", host, "-p", port, *words], 10, check=False).stdout


def prepare(cluster):
    """Makes the bucket; every slot has a leader that every node knows."""
    made = cluster.reply(cluster.nodes[0], "dictum.bucket", "create", BUCKET, "partitions", str(PARTITIONS))
    if made != "OK":
        raise Failure(f"the bucket cannot be created: {made}")
    wait_until(lambda: all(is_whole(node) for node in cluster.nodes), "every slot to have a leader")


def is_whole(node):
    """Whether the node knows a leader for each slot."""
    return "cluster_slots_ok:16384" in ask(node, "cluster", "info")


def slots_led(node, asked=None):
    """How many slots the node leads, as it says itself, or another one says."""
    own = [line.split() for line in ask(asked or node, "cluster", "nodes").splitlines() if f" {node.routes}@" in line]
    ranges = [word.split("-") for words in own for word in words[8:]]
    return sum(int(one[-1]) - int(one[0]) + 1 for one in ranges)


def kill_a_leader(cluster):
    """`kill -9` of who leads most; returns it when others lead all slots."""
    node = max((node for node in cluster.nodes if node.running), key=slots_led)
    led, began = slots_led(node), time.monotonic()
    if not led:
        raise Failure("nobody leads any slot")
    cluster.kill(node)
    others = [other for other in cluster.nodes if other is not node]
    # Right after its death they still believe in it.
    wait_until(lambda: all(is_whole(other) and not slots_led(node, other) for other in others), "others to lead")
    say(f"  {node.name}, which led {led} slots, was killed; others lead {time.monotonic() - began:.1f} s later")
    return node


def serve(cluster, session):
    """Reads what the session prints, and does what it asks for. Returns its lines."""
    lines, killed = [], None
    for line in session.stdout:
        lines.append(line.rstrip("\n"))
        if lines[-1] == "kill a leader":
            killed, told = kill_a_leader(cluster), "another leads"
        elif lines[-1] == "start it again":
            cluster.restart(killed)
            wait_until(lambda: all(is_whole(node) for node in cluster.nodes), "every slot to have a leader")
            told = "it is back"
        else:
            continue
        session.stdin.write(told + "\n")
        session.stdin.flush()
    return lines


def play(context, name):
    """Runs a client's session on a cluster of its own."""
    log = context.work / "session.log"
    with cluster_of(context) as cluster:
        prepare(cluster)
        environment = context.environment(cluster) | {"DICTUM_HOSTS": ",".join(node.routes for node in cluster.nodes)}
        with open(context.work / "errors.log", "w+", encoding="utf-8") as errors:
            session = subprocess.Popen(_commands(name), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                                       text=True, env=environment)
            timer = threading.Timer(SECONDS, session.kill)
            timer.start()
            try:
                lines = serve(cluster, session)
                ended = session.wait()
            finally:
                timer.cancel()
                session.kill()
            errors.seek(0)
            said = "\n".join(lines) + "\n" + errors.read()
    log.write_text(said)
    steps = [line[3:] for line in lines if line.startswith("ok ")]
    if ended != 0 or not steps:
        tail = "\n    ".join(said.strip().splitlines()[-12:])
        raise Failure(f"{len(steps)} steps were right, then it ended with {ended} (all of it: {log})\n    {tail}")
    for line in lines:
        if line.startswith("note "):
            say(f"  {line[5:]}")
    names = dict.fromkeys(step.rsplit(" (", 1)[0] for step in steps)
    return f"{len(steps)} steps over both protocols: {', '.join(names)}"


def benchmark(context):
    """redis-benchmark --cluster: before, while and after the node is away that led most slots."""
    require("redis-benchmark", "redis-cli")
    tests = ["set", "get", "incr", "lpush", "rpop", "sadd", "hset", "zadd"]

    def once(node, number, *words):
        host, port = node.routes.rsplit(":", 1)
        done = run(["redis-benchmark", "--cluster", "-h", host, "-p", port, "--csv", "-n", "20000", "-r", "10000", "-t",
                    ",".join(tests), *words], 600, check=False)
        (context.work / f"benchmark-{number}.csv").write_text(done.stdout + done.stderr)
        rates = {row["test"]: float(row["rps"]) for row in csv.DictReader(io.StringIO(done.stdout[done.stdout.find('"test"'):]))}
        said = [line for line in (done.stdout + done.stderr).splitlines() if "rror" in line]
        if done.returncode != 0 or said or len(rates) != len(tests) or min(rates.values()) <= 0:
            raise Failure(f"redis-benchmark ended with {done.returncode} after {len(rates)} of {len(tests)} tests: {said[:3]}")
        say(f"  {' '.join(words)}, thousand requests a second: "
            + ", ".join(f"{name.split(' ')[0]} {rate / 1000:.1f}" for name, rate in rates.items()))

    with cluster_of(context) as cluster:
        prepare(cluster)
        once(cluster.nodes[0], 0, "-c", "50")
        once(cluster.nodes[1], 1, "-P", "16", "--threads", "2")
        killed = kill_a_leader(cluster)
        once(next(node for node in cluster.nodes if node is not killed), 2, "-c", "50")
        cluster.restart(killed)
        # redis-benchmark ends if a node gets slots that was no master when it began: it leads again before that.
        wait_until(lambda: slots_led(killed) and all(is_whole(node) for node in cluster.nodes), "the node to lead again")
        once(killed, 3, "-c", "50")
    return f"{len(tests)} tests, four times"


def _session(name, text):
    def session(context):
        return play(context, name)

    session.__doc__ = text
    return session


WHAT = {"redis-py": "RedisCluster", "go-redis": "ClusterClient", "ioredis": "Cluster", "jedis": "JedisCluster"}
SESSIONS = {f"{name}:cluster": _session(name, f"{name}'s {what}: it routes by itself, and a leader is killed under it.")
            for name, what in WHAT.items()}
SESSIONS["redis-benchmark:cluster"] = benchmark
