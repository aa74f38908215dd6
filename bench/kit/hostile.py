"""Clients that nobody wants: each is a function that does its worst for one round, over connections of its own, and is called again until the end.

None of them may be served well. What they must not do is take memory, descriptors, leaderships or time from anybody else.
"""

import os
import random
import socket
import struct
import threading
import time

# How long one of them waits for an answer.
PATIENCE = 30
MIB = 1 << 20


def words(*parts):
    """A command as clients send it."""
    encoded = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
    return b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in encoded)


def connect(address, patience=PATIENCE):
    """A connection to `host:port`."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=patience)


def vanish(connection):
    """Ends a connection with a reset, as a process that is killed does under some systems."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def ask(connection, *parts):
    """Sends a command and returns the first bytes of what comes back; what follows is thrown away with the connection."""
    connection.sendall(words(*parts))
    return connection.recv(65536)


def call(address, *parts):
    """One command over a connection of its own."""
    with connect(address) as connection:
        return ask(connection, *parts)


def reads_nothing(resp, _http):
    """Wants 64 answers of 1 MiB and reads none."""
    call(resp, "SETRANGE", "hostile:large", MIB - 1, "x")
    with connect(resp) as connection:
        connection.sendall(words("GET", "hostile:large") * 64)
        time.sleep(2)


def asks_for_too_much(resp, _http):
    """A transaction whose answers would be a gigabyte."""
    with connect(resp) as connection:
        ask(connection, "MULTI")
        connection.sendall(words("GET", "hostile:large") * 1000 + words("EXEC"))
        time.sleep(1)


def talks_nonsense(resp, http):
    """Bytes of no protocol, lengths of gigabytes, and heads of requests without an end."""
    for address in (resp, http):
        for text in (os.urandom(4096), b"*1000000000\r\n", b"*2\r\n$1000000000\r\n" + b"x" * 65536, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 5000,
                     b"POST /insertOrUpdate HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n" + b"x" * 10000):
            try:
                with connect(address, 2) as connection:
                    connection.sendall(text)
                    connection.recv(4096)
            except OSError:
                # That it is cut off is right.
                continue


def works_without_end(resp, _http):
    """Scripts that do not end, patterns and paths that explode, strings that are compared for ever."""
    call(resp, "JSON.SET", "hostile:document", "$", '{"a":' * 40 + "1" + "}" * 40)
    call(resp, "SET", "hostile:long", "ab" * 20000)
    for command in (("EVAL", "while true do end", 0), ("EVAL", "local s = 'x' while true do s = s .. s end", 0),
                    ("EVAL", "for i = 1, 1e9 do redis.call('BITCOUNT', KEYS[1]) end", 1, "hostile:large"),
                    ("EVAL", "for i = 1, 40 do redis.call('LCS', KEYS[1], KEYS[1]) end", 1, "hostile:long"),
                    ("KEYS", "*a" * 500 + "b"), ("JSON.GET", "hostile:document", "$..*..*..*..*..*"),
                    ("LCS", "hostile:long", "hostile:long")):
        call(resp, *command)


def waits_and_dies(resp, _http):
    """Waits for elements, and is gone when they come."""
    connections = [connect(resp) for _ in range(50)]
    for number, connection in enumerate(connections):
        connection.sendall(words("BLPOP", f"hostile:queue:{number}", 0))
    time.sleep(0.5)
    for connection in connections:
        vanish(connection)
    with connect(resp) as connection:
        for number in range(50):
            ask(connection, "LPUSH", f"hostile:queue:{number}", "x")
            ask(connection, "DEL", f"hostile:queue:{number}")


def sits_there(resp, http):
    """Idle connections, over RESP and HTTP."""
    connections = [connect(address) for address in (resp, http) for _ in range(100)]
    time.sleep(3)
    for connection in connections:
        connection.close()


def listens_to_nothing(resp, _http):
    """Subscribes to everything, reads nothing, while large messages are published; tracks all keys likewise."""
    with connect(resp) as listener, connect(resp) as tracker, connect(resp) as speaker:
        ask(listener, "PSUBSCRIBE", "*")
        ask(tracker, "HELLO", 3)
        ask(tracker, "CLIENT", "TRACKING", "ON", "BCAST")
        for _ in range(200):
            ask(speaker, "PUBLISH", "hostile:channel", b"x" * 65536)


def makes_large_things(resp, _http):
    """Honest, and large: 100,000 fields, read whole, and removed."""
    with connect(resp) as connection:
        pairs = [text for number in range(100_000) for text in (f"field:{number}", number)]
        ask(connection, "HSET", "hostile:hash", *pairs)
        ask(connection, "HLEN", "hostile:hash")
        ask(connection, "DEL", "hostile:hash")


def leaves_things_behind(resp, _http):
    """Ever new scripts, watched keys, subscriptions, names and identifiers of commands, all abandoned."""
    for _ in range(20):
        with connect(resp) as connection:
            mark = random.getrandbits(64)
            ask(connection, "CLIENT", "SETNAME", f"hostile-{mark}")
            ask(connection, "EVAL", f"return {mark} -- {'x' * 1000}", 0)
            ask(connection, "DICTUM.ONCE", f"hostile-{mark}", "SET", "hostile:once", mark)
            ask(connection, "SET", f"hostile:fading:{mark}", "x" * 1000, "PX", 20_000)
            connection.sendall(words("WATCH", *[f"hostile:watched:{number}" for number in range(1000)]))
            connection.recv(100)
            ask(connection, "SUBSCRIBE", *[f"hostile:{mark}:{number}" for number in range(100)])
            vanish(connection)


ALL = [reads_nothing, asks_for_too_much, talks_nonsense, works_without_end, waits_and_dies, sits_there, listens_to_nothing, makes_large_things,
       leaves_things_behind]


class Hostiles:
    """All of them, each in a thread of its own, going round the nodes until `stop`."""

    def __init__(self, nodes):
        self.ended = threading.Event()
        self.rounds = {kind.__name__: 0 for kind in ALL}
        self.cut_off = {kind.__name__: 0 for kind in ALL}
        self.threads = [threading.Thread(target=self._go_on, args=(kind, nodes), daemon=True) for kind in ALL]

    def start(self):
        """Begins."""
        for thread in self.threads:
            thread.start()

    def stop(self):
        """Ends them, each after its round."""
        self.ended.set()
        for thread in self.threads:
            thread.join(2 * PATIENCE)

    def _go_on(self, kind, nodes):
        while not self.ended.is_set():
            node = random.choice(nodes)
            try:
                kind(node["resp"], node["http"])
            except OSError:
                # The node has closed the connection, or did not answer in time: its right.
                self.cut_off[kind.__name__] += 1
            self.rounds[kind.__name__] += 1
            self.ended.wait(1)
