"""Rule select_checkpoint."""

from pathlib import Path

from dcpflow.arguments import job, job_parser, run
from dcpflow.stages.checkpoint import select

parser = job_parser()
parser.add_argument("--output", type=Path, required=True)
run(parser, lambda given: select(job(given), given.output))
