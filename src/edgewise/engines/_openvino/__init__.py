"""OpenVINO's models: what they hold, and what became of each operator."""
