"""A graph cut into parts on different targets: a pipeline of frames, or branches of one frame side by side."""
