"""The rules that score: all score_* rules."""

from pathlib import Path

from dcpflow.arguments import job, job_parser, run
from dcpflow.stages.scoring import score_phase

parser = job_parser()
parser.add_argument("--phase", required=True)
parser.add_argument("--stratum", default="")
parser.add_argument("--output", type=Path, required=True)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("receipts", type=Path, nargs="*")
run(
    parser,
    lambda given: score_phase(job(given).of(given.stratum), given.phase, given.receipts, given.output, given.threads),
)
