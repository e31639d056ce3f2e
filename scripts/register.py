"""Rule register."""

import json

from dcpflow.arguments import job_parser, run
from dcpflow.stages.registering import register

parser = job_parser()
parser.add_argument("--design", type=json.loads, required=True)
parser.add_argument("--thresholds", type=json.loads, required=True)
parser.add_argument("--strata", type=json.loads, required=True)
parser.add_argument("--registry", required=True)
run(
    parser,
    lambda given: register(given.results, given.design, given.thresholds, given.strata, given.registry, given.offer),
)
