"""Reading, checking and deciding bundles of the dcp-audit package, both profiles.

A bundle is read strictly (``strict_json``, ``manifest``, ``decode``), its digests are recomputed (``digests``),
its envelope becomes faults (``integrity``), our engine decides, and the saved certificate is compared with that
decision (``certificate``, ``comparison``). :func:`verify` does all of it.
"""

from dcpflow.bundles.dcp_audit.comparison import Comparison, Difference
from dcpflow.bundles.dcp_audit.decode import Decoded, decode
from dcpflow.bundles.dcp_audit.errors import BundleError
from dcpflow.bundles.dcp_audit.integrity import envelope_faults
from dcpflow.bundles.dcp_audit.manifest import Bundle, read_bundle
from dcpflow.bundles.dcp_audit.verify import Report, decide_bundle, verify

__all__ = [
    "Bundle",
    "BundleError",
    "Comparison",
    "Decoded",
    "Difference",
    "Report",
    "decide_bundle",
    "decode",
    "envelope_faults",
    "read_bundle",
    "verify",
]
