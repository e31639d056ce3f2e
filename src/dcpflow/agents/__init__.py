"""How an agent is started. The built-in reference agents are the only files of ours that a sandbox mounts."""

from dcpflow.agents.launch import LaunchSpec, launch_spec

__all__ = ["LaunchSpec", "launch_spec"]
