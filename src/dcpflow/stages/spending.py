"""What a run may spend on a model behind an API, and what it has spent: nothing of this is registered.

The main process of a run writes it down before any job begins, outside of all that is declared, so that raising a
budget makes no job run again.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dcpflow.episodes.session import Api
from dcpflow.errors import UsageError
from dcpflow.records import canonical, files, journal
from dcpflow.records.calls import Prices, call_of
from dcpflow.records.episodes import EpisodeStore

if TYPE_CHECKING:
    from dcpflow.protocol.config import Config

FREE: Final = {"max_usd": None, "max_usd_per_episode": None, "input_usd": 0.0, "cached_usd": None, "output_usd": 0.0}


@dataclass(frozen=True)
class Spending:
    """What jobs are told.

    Attributes:
        budget: the configured budget.
        key_variable: the environment variable with the API key; None where there is none.
        at_once: jobs that may ask the model at the same time.
        requests_per_minute: of all jobs together, as registered.
    """

    budget: dict[str, Any]
    key_variable: str | None
    at_once: int
    requests_per_minute: float

    @classmethod
    def of(cls, config: Config, at_once: int) -> Spending:
        """What a configuration says, of an agent that asks a model.

        Args:
            config: the configuration.
            at_once: jobs that may ask at the same time.
        """
        model = config.agent.model
        assert model is not None
        budget = config.budget.model_dump(mode="json")
        return cls(budget, model.key_variable, at_once, model.requests_per_minute)

    @property
    def prices(self) -> Prices:
        """What a million tokens cost."""
        return Prices.of(self.budget)

    def api(self) -> Api:
        """What an episode needs to ask the model.

        Raises:
            UsageError: the key is not in the environment.
        """
        return Api(
            key=_key(self.key_variable),
            prices=self.prices,
            max_usd=self.budget["max_usd_per_episode"],
            requests_per_minute=self.requests_per_minute / self.at_once,
        )

    def check(self, store: EpisodeStore) -> None:
        """Stop before an episode that the budget might not cover, with all others that may begin at the same time.

        Raises:
            UsageError: it says what was spent.
        """
        most, episode = self.budget["max_usd"], self.budget["max_usd_per_episode"]
        if most is None:
            return
        cost = spent(store, self.prices)
        if cost + self.at_once * episode > most:
            raise UsageError(
                f"{cost:.4f} USD are spent, and {self.at_once} episodes at the same time may cost {episode:g} USD "
                f"each: more than budget.max_usd, {most:g}",
                "Everything so far is kept: raise budget.max_usd and run snakemake again, which goes on from here",
            )


def write(results: Path, config: Config, at_once: int, stratum: str = "") -> None:
    """Tell the jobs of this run what they may spend; nothing is written for an agent that asks no model.

    Args:
        results: the results folder.
        config: the configuration, of a stratum its own.
        at_once: jobs that may ask a model at the same time.
        stratum: whose jobs are told; empty for all that are none's.
    """
    if config.agent.model is not None:
        files.write_atomic(_path(results, stratum), canonical.encode(asdict(Spending.of(config, at_once))))


def read(results: Path, stratum: str = "") -> Spending:
    """What the jobs of this run were told; without a word of it, no limit and no key."""
    path = _path(results, stratum)
    if not path.exists():
        return Spending(dict(FREE), None, 1, 600)
    return Spending(**canonical.decode(path.read_bytes(), str(path)))


def spent(store: EpisodeStore, prices: Prices) -> float:
    """What all calls of an audit have cost so far, in USD: those of attempts that did not end, too."""
    entries = (
        entry["call"]
        for path in sorted(store.root.glob("*/*/*/*/journal-*.jsonl"))
        for entry in journal.whole_lines(path)
        if "call" in entry
    )
    return sum(prices.of_call(call_of(entry, "a journal of calls")) for entry in entries)


def require_key(config: Config) -> None:
    """See that the API key is there, before any job begins.

    Raises:
        UsageError: the registered model needs one, and it is not in the environment, or is none that can be sent.
    """
    if config.agent.model is not None:
        Spending.of(config, at_once=1).api()


def _key(variable: str | None) -> str:
    if variable is None:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UsageError(
            f"the API key is not in the environment: the variable {variable} is empty or not set",
            f"export {variable}=..., or name another one (agent.model.key_variable)",
        )
    return key


def _path(results: Path, stratum: str) -> Path:
    return results / f".spending{f'-{stratum}' if stratum else ''}.json"
