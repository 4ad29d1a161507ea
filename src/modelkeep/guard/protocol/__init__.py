"""The Open Inference Protocol v2: tensors and messages, as JSON, as JSON with binary data, and as gRPC."""
