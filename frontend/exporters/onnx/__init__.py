"""Writes functions, models and training steps as ONNX files."""
