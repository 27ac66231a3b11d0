"""Triton kernels behind the same signatures as the torch backend; imported only when one is used."""
