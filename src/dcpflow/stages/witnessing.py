"""Recovery records: artifacts found after a decision that reach its recovery line, for anybody to score again."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from dcpflow.authority import kinds
from dcpflow.bundles.audit import Replayed
from dcpflow.bundles.kinds import Kind
from dcpflow.bundles.verify import Verification
from dcpflow.errors import EvidenceError, UsageError
from dcpflow.records import canonical, files, plan, stagefile
from dcpflow.records.draws import PUBLIC_MARK, Nonce
from dcpflow.records.objects import ObjectStore
from dcpflow.scoring.scorer import Artifact, Score
from dcpflow.stages.laboratory import Job
from dcpflow.stages.registry import open_folder
from dcpflow.stages.scoring import score_artifacts

SCHEMA: Final = "dcpflow.recovery/1"
LARGEST: Final = 1 << 26
"""Bytes above which a file is no recovery record, and no artifact."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """A recovery record.

    Attributes:
        claim: id of the claim.
        decision: digest of the decision's bytes.
        contract: C, under which the line was drawn.
        registration: R.
        artifact: the artifact's text, in the names in which the claimed one is written.
        units: score of each sealed unit.
        score: their mean.
        line: the decision's recovery line, which the score reaches.
        how: how it was found, in the words of the one who files it; nobody has checked them.
        by: who files it.
    """

    claim: str
    decision: str
    contract: str
    registration: str
    artifact: str
    units: dict[str, float]
    score: float
    line: float
    how: str
    by: str


def file_witness(
    audit: Verification,
    artifact: Path,
    out: Path,
    how: str,
    by: str,
    nonce_file: Path | None = None,
    data_file: Path | None = None,
    registry: str | None = None,
) -> tuple[Recovery, str]:
    """Score an artifact as the audit's own were scored, and write the record if it recovers the outcome.

    Args:
        audit: the audit, verified.
        artifact: file of the artifact.
        out: the record to write.
        how: how it was found, one line.
        by: who files it, one line.
        nonce_file: the nonce; None where it is revealed, or was public from the start.
        data_file: the task's data set, where it is not the downloaded one.
        registry: folder of the registry to list it in; None for none.

    Returns:
        The record and its digest.

    Raises:
        UsageError: this is no results folder, the words are no lines, nothing can be added to the registry, or another
            file has the name of the record. Nothing is written.
        EvidenceError: the artifact is invalid, misses the line, or is the claimed one. Nothing is written.
    """
    for name, text in (("--how", how), ("--by", by)):
        words, holds = kinds.TEXT
        if not holds(text):
            raise UsageError(f"{name} must be {words}, is {text!r:.60}")
    log = open_folder(registry) if registry else None
    found = _scored(audit, _read(artifact, "the artifact"), str(artifact), how, by, nonce_file, data_file)
    digest = stagefile.digest(SCHEMA, asdict(found))
    if out.exists() and not _holds(out, digest):
        raise UsageError(f"there is something else already: {out}", "Give another --out, or remove it")
    with files.writing_to(out):
        stagefile.write(out, SCHEMA, asdict(found))
    if log:
        body = {"registration": found.registration, "record": digest, "text": how}
        log.append(kinds.WITNESS, body, unless=lambda entries: any(entry.body == body for entry in entries))
    return found, digest


def check_witness(
    record: Path, audit: Verification, nonce_file: Path | None = None, data_file: Path | None = None
) -> tuple[Recovery, str]:
    """Score the artifact of a recovery record again.

    Args:
        record: the record.
        audit: the audit that it is of, verified.
        nonce_file: as for :func:`file_witness`.
        data_file: likewise.

    Returns:
        The record and its digest.

    Raises:
        EvidenceError: it is no such record, is of another decision, or is not what the evaluator gives.
    """
    _read(record, "the recovery record")
    body, digest = stagefile.read(record, SCHEMA, "the recovery record", "Ask for it again where it comes from")
    text = {"claim", "decision", "contract", "registration", "artifact", "how", "by"}
    if body.keys() != {*text, "units", "score", "line"} or not all(isinstance(body[name], str) for name in text):
        raise EvidenceError(f"{record}: the record has other fields than a {SCHEMA} file")
    decision = _decision(_replayed(audit))
    if body["decision"] != decision:
        raise EvidenceError(f"{record} is of another decision ({body['decision']!r:.80}), not of this one ({decision})")
    found = _scored(audit, body["artifact"].encode(), str(record), body["how"], body["by"], nonce_file, data_file)
    for name, value in asdict(found).items():
        if canonical.encode(value) != canonical.encode(body[name]):
            raise EvidenceError(f"{record}: {name} is recorded as {body[name]!r:.80}, and is {value!r:.80}")
    return found, digest


def _scored(
    audit: Verification,
    data: bytes,
    called: str,
    how: str,
    by: str,
    nonce_file: Path | None,
    data_file: Path | None,
) -> Recovery:
    replayed = _replayed(audit)
    view, document = replayed.evidence.view, replayed.decided.document
    claimed, line = view.claimed_score, document["gate2"]["recovery_line"]
    if claimed is None or line is None:
        raise EvidenceError(f"{audit.path}: the claimed artifact is not valid: there is no outcome to recover")
    with _job(audit, replayed, nonce_file, data_file) as job:
        longest = job.contract.config("limits")["candidate_bytes"]
        if len(data) > longest:
            raise EvidenceError(f"{called}: the artifact has {len(data)} bytes, a candidate at most {longest}")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise EvidenceError(f"{called}: the artifact is not UTF-8 text: {error}") from None
        digest, seed = canonical.digest(data), view.claimed_presentation
        if digest == claimed.artifact:
            raise EvidenceError(f"{called}: this is the claimed artifact itself, which recovers nothing")
        own = ObjectStore(job.layout.objects).get(claimed.artifact, "the claimed artifact")
        artifacts = [Artifact(claimed.artifact, own, seed, plan.MAIN), Artifact(digest, data, seed, plan.MAIN)]
        ours, theirs = score_artifacts(job, artifacts)
    if _mean(ours) != claimed.mean:
        raise EvidenceError(f"{audit.path}: the evaluator gives the claimed artifact other scores than are recorded")
    if theirs.validity != "valid":
        raise EvidenceError(f"{called}: the artifact is invalid: {theirs.reason}")
    score = _mean(theirs)
    if score < line:
        raise EvidenceError(f"{called}: the artifact scores {score:.6g}, below the recovery line {line:.6g}")
    return Recovery(
        claim=document["claim"]["id"],
        decision=_decision(replayed),
        contract=view.registered.contract,
        registration=view.registered.digest,
        artifact=text,
        units=theirs.units,
        score=score,
        line=line,
        how=how,
        by=by,
    )


def _holds(path: Path, digest: str) -> bool:
    """Whether a file is the recovery record of this digest."""
    try:
        return path.is_file() and stagefile.read(path, SCHEMA, "the recovery record")[1] == digest
    except EvidenceError:
        return False


def _mean(score: Score) -> float:
    """Mean over the sealed units; NaN, which equals nothing, of an invalid artifact."""
    return math.fsum(score.units.values()) / len(score.units) if score.units else math.nan


def _replayed(audit: Verification) -> Replayed:
    if audit.kind is not Kind.RESULTS or audit.replayed is None:
        raise UsageError(
            f"{audit.path} is a {audit.kind.value}: a witness is scored in a results folder",
            "Make one of a bundle of dcpflow with: dcpflow bundle import BUNDLE FOLDER",
        )
    return audit.replayed


def _decision(replayed: Replayed) -> str:
    return canonical.digest(replayed.decided.to_bytes())


@contextmanager
def _job(audit: Verification, replayed: Replayed, nonce_file: Path | None, data_file: Path | None) -> Iterator[Job]:
    """A job that scores with the nonce that was given, or with the one that everybody knows by now."""
    if nonce_file is None and replayed.secrets is None:
        raise UsageError(
            f"the nonce of {audit.path} is not revealed, and without it nothing can be scored",
            "Give it with --nonce-file, or wait for the revealed bundle",
        )
    with tempfile.TemporaryDirectory(prefix="dcpflow-nonce-") as folder:
        if nonce_file is None and replayed.secrets:
            nonce_file = Path(folder) / "nonce"
            files.write_once(nonce_file, _nonce_text(replayed.secrets.nonce), mode=0o600)
        assert nonce_file is not None
        yield Job(Path(audit.path), nonce_file, audit.public_randomness, data_file)


def _nonce_text(nonce: Nonce) -> bytes:
    mark = f"{PUBLIC_MARK} {nonce.public}\n" if nonce.public else ""
    return f"{mark}{nonce.secret.hex()}\n".encode()


def _read(path: Path, what: str) -> bytes:
    if path.exists() and (not path.is_file() or path.stat().st_size > LARGEST):
        raise EvidenceError(f"{what} {path} is no file, or larger than {LARGEST} bytes")
    return files.read(path, what)
