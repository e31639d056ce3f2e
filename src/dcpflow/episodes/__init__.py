"""One episode, from the claimed slot to the committed record."""
