"""Gate 2 in several looks: a later look starts on one bit, whether a challenger has recovered the outcome or not."""


# Where one look is registered, nothing asks for these.
rule run_later_challenger:
    input:
        contract=CONTRACT,
        registration=ancient(REGISTRATION),
        packet=PACKET,
        target=rules.run_target.output,
        look=lambda wildcards: AUDIT.look(int(wildcards.look) - 1),
    output:
        f"{AUDIT.folder('challengers')}/look-{{look}}/b{{batch}}.json",
    log:
        f"{LOGS}/challengers/look-{{look}}/b{{batch}}.log",
    wildcard_constraints:
        look="[0-9]+",
    conda:
        "../envs/dcpflow.yaml"
    resources:
        api=AUDIT.api,
    params:
        first=lambda wildcards: AUDIT.first(wildcards.batch),
        last=lambda wildcards: AUDIT.last(wildcards.batch),
        stratum=AUDIT.config.design.stratum,
    message:
        f"challengers {{params.first}} to {{params.last}} of {AUDIT.count('challengers')}, unless an earlier look had a hit"
    shell:
        f"{PYTHON} -m dcpflow run-slots {JOB} --stage challengers --stratum {{params.stratum:q}} --after {{input.look:q}}"
        " --first {params.first} --last {params.last} --output {output:q} > {log:q} 2>&1"


rule score_look:
    input:
        contract=CONTRACT,
        sealed=rules.seal_task.output.sealed,
        receipts=lambda wildcards: AUDIT.look_receipts(int(wildcards.look)),
    output:
        f"{RESULTS}/scores/challengers-{{look}}.json",
    log:
        f"{LOGS}/score_look/{{look}}.log",
    wildcard_constraints:
        look="[0-9]+",
    conda:
        "../envs/dcpflow.yaml"
    threads: SCORING_THREADS
    params:
        code=AUDIT.code("stages.scoring"),
    message:
        "Gate 2: sealed scores of the challengers of look {wildcards.look}, in random order"
    shell:
        f"{PYTHON} scripts/score_phase.py {JOB} --phase challengers-{{wildcards.look}} --threads {{threads}} --output {{output:q}} {{input.receipts:q}} > {{log:q}} 2>&1"


# What counts as a hit follows from the thresholds, so that after their edit it is looked again.
rule read_look:
    input:
        contract=CONTRACT,
        registration=REGISTRATION,
        packet=PACKET,
        receipts=lambda wildcards: [
            path
            for phase in AUDIT.seen_by(int(wildcards.look))
            for path in AUDIT.phase_receipts(phase)
        ],
        scores=lambda wildcards: [
            AUDIT.score_file(phase) for phase in AUDIT.seen_by(int(wildcards.look))
        ],
    output:
        f"{RESULTS}/looks/{{look}}.json",
    log:
        f"{LOGS}/read_look/{{look}}.log",
    wildcard_constraints:
        look="[0-9]+",
    conda:
        "../envs/dcpflow.yaml"
    params:
        code=AUDIT.code("stages.looks"),
    message:
        "has a challenger recovered the outcome by look {wildcards.look}?"
    shell:
        f"{PYTHON} scripts/read_look.py {JOB} --receipts {{input.receipts:q}} --scores {{input.scores:q}} --output {{output:q}} > {{log:q}} 2>&1"
