"""What bounds a measurement: who used the processors and the disk while it ran."""

import os
import time
from pathlib import Path

from .cluster import input_output
from .machine import processor_times

TICKS = os.sysconf("SC_CLK_TCK")


def _times(path):
    """Name and processor time (ticks) of a process or thread by its `stat` file."""
    before, _, after = Path(path).read_text().rpartition(")")
    fields = after.split()
    return before.split("(", 1)[1], int(fields[11]) + int(fields[12])


def _threads(pid):
    """Processor ticks by thread, of one process."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            name, ticks = _times(task / "stat")
        except OSError:
            continue
        found[name] = found.get(name, 0) + ticks
    return found


class Watch:
    """Looks at the machine and at the nodes of a cluster from its making until `describe`."""

    def __init__(self, cluster=None):
        self.nodes = list(cluster.nodes) if cluster else []
        self.leader = cluster.leader() if cluster else None
        self.began = time.monotonic()
        self.machine = self._machine()
        self.io = [input_output(node["pid"]) for node in self.nodes]
        self.ticks = [_times(f"/proc/{node['pid']}/stat")[1] for node in self.nodes]
        self.threads = _threads(self.leader["pid"]) if self.leader else {}

    @staticmethod
    def _machine():
        total, idle, stolen = processor_times()
        waiting = int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[5])
        return total, idle - waiting, waiting, stolen

    def figures(self):
        """Everything as numbers: shares in percent, of one core each; bytes per second."""
        seconds = time.monotonic() - self.began
        total, idle, waiting, stolen = (now - then for now, then in zip(self._machine(), self.machine, strict=True))
        share = 100 / max(1, total)
        found = {"seconds": round(seconds, 2), "idle": round(idle * share, 1), "disk_wait": round(waiting * share, 1),
                 "stolen": round(stolen * share, 1), "nodes": []}
        for node, io, ticks in zip(self.nodes, self.io, self.ticks, strict=True):
            try:
                now = input_output(node["pid"])
                used = _times(f"/proc/{node['pid']}/stat")[1] - ticks
            except OSError:
                continue
            entry = {"name": node["name"], "leads": node is self.leader, "core": round(100 * used / TICKS / seconds),
                     "written": round((now["write_bytes"] - io["write_bytes"]) / seconds),
                     "read": round((now["read_bytes"] - io["read_bytes"]) / seconds)}
            if node is self.leader:
                spent = {name: round(100 * (ticks - self.threads.get(name, 0)) / TICKS / seconds)
                         for name, ticks in _threads(node["pid"]).items()}
                entry["threads"] = {n: s for n, s in sorted(spent.items(), key=lambda item: -item[1]) if s > 0}
            found["nodes"].append(entry)
        return found

    def describe(self):
        """The figures, and one line of them for people."""
        found = self.figures()
        text = f"idle {found['idle']:.0f} %, waiting for the disk {found['disk_wait']:.0f} %"
        if found["stolen"] >= 1:
            text += f", stolen {found['stolen']:.0f} %"
        for node in found["nodes"]:
            text += f"; {node['name']}{' (leads)' if node['leads'] else ''} {node['core']} % of a core"
            if "threads" in node:
                text += " (" + ", ".join(f"{n} {s}" for n, s in list(node["threads"].items())[:4]) + ")"
            text += f" writes {node['written'] / 1e6:.1f} MB/s"
            if node["read"] > 50_000:
                text += f" reads {node['read'] / 1e6:.1f}"
        return found, text
