"""The route of lookups: vectors as JSON and packed."""

import threading

import numpy as np
import pytest

from attar import vectors, wire
from attar.library.library import Library
from attar.server import local

SIZE = 6
VECTOR = [0.5, -1.0, 0.25, 2.0, 0.0, 1.0]
BINARY = {"content-type": wire.MEDIA}


@pytest.fixture
def wanted(folder, make_reader):
    def readout(name, vector, mechanism="named"):
        with Library(folder, make_reader(mechanism), read_only=True) as library:
            return library.store.memory(name).lookup(np.array([vector], np.float32))[0]

    return readout


def packed(served, names, numbers):
    body = vectors.pack_queries(names, np.array(numbers, np.float32))
    return served.call("POST", "/v1/lookup", content=body, headers=BINARY)


def test_the_readout_is_that_of_the_memory(served, wanted):
    told = served.post("/v1/lookup", {"document": "0", "vector": VECTOR}).json()
    np.testing.assert_allclose(told["readout"], wanted("0", VECTOR), rtol=1e-5)
    assert told["bytes"] > 0


def test_readouts_of_documents_may_differ_in_width(served, wanted):
    told = served.post("/v1/lookup", {"documents": ["0", "1"], "vectors": [VECTOR, VECTOR]}).json()
    for readout, name in zip(told["readouts"], "01", strict=True):
        np.testing.assert_allclose(readout, wanted(name, VECTOR), rtol=1e-5)


def test_many_vectors_for_one_document(served, wanted):
    double = [2 * number for number in VECTOR]
    told = served.post("/v1/lookup", {"document": "0", "vectors": [VECTOR, double]}).json()
    np.testing.assert_allclose(told["readouts"][1], wanted("0", double), rtol=1e-5)


@pytest.mark.parametrize("mechanism", ["named", "linear"])
def test_packed_vectors_for_one_document(serve, wanted, mechanism):
    response = packed(serve(mechanism), ["0"], [VECTOR, VECTOR])
    assert response.headers["content-type"] == wire.MEDIA
    readouts = vectors.unpack_readouts(response.content)
    np.testing.assert_allclose(readouts, [wanted("0", VECTOR, mechanism)] * 2, rtol=1e-5)


def test_packed_vectors_for_several_documents(serve, wanted):
    readouts = vectors.unpack_readouts(packed(serve("linear"), ["1", "0"], [VECTOR, VECTOR]).content)
    expected = [wanted(name, VECTOR, "linear") for name in "10"]
    np.testing.assert_allclose(readouts, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "body",
    [
        {"document": "0", "vector": []},
        {"document": "0", "vector": VECTOR[:5]},
        {"document": "0", "vector": [*VECTOR, 1.0]},
        {"document": "0", "vector": [1e300] * SIZE},
        {"document": "0", "vector": ["1"] * SIZE},
        {"document": "0", "vector": [None] * SIZE},
        {"document": "0", "vectors": [VECTOR, VECTOR[:3]]},
        {"document": "0", "vectors": []},
        {"documents": ["0", "1", "0"], "vectors": [VECTOR, VECTOR]},
        {"document": "0"},
    ],
    ids=["none", "short", "long", "huge", "text", "null", "ragged", "no", "pairs", "missing"],
)
def test_vectors_of_wrong_sizes_or_types_are_refused(served, refused, body):
    refused(served.post("/v1/lookup", body), 422)


def test_a_readout_that_overflows_is_refused(serve, refused):
    response = serve("linear").post("/v1/lookup", {"document": "0", "vector": [3e38] * SIZE})
    assert "readouts" in refused(response, 422)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_nan_and_infinity_in_json_are_refused(served, refused, number):
    body = f'{{"document": "0", "vector": [{number}]}}'.encode()
    refused(
        served.call("POST", "/v1/lookup", content=body, headers={"content-type": "application/json"}), 400
    )


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_in_packed_vectors_are_refused(served, refused, number):
    refused(packed(served, ["0"], [[number] * SIZE]), 422)


def damaged(kind):
    whole = vectors.pack_queries(["0"], np.ones((1, SIZE), np.float32))
    header = vectors.HEADER.pack
    return {
        "empty": b"",
        "short header": whole[:7],
        "cut": whole[:-1],
        "longer": whole + b"\0",
        "another kind": b"ATLR" + whole[4:],
        "another version": header(b"ATLQ", 2, 0, 1, 1, SIZE) + whole[20:],
        "no names": header(b"ATLQ", 1, 0, 0, 1, SIZE) + whole[20:],
        "no vectors": header(b"ATLQ", 1, 0, 1, 0, SIZE) + whole[20:],
        "too many": header(b"ATLQ", 1, 0, 1, 2**32 - 1, 2**32 - 1) + whole[20:],
        "a long name": header(b"ATLQ", 1, 0, 1, 1, SIZE) + b"\xff" * 4 + whole[24:],
        "no UTF-8": whole[:24] + b"\xff" + whole[25:],
    }[kind]


@pytest.mark.parametrize(
    "kind",
    [
        "empty",
        "short header",
        "cut",
        "longer",
        "another kind",
        "another version",
        "no names",
        "no vectors",
        "too many",
        "a long name",
        "no UTF-8",
    ],
)
def test_malformed_packed_vectors_are_refused(served, refused, kind):
    refused(served.call("POST", "/v1/lookup", content=damaged(kind), headers=BINARY), 422)


def test_packed_readouts_of_several_widths_are_padded_with_zeros(served, wanted):
    served.put("/v1/documents/few", {"text": "Then Ann met Bob."})
    readouts = vectors.unpack_readouts(packed(served, ["0", "few"], [VECTOR, VECTOR]).content)
    np.testing.assert_allclose(readouts[0], wanted("0", VECTOR), rtol=1e-5)
    np.testing.assert_allclose(readouts[1, :2], wanted("few", VECTOR), rtol=1e-5)
    assert not readouts[1, 2:].any()


def test_packed_vectors_of_another_size_are_refused(served, refused):
    assert "6" in refused(packed(served, ["0", "1"], [VECTOR[:5], VECTOR[:5]]), 422)


def test_an_unknown_document_is_404(served, refused):
    refused(served.post("/v1/lookup", {"document": "nobody", "vector": VECTOR}), 404)
    refused(packed(served, ["nobody"], [VECTOR]), 404)


def test_lookups_on_the_event_loop_and_on_the_thread_agree(serve, monkeypatch):
    served = serve("linear")
    body = {"documents": ["0", "1"], "vectors": np.eye(2, 6).tolist()}
    threads, look_up = [], local._look_up

    def watched(*arguments, **options):
        result = look_up(*arguments, **options)
        if result is not None:
            threads.append(threading.current_thread().name.partition("_")[0])
        return result

    monkeypatch.setattr(local, "_look_up", watched)
    inline = served.post("/v1/lookup", body).json()
    monkeypatch.setattr(local, "_INLINE_BYTES", 10)
    threaded = served.post("/v1/lookup", body).json()
    assert threads == [served.thread.name.partition("_")[0], "lookup"]
    assert (inline["readouts"], inline["bytes"]) == (threaded["readouts"], threaded["bytes"])


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "3.5e38", '"1"', "null", "true"]
)
def test_a_number_that_float32_does_not_have_is_refused(served, number):
    body = f'{{"document": "0", "vector": [{number}, 0, 0, 0, 0, 0]}}'
    response = served.post("/v1/lookup", content=body, headers={"content-type": "application/json"})
    assert response.status_code in (400, 422)
    assert "\n" not in response.json()["detail"]
