"""Finds the change points of series with Apache Otava, and prints their indices as JSON.

Reads a JSON list of series from standard input.
"""

import json
import sys

from otava.analysis import compute_change_points

found = [compute_change_points(series)[0] for series in json.load(sys.stdin)]
print(json.dumps([[int(point.index) for point in points] for points in found]))
