"""Several networks with deadlines on several targets: who serves what, when, and what is not worth beginning."""
