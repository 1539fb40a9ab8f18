"""Computes the percentiles of a run's tables from its stored samples, and compares them with those of its report.

Usage: check_figures.py RUN REPORT, where REPORT is what `muxbench report RUN --json` prints. Prints the number of compared figures.
"""

import json
import pathlib
import sys

import polars

run, report = pathlib.Path(sys.argv[1]), json.load(open(sys.argv[2], encoding="utf-8"))
TIMES = {"service": ("complete_ns", "sent_ns"), "response": ("complete_ns", "planned_ns")}
QUANTILES = {"p1_ns": 0.01, "p25_ns": 0.25, "p50_ns": 0.5, "p75_ns": 0.75, "p90_ns": 0.9, "p95_ns": 0.95, "p99_ns": 0.99}
compared = 0
for comparison in report["summary"]["comparisons"]:
    for row in comparison["rows"]:
        files = [run / "samples" / f"{trial:04}.parquet" for trial in row["trials"]]
        if not files or row["service"] is None:
            continue
        samples = polars.concat(polars.read_parquet(file) for file in files).filter(polars.col("counted") == 1)
        # Repeats in which the client was late do not count for the tail.
        is_late = any(row["late"].get(name, 0) for name in ("count", "stalled", "monitored"))
        for time, (end, start) in TIMES.items():
            values = (samples[end] - samples[start]).drop_nulls()
            assert row[time]["count"] == len(values), f"{row['label']}: {row[time]['count']} requests, {len(values)} samples"
            for name, q in QUANTILES.items():
                if is_late and q > 0.75:
                    continue
                shown, found = row[time][name], values.quantile(q, interpolation="equiprobable")
                assert abs(shown - found) <= 0.001 * found + 1, f"{row['label']}: {time} {name}: {shown} ns, {found} ns by samples"
                compared += 1
print(compared)
