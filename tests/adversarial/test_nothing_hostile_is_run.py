"""Nothing that an agent wrote is evaluated, imported, unpickled, used as a template or given to a shell."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import dcpflow
from dcpflow.agents.launch import builtin_file, launch_spec
from dcpflow.report import templates

if TYPE_CHECKING:
    from tests.conftest import Audit

LIBRARY = Path(dcpflow.__file__).parent
ROOT = Path(__file__).parents[2]
# agents run inside the sandbox, and may do what they like
SOURCES = [path for path in sorted(LIBRARY.rglob("*.py")) if path.parent != LIBRARY / "agents" / "builtin"]
SOURCES += sorted((ROOT / "scripts").glob("*.py"))

RUNS_CODE = {"eval", "exec", "compile", "__import__", "execfile", "input"}
RUNS_TEXT = {
    *("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"),
    *("pickle.load", "pickle.loads", "marshal.load", "marshal.loads", "shelve.open", "dill.loads", "joblib.load"),
    *("yaml.unsafe_load", "yaml.full_load", "yaml.load_all", "runpy.run_path", "runpy.run_module", "code.interact"),
    *("numpy.load", "np.load", "pandas.read_pickle", "pd.read_pickle", "torch.load", "shutil.unpack_archive"),
    *("jinja2.Template", "string.Template", "logging.config.listen", "ctypes.cdll.LoadLibrary", "sys.settrace"),
}
MODULES = {
    "pickle",
    "marshal",
    "shelve",
    "dill",
    "joblib",
    "cloudpickle",
    "jinja2",
    "mako",
    "xml",
    "lxml",
    "runpy",
    "imp",
}
# module: which of them it knows: the page's templates are ours, as a test below says
IMPORTS = {"report/markup.py": {"jinja2"}}
REMOVES_BY_PATH = {"shutil.rmtree", "os.walk", "os.removedirs", "shutil.copytree"}
# module: names of templates that are constants of a function there
TEMPLATES = {"protocol/config.py": {"words"}}
# module: what it may do, since what it does it with is not an agent's
ALLOWED = {
    # a task and the reference package are named by the configuration
    "tasks/places.py": {"import_module"},
    "bundles/dcp_audit/certify.py": {"import_module"},
    # the configuration itself, by a loader that is given: a test says which
    "stages/configuration.py": {"yaml.load"},
    # the reader's own list of keys, likewise
    "authority/trust.py": {"yaml.load"},
}


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """Every call by the dotted name of what is called."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def name_of(path: Path) -> str:
    return str(path.relative_to(LIBRARY)) if path.is_relative_to(LIBRARY) else path.name


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_no_module_runs_what_it_reads(path: Path) -> None:
    allowed = ALLOWED.get(name_of(path), set())
    found = []
    for name, call in calls(path):
        shell = any(key.arg == "shell" and ast.unparse(key.value) != "False" for key in call.keywords)
        importing = name.endswith("import_module")
        if name in RUNS_CODE | RUNS_TEXT | {"yaml.load"} or shell or importing:
            found.append(name.rpartition(".")[2] if importing else name)
    assert set(found) <= allowed


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_no_module_knows_a_format_that_runs_code(path: Path) -> None:
    imported = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(str(node.module).split(".")[0])
    assert imported & MODULES <= IMPORTS.get(name_of(path), set())


def test_the_page_is_made_of_shipped_templates_alone() -> None:
    """What others wrote are values of a template, never a template, and every value is escaped."""
    made = dict(calls(LIBRARY / "report" / "markup.py"))
    options = {key.arg: ast.unparse(key.value) for key in made["Environment"].keywords}
    assert options["autoescape"] == "True" and options["loader"] == "FileSystemLoader(templates.FOLDER)"
    named = [found for path in (LIBRARY / "report").glob("*.py") for found in calls(path)]
    filled = [call.args[0] for name, call in named if name == "markup.page"]
    assert {template.value for template in filled if isinstance(template, ast.Constant)} == {"page.html", "sheet.html"}
    assert all(isinstance(template, ast.Constant) for template in filled)
    assert not [name for name in made if name.endswith(("from_string", "Template"))]
    assert {path.name for path in templates.FOLDER.glob("*.html")} <= set(templates.NAMES)
    for name in templates.NAMES:
        assert not re.search(r"\|\s*safe|autoescape|Markup", (templates.FOLDER / name).read_text("utf-8"))


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_only_texts_of_ours_are_templates(path: Path) -> None:
    """``text.format(…)`` and ``text % …`` take a constant of the module; f-strings are ours by their nature."""
    for name, call in calls(path):
        if not name.endswith((".format", ".format_map")) or not isinstance(call.func, ast.Attribute):
            continue
        template = call.func.value
        constant = isinstance(template, ast.Constant) or (isinstance(template, ast.Name) and template.id.isupper())
        constant |= ast.unparse(template) in TEMPLATES.get(name_of(path), set())
        assert constant, f"{name_of(path)}:{call.lineno} uses {ast.unparse(template)} as a template"
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            assert not (isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)), node.lineno


@pytest.mark.parametrize("path", sorted((LIBRARY / "episodes").glob("*.py")), ids=lambda path: path.name)
def test_where_agents_are_met_no_folder_is_walked_or_removed_by_path(path: Path) -> None:
    assert not {name for name, _ in calls(path)} & REMOVES_BY_PATH


@pytest.mark.parametrize("name", [name for name, may in ALLOWED.items() if "yaml.load" in may])
def test_yaml_is_read_by_a_loader_that_makes_plain_data(name: str) -> None:
    import yaml

    module = importlib.import_module(f"dcpflow.{name.removesuffix('.py').replace('/', '.')}")
    (call,) = [call for what, call in calls(LIBRARY / name) if what == "yaml.load"]
    assert len(call.args) == 2
    loaders = {value for value in vars(module).values() if isinstance(value, type) and "Loader" in value.__name__}
    assert all(issubclass(loader, yaml.SafeLoader) for loader in loaders)
    used = set(re.findall(r"yaml\.\w*Loader\b", (LIBRARY / name).read_text()))
    assert used and used <= {"yaml.SafeLoader", "yaml.BaseLoader"}, "the base one makes nothing but texts"


@pytest.mark.parametrize(
    "text", ["!!python/object/apply:os.system ['true']", "!!python/name:os.system", "!!python/module:os"]
)
def test_a_configuration_cannot_make_objects(text: str, tmp_path: Path) -> None:
    from dcpflow.errors import DcpflowError
    from dcpflow.stages import configuration

    path = tmp_path / "case.yaml"
    path.write_text(f"claim: {text}\n")
    with pytest.raises(DcpflowError):
        configuration.read([path])


def test_a_planted_module_beside_an_agent_is_not_imported_by_it(tmp_path: Path) -> None:
    """Agents start isolated: neither the working folder nor that of their file is searched for modules."""
    for name in ("index_designer", "isolation_probe"):
        arguments = launch_spec({"kind": "builtin", "name": name}).arguments
        assert {"-I", "-S", "-B"} <= set(arguments)
        assert Path(arguments[-1]).name == builtin_file(name).name


def test_sealed_folders_are_closed_and_never_given_to_an_agent(finished_audit: Audit) -> None:
    layout = finished_audit.job.layout
    for folder in (layout.hidden.parent, layout.hidden, layout.sealed):
        assert folder.stat().st_mode & 0o777 == 0o700, folder
        for path in folder.rglob("*"):
            assert path.stat().st_mode & 0o077 == 0, path
    given = {Path(path) for path in finished_audit.job.laboratory.spec.files.values()}
    for path in given:
        assert path.parent == LIBRARY / "agents" / "builtin"
    assert not any(finished_audit.results.is_relative_to(path) for path in given)
