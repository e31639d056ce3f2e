"""Rule decide."""

from pathlib import Path

from dcpflow.arguments import job_parser, run
from dcpflow.stages.decide import decide

parser = job_parser()
parser.add_argument("--receipts", type=Path, nargs="+", required=True)
parser.add_argument("--scores", type=Path, nargs="+", required=True)
parser.add_argument("--registry", required=True)
run(
    parser,
    lambda given: decide(given.results, given.receipts, {path.stem: path for path in given.scores}, given.registry),
)
