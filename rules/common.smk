"""What all rules share: the validated configuration, where things lie, the lock of the results folder."""

import logging
import os
import sys
from pathlib import Path

from dcpflow.errors import DcpflowError, storage_error
from dcpflow.protocol.config import ConfigError
from dcpflow.records import plan, runlock
from dcpflow.stages.workflow import Workflow

# On a full disk Snakemake's own log cannot be written either: that must not bury what is said on the screen.
logging.raiseExceptions = False

# seconds for which a client of NFS may believe what it has seen of a folder before
NODES_SEE_WITHIN = 60
# jobs a second: what the default profile has in place of no limit, which cannot be said
NO_LIMIT = 10_000

try:
    AUDIT = Workflow.from_mapping(config)
    # found before any rule, so that a task or an agent that is not there is told in one line
    SOURCES = AUDIT.registered_sources
    STRATA = AUDIT.registered_strata
    if workflow.remote_exec:
        # on a node of a cluster this file is read before anything is looked for
        runlock.require(Path(AUDIT.results), patience=NODES_SEE_WITHIN)
except (ConfigError, DcpflowError) as error:
    raise WorkflowError(str(error))

RESULTS = AUDIT.results
LOCK = runlock.RunLock(Path(RESULTS))
LOGS = AUDIT.logs
# the nonce with the hidden state and sealed units that follow from it, or instead of the first two an auditor's offer
SECRET, HIDDEN, SEALED = AUDIT.secret, AUDIT.hidden, AUDIT.sealed
SEAL = f"{RESULTS}/task/seal.json"
# what every shell command begins with, and what every job that draws or opens something is told
PYTHON = AUDIT.shell([sys.executable])
JOB = AUDIT.shell(AUDIT.job_arguments)
# artifacts that one scoring job takes at a time; the phases are scored beside each other
SCORING_THREADS = 8
if workflow.resource_settings.cores and not workflow.remote_exec:
    # of a machine of one's own; of a cluster no number is told
    SCORING_THREADS = max(
        1, min(SCORING_THREADS, workflow.resource_settings.cores // 2)
    )
# What more follows from is done first: the pairs have a checkpoint, their replacements and the longest scoring.
SOONEST, SOON, LATER = 3, 2, 1
CONTRACT = f"{RESULTS}/registration/contract.json"
PACKET = AUDIT.packet
COUNTS = f"{RESULTS}/registration/counts"
REGISTRATION = f"{RESULTS}/registration/registration.json"


def asking_at_once():
    """Jobs that may ask a model at the same time: `--resources api=N`, else as many as can run."""
    if "api" in workflow.global_resources:
        return max(1, workflow.global_resources["api"].value)
    return workflow.nodes or workflow.cores or 1


def lift_limit(scheduler):
    """Take the limit on jobs a second away where none is meant: to keep one of any size, Snakemake starts a timer of a
    second after each job, and waits for the last of them before it ends."""
    limiter = getattr(scheduler, "job_rate_limiter", None)
    if getattr(limiter, "max_jobs", 0) >= NO_LIMIT:
        scheduler.job_rate_limiter = None


# Each takes a second or less and starts no agent: cheaper where snakemake itself runs than as a job of a cluster.
localrules:
    seal_task,
    freeze_contract,
    register,
    count_slots,
    freeze_stratum,
    freeze_packet,
    select_checkpoint,
    decide,
    costs,
    report,


onstart:
    try:
        AUDIT.require_for({job.rule.name for job in workflow.dag.needrun_jobs()})
        if LOCK.take() and workflow.non_local_exec:
            print(
                f"an earlier run in {RESULTS} was killed: if the scheduler still has jobs of it, cancel them, "
                "since they would start beside those of this run (docs/clusters.md)",
                file=sys.stderr,
            )
        AUDIT.tell_jobs(asking_at_once())
        lift_limit(workflow.scheduler)
        if workflow.non_local_exec:
            # schedulers give their jobs the environment in which they are submitted
            for variable in AUDIT.kept_from_jobs(os.environ):
                del os.environ[variable]
    except DcpflowError as error:
        raise WorkflowError(str(error))
    except OSError as error:
        raise WorkflowError(str(storage_error(error) or error))


onsuccess:
    LOCK.release()


onerror:
    # a job that found no room for its records may have found none for its log
    if fault := AUDIT.storage_fault():
        print(fault, file=sys.stderr)
    LOCK.release()
