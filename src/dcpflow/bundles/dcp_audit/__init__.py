"""Reading, checking and deciding bundles of the dcp-audit package, both profiles."""
