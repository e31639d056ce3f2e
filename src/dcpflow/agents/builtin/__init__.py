"""Built-in agents: single standard-library files, started as processes of their own and never imported."""
