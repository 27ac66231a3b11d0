"""Why an answer: the weight that each token of a text has for a question."""

import numpy as np
import torch
from torch import Tensor

from attar.nn import KeyMechanism, NamedAttention, NoAttention, SoftmaxAttention
from attar.reader.documents import DocumentEncoder
from attar.reader.texts import Reading, side_by_side
from attar.text import NameFinder, NameTable, iterate_sentences, mark_names


def token_weights(encoder: DocumentEncoder, reading: Reading, query: Tensor) -> list[float]:
    """How much a query `[k]` finds in each token, as the mechanism reads it.

    linear                      h · q
    gated, decayed, adaptive    f · q, what was forgotten later not taken off
    softmax                     softmax(h · q)
    keyed                       key · q
    named                       key · q where the token is a name, else 0
    none                        1 for the last token, else 0
    """
    documents = side_by_side([reading.text], len(reading.names)).to(encoder.device)
    mechanism, count = encoder.network.mechanism, len(reading.text)
    if isinstance(mechanism, NoAttention):
        return [0.0] * (count - 1) + [1.0] * min(count, 1)
    if isinstance(mechanism, KeyMechanism):
        weights = mechanism.keys(encoder.hidden_states(documents)[0][0]) @ query
    else:
        weights = encoder.write_tokens(documents)[0][0] @ query
    if isinstance(mechanism, SoftmaxAttention):
        weights = torch.softmax(weights, 0)
    found = weights.cpu().numpy()
    if isinstance(mechanism, NamedAttention):
        found = np.where(reading.text.names >= 0, found, 0.0)
    return [float(weight) for weight in found]


def spelled(text: str, finder: NameFinder, table: NameTable) -> list[str]:
    """The text's own tokens, every name by the longest form that the text has of it.

    >>> from attar.text import CapitalFinder, Vocabulary
    >>> spelled("Then Ann Lee met Bob. Ann left.", CapitalFinder(Vocabulary(())), NameTable())
    ['Then', 'Ann Lee', 'met', 'Bob', '.', 'Ann Lee', 'left', '.']
    """
    marked = [token for sentence in mark_names(iterate_sentences(text), table, finder) for token in sentence]
    names = {f"@entity{number}": name for number, name in enumerate(table.names)}
    return [names.get(token, token) for token in marked]
