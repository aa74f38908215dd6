"""A connection to one node that speaks RESP2, for tests that want more than redis-cli prints."""

import socket


class Refused(ValueError):
    """What a server answered instead of a result, without the `-` before it."""


class Client:
    """Asks one thing at a time. Bulk strings are bytes, simple ones text; an error is raised as Refused."""

    def __init__(self, address, seconds=10):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), seconds)
        self.input = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.input.close()
        self.socket.close()

    def ask(self, *words):
        """Carries out one command."""
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        return self._reply()

    def _reply(self):
        line = self.input.readline()
        if not line.endswith(b"\r\n"):
            raise OSError("the node has closed the connection")
        kind, body = line[:1], line[1:-2]
        if kind == b"+":
            return body.decode()
        if kind == b"-":
            raise Refused(body.decode(errors="replace"))
        number = int(body)
        if kind == b":":
            return number
        if number < 0:
            return None
        if kind == b"$":
            text = self.input.read(number + 2)
            if len(text) != number + 2:
                raise OSError("the node has closed the connection")
            return text[:-2]
        if kind == b"*":
            return [self._reply() for _ in range(number)]
        raise OSError(f"a reply that was not expected: {line!r}")
