"""The book: entries that are written one after the other all year long, and never touched again.

The checked history says whether every answer was right. The book says it in plainer words: an entry that was acknowledged is there at
every node, as it was written."""

import random
import threading

from harness.client import Client, Refused
from harness.processes import Failure, wait_until

BUCKET = "book"
PAUSE = 0.01
KEYS_AT_ONCE = 500


class Book:
    """Writes for as long as the context lasts. `nodes` is asked for the nodes there are, as they change."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.entries = {}
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join()

    def _write(self):
        number = 0
        while not self.stopping.is_set():
            try:
                with Client(random.choice(self.nodes()).resp, 7) as client:
                    client.ask("SELECT", BUCKET)
                    while not self.stopping.wait(PAUSE):
                        # A number that was not acknowledged is not used again: nobody knows what became of it.
                        number += 1
                        value = f"{number}.{random.getrandbits(64):x}"
                        if client.ask("SET", f"entry:{number}", value) == "OK":
                            with self.lock:
                                self.entries[f"entry:{number}"] = value
            except (OSError, Refused):
                # Nodes come and go: another one is asked.
                self.stopping.wait(0.02)

    def wait_for_more(self, count=50, seconds=60):
        """Waits until so many more entries are acknowledged: the load goes on."""
        wanted = len(self.entries) + count
        wait_until(lambda: len(self.entries) >= wanted, f"{count} more acknowledged writes", seconds)

    def read_at(self, node):
        """Reads all acknowledged entries at a node: how many there are, which are lost and which are wrong."""
        with self.lock:
            entries = list(self.entries.items())

        def read():
            found = []
            with Client(node.resp, 30) as client:
                client.ask("SELECT", BUCKET)
                for first in range(0, len(entries), KEYS_AT_ONCE):
                    found += client.ask("MGET", *(key for key, _ in entries[first:first + KEYS_AT_ONCE]))
            return found or [None]

        found = wait_until(read, f"{node.name} to read the book", 60)
        lost = [key for (key, _), value in zip(entries, found) if value is None]
        wrong = [key for (key, written), value in zip(entries, found) if value not in (None, written.encode())]
        return len(entries), lost, wrong

    def check(self, nodes):
        """Fails if an entry is lost or wrong at one of the nodes; else says how many there are."""
        for node in nodes:
            count, lost, wrong = self.read_at(node)
            if lost or wrong:
                which = ", ".join((lost + wrong)[:5])
                raise Failure(f"read at {node.name}, {len(lost)} of {count} acknowledged entries are lost and {len(wrong)} wrong: {which}")
        return f"{count} entries at each of {len(nodes)} nodes, 0 lost, 0 wrong"
