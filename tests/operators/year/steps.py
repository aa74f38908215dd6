"""What happens in the year, in this order. Each step is what an operator does, with what must hold while it is done and afterwards.

After every step, and so not said by each: the cluster is well as every node sees it, every node takes writes, clients go on, and
every acknowledged entry of the book is there at every node."""

import random
import shutil
import time
import urllib.error
import urllib.request
from contextlib import ExitStack

from harness.disks import fill, mounted
from harness.processes import Failure, Missing, require, run, say, wait_until

from . import clocks
from .book import BUCKET
from .living import Living

ARCHIVE = "archive"
HOUR = 3600
TWO_DAYS = 2 * 24 * HOUR
KILLS = 5


def start(year):
    """The first day: three nodes are started with the same list of founders, and buckets are made. Clients begin.

    Waited for: `dictum status --wait-healthy` at each node, and then the first acknowledged writes."""
    cluster = year.cluster
    for node in cluster.nodes:
        cluster.start(node)
    cluster.wait_healthy()
    for bucket in (BUCKET, ARCHIVE):
        cluster.operator("bucket", "create", bucket, "--partitions", "4")
    fill_archive(cluster, year.options.megabytes)
    year.begin_load()
    year.book.wait_for_more()
    return f"{len(cluster.nodes)} nodes, {len(year.archive_at(cluster.nodes[1]))} keys in the bucket {ARCHIVE}"


def fill_archive(cluster, megabytes):
    """Keys of several types, in a bucket that the checked load does not touch; and large values, so that copies take a while."""
    node, days = cluster.nodes[0], 30 * 24 * HOUR
    for number in range(megabytes):
        cluster.ask(node, ARCHIVE, "SET", f"large:{number}", random.randbytes(1 << 20))
    for number in range(100):
        cluster.ask(node, ARCHIVE, "SET", f"text:{number}", f"value {number}")
        cluster.ask(node, ARCHIVE, "SET", f"fades:{number}", number, "EX", days + number)
    for number in range(20):
        cluster.ask(node, ARCHIVE, "RPUSH", f"list:{number}", *range(number + 1))
        cluster.ask(node, ARCHIVE, "HSET", f"hash:{number}", *(word for field in range(number + 1) for word in (field, field * 2)))
        cluster.ask(node, ARCHIVE, "ZADD", f"ranks:{number}", *(word for member in range(number + 1) for word in (member, member)))


def grow(year):
    """Two nodes join, one by a token and one by the command that `dictum node add` prints; then five nodes vote.

    Waited for: each is listed as up; five votes in every partition, so five copies."""
    cluster = year.cluster
    asked = cluster.nodes[0].peer
    token = cluster.operator("node", "token").strip()
    fourth = cluster.add("n4")
    cluster.start(fourth, "--join", asked, "--token", token)
    wait_until(lambda: cluster.listed()["n4"]["seen"] == "up", "n4 to be a node of the cluster", 60)
    fifth = cluster.add("n5")
    told = cluster.operator("node", "add", "n5", fifth.peer).split()
    cluster.start(fifth, *told[told.index("--join"):told.index("--peer")])
    wait_until(lambda: cluster.listed()["n5"]["seen"] == "up", "n5 to be a node of the cluster", 60)
    cluster.operator("node", "voters", "5")
    partitions = cluster.wait_all_vote()
    year.nodes_have_changed()
    return f"5 nodes, each votes in all {partitions} partitions"


def upgrade(year):
    """One node after the other is stopped and started with the new program.

    A node ends with 0. Waited for, before the next one is stopped: `status --wait-healthy` at all. At the end the cluster has the
    version that all nodes speak."""
    cluster = year.cluster
    version = cluster.listed()["n1"]["cluster_version"]
    longest = 0
    for node in cluster.nodes:
        began = time.monotonic()
        cluster.stop(node)
        node.program = cluster.program
        cluster.start(node)
        cluster.wait_healthy()
        year.book.wait_for_more()
        longest = max(longest, time.monotonic() - began)
    cluster.runs = cluster.program

    def agreed():
        listed = cluster.listed().values()
        return all(one["cluster_version"] == min(other["speaks"] for other in listed) for one in listed)

    wait_until(agreed, "the cluster to have the version that all nodes speak", 60)
    what = "from the earlier program to the new one"
    if not year.options.earlier:
        what = "the SAME program again, as --earlier names none"
        say("  NOTE: without --earlier the same program is started again. Nothing was upgraded.")
    new = cluster.listed()["n1"]["cluster_version"]
    return f"{what}; version {version}, then {new}; at most {longest:.1f} s for a node"


def lose_disk(year):
    """The leader (or n2, if a node leads that has joined) dies with its disk, and is started with an empty folder.

    Waited for: another leader; then, at the node itself, that it names every bucket and recovers in none (docs/operating.md)."""
    cluster = year.cluster
    leader = cluster.leader()
    victim = leader if leader.name in cluster.founders else cluster.node("n2")
    cluster.kill(victim)
    cluster.leader(among=cluster.others(victim))
    shutil.rmtree(victim.folder)
    year.book.wait_for_more()
    cluster.start(victim)
    buckets = set(cluster.buckets())

    def recovered():
        partitions = cluster.told(victim)["partitions"]
        return buckets <= {one["name"] for one in partitions} and all(one["role"] in ("leader", "follower") for one in partitions)

    began = time.monotonic()
    wait_until(recovered, f"{victim.name} to recover all of {', '.join(sorted(buckets))}", 120)
    return f"{victim.name} had everything again after {time.monotonic() - began:.1f} s"


def wrong_clock(year):
    """The leader's machine starts again with a clock two days ahead. Of five nodes another leader dies meanwhile. Then the clock is set right.

    Waited for: all, itself too, say that its clock is wrong, `status --wait-healthy` names it, and it leads nothing, also after the death of
    the leader. Keys with an hour to live, made before or then at the node itself, have that hour at every node."""
    cluster = year.cluster
    prefix = clocks.ahead(cluster.work, TWO_DAYS)
    victim = cluster.leader()
    others = cluster.others(victim)
    witness = others[0]
    made = time.monotonic()
    keys = [f"hour:{number}" for number in range(40)]
    for key in keys:
        cluster.ask(victim, BUCKET, "SET", key, "x", "EX", HOUR)
    cluster.stop(victim)
    victim.prefix, printed = prefix, victim.log.stat().st_size
    cluster.start(victim)
    wait_until(lambda: cluster.seen(witness, victim)["up"], f"{victim.name} to be up", 60)
    lines = victim.log.read_bytes()[printed:].decode(errors="replace").splitlines()
    if abs(clocks.of_log(lines) - TWO_DAYS) > HOUR:
        set_right(cluster, victim)
        raise Missing(f"the clock that is put before {victim.name} has no effect: its log goes by the machine's")
    wait_until(lambda: all(cluster.seen(node, victim)["clock"] == "outside" for node in cluster.nodes),
               f"all nodes to say that the clock of {victim.name} is wrong", 60)
    ahead = cluster.seen(witness, victim)["clock_ahead_ms"] / 1000
    wait_until(lambda: "wrong clock" in cluster.try_operator("status", at=witness).stdout, "the table to say it", 10)
    wait_until(lambda: cluster.is_called_unwell(witness, f"{victim.name} has a wrong clock"), "--wait-healthy to name it", 10)
    wait_until(lambda: cluster.leads_nothing(victim), f"{victim.name} to lead nothing", 60)
    keys.append("hour:late")
    cluster.ask(victim, BUCKET, "SET", keys[-1], "x", "EX", HOUR)
    if len(others) > 2:
        dies = cluster.leader(among=others)
        cluster.kill(dies)
        cluster.leader(among=[node for node in others if node is not dies])
        year.book.wait_for_more()
        cluster.start(dies)
        wait_until(lambda: cluster.seen(victim, dies)["up"], f"{dies.name} to be up again", 60)
    if not cluster.leads_nothing(victim):
        raise Failure(f"{victim.name} leads although its clock is wrong and others could")
    expect_an_hour(cluster, keys, made)
    told = int(cluster.ask(victim, BUCKET, "TIME")[0])
    if abs(told - time.time()) > 5:
        raise Failure(f"TIME at {victim.name} is {told - time.time():.0f} s off")
    set_right(cluster, victim)
    wait_until(lambda: cluster.seen(witness, victim)["clock"] == "ok", f"the clock of {victim.name} to be right again", 60)
    expect_an_hour(cluster, keys, made)
    for key in keys:
        cluster.ask(witness, BUCKET, "DEL", key)
    return f"{victim.name} was said to be {ahead / HOUR:.1f} h ahead and led nothing; {len(keys)} keys kept their hour"


def set_right(cluster, node):
    """The node starts again with the machine's clock."""
    node.prefix = []
    cluster.stop(node)
    cluster.start(node)


def expect_an_hour(cluster, keys, made):
    """Fails unless each key has, at every node, what is left of its hour, give or take some seconds."""
    for node in cluster.nodes:
        for key in keys:
            least = HOUR - (time.monotonic() - made) - 10
            left = cluster.ask(node, BUCKET, "TTL", key)
            if not least <= left <= HOUR + 10:
                raise Failure(f"{key} has {left} s to live at {node.name}; expected {least:.0f} to {HOUR}")


def full_disk(year):
    """A node's folder is on a small disk, which somebody else's file fills. Then there is room again, and the folder moves back.

    Waited for: the node says that its disk is low, refuses what grows, takes what frees room, reads, is not ready, leads nothing, and
    the others' scripts name it; clients go on. With room again it takes writes by itself."""
    require("mount", root=True)
    cluster = year.cluster
    victim = cluster.followers()[0]
    home, point = victim.folder, cluster.work / "small"
    with ExitStack() as stack:
        cluster.stop(victim)
        try:
            # Above the low mark of a disk of this size, 192 MiB, there is plenty of room at first.
            size = (size_of(victim.folder) >> 20) + 700
            stack.enter_context(mounted(point, "-t", "tmpfs", "-o", f"size={size}m", "none"))
        except Failure as problem:
            cluster.start(victim)
            raise Missing(f"may not mount a small disk: {problem}") from problem
        cluster.move_folder(victim, point / victim.name)
        cluster.start(victim)
        cluster.wait_healthy()
        cluster.ask(victim, BUCKET, "SET", "takes:room", "x")
        ballast = point / "ballast"
        fill(ballast, leave=100 << 20)
        wait_until(lambda: cluster.seen(victim, victim)["disk"] == "low", f"{victim.name} to say that its disk is low", 30)
        missing = cluster.seen(victim, victim)["disk_missing"]
        wait_until(lambda: (cluster.reply(victim, "SET", "grows", "x") or "").startswith("MISCONF"), f"{victim.name} to refuse writes", 30)
        witness = cluster.others(victim)[0]
        wait_until(lambda: cluster.is_called_unwell(witness, f"{victim.name} has a disk that is low"), "--wait-healthy to name it", 30)
        wait_until(lambda: cluster.leads_nothing(victim), f"{victim.name} to lead nothing", 60)
        if ready(victim) != 503:
            raise Failure(f"/readyz of {victim.name} is {ready(victim)} though it refuses writes")
        if cluster.ask(victim, BUCKET, "GET", "takes:room") != b"x" or cluster.ask(victim, BUCKET, "DEL", "takes:room") != 1:
            raise Failure(f"{victim.name} must read, and take what frees room")
        year.book.wait_for_more(200)
        ballast.unlink()
        wait_until(lambda: cluster.writes(victim, "grows"), f"{victim.name} to take writes again", 60)
        wait_until(lambda: ready(victim) == 200, f"{victim.name} to be ready again", 30)
        cluster.wait_healthy()
        cluster.stop(victim)
        cluster.move_folder(victim, home)
        cluster.start(victim)
        cluster.wait_healthy()
    return f"{victim.name} was low, {missing >> 20} MiB were missing; clients went on elsewhere"


def size_of(folder):
    """Bytes that its files have."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def ready(node):
    """The code of its /readyz."""
    try:
        with urllib.request.urlopen(f"http://{node.http}/readyz", timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as refused:
        return refused.code


def restore(year):
    """A backup is taken, verified, and rehearsed in a second cluster of one node beside the living one. Then somebody empties a bucket
    by mistake, and it is restored into the living cluster.

    The rehearsal has every key as the backup had it. After the restore so has the living cluster, at every node; a key that was written
    after the mistake stays. Nothing is waited for but the commands themselves: each returns when it is done."""
    cluster = year.cluster
    backup = cluster.work / "backup"
    before = year.archive_at(cluster.nodes[0])
    cluster.operator("backup", backup, seconds=300)
    run([cluster.program, "backup", "--verify", backup], 120)
    with Living(cluster.program, cluster.work / "rehearsal", ["r1"], cluster.ports) as rehearsal:
        (alone,) = rehearsal.nodes
        rehearsal.start(alone)
        rehearsal.wait_healthy()
        began = time.monotonic()
        rehearsal.operator("restore", backup, seconds=600)
        took = time.monotonic() - began
        expect_contents(before, rehearsal.contents(alone, ARCHIVE), "the rehearsal")
        keys = sum(rehearsal.ask(alone, bucket, "DBSIZE") for bucket in ("default", BUCKET, ARCHIVE))
    cluster.ask(cluster.nodes[0], ARCHIVE, "FLUSHALL")
    for node in cluster.nodes:
        wait_until(lambda node=node: not year.archive_at(node), f"{node.name} to have lost the bucket {ARCHIVE}", 10)
    cluster.ask(cluster.nodes[0], ARCHIVE, "SET", "after:the:mistake", "stays")
    cluster.operator("restore", backup, "--bucket", ARCHIVE, "--over", seconds=600)
    if cluster.ask(cluster.nodes[0], ARCHIVE, "GETDEL", "after:the:mistake") != b"stays":
        raise Failure("a key that was written after the mistake did not stay")
    for node in cluster.nodes:
        expect_contents(before, year.archive_at(node), node.name)
    return f"{keys} keys rehearsed in {took:.1f} s; {len(before)} keys of {ARCHIVE} are back at each node"


def expect_contents(expected, found, where):
    """Fails unless a bucket has the keys, values and deadlines that it should have."""
    differing = [key.decode() for key in {*expected, *found} if expected.get(key) != found.get(key)]
    if differing:
        raise Failure(f"{len(differing)} keys are not as in the backup in {where}: {', '.join(sorted(differing)[:5])}")


def new_addresses(year):
    """All machines move: every node is stopped, and started at other ports with `--moved`.

    Waited for: each node lists all the others at their new addresses and as up. They remember it: one of them is started again
    without the flag."""
    cluster = year.cluster
    began = time.monotonic()
    cluster.stop(*cluster.nodes)
    for node in cluster.nodes:
        node.resp, node.http, node.peer = cluster.ports.take(3)
    cluster.founders = {name: cluster.node(name).peer for name in cluster.founders}
    moved = ",".join(f"{node.name}={node.peer}" for node in cluster.nodes)
    for node in cluster.nodes:
        cluster.start(node, "--moved", moved)
    year.nodes_have_changed()

    def all_found(at):
        listed = cluster.listed(at)
        return all(listed[node.name]["peer_address"] == node.peer and listed[node.name]["seen"] == "up" for node in cluster.nodes)

    for node in cluster.nodes:
        wait_until(lambda node=node: all_found(node), f"{node.name} to see all nodes at their new addresses", 60)
    cluster.wait_healthy()
    down = time.monotonic() - began
    last = cluster.nodes[-1]
    cluster.stop(last)
    cluster.start(last)
    wait_until(lambda: all_found(last), f"{last.name} to find all nodes without --moved", 60)
    return f"all {len(cluster.nodes)} nodes moved, and were well {down:.1f} s after they were told to stop"


def kill_leaders(year):
    """The leader dies by kill -9, again and again, and each time is started again by its service.

    Waited for: another leader and acknowledged writes, before the dead one is started; then that all is well."""
    cluster = year.cluster
    victims = []
    for _ in range(KILLS):
        victim = cluster.leader()
        victims.append(victim.name)
        cluster.kill(victim)
        cluster.leader(among=cluster.others(victim))
        year.book.wait_for_more()
        cluster.start(victim)
        cluster.wait_healthy()
    return f"killed {', '.join(victims)}"


def shrink(year):
    """Back to three nodes: a founder leaves and a node that has joined. Then each of those that are left is started again.

    `voters 3` is refused until the operator has said `--yes`, as fewer failures are borne then. Waited for: the processes of those that
    were removed end by themselves, with 0; three votes in every partition."""
    cluster = year.cluster
    refused = cluster.try_operator("node", "voters", "3")
    if refused.returncode == 0 or "--yes" not in refused.stderr:
        raise Failure(f"`dictum node voters 3` was not asked back: {refused.stdout}{refused.stderr}")
    cluster.operator("node", "voters", "3", "--yes")
    # At once, at nodes that have not heard of it yet perhaps: none may ask back.
    for name in ("n1", "n4"):
        leaves = cluster.node(name)
        stays = next(node for node in cluster.nodes if node.name not in ("n1", "n4"))
        # From now on clients go elsewhere.
        cluster.nodes.remove(leaves)
        year.nodes_have_changed()
        cluster.operator("node", "remove", name, at=stays, seconds=660)
        wait_until(lambda node=leaves: not node.running, f"the process of {name} to end", 60)
        if leaves.process.returncode != 0:
            raise Failure(f"{name} was removed and ended with {leaves.process.returncode}; see {leaves.log}")
    cluster.wait_all_vote()
    for node in cluster.nodes:
        cluster.stop(node)
        cluster.start(node)
        cluster.wait_healthy()
    return f"{', '.join(node.name for node in cluster.nodes)} are left, and n1 and n4 ended by themselves"


STEPS = {step.__name__.replace("_", "-"): step
         for step in (start, grow, upgrade, lose_disk, wrong_clock, full_disk, restore, new_addresses, kill_leaders, shrink)}
# Without the second the first cannot be done.
NEEDS = {"shrink": "grow"}
