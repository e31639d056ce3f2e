"""Whether a task keeps the promises of ``Task`` and ``Engine``, on which audits of its claims rest.

It needs nothing but the interface. Candidates are the task's own baseline, the known solutions of several hidden states
and its ``experiment_examples``; what is refused is tried with hostile text.

What cannot be shown this way: that hidden states are spread evenly, that a presentation keeps nothing that tells
instances apart, and that a program which is hostile to this very check behaves elsewhere as it does here.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from functools import cached_property, partial
from typing import Any, NamedTuple

from dcpflow.records.canonical import encode
from dcpflow.tasks.base import CandidateInvalid, Engine, Task
from dcpflow.tasks.places import place_of

OTHER_DRAWS = 200
PRESENTATIONS = 3
STATES = 4
EXPERIMENT_MS = 10.0
# An audit of 334 episodes scores some 600 artifacts.
SCORE_MS = 2_000.0
# Shorter pieces of sealed material could stand somewhere by accident.
_PIECE = 12
_DETAIL = 300

HOSTILE = (
    *("", " ", "\0", "null", "true", "0", '"', "{", "[]", "{}", '""', "[null]", '{"": {}}', "NaN", "[1e999]", "\ud800"),
    *(
        "[" * 5_000,
        '["]",' * 1_500,
        '{"a":' * 3_000,
        "9" * 6_000,
        "[" + "9" * 6_000 + "]",
        '{"a": 1, "a": 2}',
        "x" * 1_000_000,
    ),
    *("__import__('os').system('true')", "'; DROP TABLE x; --", "\u202e\ufeff\u2028", "[[[[[[]]]]]]", "-- \n" * 20),
)


class Finding(NamedTuple):
    """What one check of a task found.

    Attributes:
        name: Stable name of the check.
        ok: Whether the task keeps this promise.
        detail: What was tried, or what is wrong, in one line.
    """

    name: str
    ok: bool
    detail: str


class Broken(Exception):
    """The task breaks the promise under check; ``str()`` of it says how."""


class _Bench:
    """The task opened once, with what the checks try on it."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.secrets = [_bytes("hidden", number) for number in range(STATES)]

    @cached_property
    def material(self) -> dict[str, bytes]:
        return self.task.public_material()

    @cached_property
    def engine(self) -> Engine:
        engine = self.task.open(self.material)
        engine.warm()
        return engine

    @cached_property
    def states(self) -> list[dict[str, Any]]:
        return [self.task.hidden(secret) for secret in self.secrets]

    @cached_property
    def decoys(self) -> list[dict[str, Any]]:
        return [self.task.decoy(state, _bytes("decoy", number)) for number, state in enumerate(self.states)]

    @cached_property
    def sealed(self) -> dict[str, Any]:
        return self.task.sealed(_bytes("sealed"))

    @cached_property
    def presentations(self) -> list[dict[str, Any]]:
        return [self.task.presentation(_bytes("presentation", number)) for number in range(PRESENTATIONS)]

    @cached_property
    def fingerprint(self) -> str:
        """What a fresh object of the task gives."""
        return fingerprint(self.task.again())

    @property
    def nothing_hidden(self) -> bool:
        """Whether all draws give one hidden state: then there is nothing that a reply could tell or keep back."""
        return all(self.task.hidden(_bytes("any", number)) == self.states[0] for number in range(20))

    def artifacts(self, presentation: dict[str, Any]) -> list[str]:
        """The baseline and the known solution of each state."""
        known = [self.task.known_solution(presentation, state) for state in self.states]
        return [self.task.baseline(presentation), *known]

    def answers(self, presentation: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """The artifacts, each with a hidden state to score it for: some are solutions of it, others of another one."""
        others = [self.states[-1], *self.states[:2], *self.states[:2]]
        return list(zip(self.artifacts(presentation), others, strict=True))

    def experiments(self, presentation: dict[str, Any]) -> list[str]:
        """Candidates that experiments take."""
        tried = [*self.artifacts(presentation), *self.task.experiment_examples(presentation)]
        valid = [candidate for candidate in dict.fromkeys(tried) if self._accepted(presentation, candidate)]
        if not valid:
            raise Broken("neither the baseline nor a known solution is a valid experiment: offer experiment_examples")
        return valid

    def _accepted(self, presentation: dict[str, Any], candidate: str) -> bool:
        try:
            self.engine.neutral(presentation, candidate)
        except CandidateInvalid:
            return False
        return True

    def mean(self, presentation: dict[str, Any], candidate: str, state: dict[str, Any]) -> float:
        """The mean score of an artifact."""
        units = self.engine.score(presentation, candidate, state, self.sealed)
        return math.fsum(units.values()) / len(units)


IN_SHORT = (
    *("settings_are_checked", "presentations_differ", "first_observations_keep_the_secret", "replies_are_alike"),
    *("truthful_replies_inform", "baseline_is_valid", "null_task_has_sensitivity"),
)
"""Checks that take a second of most tasks, and without which no audit of them can end well."""

_Check = Callable[[_Bench], str]
_CHECKS: list[_Check] = []


def _check(function: _Check) -> _Check:
    _CHECKS.append(function)
    return function


def check(task: Task, names: Collection[str] = ()) -> list[Finding]:
    """Run every check on a task.

    Args:
        task: The task, with the settings that it is to be used with. Its class can be imported by name.
        names: Run these alone.

    Returns:
        One finding for each check, in a fixed order. What the task raises is a finding, never an error.
    """
    bench = _Bench(task)
    return [_finding(function, bench) for function in _CHECKS if not names or function.__name__ in names]


def _finding(function: _Check, bench: _Bench) -> Finding:
    name = function.__name__
    try:
        return Finding(name, True, function(bench))
    except Broken as broken:
        return Finding(name, False, _line(str(broken)))
    except CandidateInvalid as refused:
        return Finding(name, False, _line(f"a candidate of the task's own was refused: {refused}"))
    except Exception as error:
        return Finding(name, False, _line(f"the task raised {type(error).__name__}: {error}"))


def _line(text: str) -> str:
    shown = "".join(letter if letter.isprintable() else " " for letter in text)
    return shown if len(shown) <= _DETAIL else f"{shown[: _DETAIL - 3]}..."


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise Broken(otherwise)


def _bytes(*what: object) -> bytes:
    return hashlib.sha256(repr(("conformance", *what)).encode()).digest()


# --- settings, draws, public material ----------------------------------------------------------------------


@_check
def settings_are_checked(bench: _Bench) -> str:
    """The settings are complete; an unknown one and an empty seed are refused."""
    kind, settings, seed = type(bench.task), dict(bench.task.settings), bench.task.public_seed
    _require(set(settings) == set(kind.default_settings()), "settings and default settings have different keys")
    _require(dict(bench.task.again().settings) == settings, "made anew from its settings, the task has others")
    for given, public_seed in (({**settings, "no such setting": 1}, seed), (settings, "")):
        try:
            kind(given, public_seed)
        except ValueError as error:
            _require(not public_seed or "no such setting" in str(error), "an unknown setting is refused without a name")
        else:
            raise Broken("an unknown setting is accepted" if public_seed else "an empty public seed is accepted")
    return f"{len(settings)} settings"


@_check
def draws_have_32_bytes(bench: _Bench) -> str:
    """Draws of another length are refused, so that no short secret is used by mistake."""
    task = bench.task
    draws: dict[str, Callable[[bytes], object]] = {
        "hidden": task.hidden,
        "sealed": task.sealed,
        "presentation": task.presentation,
        "decoy": lambda secret: task.decoy(bench.states[0], secret),
    }
    for name, draw in draws.items():
        for length in (0, 31, 33):
            try:
                draw(b"x" * length)
            except ValueError:
                continue
            raise Broken(f"{name} accepts {length} bytes")
    return f"{', '.join(draws)} refuse other lengths"


@_check
def states_are_json(bench: _Bench) -> str:
    """What is recorded or committed to reads back from canonical JSON as it was."""
    task, shown = bench.task, bench.presentations[0]
    for name, value in {
        "hidden": bench.states[0],
        "decoy": bench.decoys[0],
        "sealed": bench.sealed,
        "presentation": shown,
        "first observations": task.first_observations(shown, bench.states[0], ["a file"]),
        "constant reply": task.constant_reply(shown),
        "action schemas": task.action_schemas(),
        "engine identity": task.engine_identity(),
        "unit ids": list(task.unit_ids()),
    }.items():
        _require(json.loads(encode(value)) == value, f"{name} is something else after a way through JSON")
    return "all drawn and told values survive canonical JSON"


@_check
def presentations_differ(bench: _Bench) -> str:
    """Every draw shows the task otherwise: that is what makes episodes independent draws."""
    task, count = bench.task, 50
    told = {encode(task.first_observations(task.presentation(_bytes("differ", n)))) for n in range(count)}
    _require(len(told) == count, f"{count} presentations give {len(told)} different first observations")
    return f"{count} presentations give as many different first observations"


# --- secrets -----------------------------------------------------------------------------------------------


def _said(task: Task, engine: Engine, bench: _Bench) -> dict[str, bytes]:
    """All that an agent is told, by name."""
    said = {}
    said["background"] = task.background().encode()
    said["actions"] = encode(task.action_schemas())
    for number, shown in enumerate(bench.presentations):
        said[f"first observations {number}"] = encode(task.first_observations(shown))
        said[f"revealing first observations {number}"] = encode(task.first_observations(shown, bench.states[0]))
        said[f"constant reply {number}"] = encode(task.constant_reply(shown))
        for place, candidate in enumerate(bench.experiments(shown)):
            said[f"neutral reply {number}.{place}"] = encode(engine.neutral(shown, candidate))
            said[f"reply {number}.{place}"] = encode(engine.experiment(shown, candidate, bench.states[0]))
    return said


@_check
def sealed_material_stays_sealed(bench: _Bench) -> str:
    """Sealed material stands in nothing that is public or said, and drawing or using it changes nothing that is."""
    task = bench.task
    fresh = task.again()
    before = _said(fresh, fresh.open(bench.material), bench)
    engine = task.open(bench.material)
    draws = [bench.sealed, *(task.sealed(_bytes("sealed", number)) for number in range(2))]
    for sealed in draws:
        engine.warm(sealed)
        for artifact in bench.artifacts(bench.presentations[0]):
            engine.score(bench.presentations[0], artifact, bench.states[0], sealed)
    after = _said(task, engine, bench)
    for name, data in after.items():
        _require(data == before[name], f"the {name} changes once sealed units were drawn and used")
    _require(task.public_material() == bench.material, "public material changes once sealed units were drawn and used")
    after |= {f"public file {name}": data for name, data in bench.material.items()}
    open_words = {*task.unit_ids()}
    pieces = {piece for sealed in draws for piece in _pieces(sealed, open_words)}
    for name, data in after.items():
        found = next((piece for piece in pieces if piece in data), None)
        _require(found is None, f"the {name} holds sealed material: {found!r}")
    return f"{len(pieces)} pieces of sealed material in none of {len(after)} texts"


def _pieces(value: Any, open_words: set[str]) -> Iterator[bytes]:
    """Parts of sealed material that are long enough to be told from accidents, as they would be written."""
    if isinstance(value, (dict, list)):
        yield from (piece for piece in (encode(value),) if len(piece) >= _PIECE)
        for item in value.values() if isinstance(value, dict) else value:
            yield from _pieces(item, open_words)
    elif isinstance(value, str) and len(value) >= _PIECE and value not in open_words:
        yield value.encode()


@_check
def first_observations_keep_the_secret(bench: _Bench) -> str:
    """E0 tells the hidden state where it is revealed, and depends on it nowhere else."""
    task, shown = bench.task, bench.presentations[0]
    bare = task.first_observations(shown)
    told = [task.first_observations(shown, state, ["a file", "another"]) for state in bench.states]
    for first in told:
        _require({key: first[key] for key in bare if key in first} == bare, "revealing changes what E0 says otherwise")
        _require(first.get("quote") == ["a file", "another"], 'E0 does not list under "quote" the files to quote')
        _require(set(first) - set(bare) > {"quote"}, "E0 with a revealed state has no key more than without")
    different = {encode(first) for first in told}
    _require(len(different) == len({encode(state) for state in bench.states}), "E0 does not tell hidden states apart")
    return f"{len(different)} different revealed states, each told beside the same other keys"


# --- replies -----------------------------------------------------------------------------------------------


@_check
def replies_are_alike(bench: _Bench) -> str:
    """Truthful, misleading, neutral and constant replies have one schema and one serialised length."""
    task, engine = bench.task, bench.engine
    forms: dict[object, str] = {}
    count = 0
    for shown in bench.presentations:
        replies = {"constant": task.constant_reply(shown)}
        for place, candidate in enumerate(bench.experiments(shown)):
            replies[f"neutral {place}"] = engine.neutral(shown, candidate)
            for number, state in enumerate([*bench.states, *bench.decoys]):
                replies[f"truthful {place}.{number}"] = engine.experiment(shown, candidate, state)
        _require(
            len({_fields(reply) for reply in replies.values()}) == 1,
            "replies to one episode have different fields in different arms",
        )
        for name, reply in replies.items():
            forms.setdefault((_shape(reply), len(encode(reply))), name)
        count += len(replies)
    _require(len(forms) == 1, f"replies have {len(forms)} forms, first in: {', '.join(forms.values())}")
    return f"{count} replies of one form"


def _fields(value: Any) -> object:
    """The names of all fields, in place."""
    if isinstance(value, dict):
        return tuple((key, _fields(value[key])) for key in sorted(value))
    return tuple(map(_fields, value)) if isinstance(value, list) else None


def _shape(value: Any) -> object:
    """Structure, types and text lengths, without the presented names. Numbers must be texts of fixed width."""
    if isinstance(value, dict):
        return tuple(sorted((len(key), _shape(item)) for key, item in value.items()))
    if isinstance(value, list):
        return tuple(map(_shape, value))
    _require(isinstance(value, str), f"a reply holds {value!r}, which is no text: its length would tell its value")
    return len(value)


@_check
def neutral_replies_do_not_interfere(bench: _Bench) -> str:
    """Under 200 other hidden draws, for the same candidate, the neutral reply has the same bytes."""
    task, engine, shown = bench.task, bench.engine, bench.presentations[0]
    candidates = bench.experiments(shown)
    first = [encode(engine.neutral(shown, candidate)) for candidate in candidates]
    constant = encode(task.constant_reply(shown))
    for number in range(OTHER_DRAWS):
        state = task.hidden(_bytes("other", number))
        place = number % len(candidates)
        engine.experiment(shown, candidates[place], state)
        same = encode(engine.neutral(shown, candidates[place])) == first[place]
        _require(same, f"after {number + 1} other hidden draws the neutral reply to one candidate has other bytes")
        _require(encode(task.constant_reply(shown)) == constant, "the constant reply changes with hidden draws")
    other = task.again().open(bench.material)
    again = [encode(other.neutral(shown, candidate)) for candidate in candidates]
    _require(again == first, "an engine that never met a hidden state gives other neutral replies")
    return f"{OTHER_DRAWS} other hidden draws, {len(candidates)} candidates: the same bytes"


@_check
def truthful_replies_inform(bench: _Bench) -> str:
    """A truthful reply depends on the hidden state, and a decoy's on the decoy."""
    if bench.nothing_hidden:
        return "nothing is hidden, so no reply has anything to tell"
    shown, engine = bench.presentations[0], bench.engine
    candidates = bench.experiments(shown)
    for state, decoy in zip(bench.states, bench.decoys, strict=True):
        told, misled = (
            [encode(engine.experiment(shown, candidate, known)) for candidate in candidates] for known in (state, decoy)
        )
        _require(told != misled, "the replies are the same for a hidden state and its decoy")
    return f"{len(bench.states)} hidden states and their decoys are told apart"


@_check
def refusals_are_alike(bench: _Bench) -> str:
    """Hostile text is refused as invalid, or accepted, alike in every arm, with the same reason, in time."""
    engine, shown = bench.engine, bench.presentations[0]
    refused = 0
    for text in HOSTILE:
        start = time.monotonic()
        replies = [
            _outcome(partial(engine.neutral, shown, text)),
            *(_outcome(partial(engine.experiment, shown, text, state)) for state in bench.states),
        ]
        score = _outcome(partial(engine.score, shown, text, bench.states[0], bench.sealed))
        seconds = time.monotonic() - start
        reasons = {reason for reason in replies if reason is not None}
        _require(len(set(replies)) == 1, f"{text[:20]!r} gets different refusals in different arms: {sorted(reasons)}")
        for reason in (*reasons, *([score] if score is not None else [])):
            _require(0 < len(reason) <= _DETAIL, f"{text[:20]!r} is refused with {len(reason)} characters")
            encode(reason)
        _require(seconds < 3, f"{text[:20]!r} takes {seconds:.1f} s")
        refused += replies[0] is not None
    return f"{refused} of {len(HOSTILE)} hostile texts refused, with one reason in every arm"


def _outcome(ask: Callable[[], object]) -> str | None:
    """The reason of a refusal, or None."""
    try:
        ask()
    except CandidateInvalid as refused:
        return str(refused)
    return None


@_check
def replies_are_in_time(bench: _Bench) -> str:
    """Experiments and scores are quick enough that no reply is late because of what it says."""
    shown, engine, state = bench.presentations[0], bench.engine, bench.states[0]
    engine.warm(bench.sealed)
    experiments, artifacts = bench.experiments(shown), bench.artifacts(shown)
    for name, allowed, asked in (
        ("truthful reply", EXPERIMENT_MS, [partial(engine.experiment, shown, text, state) for text in experiments]),
        ("neutral reply", EXPERIMENT_MS, [partial(engine.neutral, shown, text) for text in experiments]),
        ("score", SCORE_MS, [partial(engine.score, shown, text, state, bench.sealed) for text in artifacts]),
    ):
        taken = max(map(_quickest, asked))
        _require(taken <= allowed, f"the slowest {name} takes {taken:.1f} ms, of {allowed:g}")
    return f"replies within {EXPERIMENT_MS:g} ms, scores within {SCORE_MS:g} ms"


def _quickest(ask: Callable[[], object]) -> float:
    """Milliseconds of the quickest of several repetitions: what a busy machine adds is left out."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        ask()
        times.append(time.perf_counter() - start)
    return 1_000 * min(times)


# --- scores ------------------------------------------------------------------------------------------------


@_check
def scores_are_in_range(bench: _Bench) -> str:
    """Every unit, in registered order, has a score from 0 to 1."""
    units = list(bench.task.unit_ids())
    _require(bool(units) and len(set(units)) == len(units), "the unit ids are none or not unique")
    count = 0
    for shown in bench.presentations:
        for artifact, state in bench.answers(shown):
            scores = bench.engine.score(shown, artifact, state, bench.sealed)
            _require(list(scores) == units, "the scored units are not the registered ones in their order")
            for unit, value in scores.items():
                good = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1
                _require(good, f"unit {unit} has the score {value!r}")
            count += 1
    return f"{count} artifacts scored on {len(units)} units"


@_check
def baseline_is_valid(bench: _Bench) -> str:
    """The registered baseline can be scored in every presentation."""
    score = [bench.mean(shown, bench.task.baseline(shown), bench.states[0]) for shown in bench.presentations]
    return f"the baseline scores {score[0]:.4f}"


@_check
def null_task_has_sensitivity(bench: _Bench) -> str:
    """On a null task, too, a solution scores above the baseline, so that harm or help can show."""
    gains = []
    for number, state in enumerate(bench.states):
        for shown in bench.presentations:
            solution, baseline = bench.task.known_solution(shown, state), bench.task.baseline(shown)
            gains.append(bench.mean(shown, solution, state) - bench.mean(shown, baseline, state))
            _require(gains[-1] > 0, f"on null instance {number} the solution scores no more than the baseline")
    return f"known solutions score at least {min(gains):.4f} more than the baseline"


@_check
def decoys_mislead(bench: _Bench) -> str:
    """What a decoy's solution is worth falls short of a solution, so that a misled agent misses."""
    short = []
    for state, decoy in zip(bench.states, bench.decoys, strict=True):
        shown = bench.presentations[0]
        best = bench.mean(shown, bench.task.known_solution(shown, state), state)
        short.append(best - bench.mean(shown, bench.task.known_solution(shown, decoy), state))
        _require(short[-1] > 0, "the solution of a decoy is as good as that of the hidden state")
    return f"solutions of decoys fall short by at least {min(short):.4f}"


@_check
def presentations_are_equivalent(bench: _Bench) -> str:
    """The same artifact under other names has the same score, unit by unit."""
    spelled = [bench.answers(shown) for shown in bench.presentations]
    for same in zip(*spelled, strict=True):
        units, *others = (
            bench.engine.score(shown, artifact, state, bench.sealed)
            for shown, (artifact, state) in zip(bench.presentations, same, strict=True)
        )
        for found in others:
            # Sums may be taken in presented order, which costs the last digits.
            close = found.keys() == units.keys() and all(abs(found[name] - units[name]) < 1e-9 for name in units)
            _require(close, "an artifact has another score under another presentation")
    return f"{len(spelled[0])} artifacts score alike in {len(spelled)} presentations"


# --- determinism -------------------------------------------------------------------------------------------


def fingerprint(task: Task) -> str:
    """Return a digest of all that a task says and scores for fixed draws.

    Args:
        task: The task; it is opened anew.
    """
    bench = _Bench(task)
    digest = hashlib.sha256()
    for name, data in {**bench.material, **_said(task, bench.engine, bench)}.items():
        digest.update(encode([name, hashlib.sha256(data).hexdigest()]))
    digest.update(encode([bench.states, bench.decoys, bench.sealed, bench.presentations]))
    for shown in bench.presentations:
        for artifact in bench.artifacts(shown):
            digest.update(encode([artifact, bench.engine.score(shown, artifact, bench.states[0], bench.sealed)]))
    return digest.hexdigest()


@_check
def results_repeat(bench: _Bench) -> str:
    """Drawn, said and scored again, by a fresh object and by a used one, everything has the same bytes."""
    task = bench.task
    for text in HOSTILE:
        _outcome(partial(bench.engine.neutral, bench.presentations[0], text))
    used = bench.engine
    _require(bench.fingerprint == fingerprint(task), "a fresh object of the task says or scores something else")
    engine = task.again().open(bench.material)
    for shown in reversed(bench.presentations):
        for artifact, state in reversed(bench.answers(shown)):
            again = [e.score(shown, artifact, state, bench.sealed) for e in (engine, used, engine)]
            _require(again[0] == again[1] == again[2], "a score depends on what was asked before")
    return "a fresh and a used engine agree, whatever was asked before"


@_check
def results_repeat_elsewhere(bench: _Bench) -> str:
    """Other processes, with other hash seeds, draw, say and score the same."""
    kind = type(bench.task)
    code = (
        "import functools, json, sys\n"
        "from dcpflow.tasks import places\n"
        "from dcpflow.tasks.conformance import fingerprint\n"
        "from pathlib import Path\n"
        "place, settings, seed, data_file = json.load(sys.stdin)\n"
        "place = places.Place(*place)\n"
        "kind = functools.reduce(getattr, place.attribute.split('.'), places.open_module(place))\n"
        "given = {'data_file': Path(data_file)} if data_file else {}\n"
        "sys.stdout.write(fingerprint(kind(settings, seed, **given)))\n"
    )
    task, data_file = bench.task, bench.task.data_file
    asked = json.dumps([place_of(kind), dict(task.settings), task.public_seed, str(data_file) if data_file else None])
    runs = [_process(code, hash_seed) for hash_seed in ("1", "2")]
    results = [run.communicate(asked) for run in runs]
    for run, (_, error) in zip(runs, results, strict=True):
        reason = (error.strip().splitlines() or ["no reason given"])[-1]
        _require(run.returncode == 0, f"a process of its own could not use the task: {reason}")
    _require(len({out for out, _ in results}) == 1, "with another hash seed the task says or scores something else")
    _require(results[0][0] == bench.fingerprint, "another process says or scores something else")
    return "three processes with different hash seeds agree"


def _process(code: str, hash_seed: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment
    )
