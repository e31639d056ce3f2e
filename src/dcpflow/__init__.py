"""Discovery certification audits of AI research agents as a workflow."""
