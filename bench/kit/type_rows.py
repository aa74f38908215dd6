"""The rows of bench/types: loads of redis-benchmark, what is there before them, and what Dictum must reach."""

from dataclasses import dataclass

# Fields, members and elements are drawn from so many; redis-benchmark puts a number of 12 digits in place of this word.
NUMBERS = 100_000
NUMBER = "__rand_int__"
VALUE = "x" * 256
# A member is part of a key of the store: as long as an element of a hash, which is a number and a value.
MEMBER = f"{NUMBER}{'x' * 244}"


@dataclass(frozen=True)
class Load:
    """What one run does: redis-benchmark its own test of that name, or these words; `drive packets` operations of these
    commands; or `drive publish` messages to so many subscribers."""

    requests: int
    test: str | None = None
    words: tuple = ()
    commands: tuple = ()
    subscribers: int = 0


@dataclass(frozen=True)
class Row:
    """One kind of work. Several loads run one after the other, and are one figure: all operations by all time."""

    name: str
    title: str
    target: float
    loads: tuple
    # "redis": compared with the same work of Redis alone, AOF always; else with the row of that name, of Dictum itself.
    against: str
    # Commands that must have run before, by a name that is run once: see `FILLS`.
    fill: str | None = None


def own(name, *words, fill=None):
    """A row of writes that are compared with SET."""
    title = " + ".join(" ".join(w[:2]).replace(NUMBER, "…") for w in words)
    return Row(name, f"{title}, 256 B", 0.6, tuple(Load(150_000, words=w) for w in words), "set", fill)


def default(test, target, requests=1_000_000):
    """A row that is a default test of redis-benchmark: long enough that what it causes in the background is part of it."""
    return Row(f"rb-{test}", f"redis-benchmark -t {test}", target, (Load(requests, test=test),), "redis")


def read(name, title, words, requests, fill):
    """A row of one reading command."""
    return Row(name, title, 0.5, (Load(requests, words=words),), "redis", fill)


SET = Row("set", "SET key:…, 256 B", 1.0, (Load(150_000, words=("SET", f"key:{NUMBER}", VALUE)),), "set")
KEYS = (f"key:{NUMBER}", f"count:{NUMBER}")
MULTI = Row("multi", "MULTI, SET of 256 B, INCR, EXEC", 1.0,
            (Load(80_000, commands=(("MULTI",), ("SET", KEYS[0], VALUE), ("INCR", KEYS[1]), ("EXEC",))),), "multi")
SCRIPT = "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('INCR', KEYS[2])"
EVAL = Row("eval", "EVAL of SET of 256 B and INCR", 0.7,
           (Load(80_000, commands=(("EVAL", SCRIPT, "2", *KEYS, VALUE),)),), "multi")
PUBLISH = Row("publish", "PUBLISH of 128 B to 10 on all nodes", 0.5, (Load(100_000, subscribers=10),), "redis")

ROWS = [
    SET,
    own("hset", ("HSET", "bench:hash", NUMBER, VALUE)),
    own("hset-many", ("HSET", f"bench:hash:{NUMBER}", "field", VALUE)),
    own("sadd", ("SADD", "bench:set", MEMBER)),
    own("zadd", ("ZADD", "bench:sorted", NUMBER, MEMBER)),
    own("lpush-rpop", ("LPUSH", "bench:list", VALUE), ("RPOP", "bench:list")),
    own("xadd", ("XADD", "bench:stream", "*", "field", VALUE)),
    own("json-set", ("JSON.SET", f"bench:json:{NUMBER}", "$.a", f'"{VALUE}"'), fill="json"),
    default("ping_inline", 0.6),
    default("ping_mbulk", 0.6),
    default("set", 0.5),
    default("get", 0.6),
    default("incr", 0.5),
    default("lpush", 0.5),
    default("rpush", 0.5),
    default("lpop", 0.5),
    default("rpop", 0.5),
    default("sadd", 0.5),
    default("hset", 0.5),
    default("spop", 0.5),
    default("zadd", 0.5),
    default("zpopmin", 0.5),
    default("lrange_100", 0.6, 200_000),
    default("lrange_300", 0.6, 60_000),
    default("lrange_500", 0.6, 40_000),
    default("lrange_600", 0.6, 30_000),
    default("mset", 0.5, 100_000),
    read("zrange-rank", "ZRANGE of 100 by rank, in 1 million", ("ZRANGE", "bench:million", "500000", "500099"), 200_000,
         "million"),
    read("zrange-score", "ZRANGE of 100 by score, in 1 million",
         ("ZRANGE", "bench:million", f"{NUMBER}0", "+inf", "BYSCORE", "LIMIT", "0", "100"), 200_000, "million"),
    read("hgetall", "HGETALL of 1,000 fields", ("HGETALL", "bench:thousand"), 20_000, "thousand"),
    read("lrange", "LRANGE of 600, in 600", ("LRANGE", "bench:six-hundred", "0", "599"), 30_000, "six-hundred"),
    MULTI,
    EVAL,
    PUBLISH,
]
BY_NAME = {row.name: row for row in ROWS}


def in_parts(command, groups, size):
    """One command for each `size` of what follows it."""
    for begin in range(0, len(groups), size):
        yield [*command, *(word for group in groups[begin:begin + size] for word in group)]


DOCUMENT = '{"a":1,"b":[1,2,3],"c":{"d":"e"}}'


# What must be there before a row, as commands.
FILLS = {
    "million": lambda: in_parts(["ZADD", "bench:million"], [(str(i), f"member:{i:012}") for i in range(1_000_000)], 500),
    "thousand": lambda: in_parts(["HSET", "bench:thousand"], [(f"field:{i}", "x" * 16) for i in range(1000)], 500),
    "six-hundred": lambda: in_parts(["RPUSH", "bench:six-hundred"], [("x" * 16,)] * 600, 300),
    "json": lambda: in_parts(["JSON.MSET"], [(f"bench:json:{i:012}", "$", DOCUMENT) for i in range(NUMBERS)], 500),
}
