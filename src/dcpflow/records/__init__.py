"""Canonical JSON, digests, the object store, the episode store, receipts, history: what evidence is made of."""
