"""Strata: further challengers of other strengths, beside those that decide. Informative: no gate reads them."""

import re


wildcard_constraints:
    # no stratum at all matches nothing
    stratum="|".join(map(re.escape, AUDIT.strata)) or "(?!)",


# What is behind the registration is not looked at for other changes where that is made anew, so that a change of a
# stratum has to come by a way of its own; nobody else reads this file.
rule freeze_stratum:
    input:
        contract=CONTRACT,
    output:
        f"{RESULTS}/registration/strata/{{stratum}}.json",
    log:
        f"{LOGS}/freeze_strata/{{stratum}}.log",
    conda:
        "../envs/dcpflow.yaml"
    params:
        own=lambda wildcards: AUDIT.strata[wildcards.stratum].own_contract,
    message:
        "freezing agent and limits of the stratum {wildcards.stratum}"
    shell:
        "printf '%s\\n' {params.own:q} > {output:q} 2> {log:q}"


rule run_stratum:
    input:
        contract=CONTRACT,
        own=rules.freeze_stratum.output,
        registration=ancient(REGISTRATION),
        packet=PACKET,
        target=rules.run_target.output,
    output:
        f"{RESULTS}/challengers/{{stratum}}/b{{batch}}.json",
    log:
        f"{LOGS}/strata/{{stratum}}/b{{batch}}.log",
    conda:
        "../envs/dcpflow.yaml"
    resources:
        api=lambda wildcards: AUDIT.strata[wildcards.stratum].api,
        mem_mb=lambda wildcards: AUDIT.strata[wildcards.stratum].memory_mb,
        runtime=lambda wildcards: AUDIT.strata[wildcards.stratum].minutes("challengers"),
    params:
        first=lambda wildcards: AUDIT.first(wildcards.batch),
        last=lambda wildcards: AUDIT.last(wildcards.batch),
    message:
        "challengers {params.first} to {params.last} of the stratum {wildcards.stratum}"
    shell:
        f"{PYTHON} scripts/run_slots.py {JOB} --stage challengers --stratum {{wildcards.stratum:q}}"
        " --first {params.first} --last {params.last} --output {output:q} > {log:q} 2>&1"


rule score_stratum:
    input:
        contract=CONTRACT,
        registration=ancient(REGISTRATION),
        sealed=SEALED,
        receipts=lambda wildcards: AUDIT.strata[wildcards.stratum].receipts(
            "challengers"
        ),
        counts=f"{COUNTS}/challengers/{{stratum}}.json",
    output:
        f"{RESULTS}/scores/challengers/{{stratum}}.json",
    log:
        f"{LOGS}/score_strata/{{stratum}}.log",
    conda:
        "../envs/dcpflow.yaml"
    threads: SCORING_THREADS
    params:
        code=AUDIT.code("stages.scoring"),
    message:
        "sealed scores of the stratum {wildcards.stratum}, in random order"
    shell:
        f"{PYTHON} scripts/score_phase.py {JOB} --phase challengers --stratum {{wildcards.stratum:q}}"
        " --threads {threads} --output {output:q} {input.receipts:q} > {log:q} 2>&1"
