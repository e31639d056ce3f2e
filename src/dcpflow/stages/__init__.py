"""One function for each rule of the workflow: they alone compose the other rooms."""
