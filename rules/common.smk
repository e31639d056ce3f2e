"""What all rules share: the validated configuration, where things lie, the lock of the results folder."""

import os
import sys
from pathlib import Path

from dcpflow.errors import DcpflowError
from dcpflow.protocol.config import ConfigError
from dcpflow.records import runlock
from dcpflow.stages.workflow import Workflow

# seconds for which a client of NFS may believe what it has seen of a folder before
NODES_SEE_WITHIN = 60

try:
    AUDIT = Workflow.from_mapping(config)
    # found before any rule, so that a task or an agent that is not there is told in one line
    SOURCES = AUDIT.registered_sources
    if workflow.remote_exec:
        # on a node of a cluster this file is read before anything is looked for
        runlock.require(Path(AUDIT.results), patience=NODES_SEE_WITHIN)
except (ConfigError, DcpflowError) as error:
    raise WorkflowError(str(error))

RESULTS = AUDIT.results
LOGS = AUDIT.logs
NONCE = AUDIT.config.execution.nonce_file
# what every shell command begins with, and what every job that draws or opens something is told
PYTHON = AUDIT.shell([sys.executable])
JOB = AUDIT.shell(AUDIT.job_arguments)
# artifacts that one scoring job takes at a time; fewer where the run has fewer cores
SCORING_THREADS = 8
CONTRACT = f"{RESULTS}/registration/contract.json"
PACKET = AUDIT.packet
REGISTRATION = f"{RESULTS}/registration/registration.json"


def asking_at_once():
    """Jobs that may ask a model at the same time: `--resources api=N`, else as many as can run."""
    if "api" in workflow.global_resources:
        return max(1, workflow.global_resources["api"].value)
    return workflow.nodes or workflow.cores or 1


# Each takes a second or less and starts no agent: cheaper where snakemake itself runs than as a job of a cluster.
localrules:
    seal_task,
    freeze_contract,
    register,
    freeze_packet,
    select_checkpoint,
    decide,
    costs,
    report,


onstart:
    try:
        AUDIT.require_for({job.rule.name for job in workflow.dag.needrun_jobs()})
        runlock.take(Path(RESULTS))
        AUDIT.tell_jobs(asking_at_once())
        if workflow.non_local_exec:
            # schedulers give their jobs the environment in which they are submitted
            for variable in AUDIT.kept_from_jobs(os.environ):
                del os.environ[variable]
    except DcpflowError as error:
        raise WorkflowError(str(error))


onsuccess:
    runlock.release(Path(RESULTS))


onerror:
    runlock.release(Path(RESULTS))
