"""Faults of processes: killed, stopped for a while, told to end, all at once. No special rights are needed."""

import contextlib
import random
import shutil
import signal
import subprocess
import time

from .cluster import DictumCluster, RedisAlone
from .load import Load
from .processes import Failure, require, say, wait_until

# The bound on a failover, with room for a loaded machine: the bench measures it, this only alarms.
FAILOVER_MS_MAX = 5000


def expect_short_gaps(load, name, most_ms=FAILOVER_MS_MAX):
    """Prints the gaps of all sections of that name and fails if one is too long."""
    gaps = load.section(name)
    say(f"  longest gaps after «{name}»: {', '.join(f'{gap:.0f}' for gap in gaps)} ms")
    if gaps and max(gaps) > most_ms:
        raise Failure(f"{max(gaps):.0f} ms without an acknowledged write after «{name}» (expected at most {most_ms})")


def expect_all_answered(load):
    """Fails if any request stayed without an answer for longer than the client's patience."""
    if load.summary["timeouts"]:
        slow = [f"{count} × {text}" for text, count in load.summary["errors"].items() if text.startswith("no answer")]
        raise Failure(f"the node's bound is 5 s, but: {'; '.join(slow)} (running nodes: see the logs)")


def kill_leader(context):
    """kill -9 of the leader, again and again; each comes back and catches up."""
    with DictumCluster(context.program, context.work) as cluster, context.load(cluster.addresses) as load:
        for _ in range(context.rounds(5)):
            victim = cluster.leader()
            load.mark("kill leader")
            cluster.kill(victim)
            load.run_for(2)
            load.mark("restart")
            cluster.restart(victim)
            load.run_for(1)
    expect_short_gaps(load, "kill leader")
    expect_all_answered(load)
    return load


def kill_follower(context):
    """kill -9 of a follower: nobody should notice."""
    with DictumCluster(context.program, context.work) as cluster, context.load(cluster.addresses) as load:
        for _ in range(context.rounds(4)):
            victim = random.choice(cluster.followers())
            load.mark("kill follower")
            cluster.kill(victim)
            load.run_for(1.5)
            load.mark("restart")
            cluster.restart(victim)
            load.run_for(0.5)
    expect_short_gaps(load, "kill follower", 1500)
    expect_all_answered(load)
    return load


def kill_majority(context):
    """kill -9 of two nodes at once: no write is acknowledged, every request is answered, all is there afterwards."""
    with DictumCluster(context.program, context.work) as cluster, context.load(cluster.addresses) as load:
        for _ in range(context.rounds(3)):
            victims = random.sample(cluster.nodes, 2)
            load.mark("kill two")
            cluster.kill(*victims)
            load.run_for(7)  # longer than the five seconds that a request may wait: some are told so
            load.mark("both back")
            for node in victims:
                cluster.start(node)
            cluster.wait_ready()
            load.run_for(1)
    for gap in load.section("kill two"):
        if gap < 6500:
            raise Failure(f"writes were acknowledged by one node of three (longest gap {gap:.0f} ms of 7 s)")
    told = [text for text in load.summary["errors"] if text.split(" ")[0] in ("CLUSTERDOWN", "UNKNOWN")]
    if not told:
        raise Failure("no client was told CLUSTERDOWN or UNKNOWN although nothing could be decided for 7 s")
    expect_all_answered(load)
    return load


def pause_leader(context):
    """SIGSTOP of the leader for longer than the election timeout: another takes over, and the old one must notice."""
    with DictumCluster(context.program, context.work) as cluster, context.load(cluster.addresses) as load:
        for _ in range(context.rounds(4)):
            victim = cluster.leader()
            others = [node for node in cluster.nodes if node is not victim]
            load.mark("stop leader")
            victim.process.send_signal(signal.SIGSTOP)
            wait_until(lambda: cluster.leader(among=others), "another leader")
            load.run_for(2)
            load.mark("continue")
            victim.process.send_signal(signal.SIGCONT)
            cluster.wait_ready([victim])
            cluster.wait_caught_up(victim)
            load.run_for(1)
    expect_short_gaps(load, "stop leader")
    return load


def pause_follower(context):
    """SIGSTOP of a follower for longer than the election timeout: the leader must not be disturbed, also afterwards."""
    with DictumCluster(context.program, context.work) as cluster, context.load(cluster.addresses) as load:
        for _ in range(context.rounds(3)):
            victim = random.choice(cluster.followers())
            load.mark("stop follower")
            victim.process.send_signal(signal.SIGSTOP)
            load.run_for(3)
            load.mark("continue")
            victim.process.send_signal(signal.SIGCONT)
            cluster.wait_caught_up(victim)
            load.run_for(1)
    expect_short_gaps(load, "stop follower", 1500)
    return load


def restart_all(context):
    """kill -9 of every node at the same moment, then all start again."""
    with DictumCluster(context.program, context.work) as cluster, context.load(cluster.addresses) as load:
        for _ in range(context.rounds(4)):
            load.mark("kill all")
            cluster.kill(*cluster.nodes)
            load.run_for(0.5)
            load.mark("start all")
            for node in cluster.nodes:
                cluster.start(node)
            cluster.wait_ready()
            load.run_for(1.5)
    expect_short_gaps(load, "start all", 10_000)
    return load


def hand_over(context):
    """SIGTERM of the leader costs no failed writes: what is under way is answered, the rest goes to the next leader."""
    with DictumCluster(context.program, context.work) as cluster:
        for _ in range(context.rounds(3)):
            victim = cluster.leader()
            others = [node.resp for node in cluster.nodes if node is not victim]
            # Clients of the other nodes only: those of the stopped node lose their connections, as they must.
            with Load(others, context.work, *context.options) as load:
                load.mark("SIGTERM")
                code, seconds = cluster.stop_cleanly(victim)
                say(f"  {victim.name} ended with {code} after {seconds:.2f} s")
                load.run_for(2)
                cluster.restart(victim)
            if code != 0:
                raise Failure(f"the leader ended with {code} after SIGTERM; see {victim.log}")
            context.judge(load)
            expect_short_gaps(load, "SIGTERM", 1000)
            bad = {text: count for text, count in load.summary["errors"].items()}
            if bad:
                raise Failure(f"clients of the other nodes saw errors: {bad}")
    return None


def deleted_folder(context):
    """The data folder of one node is deleted while it is down: it may not vote for what it forgot, and recovers."""
    with DictumCluster(context.program, context.work) as cluster, context.load(cluster.addresses) as load:
        for _ in range(context.rounds(2)):
            for victim in (random.choice(cluster.followers()), cluster.leader()):
                load.mark("delete folder")
                cluster.kill(victim)
                shutil.rmtree(victim.folder)
                load.run_for(1)
                load.mark("restart empty")
                cluster.restart(victim)
                load.run_for(1)
    expect_short_gaps(load, "delete folder")
    return load


def storm(context):
    """Killed, stopped and ended nodes in random order and at random moments, also several at once."""
    with DictumCluster(context.program, context.work) as cluster, context.load(cluster.addresses) as load:
        stopped = set()
        for _ in range(context.rounds(40)):
            node = random.choice(cluster.nodes)
            if not node.running:
                cluster.start(node)
            elif node.name in stopped:
                node.process.send_signal(signal.SIGCONT)
                stopped.discard(node.name)
            else:
                harm = random.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM])
                node.process.send_signal(harm)
                if harm == signal.SIGSTOP:
                    stopped.add(node.name)
                elif harm == signal.SIGKILL:
                    node.process.wait()
            load.run_for(random.expovariate(2))
        load.mark("calm")
        for node in cluster.nodes:
            if node.name in stopped:
                node.process.send_signal(signal.SIGCONT)
            elif node.running:
                continue
            else:
                cluster.start(node)
        for node in cluster.nodes:
            # One that was told to end, and had not yet, ends now.
            with contextlib.suppress(subprocess.TimeoutExpired):
                node.process.wait(2)
                cluster.start(node)
        cluster.wait_ready()
        load.run_for(2)
    expect_short_gaps(load, "calm", 15_000)
    return load


def alarm(context):
    """The checkers themselves: a Redis that fsyncs survives kill -9; one that keeps nothing must be found out."""
    require("redis-server", "redis-cli")
    for durable, expected in ((True, "linearizable"), (False, "violated")):
        work = context.work / ("durable" if durable else "forgetful")
        with RedisAlone(work, durable) as cluster:
            with Load(cluster.addresses, work, "-timeout", "2s", "-clients", "20", "-rate", "1500") as load:
                for _ in range(2):
                    load.mark("kill")
                    cluster.kill(cluster.nodes[0])
                    time.sleep(0.3)
                    cluster.start(cluster.nodes[0])
                    cluster.wait_ready()
                    load.run_for(1)
        context.judge(load, expected)
    return None


SCENARIOS = [alarm, kill_leader, kill_follower, kill_majority, pause_leader, pause_follower, restart_all, hand_over,
             deleted_folder, storm]
