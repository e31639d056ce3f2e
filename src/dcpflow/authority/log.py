"""The registry: an append-only, hash-chained log of audits in a folder that any static file server can publish.

==============================  ======================================================================================
``registry.json``               what the registry is called (its origin), the public key that signs for it, if any, and
                                whether audits write to it themselves or its operator adds what they request
``entries/00000001.json``       one entry each: ``number``, ``previous`` (digest of the entry before; of the first, that
                                of ``registry.json``), ``kind`` and ``body`` (:mod:`dcpflow.authority.kinds`), ``date``
``checkpoints/00000012.json``   a DSSE envelope, signed, of origin, size and root of the Merkle tree (RFC 6962) over the
                                bytes of the first 12 entry files
``checkpoint.json``             the last checkpoint once more, where a reader without a listing of the folder finds it
==============================  ======================================================================================

Use: ``log = Log.open(folder)``; ``log.entries``; ``log.append(kind, body)``, which is safe among processes and
machines; ``log.sign(signer)`` writes a checkpoint, ``log.checkpoint`` is the last one; ``log.prove(number)`` shows an
entry to those who hold a checkpoint alone, who call :func:`verify_proof`; ``log.verify(older, keys)`` holds the log
against a checkpoint that somebody has kept. A log is never changed: what adds to its folder returns the log with that.

Dates are the registry's own and decide nothing. A log is read strictly: whatever is missing, edited, out of place or
foreign is an error that names the entry. Whoever keeps a log can still write all of it anew: that is found by who holds
an older checkpoint, and by nobody else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from dcpflow.authority import merkle
from dcpflow.authority.entry import CHECKPOINT, MOST, Checkpoint, Entry, Head, from_file, now
from dcpflow.authority.envelope import Envelope
from dcpflow.authority.keys import PublicKey, Signer
from dcpflow.authority.source import Folder, Source
from dcpflow.errors import EvidenceError, UsageError
from dcpflow.records import canonical, files

PROOF: Final = "dcpflow.registry-proof/1"
_NUMBER: Final = re.compile(r"(?!0{8})[0-9]{8}")
HEAD, NEWEST, ENTRIES, CHECKPOINTS = "registry.json", "checkpoint.json", "entries", "checkpoints"


@dataclass(frozen=True)
class Log:
    """A registry as it was read: every digest of the chain recomputed, and every checkpoint held against its entries.

    Attributes:
        source: what it was read from.
        head: what it says that it is.
        entries: all of them, from the first.
        checkpoints: oldest first; of a source that cannot be listed the last one alone.
    """

    source: Source
    head: Head
    entries: tuple[Entry, ...]
    checkpoints: tuple[Checkpoint, ...]

    @classmethod
    def create(cls, folder: Path, head: Head) -> Log:
        """Make the folder of a new registry; another process may be making the same one.

        Raises:
            UsageError: there is one already, or something else.
        """
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        if (folder.exists() and not folder.is_dir()) or any(not name.startswith(".") for name in names):
            raise UsageError(f"{folder} is there already, and not empty", "Give a new folder for the registry")
        with files.writing_to(folder):
            files.write_once(folder / HEAD, head.to_bytes())
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> Log:
        """The registry in a folder.

        Raises:
            UsageError: there is none.
            EvidenceError: it is not whole; the message names the entry.
        """
        return cls.read(Folder(folder))

    @classmethod
    def read(cls, source: Source) -> Log:
        """The registry that a source holds. Errors are as for :meth:`open`."""
        data = source.read(HEAD)
        if data is None:
            raise UsageError(
                f"there is no registry: {source.place(HEAD)} is missing",
                "Make one with: dcpflow registry init FOLDER --origin NAME",
            )
        head = Head.parse(data, source.place(HEAD))
        log = cls(source, head, (), ())
        # before the entries: what others add and sign meanwhile must not look like a tail that was cut
        points = log._read_checkpoints()
        log = log._with_new_entries()
        log._require_nothing_foreign()
        for where, point in points.items():
            log._require_own(point, where)
        own = {point.size: point for point in points.values()}
        return replace(log, checkpoints=tuple(own[size] for size in sorted(own)))

    def _with_new_entries(self) -> Log:
        """The same with the entries that were added since."""
        found = list(self.entries)
        while len(found) < MOST:
            number = len(found) + 1
            name = _entry_name(number)
            data = self.source.read(name)
            if data is None:
                break
            entry = Entry.parse(data, self.source.place(name), number, self._digest_of(found))
            if found and entry.date < found[-1].date:
                raise EvidenceError(
                    f"{self.source.place(name)}: entry {number} is dated {entry.date}, before the one before it, "
                    f"{found[-1].date}"
                )
            found.append(entry)
        return replace(self, entries=tuple(found))

    def _digest_of(self, entries: Sequence[Entry]) -> str:
        """What the entry after these names as the one before."""
        return entries[-1].digest if entries else canonical.digest(self.head.to_bytes())

    def _require_nothing_foreign(self) -> None:
        """See that the folder of entries has no gap, and nothing else in it."""
        end = len(self.entries)
        for name in self.source.names(ENTRIES) or ():
            number = name.removesuffix(".json")
            if name != f"{number}.json" or not _NUMBER.fullmatch(number):
                raise EvidenceError(f"{self.source.place(f'{ENTRIES}/{name}')} is no entry of a registry")
            # those that others have added since it was read are no gap
            if int(number) > end and self.source.read(_entry_name(end + 1)) is None:
                place = self.source.place(_entry_name(end + 1))
                raise EvidenceError(f"entry {end + 1} is missing: {place} is not there, though {name} is")

    def _read_checkpoints(self) -> dict[str, Checkpoint]:
        """Those that there are, by what each file is called in messages."""
        names = self.source.names(CHECKPOINTS) or ()
        found = {}
        for path in (NEWEST, *(f"{CHECKPOINTS}/{name}" for name in names)):
            data = self.source.read(path)
            if data is None:
                continue
            where = self.source.place(path)
            point = Checkpoint.parse(data, where)
            if path not in {NEWEST, _checkpoint_name(point.size)}:
                raise EvidenceError(f"{where}: a checkpoint of {point.size} entries, not of those that its name says")
            found[where] = point
        return found

    def _require_own(self, point: Checkpoint, where: str) -> None:
        """See that a checkpoint of this folder is this log's."""
        if point.origin != self.head.origin:
            raise EvidenceError(f"{where}: a checkpoint of {point.origin!r}, not of {self.head.origin!r}")
        if self.head.key and not point.signers([self.head.key]):
            raise EvidenceError(f"{where}: it has no signature of the registry's key {self.head.key.id} that holds")
        if point.size > len(self.entries):
            raise EvidenceError(
                f"{where}: it was signed over {point.size} entries, but there are {len(self.entries)}: the tail was cut"
            )
        if self.root(point.size) != point.root:
            raise EvidenceError(
                f"{where}: the first {point.size} entries are not those that were signed: they were rewritten"
            )

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The last checkpoint; None where nobody has signed one."""
        return self.checkpoints[-1] if self.checkpoints else None

    def root(self, size: int) -> str:
        """Root of the Merkle tree over the first entries, at least one, 64 hex digits."""
        return self._roots[size - 1].hex()

    @cached_property
    def _roots(self) -> list[bytes]:
        return list(merkle.roots(entry.data for entry in self.entries))

    def _leaves(self, size: int) -> list[bytes]:
        return [entry.data for entry in self.entries[:size]]

    def append(
        self, kind: str, body: Mapping[str, Any], unless: Callable[[Sequence[Entry]], bool] = lambda _: False
    ) -> Log:
        """Add an entry, and return the log with it, and with what others have added meanwhile.

        Args:
            kind: of the entry.
            body: as its kind asks for.
            unless: told all entries before each try; where it says True, nothing is added. What must not be there twice
                is asked here, since another process may be adding it at the same time.

        Raises:
            UsageError: the log was not read from a folder.
            EvidenceError: the body is not as its kind asks for, or what was added meanwhile is no entry.
        """
        if not isinstance(self.source, Folder):
            raise UsageError(f"{self.source.place('')} cannot be written to", "Its operator adds entries to its folder")
        log = self
        while True:
            log = log._with_new_entries()
            if unless(log.entries):
                return log
            number = len(log.entries) + 1
            # clocks differ and are set back, and dates of a log never go back
            date = max([now(), *(entry.date for entry in log.entries[-1:])])
            entry = Entry.make(number, log._digest_of(log.entries), kind, date, body)
            # a link never overwrites: whoever comes second sees the other's entry, and takes the next number
            if files.write_once(self.source.root / _entry_name(number), entry.data, mode=0o444):
                return replace(log, entries=(*log.entries, entry))

    def sign(self, signer: Signer) -> Log:
        """Write a checkpoint of all entries, or add a signature to the one that there is; returns the log with it.

        Raises:
            UsageError: there is no entry yet, the log was not read from a folder, or the key is not the registry's,
                whose signature has to be the first.
        """
        if not isinstance(self.source, Folder):
            raise UsageError(f"{self.source.place('')} cannot be written to", "A checkpoint is signed in its folder")
        log = self._with_new_entries()
        if not log.entries:
            raise UsageError(f"{self.source.root} has no entry yet", "There is nothing to sign")
        size = len(log.entries)
        origin, root = log.head.origin, log.root(size)
        statement = canonical.encode({"origin": origin, "size": size, "root": root})
        known = [point for point in log.checkpoints if point.size == size]
        envelope = known[0].envelope if known else Envelope(CHECKPOINT, statement, {})
        if not known:
            log.require_key(signer)
        envelope = envelope.signed_by(signer)
        for name in (_checkpoint_name(size), NEWEST):
            files.write_atomic(self.source.root / name, envelope.to_bytes())
        point = Checkpoint(origin, size, root, envelope)
        return replace(log, checkpoints=(*(one for one in log.checkpoints if one.size != size), point))

    def require_key(self, signer: Signer) -> None:
        """See that a key is the one whose signature a new checkpoint needs.

        Raises:
            UsageError: it is another one.
        """
        if self.head.key not in {None, signer.public}:
            raise UsageError(
                f"{signer.public.id} is not the key of this registry, {self.head.key.id if self.head.key else ''}",
                "The registry signs a checkpoint first; others can then sign the same one",
            )

    def prove(self, number: int) -> dict[str, Any]:
        """What shows to the holder of the last checkpoint that an entry is in the log; see :func:`verify_proof`.

        Raises:
            UsageError: there is no such entry, or no checkpoint that covers it.
        """
        point = self.checkpoint
        if not 1 <= number <= len(self.entries):
            raise UsageError(f"there is no entry {number}", f"There are {len(self.entries)}")
        if point is None or point.size < number:
            raise UsageError(
                f"no checkpoint covers entry {number}", "Sign one first: dcpflow registry sign FOLDER --key FILE"
            )
        steps = merkle.inclusion_proof(self._leaves(point.size), number - 1)
        return {
            "schema": PROOF,
            "entry": self.entries[number - 1].data.decode(),
            "path": [step.hex() for step in steps],
            "checkpoint": point.envelope.to_bytes().decode(),
        }

    def verify(self, older: Checkpoint | None = None, keys: Collection[PublicKey] = ()) -> None:
        """Hold the log against a checkpoint that somebody has kept, and its last one against keys that are trusted.

        Args:
            older: the kept checkpoint.
            keys: one of them must have signed both; none to trust the key that the registry names.

        Raises:
            EvidenceError: a signature is missing, or the log was cut, rewritten or forked since.
        """
        last = self.checkpoint
        if keys and not (last and last.signers(keys)):
            what = f"its last checkpoint, of {last.size} entries, has none" if last else "it has no checkpoint"
            raise EvidenceError(f"{self._name}: no signature of a trusted key: {what}")
        if older is None:
            return
        trusted = tuple(keys) or ((self.head.key,) if self.head.key else ())
        signers = older.signers(trusted)
        if trusted and not signers:
            raise EvidenceError("the older checkpoint has no signature of a trusted key that holds")
        if older.origin != self.head.origin:
            raise EvidenceError(f"the older checkpoint is one of {older.origin!r}, not of {self.head.origin!r}")
        size = len(self.entries)
        if older.size > size:
            raise EvidenceError(
                f"{self._name}: the tail was cut: there are {size} entries, and an older checkpoint was signed over "
                f"{older.size}"
            )
        proof = merkle.consistency_proof(self._leaves(size), older.size)
        roots = bytes.fromhex(self.root(size)), bytes.fromhex(older.root)
        if merkle.continues(roots[0], size, roots[1], older.size, proof):
            return
        # who has signed two states that exclude each other has kept two logs
        both = last and last.size >= older.size and last.signers(signers)
        what = "the log is forked: the same key has signed another history" if both else "the entries were rewritten"
        raise EvidenceError(
            f"{self._name}: {what}: the first {older.size} entries are not those of the older checkpoint"
        )

    @property
    def _name(self) -> str:
        return f"the registry {self.head.origin!r}"


def verify_proof(proof: Mapping[str, Any], keys: Collection[PublicKey], where: str) -> tuple[Entry, Checkpoint]:
    """The entry that a proof shows, and the checkpoint that it was shown to be in.

    Args:
        proof: what :meth:`Log.prove` gave.
        keys: one of them must have signed the checkpoint.
        where: what it was read from, for the error.

    Raises:
        EvidenceError: it shows nothing.
    """
    texts = [proof.get("entry"), proof.get("checkpoint")]
    path = proof.get("path")
    well_formed = proof.keys() == {"schema", "entry", "path", "checkpoint"} and proof["schema"] == PROOF
    if not well_formed or not all(isinstance(text, str) for text in texts) or not isinstance(path, list):
        raise EvidenceError(f"{where}: not a {PROOF} file")
    if not all(isinstance(step, str) and canonical.is_digest(f"sha256:{step}") for step in path):
        raise EvidenceError(f"{where}: the path must be hashes of 64 hex digits")
    data, signed = (str(text).encode("utf-8", "surrogatepass") for text in texts)
    point = Checkpoint.parse(signed, where)
    if not point.signers(keys):
        raise EvidenceError(f"{where}: its checkpoint has no signature of a trusted key that holds")
    value = from_file(data, where)
    number = value.get("number") if isinstance(value, dict) else None
    if type(number) is not int or not 1 <= number <= MOST:
        raise EvidenceError(f"{where}: its entry has no number")
    entry = Entry.parse(data, where, number, value.get("previous"))
    if not merkle.includes(bytes.fromhex(point.root), point.size, data, number - 1, list(map(bytes.fromhex, path))):
        raise EvidenceError(f"{where}: entry {number} is not shown to be among the {point.size} of the checkpoint")
    return entry, point


def _entry_name(number: int) -> str:
    return f"{ENTRIES}/{number:08d}.json"


def _checkpoint_name(size: int) -> str:
    return f"{CHECKPOINTS}/{size:08d}.json"
