"""Rule freeze_packet."""

from pathlib import Path

from dcpflow.arguments import job, job_parser, run
from dcpflow.stages.packet import freeze

parser = job_parser()
parser.add_argument("--output", type=Path, required=True)
run(parser, lambda given: freeze(job(given), given.output))
