"""ONNX models as modules; `tg.onnx` has the public functions."""
