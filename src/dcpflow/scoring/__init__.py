"""Sealed scoring: artifacts in a random order, known only by digest, each in a limited child process of its own."""
