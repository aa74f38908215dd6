"""Clients that write one key each, at a steady pace, and note what every write took."""

import asyncio
import time

# A write that has no answer for so long is tried again elsewhere, as a client with a time limit does.
PATIENCE = 1.0


def slot_of(key):
    """The hash slot of a key without a hash tag: CRC-16 (XMODEM) modulo 16,384."""
    crc = 0
    for byte in key.encode():
        crc ^= byte << 8
        for _ in range(8):
            crc = ((crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc % 16384


def keys_of_all(partitions):
    """A key for each partition of a bucket: partitions have ranges of slots of equal size."""
    found, number = {}, 0
    while len(found) < partitions:
        key = f"watched:{number}"
        found.setdefault(slot_of(key) * partitions // 16384, key)
        number += 1
    return list(found.values())


class Watch:
    """One writer for each key, spread over nodes; each writes every `pace` seconds. What a write takes counts from when it was due."""

    def __init__(self, nodes, number, keys, pace):
        self.addresses = [node["resp"].rsplit(":", 1) for node in nodes]
        self.number = number
        self.keys = keys
        self.pace = pace
        # When each was due, how long it took.
        self.taken = []
        self.errors = []
        self.ends = False

    async def _open(self, place):
        host, port = self.addresses[place % len(self.addresses)]
        reader, writer = await asyncio.wait_for(asyncio.open_connection(host, int(port)), PATIENCE)
        writer.write(f"SELECT {self.number}\r\n".encode())
        await asyncio.wait_for(reader.readline(), PATIENCE)
        return reader, writer

    async def _write_on(self, place, key):
        link, due, count = None, time.monotonic() + self.pace * place / len(self.keys), 0
        while not self.ends:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            while not self.ends:
                try:
                    if link is None:
                        link = await self._open(place)
                    link[1].write(f"SET {key} {count}\r\n".encode())
                    answer = await asyncio.wait_for(link[0].readline(), PATIENCE)
                except (OSError, asyncio.TimeoutError):
                    answer = b""
                if answer.startswith(b"+OK"):
                    break
                if answer:
                    self.errors.append(answer.decode(errors="replace").strip())
                else:
                    # The connection is gone or silent: on to the next node, as a client does that knows several.
                    if link is not None:
                        link[1].close()
                    link, place = None, place + 1
                    await asyncio.sleep(0.005)
            now = time.monotonic()
            self.taken.append((due, now - due))
            count += 1
            due = max(due + self.pace, now)
        if link is not None:
            link[1].close()

    async def run(self, during):
        """Writes while `during` runs, in another thread; what that returns."""
        tasks = [asyncio.create_task(self._write_on(place, key)) for place, key in enumerate(self.keys)]
        try:
            return await asyncio.to_thread(during)
        finally:
            self.ends = True
            await asyncio.gather(*tasks)

    def longest(self, begin, end):
        """The longest that a write took of those that were due from `begin` on, and before `end`; seconds."""
        return max((took for due, took in self.taken if begin <= due < end), default=0.0)

    def percentile(self, share, begin, end):
        """So many of the writes were quicker, of those due in that time; seconds."""
        times = sorted(took for due, took in self.taken if begin <= due < end)
        return times[min(len(times) - 1, int(share * len(times)))] if times else 0.0

    def rate(self, begin, end):
        """Writes a second in that time."""
        return sum(1 for due, _ in self.taken if begin <= due < end) / max(end - begin, 1e-9)
