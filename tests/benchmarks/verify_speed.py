"""How long verifying takes, whole process, beside `dcp verify` on the same bundle in the same run.

    python tests/benchmarks/verify_speed.py [--bundle FOLDER] [--results FOLDER] [--runs 5]

Prints medians and ratio, and exits 1 where a claim does not hold: less than a quarter of the time of `dcp verify` on
the published dcp-audit bundle, and less than 2 s for the default audit, as its results folder and as its bundle. What
is not there is left out. The two commands take turns, so that a busy machine slows both.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT.parent / "shared" / "data" / "bundles" / "sqlite-core"
BIN = Path(sys.executable).parent
MAX_RATIO = 0.25
MAX_SECONDS = 2.0


def main() -> int:
    """Measure, print, and say by the exit code whether the claims hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=Path, default=PUBLISHED, help="a dcp-audit bundle")
    parser.add_argument("--results", type=Path, default=ROOT / "results", help="a finished default audit")
    parser.add_argument("--runs", type=int, default=5, help="runs of each command; the median counts")
    options = parser.parse_args()
    verdicts = []
    if options.bundle.is_dir():
        verdicts.append(_against_the_reference(options.bundle, options.runs))
    if (options.results / "decision.json").exists():
        verdicts += _own(options.results, options.runs)
    if not verdicts:
        print("nothing to measure: give --bundle or --results")
    return 0 if verdicts and all(verdicts) else 1


def _against_the_reference(bundle: Path, runs: int) -> bool:
    theirs, ours = _medians([["dcp", "verify", str(bundle)], ["dcpflow", "verify", str(bundle)]], runs)
    ratio = ours / theirs
    print(f"dcp-audit bundle    dcp verify {theirs:.3f} s, dcpflow verify {ours:.3f} s, ratio {ratio:.3f} "
          f"(claimed: below {MAX_RATIO})")  # fmt: skip
    return ratio < MAX_RATIO


def _own(results: Path, runs: int) -> list[bool]:
    with tempfile.TemporaryDirectory() as folder:
        claim = Path(folder) / "claim.dcp"
        _run(["dcpflow", "bundle", "export", str(results), str(claim)])
        commands = [["dcpflow", "verify", str(path)] for path in (results, claim)]
        of_folder, of_bundle = _medians(commands, runs)
        size = claim.stat().st_size / 1e6
    print(f"results folder      dcpflow verify {of_folder:.3f} s (claimed: below {MAX_SECONDS:g} s)")
    print(f"bundle, {size:.1f} MB      dcpflow verify {of_bundle:.3f} s (claimed: below {MAX_SECONDS:g} s)")
    return [of_folder < MAX_SECONDS, of_bundle < MAX_SECONDS]


def _medians(commands: Sequence[Sequence[str]], runs: int) -> list[float]:
    """Median seconds of each command, in turns, after one run of each that does not count."""
    seconds: list[list[float]] = [[] for _ in commands]
    for turn in range(runs + 1):
        for command, found in zip(commands, seconds, strict=True):
            taken = _run(command)
            if turn:
                found.append(taken)
    return [statistics.median(found) for found in seconds]


def _run(command: Sequence[str]) -> float:
    """Seconds of a whole process; a command that fails ends the measurement."""
    started = time.perf_counter()
    subprocess.run([BIN / command[0], *command[1:]], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())
