"""The sessions of client libraries. Each is a program of its own in its folder: it prints `ok STEP` for each step that
it has checked and ends with 0 if all were right."""

from harness.processes import Failure, run, wait_until

from .packages import java, place


def _commands(name, part):
    there = place(name)
    # Most parts of a library's session are steps of one program.
    file = "buckets" if part == "buckets" else "session"
    return {
        "redis-py": lambda: [there / "venv/bin/python", there / f"{file}.py"],
        "go-redis": lambda: [there / "session"],
        "ioredis": lambda: ["node", there / f"{file}.mjs"],
        "node-redis": lambda: ["node", there / f"{file}.mjs"],
        "jedis": lambda: java(there, file.capitalize()),
    }[name]() + [part]


def play(context, name, part):
    """Runs one part of a client's session on a cluster of its own."""
    log = context.work / "session.log"
    with context.cluster() as cluster:
        if part == "scripts":
            context.needs(cluster, "eval")
        if part == "buckets":
            # Databases come with version 8 of the cluster, some moments after the first write.
            wait_until(lambda: all(cluster.reply(node, "select", "15") == "OK" for node in cluster.nodes), "databases")
        done = run(_commands(name, part), 240, check=False, env=context.environment(cluster))
    log.write_text(done.stdout + done.stderr)
    steps = [line for line in done.stdout.splitlines() if line.startswith("ok ")]
    if done.returncode != 0 or not steps:
        tail = "\n    ".join((done.stdout + done.stderr).strip().splitlines()[-12:])
        raise Failure(f"{len(steps)} steps were right, then it ended with {done.returncode} (all of it: {log})\n    {tail}")
    names = dict.fromkeys(line[3:].rsplit(" (", 1)[0] for line in steps)
    return f"{len(steps)} steps over both protocols: {', '.join(names)}"


def _session(name, part, text):
    def session(context):
        return play(context, name, part)

    session.__doc__ = text
    return session


WHAT = {"redis-py": "Python", "go-redis": "Go", "ioredis": "JavaScript", "jedis": "Java"}
SESSIONS = {}
for _name, _language in WHAT.items():
    SESSIONS[_name] = _session(_name, "main", f"{_name} ({_language}): every type, both protocols, pipelines, "
                                              "transactions, messages.")
    SESSIONS[f"{_name}:scripts"] = _session(_name, "scripts", f"{_name} ({_language}): Lua scripts and what is built "
                                                              "on them.")
    SESSIONS[f"{_name}:stream-waits"] = _session(_name, "stream-waits", f"{_name} ({_language}): XREAD and XREADGROUP "
                                                                        "that wait.")
for _name in [*WHAT, "node-redis"]:
    SESSIONS[f"{_name}:buckets"] = _session(_name, "buckets", f"{_name}: databases by number, buckets by name, and wrong choices.")
