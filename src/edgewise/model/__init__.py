"""ONNX in, records out."""
