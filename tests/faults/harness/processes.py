"""Processes and waiting. Whatever is started here ends with the test, also if the test is killed."""

import atexit
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

FAULTS = Path(__file__).resolve().parent.parent
ROOT = FAULTS.parent.parent
# Binaries, data folders, histories and logs; git ignores it.
WORK = Path(os.environ.get("FAULTS_WORK", FAULTS / "work"))

_running = []


class Failure(Exception):
    """What a scenario expected and did not find."""


class Missing(Exception):
    """What this machine lacks for a scenario."""


def _die_with_parent():
    """Asks the kernel to kill this child when the test itself dies (prctl PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def start(arguments, log, **options):
    """Starts a process; what it prints is appended to the file `log`."""
    log = Path(log)
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as file:
        options.setdefault("stdout", file)
        options.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen([str(a) for a in arguments], stderr=file, preexec_fn=_die_with_parent, **options)
    _running.append(process)
    return process


def end(process, signal_number=signal.SIGTERM, seconds=20):
    """Signals a process and waits for its end; SIGKILL follows if it takes longer. Returns its exit code."""
    if process.poll() is None:
        process.send_signal(signal_number)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process in _running:
        _running.remove(process)
    return process.returncode


@atexit.register
def _end_all():
    for process in list(_running):
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            end(process, signal.SIGKILL)


signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def run(arguments, seconds=120, check=True, **options):
    """Runs a command to its end and returns the finished process with its output as text."""
    done = subprocess.run([str(a) for a in arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=seconds, check=False, **options)
    if check and done.returncode != 0:
        tail = "\n".join((done.stderr + done.stdout).strip().splitlines()[-5:])
        raise Failure(f"{' '.join(str(a) for a in arguments[:7])} ended with {done.returncode}:\n{tail}")
    return done


def wait_until(condition, what, seconds=30):
    """Polls until `condition` returns something true, and returns that."""
    last = time.monotonic() + seconds
    while True:
        try:
            value = condition()
        except (OSError, ValueError, KeyError, subprocess.TimeoutExpired):
            value = None
        if value:
            return value
        if time.monotonic() > last:
            raise Failure(f"waited {seconds} s in vain for {what}")
        time.sleep(0.05)


def free_ports(count):
    """Ports on which nobody listens now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def require(*tools, root=False):
    """Raises Missing unless the tools are there and, if asked for, this is root."""
    if root and os.geteuid() != 0:
        raise Missing("needs root")
    missing = [tool for tool in tools if not shutil.which(tool)]
    if missing:
        raise Missing(f"needs {', '.join(missing)}; tests/faults/run --install gets the packages as root on Debian")


def say(text):
    """Prints at once, also into a pipe."""
    print(text, flush=True)
