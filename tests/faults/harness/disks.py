"""Small disks that can be filled. Mounting needs root."""

import contextlib
import os

from .processes import run


@contextlib.contextmanager
def mounted(point, *arguments):
    """A file system mounted at `point` for as long as the context lasts."""
    point.mkdir(parents=True, exist_ok=True)
    run(["mount", *arguments, point])
    try:
        yield point
    finally:
        run(["umount", "--lazy", point], check=False)


def fill(ballast, leave=0):
    """Takes all room that is left on the file system of `ballast`, but for `leave` bytes."""
    block = b"\0" * (1 << 20)
    with open(ballast, "wb", buffering=0) as file:
        if leave:
            room = os.statvfs(ballast.parent)
            for _ in range((room.f_bavail * room.f_frsize - leave) // len(block)):
                file.write(block)
            return
        for size in (1 << 20, 4096):
            with contextlib.suppress(OSError):
                while file.write(block[:size]):
                    pass
