"""What the bench does with the machine: start and end processes, find free ports, see whether it is quiet."""

import atexit
import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
ROOT = BENCH.parent
# Binaries, data and results; git ignores it. The data must lie on the disk that is to be measured.
WORK = Path(os.environ.get("BENCH_WORK", BENCH / "work"))

_running = []


@contextlib.contextmanager
def only_run(name):
    """Makes sure that no other run of any benchmark below WORK is under way: they would disturb each other."""
    WORK.mkdir(parents=True, exist_ok=True)
    with open(WORK / "lock", "w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            sys.exit(f"{name}: another run is under way (they would disturb each other); wait for its end")
        yield


class BenchError(Exception):
    """Something that the user must know or mend; its text says what happened and what to do."""


def _die_with_parent():
    """Asks the kernel to kill this child when the bench itself dies (prctl PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def start(arguments, log, **options):
    """Starts a process whose output goes to the file `log` below WORK/logs. It never outlives the bench."""
    logs = WORK / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    with open(logs / log, "ab") as file:
        options.setdefault("stdout", file)
        process = subprocess.Popen([str(a) for a in arguments], stdin=subprocess.DEVNULL, stderr=file,
                                   preexec_fn=_die_with_parent, **options)
    _running.append(process)
    return process


def stop(process, seconds=20):
    """Ends a process that `start` returned: SIGTERM, and SIGKILL if it has not ended after `seconds`."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process in _running:
        _running.remove(process)


@atexit.register
def _stop_all():
    for process in _running.copy():
        stop(process, 5)


signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def run(arguments, seconds=600, **options):
    """Runs a command to its end and returns what it printed; an error shows its last lines."""
    try:
        done = subprocess.run([str(a) for a in arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=seconds, check=False, **options)
    except subprocess.TimeoutExpired:
        raise BenchError(f"{arguments[0]} did not end within {seconds} s") from None
    if done.returncode != 0:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-5:])
        raise BenchError(f"{' '.join(str(a) for a in arguments[:6])} … failed ({done.returncode}):\n{tail}")
    return done.stdout


def wait_until(condition, what, seconds=30):
    """Polls `condition` until it returns something true, and returns that."""
    end = time.monotonic() + seconds
    while True:
        try:
            value = condition()
        except (OSError, BenchError, ValueError):
            value = None
        if value:
            return value
        if time.monotonic() > end:
            raise BenchError(f"waited {seconds} s in vain for {what}; logs are in {WORK / 'logs'}")
        time.sleep(0.02)


def require_free_ports(ports, whose):
    """Fails with a clear message when another process listens where one of the sides is to listen."""
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                raise BenchError(f"port {port} is in use, and {whose} needs it: end the process that listens there, "
                                 "or choose another --base-port") from None


def processor_times():
    """The kernel's count of processor time: (all, idle, stolen), in ticks of all cores together."""
    fields = [int(f) for f in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(fields), fields[3] + fields[4], fields[7]


def share_since(before):
    """Percent (idle, stolen) of the processor time since `before` (from `processor_times`)."""
    now = processor_times()
    total = max(1, now[0] - before[0])
    return 100 * (now[1] - before[1]) / total, 100 * (now[2] - before[2]) / total


def quietness(seconds=0.5, patience=0.0, idle_wanted=90.0):
    """Looks at the machine for `seconds`; looks again, up to `patience` seconds, while less than `idle_wanted`
    percent is idle. Returns percent (idle, stolen) of the last look."""
    end = time.monotonic() + patience
    while True:
        before = processor_times()
        time.sleep(seconds)
        idle, stolen = share_since(before)
        if idle >= idle_wanted or time.monotonic() >= end:
            return idle, stolen
