"""Every place of a finished small audit, altered: readers notice, the auditor notices, or it is listed as harmless.

Three tamperers. The careless one alters a value and leaves every digest as it is. The local forger gives the file
the digest of its new content. The forger gives every file that names it the new digest too, makes tables, manifest
and decision anew, and lacks the nonce's consequences, the agents' conversations and the evaluator only.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dcpflow.bundles import audit
from dcpflow.bundles.format import stage_bytes
from dcpflow.bundles.tree import in_memory
from dcpflow.errors import DcpflowError
from dcpflow.evidence import folder, policies, rows, tables
from dcpflow.records import canonical, plan, receipts, registration, scores, stagefile
from dcpflow.records.episodes import EpisodeStore
from dcpflow.records.layout import Layout
from dcpflow.records.objects import ObjectStore
from dcpflow.records.packet import Packet
from dcpflow.stages.evidence import recomputed_facts
from dcpflow.stages.laboratory import Job
from dcpflow.stages.replay import replays
from dcpflow.stages.verify import score_again

if TYPE_CHECKING:
    from tests.conftest import Audit

Files = dict[str, bytes]
Place = tuple[Any, ...]

ASIDE = re.compile(r"store/.*/((aside|holder)-\d+\.json|aside-\d+\.warc)|history/.*/when\.json")
RECORD = re.compile(r"store/.*/record\.json")
TABLE = re.compile(r"evidence/(\w+)\.parquet")
RECEIPT = re.compile(r"[a-z_]+/(\w+/)?b\d+-\d+\.json")
MADE_ANEW = re.compile(r"evidence/.*|decision\.json")
PARTS_DEPTH = 4
# Words of which others have a meaning too.
WORDS = {"artifact": "model_failure", "model_failure": "artifact", "valid": "invalid", "invalid": "valid"}
# Where even the forger's work passes, and why nobody is misled.
HARMLESS = {
    "record reason": "the outcome in words, for people; the outcome itself is derived from the conversation",
}


@dataclass(frozen=True)
class Whole:
    """The audit as it was left, in memory; a table as its canonical rows.

    Attributes:
        files: every file of the results by its relative path.
        nonce_file: the audit's nonce.
    """

    files: Files
    nonce_file: Path

    @classmethod
    def of(cls, finished: Audit) -> Whole:
        files: Files = {}
        for path in sorted(finished.results.rglob("*")):
            name = str(path.relative_to(finished.results))
            if path.is_file() and not name.startswith("."):
                found = TABLE.fullmatch(name)
                data = tables.encode_rows(found[1], tables.read(path, found[1])) if found else path.read_bytes()
                files[name] = data
        return cls(files, finished.nonce_file)

    @cached_property
    def decided(self) -> folder.Decided:
        return audit.replay(opened(self.files)).decided

    @cached_property
    def passed(self) -> set[str]:
        """Names of the checks that pass, those of strata and of further neutral policies too."""
        return passing(self.decided)

    @cached_property
    def verified(self) -> list[str]:
        """The files that the decision rests on, and that tell nothing of time and place."""
        skipped = ("replay/", "private/", "task/seal.json", "objects/", "task/public/")
        return [name for name in self.files if not name.startswith(skipped) and not ASIDE.fullmatch(name)]


def passing(decided: folder.Decided) -> set[str]:
    """Names of the checks that pass; of each stratum and policy with its name."""
    document = decided.document
    of_strata = {
        f"{name}: {check['name']}"
        for name, block in {**document.get("strata", {}), **policies.blocks(document)}.items()
        for check in block["checks"]
        if check["result"] == "pass"
    }
    return of_strata | {row["name"] for row in decided.checks if row["result"] == "pass"}


@pytest.fixture(scope="module")
def whole(finished_audit: Audit) -> Whole:
    return Whole.of(finished_audit)


def opened(files: Mapping[str, bytes]) -> audit.Opened:
    return audit.Opened(Layout(in_memory("results", files)))


def refused(files: Mapping[str, bytes]) -> str:
    """Why a reader who has nothing but the files refuses them; empty if he does not."""
    try:
        audit.replay(opened(files))
    except DcpflowError as error:
        return str(error)
    return ""


# --- places ------------------------------------------------------------------------------------------------


def leaves(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every value that holds no other, by its place."""
    if isinstance(value, dict | list) and value:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*place, key))
    else:
        yield place, value


def lists(value: Any, place: Place = ()) -> Iterator[Place]:
    """Every list, by its place."""
    if isinstance(value, list):
        yield place
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from lists(inner, (*place, key))


def kind(place: Place) -> str:
    """The place without numbers, digests and other names that are data."""
    return ".".join("*" if isinstance(key, int) or re.search(r"[/:]|[0-9a-f]{16}", key) else key for key in place)


def at(value: Any, place: Place) -> Any:
    for key in place:
        value = value[key]
    return value


def altered(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value + 0.125 if value < 0.5 else value - 0.125
    if isinstance(value, str) and value in WORDS:
        return WORDS[value]
    if isinstance(value, str):
        return value[:-1] + ("1" if value[-1] != "1" else "2") if value else "x"
    return {list: ["x"], dict: {"x": 1}}.get(type(value), 0)


def edited(value: Any, place: Place, change: Callable[[Any], Any]) -> Any:
    """A copy in which one value is another."""
    if not place:
        return change(value)
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = edited(copy[place[0]], place[1:], change)
    return copy


LIST_CHANGES: dict[str, Callable[[list[Any]], list[Any]]] = {
    "removed": lambda found: found[1:],
    "added": lambda found: [*found, altered(found[-1])] if found else ["x"],
    "duplicated": lambda found: [*found, *found[:1]] or ["x", "x"],
    "reordered": lambda found: found[::-1],
}


def group(name: str) -> str:
    """What kind of file it is."""
    if found := TABLE.fullmatch(name):
        return f"table {found[1]}"
    for pattern, what in ((RECORD, "record"), (RECEIPT, "receipt")):
        if pattern.fullmatch(name):
            return what
    if not name.endswith(".json"):
        return name.split("/", maxsplit=1)[0]
    return re.sub(r"history/[^/]*", "history", name.removesuffix(".json"))


def content(name: str, data: bytes) -> Any:
    """The JSON value of a file; of a table the list of its rows."""
    return [json.loads(line) for line in data.split(b"\n")] if TABLE.fullmatch(name) else json.loads(data)


def stage_file(value: Any) -> bool:
    """Whether the content is one that carries its own digest."""
    return isinstance(value, dict) and value.keys() == {"schema", "digest", "body"}


def written(name: str, value: Any, *, digest: bool) -> bytes:
    """A file with this content; ``digest``: with the digest that its new content has."""
    if TABLE.fullmatch(name):
        return b"\n".join(canonical.encode(row) for row in value)
    if digest and stage_file(value):
        return stage_bytes(value["schema"], value["body"])
    return canonical.encode(value) + (b"" if RECORD.fullmatch(name) else b"\n")


def tell(counts: Counter[str], what: str) -> None:
    shown = ", ".join(f"{name} {number}" for name, number in sorted(counts.items()))
    print(f"\n{counts.total()} {what}: {shown}", file=sys.stderr)


# --- the careless tamperer ---------------------------------------------------------------------------------


def own_reader(whole: Whole, name: str) -> Callable[[bytes], None]:
    """What reads the file, given its bytes, and follows the digest by which it is known."""
    layout = opened(whole.files).layout
    contract = whole.decided.evidence.view.registered.contract

    def with_(data: bytes) -> Layout:
        return opened({**whole.files, name: data}).layout

    def read_table(data: bytes) -> None:
        manifest, _ = stagefile.read(layout.evidence / "manifest.json", folder.SCHEMA, "the manifest")
        expected = {**manifest["tables"], "checks": tables.rows_digest("checks", whole.decided.checks)}
        table = TABLE.fullmatch(name)[1]  # type: ignore[index]
        if tables.rows_digest(table, tables.read(with_(data).root / name, table)) != expected[table]:
            raise DcpflowError("other rows")

    def read_record(data: bytes) -> None:
        path, line = lines[name]
        receipts.resolve(line, EpisodeStore(with_(data).store, contract), path)

    def read_stage_file(data: bytes) -> None:
        stagefile.read(with_(data).root / name, json.loads(whole.files[name])["schema"], "the file")

    if TABLE.fullmatch(name):
        read = read_table
    elif RECORD.fullmatch(name):
        store = EpisodeStore(layout.store, contract)
        listed = [(path, line) for path in folder.receipts(layout) for line in receipts.read(path, contract)]
        lines = {
            str(store.record_path(line.key, line.attempt).relative_to(layout.root)): (path, line)
            for path, line in listed
        }
        read = read_record
    elif name.startswith("registration/"):
        read = lambda data: registration.read_registration(with_(data).registration)  # noqa: E731
    else:
        read = read_stage_file
    read(whole.files[name])
    return read


def each_value_altered(name: str, data: bytes) -> Iterator[bytes]:
    """The file's bytes with one value altered after the other, and every digest as it is."""
    lines = data.split(b"\n") if TABLE.fullmatch(name) else [data]
    for number, line in enumerate(lines):
        value = json.loads(line)
        for place, _ in leaves(value):
            new = canonical.encode(edited(value, place, altered))
            yield b"\n".join([*lines[:number], new, *lines[number + 1 :]])


def test_no_value_of_any_file_can_be_altered_under_its_digest(whole: Whole) -> None:
    counts: Counter[str] = Counter()
    for name in [name for name in whole.verified if name != "decision.json"]:
        read = own_reader(whole, name)
        for data in each_value_altered(name, whole.files[name]):
            with pytest.raises(DcpflowError):
                read(data)
            counts[group(name).partition(" ")[0]] += 1
    tell(counts, "values altered, each caught by the file's own reader")
    assert counts.total() > 4000


def test_a_decision_with_another_number_is_not_the_one_that_follows(whole: Whole) -> None:
    """Verifying makes it anew and compares the bytes, so that one value stands for all of them."""
    value = json.loads(whole.files["decision.json"])
    data = written("decision.json", edited(value, ("gate2", "challengers", "hits"), altered), digest=False)
    assert "is not the decision that its evidence gives" in refused({**whole.files, "decision.json": data})


def test_no_object_can_be_altered(whole: Whole) -> None:
    counts: Counter[str] = Counter()
    for name, data in whole.files.items():
        if not name.startswith("objects/"):
            continue
        digest = "sha256:" + name.removeprefix("objects/").replace("/", "")
        for number, line in enumerate(data.split(b"\n")):
            lines = data.split(b"\n")
            lines[number] = line[:-1] + b" " if line else b" "
            layout = opened({**whole.files, name: b"\n".join(lines)}).layout
            with pytest.raises(DcpflowError, match="was altered"):
                ObjectStore(layout.objects).get(digest)
            counts["lines"] += 1
    tell(counts, "lines of transcripts, candidates and probes altered, each caught")
    assert counts.total() > 500


def test_no_file_can_be_shortened_emptied_or_taken_away(whole: Whole) -> None:
    counts: Counter[str] = Counter()
    seen: set[str] = set()
    for name in (*whole.verified, *(name for name in whole.files if name.startswith(("objects/", "task/public/")))):
        if group(name) in seen and not name.startswith(("registration/", "history/")):
            continue
        seen.add(group(name))
        data = whole.files[name]
        without = {other: held for other, held in whole.files.items() if other != name}
        for how, files in {
            "shortened": {**without, name: data[: len(data) // 2]},
            "emptied": {**without, name: b""},
            "taken away": without,
        }.items():
            assert refused(files), (name, how)
            counts[how] += 1
    tell(counts, "files damaged, each caught by verifying the whole")


# --- the local forger --------------------------------------------------------------------------------------


def places(
    whole: Whole, *, of_lists: bool = False, with_records: bool = False
) -> dict[tuple[str, str], tuple[str, Any, Place]]:
    """One file, its content and a place in it for each kind of place in each kind of file.

    The decision is left out, which verifying makes anew byte for byte. A history entry repeats the registered parts.
    """
    found: dict[tuple[str, str], tuple[str, Any, Place]] = {}
    for name in [name for name in whole.verified if name != "decision.json"]:
        value = content(name, whole.files[name])
        found_in = lists(value) if of_lists else (place for place, _ in leaves(value))
        for place in found_in:
            if of_lists and TABLE.fullmatch(name) and place:
                continue  # a row or a cell: rows are what is added, removed or moved in a table
            if not (of_lists or with_records or stage_file(value)) and place != next(leaves(value))[0]:
                continue  # it carries no digest, so that forging it in one place is what the careless one does
            depth = PARTS_DEPTH if name.startswith("history/") else len(place)
            found.setdefault((group(name), kind(place[:depth])), (name, value, place))
    return found


@pytest.mark.parametrize("what", ["values", "lists"])
def test_a_file_with_the_digest_of_its_new_content_does_not_fit_the_others(whole: Whole, what: str) -> None:
    counts: Counter[str] = Counter()
    changes = {"altered": altered} if what == "values" else LIST_CHANGES
    for (kind_of_file, _), (name, value, place) in places(whole, of_lists=what == "lists").items():
        for how, change in changes.items():
            new = edited(value, place, change)
            data = written(name, new, digest=True)
            if data == whole.files[name]:
                continue
            assert refused({**whole.files, name: data}), (name, place, how)
            counts[kind_of_file.partition(" ")[0]] += 1
    tell(counts, f"places forged in one file ({what}), each caught by verifying the whole")


# --- the forger --------------------------------------------------------------------------------------------


def forged(whole: Whole, name: str, value: Any) -> tuple[Files, dict[str, str]]:
    """All files once one has other content, every digest redone; and what each old digest has become.

    Raises:
        DcpflowError: no decision can be reached from them.
    """
    files, renamed = dict(whole.files), {}
    pending = {name: written(name, value, digest=True)}
    while pending:
        changed, data = pending.popitem()
        old, new = (known_by(changed, held) for held in (files[changed], data))
        files[changed] = data
        if old == new:
            continue
        renamed[old] = new
        for other, held in {**files, **pending}.items():
            if old.encode() in held and other in whole.verified and not MADE_ANEW.fullmatch(other):
                text = held.replace(old.encode(), new.encode())
                pending[other] = written(other, json.loads(text), digest=True)
    layout = opened(files).layout
    seen = folder.load_view(layout, folder.receipts(layout), folder.scores(layout))
    known = {renamed.get(old, old): facts for old, facts in whole.decided.evidence.episode_facts.items()}
    made = {table: rows.all_rows(seen, known)[table] for table in folder.TABLES}
    files |= {f"evidence/{table}.parquet": tables.encode_rows(table, found) for table, found in made.items()}
    digests = {table: tables.rows_digest(table, found) for table, found in made.items()}
    files["evidence/manifest.json"] = stage_bytes(folder.SCHEMA, folder.manifest_body(seen, digests))
    layout = opened(files).layout
    decided = folder.decide(layout, folder.receipts(layout), folder.scores(layout))
    files["decision.json"] = decided.to_bytes()
    files["evidence/checks.parquet"] = tables.encode_rows("checks", decided.checks)
    return files, renamed


def known_by(name: str, data: bytes) -> str:
    """The digest under which others know the file."""
    return canonical.digest(data) if RECORD.fullmatch(name) else str(json.loads(data)["digest"])


def caught_by(whole: Whole, name: str, value: Any) -> str:
    """Who notices the forger's work: ``reader``, ``check``, ``auditor``, or nobody."""
    try:
        files, renamed = forged(whole, name, value)
        decided = audit.replay(opened(files)).decided
    except (DcpflowError, *audit.UNFORESEEN):
        return "reader"
    if whole.passed - passing(decided) or adequacy(decided) != adequacy(whole.decided):
        return "check"
    job, view, old = Job(opened(files).layout.root, whole.nonce_file, ""), decided.evidence.view, whole.decided.evidence
    same = {renamed.get(digest, digest): digest for digest in old.episode_facts}
    apart = ((job.of(plan.stratum_of(n)), part, old.view.parts[n]) for n, part in view.parts.items())
    parts = [(job, view, old.view), *apart]
    replayed = {
        e.digest: old.episode_facts[same[e.digest]]["transcript_replays"]
        if e.digest in old.episode_facts
        else replays(one.bench, e.record, e.transcript, part.packets.get(e.record.packet, Packet()))
        for one, part, _ in parts
        for e in part.episodes
    }
    if recomputed_facts(job, view, replayed) != (decided.evidence.episode_facts, decided.evidence.facts):
        return "auditor"
    try:
        for one, part, before in parts:
            for phase in part.scores:
                if part.scores[phase] != before.scores.get(phase):
                    score_again(one, phase, part)
    except DcpflowError:
        return "auditor"
    return ""


def adequacy(decided: folder.Decided) -> Any:
    return decided.document["gate2"]["adequacy"]


@pytest.mark.parametrize(
    "what",
    ["record", "scores/target", "scores/controls", "evidence/facts", "target/checkpoint", "target/packet"],
)
def test_what_a_forger_rewrites_everywhere_is_noticed_or_harmless(whole: Whole, what: str) -> None:
    counts: Counter[str] = Counter()
    harmless = set()
    for (kind_of_file, kind_of_place), (name, value, place) in places(whole, with_records=True).items():
        if kind_of_file != what or place == ("digest",):
            continue
        noticed = caught_by(whole, name, edited(value, place, altered))
        counts[noticed or "nobody"] += 1
        if not noticed:
            harmless.add(f"{what} {kind_of_place}")
    tell(counts, f"places of {what} forged everywhere, noticed by")
    assert harmless == {place for place in HARMLESS if place.startswith(what)}


# --- strata ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stratified(stratified_audit: Audit) -> Whole:
    return Whole.of(stratified_audit)


def of_contract(whole: Whole, stratum: str = "") -> str:
    """The folder of the store in which the challengers of the audit, or of its stratum, lie."""
    view = whole.decided.evidence.view
    registered = view.strata[stratum].registered if stratum else view.registered
    return f"store/{registered.contract.removeprefix('sha256:')}/challengers"


def receipts_of(whole: Whole, stratum: str) -> str:
    return next(name for name in whole.files if name.startswith(f"challengers/{stratum}/"))


def moved(whole: Whole, frm: str, to: str, **fields: str) -> Files:
    """All files once the first challenger's record of one stratum stands, and is listed, as that of another."""
    place = "00001/withheld/1/record.json"
    source = f"{of_contract(whole, '' if frm == 'matched' else frm)}/{place}"
    target = f"{of_contract(whole, '' if to == 'matched' else to)}/{place}"
    record = canonical.encode(json.loads(whole.files[source]) | fields)
    listing = receipts_of(whole, to)
    body = json.loads(whole.files[listing])["body"]
    body["episodes"][0]["record"] = canonical.digest(record)
    return {**whole.files, target: record, listing: stage_bytes(receipts.SCHEMA, body)}


@pytest.mark.parametrize(("frm", "to"), [("strong", "matched"), ("matched", "strong")])
def test_a_record_cannot_be_listed_in_another_stratum(stratified: Whole, frm: str, to: str) -> None:
    assert "belongs to another contract" in refused(moved(stratified, frm, to))


@pytest.mark.parametrize(("frm", "to"), [("strong", "matched"), ("matched", "strong")])
def test_a_record_that_claims_another_stratum_has_other_draws(stratified: Whole, frm: str, to: str) -> None:
    """A forger who also rewrites what the record says of its contract: a hit cannot be moved out of sight, or in."""
    view = stratified.decided.evidence.view
    contract = view.registered.contract if to == "matched" else view.strata[to].registered.contract
    files = moved(stratified, frm, to, contract=contract, stratum=to)
    assert "was made from another record" in refused(files)
    # the scores and the tables redone too
    layout = opened(files).layout
    name = "scores/challengers.json" if to == "matched" else f"scores/challengers/{to}.json"
    listed = json.loads(files[receipts_of(stratified, to)])["body"]["episodes"][0]["record"]
    before = json.loads(stratified.files[receipts_of(stratified, to)])["body"]["episodes"][0]["record"]
    other = "scores/challengers.json" if frm == "matched" else f"scores/challengers/{frm}.json"
    (row,) = [r for r in json.loads(files[other])["body"]["rows"] if r["slot"] == 1 and r["role"] == "candidate"]
    body = json.loads(files[name].replace(before.encode(), listed.encode()))["body"]
    body["rows"] = [row | {"record": listed, "position": r["position"]} if r["slot"] == 1 else r for r in body["rows"]]
    files[name] = stage_bytes(scores.SCHEMA, body)
    layout = opened(files).layout
    seen = folder.load_view(layout, folder.receipts(layout), folder.scores(layout))
    part = seen if to == "matched" else seen.strata[to]
    job = Job(layout.root, stratified.nonce_file, "")
    of_episodes, _ = recomputed_facts(job, seen, {})
    facts = of_episodes[listed]
    assert not facts["draw_matches"] and not facts["hello_matches"]
    assert [e.digest for e in part.of("challengers")].count(listed) == 1


@pytest.mark.parametrize(
    ("what", "keys"),
    [
        ("record", {"contract", "registration", "stratum", "prior_seal", "draw", "outcome", "candidates"}),
        ("scores", {"inputs", "units", "position"}),
    ],
)
def test_what_a_forger_rewrites_of_a_stratum_is_noticed(stratified: Whole, what: str, keys: set[str]) -> None:
    """What tells its challengers from others, and what they came to; all else is read by the same code as theirs."""
    record = f"{of_contract(stratified, 'strong')}/00002/withheld/1/record.json"
    name = {"record": record, "scores": "scores/challengers/strong.json"}[what]
    value = content(name, stratified.files[name])
    chosen = {kind(place): place for place, _ in leaves(value) if keys & set(map(str, place))}
    noticed = {kind(place): caught_by(stratified, name, edited(value, place, altered)) for place in chosen.values()}
    tell(Counter(noticed.values()), f"places of a stratum's {what} forged everywhere, noticed by")
    assert len(noticed) >= len(keys) and all(noticed.values()), noticed


def test_a_stratum_cannot_be_registered_under_another_contract(stratified: Whole) -> None:
    """Its agent or limits rewritten with every digest of the registration redone, but for what the records name."""
    name = "registration/parts/design.json"
    part = json.loads(stratified.files[name])
    part["strata"]["strong"]["config"]["limits"]["experiments"] = 4
    assert caught_by(stratified, name, part) == "reader"


def test_a_stratum_cannot_be_left_out(stratified: Whole) -> None:
    view = stratified.decided.evidence.view
    lost = {
        name: data
        for name, data in stratified.files.items()
        if not name.startswith(f"{of_contract(stratified, 'strong')}")
    }
    assert "is missing" in refused(lost)
    document = json.loads(stratified.files["decision.json"])
    del document["strata"], document["headline"]
    assert "is not the decision" in refused({**stratified.files, "decision.json": canonical.encode(document) + b"\n"})
    assert view.strata.keys() == {"strong"}


# --- further neutral policies ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def several(audit_of_policies: Audit) -> Whole:
    return Whole.of(audit_of_policies)


def branch_of(whole: Whole, stage: str, arm: str, slot: int = 1) -> str:
    contract = whole.decided.evidence.view.registered.contract.removeprefix("sha256:")
    return f"store/{contract}/{stage}/{slot:05d}/{arm}/1/record.json"


@pytest.mark.parametrize(
    ("what", "keys"),
    [
        ("record", {"registration", "stage", "arm", "prior_seal", "draw", "outcome", "candidates", "transcript"}),
        ("scores", {"inputs", "units", "position", "validity"}),
        ("receipt", {"stage", "slot", "arm", "record"}),
    ],
)
def test_what_a_forger_rewrites_of_a_neutral_policy_is_noticed(several: Whole, what: str, keys: set[str]) -> None:
    name = {
        "record": branch_of(several, "pairs_lagged_sham", "lagged_sham", 2),
        "scores": "scores/pairs_lagged_sham.json",
        "receipt": next(name for name in several.files if name.startswith("pairs_lagged_sham/")),
    }[what]
    value = content(name, several.files[name])
    chosen = {kind(place): place for place, _ in leaves(value) if keys & set(map(str, place))}
    noticed = {kind(place): caught_by(several, name, edited(value, place, altered)) for place in chosen.values()}
    tell(Counter(noticed.values()), f"places of a neutral policy's {what} forged everywhere, noticed by")
    assert len(noticed) >= len(keys) and all(noticed.values()), noticed


@pytest.mark.parametrize("frm", ["pairs", "pairs_lagged_sham"])
def test_a_pair_cannot_be_shown_as_that_of_another_policy(several: Whole, frm: str) -> None:
    """Its records rewritten, with all that names them: neither draws nor conversation are those of that policy."""
    to, arms = "pairs_reference_null", {"pairs": "neutral", "pairs_lagged_sham": "lagged_sham"}
    source = json.loads(several.files[branch_of(several, frm, arms[frm])])
    name = branch_of(several, to, "reference_null")
    moved = {**source, "stage": to, "arm": "reference_null"}
    assert caught_by(several, name, moved) in {"reader", "check", "auditor"}
    drawn = {**moved, "draw": json.loads(several.files[name])["draw"], "unit": json.loads(several.files[name])["unit"]}
    assert caught_by(several, name, drawn) in {"reader", "check", "auditor"}


def test_a_neutral_policy_cannot_be_left_out(several: Whole) -> None:
    document = json.loads(several.files["decision.json"])
    del document["neutral_policies"]["further"]["lagged_sham"]
    changed = {**several.files, "decision.json": canonical.encode(document) + b"\n"}
    assert "is not the decision" in refused(changed)
    for lost in ("pairs_lagged_sham/", branch_of(several, "pairs_lagged_sham", "truthful"), "scores/pairs_lagged_sham"):
        assert refused({name: data for name, data in several.files.items() if not name.startswith(lost)}), lost
    facts = json.loads(several.files["evidence/facts.json"])["body"]
    del facts["facts"]["policies"]["lagged_sham"]
    bare = {**several.files, "evidence/facts.json": stage_bytes("dcpflow.facts/1", facts)}
    assert "of other strata or neutral policies" in refused(bare)
