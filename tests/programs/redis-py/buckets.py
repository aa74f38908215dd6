"""A session of redis-py: how a client chooses a database or a bucket, and what becomes of a wrong choice."""

import os

import redis

HOSTS = [(host, int(port)) for host, port in (one.rsplit(":", 1) for one in os.environ["DICTUM_HOSTS"].split(","))]
DICTUM = os.environ["DICTUM_SERVER"] == "dictum"
STEPS = []
PROTOCOL = 2


def step(function):
    """Notes a function as a step of the session."""
    STEPS.append(function)
    return function


def client(node=0, **options):
    """A client of one node."""
    host, port = HOSTS[node]
    return redis.Redis(host=host, port=port, protocol=PROTOCOL, decode_responses=True, **options)


def by_url(before="", after="", node=0):
    """A client by a URL: `before` stands in front of the host, `after` behind the port."""
    host, port = HOSTS[node]
    return redis.Redis.from_url(f"redis://{before}{host}:{port}{after}", protocol=PROTOCOL, decode_responses=True)


def refused(how, call, *words):
    """The call must raise an error that says so."""
    try:
        answer = call(*words)
    except redis.RedisError as problem:
        assert how in str(problem), problem
        return
    raise AssertionError(f"{call} answered {answer!r}")


@step
def database_by_number(r):
    five, same = client(db=5), by_url(after="/5", node=1)
    assert five.set("k", "five") and same.get("k") == "five"
    assert r.get("k") is None and r.set("k", "zero") and same.get("k") == "five"
    assert str(five.client_info()["db"]) == "5"


@step
def bucket_by_name(r):
    if not DICTUM:
        return
    r.execute_command("DICTUM.BUCKET", "CREATE", "users")
    # SELECT at another node waits until that node knows the bucket; AUTH does not, and is refused there for some milliseconds.
    client(1, single_connection_client=True).execute_command("SELECT", "users")
    users, same = client(username="users", password="any"), by_url("users:any@", node=1)
    assert users.set("k", "users") and same.get("k") == "users"
    assert r.get("k") is None and r.set("k", "zero") and same.get("k") == "users"
    # A name alone is sent, with an empty password.
    assert by_url("users@").get("k") == client(username="users").get("k") == "users"
    r.execute_command("DICTUM.BUCKET", "DROP", "users", "CONFIRM")


@step
def wrong_number(r):
    refused("DB index", client(db=16).set, "k", "wrong")
    refused("DB index", by_url(after="/16").set, "k", "wrong")
    assert r.get("k") is None


@step
def wrong_name(r):
    refused("invalid username-password", client(username="nobody", password="any").set, "k", "wrong")
    refused("invalid username-password", by_url("nobody:any@").set, "k", "wrong")
    refused("invalid username-password", by_url("nobody@").set, "k", "wrong")
    assert r.get("k") is None


@step
def passed_over_by_the_library(r):
    # The path is no number, and the library says nothing: the client is in database 0.
    assert by_url(after="/users").set("k", "zero") and r.get("k") == "zero"


@step
def no_database_after_a_wrong_choice(_):
    # A refused AUTH is no such case: redis-py closes the connection by itself.
    for wrong in (("SELECT", "16"), ("SELECT", "nobody")) if DICTUM else ():
        one = client(single_connection_client=True)
        refused("DB index" if wrong[1] == "16" else "no bucket", one.execute_command, *wrong)
        refused("no database is selected", one.set, "k", "wrong")
        refused("no database is selected", one.get, "k")
        assert one.ping() and one.execute_command("SELECT", "0") and one.get("k") is None
        # It has a database now, and keeps it.
        refused("", one.execute_command, *wrong)
        assert one.set("k", "zero") and one.delete("k") == 1


@step
def authenticating_again(r):
    five = client(single_connection_client=True)
    assert five.execute_command("SELECT", "5") and five.set("k", "five")
    assert five.execute_command("AUTH", "default", "any")
    assert five.get("k") == "five" and r.get("k") is None
    if DICTUM:
        assert str(five.client_info()["db"]) == "5"
        r.execute_command("DICTUM.BUCKET", "CREATE", "users")
        users = client(username="users", password="any", single_connection_client=True)
        assert users.execute_command("SELECT", "5") and users.execute_command("AUTH", "users", "any")
        assert users.get("k") == "five"
        # Another name is another choice.
        assert users.execute_command("AUTH", "default", "any") and users.get("k") is None
        r.execute_command("DICTUM.BUCKET", "DROP", "users", "CONFIRM")


def main():
    """Plays all steps, over both protocols."""
    global PROTOCOL
    for PROTOCOL in (2, 3):
        for function in STEPS:
            with client() as r:
                r.flushall()
                function(r)
            print(f"ok {function.__name__.replace('_', ' ')} (RESP{PROTOCOL})", flush=True)


main()
