#!/bin/sh
# What has become of a job: running, success or failed. By its state and never by its exit code, which is 0 for some
# jobs that ran out of time. Where SLURM does not answer, or does not know the job yet, the next look will tell.
state=$(sacct --allocations --noheader --parsable2 --format=State --jobs="$1" 2>/dev/null | head -n 1) || state=
case ${state:=$(scontrol --oneliner show job "$1" 2>/dev/null | sed -n 's/.* JobState=\([A-Z_]*\).*/\1/p')} in
    COMPLETED) echo success ;;
    '' | PENDING | CONFIGURING | RUNNING | COMPLETING | SUSPENDED | STOPPED | SIGNALING | STAGE_OUT | REQUEUE* | RESIZING) echo running ;;
    *) echo failed ;;
esac
