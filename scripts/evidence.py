"""Rule evidence."""

from pathlib import Path

from dcpflow.arguments import job, job_parser, run
from dcpflow.stages.evidence import write_evidence

parser = job_parser()
parser.add_argument("--receipts", type=Path, nargs="+", required=True)
parser.add_argument("--scores", type=Path, nargs="+", required=True)
run(parser, lambda given: write_evidence(job(given), given.receipts, {path.stem: path for path in given.scores}))
