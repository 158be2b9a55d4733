"""A stream of frames dealt to several targets at once, each in a process of its own; answers come in order."""
