"""The recorded load, and the two checkers that judge its history."""

import json
import subprocess
import time

from .processes import WORK, Failure, end, run, start

BIN = WORK / "bin"


class Load:
    """The load driver at work. Use it as a context around the faults; leaving it ends the load and reads all keys."""

    def __init__(self, addresses, work, *options, prefix=()):
        self.history = work / "history.jsonl"
        self.command = [*prefix, BIN / "drive", "-addrs", ",".join(addresses), "-history", self.history, *options]
        self.log = work / "drive.log"
        self.process = None
        self.summary = None

    def __enter__(self):
        self.process = start(self.command, self.log, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        time.sleep(1.0)  # load before the first fault
        if self.process.poll() is not None:
            raise Failure(f"the load driver ended at once; see {self.log}")
        return self

    def mark(self, name):
        """Begins a section: the summary tells each section's longest gap between acknowledged writes."""
        self.process.stdin.write(f"mark {name}\n")
        self.process.stdin.flush()

    def run_for(self, seconds):
        """Lets the load go on for a while."""
        time.sleep(seconds)

    def __exit__(self, kind, *_):
        if kind is not None:
            end(self.process)
            return
        try:
            output, _ = self.process.communicate("stop\n", timeout=240)
        except subprocess.TimeoutExpired:
            end(self.process)
            raise Failure("the load driver did not end") from None
        end(self.process)
        if self.process.returncode != 0 or not output:
            raise Failure(f"the load driver failed; see {self.log}")
        self.summary = json.loads(output)

    def section(self, name):
        """The longest gap in milliseconds of the sections with that name, as a list."""
        return [one["gap_ms"] for one in self.summary["sections"] if one["name"] == name]


def judge_with_porcupine(history, clock_error="5ms"):
    """Returns (verdict, text): `linearizable`, `violated` or `undecided`."""
    done = run([BIN / "histories", "-clock-error", clock_error, "-picture", history.with_suffix(".html"), history],
               seconds=900, check=False)
    verdict = {0: "linearizable", 1: "violated", 3: "undecided"}.get(done.returncode)
    if verdict is None:
        raise Failure(f"the checker failed:\n{done.stderr}")
    return verdict, done.stdout.strip()


def judge_with_dictum(program, history, clock_error_ms=5):
    """The same by `dictum sim check-history`, the checker that the simulator uses."""
    done = run([program, "sim", "check-history", "--clock-error-ms", clock_error_ms, history], seconds=900, check=False)
    verdict = {0: "linearizable", 1: "violated", 3: "undecided"}.get(done.returncode)
    if verdict is None:
        raise Failure(f"dictum sim check-history ended with {done.returncode}:\n{done.stderr}")
    return verdict, done.stdout.strip()
