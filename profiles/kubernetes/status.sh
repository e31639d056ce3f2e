#!/bin/sh
# What has become of a Job: running, success or failed. Where the cluster does not answer, the next look will tell.
conditions='{range .status.conditions[?(@.status=="True")]}{.type} {end}'
case " $(kubectl get job "$1" --output=jsonpath="$conditions" 2>&1) " in
    *' Failed '* | *NotFound*) echo failed ;;
    *' Complete '*) echo success ;;
    *) echo running ;;
esac
