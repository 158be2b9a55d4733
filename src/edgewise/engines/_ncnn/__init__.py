"""What the ncnn engine is made of: graphs rewritten as pnnx gets them right, the conversion, and its networks."""
