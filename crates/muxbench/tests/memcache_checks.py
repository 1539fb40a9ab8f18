"""Helpers of the scripts that check a memcached with public client libraries."""

import threading

THREADS, ROUNDS = 4, 50


def in_threads(work):
    """Starts THREADS threads. Each calls `work()` once, and the returned function ROUNDS times. All calls must succeed."""
    failures = []

    def run():
        try:
            one_round = work()
            for _ in range(ROUNDS):
                one_round()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def run(client, *parts):
    """Runs each part with the client, and prints its name if it passes."""
    for part in parts:
        part(client)
        print(part.__name__, "passed")
