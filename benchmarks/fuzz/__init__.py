"""Structure-aware fuzzing of everything that enters: `make fuzz` for a set time, a bounded part in the tests.

A target has a strategy for its inputs and a check. The check fails on anything but an answer or an `AttarError` of
one line: another exception, a process that dies, a 5xx other than 503, memory that grows, a store that fails its own
check afterwards. Where an original is known, what is accepted must also answer as the original does.
"""
