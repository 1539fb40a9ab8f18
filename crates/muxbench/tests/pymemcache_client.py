"""Checks a memcached, or a server with its protocol, with pymemcache. Stops at the first failure.

Usage: pymemcache_client.py PORT
"""

import sys
import time

from memcache_checks import ROUNDS, THREADS, in_threads, run
from pymemcache import serde
from pymemcache.client.base import Client, PooledClient
from pymemcache.client.hash import HashClient
from pymemcache.client.retrying import RetryingClient
from pymemcache.exceptions import MemcacheClientError, MemcacheIllegalInputError, MemcacheServerError

SERVER = ("127.0.0.1", int(sys.argv[1]))


def raises(kind, call, *arguments, **more):
    try:
        answer = call(*arguments, **more)
    except kind:
        return True
    raise AssertionError(f"{call.__name__}{arguments!r:.80} gave {answer!r}, not {kind.__name__}")


def connect(**more):
    return Client(SERVER, timeout=60, connect_timeout=60, no_delay=True, **{"default_noreply": False, **more})


def storing(client):
    assert client.set("k", "one") is True and client.get("k") == b"one"
    assert client.get("none") is None and client.get("none", default=b"d") == b"d"
    assert client.add("k", "two") is False and client.add("new", "two") is True
    assert client.replace("absent", "x") is False and client.replace("k", "three") is True
    assert client.append("k", "-b") is True and client.prepend("k", "a-") is True
    assert client.get("k") == b"a-three-b"
    assert client.append("absent", "x") is False and client.prepend("absent", "x") is False
    assert client.set("empty", b"") and client.get("empty") == b""
    assert client.set("lines", b"\r\nEND\r\n\0") and client.get("lines") == b"\r\nEND\r\n\0"
    assert client.delete("new") is True and client.delete("new") is False and client.get("new") is None


def comparing(client):
    client.set("c", "1")
    value, number = client.gets("c")
    assert value == b"1" and client.cas("c", "2", number) is True
    assert client.cas("c", "3", number) is False and client.cas("absent", "3", number) is None
    assert client.get("c") == b"2" and client.gets("absent") == (None, None)
    client.set("d", "4")
    both = client.gets_many(["c", "d", "absent"])
    assert {key: value for key, (value, _) in both.items()} == {"c": b"2", "d": b"4"}
    assert all(client.cas(key, "5", number) for key, (_, number) in both.items())


def many(client):
    values = {f"many-{at}": str(at).encode() * at for at in range(300)}
    assert client.set_many(values) == []
    assert client.get_many([*values, "absent"]) == values
    assert client.delete_many(list(values)[:150]) is True
    assert client.get_many(values) == dict(list(values.items())[150:])
    assert client.get_many([]) == {} and client.set_many({}) == []


def counting(client):
    client.set("n", "7")
    assert (client.incr("n", 5), client.decr("n", 2), client.decr("n", 100)) == (12, 10, 0)
    assert client.incr("absent", 1) is None and client.decr("absent", 1) is None
    client.set("n", str(2**64 - 1))
    assert client.incr("n", 1) == 0
    client.set("n", "word")
    raises(MemcacheClientError, client.incr, "n", 1)
    assert client.get("n") == b"word", "the connection works after an error"


def silent(client):
    """The server executes commands without responses in order."""
    quiet = connect(default_noreply=True)
    assert quiet.set("q", "1") is True and quiet.append("q", "2") is True and quiet.prepend("q", "0") is True
    assert quiet.add("q", "no") is True and quiet.replace("q", "10") is True
    assert quiet.incr("q", 5, noreply=True) is None and quiet.decr("q", 1, noreply=True) is None
    assert quiet.touch("q", 100, noreply=True) is True
    _, number = quiet.gets("q")
    assert quiet.cas("q", "20", number, noreply=True) is True and quiet.cas("q", "30", number, noreply=True) is True
    assert quiet.get("q") == b"20"
    assert quiet.set_many({"q1": "1", "q2": "2"}) == [] and quiet.delete_many(["q1"]) is True
    assert quiet.get_many(["q1", "q2"]) == {"q2": b"2"}
    assert quiet.delete("q") is True and quiet.get("q") is None and client.get("q") is None
    quiet.quit()


def serialised(_):
    for form in (serde.pickle_serde, serde.PickleSerde(pickle_version=2), serde.CompressedSerde(min_compress_len=100)):
        client = connect(serde=form, key_prefix=b"form:")
        values = {"text": "grün", "bytes": b"\0\xff", "int": -3, "long": 2**80, "dict": {"a": [1.5, None]}, "big": "x" * 5000}
        for key, value in values.items():
            assert client.set(key, value) and client.get(key) == value, key
        assert client.get_many(values) == values
        assert client.get_many(["text", "absent"]) == {"text": "grün"}
        client.close()
    plain = connect(allow_unicode_keys=True, encoding="utf8")
    assert plain.get("form:int") == b"-3", "the prefix is part of the key"
    assert plain.set("schlüssel", "wert") and plain.get("schlüssel") == b"wert"
    plain.close()


def large(client):
    for size in (4_095, 65_535, 65_536, 300_000, 1_000_000):
        value = bytes(at * at % 251 for at in range(251)) * (size // 251) + b"e" * (size % 251)
        assert client.set("large", value) and client.get("large") == value, size
    assert client.set_many({f"large-{at}": value for at in range(5)}) == []
    assert client.get_many([f"large-{at}" for at in range(5)]) == {f"large-{at}": value for at in range(5)}
    raises(MemcacheServerError, client.set, "large", b"x" * (1 << 20))
    assert client.get("large") is None, "the server has neither the oversized value nor the old value"
    # The client library rejects these keys.
    raises(MemcacheIllegalInputError, client.set, "k" * 251, "x")
    raises(MemcacheIllegalInputError, client.get, "with space")
    raises(MemcacheIllegalInputError, client.get, "grün")
    assert client.set("k" * 250, "x") and client.get("k" * 250) == b"x"


def expiring(client):
    # An item may expire up to a second early, so items that must last get more time.
    assert client.set("short", "x", expire=1) and client.set("kept", "x", expire=100)
    assert client.set("touched", "x", expire=100) and client.touch("touched", 1) is True
    assert client.set("got", "x", expire=100)
    gat = client.raw_command(b"gat 1 got absent", end_tokens=b"END\r\n")
    assert gat == b"VALUE got 0 1\r\nx\r\n", gat
    assert client.touch("absent", 100) is False
    assert client.set("gone", "x", expire=-1) and client.get("gone") is None
    assert client.set("calendar", "x", expire=int(time.time()) + 100) and client.get("calendar") == b"x"
    time.sleep(2.1)
    assert client.get_many(["short", "kept", "touched", "got", "gone"]) == {"kept": b"x"}


def telling(client):
    assert client.version().startswith(b"1.6.18")
    before = client.stats()
    client.set("told", "x")
    client.get("told")
    client.get("absent")
    after = client.stats()
    assert all(after[key] - before[key] == 1 for key in (b"cmd_set", b"get_hits", b"get_misses")), (before, after)
    assert after[b"limit_maxbytes"] == 64 << 20 and after[b"curr_items"] > 0
    assert client.raw_command(b"get told", end_tokens=b"END\r\n").startswith(b"VALUE told 0 1\r\nx")


def pooled(_):
    """Threads change the same items, and no change is lost."""
    pool = PooledClient(SERVER, max_pool_size=THREADS, timeout=60, connect_timeout=60, default_noreply=False)
    pool.set_many({"sum": "0", "cas": "0"})

    def add():
        pool.incr("sum", 3)
        while True:
            value, number = pool.gets("cas")
            if pool.cas("cas", str(int(value) + 1), number):
                break

    in_threads(lambda: add)
    assert pool.get("sum") == str(3 * THREADS * ROUNDS).encode(), pool.get("sum")
    assert pool.get("cas") == str(THREADS * ROUNDS).encode(), pool.get("cas")
    pool.close()


def hashed(_):
    # Use one server under two names.
    client = HashClient([SERVER, ("localhost", SERVER[1])], timeout=60, connect_timeout=60, default_noreply=False)
    values = {f"hashed-{at}": str(at).encode() for at in range(50)}
    assert client.set_many(values) == [] and client.get_many(values) == values
    assert client.incr("hashed-7", 1) == 8 and client.delete("hashed-7") and client.get("hashed-7") is None
    client.close()
    retrying = RetryingClient(connect(), attempts=2)
    assert retrying.set("r", "1") and retrying.get("r") == b"1"
    retrying.quit()


def flushing(client):
    client.set_many({"f1": "1", "f2": "2"})
    assert client.flush_all() is True and client.get_many(["f1", "f2", "k"]) == {}
    client.set("f1", "1")
    assert client.flush_all(noreply=True) is True and client.get("f1") is None
    assert client.set("f1", "2") and client.get("f1") == b"2"
    client.quit()
    assert client.get("f1") == b"2", "the client connects again after quit"
    client.close()


client = connect()
run(client, storing, comparing, many, counting, silent, serialised, large, expiring, telling, pooled, hashed, flushing)
