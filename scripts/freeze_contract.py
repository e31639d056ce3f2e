"""Rule freeze_contract."""

import json
from pathlib import Path

from dcpflow.arguments import job_parser, run
from dcpflow.stages.registering import freeze_contract

parser = job_parser()
parser.add_argument("--config", type=json.loads, required=True)
parser.add_argument("--artifact-file", type=Path)
run(parser, lambda given: freeze_contract(given.results, given.config, given.artifact_file))
