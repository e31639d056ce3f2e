"""Rule read_look."""

from pathlib import Path

from dcpflow.arguments import job, job_parser, run
from dcpflow.stages.looks import read_look

parser = job_parser()
parser.add_argument("--stage", required=True)
parser.add_argument("--receipts", type=Path, nargs="+", required=True)
parser.add_argument("--scores", type=Path, nargs="+", required=True)
parser.add_argument("--output", type=Path, required=True)
run(
    parser,
    lambda given: read_look(
        job(given), given.stage, given.receipts, {path.stem: path for path in given.scores}, given.output
    ),
)
