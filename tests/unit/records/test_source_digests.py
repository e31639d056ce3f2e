"""Digests of source code move with what a module imports, and with nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from dcpflow.records import sources

MakePackage = Callable[..., str]


@pytest.fixture
def make_package(tmp_path: Path) -> Iterator[MakePackage]:
    """Writes a package under a name of its own, since what was looked up once is remembered by name."""
    name = f"studied_{uuid4().hex}"
    sys.path.insert(0, str(tmp_path))

    def make(**modules: str) -> str:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "__init__.py").touch()
        for module, text in modules.items():
            (folder / f"{module}.py").write_text(text.replace("PACKAGE", name))
        return name

    yield make
    sys.path.remove(str(tmp_path))
    for module in [module for module in sys.modules if module.partition(".")[0] == name]:
        del sys.modules[module]


TASK = "from PACKAGE.helper import work\nimport json\n\ndef use():\n    from PACKAGE import late\n"
HELPER = "import PACKAGE.deep\nwork = 1\n"
ALL = {"task": TASK, "helper": HELPER, "deep": "", "late": "", "stranger": "import PACKAGE.task\n"}


def names(package: str) -> list[str]:
    return [name.removeprefix(f"{package}.") for name in sources.source_files(f"{package}.task", package)]


def edit(package: str, module: str) -> None:
    folder = sources.source_files(f"{package}.task", package)[f"{package}.task"].parent
    (folder / f"{module}.py").write_text((folder / f"{module}.py").read_text() + "# edited\n")


def test_imports_are_followed_through_modules_and_into_functions(make_package: MakePackage) -> None:
    package = make_package(**ALL)
    assert set(names(package)) - {package} == {"task", "helper", "deep", "late"}


@pytest.mark.parametrize(
    "text",
    [
        "from PACKAGE import (\n    late,  # one (of two)\n    deep,\n)\n",
        "from PACKAGE import late, \\\n    deep\n",
        "import PACKAGE.late as a, \\\n    PACKAGE.deep\n",
        "import json; import PACKAGE.late, PACKAGE.deep\n",
        "if True: import PACKAGE.late\nelse: from PACKAGE import deep\n",
        "try:\n\tfrom .late import *\nexcept ImportError:\n\tfrom . import(deep)\n",
        "from .late import f\r\nfrom .deep import g  # noqa\r\n",
        '"""\nimport this is no statement\n"""\nfrom . import late, deep\n',
        "# what we import:\nimport PACKAGE.late\nimport PACKAGE.deep\n",
        "größe = 1\nmatch größe:\n    case 1:\n        from PACKAGE import late, deep\n",
        "\x0cfrom PACKAGE import late\n\x0cfrom PACKAGE import deep\n",
    ],
)
def test_however_an_import_is_written_it_is_followed(make_package: MakePackage, text: str) -> None:
    package = make_package(task=text, late="", deep="", stranger="")
    assert set(names(package)) - {package} == {"task", "late", "deep"}


@pytest.mark.parametrize("module", ["task", "helper", "deep", "late"])
def test_an_edit_of_an_imported_module_moves_the_digest(make_package: MakePackage, module: str) -> None:
    package = make_package(**ALL)
    before = sources.source_digest(f"{package}.task", package)
    edit(package, module)
    assert sources.source_digest(f"{package}.task", package) != before


def test_an_edit_of_the_package_above_moves_the_digest_too(make_package: MakePackage) -> None:
    package = make_package(task="")
    before = sources.source_digest(f"{package}.task", package)
    edit(package, "__init__")
    assert sources.source_digest(f"{package}.task", package) != before


def test_an_edit_of_a_module_that_is_not_imported_does_not(make_package: MakePackage) -> None:
    package = make_package(**ALL)
    before = sources.source_digest(f"{package}.task", package)
    edit(package, "stranger")
    assert sources.source_digest(f"{package}.task", package) == before


def test_modules_of_other_packages_are_not_followed(make_package: MakePackage) -> None:
    package = make_package(task="import json, dcpflow.errors\nfrom dcpflow.records import canonical\n")
    assert names(package) == [package, "task"]


def test_modules_that_import_each_other_end(make_package: MakePackage) -> None:
    package = make_package(task="import PACKAGE.helper\n", helper="import PACKAGE.task\n")
    assert {"task", "helper"} <= set(names(package))


@pytest.mark.parametrize(
    "text",
    [
        "import PACKAGE.helper\n",
        "import PACKAGE.helper as other\n",
        "from PACKAGE import helper\n",
        "from PACKAGE import deep, helper as other\n",
        "from PACKAGE.helper import *\n",
        "from PACKAGE import (\n    deep,\n    helper,\n)\n",
        "try:\n    from PACKAGE import helper\nexcept ImportError:\n    pass\n",
        "class Task:\n    def work(self):\n        import PACKAGE.helper\n",
        "import json, PACKAGE.helper\n",
        "from PACKAGE import (\n    deep,  # first\n    helper,\n)\n",
        "from PACKAGE import deep, \\\n    helper\n",
        "if True: from PACKAGE import helper\n",
        "number = 1; import PACKAGE.helper\n",
        "from .helper import work\n",
        "from . import helper\n",
    ],
)
def test_every_way_to_import_is_followed(make_package: MakePackage, text: str) -> None:
    package = make_package(task=text, helper="work = 1\n", deep="")
    assert "helper" in names(package)


def test_a_rule_s_code_digest_covers_the_engine_for_deciding_and_not_the_sandbox() -> None:
    deciding = sources.source_files("dcpflow.stages.decide")
    assert "dcpflow.protocol.gate2" in deciding
    assert "dcpflow.evidence.checks" in deciding
    scoring = sources.source_files("dcpflow.stages.scoring")
    assert "dcpflow.scoring.scorer" in scoring
    assert "dcpflow.evidence.decision" not in scoring, "an edit of the decision must not score anything again"
    assert "dcpflow.report.screen" not in deciding
