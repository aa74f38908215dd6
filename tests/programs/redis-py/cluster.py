"""A session of redis-py's RedisCluster: it finds every node from one, routes by itself, and goes on by itself when a leader dies."""

import os
import sys
import threading
import time

import redis
from redis.cluster import LoadBalancingStrategy, RedisCluster

HOSTS = [(host, int(port)) for host, port in (one.rsplit(":", 1) for one in os.environ["DICTUM_HOSTS"].split(","))]
STEPS = []
PROTOCOL = 2
WRITERS = 4


def step(function):
    """Notes a function as a step of the session."""
    STEPS.append(function)
    return function


def client(**options):
    """A client that is told of one node only."""
    host, port = HOSTS[0]
    return RedisCluster(host=host, port=port, protocol=PROTOCOL, decode_responses=True, **options)


def until(condition, seconds=20):
    """Waits until the condition holds and returns what it says."""
    last = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < last, "waited in vain"
        time.sleep(0.01)
    return value


def refused(how, call, *words):
    """The call must raise an error of the server, or of the client, that says so."""
    try:
        answer = call(*words)
    except (redis.ResponseError, redis.exceptions.RedisClusterException) as problem:
        assert how.lower() in str(problem).lower(), problem
        return
    raise AssertionError(f"{call} answered {answer!r}")


def size(r):
    """How many keys the masters have together."""
    return r.dbsize(target_nodes=RedisCluster.PRIMARIES)


@step
def topology(r):
    assert sorted(node.port for node in r.get_nodes()) == sorted(port for _, port in HOSTS)
    covered = sorted(slot for slots in r.cluster_slots() for slot in range(slots[0], slots[1] + 1))
    assert covered == list(range(16384)) or PROTOCOL == 3
    assert r.cluster_info()["cluster_state"] == "ok" and int(r.cluster_info()["cluster_known_nodes"]) == 3
    assert len(r.cluster_nodes()) == 3 and r.cluster_keyslot("foo") == 12182 == r.keyslot("foo")
    assert r.ping(target_nodes=RedisCluster.ALL_NODES) is True
    assert r.get_primaries()


@step
def keys_everywhere(r):
    keys = [f"k{number}" for number in range(200)]
    for number, key in enumerate(keys):
        assert r.set(key, number) is True
    assert [int(r.get(key)) for key in keys] == list(range(200))
    assert size(r) == 200
    assert sorted(r.scan_iter(count=7)) == sorted(keys) == sorted(r.keys(target_nodes=RedisCluster.PRIMARIES))
    assert r.exists(*keys[:50]) == 50 and r.delete(*keys[:50]) == 50 and size(r) == 150
    assert r.mget_nonatomic(*keys[49:52]) == [None, "50", "51"] and r.mset_nonatomic({"a": 1, "b": 2, "c": 3})
    assert r.mset({"{t}a": 1, "{t}b": 2}) and r.mget("{t}a", "{t}b", "{t}c") == ["1", "2", None]
    refused("slot", r.execute_command, "MGET", "a", "b")
    assert r.cluster_countkeysinslot(r.keyslot("{t}a")) == 2
    assert sorted(r.cluster_get_keys_in_slot(r.keyslot("{t}a"), 10)) == ["{t}a", "{t}b"]
    assert r.flushall(target_nodes=RedisCluster.PRIMARIES) and size(r) == 0


@step
def types_and_pipelines(r):
    with r.pipeline() as pipe:
        for number in range(100):
            pipe.hset(f"h{number}", "f", number).hget(f"h{number}", "f")
        assert pipe.execute()[1::2] == [str(number) for number in range(100)]
    assert r.zadd("z", {"a": 1, "b": 2}) == 2 and r.rpush("l", 1, 2) == 2 and r.sadd("s", "m") == 1
    assert r.zunionstore("{z}u", ["{z}1"]) == 0 and r.xadd("x", {"f": "v"}) and r.incr("n", 5) == 5
    refused("slot", r.execute_command, "SUNION", "s1", "s2")


@step
def transactions(r):
    with r.pipeline(transaction=True) as pipe:
        assert pipe.set("{t}1", 1).incr("{t}1").get("{t}1").execute() == ["OK", 2, "2"]

    def add(pipe):
        before = int(pipe.get("{t}1"))
        pipe.multi()
        pipe.set("{t}1", before + 1)

    assert r.transaction(add, "{t}1") == ["OK"] and r.get("{t}1") == "3"


@step
def scripts(r):
    add = r.register_script("return redis.call('incrby', KEYS[1], ARGV[1])")
    for number in range(20):
        assert add(keys=[f"sum{number}"], args=[number]) == number
    assert r.eval("return KEYS[1]", 1, "k") == "k"
    library = "#!lua name=session\nredis.register_function('twice', function(keys, args) return args[1] * 2 end)"
    loaded = r.function_load(library)
    assert set(loaded.values() if isinstance(loaded, dict) else [loaded]) == {"session"}
    assert [r.fcall("twice", 1, f"k{number}", 4) for number in range(10)] == [8] * 10
    assert r.function_delete("session")


@step
def messages(r):
    with r.pubsub() as listener:
        listener.subscribe("news")
        assert until(lambda: listener.get_message(timeout=1))["type"] == "subscribe"
        r.publish("news", "hello")
        assert until(lambda: listener.get_message(timeout=1))["data"] == "hello"
    with r.pubsub() as listener:
        listener.ssubscribe("shard")
        assert until(lambda: listener.get_sharded_message(timeout=1))["type"] == "ssubscribe"
        r.spublish("shard", "hello")
        assert until(lambda: listener.get_sharded_message(timeout=1))["data"] == "hello"


@step
def waits(r):
    threading.Timer(0.1, lambda: r.rpush("queue", "job")).start()
    assert r.blpop("queue", timeout=20)[-1] == "job"


@step
def reads_at_replicas(r):
    r.set("old", 1)
    with client(load_balancing_strategy=LoadBalancingStrategy.ROUND_ROBIN) as reader:
        until(lambda: all(reader.get("old") == "1" for _ in range(10)))


@step
def death_of_a_leader(r):
    """Writers go on while the leader is killed and comes back; what was answered is there afterwards."""
    acknowledged, errors, stop = [set() for _ in range(WRITERS)], [], threading.Event()

    def write(writer):
        number = 0
        while not stop.is_set():
            key = f"w{writer}:{number}"
            try:
                if r.set(key, number):
                    acknowledged[writer].add(number)
                number += 1
            except (redis.RedisError, OSError) as problem:
                # As an application does: it says the same again.
                errors.append(f"{type(problem).__name__}: {problem}")
                time.sleep(0.05)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(WRITERS)]
    for thread in threads:
        thread.start()
    until(lambda: all(len(done) >= 100 for done in acknowledged))
    print("kill a leader", flush=True)
    assert sys.stdin.readline().strip() == "another leads"
    reached = [len(done) + 100 for done in acknowledged]
    until(lambda: all(len(done) >= wanted for done, wanted in zip(acknowledged, reached)), 60)
    print("start it again", flush=True)
    assert sys.stdin.readline().strip() == "it is back"
    reached = [len(done) + 100 for done in acknowledged]
    until(lambda: all(len(done) >= wanted for done, wanted in zip(acknowledged, reached)), 60)
    stop.set()
    for thread in threads:
        thread.join()
    for writer, done in enumerate(acknowledged):
        lost = [number for number in done if r.get(f"w{writer}:{number}") != str(number)]
        assert not lost, f"lost of writer {writer}: {lost[:10]}"
    print(f"note {sum(map(len, acknowledged))} writes, {len(errors)} errors seen: {sorted(set(errors))[:4]}", flush=True)


def main():
    """Plays all steps, over both protocols."""
    global PROTOCOL
    for PROTOCOL in (2, 3):
        for function in STEPS:
            with client() as r:
                r.flushall(target_nodes=RedisCluster.PRIMARIES)
                function(r)
            print(f"ok {function.__name__.replace('_', ' ')} (RESP{PROTOCOL})", flush=True)


main()
