"""Private keys: made and read where they are not handed to others."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path

from dcpflow.authority.keys import KeyIsEncrypted, PublicKey, Signer
from dcpflow.authority.log import HEAD
from dcpflow.errors import UsageError
from dcpflow.records import offer


def new_key(path: Path) -> PublicKey:
    """Make a key pair; returns the public key.

    Raises:
        UsageError: the file exists, or would lie in a results folder, a registry or an offer.
    """
    _require_apart(path)
    return Signer.new(path).public


def read_key(path: Path, *others: Path) -> Signer:
    """A private key that may be used; its passphrase, if it has one, is asked for on the terminal.

    Args:
        path: the file.
        others: results folders, where it must not lie; others are recognised.

    Raises:
        UsageError: it lies where it is handed to others, they can read it, or it cannot be read.
    """
    _require_apart(path, *others)
    try:
        return Signer.read(path)
    except KeyIsEncrypted as error:
        if not sys.stdin.isatty():
            remedy = "There is no terminal to ask for its passphrase: run this on one, or use another key"
            raise UsageError(error.problem, remedy) from None
        return Signer.read(path, getpass.getpass(f"Passphrase of {path}: ").encode())


def _require_apart(path: Path, *others: Path) -> None:
    """See that a private key lies in no folder that is handed on, be it by way of a link."""
    closed = [folder.resolve() for folder in others]
    for folder in (*path.absolute().parents, *path.resolve().parents):
        if (folder / HEAD).exists():
            what = "registry"
        elif folder in closed or (folder / "decision.json").exists() or (folder / "registration").is_dir():
            what = "results folder"
        elif (folder / offer.FILE).exists():
            what = "offer"
        else:
            continue
        raise UsageError(
            f"the private key {path} lies in the {what} {folder}, which is handed to others", "Keep it outside of it"
        )
