"""A cluster of real processes: three nodes by `dictum start`, or one Redis where the checkers themselves are tested."""

import json
import shutil
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from .processes import Failure, end, free_ports, run, start, wait_until


@dataclass
class Node:
    """One server process and how to start it."""

    name: str
    resp: str
    folder: Path
    command: list
    log: Path
    # What the command is started under: `ip netns exec NAME`, for one.
    prefix: list = field(default_factory=list)
    # Where clients that route by themselves reach it.
    routes: str = ""
    process: object = None

    @property
    def port(self):
        """The port of its RESP address."""
        return self.resp.rsplit(":", 1)[1]

    @property
    def running(self):
        """Whether its process is there."""
        return self.process is not None and self.process.poll() is None


class Cluster:
    """Nodes under attack. Leaves nothing running behind: use it as a context."""

    def __init__(self, nodes):
        self.nodes = nodes

    def __enter__(self):
        for node in self.nodes:
            self.start(node)
        self.wait_ready()
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            if node.running:
                node.process.send_signal(signal.SIGCONT)
                end(node.process, signal.SIGKILL)

    @property
    def addresses(self):
        """RESP addresses of all nodes."""
        return [node.resp for node in self.nodes]

    def start(self, node):
        """Starts one node on its folder."""
        node.process = start([*node.prefix, *node.command], node.log)

    def kill(self, *nodes):
        """`kill -9`."""
        for node in nodes:
            node.process.send_signal(signal.SIGKILL)
        for node in nodes:
            end(node.process, signal.SIGKILL)

    def reply(self, node, *words, seconds=10):
        """What redis-cli prints for a command sent to that node, or None."""
        host, port = node.resp.rsplit(":", 1)
        done = run([*node.prefix, "redis-cli", "-h", host, "-p", port, *words], seconds, check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    def writes(self, node, key="ready"):
        """Whether the node accepts a write."""
        return self.reply(node, "set", key, "yes") == "OK"

    def wait_ready(self, nodes=None, seconds=60):
        """Waits until each of the nodes takes a write and shows it back."""
        for node in nodes or self.nodes:
            wait_until(lambda node=node: self.writes(node), f"{node.name} to take a write (see {node.log})", seconds)


class DictumNodes(Cluster):
    """Nodes of one cluster of Dictum, however many there are."""

    def __init__(self, program, nodes):
        super().__init__(nodes)
        self.program = program

    def status(self, node):
        """What the node says of the cluster, or None."""
        done = run([*node.prefix, self.program, "status", "--json", "--at", node.resp], 10, check=False)
        return json.loads(done.stdout) if done.stdout.startswith("{") else None

    def leader(self, among=None):
        """The node that most of the running nodes take for the leader; waits until there is one."""

        def agreed():
            asked = [node for node in among or self.nodes if node.running]
            votes = [status["leader"] for status in map(self.status, asked) if status and status["leader"]]
            for node in self.nodes:
                if votes.count(node.name) * 2 > len(self.nodes) and (among is None or node in among):
                    return node
            return None

        return wait_until(agreed, "a leader")

    def followers(self):
        """All nodes but the leader."""
        leader = self.leader()
        return [node for node in self.nodes if node is not leader]

    def wait_caught_up(self, node, seconds=60):
        """Waits until the node has applied what the leader has decided by now."""
        if not node.running:
            raise Failure(f"{node.name} is not running; see {node.log}")
        status = wait_until(lambda: self.status(self.leader()), "the leader's status")
        wanted = max(one["applied"] or 0 for one in status["nodes"])

        def there():
            own = self.status(node)
            return own and any(one["me"] and (one["applied"] or 0) >= wanted for one in own["nodes"])

        wait_until(there, f"{node.name} to catch up to position {wanted} (see {node.log})", seconds)

    def restart(self, node, seconds=60):
        """Starts a node that is down and waits until it has caught up."""
        self.start(node)
        self.wait_ready([node], seconds)
        self.wait_caught_up(node, seconds)

    def stop_cleanly(self, node):
        """SIGTERM; returns the exit code and how long it took, in seconds."""
        began = time.monotonic()
        code = end(node.process, signal.SIGTERM)
        return code, time.monotonic() - began

    def end_and_check(self):
        """Ends all nodes in order, and lets `dictum check` say of each folder that it is well."""
        for node in self.nodes:
            code, _ = self.stop_cleanly(node)
            if code != 0:
                raise Failure(f"{node.name} ended with {code} after SIGTERM; see {node.log}")
            done = run([self.program, "check", node.folder], 120, check=False)
            if done.returncode != 0:
                raise Failure(f"dictum check {node.folder} ends with {done.returncode}:\n{done.stdout}{done.stderr}")


class DictumCluster(DictumNodes):
    """Three nodes of Dictum, which found a cluster."""

    def __init__(self, program, work, folders=None, hosts=None, prefixes=None, options=()):
        """`folders`, `hosts` and `prefixes` by node where they are not the ordinary ones; `options` are those of every node."""
        names = ["n1", "n2", "n3"]
        ports = free_ports(12) if hosts is None else [port for port in (7001, 8001, 9001, 7501) for _ in names]
        # On other hosts nodes have clients of other machines, and no password and no secret.
        options = [*options, *(["--protected-mode", "no", "--insecure"] if hosts else [])]
        hosts = hosts or ["127.0.0.1"] * 3
        members = ",".join(f"{name}={hosts[i]}:{ports[6 + i]}" for i, name in enumerate(names))
        nodes = []
        for i, name in enumerate(names):
            folder = Path(folders[i]) if folders else work / name
            resp, routes = f"{hosts[i]}:{ports[i]}", f"{hosts[i]}:{ports[9 + i]}"
            command = [program, "start", "--node", name, "--cluster", members, "--resp", resp, "--http",
                       f"{hosts[i]}:{ports[3 + i]}", "--cluster-address", routes, "--dir", folder, *options]
            nodes.append(Node(name, resp, folder, command, work / f"{name}.log", prefixes[i] if prefixes else [], routes))
        super().__init__(program, nodes)


class RedisAlone(Cluster):
    """One Redis: what the checkers are tried on. `durable` says whether an acknowledged write is on disk."""

    def __init__(self, work, durable):
        port = free_ports(1)[0]
        folder = work / "redis"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        keep = ["--appendonly", "yes", "--appendfsync", "always"] if durable else ["--appendonly", "no"]
        command = ["redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", folder, "--save", "", *keep]
        super().__init__([Node("redis", f"127.0.0.1:{port}", folder, command, work / "redis.log")])
