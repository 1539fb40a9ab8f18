"""Reads a stored run with the Python package, and prints what the frames hold as JSON. Then damages the run.

Usage: read_frames.py RUN
"""

import json
import pathlib
import sqlite3
import sys

import muxbench

folder = pathlib.Path(sys.argv[1])
run = muxbench.read(folder)
trials = run.trials
found = {
    "name": run.header["name"],
    "rows": trials.height,
    "p90_ns": [value or 0 for value in trials["load.service.distribution.p90_ns"].to_list()],
    "samples": run.samples(0).select("send_delay_ns", "service_ns", "response_ns").rows(),
    "host": run.header["host"],
    "load": run.records[0]["load"],
}
with sqlite3.connect(folder / "muxbench.db") as database:
    database.execute("update trials set record = replace(record, '1', '2') where trial = 0")
try:
    muxbench.read(folder, "polars")
    found["damaged"] = None
except ValueError as error:
    found["damaged"] = str(error)[:19]
print(json.dumps(found))
