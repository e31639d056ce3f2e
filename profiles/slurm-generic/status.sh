#!/bin/sh
# What has become of a job: running, success or failed. By its state and never by its exit code, which is 0 for some
# jobs that ran out of time. Where SLURM does not answer, or does not know the state yet, the next look will tell; a job
# that accounts are silent about and the controller has forgotten would never be heard of again.
state=$(sacct --allocations --noheader --parsable2 --format=State --jobs="$1" 2>/dev/null | head -n 1) || state=
if [ -z "$state" ]; then
    told=$(scontrol --oneliner show job "$1" 2>&1)
    case $told in
        *'Invalid job id specified'*) state=FORGOTTEN ;;
        *) state=$(echo "$told" | sed -n 's/.* JobState=\([A-Z_]*\).*/\1/p') ;;
    esac
fi
case $state in
    COMPLETED) echo success ;;
    '' | PENDING | CONFIGURING | RUNNING | COMPLETING | SUSPENDED | STOPPED | SIGNALING | STAGE_OUT | REQUEUE* | RESIZING) echo running ;;
    *) echo failed ;;
esac
