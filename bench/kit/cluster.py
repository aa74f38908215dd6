"""A cluster of Dictum on this machine by `dictum dev`, and what can be asked of it and of its processes."""

import json
import os
import shutil
import signal
import time
from pathlib import Path

from .machine import WORK, BenchError, require_free_ports, run, start, stop, wait_until


# After so many seconds at the latest a node flushes what has changed (`base::limits::FLUSH_AFTER`).
FLUSH_AFTER = 10
# The share of a processor that a node takes at the most while nobody asks for anything.
QUIET_SHARE = 0.03


# Nodes in network namespaces have no secret where a bench does not give them one. (An earlier program does not know the variable, and needs none.)
INSECURE = {"DICTUM_INSECURE": "yes"}


class ControlGroup:
    """A control group with a limit of memory, of version 2 or 1. Needs root."""

    def __init__(self, name, limit):
        root = Path("/sys/fs/cgroup")
        first = not (root / "cgroup.controllers").exists()
        self.folder = root / ("memory" if first else "") / name
        try:
            self.folder.mkdir(exist_ok=True)
            (self.folder / ("memory.limit_in_bytes" if first else "memory.max")).write_text(f"{limit}\n")
        except OSError as error:
            raise BenchError(f"no control group with a limit of memory can be made: {error}. It needs root") from None

    def enter(self):
        """What to put before a command's words so that it runs in the group, with all that it starts."""
        return ["/bin/sh", "-c", f'echo $$ >{self.folder}/cgroup.procs && exec "$@"', "sh"]

    def remove(self):
        """Removes the group; its processes must have ended."""
        try:
            self.folder.rmdir()
        except OSError:
            return


class Cluster:
    """Some nodes on an empty folder below WORK/data. `settings` are `DICTUM_…` variables for all nodes; `memory_limit` is
    what all nodes together may have, in bytes, with the page cache of their files."""

    def __init__(self, program, base_port, name="dictum", nodes=3, settings=None, memory_limit=None):
        self.program = program
        self.base_port = base_port
        self.folder = WORK / "data" / name
        self.count = nodes
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("DICTUM_")} | INSECURE | (settings or {})
        self.group = ControlGroup(f"dictum-bench-{base_port}", memory_limit) if memory_limit else None
        self.process = None
        self.nodes = []
        self.restarted = {}

    def start(self):
        """Starts `dictum dev` on an empty folder and waits until it accepts writes."""
        ports = [self.base_port + offset + node for offset in (0, 1000, 2000) for node in range(self.count)]
        require_free_ports(ports, "Dictum")
        log = WORK / "logs" / "dictum-dev.out"
        log.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "wb") as output:
            enter = self.group.enter() if self.group else []
            self.process = start([*enter, self.program, "dev", "--json", "--nodes", self.count, "--base-port", self.base_port,
                                  "--dir", self.folder], "dictum-dev.log", stdout=output, env=self.environment)

        def ready():
            if self.process.poll() is not None:
                last = (WORK / "logs" / "dictum-dev.log").read_text(errors="replace").splitlines()[-12:]
                raise SystemExit(f"dictum dev ended with {self.process.returncode}:\n" + "\n".join(last))
            for line in log.read_text().splitlines():
                if line.startswith("{"):
                    return json.loads(line)["nodes"]
            return None

        self.nodes = wait_until(ready, "dictum dev to be ready")

    def let_flush(self):
        """Waits until what was written is in the nodes' stores, where they keep it: else what is measured next would pay for it. The first
        flush of a partition makes its files, which costs more than all that follow."""
        time.sleep(FLUSH_AFTER + 1)

        def is_quiet():
            before = self.processor_seconds()
            time.sleep(2)
            return sum(self.processor_seconds()) - sum(before) < 2 * QUIET_SHARE * len(self.nodes)

        wait_until(is_quiet, "the nodes to have flushed", 60)

    def processor_seconds(self):
        """What the nodes have taken since their starts, in user mode and in the kernel."""
        sums = [0, 0]
        for node in self.nodes:
            fields = Path(f"/proc/{node['pid']}/stat").read_text().rsplit(")", 1)[1].split()
            sums = [total + int(field) / os.sysconf("SC_CLK_TCK") for total, field in zip(sums, fields[11:13])]
        return sums

    def stop(self):
        """Ends `dictum dev` and the nodes that were restarted one by one, and removes the data."""
        for process in self.restarted.values():
            stop(process)
        self.restarted = {}
        if self.process is not None:
            stop(self.process)
            self.process = None
        if self.group:
            self.group.remove()
        # What the nodes have said outlives their data: whoever looks into a failed run needs it.
        for log in self.folder.glob("*.log"):
            shutil.copy(log, WORK / "logs" / f"{self.folder.name}-{log.name}")
        shutil.rmtree(self.folder, ignore_errors=True)

    def status(self, node):
        """What the node says of the group."""
        return json.loads(run([self.program, "status", "--json", "--at", node["resp"]], 10))

    def info(self, node):
        """The node's INFO as a dictionary of texts."""
        text = run(["redis-cli", "-p", port_of(node), "info"], 10)
        return dict(line.strip().split(":", 1) for line in text.splitlines() if ":" in line)

    def leader(self, bucket=None):
        """The node that a majority of the nodes take for the leader: of the bucket of that name where the status tells of
        it, else of the group."""
        number = None
        if bucket is not None:
            shown = run([self.program, "bucket", "show", bucket, "--json", "--at", self.nodes[0]["resp"]], 10)
            number = json.loads(shown).get("id")

        def led_by(status):
            found = [part["leader"] for part in status.get("partitions", [])
                     if bucket is not None and part.get("bucket") == number]
            return found[0] if found else status["leader"]

        def agreed():
            votes = {}
            for node in self.nodes:
                try:
                    name = led_by(self.status(node))
                except BenchError:
                    continue
                votes[name] = votes.get(name, 0) + 1
            for node in self.nodes:
                if votes.get(node["name"], 0) * 2 > len(self.nodes):
                    return node
            return None

        return wait_until(agreed, "a leader of Dictum")

    def follower(self):
        """A node that does not lead; the only one if there is one."""
        leader = self.leader()
        return next((node for node in self.nodes if node is not leader), leader)

    def kill(self, node):
        """`kill -9` of one node; returns when it is gone."""
        os.kill(node["pid"], signal.SIGKILL)
        alone = self.restarted.pop(node["name"], None)
        if alone is not None:
            alone.wait()
        # Not a zombie's state: that is seen while other threads of it still hold their sockets.
        wait_until(lambda: not Path(f"/proc/{node['pid']}").exists(), f"the end of {node['name']}")

    def restart(self, node):
        """Starts a node again that has ended; does not wait."""
        earlier = self.restarted.pop(node["name"], None)
        if earlier is not None:
            stop(earlier)
        enter = self.group.enter() if self.group else []
        process = start([*enter, *node["start"]], f"dictum-{node['name']}.log", env=self.environment)
        self.restarted[node["name"]] = process
        node["pid"] = process.pid

    def require_running(self, node):
        """Fails if a node that was restarted has ended again."""
        process = self.restarted[node["name"]]
        if process.poll() is not None:
            raise BenchError(f"{node['name']} has ended with {process.returncode}; see {WORK / 'logs'}")

    def wait_for_peers(self, seconds=120):
        """Waits until every node has applied what the leader has decided."""

        def level():
            seen = [self.info(node) for node in self.nodes]
            decided = max(int(info["dictum_decided"]) for info in seen)
            return all(decided - int(info["dictum_applied"]) < 100 for info in seen)

        wait_until(level, "all nodes to be level", seconds)

    def wait_for_quiet(self, seconds=300, still=20):
        """Waits until no node has written to the disk for `still` seconds: snapshots and compactions are over, and what a store does
        at rest, which it takes to be after 15 s without batches (`LsmOptions::rest_after`)."""
        end, last, since = time.monotonic() + seconds, None, time.monotonic()
        while time.monotonic() < end:
            written = [input_output(node["pid"])["write_bytes"] for node in self.nodes]
            now = time.monotonic()
            if last is None or sum(written) - sum(last) > 1 << 20:
                last, since = written, now
            elif now - since > still:
                return
            time.sleep(0.2)
        raise BenchError(f"the nodes went on writing for {seconds} s")


def port_of(node):
    """The RESP port of a node."""
    return node["resp"].rsplit(":", 1)[1]


def resident_bytes(pid):
    """Memory of a process that is in RAM (VmRSS)."""
    fields = {}
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        fields[name] = value
    return 1024 * int(fields["VmRSS"].split()[0])


def input_output(pid):
    """The kernel's count of what a process has written: `write_bytes` (to the disk) and the others."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return {name: int(value) for name, value in (line.split(": ") for line in lines)}


def written_by_thread(pid):
    """Bytes that each kind of thread has caused to be written, by the threads' names; without ended threads."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            name = (task / "comm").read_text().strip()
            lines = (task / "io").read_text().splitlines()
        except OSError:
            continue
        bytes_ = next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))
        found[name] = found.get(name, 0) + bytes_
    return found


def folder_bytes(path, ending=""):
    """What the files of a folder and of all below it take on the disk, those whose name ends so."""
    total = 0
    for root, _, files in os.walk(path):
        for file in files:
            if not file.endswith(ending):
                continue
            try:
                total += os.lstat(os.path.join(root, file)).st_blocks * 512
            except OSError:
                continue
    return total
