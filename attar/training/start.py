"""What a run begins with: numbers drawn anew, or those of a reader that is trained on."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attar.errors import OptionError
from attar.nn import Network, NetworkOptions
from attar.reader import DEFAULT, SavedReader, load_reader
from attar.text import Vocabulary
from attar.training.options import TrainingOptions, network_options

# What a reader settles for whoever trains it on; dropout is the trainer's own.
SETTLED = (
    *("mechanism", "encoder", "join", "head", "head_size", "size", "embedding", "scale"),
    *("asked", "positive", "company"),
)
# What a reader can be given that it did not have.
GIVEN = ("company",)


def load_start(start: str) -> SavedReader:
    """The reader to begin with: a folder, or "default" for the one in the package."""
    return load_reader(DEFAULT if start == "default" else Path(start))


def settled_by(start: str) -> dict[str, Any]:
    """The options that a reader settles, by name."""
    own = by_name(load_start(start).network.options)
    return {name: own[name] for name in SETTLED}


def by_name(options: NetworkOptions) -> dict[str, Any]:
    """The options of a network by their names in `TrainingOptions`."""
    return vars(options) | {"company": options.cooccurrence}


def first_network(options: TrainingOptions, vocabulary: Vocabulary) -> Network:
    """The network as a run begins; of a reader that is trained on, with its numbers."""
    asked = network_options(options, vocabulary)
    if not options.start:
        network = Network(asked)
        if options.alike:
            start_alike(network)
        return network
    saved = load_start(options.start)
    check_settled(by_name(asked), by_name(saved.network.options), options.start)
    network = Network(asked)
    own = saved.network.state_dict()
    network.load_state_dict(own, strict=set(own) == set(network.state_dict()))
    for name, parameter in network.named_parameters():
        # What need not be trained has no gradient, and no way back through the GRUs is walked.
        parameter.requires_grad_(not (options.frozen and name in own))
    return network


def start_alike(network: Network) -> None:
    """Let questions be read as documents are, at first: a query is then near the states of like words."""
    network.question_encoder.load_state_dict(network.document_encoder.state_dict())


def check_settled(asked: Mapping[str, Any], own: Mapping[str, Any], start: str) -> None:
    """Refuse options, of those that are asked for, that are not the reader's own.

    >>> own = {"mechanism": "named", "size": 64}
    >>> check_settled({"size": 64, "dropout": 0.2}, own, "reader")
    >>> check_settled({"size": 100}, own, "reader")
    Traceback (most recent call last):
    attar.errors.OptionError: options of the reader reader: expected size 64, got 100; leave out what \
the reader settles, or train anew without --start
    """
    given = [name for name in SETTLED if name in asked and asked[name] != own[name]]
    changed = [name for name in given if not (name in GIVEN and asked[name])]
    if changed:
        raise OptionError(
            f"options of the reader {start}",
            ", ".join(f"{name} {own[name]!r}" for name in changed),
            ", ".join(repr(asked[name]) for name in changed),
            "leave out what the reader settles, or train anew without --start",
        )
