"""Reading the configuration of an audit, and its translation into a registration.

:func:`load` turns plain data into a :class:`Config`, or says at once everything that is wrong with it. The
floors and caps of the protocol (R1 to R19) stand in :mod:`dcpflow.protocol.registration` only; here they are
asked, and their answers name the key that the user wrote.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any, Final, Literal, TypeAlias, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic.fields import FieldInfo

from dcpflow.protocol.config_model import (
    CONTRACT_SECTIONS,
    MAX_SLOTS,
    ONE_LINE,
    REGISTERED_SECTIONS,
    Agent,
    Budget,
    Claim,
    Config,
    Execution,
    Limits,
    Section,
    Web,
)
from dcpflow.protocol.policies import DECIDING
from dcpflow.protocol.registered import COMPUTED_FIELDS, KEY_OF_FIELD, to_registration, value_at
from dcpflow.protocol.registration import Violation, registration_violations
from dcpflow.protocol.text import is_canonical

__all__ = [
    "COMPUTED_FIELDS",
    "CONTRACT_SECTIONS",
    "KEY_OF_FIELD",
    "REGISTERED_SECTIONS",
    "Config",
    "ConfigError",
    "Problem",
    "Section",
    "all_keys",
    "allowed",
    "is_named",
    "load",
    "section_of",
    "to_registration",
    "value_at",
]

SETTINGS: Final = ("task.settings", "agent.settings")
"""Keys whose value is not ours to describe."""

MAX_EXACT_INTEGER: Final = 2**53
"""Largest integer that canonical JSON can hold without loss."""

# --- what a user may write at a key ------------------------------------------------------------------------


def all_keys(model: type[BaseModel] = Config, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every key that holds a value, dotted, in the order of the file, with its definition."""
    for name, info in model.model_fields.items():
        section = section_of(info)
        if section is None:
            yield prefix + name, info
        else:
            yield from all_keys(section, f"{prefix}{name}.{'NAME.' if is_named(info) else ''}")


def section_of(info: FieldInfo) -> type[Section] | None:
    """The section that a field holds, if perhaps only sometimes; None for a value."""
    kinds = (info.annotation, *get_args(info.annotation))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Section)), None)


def is_named(info: FieldInfo) -> bool:
    """Whether a field holds any number of sections, each under a name that the user gives it."""
    return section_of(info) is not None and get_origin(info.annotation) is Mapping


def allowed(key: str, info: FieldInfo) -> tuple[str, str | None]:
    """What may stand at a key, in words that follow "must be", and the rule (R1 to R19) behind it if any.

    The words of a rule come from the rule itself: it is asked about a value that no rule allows.
    """
    rule = next(_violations_of_nonsense(key), None)
    if get_origin(info.annotation) is Literal:
        words = _listed([str(choice) for choice in get_args(info.annotation)])
    elif info.annotation is bool:
        words = "true or false"
    else:
        words = rule.allowed if rule else _range(info)
    return words, rule.rule if rule else None


def _violations_of_nonsense(key: str) -> Iterator[Violation]:
    nonsense: dict[str, Any] = {name: math.nan for name, at in KEY_OF_FIELD.items() if at == key}
    for violation in registration_violations(replace(to_registration(Config()), **nonsense)):
        if violation.key in nonsense:
            yield violation


def _range(info: FieldInfo) -> str:
    kind = str(info.annotation)
    if "Mapping" in kind:
        return "a section of whole numbers" if "int" in kind else "a section of plain JSON"
    if "tuple" in kind:
        return "a list of whole numbers or null" if "int" in kind else "a list of names"
    if "str" in kind:
        lines = any(getattr(metadata, "pattern", None) == ONE_LINE for metadata in info.metadata)
        return ("one line of text" if lines else "text") + (" or null" if "None" in kind else "")
    bounds = {name: getattr(m, name) for m in info.metadata for name in ("ge", "gt", "le", "lt") if hasattr(m, name)}
    noun = "a whole number" if info.annotation is int else "a number"
    low = f"above {bounds['gt']}" if "gt" in bounds else f"from {bounds['ge']}" if "ge" in bounds else ""
    high = f"up to {bounds['le']}" if "le" in bounds else f"and below {bounds['lt']}" if "lt" in bounds else ""
    words = " ".join(part for part in (noun, low, high) if part)
    return f"{words} or null" if "lt" in bounds and "None" in kind else words


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


# --- reading -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing in the configuration that cannot stay.

    Attributes:
        key: Where, as a dotted key.
        value: What stands there, shortened; None if the value is not what is wrong.
        fault: What is wrong: what is allowed, and by which rule.
        remedy: What to do.
    """

    key: str
    value: str | None
    fault: str
    remedy: str

    def __str__(self) -> str:
        where = self.key if self.value is None else f"{self.key} = {self.value}"
        line = f"{where}: {self.fault}; {self.remedy}"
        # Line ends and control characters from the file would break the list, or the terminal.
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


class ConfigError(ValueError):
    """The configuration is not acceptable. The message is for its author: one line for each problem.

    Attributes:
        problems: All problems, in the order of the file; unknown keys come last.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems: Final = tuple(problems)
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        lines = "\n".join(f"  {problem}" for problem in self.problems)
        super().__init__(f"the configuration has {count}:\n{lines}")


def load(mapping: Mapping[str, Any]) -> Config:
    """Read a configuration, as the YAML file and the command line gave it, and hold it against all rules.

    Keys that are left out take their defaults.

    Args:
        mapping: Plain data; it is not changed.

    Raises:
        ConfigError: With every problem at once: unknown keys, wrong types, values out of range, violations of
            R1 to R19, and values that contradict each other.
    """
    if not isinstance(mapping, Mapping):
        fault = f"must be a mapping with some of the sections {', '.join(Config.model_fields)}"
        raise ConfigError([Problem("(the file)", _shown(mapping), fault, "see config/config.yaml")])
    cleaned: Any = deepcopy(dict(mapping))
    malformed: dict[tuple[str | int, ...], Problem] = dict(_drop_keys_that_are_no_text(cleaned, Config))
    while True:
        try:
            config = Config.model_validate(cleaned)
            break
        except ValidationError as error:
            # What is malformed gives way to its default, so that the rules can look at all the rest.
            found = {_written_path(detail["loc"]): detail for detail in reversed(error.errors())}
            malformed |= {path: _malformed(path, detail, cleaned) for path, detail in found.items()}
            for path in found:
                _remove(cleaned, path)
    problems = list(malformed.values())
    for problem, compared in (*_broken_rules(config), *_strata_contradictions(config)):
        # Beside a malformed key a comparison would use a default that the user did not mean.
        if not any(_overlap(key, ".".join(map(str, path))) for key in compared for path in malformed):
            problems.append(problem)
    if problems:
        order = {key: i for i, (key, _) in enumerate(all_keys())}
        raise ConfigError(sorted(problems, key=lambda p: order.get(p.key, len(order))))
    return config


def _drop_keys_that_are_no_text(
    mapping: dict[Any, Any], section: type[Section], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Problem]]:
    for name, value in list(mapping.items()):
        info = section.model_fields.get(name) if isinstance(name, str) else None
        if not isinstance(name, str):
            del mapping[name]
            where = (*path, str(name))
            fault = f"a key must be text, not {type(name).__name__}"
            yield where, Problem(".".join(where), None, fault, "remove it")
        elif info and (inner := section_of(info)) and isinstance(value, dict):
            yield from _drop_below(value, inner, (*path, name), named=is_named(info))


def _drop_below(
    mapping: dict[Any, Any], section: type[Section], path: tuple[str, ...], *, named: bool
) -> Iterator[tuple[tuple[str, ...], Problem]]:
    if not named:
        yield from _drop_keys_that_are_no_text(mapping, section, path)
        return
    for name, value in list(mapping.items()):
        if not isinstance(name, str):
            del mapping[name]
            where = (*path, str(name))
            fault = f"a name must be text, not {type(name).__name__}"
            yield where, Problem(".".join(where), None, fault, "put it in quotes")
        elif isinstance(value, dict):
            yield from _drop_keys_that_are_no_text(value, section, (*path, name))


def _written_path(loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """The place of an error up to the key that holds the value, or up to the unknown key."""
    model: type[BaseModel] = Config
    named = False
    for depth, name in enumerate(loc, start=1):
        if named:
            named = False
            continue
        info = model.model_fields.get(str(name))
        section = section_of(info) if info else None
        if info is None or section is None:
            return loc[:depth]
        model, named = section, is_named(info)
    return loc


def _remove(mapping: Any, path: tuple[str | int, ...]) -> None:
    for name in path[:-1]:
        mapping = mapping.get(name, {})
    mapping.pop(path[-1], None)


def _overlap(one: str, other: str) -> bool:
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def _shown(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = f"something of type {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _must_be(words: str, rule: str | None) -> str:
    return f"must be {words} (registration rule {rule})" if rule else f"must be {words}"


def _default(info: FieldInfo) -> str:
    return f"the default is {_shown(info.get_default(call_default_factory=True))}"


def _malformed(path: tuple[str | int, ...], detail: Mapping[str, Any], cleaned: Any) -> Problem:
    key, value, kind = ".".join(map(str, path)), cleaned, detail["type"]
    for name in path:
        value = value[name]
    if kind == "extra_forbidden":
        return Problem(key, None, "unknown key", _meant(path))
    info = _definition(path)
    if (section := section_of(info)) is not None:
        return _no_section(key, value, section)
    if key in SETTINGS and isinstance(value, Mapping):
        for name in detail["loc"][len(path) :]:  # names and positions, mixed with pydantic's own tags
            if (isinstance(value, Mapping) and name in value) or (
                isinstance(value, list) and name in range(len(value))
            ):
                key, value = f"{key}.{name}", value[name]
        return Problem(key, _shown(value), "must be plain JSON, with text as keys", "put it in quotes")
    words, rule = allowed(key, info)
    return Problem(key, _shown(value), _must_be(words, rule), _advice(info, value, kind))


def _no_section(key: str, value: object, section: type[Section]) -> Problem:
    keys = ", ".join(section.model_fields)
    if key == "strata":
        fault = "must be a section that holds a section for each stratum, under its name"
        return Problem(key, _shown(value), fault, f"below each name there are: {keys}")
    if value is None:
        return Problem(key, None, "the section is empty", f"delete the line, or give some of: {keys}")
    remedy = f"indent its keys below it: {keys}"
    if all(get_origin(info.annotation) is Literal for info in section.model_fields.values()):
        remedy += f"; on the command line: --config '{key}={{{next(iter(section.model_fields))}: ...}}'"
    return Problem(key, _shown(value), "must be a section", remedy)


def _definition(path: tuple[str | int, ...]) -> FieldInfo:
    info = Config.model_fields[str(path[0])]
    named = is_named(info)
    for name in path[1:]:
        if named:
            named = False
            continue
        section = section_of(info)
        assert section is not None
        info = section.model_fields[str(name)]
        named = is_named(info)
    return info


def _meant(path: tuple[str | int, ...]) -> str:
    """A guess at what an unknown key should have been, else what exists in its section."""
    section = section_of(_definition(path[:-1])) if len(path) > 1 else Config
    assert section is not None
    word, siblings = str(path[-1]), list(section.model_fields)
    if close := difflib.get_close_matches(word, siblings, n=1):
        return f"did you mean {'.'.join(map(str, (*path[:-1], close[0])))}?"
    elsewhere = {key.rsplit(".", 1)[-1]: key for key, _ in all_keys()}
    elsewhere |= {name: name for name in Config.model_fields}
    if close := difflib.get_close_matches(word, elsewhere, n=1, cutoff=0.8):
        return f"did you mean {elsewhere[close[0]]}?"
    return f"known here: {', '.join(siblings)}"


def _advice(info: FieldInfo, value: object, kind: str) -> str:
    """What to do about a value of a wrong type; YAML and the command line have their own traps."""
    choices = [str(choice) for choice in get_args(info.annotation)]
    advice = _default(info)
    if isinstance(value, str):
        advice = _advice_on_text(info, value, choices) or advice
    elif value is None and "none" in choices:
        advice = "null stands for nothing: write the word none"
    elif value is not None and kind == "string_type":
        advice = "put it in quotes"
    elif isinstance(value, bool) and info.annotation in (int, float):
        advice = "true and false are no numbers"
    elif isinstance(value, float) and value.is_integer() and info.annotation is int:
        advice = f"write {int(value)} without a decimal point"
    return "write it as a list: [first, second]" if kind == "tuple_type" else advice


def _advice_on_text(info: FieldInfo, value: str, choices: Sequence[str]) -> str | None:
    if info.annotation in (int, float) and re.fullmatch(r"\s*[-+]?\d+[eE][-+]?\d+\s*", value):
        return "YAML reads an exponent without a decimal point as text: write 1.0e-3, not 1e-3"
    if info.annotation in (int, float, bool):
        return (
            "this is text: write it without quotes (nested values in snakemake's --config always arrive as "
            "text: put them into a file and give that with --configfile)"
        )
    close = difflib.get_close_matches(value, choices, n=1)
    return f"did you mean {close[0]}?" if close else None


# --- rules over a well-formed configuration ----------------------------------------------------------------

_REMEDY: Final[Mapping[str, str]] = {
    "R1": "use letters, digits, dots, dashes and underscores",
    "R2": "give it a value",
    "R3": "set claim.grade to core",
    "R8": "lower the alphas below thresholds.alpha until they fit into the total",
    "R9": "lower thresholds.alpha.total with its alphas, or thresholds.alpha.family_max_audits",
    "R10": "set claim.grade to evidence, or claim.necessity to false",
    "R15": "lower it, or raise the number of pairs",
}


_Finding: TypeAlias = tuple[Problem, tuple[str, ...]]
"""A problem, and the keys or sections whose values were compared to find it."""


def _broken_rules(config: Config) -> Iterator[_Finding]:
    definitions = dict(all_keys())
    for violation in registration_violations(to_registration(config)):
        key = KEY_OF_FIELD[violation.key]
        words = re.sub(r"\w+_\w+", lambda match: KEY_OF_FIELD.get(match[0], match[0]), violation.allowed)
        remedy = _REMEDY.get(violation.rule, f"choose such a value; {_default(definitions[key])}")
        problem = Problem(key, _shown(violation.value), _must_be(words, violation.rule), remedy)
        # A rule that looks at this key alone says of nonsense what it says of this value; R4's words name the
        # method that goes with the scope.
        alone = violation.allowed in {v.allowed for v in _violations_of_nonsense(key)} and violation.rule != "R4"
        yield problem, (key,) if alone else ("claim", "design", "thresholds")
    yield from _claim_contradictions(config.claim, config.thresholds.alpha.family_max_audits)
    yield from _number_contradictions(config)
    if config.information.web is not None:
        yield from _web_contradictions(config.information.web, config.limits)
        if config.claim.is_retrospective:
            fault = "must be null without a target run: what challengers are given of the Web is what that has seen"
            remedy = "set it to null, and put what was known into the task's public material"
            yield Problem("information.web", None, fault, remedy), ("claim.mode", "information.web")
    yield from _agent_contradictions(config.agent)
    yield from _budget_contradictions(config.budget, config.agent)
    for key in SETTINGS:
        for problem in _unsafe_integers(key, value_at(config, key)):
            yield problem, (key,)
    for problem in _path_problems(config.execution):
        yield problem, ("execution.results", "execution.nonce_file", "execution.registry", "execution.offer")


def _claim_contradictions(claim: Claim, family_max_audits: int) -> Iterator[_Finding]:
    pairing = ("claim.human_assistance", "claim.attribution")
    adaptive, fixed = (claim.human_assistance == f"{kind}_scientific" for kind in ("adaptive", "fixed"))
    if adaptive and claim.attribution != "human_agent_joint":
        fault = "goes with claim.attribution human_agent_joint only (pairing of assistance and attribution)"
        remedy = "set claim.attribution to human_agent_joint"
        yield Problem(pairing[0], claim.human_assistance, fault, remedy), pairing
    elif fixed and claim.attribution == "autonomous_agent":
        fault = "an autonomous_agent had none or operational (pairing of assistance and attribution)"
        remedy = "set claim.attribution to agent_given_fixed_human_input"
        yield Problem(pairing[0], claim.human_assistance, fault, remedy), pairing
    earlier, slots = "claim.earlier_audits", [*claim.earlier_audits, claim.slot]
    for slot in claim.earlier_audits:
        if not is_canonical(slot):
            fault = "a slot must be a name without blanks or invisible characters (registration rule R1)"
            yield Problem(earlier, _shown(slot), fault, _REMEDY["R1"]), (earlier,)
    for slot in sorted({slot for slot in slots if slots.count(slot) > 1}):
        fault = "each audit of a family has a slot of its own, and this one stands twice"
        remedy = "take a new name, or correct claim.earlier_audits"
        yield Problem("claim.slot", _shown(slot), fault, remedy), ("claim.slot", earlier)
    if len(slots) > family_max_audits:
        fault = (
            f"this is audit {len(slots)} of the family, and thresholds.alpha.family_max_audits is "
            f"{family_max_audits} (error budget of the family, registration rule R9)"
        )
        remedy = "raise that, and lower thresholds.alpha.total to a share of thresholds.alpha.family_total"
        yield Problem(earlier, None, fault, remedy), (earlier, "thresholds.alpha")
    yield from _retrospective_contradictions(claim)
    names = {name.strip().casefold() for name in (claim.roles.claimant, claim.roles.auditor)}
    if not claim.roles.self_audited and len(names) == 1:
        fault, remedy = "claimant and auditor have the same name", "name another auditor, or set it to true"
        yield Problem("claim.roles.self_audited", "false", fault, remedy), ("claim.roles",)


def _retrospective_contradictions(claim: Claim) -> Iterator[_Finding]:
    keys = ("claim.mode", "claim.retrospective")
    if not claim.is_retrospective:
        if claim.retrospective is not None:
            fault = "goes with claim.mode retrospective_prepub or retrospective_present"
            yield Problem("claim.retrospective", None, fault, "remove it, or change claim.mode"), keys
        return
    for name in ("artifact_file", "published", "boundary"):
        if not getattr(claim.retrospective, name, ""):
            fault = f"is missing, and with claim.mode {claim.mode} it is needed"
            yield Problem(f"claim.retrospective.{name}", None, fault, "give it, or set claim.mode to prospective"), keys
    seed = claim.retrospective.presentation if claim.retrospective else ""
    if seed and not re.fullmatch(r"[0-9a-f]{64}", seed):
        yield Problem(f"{keys[1]}.presentation", _shown(seed), "must be 64 hex digits", "write them in quotes"), keys


def _number_contradictions(config: Config) -> Iterator[_Finding]:
    limits, gate3, design = config.limits, config.thresholds.gate3, config.design
    comparisons = (
        (
            ("limits.experiment_seconds", "limits.wall_seconds"),
            limits.experiment_seconds > limits.wall_seconds,
            "at most {}: an episode ends then",
        ),
        (
            ("limits.candidate_bytes", "limits.message_bytes"),
            limits.candidate_bytes >= limits.message_bytes,
            "below {}: an artifact travels in a message",
        ),
        (
            ("thresholds.gate3.misled_min_misses", "design.misled_null_episodes"),
            config.claim.grade == "evidence" and gate3.misled_min_misses > design.misled_null_episodes,
            "at most {}: else the null study cannot pass",
        ),
    )
    for keys, contradict, words in comparisons:
        if contradict:
            fault = f"must be {words.format(f'{keys[1]}, {_shown(value_at(config, keys[1]))}')}"
            yield Problem(keys[0], _shown(value_at(config, keys[0])), fault, "change one of them"), keys
    yield from _look_contradictions(config)
    yield from _policy_contradictions(config)


def _look_contradictions(config: Config) -> Iterator[_Finding]:
    design, bet = config.design, config.thresholds.gate3.bet
    for name, stage in (("gate2_looks", "challengers"), ("pair_looks", "pairs")):
        looks, last = getattr(design, name), getattr(design, stage)
        rising = looks is None or (all(one < other for one, other in pairwise((0, *looks))) and len(looks) > 1)
        if looks is not None and not (rising and looks[-1] == last):
            keys = (f"design.{name}", f"design.{stage}")
            fault = f"must be two or more numbers that rise from 1 or more to {keys[1]}, {last}"
            yield Problem(keys[0], _shown(looks), fault, f"write null for one look, after all {stage}"), keys
    keys = ("design", "thresholds.gate3.bet")
    if (design.pair_looks is None) != (bet is None):
        fault = "goes with design.pair_looks: an interval that is looked at more than once is one by betting"
        yield Problem("thresholds.gate3.bet", _shown(bet), fault, "give both, or write null for both"), keys
    if design.pair_looks and design.pair_replacements:
        fault = (
            "must be 0 with design.pair_looks: a lost pair widens the interval, and later ones are looked at as ever"
        )
        yield Problem("design.pair_replacements", _shown(design.pair_replacements), fault, "write 0"), ("design",)
    if design.pair_looks and config.claim.necessity:
        fault = "needs a fixed number of neutral branches, and design.pair_looks leaves it open"
        yield Problem("claim.necessity", "true", fault, "write null for design.pair_looks"), ("claim", "design")


def _policy_contradictions(config: Config) -> Iterator[_Finding]:
    design, listed, given = config.design, "design.neutral_policies", "design.neutral_policy_pairs"
    policies = design.neutral_policies
    first, further = policies[:1], policies[1:]
    if first != (DECIDING,) or len(set(policies)) < len(policies):
        fault = f"must begin with {DECIDING}, the one that decides, and name each policy once"
        yield Problem(listed, _shown(policies), fault, "write it like [proposed_sham, reference_null]"), (listed,)
    if further and config.claim.grade != "evidence":
        fault = "names further neutral policies, which have pairs, and grade core has none"
        yield (
            Problem(listed, _shown(policies), fault, "set claim.grade to evidence, or leave them out"),
            (listed, "claim"),
        )
    for name in design.neutral_policy_pairs:
        if name not in further:
            fault = "is no further policy of design.neutral_policies"
            yield Problem(f"{given}.{name}", None, fault, "name it there, or remove this line"), (listed, given)
    for name in further:
        number = design.neutral_policy_pairs.get(name, design.pairs)
        if not 2 <= number <= MAX_SLOTS:
            fault = f"must be a whole number of pairs from 2 up to {MAX_SLOTS}"
            yield Problem(f"{given}.{name}", _shown(number), fault, "give another one"), (given, "design.pairs")


MAX_PACKET_BYTES: Final = 2**24
"""Most text of the Web that the first message of an episode may have to hold."""

_HOST: Final = re.compile(r"(?=.{1,253}$)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z][a-z0-9_-]*")


def _web_contradictions(web: Web, limits: Limits) -> Iterator[_Finding]:
    for name in ("https_hosts", "http_hosts"):
        key = f"information.web.{name}"
        for host in (host for host in getattr(web, name) if not _HOST.fullmatch(host)):
            fault = "must be a host name in small letters, without scheme, port or path"
            yield Problem(key, _shown(host), fault, "write it like www.example.org"), (key,)
    if web.site in web.http_hosts:
        fault = "is information.web.site, which stands for pages on this machine"
        yield Problem("information.web.http_hosts", _shown(web.site), fault, "remove it"), ("information.web",)
    if not (web.site or web.https_hosts or web.http_hosts):
        fault = "names no site and no host that could be fetched from"
        remedy = "name some, or set information.web to null"
        yield Problem("information.web", None, fault, remedy), ("information.web",)
    if 4 * web.text_bytes > limits.message_bytes:
        key = "information.web.text_bytes"
        fault = f"must be at most a quarter of limits.message_bytes, {limits.message_bytes}: a message quotes a page"
        yield Problem(key, _shown(web.text_bytes), fault, "change one of them"), (key, "limits.message_bytes")
    if web.requests * web.text_bytes > MAX_PACKET_BYTES:
        key = "information.web.requests"
        fault = f"times information.web.text_bytes must be at most {MAX_PACKET_BYTES}: all pages are given as files"
        yield Problem(key, _shown(web.requests), fault, "lower one of them"), (key, "information.web.text_bytes")
    if web.fetch_seconds > limits.wall_seconds:
        key = "information.web.fetch_seconds"
        fault = f"must be at most limits.wall_seconds, {_shown(limits.wall_seconds)}: an episode ends then"
        yield Problem(key, _shown(web.fetch_seconds), fault, "change one of them"), (key, "limits.wall_seconds")


def _agent_contradictions(agent: Agent) -> Iterator[_Finding]:
    """What each kind of agent needs, and what it has no use for."""
    keys = ("agent",)
    started, asks = agent.kind in ("command", "mcp"), agent.kind != "builtin"
    if started and not (agent.program and agent.program.command):
        fault = f"names no program, which an agent of kind {agent.kind} is"
        yield Problem("agent.program.command", None, fault, "write it as a list: [first, second]"), keys
    if agent.program and not started:
        fault = f"goes with the kinds command and mcp, not with {agent.kind}"
        yield Problem("agent.program", None, fault, "remove it, or change agent.kind"), keys
    if agent.model and not asks:
        fault = "an agent that ships with dcpflow asks no model"
        yield Problem("agent.model", None, fault, "remove it, or change agent.kind"), keys
    if agent.kind == "chat" and not agent.model:
        yield Problem("agent.model", None, "is missing: an agent of kind chat is a model", "give its keys"), keys
    if agent.program:
        yield from _program_contradictions(agent)
    if agent.model:
        url = urlsplit(agent.model.base_url)
        if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment or url.username:
            fault = "must be an address with http or https, a host and perhaps a path, and nothing else"
            remedy = "write it like https://api.openai.com/v1"
            yield Problem("agent.model.base_url", _shown(agent.model.base_url), fault, remedy), keys
        elif url.scheme == "http" and not _on_loopback(url.hostname):
            fault = "must be https: the key and all that is asked would travel in the clear"
            remedy = "http is for models on this machine: 127.0.0.1, localhost"
            yield Problem("agent.model.base_url", _shown(agent.model.base_url), fault, remedy), keys


def _program_contradictions(agent: Agent) -> Iterator[_Finding]:
    assert agent.program is not None
    names: list[str] = []
    for name in agent.program.files:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.name:
            fault = "must be a file below the folder of the Snakefile"
            yield Problem("agent.program.files", _shown(name), fault, "write its path from there"), ("agent",)
        elif path.name in names:
            fault = f"is the second file that would be /agent/{path.name}"
            yield Problem("agent.program.files", _shown(name), fault, "rename one of them"), ("agent",)
        names.append(path.name)
    for name in agent.program.mounts:
        path = PurePosixPath(name)
        if not path.is_absolute() or ".." in path.parts or any(path.is_relative_to(own) for own in OWN_PLACES):
            fault = f"must be an absolute path, and not below {', '.join(OWN_PLACES)}: the sandbox has its own there"
            yield Problem("agent.program.mounts", _shown(name), fault, "name the agent's folder alone"), ("agent",)
    for name in agent.program.environment:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            fault = "must be the name of an environment variable"
            yield Problem(f"agent.program.environment.{name}", None, fault, "use letters and underscores"), ("agent",)
    texts = [*agent.program.command, *agent.program.environment.values()]
    for place, there, remedy in (
        ("{model}", agent.model is not None, "give agent.model"),
        ("{mcp}", agent.kind == "mcp", "set agent.kind to mcp"),
    ):
        if not there and any(place in text for text in texts):
            fault = f"stands for something that this agent does not have: {place}"
            yield Problem("agent.program", None, fault, remedy), ("agent",)


OWN_PLACES: Final = ("/agent", "/door", "/proc", "/sys", "/dev", "/tmp", "/ws", "/usr")
"""Where a sandbox has folders of its own, or shows everybody the same ones."""


def _on_loopback(host: str) -> bool:
    return host in ("localhost", "127.0.0.1", "::1")


def _budget_contradictions(budget: Budget, agent: Agent) -> Iterator[_Finding]:
    keys = ("budget", "agent")
    if budget.max_usd is not None and budget.max_usd_per_episode is None:
        fault = "is missing, and with budget.max_usd it is needed: else one episode could cost everything"
        yield Problem("budget.max_usd_per_episode", None, fault, "give it"), keys
    if (budget.max_usd or budget.max_usd_per_episode) and not (budget.input_usd or budget.output_usd):
        fault = "says nothing while the model has no price"
        yield Problem("budget.max_usd", None, fault, "give budget.input_usd and budget.output_usd"), keys
    if (budget.max_usd or budget.max_usd_per_episode) and not agent.model:
        fault = "limits what agent.model costs, and there is none"
        yield Problem("budget.max_usd", None, fault, "remove it, or give agent.model"), keys


_STRATUM: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")


def _strata_contradictions(config: Config) -> Iterator[_Finding]:
    """What is wrong with each stratum: held against the same rules as the agent and limits that it stands in for."""
    taken = {_episodes_of(config): f"the challengers that decide ({config.design.stratum})"}
    own = {(problem.key, problem.fault) for problem, _ in _broken_rules(config)}
    for name in config.strata:
        key, keys = f"strata.{name}", (f"strata.{name}", *CONTRACT_SECTIONS)
        if not _STRATUM.fullmatch(name):
            fault = "must be a name of at most 32 small letters, digits, dashes and underscores, the first a letter"
            yield Problem(key, None, fault, "rename it"), keys
        elif name == config.design.stratum:
            fault = "is the name of the challengers that decide (design.stratum)"
            yield Problem(key, None, fault, "rename it"), keys
        try:
            found = load(config.in_place_of(name))
        except ConfigError as error:
            for problem in error.problems:
                if (problem.key, problem.fault) not in own:
                    yield replace(problem, key=f"{key}.{problem.key}"), keys
            continue
        if other := taken.get(_episodes_of(found)):
            fault = f"has agent and limits of {other}, so that their episodes are the same"
            yield Problem(key, None, fault, "change one of them, or remove it"), keys
        taken[_episodes_of(found)] = f"the stratum {name}"


def _episodes_of(config: Config) -> str:
    """What the episodes of a configuration are, as text that can be compared."""
    parts = config.parts()
    return json.dumps([parts["agent"], parts["limits"]], sort_keys=True)


def _unsafe_integers(key: str, value: JsonValue | Mapping[str, JsonValue]) -> Iterator[Problem]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _unsafe_integers(f"{key}.{name}", item)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _unsafe_integers(f"{key}.{i}", item)
    elif isinstance(value, int) and abs(value) > MAX_EXACT_INTEGER:
        fault = "canonical JSON holds no integers beyond 2^53 (RFC 8785)"
        yield Problem(key, _shown(value), fault, "write it as text, in quotes")


def _path_problems(execution: Execution) -> Iterator[Problem]:
    results, nonce = PurePosixPath(execution.results), PurePosixPath(execution.nonce_file)
    if set(execution.results) & set("{}"):
        fault = "must have no braces, which Snakemake takes for wildcards"
        yield Problem("execution.results", _shown(execution.results), fault, "rename the folder")
    if not results.name or ".." in results.parts:
        fault = "must be a folder of its own, without .. in its path: a run writes into it"
        yield Problem("execution.results", _shown(execution.results), fault, 'the default is "results"')
    elif nonce.is_relative_to(results):
        fault = f"must lie outside of execution.results, {execution.results}: it is the audit's secret"
        yield Problem("execution.nonce_file", _shown(execution.nonce_file), fault, "move it")
    elif PurePosixPath(execution.registry).is_relative_to(results):
        fault = f"must lie outside of execution.results, {execution.results}, since it has to outlive that folder"
        yield Problem("execution.registry", _shown(execution.registry), fault, 'the default is "registry"')
    elif execution.offer is not None and PurePosixPath(execution.offer).is_relative_to(results):
        fault = f"must lie outside of execution.results, {execution.results}, into which a run writes"
        yield Problem("execution.offer", _shown(execution.offer), fault, "move it")
