# Snakemake runs this in the new conda environment: the jobs use the library of this checkout.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
LC_ALL=C.UTF-8 python -m pip install --quiet --no-deps --no-build-isolation --editable "$root"
