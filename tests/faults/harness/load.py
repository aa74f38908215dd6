"""The recorded load, and the two checkers that judge its history."""

import json
import subprocess
import time

from .processes import WORK, Failure, end, run, say, start

BIN = WORK / "bin"


class Load:
    """The load driver at work. Use it as a context around the faults; leaving it ends the load and reads all keys."""

    def __init__(self, addresses, work, *options, prefix=(), patience=240):
        """`options` are those of the driver. `patience`: how many seconds it may take to read all keys at the end."""
        self.history = work / "history.jsonl"
        self.command = [*prefix, BIN / "drive", "-addrs", ",".join(addresses), "-history", self.history, *options]
        self.log = work / "drive.log"
        self.process = None
        self.summary = None
        self.patience = patience

    def __enter__(self):
        self.process = start(self.command, self.log, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        time.sleep(1.0)  # load before the first fault
        if self.process.poll() is not None:
            raise Failure(f"the load driver ended at once; see {self.log}")
        return self

    def mark(self, name):
        """Begins a section: the summary tells each section's longest gap between acknowledged writes."""
        self._say(f"mark {name}")

    def ask(self, addresses):
        """From now on the clients ask these nodes, and all keys are read through them at the end."""
        self._say(f"nodes {','.join(addresses)}")

    def _say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def run_for(self, seconds):
        """Lets the load go on for a while."""
        time.sleep(seconds)

    def __exit__(self, kind, *_):
        if kind is not None:
            end(self.process)
            return
        try:
            output, _ = self.process.communicate("stop\n", timeout=self.patience)
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


def judge(program, load, expected="linearizable"):
    """Prints what the load saw and lets both checkers judge its history. Fails unless both find what is expected."""
    summary = load.summary
    say(f"  {summary['operations']} operations: {summary['done']} done, {summary['failed']} refused, "
        f"{summary['maybe']} of unknown outcome; {summary['acknowledged_writes']} acknowledged writes on "
        f"{summary['keys']} keys; repeated under one id: {summary['repeated_once']}")
    say(f"  longest gap without an acknowledged write {summary['longest_gap_ms']:.0f} ms; slowest answer "
        f"{summary['slowest_ms']:.0f} ms")
    for text, count in sorted(summary["errors"].items(), key=lambda pair: -pair[1])[:6]:
        say(f"    {count:6} × {text}")
    if summary["final_unread"]:
        raise Failure(f"{summary['final_unread']} keys could not be read at the end")
    verdict, text = judge_with_porcupine(load.history)
    say(f"  porcupine: {verdict}" if verdict == expected == "linearizable" else f"  porcupine: {text}")
    if verdict != expected:
        raise Failure(f"porcupine says {verdict}, expected {expected}; history: {load.history}")
    if program:
        verdict, text = judge_with_dictum(program, load.history)
        say(f"  dictum's checker: {verdict}")
        if verdict != expected:
            raise Failure(f"dictum's checker says {verdict}, expected {expected}: {text}")
