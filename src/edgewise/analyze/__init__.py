"""One file per analysis: evidence in, a Section out.

A module that names its `PLACE` is part of every report, in that order; its `run(evidence)` draws what there is, or says
with `evidence.absent` what is missing. The others belong to one command each.
"""

NOT_PLUGINS = ("evidence", "trust")
