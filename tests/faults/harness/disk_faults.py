"""Faults of disks: full, failing to sync, power cut. All need root: for mounts, and to trace a process."""

import contextlib
import socket
import time

from .cluster import DictumCluster
from .disks import fill, mounted
from .process_faults import expect_short_gaps
from .processes import Failure, end, require, run, say, start, wait_until


def full_disk(context):
    """One node's disk becomes full: it may refuse, it must not lie, the group goes on; with room again it recovers."""
    require("mount", root=True)
    point = context.work / "small"
    with mounted(point, "-t", "tmpfs", "-o", "size=1500m", "none"):
        folders = [point / "n1", context.work / "n2", context.work / "n3"]
        # Without a mark: the disk shall become really full.
        with DictumCluster(context.program, context.work, folders, options=["--disk-low-mark", "0"]) as cluster:
            victim = cluster.nodes[0]
            with context.load(cluster.addresses) as load:
                for fill_while_running in (True, False):
                    ballast = point / "ballast"
                    if not fill_while_running:
                        cluster.kill(victim)
                    load.mark("disk full")
                    fill(ballast)
                    if not fill_while_running:
                        # A node that starts on a full disk: it may end with a message or wait, not lose anything.
                        cluster.start(victim)
                    # Values of the load are small: large ones make the journal want room at once.
                    push_data([n for n in cluster.nodes if n is not victim], 200)
                    load.run_for(3)
                    seen = cluster.reply(victim, "get", "large:0", seconds=15) if victim.running else None
                    reads = "serves reads" if seen and seen.startswith("xxx") else f"serves no reads ({seen})"
                    say(f"  with a full disk {victim.name} is {describe(cluster, victim)}, {reads}")
                    if fill_while_running and reads != "serves reads":
                        raise Failure(f"{victim.name} must go on reading while its disk is full")
                    load.mark("room again")
                    ballast.unlink()
                    if not victim.running:
                        cluster.start(victim)
                    cluster.wait_ready([victim])
                    cluster.wait_caught_up(victim)
                    load.run_for(1)
            expect_short_gaps(load, "disk full")
    return load


def low_disk(context):
    """One node's disk passes its low-disk mark: it refuses writes, goes on reading, leads no more; with room again it takes writes."""
    require("mount", root=True)
    point = context.work / "small"
    with mounted(point, "-t", "tmpfs", "-o", "size=1500m", "none"):
        folders = [point / "n1", context.work / "n2", context.work / "n3"]
        with DictumCluster(context.program, context.work, folders, options=["--disk-low-mark", "256MiB"]) as cluster:
            victim = cluster.nodes[0]
            push_data(cluster.nodes, 20)
            with context.load(cluster.addresses) as load:
                for _ in range(2):
                    ballast = point / "ballast"
                    load.mark("disk low")
                    fill(ballast, leave=128 << 20)
                    wait_until(lambda: (cluster.reply(victim, "set", "low", "disk") or "").startswith("MISCONF"),
                               f"{victim.name} to refuse writes (see {victim.log})", 20)
                    wait_until(lambda: cluster.leader() is not victim, f"{victim.name} to hand over", 20)
                    load.run_for(3)
                    if not (cluster.reply(victim, "get", "large:0") or "").startswith("xxx"):
                        raise Failure(f"{victim.name} must go on reading below the low-disk mark")
                    say(f"  below the mark {victim.name} is {describe(cluster, victim)}")
                    load.mark("room again")
                    ballast.unlink()
                    cluster.wait_ready([victim], 20)
                    cluster.wait_caught_up(victim)
                    load.run_for(1)
            expect_short_gaps(load, "disk low")
    return load


def push_data(nodes, megabytes, seconds=90):
    """Writes values of 1 MiB through the given nodes until that much has been acknowledged; refusals are repeated."""
    end_at = time.monotonic() + seconds
    value = b"x" * (1 << 20)
    done, turn, server = 0, 0, None
    while done < megabytes:
        if time.monotonic() > end_at:
            raise Failure(f"only {done} of {megabytes} large values were acknowledged within {seconds} s")
        try:
            if server is None:
                host, port = nodes[turn % len(nodes)].resp.rsplit(":", 1)
                server = socket.create_connection((host, int(port)), 10)
            key = b"large:%d" % (done % 20)
            server.sendall(b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(key), key, len(value), value))
            if server.recv(1000).startswith(b"+OK"):
                done += 1
                continue
        except OSError:
            pass
        if server is not None:
            server.close()
        server, turn = None, turn + 1


def describe(cluster, node):
    """Whether a node runs and what it says of its disk."""
    if not node.running:
        last = node.log.read_text(errors="replace").strip().splitlines()[-1:]
        return f"ended ({node.process.returncode}): {' '.join(last)}"
    status = cluster.status(node)
    own = [one for one in status["nodes"] if one["me"]] if status else []
    return f"running, disk {own[0]['disk']}, {own[0]['role']}" if own else "running, without an answer"


def failing_sync(context):
    """A sync fails with an I/O error: the node must end with a clear message, never sync again, and the group go on."""
    require("strace", root=True)
    with DictumCluster(context.program, context.work) as cluster, context.load(cluster.addresses) as load:
        for who in ("follower", "leader"):
            victim = cluster.leader() if who == "leader" else cluster.followers()[0]
            printed = victim.log.stat().st_size
            load.mark("sync fails")
            # A journal written with O_DSYNC is synced by its writes, so those fail as well.
            calls = "fdatasync,fsync,pwrite64,pwritev,pwritev2"
            tracer = start(["strace", "-f", "-qq", "-p", victim.process.pid, "-e", f"trace={calls}", "-e",
                            f"inject={calls}:error=EIO", "-o", "/dev/null"], context.work / "strace.log")
            try:
                wait_until(lambda: not victim.running, f"{victim.name} to end after its sync failed", 20)
            finally:
                end(tracer)
            code = end(victim.process)
            text = victim.log.read_text(errors="replace")[printed:].strip()
            say(f"  {who} {victim.name} ended with {code}: {text.splitlines()[-1] if text else '(nothing printed)'}")
            if code == 0 or code < 0:
                raise Failure(f"a node whose disk failed must end with an error code, not {code}; see {victim.log}")
            if "error" not in text.lower() and "fail" not in text.lower():
                raise Failure(f"the message does not say that the disk failed; see {victim.log}")
            load.run_for(2)
            load.mark("restart")
            cluster.restart(victim)
            load.run_for(1)
    expect_short_gaps(load, "sync fails")
    return load


class CuttableDisk:
    """An XFS on a loop file whose power can be cut: what was not synced is gone."""

    def __init__(self, folder):
        self.image, self.point = folder / "disk.img", folder / "disk"

    def __enter__(self):
        self.point.mkdir(parents=True, exist_ok=True)
        run(["umount", self.point], check=False)
        self.image.unlink(missing_ok=True)
        with open(self.image, "wb") as file:
            file.truncate(2 << 30)
        run(["mkfs.xfs", "-q", "-f", self.image])
        self.mount()
        return self

    def __exit__(self, *_):
        run(["umount", "--lazy", self.point], check=False)
        self.image.unlink(missing_ok=True)

    def mount(self):
        """Mounts the disk; XFS recovers its own log."""
        run(["mount", "-o", "loop", self.image, self.point])

    def cut(self):
        """Stops the file system at once, without flushing its log or its pages."""
        run(["xfs_io", "-x", "-c", "shutdown", self.point])

    def unmount(self):
        """Unmounts it; the processes that used it must have ended."""
        wait_until(lambda: run(["umount", self.point], check=False).returncode == 0, f"{self.point} to unmount", 20)


def power_cuts(context, rounds, choose):
    """Cuts the power of the chosen nodes' disks, kills them, and starts them again on what is left."""
    require("mkfs.xfs", "xfs_io", "mount", root=True)
    with contextlib.ExitStack() as stack:
        disks = [stack.enter_context(CuttableDisk(context.work / name)) for name in ("d1", "d2", "d3")]
        folders = [disk.point / "data" for disk in disks]
        with DictumCluster(context.program, context.work, folders) as cluster:
            with context.load(cluster.addresses) as load:
                for _ in range(rounds):
                    load.run_for(1)
                    victims = choose(cluster)
                    load.mark("power cut")
                    for node in victims:
                        disks[cluster.nodes.index(node)].cut()
                    cluster.kill(*victims)
                    load.run_for(0.5)
                    for node in victims:
                        disk = disks[cluster.nodes.index(node)]
                        disk.unmount()
                        disk.mount()
                    load.mark("power back")
                    for node in victims:
                        cluster.start(node)
                    cluster.wait_ready()
                    for node in victims:
                        cluster.wait_caught_up(node)
    return load


def power_cut_one(context):
    """A power cut of one node's disk, the leader's and a follower's in turn."""
    turn = [0]

    def choose(cluster):
        turn[0] += 1
        return [cluster.leader() if turn[0] % 2 else cluster.followers()[0]]

    load = power_cuts(context, context.rounds(4), choose)
    expect_short_gaps(load, "power cut")
    return load


def power_cut_all(context):
    """A power cut of all nodes' disks at once."""
    load = power_cuts(context, context.rounds(4), lambda cluster: cluster.nodes)
    expect_short_gaps(load, "power back", 15_000)
    return load


SCENARIOS = [full_disk, low_disk, failing_sync, power_cut_one, power_cut_all]
