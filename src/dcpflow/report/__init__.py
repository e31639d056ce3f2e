"""How a decision is shown to people."""
