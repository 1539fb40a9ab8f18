"""Results of muxbench as data frames of pandas or polars.

    run = muxbench.read("results/mine")
    run.trials      # a row for each finished trial
    run.samples(0)  # a row for each request of trial 0
"""

import importlib
import json
import pathlib
import sqlite3
import zlib

__all__ = ["Run", "read"]

# The times of a request: its name, and the columns of its end and its start.
_TIMES = {
    "send_delay_ns": ("sent_ns", "planned_ns"),
    "service_ns": ("complete_ns", "sent_ns"),
    "response_ns": ("complete_ns", "planned_ns"),
}


def read(folder, library=None):
    """Reads the run in a folder. `library` is "pandas" or "polars"; by default, the first that is installed."""
    return Run(folder, library)


class Run:
    """A stored run. `header` is run.json, and `records` has everything that is stored of each finished trial."""

    def __init__(self, folder, library=None):
        self.folder = pathlib.Path(folder)
        self._library = _data_frames(library)
        self.header = json.loads((self.folder / "run.json").read_text(encoding="utf-8"))
        self._rows = list(_rows(self.folder / "muxbench.db"))
        self.records = [json.loads(row["record"]) for row in self._rows]

    def __repr__(self):
        return f"<muxbench run {self.folder}: {len(self._rows)} trials>"

    @property
    def trials(self):
        """A data frame with a row for each finished trial: the columns of the database, then each number, text and truth value
        of the record, with a path such as `load.service.distribution.p90_ns` as its name."""
        rows = []
        for row, record in zip(self._rows, self.records):
            rows.append({**{name: row[name] for name in row if name != "record"}, **_flat(record)})
        names = dict.fromkeys(name for row in rows for name in row)
        return self._library.DataFrame({name: _alike([row.get(name) for row in rows]) for name in names})

    def samples(self, trial):
        """A data frame with a row for each request of a trial's window: its stored times, and those between them."""
        path = self.folder / "samples" / f"{trial:04}.parquet"
        if not path.exists():
            raise FileNotFoundError(f"cannot read {path}: the run has no samples of trial {trial}")
        stored = self._library.read_parquet(path)
        columns = {name: stored[name] for name in stored.columns}
        between = {name: stored[end] - stored[start] for name, (end, start) in _TIMES.items() if end in columns}
        return self._library.DataFrame({**columns, **between})


def _data_frames(library):
    for name in [library] if library else ["pandas", "polars"]:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise ImportError(f"cannot make data frames: {library or 'neither pandas nor polars'} is not installed; "
                      "try `pip install polars`")


def _rows(database):
    """Yields the rows of the table `trials` as dictionaries."""
    query = "select trials.*, record_crc32 from trials left join checksums using (trial) order by trial"
    connection = sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)
    try:
        for values in (cursor := connection.execute(query)):
            row = dict(zip([column[0] for column in cursor.description], values))
            expected = row.pop("record_crc32")
            if expected not in (None, zlib.crc32(row["record"].encode())):
                raise ValueError(f"cannot read trial {row['trial']} of {database}: its checksum is wrong; "
                                 "`muxbench report` shows the trials that are intact")
            yield row
    finally:
        connection.close()


def _flat(value, path=""):
    """Returns the numbers, texts and truth values in nested dictionaries by their paths."""
    if isinstance(value, dict):
        inner = (_flat(each, f"{path}.{name}" if path else name) for name, each in value.items())
        return {name: each for found in inner for name, each in found.items()}
    return {path: value} if isinstance(value, (int, float, str)) else {}


def _alike(values):
    """Returns the values of a column as one type, which polars requires."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) < 2:
        return values
    kind = float if kinds == {int, float} else str
    return [value if value is None else kind(value) for value in values]
