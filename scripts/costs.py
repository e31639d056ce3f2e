"""Rule costs."""

import argparse
import json
from pathlib import Path

from dcpflow.arguments import run
from dcpflow.records.calls import Prices
from dcpflow.stages.costs import write_costs

parser = argparse.ArgumentParser()
parser.add_argument("--calls", type=Path, required=True)
parser.add_argument("--prices", type=json.loads, required=True)
parser.add_argument("--strata-prices", type=json.loads, required=True)
parser.add_argument("--output", type=Path, required=True)
run(
    parser,
    lambda given: write_costs(
        given.calls,
        Prices.of(given.prices),
        given.output,
        {name: Prices.of(prices) for name, prices in given.strata_prices.items()},
    ),
)
