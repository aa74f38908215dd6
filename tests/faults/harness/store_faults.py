"""Faults in the middle of what the store does: flushes and compactions, snapshots for a peer, the removal of a bucket."""

import contextlib
import random
import shutil
import socket
import threading

from .cluster import DictumCluster
from .disk_faults import CuttableDisk
from .process_faults import expect_short_gaps
from .processes import Failure, require, say

# Every 256 KiB of log a flush: tables are small and many, and a compaction is nearly always under way.
SMALL_FLUSHES = ["--log-bytes-per-snapshot", "256KiB", "--memory-quota", "8MiB"]
CHURN_KEYS = 400
CHURN_BYTES = 12_000


class Churn:
    """Overwrites large values all the time, beside the recorded load, and makes a bucket, fills it and drops it again."""

    def __init__(self, cluster):
        self.addresses = [node.resp.rsplit(":", 1) for node in cluster.nodes]
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(part,)) for part in (self._overwrite, self._overwrite, self._buckets)]
        self.writes = 0
        self.drops = 0

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for thread in self.threads:
            thread.join()

    def _run(self, part):
        while not self.stopping.is_set():
            host, port = random.choice(self.addresses)
            # Nodes come and go: another one is asked.
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 2) as server:
                server.settimeout(10)
                part(server.makefile("rwb"))
            self.stopping.wait(0.05)

    @staticmethod
    def _ask(server, *words):
        server.write(b"*%d\r\n" % len(words))
        for word in words:
            word = word if isinstance(word, bytes) else str(word).encode()
            server.write(b"$%d\r\n%s\r\n" % (len(word), word))
        server.flush()
        answer = server.readline()
        if not answer.endswith(b"\r\n"):
            raise OSError("the node is gone")
        return answer

    def _overwrite(self, server):
        while not self.stopping.is_set():
            value = random.randbytes(CHURN_BYTES)
            answer = self._ask(server, "SET", f"churn:{random.randrange(CHURN_KEYS)}", value)
            self.writes += answer.startswith(b"+OK")

    def _buckets(self, server):
        while not self.stopping.is_set():
            self._ask(server, "DICTUM.BUCKET", "CREATE", "passing")
            self._ask(server, "SELECT", "passing")
            for number in range(random.randrange(200)):
                self._ask(server, "SET", number, random.randbytes(4000))
            self._ask(server, "SELECT", "0")
            answer = self._ask(server, "DICTUM.BUCKET", "DROP", "passing", "CONFIRM")
            self.drops += answer.startswith(b"+OK")


def expect_work(churn):
    """Fails if the store had nothing to do."""
    say(f"  beside it: {churn.writes} overwrites of {CHURN_BYTES} bytes, {churn.drops} buckets dropped")
    if churn.writes < 100 or churn.drops < 3:
        raise Failure("the churn hardly worked, so nothing was tried")


def store_kills(context):
    """kill -9 at random moments of flushes, compactions and the removal of buckets; at the end all folders are well."""
    with DictumCluster(context.program, context.work, options=SMALL_FLUSHES) as cluster:
        with context.load(cluster.addresses) as load, Churn(cluster) as churn:
            for _ in range(context.rounds(30)):
                victims = random.sample(cluster.nodes, random.choice([1, 1, 1, 3]))
                load.run_for(random.uniform(0.2, 1.5))
                load.mark("kill")
                cluster.kill(*victims)
                load.run_for(random.uniform(0, 0.3))
                for node in victims:
                    cluster.start(node)
                cluster.wait_ready(victims)
            load.mark("calm")
            load.run_for(2)
        expect_work(churn)
        for node in cluster.nodes:
            cluster.wait_caught_up(node)
        cluster.end_and_check()
    expect_short_gaps(load, "kill", 15_000)
    return load


def snapshot_kills(context):
    """A node whose folder was deleted is sent a snapshot; sender or receiver are killed in the middle of it."""
    options = [*SMALL_FLUSHES, "--log-entries-kept", "100"]
    with DictumCluster(context.program, context.work, options=options) as cluster:
        with context.load(cluster.addresses) as load, Churn(cluster) as churn:
            load.run_for(3)
            for _ in range(context.rounds(8)):
                load.mark("delete folder")
                receiver = random.choice(cluster.followers())
                cluster.kill(receiver)
                shutil.rmtree(receiver.folder)
                cluster.start(receiver)
                load.run_for(random.uniform(0.2, 1.0))
                victim = random.choice([receiver, cluster.leader()])
                cluster.kill(victim)
                load.run_for(random.uniform(0, 0.5))
                cluster.start(victim)
                # With one folder lost and another node away nobody decides: the next harm waits.
                cluster.wait_ready()
                cluster.wait_caught_up(receiver)
            load.mark("calm")
            load.run_for(1)
        expect_work(churn)
        cluster.end_and_check()
    logs = "".join(node.log.read_text(errors="replace") for node in cluster.nodes)
    sent = logs.count("sends")
    say(f"  {sent} times a node began to send a snapshot")
    if "a snapshot" not in logs:
        raise Failure("no snapshot was ever sent, so nothing was tried")
    expect_short_gaps(load, "delete folder", 15_000)
    return load


def store_power_cuts(context):
    """Power cuts of one disk or all in the middle of flushes, compactions and the removal of buckets."""
    require("mkfs.xfs", "xfs_io", "mount", root=True)
    with contextlib.ExitStack() as stack:
        disks = [stack.enter_context(CuttableDisk(context.work / name)) for name in ("d1", "d2", "d3")]
        folders = [disk.point / "data" for disk in disks]
        with DictumCluster(context.program, context.work, folders, options=SMALL_FLUSHES) as cluster:
            with context.load(cluster.addresses) as load, Churn(cluster) as churn:
                for number in range(context.rounds(10)):
                    load.run_for(random.uniform(0.5, 2))
                    victims = list(cluster.nodes) if number % 2 else [random.choice(cluster.nodes)]
                    load.mark("power cut")
                    for node in victims:
                        disks[cluster.nodes.index(node)].cut()
                    cluster.kill(*victims)
                    for node in victims:
                        disk = disks[cluster.nodes.index(node)]
                        disk.unmount()
                        disk.mount()
                        cluster.start(node)
                    cluster.wait_ready()
                    for node in victims:
                        cluster.wait_caught_up(node)
                load.mark("calm")
                load.run_for(1)
            expect_work(churn)
            cluster.end_and_check()
    return load


SCENARIOS = [store_kills, snapshot_kills, store_power_cuts]
