"""The files that ``dcpflow task new`` writes under a name of the author's: a task, its configuration, its test."""
