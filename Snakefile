"""The audit of one discovery claim: registration, episodes, sealed scoring, evidence, decision."""

from snakemake.utils import min_version

min_version("9.27")


configfile: "config/config.yaml"


include: "rules/common.smk"
include: "rules/registration.smk"
include: "rules/target.smk"
include: "rules/challengers.smk"
include: "rules/strata.smk"
include: "rules/controls.smk"
include: "rules/feedback.smk"
include: "rules/looks.smk"
include: "rules/evidence.smk"
include: "rules/decision.smk"
include: "rules/report.smk"


# As far as a run gets that does not hold the nonce: an auditor scores what was committed.
COMMITTED = [
    AUDIT.all_receipts,
    expand(rules.freeze_stratum.output, stratum=AUDIT.strata),
    AUDIT.strata_receipts,
    AUDIT.packet,
    rules.select_checkpoint.output if AUDIT.has_gate3 else [],
    rules.seal_task.output,
    rules.freeze_contract.output,
    rules.register.output,
    expand(f"{COUNTS}/{{phase}}.json", phase=AUDIT.counted),
]
SCORED = [
    rules.decide.output,
    rules.evidence.output,
    AUDIT.replays,
    AUDIT.score_files,
    AUDIT.strata_scores,
    AUDIT.costs,
    AUDIT.looks,
]


# All that is declared is asked for, so that whatever is deleted comes back with the next run.
rule all:
    default_target: True
    input:
        COMMITTED,
        [] if AUDIT.is_offered else SCORED,
    message:
        "all that was asked for is there"
