"""Serves a model from a GGUF file on loopback, with the APIs of OpenAI and Anthropic.

python tests/model/serve.py FILE NAME PORT
"""

from __future__ import annotations

import signal
import sys

import xllamacpp

settings = xllamacpp.CommonParams()
settings.model.path = sys.argv[1]
settings.model_alias = {sys.argv[2]}
settings.n_ctx = 8192
settings.n_parallel = 1
settings.port = int(sys.argv[3])
settings.cpuparams.n_threads = 2
server = xllamacpp.Server(settings)  # serves until this process ends
signal.pause()
