"""ONNX Runtime's sessions, shared with the Core ML engine, and what it supports."""
