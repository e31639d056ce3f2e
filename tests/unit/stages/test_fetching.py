"""Downloading data sets: from an address or a file, and never anything else into the cache."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dcpflow.cli import main
from dcpflow.errors import UsageError
from dcpflow.stages.fetching import fetch
from dcpflow.tasks import data_sets

DATA = Path(__file__).parents[4] / "shared" / "data"
YACHT = DATA / "yacht_hydrodynamics.csv"
needs_data = pytest.mark.skipif(not YACHT.exists(), reason="the real data sets are not beside this checkout")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "dcpflow" / "yacht.csv"


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A server that has what lies in the folder ``served``."""
    served = tmp_path / "served"
    served.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object, **named: object) -> None:
            super().__init__(*arguments, **named, directory=str(served))  # type: ignore[arg-type]

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@needs_data
def test_what_is_downloaded_is_what_tasks_read(address: str, tmp_path: Path, cache: Path) -> None:
    (tmp_path / "served" / "yacht.zip").write_bytes(YACHT.read_bytes())
    assert fetch("yacht", f"{address}/yacht.zip") == cache
    assert data_sets.read("yacht") == data_sets.read("yacht", YACHT)


@needs_data
def test_a_file_may_be_given_on_the_command_line(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "fetch", "yacht", "--from", str(YACHT)]) == 0
    assert str(cache) in capsys.readouterr().out
    assert data_sets.find("yacht", cache.parent) == cache


@needs_data
def test_something_else_never_replaces_what_the_cache_has(address: str, tmp_path: Path, cache: Path) -> None:
    fetch("yacht", str(YACHT))
    before = cache.read_bytes()
    (tmp_path / "served" / "error.html").write_text("<html>moved</html>")
    for wrong in (f"{address}/error.html", f"{address}/missing", str(DATA / "ionosphere.csv"), str(tmp_path)):
        with pytest.raises(UsageError):
            fetch("yacht", wrong)
        assert cache.read_bytes() == before
    assert [path.name for path in cache.parent.iterdir()] == ["yacht.csv"]


def test_an_address_that_does_not_answer_says_what_to_do(address: str, cache: Path) -> None:
    with pytest.raises(
        UsageError, match=r"cannot be downloaded \(.*HTTP Error 404.*dcpflow data fetch yacht --from FILE"
    ):
        fetch("yacht", f"{address}/missing")
    with pytest.raises(UsageError, match="cannot be downloaded"):
        fetch("yacht", "http://127.0.0.1:9/")
    assert not cache.exists()


def test_what_is_no_data_set_of_ours_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no data set 'iris'.*yacht, ionosphere, dry-bean"):
        fetch("iris")


@needs_data
def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    with pytest.raises(UsageError, match=r"cache .*file.* cannot be written.*XDG_CACHE_HOME"):
        fetch("yacht", str(YACHT))
