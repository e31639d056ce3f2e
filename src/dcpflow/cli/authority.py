"""The commands about who vouches for an audit: keys, certificates, revocations, witnesses."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from dcpflow.authority import kinds
from dcpflow.cli.shared import Commands, day

if TYPE_CHECKING:
    from dcpflow.authority.certificate import Certificate


def add(commands: Commands) -> None:
    """Add the commands."""
    command = commands.add_parser("keys", help="make a key pair")
    command.add_argument("new", choices=["new"])
    command.add_argument("file", type=Path, help="of the private key; the public one lies beside it, .pub")
    command.set_defaults(run=_keys_new)

    command = commands.add_parser("certify", help="verify an audit and sign a certificate of it")
    _add_audit(command)
    command.add_argument("--key", type=Path, required=True, help="the private key")
    command.add_argument("--expires", type=day, metavar="DATE", help="last day on which it stands, as 2031-12-31")
    command.add_argument(
        "--expires-with-newer",
        action="append",
        default=[],
        metavar="MODEL_FAMILY",
        help="it stands until the registry lists a newer model of this family; may be given several times",
    )
    command.add_argument("--registry", metavar="DIR_OR_URL", help="the registry that lists the decision")
    command.add_argument("--out", type=Path, metavar="FILE", help="by default beside the audit")
    command.set_defaults(run=_certify)

    command = commands.add_parser("countersign", help="verify an audit and its certificate, and sign that too")
    command.add_argument("certificate", type=Path)
    _add_audit(command)
    command.add_argument("--key", type=Path, required=True, help="the private key")
    command.add_argument("--registry", metavar="DIR", help="a registry that then lists the certificate")
    command.set_defaults(run=_countersign)

    command = commands.add_parser("revoke", help="list in a registry that a certificate or decision is revoked")
    command.add_argument("path", type=Path, help="a certificate; or results or a bundle, to revoke the decision")
    command.add_argument("--reason", choices=kinds.REASONS, required=True)
    command.add_argument("--text", default="", help="in words, one line")
    _add_registry(command)
    command.set_defaults(run=_revoke)

    command = commands.add_parser("newer-model", help="list in a registry that a newer model has come out")
    command.add_argument("family", help="as certificates name it")
    command.add_argument("model", help="the newer model")
    _add_registry(command)
    command.set_defaults(run=_newer_model)

    _add_witness(commands.add_parser("witness", help="a recovery that was found after the decision"))


def _add_witness(witness: argparse.ArgumentParser) -> None:
    actions = witness.add_subparsers(title="actions", required=True, metavar="ACTION")

    command = actions.add_parser("file", help="score an artifact, and write the record if it recovers the outcome")
    _add_scored(command)
    command.add_argument("artifact", type=Path, help="in the names in which the target run saw the task")
    command.add_argument("--how", required=True, metavar="TEXT", help="how it was found, one line")
    command.add_argument("--by", default="not named", metavar="NAME", help="who files it")
    command.add_argument("--out", type=Path, required=True, metavar="RECORD", help="the record to write")
    command.add_argument("--registry", metavar="DIR", help="a registry that then lists the record")
    command.set_defaults(run=_witness_file)

    command = actions.add_parser("check", help="score the artifact of a record again")
    command.add_argument("record", type=Path)
    _add_scored(command)
    command.set_defaults(run=_witness_check)


def _add_audit(command: argparse.ArgumentParser) -> None:
    command.add_argument("path", type=Path, help="a results folder, or a bundle")
    command.add_argument(
        "--nonce-file", type=Path, help="the nonce, to replay every conversation and score again before signing"
    )
    command.add_argument("--data-file", type=Path, help="the task's data set; by default downloaded")


def _add_scored(command: argparse.ArgumentParser) -> None:
    command.add_argument("results", type=Path, help="the results folder")
    command.add_argument("--nonce-file", type=Path, help="the nonce; not needed where it is revealed")
    command.add_argument("--data-file", type=Path, help="the task's data set; by default downloaded")


def _add_registry(command: argparse.ArgumentParser) -> None:
    command.add_argument("--registry", required=True, metavar="DIR", help="the registry's folder")
    command.add_argument("--key", type=Path, help="the registry's private key, to sign a checkpoint at once")


def _keys_new(options: argparse.Namespace) -> None:
    from dcpflow.stages.private_keys import new_key  # noqa: PLC0415

    public = new_key(options.file)
    print(f"wrote {options.file} (mode 0600): keep it secret, and outside of results folders")
    print(f"wrote {options.file}.pub: {public.line}")


def _names(made: Certificate) -> str:
    return ", ".join(key.id for key in made.envelope.keys.values())


def _certify(options: argparse.Namespace) -> None:
    from dcpflow.authority.statement import Expiry  # noqa: PLC0415
    from dcpflow.stages import certifying, private_keys  # noqa: PLC0415

    signer = private_keys.read_key(options.key, options.path)
    audit = certifying.examined(options.path, options.nonce_file, options.data_file, options.registry)
    expiry = Expiry(options.expires, tuple(dict.fromkeys(options.expires_with_newer)))
    out, made = certifying.certify(audit, signer, expiry, options.registry, options.out)
    print(f"wrote {out}: {made.digest}, signed by {_names(made)}")


def _countersign(options: argparse.Namespace) -> None:
    from dcpflow.stages import certifying, private_keys  # noqa: PLC0415

    signer = private_keys.read_key(options.key, options.path)
    audit = certifying.examined(options.path, options.nonce_file, options.data_file, options.registry)
    made = certifying.countersign(audit, options.certificate, signer, options.registry)
    print(f"wrote {options.certificate}: {made.digest}, signed by {_names(made)}")


def _revoke(options: argparse.Namespace) -> None:
    from dcpflow.stages.revoking import revoke  # noqa: PLC0415

    entry = revoke(options.path, options.registry, options.reason, options.text, options.key)
    print(f"the {entry.body['of']} {entry.body['digest']} is revoked: entry {entry.number}, {entry.date}")


def _newer_model(options: argparse.Namespace) -> None:
    from dcpflow.stages.revoking import newer_model  # noqa: PLC0415

    entry = newer_model(options.family, options.model, options.registry, options.key)
    print(f"a newer model of {options.family} is listed: entry {entry.number}, {entry.date}")


def _witness_file(options: argparse.Namespace) -> None:
    from dcpflow.stages import certifying, witnessing  # noqa: PLC0415

    audit = certifying.examined(options.results, options.nonce_file, replay=False)
    found, digest = witnessing.file_witness(
        audit,
        options.artifact,
        options.out,
        options.how,
        options.by,
        options.nonce_file,
        options.data_file,
        options.registry,
    )
    print(f"wrote {options.out}: {digest}, score {found.score:.6g}, at or above the recovery line {found.line:.6g}")


def _witness_check(options: argparse.Namespace) -> None:
    from dcpflow.stages import certifying, witnessing  # noqa: PLC0415

    audit = certifying.examined(options.results, options.nonce_file, replay=False)
    found, digest = witnessing.check_witness(options.record, audit, options.nonce_file, options.data_file)
    print(f"{digest} holds: score {found.score:.6g}, at or above the recovery line {found.line:.6g}")
