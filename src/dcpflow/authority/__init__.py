"""Who vouches for an audit: keys, signed envelopes, the registry of audits, certificates and who trusts whom."""
