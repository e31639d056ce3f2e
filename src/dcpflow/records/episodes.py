"""Episode records, and the store in which a slot is claimed once and a record is committed once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from dcpflow.errors import EvidenceError
from dcpflow.records import canonical, files
from dcpflow.records.holders import Holder, Silence
from dcpflow.records.journal import Journal

SCHEMA = "dcpflow.episode/1"
POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True, order=True)
class EpisodeKey:
    """Where an episode stands in the audit.

    Attributes:
        stage: ``target``, ``challengers``, ``controls``, ``pairs``, ``null_pairs``, ``misled_nulls``,
            ``pair_replacements`` or ``null_pair_replacements``.
        slot: number within the stage, from 1.
        arm: what the channel answers, e.g. ``withheld``, ``truthful``, ``neutral``.
    """

    stage: str
    slot: int
    arm: str

    def __str__(self) -> str:
        return f"{self.stage} slot {self.slot} ({self.arm})"


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """One episode, as committed. Holds no time, host, count or threshold.

    Attributes:
        contract: digest C of what an episode is.
        registration: digest R of the whole registration at the episode's start.
        stage: see EpisodeKey.
        stratum: challenger stratum; empty outside of the challengers.
        slot: see EpisodeKey.
        arm: see EpisodeKey.
        attempt: number of the attempt at this slot, from 1.
        replacement_of: ``stage/slot`` of the pair that this episode's pair replaces, else empty.
        prior_seal: digest of what had to be fixed before this episode could start: the registration, the
            target's record, or the checkpoint.
        draw: the episode's draws, hex: ``presentation``, ``agent_seed`` and, for pairs, ``order``.
        unit: digest of presentation and agent seed; episodes that share one are copies, not independent draws.
        outcome: ``artifact``, ``model_failure``, ``execution_contract_violation``, ``infrastructure_invalid`` or
            ``unresolved``.
        reason: the outcome in plain words.
        candidates: digests of the committed candidates, in order.
        quotes: digest of each quoted file's text, by name.
        transcript: digest of every line that passed between agent and harness, the first being the hello.
        limits_hit: registered limits that were reached.
        usage: experiments, commits, messages, bad_messages, bytes; with the Web also web_requests.
        packet: digest of the Web packet, which the target has seen and every other episode is given; empty where the
            Web is no part of the contract.
        isolation: digest of the isolation probe's record.
        workspace: digest of the manifest of what the agent left in its workspace; empty where it left nothing.
        calls: digest of what the agent asked its model, and what came of it; empty where it asked none through us.
    """

    contract: str
    registration: str
    stage: str
    stratum: str
    slot: int
    arm: str
    attempt: int
    replacement_of: str
    prior_seal: str
    draw: dict[str, str]
    unit: str
    outcome: str
    reason: str
    candidates: list[str]
    quotes: dict[str, str]
    transcript: str
    limits_hit: list[str]
    usage: dict[str, int]
    packet: str
    isolation: str
    workspace: str
    calls: str

    @property
    def key(self) -> EpisodeKey:
        """Where the episode stands in the audit."""
        return EpisodeKey(self.stage, self.slot, self.arm)

    def to_bytes(self) -> bytes:
        """Canonical JSON, the form that is hashed and stored."""
        return canonical.encode({"schema": SCHEMA, **asdict(self)})

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> EpisodeRecord:
        """Read a record strictly: exactly the declared fields, each of its type.

        Raises:
            EvidenceError: it is not such a record.
        """
        value = canonical.decode_encoded(data, where)
        if not isinstance(value, dict) or value.pop("schema", None) != SCHEMA:
            raise EvidenceError(f"{where}: not an episode record (expected schema {SCHEMA})")
        if value.keys() != _KINDS.keys():
            odd = sorted(value.keys() ^ _KINDS.keys())
            raise EvidenceError(f"{where}: fields missing or unknown: {', '.join(odd)}")
        texts = set(map(type, map(value.__getitem__, _TEXTS))) == {str}
        for name, kind in (_OTHERS if texts else _KINDS).items():
            if not _fits(value[name], kind):
                raise EvidenceError(f"{where}: {name} must be {kind}, not {value[name]!r:.60}")
        return cls(**value)


_KINDS: Final = {field.name: str(field.type) for field in fields(EpisodeRecord)}
_TEXTS: Final = tuple(name for name, kind in _KINDS.items() if kind == "str")
_OTHERS: Final = {name: kind for name, kind in _KINDS.items() if kind != "str"}


def _fits(value: object, kind: str) -> bool:
    match kind:
        case "str":
            return isinstance(value, str)
        case "int":
            return type(value) is int
        case "list[str]":
            return isinstance(value, list) and all(isinstance(item, str) for item in value)
        case "dict[str, str]":
            return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())
        case _:
            return isinstance(value, dict) and all(type(item) is int for item in value.values())


class EpisodeStore:
    """The episodes of one contract below ``store/<C>/<stage>/<slot>/<arm>/<attempt>/``.

    The folder is no declared output of any job, since the workflow engine deletes those before a job starts and
    after it fails; here nothing is ever deleted or overwritten.
    """

    def __init__(self, root: Path, contract: str) -> None:
        self.root = root / contract.removeprefix("sha256:")

    def folder(self, key: EpisodeKey, attempt: int = 1) -> Path:
        """The attempt's folder."""
        return self.root / self._place(key, attempt)

    def record_path(self, key: EpisodeKey, attempt: int = 1) -> Path:
        """The attempt's record; there only once it is committed."""
        return self.root / self._record(key, attempt)

    def where(self, key: EpisodeKey, attempt: int = 1) -> str:
        """The same as text, for messages about one of thousands."""
        return f"{self.root}/{self._record(key, attempt)}"

    def _record(self, key: EpisodeKey, attempt: int) -> str:
        return f"{self._place(key, attempt)}/record.json"

    def _place(self, key: EpisodeKey, attempt: int) -> str:
        # joined at once, since paths are slow to join and there are thousands
        return f"{key.stage}/{key.slot:05d}/{key.arm}/{attempt}"

    def run_again(self, key: EpisodeKey, attempt: int = 1) -> str:
        """The command that runs one episode again, for an error that names it."""
        receipts = self.root.parent.parent / key.stage
        return (
            f"To run that episode again: rm -rf '{self.folder(key, attempt)}' '{receipts}' "
            "and run snakemake again (all other episodes are kept)"
        )

    def committed(self, key: EpisodeKey, attempt: int = 1) -> bytes | None:
        """The committed record's bytes, or None."""
        try:
            return files.whole(self.root, self._record(key, attempt))
        except FileNotFoundError:
            return None

    def claim(self, key: EpisodeKey, waiting: Callable[[Holder], None] = lambda _: None) -> Claim | bytes:
        """Claim the slot for this process, or return the record that stands there already.

        While a living process holds the slot, wait for its record or its death. A dead holder's attempt is
        taken over: its agent is started again from the beginning with the same draws.

        Args:
            key: the slot.
            waiting: called once with the holder when this call has to wait.
        """
        folder = self.folder(key)
        folder.mkdir(parents=True, exist_ok=True)
        told = False
        silence = Silence()
        while True:
            if (record := self.committed(key)) is not None:
                return record
            number, holder = _last_holder(folder)
            alive = holder.alive() if holder else False
            if alive is None and holder is not None:
                alive = not silence.too_long(folder / f"holder-{number}.json")
            if alive and holder is not None:
                if not told:
                    waiting(holder)
                    told = True
                time.sleep(POLL_SECONDS)
                continue
            path = folder / f"holder-{number + 1}.json"
            if files.write_once(path, canonical.encode(Holder.myself().to_json()), mode=0o644):
                # a record may have been committed, and its holder have ended, since this call looked for one
                record = self.committed(key)
                return Claim(self, key, path) if record is None else record


class Claim:
    """The right of this process to run one episode and to commit its record."""

    def __init__(self, store: EpisodeStore, key: EpisodeKey, holder: Path) -> None:
        self._store = store
        self._holder = holder
        self._number = holder.stem.removeprefix("holder-")
        self.key = key
        self.attempt = 1

    def journal(self) -> Journal:
        """What earlier holders of this attempt have noted of it, and where this one does."""
        return Journal(self._store.folder(self.key, self.attempt), int(self._number))

    def still_here(self) -> None:
        """Show processes on other hosts that this one is alive."""
        self._holder.touch()

    def commit(self, record: EpisodeRecord, aside: dict[str, Any], archive: bytes = b"") -> bytes:
        """Commit the record and return the bytes that stand, which are another's if that one came first.

        Args:
            record: the finished episode.
            aside: times, host and costs; stored beside the record, in no hash.
            archive: a WARC file, which holds dates too; likewise, if there is one.
        """
        path = self._store.record_path(self.key, self.attempt)
        files.write_once(path.with_name(f"aside-{self._number}.json"), canonical.encode(aside))
        if archive:
            files.write_once(path.with_name(f"aside-{self._number}.warc"), archive)
        files.write_once(path, record.to_bytes())
        return path.read_bytes()


def _last_holder(folder: Path) -> tuple[int, Holder | None]:
    numbers = [int(path.stem.removeprefix("holder-")) for path in folder.glob("holder-*.json")]
    if not numbers:
        return 0, None
    number = max(numbers)
    return number, Holder.read(folder / f"holder-{number}.json")
