#!/bin/sh
# Ends jobs with all that they have started: without --full the job's script alone may get the signal. Snakemake waits
# two seconds for this, so it goes on by itself.
setsid scancel --full "$@" >/dev/null 2>&1 </dev/null &
