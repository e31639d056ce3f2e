"""The audit of one discovery claim: registration, episodes, sealed scoring, evidence, decision."""

from snakemake.utils import min_version

min_version("9.27")


configfile: "config/config.yaml"


include: "rules/common.smk"
include: "rules/registration.smk"
include: "rules/target.smk"
include: "rules/challengers.smk"
include: "rules/controls.smk"
include: "rules/feedback.smk"
include: "rules/evidence.smk"
include: "rules/decision.smk"


rule all:
    default_target: True
    input:
        f"{RESULTS}/decision.json",
