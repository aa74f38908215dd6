"""The command line of bench/secured, and what it measures."""

import argparse
import contextlib
import csv
import io
import random
import secrets
import shutil
import socket
import ssl
import statistics
import struct
import time
from dataclasses import dataclass

from . import install, machine
from .cluster import Cluster, port_of
from .ending import conclude
from .ending import run as run_bench
from .partition_run import KEYS, VALUE_BYTES, processor_seconds
from .run import describe, say
from .sides import fresh_folder, redis_answers, redis_server

EPILOG = """\
Each row is measured with security and without it, in turns, by redis-benchmark: 100,000 keys, values of 256 bytes, every write synced. A
ratio or a difference is the median over all repeats of what the two runs of a repeat come to; the least and the greatest stand behind it.
  tls-…     one cluster of three nodes, by TLS and in plain text. Beside it a redis-server of one node that syncs every write, both ways too
  users-…   a cluster with users beside one that has never had any. In the first: a user who may do everything, one with 20 patterns of keys
            of which the last one matches, and `default`. users-auth sends AUTH over and over
  peers-…   a cluster whose nodes have a secret beside one whose nodes have none; the clients of both speak in plain text
tls-set1 and tls-get1 are differences of median latencies, all others ratios of rates. redis-benchmark tells medians in steps of 8 µs. So a client
of the bench itself measures these two: it has a connection of each kind, and asks by turns, 100 commands at a time.
tls-first is 256 clients that connect and get one answer each. These handshakes are a part of tls-set256 and tls-get256 too.
The clients run on this machine. Their own TLS takes a part of the processors, and a part of each difference. So the bench also tells what the
servers took by themselves: processor time of all nodes for an operation. The clients' OpenSSL decides the key exchange: before version 3.5 that
is X25519, at Dictum and at Redis.

Examples:
  bench/secured                                    everything, 5 repeats
  bench/secured --rows tls-set256,tls-get256 --repeat 3
  bench/secured --dictum target/release/dictum --scale 0.05 --repeat 1     whether it works

Rows: {rows}.
Other work on the machine changes a run by far more than the 1 % that a target of 0.99× leaves: look at the idle share that is printed, and at
the spread."""

FOLDER = "secured"
SECTIONS = ["tls", "users", "peers"]
# How far the ports of `dictum dev` lie above those for RESP: for clients of a Redis Cluster, for HTTP, for the other nodes.
ROUTES, HTTP, PEERS = 500, 1000, 2000
NODES = 3
# The users of the cluster that has some. The second one may read and write under the last of its patterns, which matches redis-benchmark's keys.
ALL, SOME = "everything", "patterns"
# What a new cluster says of users until its nodes have told each other their versions.
TOO_EARLY = "nodes of earlier versions"
# How many commands the bench's own client sends over one connection before it turns to the other.
TURN = 100
PATTERNS = [f"~a{number}:*" for number in range(1, 20)] + ["~key:*"]


@dataclass(frozen=True)
class Comparison:
    """One side of a row against another side of it, by the rate or by p50. `least` is the least ratio of the rates, `most` the greatest difference
    of the medians in microseconds, both None where nothing is asked."""

    side: str
    beside: str
    by: str = "rate"
    least: float | None = None
    most: int | None = None


@dataclass(frozen=True)
class Row:
    """What the clients do: `test` (set, get, auth), how many they are, pipeline, requests (0: one each). `at` is the node that they ask."""

    name: str
    test: str
    clients: int
    pipeline: int
    requests: int
    comparisons: tuple = ()
    at: str = "leader"
    # The least rate of the only side, for a row that compares nothing.
    least: float | None = None

    @property
    def section(self):
        """The clusters that the row needs."""
        return self.name.split("-")[0]


FAST = (Comparison("tls", "plain", least=0.80), Comparison("redis-tls", "redis-plain"))
NEAR = (Comparison("tls", "plain", by="p50", most=25), Comparison("redis-tls", "redis-plain", by="p50"))
FIRST = (Comparison("tls", "plain"), Comparison("redis-tls", "redis-plain"))
RIGHTS = (Comparison(ALL, "no-users", least=0.99), Comparison(SOME, ALL, least=0.97), Comparison("default", "no-users"))
# No targets were set for reads: they are told because rights take a larger part of them.
RIGHTS_READ = (Comparison(ALL, "no-users"), Comparison(SOME, ALL), Comparison("default", "no-users"))
LINKS = (Comparison("secret", "no-secret", least=0.95),)
ROWS = [
    Row("tls-set256", "set", 256, 1, 400_000, FAST),
    Row("tls-get256", "get", 256, 1, 800_000, FAST),
    Row("tls-set1", "set", 1, 1, 15_000, NEAR),
    Row("tls-get1", "get", 1, 1, 60_000, NEAR),
    Row("tls-first", "get", 256, 1, 0, FIRST),
    Row("users-set50x16", "set", 50, 16, 800_000, RIGHTS),
    Row("users-get50x16", "get", 50, 16, 2_500_000, RIGHTS_READ),
    Row("users-auth", "auth", 50, 16, 400_000, least=20_000.0),
    Row("peers-set1", "set", 1, 1, 15_000, LINKS),
    Row("peers-set256", "set", 256, 1, 200_000, LINKS),
    Row("peers-set50x16", "set", 50, 16, 800_000, LINKS),
    Row("peers-get50x16", "get", 50, 16, 2_500_000, LINKS),
    Row("peers-get1-follower", "get", 1, 1, 40_000, LINKS, at="follower"),
]


def parse(arguments):
    """Reads the options."""
    known = {row.name: row for row in ROWS}
    parser = argparse.ArgumentParser(prog="bench/secured", epilog=EPILOG.format(rows=" ".join(known)),
                                     description="Measures what TLS for clients, users' rights and TLS between nodes cost.",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", metavar="ROWS", help="rows, separated by commas (default: all)")
    parser.add_argument("--repeat", type=int, default=5, help="repeats of every row (default 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the operations of every run (default 1)")
    parser.add_argument("--dictum", metavar="FILE", help="a built dictum; default: cargo builds it")
    parser.add_argument("--base-port", type=int, default=27201, help="first port of the first cluster (default 27201)")
    parser.add_argument("--patience", type=float, default=20.0, metavar="SECONDS",
                        help="how long to wait for a quiet machine before each measurement (default 20)")
    parser.add_argument("--require", action="store_true", help="exit with 1 unless every target is reached")
    options = parser.parse_args(arguments)
    for name in options.rows.split(",") if options.rows else []:
        if name not in known:
            parser.error(f"no row {name!r}; there are {', '.join(known)}")
    options.rows = [known[name] for name in options.rows.split(",")] if options.rows else ROWS
    if options.repeat < 1:
        parser.error("--repeat is at least 1")
    return options


class WithoutSecret(Cluster):
    """Nodes without a secret, so that their links are in plain text: `dictum start` by hand, with all that `dictum dev` gives its nodes but that."""

    def start(self):
        """Starts the nodes on an empty folder, and waits until each takes writes."""
        machine.require_free_ports([self.base_port + offset + place for offset in (0, ROUTES, HTTP, PEERS) for place in range(self.count)], "Dictum")
        shutil.rmtree(self.folder, ignore_errors=True)
        # The authority of this is used, as `dictum dev` has one; the secret is not.
        machine.run([self.program, "init", "--dir", self.folder], 30)

        def address(offset, place):
            return f"127.0.0.1:{self.base_port + offset + place}"

        members = ",".join(f"n{place + 1}={address(PEERS, place)}" for place in range(self.count))
        self.nodes = []
        for place in range(self.count):
            name, resp, http = f"n{place + 1}", address(0, place), address(HTTP, place)
            node = {"name": name, "resp": resp, "http": http, "pid": 0,
                    "start": [self.program, "start", "--node", name, "--cluster", members, "--resp", resp, "--cluster-address", address(ROUTES, place),
                              "--http", http, "--tls-ca", self.folder / "tls", "--dir", self.folder / name]}
            self.nodes.append(node)
            self.restart(node)
        for node in self.nodes:
            machine.wait_until(lambda node=node: ask(node, "SET", "ready", "1") == "OK", f"{node['name']} to take writes")


class Redis:
    """A redis-server that syncs every write, with a port in plain text and one for TLS."""

    def __init__(self, port):
        self.port, self.tls_port, self.process, self.folder = port, port + 1, None, None

    @property
    def certificate(self):
        """Its certificate, which clients trust as it is."""
        return self.folder / "redis.pem"

    def start(self):
        """Makes a certificate of the kind that Dictum's nodes make themselves (P-256), and starts the server on an empty folder."""
        machine.require_free_ports([self.port, self.tls_port], "Redis")
        self.folder = fresh_folder("secured-redis")
        key = self.folder / "redis.key"
        machine.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", 2, "-subj",
                     "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", self.certificate], 30)
        self.process = redis_server(self.port, self.folder, "--tls-port", self.tls_port, "--tls-cert-file", self.certificate,
                                    "--tls-key-file", key, "--tls-auth-clients", "no")
        machine.wait_until(lambda: redis_answers(self.port), "Redis")

    def processor_seconds(self):
        """What the server has taken since its start, as `Cluster` tells it."""
        return [processor_seconds(self.process.pid)]

    def stop(self):
        """Ends it and removes its data."""
        if self.process:
            machine.stop(self.process)
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True)
class Side:
    """A server, the port that clients ask where it is not a node's, the authority that they trust if they speak TLS, and the user that they are
    if that is not `default`, with the password."""

    server: object
    port: int | None = None
    trusted: object = None
    login: tuple = ()

    @property
    def words(self):
        """What redis-benchmark is told of it."""
        return (["--tls", "--cacert", self.trusted] if self.trusted else []) + (["--user", self.login[0], "-a", self.login[1]] if self.login else [])

    def place(self, at):
        """The port that a row asks now: of the leader, or of a node that follows it."""
        return self.port or port_of(self.server.follower() if at == "follower" else self.server.leader())


def ask(node, *words):
    """What a node answers to one command of redis-cli."""
    return machine.run(["redis-cli", "-p", port_of(node), *words], 30).strip()


def load(side, row, scale):
    """One run of redis-benchmark: operations, operations per second, p50 in milliseconds, processor time of the server for an operation in
    microseconds. An answer that is an error ends it, and with it the bench."""
    requests = max(1000, int(row.requests * scale)) if row.requests else row.clients
    test = ["AUTH", *side.login] if row.test == "auth" else ["-t", row.test]
    port, before = side.place(row.at), sum(side.server.processor_seconds())
    text = machine.run(["redis-benchmark", "-h", "127.0.0.1", "-p", port, *side.words, "-c", row.clients, "-P", row.pipeline, "-n", requests,
                        "-r", KEYS, "-d", VALUE_BYTES, "--csv", *test], seconds=300)
    figures = [line for line in csv.reader(io.StringIO(text)) if len(line) == 8 and line[0] != "test"]
    if not figures:
        raise machine.BenchError(f"redis-benchmark printed no figures:\n{text[-500:]}")
    took = sum(side.server.processor_seconds()) - before
    return {"rate": float(figures[-1][1]), "p50_ms": float(figures[-1][4]), "server_us": 1e6 * took / requests}


def connect(side, at):
    """A connection to a side: what sends over it, what receives, and what closes it. The kernel ends a wait after 30 s. Python's own timeout would add a
    system call to each answer."""
    connection = socket.create_connection(("127.0.0.1", int(side.place(at))))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 30, 0))
    if not side.trusted:
        return connection.send, connection.recv, connection.close
    # `write` and `read` go straight to OpenSSL; `send` and `recv` do more in Python first.
    secured = ssl.create_default_context(cafile=side.trusted).wrap_socket(connection, server_hostname="localhost")
    return secured.write, secured.read, secured.close


def command(test):
    """A command of redis-benchmark's for a key of its own choice."""
    words = [test.upper(), f"key:{random.randrange(KEYS):012}"] + (["x" * VALUE_BYTES] if test == "set" else [])
    return (f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)).encode()


def timed(send, receive, asked):
    """How many nanoseconds one answer took."""
    began = time.perf_counter_ns()
    send(asked)
    answer = receive(4096)
    while not (answer in (b"+OK\r\n", b"$-1\r\n") or (answer.startswith(b"$") and len(answer) > VALUE_BYTES and answer.endswith(b"\r\n"))):
        more = b"" if answer.startswith(b"-") else receive(4096)
        if not more:
            raise machine.BenchError(f"a server answered {answer!r}")
        answer += more
    return time.perf_counter_ns() - began


def by_turns(both, row, scale):
    """One client that asks two sides by turns. Of each: the rate that it would have alone, and p50 in milliseconds. What the server took cannot be
    told apart."""
    connections, took = [connect(side, row.at) for side in both], [[] for _ in both]
    try:
        for turn in range(max(10, int(row.requests * scale / TURN))):
            for which in (0, 1) if turn % 2 == 0 else (1, 0):
                (send, receive, _), commands = connections[which], [command(row.test) for _ in range(TURN)]
                took[which] += [timed(send, receive, asked) for asked in commands]
    except OSError as error:
        raise machine.BenchError(f"{row.name}: a connection failed: {error}") from None
    finally:
        for _, _, close in connections:
            close()
    return [{"rate": 1e9 * len(times) / sum(times), "p50_ms": statistics.median(times) / 1e6, "server_us": None} for times in took]


@contextlib.contextmanager
def running(servers):
    """Starts servers, and ends them."""
    try:
        for server in servers:
            server.start()
        yield
    finally:
        for server in servers:
            server.stop()


def fill(sides):
    """Writes the keys to each server once, and waits for what Dictum flushes of them."""
    servers = {side.server: side for side in sides}
    for side in servers.values():
        load(side, Row("fill", "set", 50, 16, 400_000), 1.0)
    for server in servers:
        if isinstance(server, Cluster):
            server.let_flush()


def add_users(cluster):
    """Makes both users. `OK` means that their rights hold at every node. Returns their names with what AUTH says of each."""
    logins = [(name, secrets.token_hex(32)) for name in (ALL, SOME)]
    rights = {ALL: ["~*", "&*", "+@all", "allbuckets"], SOME: ["resetkeys", *PATTERNS, "+@read", "+@write"]}
    for name, password in logins:
        node = cluster.leader()

        def answered(words=(name, "on", f">{password}", *rights[name]), node=node):
            answer = ask(node, "ACL", "SETUSER", *words)
            return None if TOO_EARLY in answer else answer

        answer = machine.wait_until(answered, f"the user {name}", 60)
        if answer != "OK":
            raise machine.BenchError(f"the user {name} was not made: {answer}")
        answer = ask(node, "AUTH", name, password)
        if answer != "OK":
            raise machine.BenchError(f"the user {name} cannot log in: {answer}")
    return logins


def require_links(cluster, kind):
    """Fails unless all links between the nodes are of this kind: `tls` or `plain`."""
    def all_are():
        links = [other["link"] for node in cluster.nodes for other in cluster.status(node)["nodes"] if other["name"] != node["name"]]
        return all(link == kind for link in links) and len(links) == NODES * (NODES - 1)

    machine.wait_until(all_are, f"links of the kind {kind} between all nodes")


@contextlib.contextmanager
def section_of(section, program, options):
    """Starts what the rows of a section need; gives its sides by their names."""
    first, second = (options.base_port + 10 * number for number in range(2))
    cluster = Cluster(program, first, name=f"secured-{section}", nodes=NODES, settings={})
    if section == "tls":
        redis = Redis(options.base_port + 20)
        with running([cluster, redis]):
            yield {"plain": Side(cluster), "tls": Side(cluster, trusted=cluster.folder / "tls" / "ca.pem"),
                   "redis-plain": Side(redis, redis.port), "redis-tls": Side(redis, redis.tls_port, redis.certificate)}
    elif section == "users":
        others = Cluster(program, second, name="secured-users-2", nodes=NODES, settings={})
        with running([cluster, others]):
            logins = add_users(others)
            yield {"no-users": Side(cluster), **{login[0]: Side(others, login=login) for login in logins}, "default": Side(others)}
    else:
        without = WithoutSecret(program, second, name="secured-peers-2", nodes=NODES, settings={})
        with running([cluster, without]):
            require_links(cluster, "tls")
            require_links(without, "plain")
            yield {"no-secret": Side(without), "secret": Side(cluster)}


def runs_of(row, sides, order):
    """What a row measures, one after the other: the name of a side, or the names of two that one client asks by turns. Those that are compared stand
    beside each other."""
    if not row.comparisons:
        return [(ALL,)]
    compared = [(comparison.beside, comparison.side) for comparison in row.comparisons]
    runs = compared if row.comparisons[0].by == "p50" else [(name,) for name in sides if any(name in pair for pair in compared)]
    return runs[::order]


def measure(rows, sides, options, results):
    """The rows of a section, with the sides in turns."""
    for repeat in range(options.repeat):
        say(f"repeat {repeat + 1} of {options.repeat}")
        for row in rows:
            for names in runs_of(row, sides, 1 if repeat % 2 == 0 else -1):
                idle, stolen = machine.quietness(1.0, options.patience)
                run = [sides[name] for name in names]
                for name, found in zip(names, by_turns(run, row, options.scale) if len(run) > 1 else [load(*run, row, options.scale)]):
                    results.append({"row": row.name, "side": name, "repeat": repeat, "idle": idle, "stolen": stolen, **found})
                    tell(results[-1])


def tell(found):
    """Prints what one run came to."""
    cost = "" if found["server_us"] is None else f"servers {found['server_us']:7.2f} µs/op  "
    say(f"  {found['row']:19} {found['side']:11} {found['rate']:11,.0f} op/s  p50 {found['p50_ms']:8.4f} ms  {cost}({found['idle']:.0f} % idle before)")


def median_of(results, row, side, figure):
    """The median of a figure over all repeats."""
    return statistics.median(result[figure] for result in results if (result["row"], result["side"]) == (row.name, side))


def mark_of(row, comparison, results):
    """What one comparison came to, what it must, and whether it does."""
    names = (comparison.side, comparison.beside)
    pairs = [[next(result for result in results if (result["row"], result["side"], result["repeat"]) == (row.name, side, repeat)) for side in names]
             for repeat in sorted({result["repeat"] for result in results if result["row"] == row.name})]
    first, second = ({figure: median_of(results, row, side, figure) for figure in ("rate", "p50_ms")} for side in names)
    if comparison.by == "p50":
        later = [1000 * (one["p50_ms"] - other["p50_ms"]) for one, other in pairs]
        found = statistics.median(later)
        text = f"{found:+.1f} µs ({min(later):+.1f} … {max(later):+.1f}); p50 {1000 * first['p50_ms']:.1f} and {1000 * second['p50_ms']:.1f} µs"
        target, passes = "" if comparison.most is None else f"≤ +{comparison.most} µs", comparison.most is None or found <= comparison.most
    else:
        ratios = [one["rate"] / other["rate"] for one, other in pairs]
        found = statistics.median(ratios)
        costs = [median_of(results, row, side, "server_us") for side in names]
        text = (f"{found:.3f}× ({min(ratios):.3f} … {max(ratios):.3f}); {first['rate']:,.0f} and {second['rate']:,.0f}/s; "
                f"servers {costs[0]:.2f} and {costs[1]:.2f} µs/op")
        if row.clients == 1:
            text += f"; {1e6 / first['rate'] - 1e6 / second['rate']:+.1f} µs on average"
        target, passes = "" if comparison.least is None else f"≥ {comparison.least}×", comparison.least is None or found >= comparison.least
    return f"{row.name}: {comparison.side} / {comparison.beside}", text, target, passes


def marks_of(rows, results):
    """All comparisons, and the rows that have none."""
    marks = []
    for row in rows:
        marks += [mark_of(row, comparison, results) for comparison in row.comparisons]
        if not row.comparisons:
            rate = median_of(results, row, ALL, "rate")
            marks.append((row.name, f"{rate:,.0f}/s", f"≥ {row.least:,.0f}/s", rate >= row.least))
    return marks


def compare(options):
    """Prepares, measures, tells."""
    install.redis(say)
    if not shutil.which("openssl"):
        raise machine.BenchError("openssl not found: install the package openssl")
    program = install.dictum(say, options.dictum)
    about, results, begun = describe(), [], time.monotonic()
    free, stolen = machine.quietness(2.0)
    say(f"{about['processors']} processors, kernel {about['kernel']}; idle {free:.0f} %, stolen {stolen:.0f} %")
    for section in SECTIONS:
        rows = [row for row in options.rows if row.section == section]
        if not rows:
            continue
        say(f"{section}: starting and filling")
        with section_of(section, program, options) as sides:
            fill(sides.values())
            measure(rows, sides, options, results)
    say(f"took {time.monotonic() - begun:.0f} s")
    conclude(FOLDER, about, results, marks_of(options.rows, results), options.require)


def main():
    """Runs the bench."""
    run_bench(FOLDER, parse, compare)
