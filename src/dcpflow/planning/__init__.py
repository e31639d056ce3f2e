"""Before and beside an audit: how many episodes it takes, how its decision moves, how often such an audit is wrong.

Nothing here decides an audit. What is decided on the way is decided by :mod:`dcpflow.protocol`.
"""
