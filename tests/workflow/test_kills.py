"""Whatever is killed, whenever: a plain second run goes on to the identical decision, and overwrites nothing."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable

import psutil

from workflow.conftest import Audit, Run, Running, agent_of


def test_a_run_killed_again_and_again_ends_with_the_identical_decision(audit: Audit) -> None:
    fresh = Audit.make(audit.folder.with_name("fresh"))
    results, logs = fresh.results, fresh.logs

    def killed(victim: Callable[[Running], psutil.Process | None]) -> Run:
        """Start a run, kill what is named once it is there, and wait for the end."""
        running = fresh.start(cores=1)
        found: psutil.Process = running.until(lambda: victim(running))
        found.kill()
        return running.ended()

    def sealing(running: Running) -> psutil.Process | None:
        begun = (logs / "seal_task.log").exists() and not (results / "task/seal.json").exists()
        return psutil.Process(running.process.pid) if begun else None

    def target(running: Running) -> psutil.Process | None:
        return running.frozen("target")

    def challengers(running: Running) -> psutil.Process | None:
        records = list(results.glob("store/*/challengers/*/*/*/record.json"))
        return psutil.Process(running.process.pid) if len(records) >= 2 else None

    def scoring(running: Running) -> psutil.Process | None:
        begun = (logs / "score_challengers.log").exists()
        return running.below("scripts/score_phase.py", "challengers") if begun else None

    def deciding(running: Running) -> psutil.Process | None:
        return psutil.Process(running.process.pid) if (logs / "decide.log").exists() else None

    assert killed(sealing).code == -signal.SIGKILL
    assert killed(target).code == 1
    assert not (results / "target/b00001-00001.json").exists()
    assert killed(challengers).code == -signal.SIGKILL
    assert killed(scoring).code == 1
    assert not (results / "scores/challengers.json").exists()
    assert killed(deciding).code == -signal.SIGKILL
    fresh.finish(cores=1)
    assert fresh.decision_bytes == audit.original


def challengers_again(audit: Audit) -> Running:
    """Forget the challengers and all that rests on them, and start a run that goes through them again."""
    for path in audit.store.glob("challengers/*/*/*/*"):
        path.unlink()
    (audit.results / "challengers/matched/b00001-00006.json").unlink()
    audit.decision_path.unlink()
    return audit.start()


def orphaned(audit: Audit) -> psutil.Process:
    """Freeze a job of challengers in the middle of an episode, kill the run that started it, return the job."""
    running = challengers_again(audit)
    running.until((audit.place("challengers", 1, "withheld") / "record.json").exists)
    job: psutil.Process = running.until(lambda: running.frozen("challengers"))
    running.process.kill()
    assert running.ended().code == -signal.SIGKILL
    return job


def test_a_second_run_waits_for_the_episode_that_a_job_of_the_dead_run_is_in(audit: Audit) -> None:
    job = orphaned(audit)
    records = audit.records()
    second = audit.start()
    second.until(lambda: audit.said("challengers/b00001-00006.log", "waiting for its record"))
    job.resume()
    assert second.ended().code == 0
    psutil.wait_procs([job])
    assert audit.decision_bytes == audit.original
    assert audit.records().items() >= records.items()


def test_a_job_of_the_dead_run_that_wakes_up_after_the_second_run_changes_nothing(audit: Audit) -> None:
    job = orphaned(audit)
    # as a job on another machine that is taken for dead
    for holder in audit.store.glob("challengers/*/withheld/1/holder-1.json"):
        told = json.loads(holder.read_bytes())
        holder.write_text(json.dumps(told | {"boot": "an earlier boot"}))
    audit.finish()
    assert audit.decision_bytes == audit.original
    records = audit.records()
    job.resume()
    psutil.wait_procs([job])
    assert audit.records() == records
    assert audit.decision_bytes == audit.original
    assert audit.run().idle


def test_agents_that_are_killed_are_recorded_results(audit: Audit) -> None:
    running = challengers_again(audit)
    killed = 0
    while running.process.poll() is None:
        if job := running.frozen("challengers"):
            if agent := agent_of(job):
                agent.kill()
                killed += 1
            job.resume()
        time.sleep(0.01)
    assert killed
    assert running.ended().code == 0
    records = [json.loads(data) for path, (_, _, data) in audit.records().items() if "challengers" in path.parts]
    lost = [record for record in records if record["outcome"] != "artifact"]
    assert lost
    assert all(record["attempt"] == 1 and record["reason"] for record in lost)
    assert audit.decision["gate2"]["challengers"]["started"] == 6
