"""What must hold at the end of the year, and how a run shows that it would see a fault."""

import json

from harness.load import judge
from harness.processes import Failure, say, wait_until

from .book import BUCKET

# The first lines of the history: its first keys are out of use by then.
EARLY_LINES = 20_000
# Words that no log may have.
NEVER_SAID = ("panicked at", "is not that of the majority", "the states of its replicas differ", "damaged")


def history(year):
    """Two checkers find every answer of the year right, and every key that was ever used could be read through every node."""
    judge(year.cluster.program, year.load)
    summary = year.load.summary
    return f"{summary['operations']} operations on {summary['keys']} keys are linearizable: 0 lost, 0 wrong"


def book(year):
    """Every acknowledged entry of the book is at every node as it was written."""
    return year.book.check(year.cluster.nodes)


def equal_nodes(year):
    """All nodes have equally many keys in each bucket, and their replicas, which compare themselves, find no difference."""
    cluster = year.cluster
    buckets = cluster.buckets()

    def sizes():
        told = [[cluster.ask(node, bucket, "DBSIZE") for bucket in buckets] for node in cluster.nodes]
        return told[0] if all(one == told[0] for one in told) else None

    def copies(node):
        # As votes may still move, so may copies.
        return [one for one in cluster.told(node)["partitions"] if one["name"] != "council" and one["role"] in ("leader", "follower")]

    begun = [figures(cluster, node)["dictum_states_compared"] for node in cluster.nodes]
    # Only what has changed is compared.
    for bucket in buckets:
        for number in range(100):
            cluster.ask(cluster.nodes[0], bucket, "SET", f"closing:{number}", number)

    def compared():
        return all(figures(cluster, node)["dictum_states_compared"] >= before + len(copies(node)) for node, before in zip(cluster.nodes, begun))

    wait_until(compared, "each node to compare all its partitions with the others'", 120)
    for node in cluster.nodes:
        differing = figures(cluster, node)["dictum_states_differing"]
        if differing:
            raise Failure(f"{node.name} has seen {differing} replicas that differ; see the logs")
    keys = wait_until(sizes, "equally many keys at all nodes", 30)
    return f"{', '.join(f'{count} in {bucket}' for bucket, count in zip(buckets, keys))}; no replica differs"


def figures(cluster, node):
    """The numbers of `INFO dictum`."""
    lines = cluster.ask(node, "default", "INFO", "dictum").decode().splitlines()
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    return {name: int(value) for name, value in pairs if value.isdigit()}


def folders(year):
    """All nodes end in order, `dictum check` finds their folders well, and no log has what must never be said."""
    year.cluster.end_and_check()
    for log in sorted(year.cluster.work.glob("n*.log")):
        for line in log.read_text(errors="replace").splitlines():
            if any(words in line for words in NEVER_SAID):
                raise Failure(f"{log}: {line}")
    return f"{len(year.cluster.nodes)} folders are sound"


def break_it(year):
    """Deletes one acknowledged key of the checked load and one entry of the book, of which neither checker is told."""
    cluster = year.cluster
    last = {}
    with open(year.load.history, encoding="utf-8") as lines:
        for _, line in zip(range(EARLY_LINES), lines):
            if not line.endswith("\n"):
                break
            one = json.loads(line)
            for command in one["commands"]:
                if command["op"] not in ("GET", "EXISTS"):
                    last[command["key"]] = (command.get("argument") or "").encode() if one["outcome"] == "done" else None
    found = (key for key, value in last.items() if value and key.startswith("r") and cluster.ask(cluster.nodes[0], "default", "GET", key) == value)
    key = next(found, None)
    if key is None:
        raise Failure("the history has no acknowledged key that could be deleted")
    entry = next(iter(year.book.entries))
    cluster.ask(cluster.nodes[0], "default", "DEL", key)
    cluster.ask(cluster.nodes[0], BUCKET, "DEL", entry)
    say(f"--break: {key} of the checked load and {entry} of the book are deleted behind the checkers' back; this run must fail")


CLOSING = {one.__name__.replace("_", "-"): one for one in (history, book, equal_nodes, folders)}
