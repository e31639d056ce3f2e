#!/bin/sh
# What has become of a Job: running, success or failed. Where the cluster does not answer, the next look will tell; where
# it may not be asked, or there is no kubectl (127), none ever would.
conditions='{range .status.conditions[?(@.status=="True")]}{.type} {end}'
told=$(kubectl get job "$1" --output=jsonpath="$conditions" 2>&1)
case " $? $told " in
    *' Failed '* | *NotFound*) echo failed ;;
    *' Complete '*) echo success ;;
    ' 127 '* | *Unauthorized* | *Forbidden*) echo "$told" >&2 && echo failed ;;
    *) echo running ;;
esac
