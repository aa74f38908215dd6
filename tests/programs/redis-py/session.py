"""A session of redis-py: what its users do all day, with and without hiredis, over RESP2 and RESP3, sync and async."""

import asyncio
import os
import sys
import threading
import time

import redis
import redis.asyncio

HOSTS = [(host, int(port)) for host, port in (one.rsplit(":", 1) for one in os.environ["DICTUM_HOSTS"].split(","))]
DICTUM = os.environ["DICTUM_SERVER"] == "dictum"
STEPS = {"main": [], "scripts": [], "stream-waits": []}
PROTOCOL = 2


def step(part="main", newer_than_redis_7_0=False):
    """Notes a function as a step of that part of the session."""

    def note(function):
        if DICTUM or not newer_than_redis_7_0:
            STEPS[part].append(function)
        return function

    return note


def client(node=0, **options):
    """A client of one node."""
    host, port = HOSTS[node]
    return redis.Redis(host=host, port=port, protocol=PROTOCOL, decode_responses=True, **options)


def raises(kind, call, *words, **more):
    """The message of the error that the call must raise."""
    try:
        answer = call(*words, **more)
    except kind as problem:
        return str(problem)
    raise AssertionError(f"{call} answered {answer!r} and raised no {kind.__name__}")


@step()
def connections(r):
    assert r.ping() is True
    assert r.echo("hé\r\n") == "hé\r\n"
    assert r.client_setname("session") and r.client_getname() == "session"
    assert any(one["name"] == "session" for one in r.client_list())
    assert r.client_info()["resp"] == str(PROTOCOL)
    info = r.info()
    assert int(info["redis_version"].split(".")[0]) >= 7 and info["tcp_port"] == HOSTS[0][1]
    assert int(r.config_get("maxclients")["maxclients"]) > 100
    assert r.command_count() > 200 and r.command()["get"]["arity"] == 2
    assert abs(r.time()[0] - time.time()) < 60
    assert raises(redis.ResponseError, r.execute_command, "NO-SUCH-THING").startswith("unknown command")


@step()
def strings(r):
    assert r.set("s", "1") is True and r.set("s", "2", nx=True) is None
    assert r.set("s", "2", get=True) == "1" and r.incr("s", 40) == 42 and r.incrbyfloat("s", 0.5) == 42.5
    assert r.append("s", "!") == 5 and r.getrange("s", 0, 1) == "42" and r.strlen("s") == 5
    assert r.setrange("s", 5, "é") == 7 and r.get("s") == "42.5!é"
    assert r.mset({"s1": "a", "s2": "b"}) and r.mget("s1", "none", "s2") == ["a", None, "b"]
    assert r.msetnx({"s2": "c", "s3": "c"}) is False and r.exists("s3") == 0
    assert r.getex("s1", ex=100) == "a" and 0 < r.ttl("s1") <= 100 and r.persist("s1") is True and r.ttl("s1") == -1
    assert r.getdel("s1") == "a" and r.get("s1") is None
    assert r.setbit("bits", 7, 1) == 0 and r.bitcount("bits") == 1 and r.bitpos("bits", 1) == 7
    assert r.bitfield("field").set("u8", 0, 200).incrby("u8", 0, 100, "SAT").execute() == [0, 255]
    assert r.set("raw", bytes(range(256))) and redis.Redis(*HOSTS[0]).get("raw") == bytes(range(256))
    assert r.lcs("s2", "s2", len=True) == 1
    assert "not an integer" in raises(redis.ResponseError, r.incr, "s")
    assert raises(redis.ResponseError, r.lpush, "s", "x").startswith("WRONGTYPE")


@step()
def keys(r):
    r.mset({"k1": "1", "k2": "2"})
    assert r.exists("k1", "k2", "k3") == 2 and r.type("k1") == "string" and r.rename("k1", "k3")
    assert r.copy("k3", "k4") and r.renamenx("k3", "k2") is False and r.unlink("k3", "k4") == 2
    assert r.expire("k2", 100) and r.expire("k2", 50, gt=True) is False and r.pexpireat("k2", 9_999_999_999_000)
    assert r.expiretime("k2") == 9_999_999_999 and r.touch("k2") == 1
    held = redis.Redis(*HOSTS[0]).dump("k2")
    assert r.restore("k5", 0, held) and r.get("k5") == "2" and r.object("encoding", "k5") == "int"
    assert r.set("short", "1", px=30) and r.get("short") == "1"
    until(lambda: r.exists("short") == 0)


@step()
def hashes(r):
    assert r.hset("h", mapping={"a": "1", "b": "two", "c": "3.5"}) == 3 and r.hset("h", "a", "2") == 0
    assert r.hgetall("h") == {"a": "2", "b": "two", "c": "3.5"} and r.hmget("h", "a", "x") == ["2", None]
    assert r.hincrby("h", "a", 5) == 7 and r.hincrbyfloat("h", "c", 0.25) == 3.75 and r.hsetnx("h", "b", "x") == 0
    assert r.hlen("h") == 3 and sorted(r.hkeys("h")) == ["a", "b", "c"] and r.hexists("h", "b") and r.hstrlen("h", "b") == 3
    assert set(r.hrandfield("h", 5)) == {"a", "b", "c"} and r.hdel("h", "a", "x") == 1
    r.hset("wide", mapping={f"f{i}": str(i) for i in range(1000)})
    assert dict(r.hscan_iter("wide", count=50)) == {f"f{i}": str(i) for i in range(1000)}
    assert dict(r.hscan_iter("wide", match="f99*")) == {f: f[1:] for f in ["f99"] + [f"f99{i}" for i in range(10)]}


@step(newer_than_redis_7_0=True)
def fields_that_expire(r):
    r.hset("hx", mapping={"a": "1", "b": "2", "c": "3"})
    assert r.hexpire("hx", 100, "a", "none") == [1, -2] and 0 < r.httl("hx", "a")[0] <= 100 and r.httl("hx", "b") == [-1]
    assert r.hexpire("hx", 50, "a", gt=True) == [0] and r.hpersist("hx", "a") == [1]
    assert r.hpexpire("hx", 30, "a") == [1]
    until(lambda: not r.hexists("hx", "a"))
    assert r.hgetex("hx", "b", ex=100) == ["2"] and r.httl("hx", "b")[0] > 90
    assert r.hsetex("hx", "d", "4", px=60_000) == 1 and r.hpttl("hx", "d")[0] > 50_000
    assert r.hgetdel("hx", "b", "c") == ["2", "3"] and r.hgetall("hx") == {"d": "4"}


@step()
def lists(r):
    assert r.rpush("l", *"abcdef") == 6 and r.lpush("l", "0") == 7 and r.lrange("l", 0, -1) == list("0abcdef")
    assert r.lindex("l", -1) == "f" and r.lset("l", 0, "z") and r.linsert("l", "BEFORE", "b", "x") == 8
    assert r.lrem("l", 1, "x") == 1 and r.lpos("l", "c") == 3 and r.ltrim("l", 1, 4) and r.lrange("l", 0, -1) == list("abcd")
    assert r.lpop("l", 2) == ["a", "b"] and r.rpop("l") == "d" and r.lmove("l", "l2", "LEFT", "RIGHT") == "c"
    assert r.lmpop(2, "none", "l2", direction="LEFT", count=5) == ["l2", ["c"]]
    assert r.blpop(["l", "l2"], timeout=0.05) is None
    got = []
    waiting = threading.Thread(target=lambda: got.append(client(1).blpop(["first", "second"], timeout=20)))
    waiting.start()
    until(lambda: waiters(1) == 1)
    client(2).rpush("second", "here")
    waiting.join()
    assert [tuple(one) for one in got] == [("second", "here")], got
    waiting = threading.Thread(target=lambda: got.append(client(1).blmove("from", "to", 20, "RIGHT", "LEFT")))
    waiting.start()
    until(lambda: waiters(1) == 1)
    r.lpush("from", "moved")
    waiting.join()
    assert got[1] == "moved" and r.lrange("to", 0, -1) == ["moved"] and r.llen("from") == 0


@step()
def sets(r):
    assert r.sadd("a", 1, 2, 3) == 3 and r.sadd("b", 2, 3, 4) == 3 and r.scard("a") == 3
    assert r.smembers("a") == {"1", "2", "3"} and r.sismember("a", 9) == 0 and r.smismember("a", [1, 9]) == [1, 0]
    assert set(r.sinter("a", "b")) == {"2", "3"} and set(r.sunion("a", "b")) == {"1", "2", "3", "4"} and set(r.sdiff("a", "b")) == {"1"}
    assert r.sinterstore("c", "a", "b") == 2 and r.sintercard(2, ["a", "b"], limit=1) == 1 and r.smove("a", "b", "1")
    assert r.srem("b", 1, 99) == 1 and r.spop("c") in {"2", "3"} and r.srandmember("c", 5) == list(r.smembers("c"))
    r.sadd("many", *range(1000))
    assert set(r.sscan_iter("many", count=100)) == {str(i) for i in range(1000)}


@step()
def sorted_sets(r):
    assert r.zadd("z", {"one": 1, "two": 2, "three": 3}) == 3 and r.zadd("z", {"one": 5}, gt=True, ch=True) == 1
    assert r.zincrby("z", 0.5, "two") == 2.5 and r.zscore("z", "one") == 5.0 and r.zmscore("z", ["two", "x"]) == [2.5, None]
    assert [tuple(p) for p in r.zrange("z", 0, -1, withscores=True)] == [("two", 2.5), ("three", 3.0), ("one", 5.0)]
    assert r.zrange("z", "-inf", "(5", byscore=True, offset=0, num=1) == ["two"] and r.zrevrange("z", 0, 0) == ["one"]
    assert r.zrank("z", "one") == 2 and (not DICTUM or list(r.zrank("z", "one", withscore=True)) == [2, 5.0])
    assert r.zcount("z", 2, 4) == 2 and r.zadd("w", {"two": 1, "four": 4}) == 2
    assert r.zunionstore("u", {"z": 1, "w": 10}, aggregate="SUM") == 4 and r.zscore("u", "two") == 12.5
    assert r.zinter(["z", "w"]) == ["two"] and r.zdiff(["z", "w"]) == ["three", "one"]
    assert [tuple(p) for p in r.zpopmin("z", 1)] == [("two", 2.5)] and r.zremrangebyscore("z", 4, "+inf") == 1 and r.zcard("z") == 1
    assert r.zadd("lex", dict.fromkeys("abcd", 0)) == 4 and r.zrangebylex("lex", "[b", "(d") == ["b", "c"]
    got = []
    waiting = threading.Thread(target=lambda: got.append(client(1).bzpopmin(["late"], timeout=20)))
    waiting.start()
    until(lambda: waiters(1) == 1)
    r.zadd("late", {"m": 7})
    waiting.join()
    assert [tuple(one) for one in got] == [("late", "m", 7.0)], got
    r.zadd("zs", {f"m{i}": i for i in range(500)})
    assert dict(r.zscan_iter("zs")) == {f"m{i}": float(i) for i in range(500)}


@step()
def sketches_and_places(r):
    assert r.pfadd("p", *range(1000)) == 1 and 950 < r.pfcount("p") < 1050 and r.pfmerge("p2", "p") and r.pfcount("p2") == r.pfcount("p")
    assert r.geoadd("g", (13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania")) == 2
    assert abs(float(r.geodist("g", "Palermo", "Catania", "km")) - 166.2742) < 0.01
    assert r.geosearch("g", longitude=15, latitude=37, radius=200, unit="km", sort="ASC") == ["Catania", "Palermo"]
    r.rpush("unsorted", 3, 1, 2)
    assert r.sort("unsorted", desc=True) == ["3", "2", "1"]


@step()
def streams(r):
    first = r.xadd("x", {"n": "1"})
    more = [r.xadd("x", {"n": str(i)}) for i in range(2, 11)]
    assert r.xlen("x") == 10 and r.xrange("x", count=1) == [(first, {"n": "1"})] and r.xrevrange("x", count=1)[0][0] == more[-1]
    read = r.xread({"x": first}, count=2)
    assert entries(read, "x") == [(more[0], {"n": "2"}), (more[1], {"n": "3"})], read
    assert r.xgroup_create("x", "group", id="0") and "BUSYGROUP" in raises(redis.ResponseError, r.xgroup_create, "x", "group")
    taken = entries(r.xreadgroup("group", "alice", {"x": ">"}, count=4), "x")
    assert [fields["n"] for _, fields in taken] == ["1", "2", "3", "4"]
    assert entries(r.xreadgroup("group", "bob", {"x": ">"}, count=3), "x")[0][1] == {"n": "5"}
    assert r.xack("x", "group", taken[0][0], taken[1][0]) == 2
    pending = r.xpending("x", "group")
    assert pending["pending"] == 5 and {c["name"]: c["pending"] for c in pending["consumers"]} == {"alice": 2, "bob": 3}
    assert [p["message_id"] for p in r.xpending_range("x", "group", "-", "+", 10, "alice")] == [taken[2][0], taken[3][0]]
    assert [entry for entry, _ in r.xclaim("x", "group", "bob", 0, [taken[2][0]])] == [taken[2][0]]
    cursor, claimed, *_ = r.xautoclaim("x", "group", "carol", 0, count=2)
    assert len(claimed) == 2 and cursor != "0-0"
    group, = r.xinfo_groups("x")
    assert group["name"] == "group" and group["pending"] == 5 and group["consumers"] == 3
    assert len(r.xinfo_consumers("x", "group")) == 3 and r.xinfo_stream("x")["length"] == 10
    assert r.xdel("x", first) == 1 and r.xtrim("x", maxlen=4, approximate=False) == 5 and r.xlen("x") == 4
    assert r.xgroup_destroy("x", "group") and not r.xread({"x": "$"})


@step()
def pipelines(r):
    with r.pipeline(transaction=False) as pipe:
        for i in range(5000):
            pipe.incrby("counter", i)
        answers = pipe.execute()
    assert answers[-1] == sum(range(5000)) == int(r.get("counter"))
    with r.pipeline(transaction=False) as pipe:
        answers = pipe.set("a-string", "x").lpush("a-string", 1).get("a-string").execute(raise_on_error=False)
    assert answers[0] is True and isinstance(answers[1], redis.ResponseError) and answers[2] == "x"


@step()
def transactions(r):
    with r.pipeline() as pipe:
        assert pipe.set("t", 1).incr("t").hset("th", "f", "v").execute() == [True, 2, 1]
    with r.pipeline() as pipe:
        pipe.watch("t")
        client(1).set("t", 100)  # by another client, at another node
        pipe.multi()
        pipe.set("t", 1)
        raises(redis.WatchError, pipe.execute)
    assert r.get("t") == "100"

    def double(pipe):
        value = int(pipe.get("t"))
        pipe.multi()
        pipe.set("t", value * 2)

    assert r.transaction(double, "t") == [True] and r.get("t") == "200"
    workers = [threading.Thread(target=lambda n=n: [client(n).transaction(increment, "sum") for _ in range(20)])
               for n in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert r.get("sum") == "60", r.get("sum")


def increment(pipe):
    value = int(pipe.get("sum") or 0)
    pipe.multi()
    pipe.set("sum", value + 1)


@step()
def publish_and_subscribe(r):
    with client(1).pubsub() as listener:
        listener.subscribe("news")
        listener.psubscribe("news.*")
        assert [next_message(listener)["type"] for _ in range(2)] == ["subscribe", "psubscribe"]
        until(lambda: r.publish("news", "hello") == 1)
        message = next_message(listener)
        assert (message["type"], message["channel"], message["data"]) == ("message", "news", "hello"), message
        client(2).publish("news.sport", "1:0")
        message = next_message(listener)
        while message["data"] == "hello":
            message = next_message(listener)
        assert (message["type"], message["pattern"], message["channel"], message["data"]) == ("pmessage", "news.*", "news.sport", "1:0")
        assert "news" in r.pubsub_channels()
        listener.unsubscribe("news")
        assert next_message(listener)["type"] == "unsubscribe"
    with client(1).pubsub() as listener:
        listener.ssubscribe("shard")
        assert next_message(listener)["type"] == "ssubscribe"
        until(lambda: r.execute_command("SPUBLISH", "shard", "x") == 1)


@step()
def scans(r):
    with r.pipeline(transaction=False) as pipe:
        for i in range(2000):
            pipe.set(f"scan:{i}", i)
        pipe.execute()
    r.sadd("scan:set", 1)
    assert set(r.scan_iter(match="scan:1*", count=200)) == {f"scan:{i}" for i in range(2000) if str(i)[0] == "1"}
    assert list(r.scan_iter(match="scan:*", _type="set")) == ["scan:set"]
    assert r.dbsize() >= 2001 and r.flushdb() and r.dbsize() == 0


@step(newer_than_redis_7_0=True)
def documents(r):
    json = r.json()
    assert json.set("doc", "$", {"name": "Ada", "tags": ["x"], "age": 36, "deep": {"age": 1}})
    assert json.get("doc", "$.name") == ["Ada"] and sorted(json.get("doc", "$..age")) == [1, 36]
    assert flat(json.numincrby("doc", "$.age", 1)) == [37] and json.arrappend("doc", "$.tags", "y", {"z": 1}) == [2 + 1]
    assert json.arrlen("doc", "$.tags") == [3] and json.arrpop("doc", "$.tags", 0) == ['"x"']
    assert flat(json.type("doc", "$.tags")) == ["array"] and json.objkeys("doc", "$.deep") == [["age"]]
    assert json.merge("doc", "$", {"name": None, "new": True}) and json.get("doc", "$.new") == [True] and json.get("doc", "$.name") == []
    assert json.mset([("doc1", "$", {"v": 1}), ("doc2", "$", {"v": 2})]) and json.mget(["doc1", "doc2"], "$.v") == [[1], [2]]
    assert json.delete("doc", "$.deep") == 1 and json.toggle("doc", "$.new") == [0]
    assert json.get("none") is None


@step()
def reads_elsewhere(r):
    others = [client(1), client(2)]
    for i in range(200):
        r.set("seen", i)
        assert [other.get("seen") for other in others] == [str(i)] * 2


@step()
def asynchronous(r):
    async def work():
        host, port = HOSTS[0]
        async with redis.asyncio.Redis(host=host, port=port, protocol=PROTOCOL, decode_responses=True) as one:
            await asyncio.gather(*(one.incr("async") for _ in range(80)))
            assert await one.get("async") == "80"
            waiting = asyncio.create_task(one.blpop("async-list", timeout=20))
            await asyncio.sleep(0.05)
            await one.rpush("async-list", "v")
            assert tuple(await waiting) == ("async-list", "v")
            async with one.pipeline(transaction=True) as pipe:
                assert await pipe.set("a1", 1).get("a1").execute() == [True, "1"]

    asyncio.run(work())


@step(newer_than_redis_7_0=True)
def caching(r):
    if PROTOCOL != 3:
        return
    from redis.cache import CacheConfig

    cached = client(0, cache_config=CacheConfig())
    cached.set("cached", "1")
    assert cached.get("cached") == "1" and cached.get("cached") == "1" and cached.get_cache().size == 1
    client(2).set("cached", "2")
    until(lambda: cached.get("cached") == "2")


@step("scripts")
def scripts(r):
    assert r.eval("return {KEYS[1], ARGV[1], redis.call('get', KEYS[1])}", 1, "k", "a") == ["k", "a", None]
    sha = r.script_load("return redis.call('incrby', KEYS[1], ARGV[1])")
    assert r.script_exists(sha, "0" * 40) == [True, False] and r.evalsha(sha, 1, "n", 5) == 5
    add = r.register_script("local v = redis.call('get', KEYS[1]) or 0 redis.call('set', KEYS[1], v + ARGV[1]) return v + ARGV[1]")
    assert add(keys=["n"], args=[2]) == 7 and r.get("n") == "7"
    assert r.script_flush() and add(keys=["n"], args=[3]) == 10, "a script that is gone is loaded again"
    with r.pipeline() as pipe:
        add(keys=["n"], args=[1], client=pipe)
        pipe.get("n")
        assert pipe.execute() == [11, "11"]
    assert "boom" in raises(redis.ResponseError, r.eval, "return redis.error_reply('boom')", 0)
    assert r.eval_ro("return redis.call('get', KEYS[1])", 1, "n") == "11"


@step("scripts")
def locks(r):
    with r.lock("lock", timeout=10) as lock:
        assert lock.owned() and client(1).lock("lock").acquire(blocking=False) is False
        assert lock.extend(10) and r.pttl("lock") > 10_000
    assert r.exists("lock") == 0
    total = []

    def hold(n):
        for _ in range(20):
            with client(n).lock("mutex", timeout=10, sleep=0.005):
                value = int(r.get("held") or 0)
                r.set("held", value + 1)
                total.append(value)

    workers = [threading.Thread(target=hold, args=(n,)) for n in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert r.get("held") == "60" and sorted(total) == list(range(60))


@step("stream-waits")
def reads_that_wait(r):
    got = []
    waiting = threading.Thread(target=lambda: got.append(client(1).xread({"waited": "$"}, block=20_000)))
    waiting.start()
    until(lambda: waiters(1) == 1)
    r.xadd("waited", {"a": "1"})
    waiting.join()
    assert entries(got[0], "waited")[0][1] == {"a": "1"}, got
    r.xgroup_create("waited", "g", id="$")
    waiting = threading.Thread(target=lambda: got.append(client(2).xreadgroup("g", "c", {"waited": ">"}, block=20_000)))
    waiting.start()
    until(lambda: waiters(2) == 1)
    r.xadd("waited", {"a": "2"})
    waiting.join()
    assert entries(got[1], "waited")[0][1] == {"a": "2"}, got
    began = time.monotonic()
    assert not r.xread({"waited": "$"}, block=200) and time.monotonic() - began >= 0.19


def entries(read, name):
    """What XREAD returned for one stream, over either protocol."""
    if isinstance(read, dict):
        found = read[name]
        return [tuple(one) for one in (found[0] if found and isinstance(found[0], list) else found)]
    return dict((key, value) for key, value in read)[name]


def flat(answer):
    """A list without its inner lists: the protocols differ in how deep JSON's answers are."""
    return [one for item in answer for one in (flat(item) if isinstance(item, list) else [item])]


def waiters(node):
    """How many clients wait at that node."""
    return int(client(node).info("clients")["blocked_clients"])


def next_message(listener):
    """The next message of any kind."""
    return until(lambda: listener.get_message(timeout=1))


def until(condition, seconds=20):
    """Waits until the condition holds and returns what it says."""
    last = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < last, "waited in vain"
        time.sleep(0.01)
    return value


def main():
    """Plays one part, over both protocols."""
    global PROTOCOL
    for PROTOCOL in (2, 3):
        for function in STEPS[sys.argv[1]]:
            r = client()
            r.flushall()
            function(r)
            print(f"ok {function.__name__.replace('_', ' ')} (RESP{PROTOCOL})", flush=True)


main()
