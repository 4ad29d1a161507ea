"""Which files here are no tests, and run in the peers' environment only."""

collect_ignore = ["mlserver_runtime.py", "triton_client.py"]
