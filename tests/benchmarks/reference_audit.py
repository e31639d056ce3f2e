"""One audit by the reference harness (dcp-harness 0.1.1) with an agent in its own process that answers at once.

    python tests/benchmarks/reference_audit.py FOLDER [--times 1] [--experiments 1]

For an environment of its own that has dcp-harness; `against_reference.py` makes one, and runs this file in it. The
agent opens one of four boxes and commits the number that it was told, so that an episode takes a turn for each
experiment and one to finish. Nothing is computed, neither by the agent nor by the task: what the audit takes is the
harness's own. Prints the verdict as JSON once all phases are done.

It is an adapter and a backend on the package's public interface. The agent runs unprotected, as the configuration
says, so that Core ends inconclusive by the reference's rules, whatever else was found.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import time
from pathlib import Path
from typing import Any

from dcp import unit_manifest_hash
from dcp.registration import Registration
from dcp_harness import (
    AuditAttestations,
    AuditMaterials,
    BaseTaskAdapter,
    EpisodeContext,
    EpisodeEvaluation,
    EvidencePackage,
    Harness,
    Phase,
    RegistrationContext,
    RunView,
    assemble_evidence,
    load_config,
)
from dcp_harness.backend import AgentRunResult
from dcp_harness.util import hash_json

MODEL = "instant-agent-1"
COUNTS = {"challenger_episodes": 96, "positive_control_episodes": 45, "feedback_pairs": 30, "sham_pairs": 60}
UNITS = tuple(f"unit-{number}" for number in range(1, 11))
HIDDEN, WITHHELD = 3, 0
ANSWER = "answer.json"
TOLD_THE_TRUTH = frozenset({Phase.MAIN, Phase.FEEDBACK_TRUTHFUL})


def main() -> None:
    """Run the audit and print its verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a folder that is empty")
    parser.add_argument("--times", type=int, default=1, help="multiplies all counts")
    parser.add_argument("--experiments", type=int, default=1, help="of each episode")
    options = parser.parse_args()
    workspace = options.folder / "workspace"
    workspace.mkdir()
    (workspace / "README.md").write_text("One of four boxes holds what the others do not.\n")
    path = options.folder / "audit.json"
    path.write_text(json.dumps(configuration(options.times)))
    backend = InstantAgent(options.experiments)
    harness = Harness(load_config(path), options.folder / "run", backend=backend, adapter=Boxes())
    report = harness.run_all()
    print(json.dumps({"verdict": report["verdict"], "phases": harness.status()["phases"], "turns": backend.turns}))


def configuration(times: int) -> dict[str, Any]:
    """The default audit's counts, so many times."""
    return {
        "schema": "dcp_harness_config_v1",
        "claim_id": "instant-claim",
        "source_workspace": "workspace",
        "task_adapter": "given:directly",
        "agent": {"execution": "host", "model": MODEL},
        "audit": {"grade": "evidence", **{name: count * times for name, count in COUNTS.items()}},
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _prefixed(text: str) -> str:
    return f"sha256:{_digest(text)}"


class InstantAgent:
    """A backend whose agent writes its action at once.

    Args:
        experiments: that it does in each episode before it finishes.

    Attributes:
        turns: that it was started for.
    """

    interface_identity = {"agent": MODEL, "private_isolation_pass": False}  # noqa: RUF012 - as the protocol has it
    interface_hash = hash_json(interface_identity)

    def __init__(self, experiments: int) -> None:
        self.experiments, self.turns = experiments, 0

    def doctor(self) -> dict[str, Any]:
        """Nothing can be amiss."""
        return {"ok": True}

    def run(self, *, workspace: Path, prompt: str, record_dir: Path, episode_id: str) -> AgentRunResult:
        """One turn."""
        self.turns += 1
        canary, seen = workspace / "CANARY.txt", workspace / ".dcp/observation.json"
        if canary.exists():
            (workspace / "CANARY_RESPONSE.txt").write_text(canary.read_text())
            action = self._action("finish")
        elif self._turn(workspace) < self.experiments:
            action = self._action("experiment", {"box": HIDDEN})
        else:
            told = json.loads(seen.read_text())["observation"] if seen.exists() else {}
            (workspace / ANSWER).write_text(json.dumps(told.get("holds", WITHHELD)))
            action = self._action("finish")
        (workspace / ".dcp/action.json").write_text(json.dumps(action))
        return self._receipt(record_dir, episode_id)

    @staticmethod
    def _turn(workspace: Path) -> int:
        """Turns of this episode before this one, by what it was told last."""
        seen = workspace / ".dcp/observation.json"
        return int(json.loads(seen.read_text())["turn"]) if seen.exists() else 0

    @staticmethod
    def _action(kind: str, payload: dict[str, Any] | None = None) -> dict[str, Any]:
        return {"schema": "dcp_action_v1", "action": kind, "payload": payload or {}}

    def _receipt(self, record_dir: Path, episode_id: str) -> AgentRunResult:
        """What a provider would have reported."""
        record_dir.mkdir(parents=True, exist_ok=True)
        output, errors = record_dir / "output.txt", record_dir / "errors.txt"
        output.write_text("done\n")
        errors.write_text("")
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        name = f"{episode_id}-{self.turns}"
        return AgentRunResult(
            run_id=name,
            returncode=0,
            timed_out=False,
            started_at=now,
            finished_at=now,
            elapsed_seconds=0.0,
            requested_model=MODEL,
            init_models=(MODEL,),
            assistant_models=(MODEL,),
            usage_models=(MODEL,),
            declared_tools=("Write",),
            used_tools=("Write",),
            event_count=3,
            assistant_event_count=1,
            result_event_count=1,
            result_text="done",
            reported_cost_usd=None,
            provider_session_id=name,
            assistant_message_ids=(name,),
            result_event_uuid=name,
            stdout_hash=_prefixed("done\n"),
            stderr_hash=_prefixed(""),
            provider_receipt_hash=_prefixed(name),
            identity_complete=True,
            identity_ok=True,
            interface_ok=True,
            model_action_started=True,
            infrastructure_invalid_preaction=False,
            stdout_path=str(output),
            stderr_path=str(errors),
        )


class Boxes(BaseTaskAdapter):
    """The right number is worth all of the units, any other none."""

    def audit_materials(self) -> AuditMaterials:
        """Digests of nothing but names: there is no code behind them."""
        named = {field.name: _prefixed(field.name) for field in dataclasses.fields(AuditMaterials)}
        # the one of the kernel, without a prefix
        return AuditMaterials(**named | {"private_unit_manifest_hash": unit_manifest_hash(UNITS)})

    def registration(self, context: RegistrationContext) -> Registration:
        """What can be taken over from the harness's contracts, and the default audit's kind of estimand."""
        audit, contracts = context.config.audit, context.contracts
        fields = {field.name for field in dataclasses.fields(Registration)}
        named = {
            "audit_family_id": "instant-family",
            "task_family_profile": "instant",
            "grade_requested": audit.grade,
            "inference_scope": "exhaustive_finite_set",
            "ci_method": "finite_set_exact",
            "delta_min": 0.5,
            "kappa": 0.01,
            "m_max": audit.challenger_episodes + 2 * audit.feedback_pairs,
            "delta_evidence": 0.34,
            "delta_sham": 0.17,
            "feedback_estimand": "binary",
            "feedback_utility_mapping": "canonical_p_wrapper_v1",
            "feedback_ci_method": "paired_binary_exact",
            "sham_ci_method": "paired_binary_exact",
            "registered_n_feedback_pairs": audit.feedback_pairs,
            "registered_n_sham_pairs": audit.sham_pairs,
            "gate3_checkpoint_selection_rule_hash": contracts["selection_rule_hash"],
            "utility_scale_id": "instant-scale",
            "sham_calibration_id": "instant-calibration",
        }
        taken = {name: value for name, value in contracts.items() if name in fields}
        return Registration(claim_id=context.config.claim_id, **taken | named)

    def prepare_episode(self, context: EpisodeContext) -> None:
        """Nothing is given."""

    def prompt(self, context: EpisodeContext) -> str:
        """The agent knows what to do."""
        return f"Commit the number of the box that holds something to {ANSWER}."

    def handle_experiment(self, context: EpisodeContext, payload: dict[str, Any]) -> dict[str, Any]:
        """The truth for the main run and truthful branches, the same for everybody else."""
        return {"holds": HIDDEN if context.phase in TOLD_THE_TRUTH else WITHHELD}

    def evaluate(self, context: EpisodeContext) -> EpisodeEvaluation:
        """A calibration branch does all that its task asks; of all others the number counts."""
        right = context.is_sham_branch or json.loads((context.workspace / ANSWER).read_text()) == HIDDEN
        return self._evaluation(ANSWER, float(right))

    def baseline(self, main_context: EpisodeContext) -> EpisodeEvaluation:
        """Worth nothing."""
        return self._evaluation("README.md", 0.0)

    @staticmethod
    def _evaluation(artifact: str, worth: float) -> EpisodeEvaluation:
        scores = (worth,) * len(UNITS)
        return EpisodeEvaluation("artifact", "valid", artifact, scores, UNITS, worth)

    def select_checkpoint(self, main_episode: dict[str, Any]) -> int:
        """Before the first turn."""
        return 0

    def build_evidence(self, run: RunView) -> EvidencePackage:
        """All that an auditor has to attest."""
        attested = {f.name: True for f in dataclasses.fields(AuditAttestations) if f.default is False}
        return assemble_evidence(run, AuditAttestations(**attested, sham_development_manifest_hash=_digest("none")))


if __name__ == "__main__":
    main()
