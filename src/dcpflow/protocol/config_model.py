"""The typed model of ``config/config.yaml``: what each key means, its unit, its type and its default.

The default file, its JSON Schema and its documentation are rendered from this model. Floors and caps of the
protocol (R1 to R19) are not repeated here; :mod:`dcpflow.protocol.config` holds a configuration against them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from dcpflow.protocol.registration import PROSPECTIVE

CONTRACT_SECTIONS: Final = ("claim", "task", "agent", "information", "limits", "isolation")
"""Sections whose digest is the contract: what an episode is."""

REGISTERED_SECTIONS: Final = (*CONTRACT_SECTIONS, "design", "thresholds")
"""Sections that the registration binds; an edit of any other key is no amendment."""

MAX_SLOTS: Final = 99_999
"""Most episodes of one kind: a slot's number has five digits."""

ONE_LINE: Final = r"^[^\r\n]*\S[^\r\n]*$"


class Section(BaseModel):
    """A part of the configuration: no unknown keys, no conversion between types, never changed once read."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Roles(Section):
    """Who takes part in the audit, as free text."""

    claimant: str = Field("the authors of dcpflow", pattern=ONE_LINE, description="Who makes the discovery claim.")
    auditor: str = Field(
        "the authors of dcpflow",
        pattern=ONE_LINE,
        description="Who runs the audit and holds the sealed part.",
    )
    registry: str = Field(
        "none", pattern=ONE_LINE, description="Who keeps the public list of audits; `none` if nobody does."
    )
    self_audited: bool = Field(
        True,
        description="Claimant and auditor are one party. If `false`, they must have different names.",
    )


class Retrospective(Section):
    """The result that a retrospective audit looks back at. `null` for a prospective one."""

    artifact_file: str = Field(
        "",
        pattern=ONE_LINE,
        exclude=True,
        description="File with the claimed artifact, below the folder of the Snakefile. Its content is registered.",
    )
    presentation: str = Field(
        "0" * 64,
        pattern=ONE_LINE,
        description="Seed of the names and orders in which the artifact is written, 64 hex digits; where an episode "
        "committed it, that episode's.",
    )
    published: str = Field("", pattern=ONE_LINE, description="The outcome as it was published, and where.")
    boundary: str = Field(
        "",
        pattern=ONE_LINE,
        description="How the information boundary was rebuilt: what was known at that time, what of it challengers are "
        "given in K, E0 and the public material and what not, and how that was found out.",
    )


class Claim(Section):
    """The discovery that is claimed, and by whom."""

    id: str = Field("sqlite-web", description="Name of the claim.")
    statement: str = Field(
        "The agent finds, by its own experiments, four partial indexes that serve the database's hidden heavy queries.",
        pattern=ONE_LINE,
        description="What is claimed, in one sentence.",
    )
    family: str = Field("sqlite-web-family", description="Name of the family of audits that shares one error budget.")
    slot: str = Field(
        "sqlite-web-audit-1", description="Name of this audit within its family; every audit takes a new one."
    )
    earlier_audits: tuple[str, ...] = Field(
        (), strict=False, description="Slots of this family that were audited before, the oldest first."
    )
    grade: Literal["core", "evidence"] = Field(
        "evidence",
        description="`core` asks Gates 1 and 2 (outcome, no recovery without feedback); `evidence` also asks "
        "Gate 3 (the feedback is what made it).",
    )
    necessity: bool = Field(
        False,
        description="Also claim that neutral feedback does not suffice. Needs grade `evidence` and about 104 pairs.",
    )
    attribution: Literal["autonomous_agent", "agent_given_fixed_human_input", "human_agent_joint"] = Field(
        "autonomous_agent", description="To whom the discovery is attributed."
    )
    human_assistance: Literal["none", "operational", "fixed_scientific", "adaptive_scientific"] = Field(
        "none",
        description="What people contributed to the target run. An autonomous agent had none or operational "
        "help only; adaptive scientific help makes it a joint discovery.",
    )
    mode: Literal["prospective", "retrospective_prepub", "retrospective_present"] = Field(
        "prospective",
        description="`prospective` runs the target. The others take the artifact of `claim.retrospective` and run "
        "challengers and controls alone: one that recovers the outcome refutes Core, and nothing certifies it. "
        "Information ends before the publication (`retrospective_prepub`), or today (`retrospective_present`).",
    )
    retrospective: Retrospective | None = None
    roles: Roles = Roles()

    @property
    def is_retrospective(self) -> bool:
        """Whether an existing result is audited, without a target run."""
        return self.mode != PROSPECTIVE


class Task(Section):
    """The task in which the discovery was made."""

    name: str = Field(
        "sqlite_index",
        pattern=ONE_LINE,
        description="A task that ships with dcpflow, or one of your own: `path/to/file.py:Class` below the "
        "folder of the Snakefile, `module:Class`, or the entry point of an installed package; see `docs/tasks.md`.",
    )
    settings: Mapping[str, JsonValue] = Field(
        {}, description="The task's own settings; what is left out takes the task's defaults."
    )
    public_seed: str = Field(
        "dcpflow public seed 1",
        pattern=ONE_LINE,
        description="Seed of the public material. Hidden values come from the nonce instead.",
    )
    data_file: str | None = Field(
        None,
        pattern=ONE_LINE,
        exclude=True,
        description="File of the data set, for a task that reads one; `null` for what `dcpflow data fetch` keeps. Not "
        "registered: the digest of its content is.",
    )


class Program(Section):
    """The program that is started as the agent (kinds `command` and `mcp`). `null` for all others."""

    command: tuple[str, ...] = Field(
        (),
        strict=False,
        description="Program and arguments. `{python}` stands for the interpreter that every sandbox has, `{model}` "
        "for the address of the model inside the sandbox, `{mcp}` for that of the MCP server (kind `mcp`).",
    )
    files: tuple[str, ...] = Field(
        (),
        strict=False,
        description="Files below the folder of the Snakefile that the agent is given, read-only, as `/agent/NAME`. "
        "Their content is registered.",
    )
    mounts: tuple[str, ...] = Field(
        (),
        strict=False,
        description="Other files and folders of this machine that it can read, at their own paths: where it is "
        "installed. Their content is registered.",
    )
    environment: Mapping[str, str] = Field(
        {}, description="Environment variables; `{model}` and `{mcp}` as in the command. No keys: they are registered."
    )


class Model(Section):
    """The model behind an API that the agent asks. `null` for agents that ask none."""

    api: Literal["openai", "anthropic"] = Field(
        "openai", description="What the API is like: OpenAI's chat completions or Anthropic's messages."
    )
    base_url: str = Field(
        "https://api.openai.com/v1",
        pattern=ONE_LINE,
        description="Where it is; nothing else on the network can be reached.",
    )
    key_variable: str | None = Field(
        None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        exclude=True,
        description="Environment variable with the API key, which is read outside of the sandbox and written nowhere; "
        "`null` if there is none. Not registered.",
    )
    requested: str | None = Field(
        None, pattern=ONE_LINE, description="Model that is asked for (kind `chat`); `null` for `agent.model_id`."
    )
    accepted: tuple[str, ...] = Field(
        (),
        strict=False,
        description="Models that the API may say have answered; empty for the requested one alone. Any other breaks "
        "the contract.",
    )
    calls: int = Field(
        40, ge=1, le=MAX_SLOTS, description="Most calls.", json_schema_extra={"unit": "calls per episode"}
    )
    call_seconds: float = Field(
        120.0, gt=0, le=86_400, description="Longest duration of one call.", json_schema_extra={"unit": "s"}
    )
    episode_tokens: int = Field(
        1_000_000,
        ge=1,
        le=2**40,
        description="Most tokens of all calls together, read and written.",
        json_schema_extra={"unit": "tokens per episode"},
    )
    answer_tokens: int = Field(
        2_048,
        ge=1,
        le=2**24,
        description="Most tokens of one answer (kind `chat`).",
        json_schema_extra={"unit": "tokens per call"},
    )
    temperature: float | None = Field(
        1.0, ge=0, le=2, description="Sampling temperature (kind `chat`); `null` leaves it to the API."
    )
    tools: Literal["native", "json"] = Field(
        "native",
        description="How the model acts (kind `chat`): by tool calls, or by answers that are JSON of a given schema, "
        "for models without tool calls.",
    )
    system_prompt: str = Field(
        "You are a research agent. You act only through the given tools, and work until your result is committed.",
        min_length=1,
        description="What the model is told first (kind `chat`).",
    )
    requests_per_minute: int = Field(
        600,
        ge=1,
        le=10**6,
        description="Most calls of all jobs together.",
        json_schema_extra={"unit": "calls per minute"},
    )


class Agent(Section):
    """The agent whose discovery is audited; challengers and branches run the same one."""

    kind: Literal["builtin", "command", "mcp", "chat"] = Field(
        "builtin",
        description="`builtin`: one that ships with dcpflow. `command`: a program that speaks the channel on its "
        "standard input and output (`docs/agent-protocol.md`). `mcp`: a program that uses tools by the Model Context "
        "Protocol. `chat`: a model behind an API, with a plain loop around it.",
    )
    name: str = Field(
        "index_designer",
        pattern=ONE_LINE,
        description="Which agent of that kind; for all but `builtin` a name of your own.",
    )
    model_id: str = Field("dcpflow-index-designer-1", description="The model behind the agent, with its version.")
    settings: Mapping[str, JsonValue] = Field(
        {}, description="The agent's own settings; what is left out takes the agent's defaults."
    )
    program: Program | None = None
    model: Model | None = None


class Web(Section):
    """What the target run may fetch; all others are answered from what it saw. `null`: the Web is not offered."""

    site: str | None = Field(
        "sqlite-notes.test",
        pattern=ONE_LINE,
        description="Host name of a site that ships with dcpflow. The target's job serves it on loopback under this "
        "name, the one host whose address need not be public; `null` for none.",
    )
    https_hosts: tuple[str, ...] = Field(
        (), strict=False, description="Hosts of the live Web that may be fetched from."
    )
    http_hosts: tuple[str, ...] = Field(
        (), strict=False, description="Hosts that may be fetched from without encryption too."
    )
    requests: int = Field(
        16, ge=1, le=1_000, description="Most fetches.", json_schema_extra={"unit": "fetches per episode"}
    )
    redirects: int = Field(
        3, ge=0, le=20, description="Most redirects that one fetch follows.", json_schema_extra={"unit": "redirects"}
    )
    body_bytes: int = Field(
        524_288,
        ge=1_024,
        le=2**23,
        description="Largest answer, compressed or not.",
        json_schema_extra={"unit": "bytes"},
    )
    text_bytes: int = Field(
        16_384,
        ge=256,
        le=2**24,
        description="Most that an agent is shown of one page; at most a quarter of `limits.message_bytes`, since "
        "positive controls quote a page.",
        json_schema_extra={"unit": "bytes"},
    )
    fetch_seconds: float = Field(
        10.0, gt=0, le=600, description="Longest duration of one fetch.", json_schema_extra={"unit": "s"}
    )


class Information(Section):
    """What there is to read, and what challengers and branches are given of the target's run.

    `web: null` offers the Web to nobody.
    """

    checkpoint: Literal["before_first_experiment"] = Field(
        "before_first_experiment",
        description="Where the feedback branches start: after the target's reading, before its first experiment.",
    )
    web: Web | None = Web()


class Limits(Section):
    """What one episode may use; the same for every kind of episode."""

    experiments: int = Field(
        4,
        ge=0,
        le=MAX_SLOTS,
        description="Most experiments.",
        json_schema_extra={"unit": "experiments per episode"},
    )
    candidates: int = Field(
        1,
        ge=1,
        le=MAX_SLOTS,
        description="Most artifacts that may be committed; the best one counts.",
        json_schema_extra={"unit": "artifacts per episode"},
    )
    wall_seconds: float = Field(
        60.0, gt=0, le=604_800, description="Longest duration of an episode.", json_schema_extra={"unit": "s"}
    )
    experiment_seconds: float = Field(
        5.0,
        gt=0,
        le=604_800,
        description="Most CPU time of one experiment, and of scoring one artifact; on a busy machine either may last "
        "ten times as long.",
        json_schema_extra={"unit": "s"},
    )
    reply_delay_ms: int = Field(
        10,
        ge=0,
        le=60_000,
        description="A reply leaves this long after its request, so that its time tells nothing.",
        json_schema_extra={"unit": "ms"},
    )
    message_bytes: int = Field(
        65_536, ge=1_024, le=2**30, description="Longest message.", json_schema_extra={"unit": "bytes"}
    )
    candidate_bytes: int = Field(
        16_384,
        ge=1,
        le=2**30,
        description="Largest artifact; it must fit into a message.",
        json_schema_extra={"unit": "bytes"},
    )
    output_bytes: int = Field(
        1_048_576,
        ge=1_024,
        le=2**30,
        description="Most that the agent may write to its outputs together.",
        json_schema_extra={"unit": "bytes per episode"},
    )
    bad_messages: int = Field(
        8,
        ge=0,
        le=MAX_SLOTS,
        description="Malformed messages that are answered with an error before the episode is ended.",
        json_schema_extra={"unit": "messages per episode"},
    )
    memory_mb: int = Field(
        512,
        ge=64,
        le=2**20,
        description="Most memory: address space of each of the agent's processes, and what all of them and their files "
        "take together.",
        json_schema_extra={"unit": "MB"},
    )
    cpu_seconds: float = Field(
        60.0,
        gt=0,
        le=604_800,
        description="Most CPU time of all of the agent's processes together.",
        json_schema_extra={"unit": "s"},
    )
    processes: int = Field(
        16,
        ge=1,
        le=4_096,
        description="Most processes and threads of the agent at a time.",
        json_schema_extra={"unit": "processes"},
    )
    open_files: int = Field(
        256,
        ge=16,
        le=2**20,
        description="Most files that one of its processes may have open.",
        json_schema_extra={"unit": "files"},
    )
    workspace_mb: int = Field(
        64,
        ge=1,
        le=2**20,
        description="Most that the agent may keep in files, and the largest file.",
        json_schema_extra={"unit": "MB"},
    )
    workspace_files: int = Field(
        1_000,
        ge=1,
        le=10**7,
        description="Most files and folders that the agent may keep.",
        json_schema_extra={"unit": "files"},
    )


class Isolation(Section):
    """What keeps an agent away from hidden values, from other episodes and from the network."""

    backend: Literal["bubblewrap", "apptainer", "none"] = Field(
        "bubblewrap",
        description="`apptainer` is for clusters without user namespaces; `none` runs the agents unprotected, and such "
        "an audit ends inconclusive.",
    )


class Design(Section):
    """How many episodes of each kind the audit has."""

    stratum: str = Field("matched", description="The kind of challenger that decides.")
    challengers: int = Field(
        96,
        ge=1,
        le=MAX_SLOTS,
        description="Gate 2: attempts without feedback.",
        json_schema_extra={"unit": "episodes"},
    )
    gate2_looks: tuple[int, ...] | None = Field(
        None,
        strict=False,
        description="Gate 2: after how many challengers the scores are looked at, rising up to `design.challengers`: "
        "once one has recovered, the later ones are not started. `null` for one look, after all of them.",
        json_schema_extra={"unit": "episodes"},
    )
    controls: int = Field(
        45,
        ge=1,
        le=MAX_SLOTS,
        description="Gate 2: positive controls, told what the challengers are not.",
        json_schema_extra={"unit": "episodes"},
    )
    pairs: int = Field(
        30,
        ge=0,
        le=MAX_SLOTS,
        description="Gate 3: pairs of branches, one with truthful and one with neutral feedback.",
        json_schema_extra={"unit": "pairs"},
    )
    pair_looks: tuple[int, ...] | None = Field(
        None,
        strict=False,
        description="Gate 3: after how many pairs the effect is looked at, rising up to `design.pairs`: once it is "
        "decided, the later ones are not started. Goes with `thresholds.gate3.bet`; `null` for a fixed number.",
        json_schema_extra={"unit": "pairs"},
    )
    neutral_policies: tuple[Literal["proposed_sham", "reference_null", "lagged_sham"], ...] = Field(
        ("proposed_sham",),
        strict=False,
        description="Gate 3: what neutral branches are told. The first one decides, and is `proposed_sham`: the task's "
        "answer without a hidden state. Each further one has pairs of its own, is informative, and stands beside it: "
        "`reference_null` (always the same numbers), `lagged_sham` (the answer to the experiment before).",
    )
    neutral_policy_pairs: Mapping[str, int] = Field(
        {},
        description="Gate 3: pairs of a further neutral policy, by its name, if not as many as `design.pairs`.",
        json_schema_extra={"unit": "pairs"},
    )
    null_pairs: int = Field(
        60,
        ge=0,
        le=MAX_SLOTS,
        description="Gate 3: pairs that calibrate the neutral channel, on a task that needs no feedback.",
        json_schema_extra={"unit": "pairs"},
    )
    misled_null_episodes: int = Field(
        12,
        ge=0,
        le=MAX_SLOTS,
        description="Gate 3: null episodes with a misleading channel, which show whether agents heed it.",
        json_schema_extra={"unit": "episodes"},
    )
    pair_replacements: int = Field(
        3,
        ge=0,
        le=MAX_SLOTS,
        description="Most pairs replaced because transport failed before any action; at most pairs times "
        "`thresholds.gate3.max_pair_infrastructure_rate`.",
        json_schema_extra={"unit": "pairs"},
    )
    null_pair_replacements: int = Field(
        6,
        ge=0,
        le=MAX_SLOTS,
        description="The same for null pairs; at most null pairs times "
        "`thresholds.gate2.max_infrastructure_failure_rate`.",
        json_schema_extra={"unit": "pairs"},
    )


class Inference(Section):
    """What Gates 1 and 2 infer from the sealed units."""

    scope: Literal["exhaustive_finite_set", "sampled_population"] = Field(
        "exhaustive_finite_set",
        description="The sealed units are all there is, or a sample of a population.",
    )
    method: Literal["finite_set_exact", "bounded_empirical_bernstein"] = Field(
        "finite_set_exact",
        description="The interval that goes with the scope: `finite_set_exact` with `exhaustive_finite_set`, "
        "`bounded_empirical_bernstein` with `sampled_population`.",
    )


class Alpha(Section):
    """How the error probability is shared out."""

    total: float = Field(
        0.05,
        description="Error budget of this audit: the alphas of its gates add up to no more (grade `core`: "
        "without those of Gate 3).",
        json_schema_extra={"unit": "probability"},
    )
    main: float = Field(0.005, description="Gate 1: the gain's interval.", json_schema_extra={"unit": "probability"})
    score: float = Field(
        0.005,
        description="Gate 2: all comparisons with the claimed artifact together; split over `gate2.m_max`.",
        json_schema_extra={"unit": "probability"},
    )
    recovery: float = Field(0.01, description="Gate 2: the zero-hit bound.", json_schema_extra={"unit": "probability"})
    adequacy: float = Field(
        0.005, description="Gate 2: the positive controls' bound.", json_schema_extra={"unit": "probability"}
    )
    evidence: float = Field(
        0.01, description="Gate 3: the effect's interval.", json_schema_extra={"unit": "probability"}
    )
    sham: float = Field(
        0.01, description="Gate 3: the null pairs' interval.", json_schema_extra={"unit": "probability"}
    )
    neutral: float = Field(
        0.005,
        description="Gate 3: the zero-hit bound of neutral branches.",
        json_schema_extra={"unit": "probability"},
    )
    family_total: float = Field(
        0.05,
        description="Error budget of the whole family: at least `total` times `family_max_audits`.",
        json_schema_extra={"unit": "probability"},
    )
    family_max_audits: int = Field(
        1, description="Most audits that the family may ever have.", json_schema_extra={"unit": "audits"}
    )


class Gate1(Section):
    """Gate 1: the claimed artifact is better than the baseline."""

    delta_min: float = Field(
        0.5,
        description="Least gain over the baseline that counts as a discovery.",
        json_schema_extra={"unit": "score"},
    )


class Gate2(Section):
    """Gate 2: nobody recovers the outcome without feedback."""

    kappa: float = Field(
        0.01,
        description="Share of `gate1.delta_min` by which an attempt may fall short of the claimed artifact "
        "and still recover it.",
        json_schema_extra={"unit": "fraction"},
    )
    rho: float = Field(
        0.05,
        description="Largest chance of recovery without feedback that may remain.",
        json_schema_extra={"unit": "probability"},
    )
    m_max: int = Field(
        162,
        description="Most attempts that are compared with the claimed artifact: challengers, both branches "
        "of each pair, and room for replacements.",
        json_schema_extra={"unit": "attempts"},
    )
    min_independent: int = Field(
        90, description="Least number of independent challengers.", json_schema_extra={"unit": "attempts"}
    )
    min_valid_candidate_rate: float = Field(
        0.5,
        description="Least share of attempts that can be compared with the claimed artifact.",
        json_schema_extra={"unit": "fraction"},
    )
    max_infrastructure_failure_rate: float = Field(
        0.2,
        description="Largest share of attempts lost to infrastructure.",
        json_schema_extra={"unit": "fraction"},
    )
    max_model_failure_rate: float = Field(
        0.2,
        description="Largest share of attempts that end without an artifact.",
        json_schema_extra={"unit": "fraction"},
    )
    max_contract_violation_rate: float = Field(
        0.0,
        description="Largest share of attempts that break the contract.",
        json_schema_extra={"unit": "fraction"},
    )


class Controls(Section):
    """The positive controls show that challengers can use what they are told."""

    recall_min: float = Field(
        0.8,
        description="Least lower bound of the positive controls' success rate.",
        json_schema_extra={"unit": "fraction"},
    )


class Gate3(Section):
    """Gate 3: truthful feedback makes the difference. Not read for grade `core`."""

    estimand: Literal["binary", "continuous"] = Field(
        "binary", description="`binary`: a branch recovers the outcome or not; `continuous`: its mean score."
    )
    delta_evidence: float = Field(
        0.34,
        description="Least gain of truthful over neutral feedback.",
        json_schema_extra={"unit": "score or share of pairs"},
    )
    delta_sham: float = Field(
        0.17,
        description="Half-width of the band in which the null difference must lie; taken off the effect. At "
        "most half of `delta_evidence`.",
        json_schema_extra={"unit": "as delta_evidence"},
    )
    bet: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="With `design.pair_looks`: the effect's interval is a confidence sequence by betting, and this is "
        "the share of the capital that it puts at stake on each pair. `null` for a fixed number of pairs.",
        json_schema_extra={"unit": "fraction"},
    )
    rho_placebo: float = Field(
        0.05,
        description="As `gate2.rho`, for neutral branches; read if `claim.necessity` is true.",
        json_schema_extra={"unit": "probability"},
    )
    min_arm_valid_rate: float = Field(
        0.8, description="Least share of valid artifacts in each arm.", json_schema_extra={"unit": "fraction"}
    )
    max_arm_model_failure_rate: float = Field(
        0.1,
        description="Largest share of failed branches in each arm.",
        json_schema_extra={"unit": "fraction"},
    )
    max_pair_infrastructure_rate: float = Field(
        0.1,
        description="Largest share of pairs lost to infrastructure.",
        json_schema_extra={"unit": "fraction"},
    )
    misled_min_misses: int = Field(
        9,
        ge=0,
        le=MAX_SLOTS,
        description="Least number of misled null episodes that must fail; fewer mean that agents ignore the "
        "channel, and the null study shows nothing.",
        json_schema_extra={"unit": "episodes"},
    )


class Thresholds(Section):
    """The numbers by which the episodes are judged."""

    inference: Inference = Inference()
    alpha: Alpha = Alpha()
    gate1: Gate1 = Gate1()
    gate2: Gate2 = Gate2()
    controls: Controls = Controls()
    gate3: Gate3 = Gate3()


class Execution(Section):
    """How the audit is run on this machine. Not registered: an edit is no amendment."""

    results: str = Field("results", pattern=ONE_LINE, description="Folder that the run writes.")
    episodes_per_job: int = Field(
        24,
        ge=1,
        le=MAX_SLOTS,
        description="Episodes that one job runs after each other; 1 for slow agents.",
        json_schema_extra={"unit": "episodes"},
    )
    nonce_file: str = Field(
        "config/nonces/default.nonce",
        pattern=ONE_LINE,
        description="File with the secret from which all hidden values and draws come; see `config/nonces`.",
    )
    offer: str | None = Field(
        None,
        pattern=ONE_LINE,
        description="Folder with what an auditor who holds the secret has offered (`dcpflow seal`); a run then takes "
        "the draws from there instead of `nonce_file` and ends when every record is committed. `null` if the secret is "
        "here.",
    )
    public_randomness: str | None = Field(
        None,
        pattern=ONE_LINE,
        description="Text from an auditor or a public beacon, given after the registration is fixed and "
        "mixed into the draws; `null` if there is none.",
    )
    registry: str = Field(
        "registry",
        pattern=ONE_LINE,
        description="Registry in which slot, starts, amendments and decision of this audit are noted: a folder outside "
        "of `results`, or the `https://` address of a static file server that publishes one, whose operator adds what "
        "is requested. A folder with a relative path is made where there is none. `none` for no registry; see "
        "`docs/registry.md`.",
    )


class Budget(Section):
    """What the model may cost. Not registered: when it is raised, the run goes on where it stopped."""

    max_usd: float | None = Field(
        None,
        gt=0,
        description="Most that the audit may cost; `null` for no limit. A job begins only if it is sure to stay below.",
        json_schema_extra={"unit": "USD"},
    )
    max_usd_per_episode: float | None = Field(
        None,
        gt=0,
        description="Most that one episode may cost; `null` for no limit, and with `max_usd` it must be given.",
        json_schema_extra={"unit": "USD per episode"},
    )
    input_usd: float = Field(
        0.0, ge=0, description="Price of what the model reads.", json_schema_extra={"unit": "USD per million tokens"}
    )
    cached_usd: float | None = Field(
        None,
        ge=0,
        description="Price of what it has read before, as far as the API says so; `null` for the same.",
        json_schema_extra={"unit": "USD per million tokens"},
    )
    output_usd: float = Field(
        0.0, ge=0, description="Price of what it writes.", json_schema_extra={"unit": "USD per million tokens"}
    )


class Stratum(Section):
    """Further challengers of other strengths, each stratum under a name of its own. They are informative: no gate reads
    them. What is not given here is as for the challengers that decide.
    """

    agent: Mapping[str, JsonValue] = Field(
        {},
        description="What differs from `agent`, key by key; one that gives a `kind` or a `name` is another agent, and "
        "takes nothing over from it.",
    )
    limits: Mapping[str, JsonValue] = Field({}, description="What differs from `limits`, key by key.")
    challengers: int = Field(
        30, ge=1, le=MAX_SLOTS, description="Attempts without feedback.", json_schema_extra={"unit": "episodes"}
    )
    alpha: float = Field(
        0.05,
        gt=0,
        le=0.5,
        description="Error of the stratum's own zero-hit bound; no part of the audit's error budget, since nothing "
        "is decided by it.",
        json_schema_extra={"unit": "probability"},
    )
    budget: Mapping[str, JsonValue] = Field(
        {},
        exclude=True,
        description="What differs from `budget`, if the stratum's agent asks a model; its limits hold for the stratum "
        "alone, beside those of `budget`. Not registered.",
    )


class Config(Section):
    """The whole configuration of one audit."""

    claim: Claim = Claim()
    task: Task = Task()
    agent: Agent = Agent()
    information: Information = Information()
    limits: Limits = Limits()
    isolation: Isolation = Isolation()
    design: Design = Design()
    strata: Mapping[str, Stratum] = {}
    thresholds: Thresholds = Thresholds()
    budget: Budget = Budget()
    execution: Execution = Execution()

    def parts(self) -> dict[str, dict[str, Any]]:
        """The registered sections as plain JSON data, in the order of :data:`REGISTERED_SECTIONS`.

        Defaults are filled in, so that writing a default out is no amendment.
        """
        parts = {name: getattr(self, name).model_dump(mode="json") for name in REGISTERED_SECTIONS}
        # a registration says nothing of what it does without
        for holder, name in (
            *((parts["information"], "web"), (parts["agent"], "program"), (parts["agent"], "model")),
            *((parts["design"], "gate2_looks"), (parts["design"], "pair_looks"), (parts["thresholds"]["gate3"], "bet")),
            (parts["claim"], "retrospective"),
        ):
            if holder[name] is None:
                del holder[name]
        if not self.claim.is_retrospective:
            del parts["claim"]["mode"]
        design = parts["design"]
        policies, given = design.pop("neutral_policies"), design.pop("neutral_policy_pairs")
        if further := policies[1:]:
            design["neutral_policies"] = [policies[0], *sorted(further)]
            design["neutral_policy_pairs"] = {name: given.get(name, self.design.pairs) for name in further}
        return parts

    def in_place_of(self, stratum: str) -> dict[str, Any]:
        """What a file would say under which a stratum's agent and limits stood in the place of the audited ones."""
        given, plain = self.strata[stratum], _plain(self)
        another = given.agent.keys() & {"kind", "name"}
        agent = given.agent if another else _laid_over(plain["agent"], given.agent)
        return plain | {
            "agent": agent,
            "limits": _laid_over(plain["limits"], given.limits),
            "budget": _laid_over(plain["budget"], given.budget) if agent.get("model") else given.budget,
            "strata": {},
        }

    def of_stratum(self, stratum: str) -> Config:
        """The configuration that a stratum's challengers run under."""
        own, challengers = self.in_place_of(stratum), self.strata[stratum].challengers
        own["design"] |= {"stratum": stratum, "challengers": challengers, "gate2_looks": None}
        return Config.model_validate(own)

    def registered_strata(self) -> dict[str, dict[str, Any]]:
        """What is registered of each stratum, as plain JSON data: agent and limits whole, number and alpha."""
        found = {}
        for name, stratum in self.strata.items():
            parts = self.of_stratum(name).parts()
            found[name] = {
                "agent": parts["agent"],
                "limits": parts["limits"],
                "challengers": stratum.challengers,
                "alpha": stratum.alpha,
            }
        return found


def _plain(section: Section) -> dict[str, Any]:
    """Every key of a section, those that are not registered too."""
    values = ((name, getattr(section, name)) for name in type(section).model_fields)
    return {name: _plain(value) if isinstance(value, Section) else value for name, value in values}


def _laid_over(base: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A section with what is given instead, key by key, sections within it too."""
    merged = dict(base)
    for name, value in given.items():
        below = merged.get(name)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[name] = _laid_over(below, value)
        else:
            merged[name] = value
    return merged
