"""Rule report."""

import argparse
from pathlib import Path

from dcpflow.arguments import run
from dcpflow.stages.report import write_report

parser = argparse.ArgumentParser()
parser.add_argument("--results", type=Path, required=True)
run(parser, lambda given: write_report(given.results))
