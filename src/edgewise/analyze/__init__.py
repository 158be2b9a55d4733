"""One file per analysis: measurements in, a Section out."""

NOT_PLUGINS = ("trust",)
