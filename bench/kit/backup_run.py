"""The command line of bench/backup, and what it measures."""

import argparse
import os
import shutil
import socket
import subprocess
import threading
import time

from . import install, machine
from .cluster import Cluster
from .ending import conclude
from .ending import run as run_bench
from .hostile import ask, connect
from .run import describe, say

EPILOG = """\
Three nodes are filled with values of 4 KiB. A client writes and reads keys of its own all the time; its 99th percentile is measured
before the backup, and while `dictum backup` runs. Then the backup is read back (--verify), the cluster is stopped, and the backup is
restored into an empty one of three nodes. Beside the rates stands what the disk takes from one writer that syncs every 8 MiB, as the backup does.

Examples:
  bench/backup                  5 GiB
  bench/backup --mib 500        a look"""

VALUE_BYTES, PIPELINED = 4096, 500
# The targets: how much longer clients wait, and megabytes a second where the disk has them.
P99_MAX, RATE_MIN = 1.5, 100.0


def parse(arguments):
    """Reads the options."""
    parser = argparse.ArgumentParser(prog="bench/backup", epilog=EPILOG, description="A backup beside clients, and a restore: rates, and what clients feel.",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=5120, help="how much is in the cluster (default 5120)")
    parser.add_argument("--calm", type=float, default=20, help="seconds of the client alone before the backup (default 20)")
    parser.add_argument("--dictum", metavar="FILE", help="a built dictum; default: cargo builds it")
    parser.add_argument("--base-port", type=int, default=29801, help="first port of the cluster (default 29801)")
    parser.add_argument("--require", action="store_true", help="exit with 1 unless everything passes")
    return parser.parse_args(arguments)


class Client:
    """Writes a key and reads it back, over and over, and notes what each took, in milliseconds."""

    def __init__(self, node):
        self.node, self.took, self.failures = node, [], []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._go_on, daemon=True)

    def _go_on(self):
        connection, count = connect(self.node["resp"]), 0
        while not self.ended.is_set():
            for words in (("SET", f"client:{count % 100}", f"{count}"), ("GET", f"client:{count % 100}")):
                began = time.monotonic()
                answer = ask(connection, *words)
                self.took.append(1000 * (time.monotonic() - began))
                if answer[:1] not in (b"+", b"$"):
                    self.failures.append(repr(answer[:80]))
            count += 1
            self.ended.wait(0.002)

    def since_last(self):
        """The 99th percentile of what was noted since the last call, and how many that were."""
        took, self.took = self.took, []
        return sorted(took)[len(took) * 99 // 100], len(took)


def fill(node, mib):
    """Writes so many mebibytes of values that do not compress, many commands on their way."""
    host, port = node["resp"].rsplit(":", 1)
    connection = socket.create_connection((host, int(port)))
    count, sent = mib * 1024 * 1024 // VALUE_BYTES, 0
    pool = os.urandom(VALUE_BYTES + 65536)
    while sent < count:
        batch = bytearray()
        now = range(sent, min(sent + PIPELINED, count))
        for number in now:
            key, start = b"key:%09d" % number, number * 31 % 65536
            batch += b"*3\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(key), key, VALUE_BYTES, pool[start:start + VALUE_BYTES])
        connection.sendall(batch)
        heard = 0
        while heard < 5 * len(now):
            heard += len(connection.recv(1 << 20))
        sent += len(now)
    return count


def disk_rate(folder):
    """Megabytes a second that one writer gets, which syncs every 8 MiB."""
    path, block, total = folder / "rate", os.urandom(8 << 20), 256 << 20
    began = time.monotonic()
    with open(path, "wb", buffering=0) as file:
        for _ in range(total // len(block)):
            file.write(block)
            os.fdatasync(file.fileno())
    took = time.monotonic() - began
    path.unlink()
    return total / took / 1e6


def timed(*words):
    """Runs a command, which must succeed; how many seconds it took."""
    began = time.monotonic()
    done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise machine.BenchError(f"{' '.join(map(str, words))} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    return time.monotonic() - began


def bench(options):
    """Fills, backs up, restores, tells."""
    program = install.dictum(say, options.dictum)
    cluster = Cluster(program, options.base_port, name="backup")
    folder, about, results = cluster.folder.parent / "backup-folder", describe(), []
    shutil.rmtree(folder, ignore_errors=True)
    try:
        cluster.start()
        node = cluster.nodes[0]
        began = time.monotonic()
        keys = fill(node, options.mib)
        say(f"  filled with {keys} keys, {options.mib} MiB: {options.mib * 1.048576 / (time.monotonic() - began):.0f} MB/s")
        client = Client(node)
        client.thread.start()
        time.sleep(5)
        client.since_last()
        time.sleep(options.calm)
        before, count = client.since_last()
        say(f"  the client alone: p99 {before:.2f} ms of {count}")
        backup = timed(program, "backup", folder, "--at", node["resp"], "--bucket", "default")
        during, count = client.since_last()
        client.ended.set()
        client.thread.join(30)
        size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
        say(f"  backup: {backup:.1f} s, {size:.0f} MB; the client beside it: p99 {during:.2f} ms of {count}, {len(client.failures)} failures")
    finally:
        cluster.stop()
    shutil.rmtree(cluster.folder, ignore_errors=True)
    verify = timed(program, "backup", "--verify", folder)
    disk = disk_rate(folder.parent)
    say(f"  verified in {verify:.1f} s; one writer that syncs every 8 MiB gets {disk:.0f} MB/s of this disk")
    try:
        cluster.start()
        restore = timed(program, "restore", folder, "--at", cluster.nodes[0]["resp"])
        said = ask(connect(cluster.nodes[0]["resp"]), "DBSIZE")
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
    found = int(said[1:].strip())
    results.append({"mib": options.mib, "p99_before": before, "p99_during": during, "backup_s": backup, "verify_s": verify,
                    "restore_s": restore, "disk_mb_s": disk, "size_mb": size})
    marks = [("p99 of the client beside the backup", f"{during / before:.2f}×", f"≤ {P99_MAX}×", during <= P99_MAX * before),
             ("failures of the client", f"{len(client.failures)} {client.failures[:3] or ''}", "0", not client.failures),
             ("backup", f"{size / backup:.0f} MB/s", f"≥ {RATE_MIN:.0f}", size / backup >= min(RATE_MIN, disk)),
             ("verify", f"{size / verify:.0f} MB/s", "", True),
             ("restore into three nodes on one disk", f"{size / restore:.0f} MB/s", f"≥ {RATE_MIN:.0f}", size / restore >= min(RATE_MIN, disk)),
             ("keys restored", f"{found}", f"{keys} and the client's", keys <= found <= keys + 100)]
    conclude("backup", about, results, marks, options.require)


def main():
    """Runs the bench."""
    run_bench("backup", parse, bench)
