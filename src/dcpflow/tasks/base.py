"""The interface between a task and everything that runs or scores it.

A task owns what an agent is told (K and E0), which candidates are valid, what an experiment answers and how
an artifact is scored. It knows nothing about agents, episodes or decisions.

Four kinds of input are kept apart, because they have different readers:

* ``settings`` and ``public_seed`` are public and fix the public material;
* ``hidden`` is what truthful feedback is computed from (neutral replies are made without it);
* ``sealed`` is what scoring alone may read;
* ``presentation`` is the random relabelling under which one episode sees the task.

All of them are JSON-able dictionaries drawn from byte strings, so that a record can hold or commit to them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar


class CandidateInvalid(Exception):
    """The candidate breaks the task's rules.

    ``str()`` of it is the reason. It is computed from the candidate, the presentation and the public material
    alone: safe to show to an agent, and identical in every arm.
    """


class Engine(ABC):
    """The part of a task that meets candidates: experiments and scoring over opened public material.

    An engine is opened warm in a parent process and used in a forked, limited child. No call leaves anything
    behind: every result is a function of the arguments and the public material, whatever was asked before.
    """

    def warm(self, sealed: dict[str, Any] | None = None) -> None:  # noqa: B027  (an engine without a cache needs nothing)
        """Measure ahead what most candidates need, before forking. Changes speed, never a result.

        Args:
            sealed: The sealed units, where the children will score; without it, what experiments need.
        """

    @abstractmethod
    def experiment(self, presentation: dict[str, Any], candidate: str, hidden: dict[str, Any]) -> dict[str, Any]:
        """Measure a candidate truthfully.

        Args:
            presentation: The episode's relabelling, from ``Task.presentation``.
            candidate: The agent's text, in presented names.
            hidden: The hidden state, from ``Task.hidden`` (or ``Task.decoy`` for a misleading channel).

        Returns:
            The reply, JSON-able; numbers are fixed-width strings.

        Raises:
            CandidateInvalid: The candidate breaks the rules; raised before ``hidden`` is read.
        """

    @abstractmethod
    def neutral(self, presentation: dict[str, Any], candidate: str) -> dict[str, Any]:
        """Answer as ``experiment`` does, but without any access to hidden state.

        Args:
            presentation: The episode's relabelling.
            candidate: The agent's text, in presented names.

        Returns:
            A reply with the schema, fields and canonical length of a truthful one.

        Raises:
            CandidateInvalid: For the same candidates, with the same text, as ``experiment``.
        """

    @abstractmethod
    def score(
        self, presentation: dict[str, Any], candidate: str, hidden: dict[str, Any], sealed: dict[str, Any]
    ) -> dict[str, float]:
        """Score a committed artifact on the sealed units.

        Args:
            presentation: The relabelling of the episode that committed the artifact.
            candidate: The artifact's text.
            hidden: The hidden state.
            sealed: The sealed scoring units, from ``Task.sealed``.

        Returns:
            For each of ``Task.unit_ids`` a score in [0, 1]; higher is better.

        Raises:
            CandidateInvalid: The artifact breaks the rules.
        """


class Task(ABC):
    """What an audit needs to know about one kind of research task.

    Attributes:
        name: The task's registered name.
        settings: The complete settings: the defaults, overridden by what was given.
        public_seed: The public seed, any non-empty string.
        reads_data: Whether it reads a data set; the constructor of such a task also takes ``data_file``.
        data_file: The file that it reads then; None for the one in the download cache, and where it reads none.
    """

    name: str
    settings: Mapping[str, object]
    public_seed: str
    reads_data: ClassVar[bool] = False
    data_file: Path | None = None

    @abstractmethod
    def __init__(self, settings: Mapping[str, object], public_seed: str) -> None:
        """Check and keep the settings.

        Args:
            settings: Overrides of ``default_settings``.
            public_seed: What all public material is derived from.

        Raises:
            ValueError: A key is unknown (the message names it), a value out of range, or the seed empty.
        """

    @staticmethod
    @abstractmethod
    def default_settings() -> dict[str, object]:
        """Return every setting with its default."""

    def again(self) -> Task:
        """Return the same task, made anew: it has met nothing that this one has."""
        given = {"data_file": self.data_file} if self.reads_data else {}
        return type(self)(self.settings, self.public_seed, **given)

    @abstractmethod
    def engine_identity(self) -> dict[str, str]:
        """Return the versions of libraries and the digests of data that results depend on; part of the contract."""

    @abstractmethod
    def action_schemas(self) -> dict[str, dict[str, Any]]:
        """Return the JSON Schemas of the ``experiment`` and ``commit`` payloads, as shown to the agent."""

    @abstractmethod
    def public_material(self) -> dict[str, bytes]:
        """Return the public files by name: a function of settings, public seed and pinned library only."""

    @abstractmethod
    def hidden(self, secret: bytes) -> dict[str, Any]:
        """Draw the hidden state.

        Args:
            secret: 32 secret bytes.

        Raises:
            ValueError: ``secret`` has another length.
        """

    @abstractmethod
    def sealed(self, secret: bytes) -> dict[str, Any]:
        """Draw the sealed scoring units, disjoint from everything that E0 or an experiment can use.

        Args:
            secret: 32 secret bytes.

        Raises:
            ValueError: ``secret`` has another length.
        """

    @abstractmethod
    def decoy(self, hidden: dict[str, Any], secret: bytes) -> dict[str, Any]:
        """Draw a hidden state that shares no direction with ``hidden``, for a misleading channel.

        Args:
            hidden: The hidden state to stay clear of.
            secret: 32 secret bytes.

        Raises:
            ValueError: ``secret`` has another length.
        """

    @abstractmethod
    def presentation(self, seed: bytes) -> dict[str, Any]:
        """Draw the relabelling under which one episode sees the task.

        Args:
            seed: 32 bytes of the episode's draw.

        Raises:
            ValueError: ``seed`` has another length.
        """

    @abstractmethod
    def background(self) -> str:
        """Return K, the static text on task, rules, scoring and channel: the same bytes for every episode."""

    @abstractmethod
    def first_observations(
        self, presentation: dict[str, Any], reveal: dict[str, Any] | None = None, quote: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return E0, what an episode knows before its first action.

        Args:
            presentation: The episode's relabelling.
            reveal: A hidden state to put into E0 in the agent's terms (positive controls, null tasks).
            quote: Names of files whose exact text the agent must quote with its commit.
        """

    @abstractmethod
    def baseline(self, presentation: dict[str, Any]) -> str:
        """Return the registered baseline artifact, in presented names."""

    @abstractmethod
    def known_solution(self, presentation: dict[str, Any], hidden: dict[str, Any]) -> str:
        """Return an artifact that solves the task, in presented names."""

    def experiment_examples(self, presentation: dict[str, Any]) -> list[str]:
        """Return valid candidates of experiments, in presented names, for those who try the task.

        None are needed where an experiment takes the same candidates as a commit: then the baseline and the known
        solutions are tried. A task whose experiments take others has to give some.

        Args:
            presentation: The episode's relabelling.
        """
        return []

    @abstractmethod
    def unit_ids(self) -> tuple[str, ...]:
        """Return the ids of the sealed scoring units, in registered order."""

    @abstractmethod
    def constant_reply(self, presentation: dict[str, Any]) -> dict[str, Any]:
        """Return the frozen reply without direction: registered constants, shaped like a truthful reply."""

    @abstractmethod
    def open(self, public: Mapping[str, bytes]) -> Engine:
        """Open an engine over the public material; heavy imports happen here.

        Args:
            public: What ``public_material`` returned, possibly read back from files.

        Raises:
            ValueError: The material is missing or is not this task's.
        """
