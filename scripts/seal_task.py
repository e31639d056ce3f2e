"""Rule seal_task."""

import json

from dcpflow.arguments import job_parser, run
from dcpflow.stages.seal import seal_task

parser = job_parser()
parser.add_argument("--task", type=json.loads, required=True)
parser.add_argument("--limits", type=json.loads, required=True)
run(parser, lambda given: seal_task(given.results, given.task, given.nonce_file, given.limits, given.data_file))
