"""Rule seal_task."""

import argparse
import json

from dcpflow.arguments import job_parser, run
from dcpflow.stages.offering import accept
from dcpflow.stages.seal import seal_task

parser = job_parser()
parser.add_argument("--task", type=json.loads, required=True)
parser.add_argument("--limits", type=json.loads, required=True)


def work(given: argparse.Namespace) -> None:
    if given.offer:
        accept(given.results, given.offer, given.task, given.data_file)
    else:
        seal_task(given.results, given.task, given.nonce_file, given.limits, given.data_file)


run(parser, work)
