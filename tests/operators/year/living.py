"""The cluster as its operator has it: its nodes, how each is started, and the commands of `dictum` that ask it."""

import json
import shutil
from dataclasses import dataclass

from harness.client import Client, Refused
from harness.cluster import DictumNodes, Node
from harness.processes import Failure, end, free_ports, run, start, wait_until

# Further flags of each node of the new program; an earlier one may not know them. Replicas are compared often, so that one that differs is found before the year ends.
OPTIONS = ["--compare-every", "10s"]


class Ports:
    """Where nodes listen on this machine: on free ports, or on one after the other from a base on."""

    def __init__(self, base=0):
        self.base = base

    def take(self, count):
        """So many addresses that nobody had before."""
        ports = range(self.base, self.base + count) if self.base else free_ports(count)
        self.base += count if self.base else 0
        return [f"127.0.0.1:{port}" for port in ports]


@dataclass
class Machine(Node):
    """A node with all its addresses and the program that it runs."""

    http: str = ""
    peer: str = ""
    program: str = ""


class Living(DictumNodes):
    """A cluster that grows, moves and shrinks. Entering the context starts nothing: the operator does."""

    def __init__(self, program, work, founders, ports, earlier=None):
        """`program` is what the operator types; `earlier` is what nodes run at first, if it is another one."""
        super().__init__(program, [])
        self.work, self.ports, self.runs = work, ports, earlier or program
        for name in founders:
            self.add(name)
        # The list of founders stays as it was, but for addresses.
        self.founders = {node.name: node.peer for node in self.nodes}

    def __enter__(self):
        return self

    def add(self, name):
        """A machine that is there and not started yet."""
        resp, http, peer = self.ports.take(3)
        node = Machine(name, resp, self.work / name, [], self.work / f"{name}.log", http=http, peer=peer, program=self.runs)
        self.nodes.append(node)
        return node

    def node(self, name):
        """The node of that name."""
        return next(node for node in self.nodes if node.name == name)

    def others(self, but):
        """All nodes but one."""
        return [node for node in self.nodes if node is not but]

    def start(self, node, *more):
        """`dictum start`, with the words of docs/operating.md for a founder or for one that joins or has joined."""
        founders = ",".join(f"{name}={peer}" for name, peer in self.founders.items())
        place = ["--cluster", founders] if node.name in self.founders else ["--peer", node.peer]
        words = [node.program, "start", "--node", node.name, *place, "--resp", node.resp, "--http", node.http, "--dir", node.folder]
        options = OPTIONS if node.program == self.program else []
        node.process = start([*node.prefix, *words, *options, *more], node.log)

    def stop(self, *nodes):
        """SIGTERM to all of them at once; each must end in order."""
        for node in nodes:
            node.process.terminate()
        for node in nodes:
            # Signal 0 only waits: a second SIGTERM would mean "at once".
            code = end(node.process, 0)
            if code != 0:
                raise Failure(f"{node.name} ended with {code} after SIGTERM; see {node.log}")

    def operator(self, *words, at=None, seconds=120):
        """What an operator types: `dictum …`. It is asked at any node that runs, unless `at` names one."""
        return self.try_operator(*words, at=at, seconds=seconds, check=True).stdout

    def try_operator(self, *words, at=None, seconds=120, check=False):
        """The same, also if it is refused; returns the finished process."""
        # Nodes of an earlier Dictum are asked by that one; the last of them is upgraded last. It may not know several addresses.
        program = self.program if words[0] == "status" else self.nodes[-1].program
        anywhere = [node.resp for node in self.nodes if node.running]
        where = at.resp if at else ",".join(anywhere if program == self.program else anywhere[:1])
        return run([program, *words, "--at", where], seconds, check)

    def wait_healthy(self, seconds=180):
        """`dictum status --wait-healthy` at each node, as the operator's scripts have it."""
        for node in self.nodes:
            words = ["status", "--wait-healthy", "--timeout", f"{seconds}s"]
            done = self.try_operator(*words, at=node, seconds=seconds + 30)
            if done.returncode != 0:
                raise Failure(f"as {node.name} sees it the cluster is not well:\n{done.stdout}{done.stderr}")

    def is_called_unwell(self, at, why):
        """Whether the script of an operator that waits at that node is told so, and why."""
        done = self.try_operator("status", "--wait-healthy", "--timeout", "100ms", at=at)
        return done.returncode == 3 and why in done.stderr

    def listed(self, at=None):
        """What `dictum node list` says, by name. An OSError, which those who wait take for "not yet", if it cannot be asked."""
        done = self.try_operator("node", "list", "--json", at=at)
        if done.returncode != 0:
            raise OSError(done.stderr)
        return {one["name"]: one for one in json.loads(done.stdout)}

    def told(self, node):
        """The status of a node; an OSError if it has none."""
        status = self.status(node)
        if status is None:
            raise OSError(f"{node.name} does not answer")
        return status

    def seen(self, witness, node):
        """What one node says of another in its status."""
        return next(one for one in self.told(witness)["nodes"] if one["name"] == node.name)

    def buckets(self):
        """The partitions that each bucket has, by name."""
        return {one["name"]: one["partitions"] for one in json.loads(self.operator("bucket", "list", "--json"))}

    def wait_all_vote(self):
        """Waits until every node has a vote, and so a copy, in every partition, that of the council among them; says how many there are."""
        names = {node.name for node in self.nodes}
        partitions = sum(self.buckets().values()) + 1

        def there():
            listed = self.listed()
            return set(listed) == names and all(one["votes"] == partitions for one in listed.values())

        wait_until(there, f"votes of {', '.join(sorted(names))} in all {partitions} partitions", 180)
        return partitions

    def leads_nothing(self, node):
        """Whether all others say that it leads no partition."""
        statuses = [self.told(other) for other in self.others(node) if other.running]
        return all(one["leader"] != node.name for status in statuses for one in status["partitions"])

    def reply(self, node, *words, seconds=10):
        """What a node answers, as text, or None if it does not."""
        try:
            with Client(node.resp, seconds) as client:
                answer = client.ask(*words)
        except Refused as refused:
            return str(refused)
        except OSError:
            return None
        return answer.decode() if isinstance(answer, bytes) else str(answer)

    def ask(self, node, bucket, *words):
        """One command in one bucket; refusals are raised."""
        with Client(node.resp, 30) as client:
            client.ask("SELECT", bucket)
            return client.ask(*words)

    def contents(self, node, bucket):
        """Every key of a bucket with its value, as DUMP has it, and its deadline."""
        with Client(node.resp, 30) as client:
            client.ask("SELECT", bucket)
            keys = sorted(client.ask("KEYS", "*"))
            return {key: (client.ask("DUMP", key), client.ask("PEXPIRETIME", key)) for key in keys}

    def move_folder(self, node, to):
        """The folder of a stopped node is copied to another disk, and the copy that nobody uses any more is removed."""
        shutil.copytree(node.folder, to)
        shutil.rmtree(node.folder)
        node.folder = to
