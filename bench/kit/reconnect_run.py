"""The command line of bench/reconnects, and what it measures."""

import argparse
import os
import selectors
import signal
import socket
import ssl
import statistics
import threading
import time

from . import install, machine
from .cluster import Cluster, port_of
from .ending import conclude
from .ending import run as run_bench
from .run import describe, say
from .secured_run import ask

EPILOG = """\
Three nodes by `dictum dev`. The clients have connections under TLS to a node that leads nothing; it is killed (-9), and each client connects to
one of the other two at once, with a whole handshake: no ticket is shown. Told are, of the nodes that live: how long it took until every client
was answered, the longest turn of a loop (processor time, with up to 5 ms of the turns before it), how many elections there were, and how long
writes of another client took meanwhile, beside the same without a storm.
The clients run on this machine and take most of its processors for their own half of the handshakes."""

NODES = 3
# At most so long a turn of the loop may be.
TURN_MOST_MS = 10.0
# Writes of a client that was connected before, each so long after the last.
WRITE_EVERY = 0.005
PING = b"*1\r\n$4\r\nPING\r\n"


def parse(arguments):
    """Reads the options."""
    parser = argparse.ArgumentParser(prog="bench/reconnects", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     description="Measures what a storm of TLS handshakes costs the nodes that live.")
    parser.add_argument("--clients", type=int, default=1000, help="how many (default 1000)")
    parser.add_argument("--repeat", type=int, default=3, help="how often (default 3)")
    parser.add_argument("--dictum", metavar="FILE", help="the dictum that is measured; default: cargo builds it")
    parser.add_argument("--base-port", type=int, default=28901, help="first port (default 28901)")
    parser.add_argument("--require", action="store_true", help="exit with 1 unless every target is reached")
    return parser.parse_args(arguments)


def storm(ports, trusted, count, seconds=60):
    """So many clients connect by TLS at once, and send PING. Returns their connections, and how long it took until all were answered."""
    context = ssl.create_default_context(cafile=trusted)
    waiting, connections, began = selectors.DefaultSelector(), [], time.monotonic()
    for number in range(count):
        plain = socket.socket()
        plain.setblocking(False)
        plain.connect_ex(("127.0.0.1", ports[number % len(ports)]))
        waiting.register(plain, selectors.EVENT_WRITE)
        connections.append(None)
    secured, answered = {}, 0
    while answered < count:
        if time.monotonic() - began > seconds:
            raise machine.BenchError(f"{count - answered} of {count} clients were not answered in {seconds} s")
        for key, _ in waiting.select(1.0):
            connection = secured.get(key.fd)
            if connection is None:
                problem = key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if problem:
                    raise machine.BenchError(f"a client cannot connect: {os.strerror(problem)}")
                waiting.unregister(key.fileobj)
                connection = context.wrap_socket(key.fileobj, server_hostname="localhost", do_handshake_on_connect=False)
                secured[connection.fileno()] = connection
                waiting.register(connection, selectors.EVENT_WRITE, "handshake")
                continue
            try:
                if key.data == "handshake":
                    connection.do_handshake()
                    connection.send(PING)
                    waiting.modify(connection, selectors.EVENT_READ, "answer")
                elif connection.recv(64) == b"+PONG\r\n":
                    waiting.unregister(connection)
                    connections[answered] = connection
                    answered += 1
                else:
                    raise machine.BenchError("a client was answered something else")
            except ssl.SSLWantReadError:
                waiting.modify(connection, selectors.EVENT_READ, key.data)
            except ssl.SSLWantWriteError:
                waiting.modify(connection, selectors.EVENT_WRITE, key.data)
    return connections, time.monotonic() - began


class Writer(threading.Thread):
    """A client in plain text that writes one key after the other, and notes how long each took."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.ends, self.took, self.problem = port, threading.Event(), [], None

    def run(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while not self.ends.wait(WRITE_EVERY):
                    began = time.monotonic()
                    connection.sendall(b"*3\r\n$3\r\nSET\r\n$5\r\nstorm\r\n$1\r\nx\r\n")
                    answer = connection.recv(256)
                    if answer != b"+OK\r\n":
                        raise OSError(f"a write was answered {answer!r}")
                    self.took.append(1000 * (time.monotonic() - began))
        except OSError as error:
            self.problem = error

    def finish(self):
        self.ends.set()
        self.join()
        if self.problem:
            raise machine.BenchError(f"the client that writes: {self.problem}")
        return {"p50_ms": statistics.median(self.took), "most_ms": max(self.took), "writes": len(self.took)}


def rounds(cluster, node):
    """Of each partition: the ballot under which it is led, as a node knows it."""
    return {(part["bucket"], part["index"]): part["ballot"] for part in cluster.status(node)["partitions"]}


def written(node, seconds):
    """How long writes take without a storm."""
    writer = Writer(int(port_of(node)))
    writer.start()
    time.sleep(seconds)
    return writer.finish()


def once(program, options):
    """One storm, on a new cluster."""
    cluster = Cluster(program, options.base_port, name="reconnects", nodes=NODES, settings={})
    cluster.start()
    try:
        leaders = {part["leader"] for part in cluster.status(cluster.nodes[0])["partitions"]}
        victim = next((node for node in reversed(cluster.nodes) if node["name"] not in leaders), None)
        if victim is None:
            raise machine.BenchError("every node leads something: nothing can be killed without an election")
        living = [node for node in cluster.nodes if node is not victim]
        trusted = cluster.folder / "tls" / "ca.pem"
        connections, _ = storm([int(port_of(victim))], trusted, options.clients)
        calm = written(living[0], 3)
        before = rounds(cluster, living[0])
        for node in living:
            ask(node, "CONFIG", "RESETSTAT")
        writer = Writer(int(port_of(living[0])))
        writer.start()
        os.kill(victim["pid"], signal.SIGKILL)
        others, took = storm([int(port_of(node)) for node in living], trusted, options.clients)
        stormy = writer.finish()
        turns = [int(cluster.info(node)["dictum_longest_turn_usec"]) / 1000 for node in living]
        elections = sum(ballot != before.get(part) for part, ballot in rounds(cluster, living[0]).items())
        for connection in [*connections, *others]:
            connection.close()
    finally:
        cluster.stop()
    return {"all_answered_s": took, "turn_most_ms": max(turns), "elections": elections, "writes": stormy, "writes_calm": calm}


def compare(options):
    """Builds, measures, tells."""
    program, about, results = install.dictum(say, options.dictum), describe(), []
    for _ in range(options.repeat):
        found = once(program, options)
        results.append(found)
        say(f"{options.clients} clients answered after {found['all_answered_s']:.2f} s  longest turn {found['turn_most_ms']:.1f} ms  "
            f"elections {found['elections']}  writes p50 {found['writes']['p50_ms']:.2f} ms, at most {found['writes']['most_ms']:.1f} "
            f"(without a storm {found['writes_calm']['p50_ms']:.2f}, {found['writes_calm']['most_ms']:.1f})")
    turn = max(found["turn_most_ms"] for found in results)
    elections = sum(found["elections"] for found in results)
    took = statistics.median(found["all_answered_s"] for found in results)
    marks = [("longest turn", f"{turn:.1f} ms", f"≤ {TURN_MOST_MS:.0f} ms", turn <= TURN_MOST_MS),
             ("elections", str(elections), "0", elections == 0),
             ("until all are answered", f"{took:.2f} s", "", True)]
    conclude("reconnects", about, results, marks, options.require)


def main():
    """See EPILOG."""
    run_bench("reconnects", parse, compare)
