"""A Transformer block with a memory as its attention learns to recall."""

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def recalled(run_example, tables_in, share):
    """The shares that each mechanism recalled, as training went on."""
    (rows,) = tables_in(run_example("transformer_block.py", "--pairs", 8, "--every", 15))
    return {name: [share(cell) for cell in cells] for name, *cells in rows}


@pytest.mark.parametrize("mechanism", ["linear", "gated", "softmax"])
def test_values_of_the_context_are_recalled(recalled, mechanism):
    assert recalled[mechanism][-1] > 0.8


def test_without_attention_accuracy_stays_at_chance(recalled):
    assert max(recalled["none"]) < 0.2
