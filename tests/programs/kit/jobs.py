"""Queue libraries at work while leaders die.

1. Jobs are queued, and two workers for each node take them; each job leaves its name in a file of its worker.
2. When a quarter of the jobs is done the leader is killed with SIGKILL, and started again as soon as another leads; the
   same when six tenths are done. A worker that ends is started again, as an init system does it.
3. When the library says that nothing is left, the files are compared with what it says: every job has run, and none
   ran oftener than the library itself said it would repeat it."""

import json
import time
from collections import Counter

from harness.processes import Failure, end, run, say, start, wait_until

from .packages import place

WORKERS_A_NODE = 2
KILL_AT = [0.25, 0.6]
# Longest time without any job done: RQ and BullMQ give up on a job that was cut off after one to two minutes.
STALL_SECONDS_MAX = 240


class Crew:
    """Worker processes, started again when they end."""

    def __init__(self, context, cluster, command):
        """`command(worker, address)` is what a worker runs."""
        self.context, self.cluster, self.command = context, cluster, command
        self.processes, self.restarts = {}, 0

    def __enter__(self):
        for number in range(3 * WORKERS_A_NODE):
            self._start(number)
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            end(process, seconds=10)

    def _start(self, number):
        node = number % 3
        told = self.context.environment(self.cluster, MARKS=self.context.work / f"worker-{number}.marks", NODE_INDEX=node)
        self.processes[number] = start(self.command(number, self.context.addresses(self.cluster)[node]),
                                       self.context.work / f"worker-{number}.log", env=told)

    def look(self):
        """Starts those again that have ended."""
        for number, process in list(self.processes.items()):
            if process.poll() is not None:
                self.restarts += 1
                end(process)
                self._start(number)

    def marks(self):
        """How often each job has run."""
        return Counter(line for file in self.context.work.glob("worker-*.marks") for line in file.read_text().split())


def kill_leader(context, cluster):
    """kill -9 of the leader; it comes back when another leads. Of a Redis alone: of that."""
    if context.redis:
        cluster.kill(cluster.nodes[0])
        cluster.start(cluster.nodes[0])
        cluster.wait_ready()
        return "the Redis"
    victim = cluster.leader()
    cluster.kill(victim)
    wait_until(lambda: cluster.leader(among=[node for node in cluster.nodes if node is not victim]), "another leader")
    cluster.restart(victim)
    return victim.name


def finish(context, command, queued, enqueue_first, needs="get"):
    """Runs the jobs; `queued` is the library's program that enqueues them and tells what became of them."""
    count = context.count
    with context.cluster() as cluster:
        context.needs(cluster, needs)
        told = context.environment(cluster)
        if enqueue_first:
            run([*queued, "enqueue", count], 600, env=told)
        with Crew(context, cluster, command) as crew:
            began = time.monotonic()
            adding = None if enqueue_first else start([*queued, "enqueue", count], context.work / "enqueue.log", env=told)
            last, seen, kills = began, 0, []
            while (done := len(crew.marks())) < count:
                crew.look()
                if len(kills) < len(KILL_AT) and done >= KILL_AT[len(kills)] * count:
                    kills.append(done)
                    say(f"  {done} jobs done after {time.monotonic() - began:.0f} s: killing {kill_leader(context, cluster)}")
                if done > seen:
                    last, seen = time.monotonic(), done
                if time.monotonic() - last > STALL_SECONDS_MAX:
                    raise Failure(f"{count - done} of {count} jobs have not run, and for {STALL_SECONDS_MAX} s none has; "
                                  f"the library says: {_audit(queued, count, told)}")
                time.sleep(0.2)
            seconds = time.monotonic() - began
            if len(kills) < len(KILL_AT):
                raise Failure(f"the jobs were done before the leader was killed {len(KILL_AT)} times")
            if adding and adding.wait(60) != 0:
                raise Failure(f"the program that adds jobs ended with {adding.returncode}; see {context.work}/enqueue.log")

            def settled():
                crew.look()
                found = json.loads(_audit(queued, count, told))
                return found if not any(found[name] for name in found if name != "repeated") else None

            try:
                said = wait_until(settled, "the library to say that all is finished", STALL_SECONDS_MAX)
            except Failure as problem:
                raise Failure(f"{problem}; it says {_audit(queued, count, told)[:600]}") from None
            marks, restarts = crew.marks(), crew.restarts
    return judge(marks, count, said["repeated"], seconds, restarts)


def _audit(queued, count, told):
    return run([*queued, "audit", count], 300, env=told).stdout.strip().splitlines()[-1]


def judge(marks, count, repeated, seconds, restarts):
    """What ran against what was to run, and what the library itself says it repeated."""
    wanted = {f"job-{i:05}" for i in range(count)}
    if lost := wanted - set(marks):
        raise Failure(f"{len(lost)} jobs were lost: {sorted(lost)[:10]}")
    if strange := set(marks) - wanted:
        raise Failure(f"jobs ran that nobody queued: {sorted(strange)[:10]}")
    often = {name: times for name, times in marks.items() if times > 1}
    if wrong := {name: times for name, times in often.items() if times > 1 + repeated.get(name, 0)}:
        raise Failure(f"{len(wrong)} jobs ran oftener than the library says that it repeated them: {dict(list(wrong.items())[:10])}")
    return (f"{count} jobs in {seconds:.0f} s, {count / seconds:.0f} a second; leader killed {len(KILL_AT)} times; none lost; "
            f"{len(often)} ran more than once, each of them repeated by the library itself ({len(repeated)} repeated in all); "
            f"{restarts} workers ended and were started again")


def rq(context):
    """RQ (Python): 10,000 jobs, the leader killed twice."""
    there = place("rq")
    binaries = there / "venv/bin"
    # An idle worker looks for jobs that were cut off after its time to live less 15 s, and then once in an interval;
    # RQ's own settings, 7 and 10 minutes, only make the test longer.
    quick = ["--worker-ttl", "25", "--maintenance-interval", "5", "--job-monitoring-interval", "5"]

    def command(number, address):
        return [binaries / "rq", "worker", "--url", f"redis://{address}", "--name", f"worker-{number}-{time.time_ns()}",
                "--path", there, "--quiet", *quick, "marks"]

    return finish(context, command, [binaries / "python", there / "queued.py"], enqueue_first=True)


def bullmq(context):
    """BullMQ (JavaScript, Lua scripts throughout): 10,000 jobs, the leader killed twice."""
    there = place("bullmq")
    return finish(context, lambda *_: ["node", there / "worker.mjs"], ["node", there / "queued.mjs"], enqueue_first=False,
                  needs="eval")


SESSIONS = {"rq": rq, "bullmq": bullmq}
