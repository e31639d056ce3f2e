"""Downloads the data sets of tasks on real data into the cache that these tasks read."""

from __future__ import annotations

from collections.abc import Iterable
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from dcpflow.errors import UsageError
from dcpflow.records import files
from dcpflow.tasks import data_sets
from dcpflow.tasks.data_sets import DATA_SETS, MAX_BYTES, Row

TIMEOUT_SECONDS = 60.0


def fetch(name: str, source: str | None = None) -> Path:
    """Keep a data set in the download cache; whatever lay there is replaced.

    Args:
        name: of the data set.
        source: a file, or an address of HTTP; by default the official address.

    Returns:
        The file that was written.

    Raises:
        UsageError: there is no such data set, the source cannot be read or holds something else, or the cache cannot be
            written.
    """
    if name not in DATA_SETS:
        raise UsageError(f"there is no data set {name!r}", f"There are {', '.join(DATA_SETS)}")
    wanted = source or DATA_SETS[name].url
    data = _downloaded(name, wanted) if urlsplit(wanted).scheme in {"http", "https"} else _read(Path(wanted))
    rows = data_sets.parse(name, data, wanted)
    path = data_sets.cache_file(name)
    try:
        files.write_atomic(path, _csv(rows))
    except OSError as error:
        raise UsageError(
            f"the download cache {path} cannot be written ({error.strerror})", "Set XDG_CACHE_HOME"
        ) from None
    return path


def _downloaded(name: str, address: str) -> bytes:
    try:
        with urlopen(Request(address, headers={"User-Agent": "dcpflow"}), timeout=TIMEOUT_SECONDS) as reply:
            data: bytes = reply.read(MAX_BYTES + 1)
    except (HTTPException, OSError) as error:
        reason = error.reason if isinstance(error, URLError) and not isinstance(error, HTTPError) else error
        raise UsageError(
            f"{address} cannot be downloaded ({reason})",
            f"Download it elsewhere, then: dcpflow data fetch {name} --from FILE",
        ) from None
    return data


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror})", "Give a file or an address") from None


def _csv(rows: Iterable[Row]) -> bytes:
    return "".join(",".join((*map(repr, row.inputs), row.label)) + "\n" for row in rows).encode()
