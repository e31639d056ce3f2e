"""Lays the workflow's files into the package, for ``dcpflow init``; all else of the build stands in pyproject.toml."""

import runpy
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHIPPED = runpy.run_path("src/dcpflow/stages/shipped.py")
FILES = SHIPPED["files"](Path())


class BuildWithWorkflow(build_py):
    """Builds the package with the files; an editable one finds those of its checkout."""

    def run(self):
        """Copy what is new, and nothing that an earlier build has left."""
        super().run()
        if self.editable_mode:
            return
        carried = Path(self.build_lib, "dcpflow", SHIPPED["CARRIED"])
        shutil.rmtree(carried, ignore_errors=True)
        for name, path in FILES.items():
            (carried / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, carried / name)

    def get_source_files(self):
        """What a source distribution must hold."""
        return [*super().get_source_files(), *FILES]


setup(cmdclass={"build_py": BuildWithWorkflow})
