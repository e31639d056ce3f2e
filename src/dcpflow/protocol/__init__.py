"""The rules of the Discovery Certification Protocol, as pure functions.

:func:`dcpflow.protocol.decision.decide` is the entrance. Rule numbers (R1, I2, G2.8, V11 ...) in the modules refer to
one numbering of the protocol's rules: registration R, intervals I, gates G, orchestration O, verdicts V (Core), E
(Evidence).

Nothing here reads a file, a clock or a random number, and nothing outside of this package is imported.
"""
