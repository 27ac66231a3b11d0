"""Peak bytes count what a run allocates, and nothing else."""

import torch

from benchmarks.allocations import Allocations, peak_bytes

X = torch.zeros(250)  # 1,000 bytes


def test_arguments_do_not_count():
    assert peak_bytes(lambda: X.add_(0)) == 0
    assert peak_bytes(lambda: X.view(5, 50)[1:]) == 0


def test_freed_tensors_count_no_longer():
    def one_after_another():
        for _ in range(5):
            X + 1

    assert peak_bytes(one_after_another) == 1000


def test_live_tensors_add_up():
    assert peak_bytes(lambda: [X + i for i in range(5)]) == 5000


def test_views_of_a_tensor_add_no_bytes():
    assert peak_bytes(lambda: (X + 1).view(5, 50).mT) == 1000


def test_a_tensor_held_only_by_autograd_still_counts():
    leaf = torch.zeros(250, requires_grad=True)
    with Allocations() as made:
        loss = (leaf * 2).exp().sum()
        during = made.live
        loss.backward()
    assert during >= 1000  # exp keeps its own result
    assert made.peak > during


def test_backward_is_counted():
    leaf = torch.zeros(250, requires_grad=True)
    loss = (leaf * leaf).sum()
    assert peak_bytes(lambda: torch.autograd.grad(loss, leaf)) >= 1000
