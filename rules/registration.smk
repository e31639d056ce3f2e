"""Seal the task, freeze the contract, complete the registration: all before the first episode."""


# Where an auditor holds what is sealed, the seal is taken over from the offer, and nothing private is made.
rule seal_task:
    input:
        secret=SECRET,
    output:
        seal=SEAL,
        private=[] if AUDIT.is_offered else [HIDDEN, SEALED],
    log:
        f"{LOGS}/seal_task.log",
    conda:
        "../envs/dcpflow.yaml"
    params:
        # functions, since what is registered may hold braces, which Snakemake would take for wildcards
        task=lambda _: AUDIT.section("task"),
        limits=lambda _: AUDIT.section("limits"),
        sources=SOURCES,
    message:
        "sealing the task: public material, hidden state, sealed units, commitments"
    shell:
        f"{PYTHON} scripts/seal_task.py {JOB} --task {{params.task:q}} --limits {{params.limits:q}} > {{log:q}} 2>&1"


rule freeze_contract:
    input:
        seal=SEAL,
    output:
        contract=CONTRACT,
        parts=expand(
            f"{RESULTS}/registration/parts/{{part}}.json",
            part=("claim", "task", "agent", "information", "limits", "isolation"),
        ),
    log:
        f"{LOGS}/freeze_contract.log",
    conda:
        "../envs/dcpflow.yaml"
    params:
        contract=lambda _: AUDIT.contract,
        sources=SOURCES,
    message:
        "freezing the contract: what an episode is"
    shell:
        f"{PYTHON} scripts/freeze_contract.py {JOB} --config {{params.contract:q}}{AUDIT.artifact_option} > {{log:q}} 2>&1"


rule register:
    input:
        contract=rules.freeze_contract.output.contract,
    output:
        registration=REGISTRATION,
        parts=expand(
            f"{RESULTS}/registration/parts/{{part}}.json",
            part=("design", "thresholds"),
        ),
        registry=AUDIT.registry_files,
    log:
        f"{LOGS}/register.log",
    conda:
        "../envs/dcpflow.yaml"
    params:
        design=lambda _: AUDIT.section("design"),
        thresholds=lambda _: AUDIT.section("thresholds"),
        strata=lambda _: STRATA,
        registry=lambda _: AUDIT.registry,
    message:
        "registering the audit: slot, counts and thresholds are fixed before any episode"
    shell:
        f"{PYTHON} scripts/register.py {JOB} --design {{params.design:q}} --thresholds {{params.thresholds:q}} --strata {{params.strata:q}} --registry {{params.registry:q}} > {{log:q}} 2>&1"


# What is scored together has other inputs after an edit of a count. Snakemake would not look for that in a run that also
# registers, since the jobs between wait for the registration as `ancient`; a file of the counts tells it, of each phase
# and stratum and of `all`.
rule count_slots:
    output:
        f"{RESULTS}/registration/counts/{{phase}}.json",
    log:
        f"{LOGS}/count_slots/{{phase}}.log",
    conda:
        "../envs/dcpflow.yaml"
    params:
        counts=lambda wildcards: AUDIT.counts(wildcards.phase),
    message:
        "noting how many {wildcards.phase} are registered"
    shell:
        "printf '%s\\n' {params.counts:q} > {output:q} 2> {log:q}"
