"""The pipeline that the shipped readers came from, on a GPU: `python -m benchmarks.new_reader`."""
