"""The rules that run episodes: all run_* rules, for target, challengers, strata, controls, pairs and null study."""

from pathlib import Path

from dcpflow.arguments import job, job_parser, run
from dcpflow.stages.episodes import run_slots

parser = job_parser()
parser.add_argument("--stage", required=True)
parser.add_argument("--stratum", default="")
parser.add_argument("--after", type=Path, help="the look that these slots follow")
parser.add_argument("--first", type=int, required=True)
parser.add_argument("--last", type=int, required=True)
parser.add_argument("--output", type=Path, required=True)
run(
    parser,
    lambda given: run_slots(job(given), given.stage, given.first, given.last, given.output, given.stratum, given.after),
)
