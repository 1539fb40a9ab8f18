"""Reads a run's samples and histograms with public tools, as a user would, and prints the results as JSON.

Usage: read_results.py RUN OPENMETRICS
"""

import json
import pathlib
import sys

import duckdb
import polars
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from prometheus_client.openmetrics.parser import text_string_to_metric_families

# The end and the start of each measured time.
TIMES = {
    "send_delay": ("sent_ns", "planned_ns"),
    "service": ("complete_ns", "sent_ns"),
    "response": ("complete_ns", "planned_ns"),
}


def with_duckdb(path):
    times = {}
    for name, (end, begin) in TIMES.items():
        query = f"select count({end}), quantile_disc({end} - {begin}, 0.5), max({end} - {begin}) from read_parquet(?)"
        count, p50_ns, max_ns = duckdb.execute(query, [str(path)]).fetchone()
        times[name] = {"count": count, "p50_ns": p50_ns, "max_ns": max_ns}
    query = "select decode(value) from parquet_kv_metadata(?) where decode(key) = 'trial'"
    (parameters,) = duckdb.execute(query, [str(path)]).fetchone()
    return {"times": times, "parameters": json.loads(parameters)}


def with_polars(path):
    frame = polars.read_parquet(path)
    times = {}
    for name, (end, begin) in TIMES.items():
        values = (frame[end] - frame[begin]).drop_nulls()
        p50_ns = values.quantile(0.5, interpolation="equiprobable")
        times[name] = {"count": len(values), "p50_ns": p50_ns, "max_ns": values.max()}
    return {"times": times, "rows": frame.height}


def with_hdrhistogram(path):
    reader = HistogramLogReader(str(path), HdrHistogram(1, 3_600_000_000_000, 3))
    times = {}
    while (histogram := reader.get_next_interval_histogram()) is not None:
        times[histogram.get_tag()] = {
            "count": histogram.get_total_count(),
            "p50_ns": histogram.get_value_at_percentile(50),
            "max_ns": histogram.get_max_value(),
            "start_ms": histogram.get_start_time_stamp(),
            "window_ms": histogram.get_end_time_stamp() - histogram.get_start_time_stamp(),
        }
    return {"times": times}


def with_prometheus(path):
    """Returns the medians of service time in seconds by trial, and the type of each family. The parser is strict."""
    families = {family.name: family for family in text_string_to_metric_families(path.read_text())}
    service = families["muxbench_service_time_seconds"].samples
    return {
        "p50_s": {it.labels["trial"]: it.value for it in service if it.labels.get("quantile") == "0.5"},
        "types": {name: family.type for name, family in families.items()},
    }


run = pathlib.Path(sys.argv[1])
print(json.dumps({
    "duckdb": {path.stem: with_duckdb(path) for path in run.glob("samples/*.parquet")},
    "polars": {path.stem: with_polars(path) for path in run.glob("samples/*.parquet")},
    "prometheus": with_prometheus(pathlib.Path(sys.argv[2])),
    "hdrhistogram": {path.stem: with_hdrhistogram(path) for path in run.glob("histograms/*.hlog")},
}))
