"""That the auditor's signature of the scores is there."""

from __future__ import annotations

from pathlib import Path

from dcpflow.authority import scores
from dcpflow.authority.keys import PublicKey
from dcpflow.errors import EvidenceError, UsageError
from dcpflow.records import files


def require_signed(results: Path, key_file: Path) -> str:
    """The id of a public key that has signed the scores of a verified results folder.

    Raises:
        UsageError: the file holds no key, or a bundle was given.
        EvidenceError: there is no signature, it is of other scores, or it is another key's.
    """
    key, path = PublicKey.read(key_file), results / scores.FILE
    if not results.is_dir():
        raise UsageError(
            f"{results} is a bundle, which holds no signature of the scores", "Give the folder that was scored"
        )
    data = files.read(path, "the auditor's signature of the scores", "The auditor signs with: dcpflow score-for --key")
    decision = files.read(results / "decision.json", "the decision")
    if not scores.signers(data, str(path), decision, [key]):
        raise EvidenceError(f"{path} is not signed by the key in {key_file} ({key.id})")
    return key.id
