"""What tasks share whose artifacts and experiments are short JSON texts and whose settings are whole numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from dcpflow.tasks.base import CandidateInvalid, Task
from dcpflow.tasks.chance import Stream

CANDIDATE_CHARACTERS = 8_000
_DEPTH = 4
_DIGITS = 9

_CONSONANTS = "bdfklmnprsvz"
_VOWELS = "aeiou"


class JsonTask(Task):
    """The parts of ``Task`` that are alike for such tasks.

    Attributes:
        experiment_form: For the agent, in words: what an experiment's candidate is.
        artifact_form: The same of a committed candidate.
    """

    experiment_form: ClassVar[str]
    artifact_form: ClassVar[str]

    def __init__(self, settings: Mapping[str, object], public_seed: str) -> None:
        """Keep the settings; see ``Task.__init__``. Their values are checked by the subclass, with ``number``."""
        if not public_seed:
            raise ValueError("public_seed is empty")
        defaults = self.default_settings()
        for key in settings:
            if key not in defaults:
                raise ValueError(f"unknown setting of task {self.name}: {key}")
        self.settings = {**defaults, **settings}
        self.public_seed = public_seed

    def number(self, key: str, low: int, high: int) -> int:
        """Return a setting, checked to be a whole number from ``low`` to ``high``.

        Raises:
            ValueError: It is not.
        """
        value = self.settings[key]
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"setting {key} must be an integer from {low} to {high}, not {value!r}")
        return value

    def engine_identity(self) -> dict[str, str]:
        """Return nothing: results are integer and IEEE arithmetic, which no library version changes."""
        return {}

    def action_schemas(self) -> dict[str, dict[str, Any]]:
        """Return the JSON Schemas of the ``experiment`` and ``commit`` payloads."""
        quotes = {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "file name to exact text, for each file that the first observations ask to quote",
        }
        return {
            "experiment": _payload({"candidate": _text(self.experiment_form)}),
            "commit": _payload({"candidate": _text(self.artifact_form), "quotes": quotes}),
        }

    def public_material(self) -> dict[str, bytes]:
        """Return the settings as one file: they are all that such a task's engine rests on."""
        return {f"{self.name}.json": json.dumps(dict(self.settings), sort_keys=True).encode()}

    def require(self, public: Mapping[str, bytes]) -> None:
        """Check that public material is what ``public_material`` returns.

        Raises:
            ValueError: A file is missing or has other bytes.
        """
        for name, data in self.public_material().items():
            if public.get(name) != data:
                raise ValueError(f"the public material's {name} is missing or belongs to other settings")


def _text(form: str) -> dict[str, Any]:
    return {"type": "string", "maxLength": CANDIDATE_CHARACTERS, "description": form}


def _payload(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": ["candidate"], "additionalProperties": False}


def read_json(candidate: str) -> Any:
    """Read hostile text as JSON without fractions: at most 8,000 characters, 4 levels deep, 9 digits a number.

    Returns:
        What the text says: dict, list, str, int, bool or None.

    Raises:
        CandidateInvalid: It is no such text, or an object has a key twice.
    """
    if not isinstance(candidate, str):
        raise CandidateInvalid("the candidate is not a string")
    if len(candidate) > CANDIDATE_CHARACTERS:
        raise CandidateInvalid(f"the candidate has more than {CANDIDATE_CHARACTERS} characters")
    # Counted before parsing: how deep a parser gets depends on its version and on who called it.
    if _depth(candidate) > _DEPTH:
        raise CandidateInvalid(f"the candidate is nested more than {_DEPTH} levels deep")
    try:
        return json.loads(
            candidate, object_pairs_hook=_unique, parse_int=_whole, parse_float=_refuse, parse_constant=_refuse
        )
    except ValueError:
        raise CandidateInvalid("the candidate is not JSON") from None


def _depth(text: str) -> int:
    """Return how deep the brackets of a JSON text are nested at most, those inside of strings left out."""
    depth = deepest = 0
    inside = escaped = False
    for character in text:
        if inside:
            inside = escaped or character != '"'
            escaped = not escaped and character == "\\"
        elif character == '"':
            inside = True
        else:
            depth += (character in "[{") - (character in "]}")
            deepest = max(deepest, depth)
    return deepest


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise CandidateInvalid("a key stands twice in one object")
    return found


def _whole(text: str) -> int:
    if len(text.lstrip("-")) > _DIGITS:
        raise CandidateInvalid(f"a number has more than {_DIGITS} digits")
    return int(text)


def _refuse(_: str) -> Any:
    raise CandidateInvalid("numbers must be whole")


def shown(value: object) -> str:
    """Return a short, harmless form of what stood in a candidate, for a reason."""
    return ascii(value)[:40]


def numbers_of(names: Sequence[object], known: Sequence[str], what: str) -> list[int]:
    """Translate presented names into stored numbers.

    Args:
        names: What the candidate says.
        known: The presented names, by stored number.
        what: What they name, for the reason.

    Raises:
        CandidateInvalid: A name is unknown or stands twice.
    """
    place = {name: number for number, name in enumerate(known)}
    found: dict[int, None] = {}
    for name in names:
        number = place.get(name) if isinstance(name, str) else None
        if number is None:
            raise CandidateInvalid(f"there is no {what} {shown(name)}")
        if number in found:
            raise CandidateInvalid(f"the {what} {shown(name)} stands twice")
        found[number] = None
    return list(found)


def words(stream: Stream, count: int) -> list[str]:
    """Draw different five-letter names without meaning."""
    letters = (_CONSONANTS, _VOWELS, _CONSONANTS, _VOWELS, _CONSONANTS)
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(kind[stream.below(len(kind))] for kind in letters)] = None
    return list(found)


def noise(stream: Stream) -> str:
    """Draw 128 bits, as hex digits, from which an episode's own noise is drawn."""
    return "".join(f"{stream.below(1 << 32):08x}" for _ in range(4))
