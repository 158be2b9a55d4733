"""The most a processor can do, measured: arithmetic by precision, and bytes from memory and each cache.

Each roof is measured by processes, one on each core, all at work together: threads of one interpreter would measure the
interpreter. What they run is a few instructions of machine code, so a roof is the processor's and no library's.
"""
