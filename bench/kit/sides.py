"""The sides of bench/types. Each starts its servers on an empty folder, fills it, and stops. All fsync for real, all keep their data
below WORK/data, all listen on loopback; keys have 16 bytes and values 256."""

import json
import os
import shutil

from .cluster import Cluster
from .install import BIN
from .machine import WORK, require_free_ports, run, start, stop, wait_until

DATA = WORK / "data"
KEYS = 100_000
VALUE_BYTES = 256


def fresh_folder(name):
    """An empty folder for a server's data."""
    folder = DATA / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def drive(*arguments, seconds=120):
    """Runs our load program and returns its one line of JSON."""
    return json.loads(run([BIN / "drive", *arguments], seconds=seconds))


class Side:
    """One system under measurement."""

    name = ""
    title = ""

    def __init__(self):
        self.processes = []

    def stop(self):
        """Ends all that `start` began and removes the data."""
        for process in self.processes:
            stop(process)
        self.processes = []
        shutil.rmtree(DATA / self.name, ignore_errors=True)


def redis_server(port, folder, *extra):
    """Starts one Redis whose every write is fsynced before it is answered."""
    return start(["redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", folder, "--save", "",
                  "--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0",
                  "--maxclients", "5000", *extra], f"redis-{port}.log")


def redis_answers(port):
    """Whether a Redis answers there."""
    return run(["redis-cli", "-p", port, "ping"], 5).strip() == "PONG"


class Redis(Side):
    """Redis, one node, append-only file synced at every write: one copy, so a weaker promise than Dictum's."""

    name, title = "redis", "Redis, 1 node, AOF always"
    port = 17379

    def start(self):
        """Starts the server on an empty folder and writes every key."""
        require_free_ports([self.port], self.title)
        self.processes = [redis_server(self.port, fresh_folder(self.name))]
        wait_until(lambda: redis_answers(self.port), "Redis")
        drive("fill", "-addr", f"127.0.0.1:{self.port}", "-keys", KEYS, "-size", VALUE_BYTES)


class Dictum(Side):
    """Dictum, three nodes by `dictum dev`."""

    name, title = "dictum", "Dictum, 3 nodes"

    def __init__(self, program, base_port):
        super().__init__()
        settings = {name: value for name, value in os.environ.items() if name.startswith("DICTUM_")}
        self.cluster = Cluster(program, base_port, settings=settings)

    def start(self):
        """Starts `dictum dev` on an empty folder and writes every key."""
        self.cluster.start()
        drive("fill", "-addr", self.cluster.leader()["resp"], "-keys", KEYS, "-size", VALUE_BYTES)

    def stop(self):
        """Ends all nodes."""
        self.cluster.stop()
