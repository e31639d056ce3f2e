# Snakemake runs this in the new conda environment: the jobs use the library of this checkout, or, in a project that
# `dcpflow init` has made, the version that the project names.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
install() { LC_ALL=C.UTF-8 python -m pip install --quiet --no-deps "$@"; }
if [ -d "$root/src/dcpflow" ]; then
    install --no-build-isolation --editable "$root"
else
    install --requirement "$root/requirements.txt"
fi
