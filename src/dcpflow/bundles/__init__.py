"""Audits in one piece: reading, writing and verifying bundles offline."""
