"""Faults of the network, each way by itself. Needs root: every node lives in a network namespace made here, joined by
a bridge in a fourth namespace, where the load runs; the machine's own network is never touched."""

import contextlib
import os
import random

from .cluster import DictumCluster
from .process_faults import expect_short_gaps
from .processes import require, run, say, wait_until


class Network:
    """Three hosts and a hub. `cut(a, b)` drops what a sends to b, and nothing else."""

    def __init__(self):
        tag = f"dictum{os.getpid()}"
        self.hub = f"{tag}h"
        self.spaces = [f"{tag}n{i}" for i in (1, 2, 3)]
        self.hosts = [f"10.77.0.{i}" for i in (1, 2, 3)]

    def __enter__(self):
        try:
            for space in [self.hub, *self.spaces]:
                run(["ip", "netns", "add", space])
                self._in(space, "ip", "link", "set", "lo", "up")
            self._in(self.hub, "ip", "link", "add", "hub", "type", "bridge")
            self._in(self.hub, "ip", "addr", "add", "10.77.0.10/24", "dev", "hub")
            self._in(self.hub, "ip", "link", "set", "hub", "up")
            for i, (space, host) in enumerate(zip(self.spaces, self.hosts)):
                self._in(space, "ip", "link", "add", "eth", "type", "veth", "peer", "name", f"port{i}", "netns",
                         self.hub)
                self._in(self.hub, "ip", "link", "set", f"port{i}", "master", "hub", "up")
                self._in(space, "ip", "addr", "add", f"{host}/24", "dev", "eth")
                self._in(space, "ip", "link", "set", "eth", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for space in [*self.spaces, self.hub]:
            run(["ip", "netns", "del", space], check=False)

    @staticmethod
    def _in(space, *command):
        run(["ip", "netns", "exec", space, *command])

    def prefix(self, space):
        """What a command is started under to live in that namespace."""
        return ["ip", "netns", "exec", space]

    def cut(self, sender, receiver):
        """From now on the receiver (an index) gets nothing of the sender; the other way works on."""
        self._in(self.spaces[receiver], "iptables", "-A", "INPUT", "-s", self.hosts[sender], "-j", "DROP")

    def lose(self, share):
        """Every host loses that share of all packets that arrive."""
        for space in self.spaces:
            self._in(space, "iptables", "-A", "INPUT", "-m", "statistic", "--mode", "random", "--probability", share,
                     "-j", "DROP")

    def heal(self):
        """All packets arrive again."""
        for space in self.spaces:
            self._in(space, "iptables", "-F")


@contextlib.contextmanager
def networked(context):
    """A network, a cluster in it and a load on it."""
    require("ip", "iptables", root=True)
    with Network() as network:
        prefixes = [network.prefix(space) for space in network.spaces]
        cluster = DictumCluster(context.program, context.work, hosts=network.hosts, prefixes=prefixes)
        with cluster, context.load(cluster.addresses, prefix=network.prefix(network.hub)) as load:
            yield network, cluster, load


def cuts(context, name, draw, seconds=5, rounds=3):
    """Repeats a cut that `draw(leader)` chooses as (sender, receiver) pairs, and heals it each time."""
    with networked(context) as (network, cluster, load):
        for _ in range(context.rounds(rounds)):
            leader = cluster.nodes.index(cluster.leader())
            pairs = draw(leader)
            load.mark(name)
            for sender, receiver in pairs:
                network.cut(sender, receiver)
            load.run_for(seconds)
            load.mark("healed")
            network.heal()
            wait_until(cluster.leader, "a leader after the cut")
            cluster.wait_ready()
            load.run_for(1)
    return load


def others(leader):
    """The indices of the two nodes that do not lead."""
    return [i for i in range(3) if i != leader]


def cut_leader_off(context):
    """The leader is cut off both ways: the others elect a new one, the old one answers no read from its old state."""
    load = cuts(context, "leader cut off",
                lambda leader: [pair for o in others(leader) for pair in ((leader, o), (o, leader))])
    expect_short_gaps(load, "leader cut off")
    return load


def cut_again_and_again(context):
    """Leaders are cut off for two seconds each, in quick succession: each is followed by another as soon as the first."""
    load = cuts(context, "cut again",
                lambda leader: [pair for o in others(leader) for pair in ((leader, o), (o, leader))], 2, 10)
    expect_short_gaps(load, "cut again", 1500)
    return load


def mute_again_and_again(context):
    """The same with leaders that hear everybody but are not heard."""
    load = cuts(context, "mute again", lambda leader: [(leader, o) for o in others(leader)], 2, 10)
    expect_short_gaps(load, "mute again", 1500)
    return load


def deaf_leader(context):
    """The leader hears nobody but is heard: it must step down by itself, or nobody else would dare to stand."""
    load = cuts(context, "deaf leader", lambda leader: [(o, leader) for o in others(leader)])
    expect_short_gaps(load, "deaf leader")
    return load


def mute_leader(context):
    """The leader hears everybody but is not heard."""
    load = cuts(context, "mute leader", lambda leader: [(leader, o) for o in others(leader)])
    expect_short_gaps(load, "mute leader")
    return load


def deaf_follower(context):
    """A follower no longer hears the leader, but reaches all: it must not disturb the leadership that works."""
    load = cuts(context, "deaf follower", lambda leader: [(leader, random.choice(others(leader)))])
    expect_short_gaps(load, "deaf follower", 2000)
    return load


def split_pair(context):
    """The leader and one follower cannot talk, the third node reaches both: writes go on."""
    def draw(leader):
        other = random.choice(others(leader))
        return [(leader, other), (other, leader)]

    load = cuts(context, "split pair", draw)
    expect_short_gaps(load, "split pair")
    return load


def lossy(context):
    """Every link loses packets: slower, but nothing is wrong."""
    with networked(context) as (network, cluster, load):
        for share in ("0.02", "0.10"):
            load.mark(f"loss {share}")
            network.lose(share)
            load.run_for(5)
            network.heal()
            load.mark("healed")
            load.run_for(1)
        cluster.wait_ready()
    say(f"  longest gap {load.summary['longest_gap_ms']:.0f} ms")
    return load


SCENARIOS = [cut_leader_off, cut_again_and_again, mute_again_and_again, deaf_leader, mute_leader, deaf_follower, split_pair, lossy]
