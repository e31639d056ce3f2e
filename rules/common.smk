"""What all rules share: the validated configuration, where things lie, the lock of the results folder."""

import shlex
import sys
from pathlib import Path

from dcpflow.errors import DcpflowError
from dcpflow.protocol.config import ConfigError
from dcpflow.records import runlock
from dcpflow.stages.workflow import Workflow

try:
    AUDIT = Workflow.from_mapping(config)
except (ConfigError, DcpflowError) as error:
    raise WorkflowError(str(error))

PYTHON = sys.executable
RESULTS = AUDIT.results
LOGS = AUDIT.logs
NONCE = AUDIT.config.execution.nonce_file
# what every job that draws or opens something is told
JOB = shlex.join(["--results", RESULTS, "--nonce-file", NONCE])
if AUDIT.config.execution.public_randomness:
    JOB += " " + shlex.join(["--public-randomness", AUDIT.config.execution.public_randomness])
CONTRACT = f"{RESULTS}/registration/contract.json"
REGISTRATION = f"{RESULTS}/registration/registration.json"


onstart:
    try:
        runlock.take(Path(RESULTS))
    except DcpflowError as error:
        raise WorkflowError(str(error))


onsuccess:
    runlock.release(Path(RESULTS))


onerror:
    runlock.release(Path(RESULTS))
