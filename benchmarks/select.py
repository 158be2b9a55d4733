"""P5: python benchmarks/select.py. What it measures is in _selecting.py.

Python has a module of this name, too, and looks for it in the folder of the file it runs first: whoever imports it from
a benchmark gets Python's own.
"""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

if __name__ == "__main__":
    from _selecting import main

    main()
else:
    here = Path(__file__).resolve().parent
    spec = PathFinder.find_spec(__name__, [path for path in sys.path if Path(path).resolve() != here])
    if spec is None or spec.loader is None:
        raise ImportError(f"no module named {__name__!r} but this one", name=__name__)
    sys.modules[__name__] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules[__name__])
