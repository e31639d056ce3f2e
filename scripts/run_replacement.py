"""Rules replace_pair and replace_null_pair."""

from pathlib import Path

from dcpflow.arguments import job, job_parser, run
from dcpflow.stages.episodes import run_replacement

parser = job_parser()
parser.add_argument("--stage", required=True)
parser.add_argument("--slot", type=int, required=True)
parser.add_argument("--earlier", type=Path, nargs="+", required=True)
parser.add_argument("--output", type=Path, required=True)
run(parser, lambda given: run_replacement(job(given), given.stage, given.slot, given.earlier, given.output))
