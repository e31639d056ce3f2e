"""Whether the decisions of finished cases hold, each in its own results folder and as a dcp-audit bundle.

    python tests/benchmarks/cases_verified.py [--data-folder FOLDER] [NAME ...]

Runs `dcpflow verify` with nonce and task, which replays every conversation and scores every artifact again, exports
the bundle, and asks `dcp verify` for its statuses. Prints a line for each case with the seconds that the two took, and
exits 1 where a decision does not hold, or the statuses differ. `make cases` makes the decisions; the last of dry-bean
is the amended one, which no such bundle holds: `make audit CONFIG=config/cases/dry-bean.yaml` goes back to the first.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from dcpflow.errors import DcpflowError
from dcpflow.stages import cases, configuration

BIN = Path(sys.executable).parent


def main() -> int:
    """Verify, print, and say by the exit code whether all decisions hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="cases; by default all")
    parser.add_argument("--data-folder", type=Path, help="where files of the data sets lie; by default the cache")
    options = parser.parse_args()
    # An amendment decides the folder of its case once more, and is the last to have done so.
    chosen = {case.configfiles[:1]: case for case in cases.chosen(options.names)}
    holding = [_holds(case, options.data_folder) for case in chosen.values()]
    return 0 if all(holding) else 1


def _holds(case: cases.Case, data_folder: Path | None) -> bool:
    settings = cases.data(case, data_folder)
    results = Path(configuration.read([Path(path) for path in case.configfiles], settings).results)
    configured = ["--configfile", *case.configfiles] if case.configfiles else []
    configured += ["--config", *settings] if settings else []
    own, own_seconds = _run(["dcpflow", "verify", *configured])
    with tempfile.TemporaryDirectory() as folder:
        bundle = str(Path(folder) / "bundle")
        exported, _ = _run(["dcpflow", "bundle", "export", str(results), bundle, "--format", "dcp-audit"])
        theirs, their_seconds = _run(["dcp", "verify", bundle])
    decision = json.loads((results / "decision.json").read_text(encoding="utf-8"))
    ours = [decision[key]["status"] for key in ("core", "evidence")]
    said = dict(line.split(": ", 1) for line in theirs.stdout.splitlines() if ": " in line)
    found = [said.get("Core"), said.get("Evidence")]
    if decision["registration"]["amendments"]:
        # that it is exploratory cannot be said in such a bundle
        agree, compared = bool(exported.returncode), "no bundle, since it is amended"
    else:
        agree = not (exported.returncode or theirs.returncode) and ours == found
        compared = f"dcp verify {found} in {their_seconds:.1f} s: {'the same' if agree else 'NOT THE SAME'}"
    verified = own.stderr.strip() if own.returncode else "passed"
    print(f"{case.name}: dcpflow verify {verified} in {own_seconds:.1f} s; ours {ours}, {compared}", flush=True)
    good = agree and not own.returncode
    return good


def _run(command: Sequence[str]) -> tuple[subprocess.CompletedProcess[str], float]:
    started = time.perf_counter()
    ended = subprocess.run([BIN / command[0], *command[1:]], check=False, capture_output=True, text=True)
    return ended, time.perf_counter() - started


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DcpflowError as error:
        sys.exit(str(error))
