"""Rule replay_channels."""

from pathlib import Path

from dcpflow.arguments import job, job_parser, run
from dcpflow.stages.replay import replay_channels

parser = job_parser()
parser.add_argument("--stratum", default="")
parser.add_argument("--output", type=Path, required=True)
parser.add_argument("receipts", type=Path, nargs="*")
run(parser, lambda given: replay_channels(job(given).of(given.stratum), given.receipts, given.output))
