"""The auditor's side after the last commit: takes a claimant's records, scores, decides, reveals what was sealed."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dcpflow.authority import kinds as entries
from dcpflow.authority import scores as signature
from dcpflow.authority import slots
from dcpflow.bundles import kinds, revealed
from dcpflow.bundles.verify import verify
from dcpflow.episodes.episode import check_draw
from dcpflow.errors import DcpflowError, EvidenceError, UsageError, storage_error
from dcpflow.evidence import folder
from dcpflow.records import asked, canonical, files, history, plan, registration
from dcpflow.records.episodes import EpisodeRecord
from dcpflow.records.layout import Layout
from dcpflow.records.objects import ObjectStore
from dcpflow.records.transcript import exchanges
from dcpflow.stages import registry, registry_proof
from dcpflow.stages.decide import decide
from dcpflow.stages.episodes import resolved
from dcpflow.stages.evidence import write_evidence
from dcpflow.stages.laboratory import Job
from dcpflow.stages.offering import ASKED, REVEALED, job_of
from dcpflow.stages.replay import replay_channels
from dcpflow.stages.scoring import score_records

if TYPE_CHECKING:
    from dcpflow.authority.keys import Signer

TAKEN: Final = ("registration", "registry", "store", "objects", *plan.STAGES, "history")
"""Folders of a claimant's results that hold what was committed, and what the run is called in registries. Scores,
tables and decisions are the auditor's own."""
ALONE: Final = {"history": ("entry.json", "when.json"), "registry": ("run.json",)}
"""Of these folders no other files: kept results, and what the claimant still asks a registry's operator for."""
MOST_BYTES: Final = 16 << 30
"""What is copied at most."""
CHUNK: Final = 1 << 20
SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Scored:
    """What an auditor has scored.

    Attributes:
        episodes: committed episodes.
        artifacts: scores, those of the task's own artifacts too.
        experiments: experiments that the auditor's evaluator has answered, each found in a record.
        decision: digest of ``decision.json``.
    """

    episodes: int
    artifacts: int
    experiments: int
    decision: str


def score_for(
    theirs: Path,
    sealed: Path,
    results: Path,
    signer: Signer | None = None,
    data_file: Path | None = None,
    workers: int = 1,
    noted_in: str = registry.OFF,
) -> Scored:
    """Score what a claimant has committed, decide, and reveal nonce and sealed material: nothing is secret after that.

    Args:
        theirs: the claimant's results folder, or a copy; it is read, and nothing in it is believed.
        sealed: the sealed folder.
        results: the results folder to make, whole or not at all.
        signer: the auditor's key, for a signature over the scores; None for none.
        data_file: as for a job.
        workers: how many artifacts are scored at a time.
        noted_in: folder or address of the registry that lists the decision; it has to list the audit's start.

    Raises:
        UsageError: the folders are missing, the results are there already, or there is no such registry.
        EvidenceError: the records are not those of this audit, or not all there, or altered, the registry says
            something else of them, or experiments were answered that no record tells of.
    """
    job_of(sealed, data_file)  # a folder that is no sealed one is told before anything is copied
    files.require_folder(results.parent)
    if results.exists():
        raise UsageError(f"{results} exists", "Give a folder that is not there: what was scored is never overwritten")
    if not (theirs / "registration").is_dir():
        raise UsageError(f"{theirs} is no results folder", "Give the claimant's results folder, or a copy of it")
    if noted_in != registry.OFF:
        registry.open_place(noted_in)  # likewise a registry that is not there
    work = results.with_name(f".{results.name}.scoring")
    shutil.rmtree(work, ignore_errors=True)
    try:
        kinds.check_folder(theirs)
        _take(theirs, work)
        _open(sealed, work)
        found = _score(job_of(sealed, data_file, work), sealed, signer, workers, noted_in)
        _reveal_once(sealed, found.decision)
        work.rename(results)
    except DcpflowError as error:
        kind = UsageError if isinstance(error, UsageError) else EvidenceError
        raise kind(error.problem.replace(str(work), str(theirs)), "Nothing was revealed: ask the claimant") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)
    registry.note_decision(Layout(results), noted_in)
    return found


def _reveal_once(sealed: Path, decision: str) -> None:
    """Mark that the nonce is no secret any more: with it nothing is sealed, answered or scored otherwise after this."""
    mark = sealed / REVEALED
    if not files.write_once(mark, f"{decision}\n".encode()) and mark.read_text().strip() != decision:
        raise EvidenceError(f"{sealed} was scored for before, and other records were handed over then ({mark})")


def _score(job: Job, sealed: Path, signer: Signer | None, workers: int, noted_in: str) -> Scored:
    """All that the auditor does, in a folder with the claimant's records and the auditor's own material."""
    layout = job.layout
    try:
        _require_same_registration(layout, sealed)
        receipts, scores = folder.receipts(layout), folder.scores(layout)
        folder.load_view(layout, receipts, {}, whole=False)  # follows every digest
        committed = list(_committed(job, receipts, scores))
        _require_all(committed)
        experiments = _require_told(committed, sealed)
        if noted_in != registry.OFF:
            _require_start(job, noted_in)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, OSError) as error:
        if isinstance(error, OSError) and storage_error(error):
            raise
        # whoever writes these files by hand can write anything into them; from here on they are as a run writes them
        raise EvidenceError(f"{layout.root} holds what no run writes ({type(error).__name__}: {error})") from error
    for part in committed:
        place = plan.place(part.phase, part.job.stratum)
        score_records(part.job, part.phase, part.records, layout.scores(place), workers)
        replay_channels(part.job, part.receipts, layout.replay(place))
    write_evidence(job, receipts, scores)
    decide(layout.root, receipts, scores)
    verified = verify(layout.root, job.nonce)
    if noted_in != registry.OFF:
        verified = registry_proof.with_registry(verified, noted_in)
    if verified.replayed is None:
        raise EvidenceError(verified.error)
    view = verified.replayed.evidence.view
    for name, data in revealed.members(layout, verified.replayed.secrets, reveal=True).items():
        files.write_atomic(layout.root / name, data)
    decision = layout.decision.read_bytes()
    if signer is not None:
        files.write_atomic(layout.root / signature.FILE, signature.signed(decision, signer))
    artifacts = sum(len(rows) for part in (view, *view.parts.values()) for rows in part.scores.values())
    return Scored(len(view.everything), artifacts, experiments, canonical.digest(decision))


@dataclass(frozen=True, slots=True)
class _Part:
    """What is scored together.

    Attributes:
        job: whose it is: the audit's own, or a stratum's.
        phase: the phase.
        stages: its stages, with how many slots each has.
        receipts: its receipts.
        records: its records, in the order in which they are scored.
    """

    job: Job
    phase: str
    stages: Mapping[str, int]
    receipts: Sequence[Path]
    records: Sequence[EpisodeRecord]


def _committed(job: Job, receipts: Sequence[Path], phases: Iterable[str]) -> Iterator[_Part]:
    registered = job.registration
    design = registered.config("design")
    for phase in phases:
        stages = {stage: plan.slots(stage, design) for stage in plan.phases(design)[phase].stages}
        paths = [path for path in receipts if path.relative_to(job.layout.root).parts[0] in stages]
        yield _Part(job, phase, stages, paths, _records(job, list(stages), paths))
    for name, own in folder.strata(job.layout, registered).items():
        stages = {plan.CHALLENGERS: registered.strata[name]["config"]["challengers"]}
        records = _records(job.of(name), list(stages), own.receipts)
        yield _Part(job.of(name), plan.CHALLENGERS, stages, own.receipts, records)


def _records(job: Job, stages: Sequence[str], receipts: Sequence[Path]) -> list[EpisodeRecord]:
    """Each record once, whatever batches it ran in, and in the order in which the workflow's receipts list them: the
    drawn scoring order is an order of these.

    Raises:
        EvidenceError: one was drawn otherwise than it was offered.
        UnicodeDecodeError: an artifact is no text, as the channel takes none.
    """
    found = {record.key: record for record in resolved(job, receipts)}
    objects = ObjectStore(job.layout.objects)
    for record in found.values():
        check_draw(record, job.draws)
        for candidate in record.candidates:
            objects.get(candidate, f"the candidate of {record.key}").decode()
    return sorted(found.values(), key=lambda one: (stages.index(one.stage), one.slot, _arms(one).index(one.arm)))


def _arms(record: EpisodeRecord) -> tuple[str, ...]:
    return plan.STAGES[record.stage].arms


def _require_start(job: Job, noted_in: str) -> None:
    """The registry lists a start of this results folder's, so that the decision can be listed behind it."""
    claim = job.registration.config("claim")
    run = {"family": claim["family"], "slot": claim["slot"], "run": registry.run_token(job.layout)}
    if not slots.of_run(registry.open_place(noted_in).entries, run, entries.STARTED):
        raise EvidenceError(
            f"the registry {noted_in} lists no start of {job.layout.root} in the slot {claim['slot']} of the family "
            f"{claim['family']}"
        )


# --- what is taken from whom -------------------------------------------------------------------------------


def _take(theirs: Path, work: Path) -> None:
    """Copy what was committed; regular files alone, and no link is followed, whatever happens there meanwhile."""
    work.mkdir(parents=True)
    left = MOST_BYTES
    for name in TAKEN:
        if not (theirs / name).is_dir():
            continue
        for place, folders, names, folder_fd in os.fwalk(theirs / name, follow_symlinks=False):
            if odd := next((one for one in (*folders, *names) if not one.isprintable()), None):
                raise EvidenceError(f"{place} holds a name that no run gives: {odd!r}")
            target = work / Path(place).relative_to(theirs)
            target.mkdir()
            for file in names:
                if name not in ALONE or file in ALONE[name]:
                    left -= _copy(file, folder_fd, target / file, f"{place}/{file}", min(left, kinds.MAX_FILE_BYTES))


def _copy(name: str, folder_fd: int, target: Path, where: str, most: int) -> int:
    """Copy one file, whatever becomes of it meanwhile; how many bytes it has.

    Raises:
        EvidenceError: it cannot be read, is no regular file, or has more than ``most`` bytes.
    """
    try:
        opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder_fd)
    except OSError as error:
        raise EvidenceError(f"{where} cannot be read ({error.strerror})") from None
    with os.fdopen(opened, "rb") as file:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode):
            raise EvidenceError(f"{where} is no regular file")
        if found.st_size > most:
            raise EvidenceError(f"{where} is too large to be copied: {found.st_size} bytes, where {most} are left")
        size = 0
        with target.open("wb") as copy:
            while data := file.read(min(CHUNK, found.st_size - size)):
                size += copy.write(data)
        return size


def _open(sealed: Path, work: Path) -> None:
    """Lay the auditor's own material beside the records: public files, seal, hidden state, sealed units."""
    mine, made = Layout(sealed), Layout(work)
    shutil.copytree(mine.seal.parent, made.seal.parent)
    files.private_folder(made.hidden.parent)
    for source, target in ((mine.hidden, made.hidden), (mine.sealed, made.sealed)):
        shutil.copytree(source, target)


# --- what has to hold before anything is scored ------------------------------------------------------------


def _require_same_registration(layout: Layout, sealed: Path) -> None:
    """The claimant's history may tell of more than the auditor's, never of less."""
    mine = [entry.registration for entry in history.entries(Layout(sealed))]
    theirs = [entry.registration for entry in history.entries(layout)]
    registered = registration.read_registration(layout.registration).digest
    if theirs[-len(mine) :] != mine or registered != mine[-1]:
        raise EvidenceError(
            f"{layout.registration} is not what the auditor has sealed: registered {', '.join(theirs) or 'nothing'}, "
            f"sealed {', '.join(mine)}"
        )


def _require_all(committed: Iterable[_Part]) -> None:
    """Every registered slot has a record: scores are told once, when nothing can be done about them any more."""
    for part in committed:
        recorded = {record.key for record in part.records}
        for stage, registered in part.stages.items():
            numbers = () if plan.STAGES[stage].replaces else range(1, registered + 1)
            if missing := [key for slot in numbers for key in plan.keys(stage, slot) if key not in recorded]:
                more = f", nor have {len(missing) - 1} more of its stage" if len(missing) > 1 else ""
                of = f" of the stratum {part.job.stratum}" if part.job.stratum else ""
                raise EvidenceError(f"{missing[0]}{of} has no committed record{more}")


def _require_told(committed: Iterable[_Part], sealed: Path) -> int:
    """Every experiment that was answered stands in a committed record; how many there are."""
    answered = asked.everything(sealed / ASKED)
    records = {record.key: (part.job, record) for part in committed if not part.job.stratum for record in part.records}
    untold = {
        key: set(told) - (_candidates(*records[key]) if key in records else set()) for key, told in answered.items()
    }
    if hidden := [f"{len(some)} of {key}" for key, some in untold.items() if some]:
        more = f", and of {len(hidden) - SHOWN} more episodes" if len(hidden) > SHOWN else ""
        shown = ", ".join(hidden[:SHOWN])
        raise EvidenceError(f"the evaluator has answered experiments that no committed record tells of: {shown}{more}")
    return sum(map(len, answered.values()))


def _candidates(job: Job, record: EpisodeRecord) -> set[str]:
    """The candidates that an episode has experimented with."""
    data = ObjectStore(job.layout.objects).get(record.transcript, f"the transcript of {record.key}")
    requests = (request for request, _ in exchanges([json.loads(line) for line in data.splitlines()]))
    found = (request.get("candidate") for request in requests if request.get("action") == "experiment")
    return {candidate for candidate in found if isinstance(candidate, str)}
