"""Checks the meta commands of a memcached, or of a server with its protocol, with meta-memcache. Stops at the first failure.

Usage: meta_client.py PORT
"""

import sys
import threading
import time

from memcache_checks import ROUNDS, THREADS, in_threads, run
from meta_memcache import CacheClient, Key, ServerAddress, SetMode, connection_pool_factory_builder
from meta_memcache.configuration import LeasePolicy, RecachePolicy, StalePolicy
from meta_memcache.protocol import Miss, RequestFlags, Value


def connect():
    return CacheClient.cache_client_from_servers(
        servers=[ServerAddress(host="127.0.0.1", port=int(sys.argv[1]))],
        connection_pool_factory_fn=connection_pool_factory_builder(connection_timeout=60, recv_timeout=60),
    )


def storing(client):
    assert client.set("k", "one", ttl=100) and client.get("k") == "one" and client.get("none") is None
    assert not client.set("k", "two", ttl=100, set_mode=SetMode.ADD) and client.set("new", "two", ttl=100, set_mode=SetMode.ADD)
    assert not client.set("absent", "x", ttl=100, set_mode=SetMode.REPLACE)
    assert client.set("k", "three", ttl=100, set_mode=SetMode.REPLACE) and client.get("k") == "three"
    assert client.set("b", b"b", ttl=100) and client.set("b", b"c", ttl=100, set_mode=SetMode.APPEND)
    assert client.set("b", b"a", ttl=100, set_mode=SetMode.PREPEND) and client.get("b") == b"abc"
    assert not client.set("absent", b"x", ttl=100, set_mode=SetMode.APPEND)
    assert client.refill("filled", 1, ttl=100) and not client.refill("filled", 2, ttl=100) and client.get("filled") == 1
    assert client.delete("new") and not client.delete("new") and client.invalidate("new") and client.get("new") is None


def values_of_all_kinds(client):
    for value in (b"", b"\r\nEN\r\n\0", "grün", -3, 2**80, {"a": [1.5, None]}, "x" * 900_000):
        assert client.set("value", value, ttl=100) and client.get("value") == value, repr(value)[:40]


def keys_of_all_kinds(client):
    keys = [Key("schlüssel"), Key("🍺"), Key("k" * 400), Key("with space"), Key("plain")]
    for number, key in enumerate(keys):
        assert client.set(key, number, ttl=100) and client.get(key) == number, key
    assert client.multi_get(keys) == {key: number for number, key in enumerate(keys)}
    assert client.delta_initialize_and_get(Key("zähler"), delta=1, initial_value=5, initial_ttl=100) == 5
    assert client.delete(keys[0]) and client.get(keys[0]) is None


def comparing(client):
    number = client.set_cas("c", "1", ttl=100)
    assert number and client.get_cas("c") == ("1", number)
    assert client.set("c", "2", ttl=100, cas_token=number) and not client.set("c", "3", ttl=100, cas_token=number)
    assert not client.set("absent", "x", ttl=100, cas_token=number)
    value, later = client.get_cas("c")
    assert value == "2" and later > number
    assert not client.delete("c", cas_token=number) and client.delete("c", cas_token=later)


def many(client):
    values = {Key(f"many-{at}"): at for at in range(300)}
    for key, value in values.items():
        assert client.set(key, value, ttl=100, no_reply=True)
    assert client.multi_get([*values, Key("absent")]) == {**values, Key("absent"): None}
    numbers = client.multi_get_cas(list(values))
    assert {key: value for key, (value, _) in numbers.items()} == values
    assert len({number for _, number in numbers.values()}) == len(values)


def counting(client):
    assert not client.delta("n", 1) and client.delta_and_get("n", 1) is None
    assert client.delta_initialize("n", delta=1, initial_value=7, initial_ttl=100) and client.delta_and_get("n", 5) == 12
    assert client.delta("n", -2, refresh_ttl=50) and client.delta_and_get("n", -100) == 0
    assert client.delta_initialize_and_get("n", delta=3, initial_value=9, initial_ttl=100) == 3
    assert client.delta("n", 4, no_reply=True) and client.delta_and_get("n", 0) == 7


def leasing(client):
    """One client must compute a missing value, and another client waits for the value."""
    policy = LeasePolicy(ttl=30, miss_retries=200, miss_retry_wait=0.01, miss_max_retry_wait=0.05)
    other, answers = connect(), []
    assert client.get_or_lease("leased", lease_policy=policy) is None, "the first client gets the lease"
    waiting = threading.Thread(target=lambda: answers.append(other.get_or_lease("leased", lease_policy=policy)))
    waiting.start()
    time.sleep(0.1)
    assert client.set("leased", "computed", ttl=100)
    waiting.join()
    assert answers == ["computed"], answers


def recaching(client):
    """The first get of an item that expires soon is a miss; later gets return the item."""
    client.set("old", "x", ttl=20)
    assert [client.get("old", recache_policy=RecachePolicy(ttl=30)) for _ in range(3)] == [None, "x", "x"]
    client.set("old", "y", ttl=100)
    assert client.get("old", recache_policy=RecachePolicy(ttl=30)) == "y"


def staying_stale(client):
    """A stale value is served until it is replaced."""
    policy = StalePolicy(mark_stale_on_deletion_ttl=50)
    number = client.set_cas("s", "x", ttl=100)
    assert client.delete("s", stale_policy=policy)
    assert [client.get("s") for _ in range(3)] == [None, "x", "x"]
    found = client.meta_get(Key("s"), RequestFlags(return_value=True, return_ttl=True, return_cas_token=True, no_update_lru=True))
    assert isinstance(found, Value) and found.flags.stale and found.flags.ttl <= 50 and found.flags.cas_token > number
    # A value that was computed before the deletion is stored, but is stale too.
    assert client.set("s", "late", ttl=100, cas_token=number, stale_policy=StalePolicy(mark_stale_on_cas_mismatch=True))
    found = client.meta_get(Key("s"), RequestFlags(return_value=True))
    assert found.value == "late" and found.flags.stale
    assert client.set("s", "new", ttl=100) and client.get("s") == "new"


def telling(client):
    client.set("told", "x", ttl=100)
    asked = RequestFlags(return_value=True, return_ttl=True, return_size=True, return_fetched=True, return_last_access=True)
    first, second = (client.meta_get(Key("told"), asked) for _ in range(2))
    assert (first.flags.fetched, second.flags.fetched) == (False, True)
    assert 98 <= first.flags.ttl <= 100 and first.flags.size == 1 and first.flags.last_access <= 2
    assert isinstance(client.meta_get(Key("absent"), asked), Miss)
    assert client.touch("told", ttl=1000) and not client.touch("absent", ttl=1000)
    assert client.meta_get(Key("told"), asked).flags.ttl > 900


def expiring(client):
    client.set("short", "x", ttl=1)
    client.set("touched", "x", ttl=100)
    client.set("kept", "x", ttl=100)
    client.touch("touched", ttl=1)
    time.sleep(2.1)
    assert [client.get(key) for key in ("short", "touched", "kept")] == [None, None, "x"]


def pooled(client):
    """Threads change the same items, and no change is lost."""
    client.set("cas", 0, ttl=100)
    client.delta_initialize("sum", delta=0, initial_value=0, initial_ttl=100)

    def work():
        own = connect()

        def add():
            own.delta("sum", 3)
            while True:
                value, number = own.get_cas("cas")
                if own.set("cas", value + 1, ttl=100, cas_token=number):
                    break

        return add

    in_threads(work)
    assert client.delta_and_get("sum", 0) == 3 * THREADS * ROUNDS and client.get("cas") == THREADS * ROUNDS


client = connect()
run(
    client, storing, values_of_all_kinds, keys_of_all_kinds, comparing, many, counting, leasing, recaching, staying_stale,
    telling, expiring, pooled,
)
