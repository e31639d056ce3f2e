"""How the default audit decides under other nonces: hidden states, workloads and draws that nobody has chosen.

    python tests/benchmarks/other_nonces.py [--nonces 20] [--cores 2] [--configfile FILE]

Nonce K is the SHA-256 of `dcpflow default audit 1 nonce K`. A blind artifact is one whose agent was told nothing of
the hidden state: of a challenger or a neutral branch. It recovers the outcome by luck where it indexes exactly the
hot families: one set of that size out of all.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import audits

from dcpflow.tasks.sqlite_index import Sizes

LATTICE = math.comb(Sizes().families, Sizes().hot_families)


def main() -> None:
    """Run the audits and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nonces", type=int, default=20)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--configfile", nargs="*", default=["config/config.yaml"], help="as for snakemake")
    options = parser.parse_args()
    print("nonce  Core             Evidence         challenger hits  neutral hits  truthful hits")
    found = [_audit(number, options.cores, options.configfile) for number in range(1, options.nonces + 1)]
    core, evidence = (sum(decision[key]["status"] == "certified" for decision in found) for key in ("core", "evidence"))
    seats = sum(decision["gate2"]["challengers"]["started"] for decision in found)
    branches = sum(decision["gate3"]["pairs"]["analysed"] for decision in found)
    print(f"\n{'':25}  found  expected by luck")
    print(f"Core certified             {core:5}")
    print(f"Evidence certified         {evidence:5}")
    print(f"hits of {seats:5} challengers  {sum(map(_hits, found)):5}  {seats / LATTICE:16.2f}")
    neutral = sum(decision["gate3"]["neutral_hits"] for decision in found)
    print(f"hits of {branches:5} branches     {neutral:5}  {branches / LATTICE:16.2f}")


def _audit(number: int, cores: int, configfiles: Iterable[str]) -> dict[str, Any]:
    """Run one audit, print its line, and return its decision."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        audits.fresh(folder, {"execution": {"nonce_file": "config/nonces/other.nonce", "results": "results"}})
        text = f"dcpflow default audit 1 nonce {number}"
        digits = hashlib.sha256(text.encode()).hexdigest()
        (folder / "config/nonces/other.nonce").write_text(f"# public-demonstration: {text}\n{digits}\n")
        audits.run(folder, configfiles, cores)
        decision: dict[str, Any] = json.loads((folder / "results/decision.json").read_bytes())
    core, evidence, gate3 = decision["core"]["status"], decision["evidence"]["status"], decision["gate3"]
    hits = f"{_hits(decision):15}  {gate3['neutral_hits']:12}  {gate3['truthful_hits']:13}"
    print(f"{number:5}  {core:15}  {evidence:15}  {hits}", flush=True)
    return decision


def _hits(decision: dict[str, Any]) -> int:
    return int(decision["gate2"]["challengers"]["hits"] or 0)


if __name__ == "__main__":
    main()
