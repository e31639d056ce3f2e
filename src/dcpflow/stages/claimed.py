"""The artifact that a retrospective audit is about, which is there before the audit."""

from __future__ import annotations

from pathlib import Path

from dcpflow.errors import UsageError

REMEDY = "Give the file that holds the artifact alone as claim.retrospective.artifact_file"


def read_artifact(path: Path, most: int) -> bytes:
    """The claimed artifact, such that an episode could have committed it.

    Args:
        path: its file.
        most: bytes that a candidate may have.

    Raises:
        UsageError: it cannot be read, is no text, or is larger.
    """
    try:
        data = path.read_bytes()
        data.decode()
    except OSError as error:
        raise UsageError(f"the claimed artifact {path} cannot be read: {error.strerror}", REMEDY) from None
    except UnicodeDecodeError:
        raise UsageError(f"the claimed artifact {path} is no text in UTF-8", REMEDY) from None
    if len(data) > most:
        problem = f"the claimed artifact {path} has {len(data)} bytes, and limits.candidate_bytes is {most}"
        raise UsageError(problem, "Raise that limit, or give the artifact alone")
    return data
