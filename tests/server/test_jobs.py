"""Long changes are jobs: accepted at once, watched, cancelled, bounded in number, and kept for some minutes."""

import os
import signal

import msgspec
import pytest

import attar
from attar import wire
from attar.errors import NameTakenError, UnavailableError
from attar.server import jobs
from attar.server.jobs import Jobs
from attar.server.problems import ProblemError
from tests.documents.document_files import zip_of

from .conftest import Hold, wait_until

TEXT = "Then Ann met Bob. Bob left for Rome. "
ASYNC = {"prefer": "respond-async"}


def accepted(response) -> wire.Job:
    assert response.status_code == 202, response.text
    job = msgspec.convert(response.json(), wire.Job, strict=False)
    assert response.headers["location"] == f"/v1/jobs/{job.id}"
    return job


def state_of(served, job) -> wire.Job:
    return msgspec.convert(served.get(f"/v1/jobs/{job.id}").json(), wire.Job, strict=False)


def ended(served, job) -> wire.Job:
    wait_until(lambda: state_of(served, job).ended)
    return state_of(served, job)


@pytest.fixture
def held(serve, monkeypatch):
    served = serve(max_jobs=2)
    return served, Hold(served.library, monkeypatch, "add_many", can_be_stopped=True)


class TestAJob:
    def test_adds_a_long_text_and_tells_how_far_it_is(self, served):
        text = TEXT * 3_000
        job = ended(served, accepted(served.put("/v1/documents/long", {"text": text})))
        assert (job.state, job.done, job.total) == ("done", len(text), len(text))
        assert [(change.name, change.change) for change in job.changes] == [("long", "added")]
        assert served.get("/v1/documents/long").json()["text"] == text

    def test_is_made_of_any_change_if_the_client_prefers_it(self, served):
        sent = [
            served.put("/v1/documents/new", {"text": TEXT}, headers=ASYNC),
            served.post("/v1/documents/0/append", {"text": TEXT}, headers=ASYNC),
            served.post("/v1/files", files={"file": ("a.txt", TEXT.encode())}, headers=ASYNC),
        ]
        changes = [ended(served, accepted(response)).changes[0] for response in sent]
        assert [change.change for change in changes] == ["added", "appended", "added"]
        assert {job["state"] for job in served.get("/v1/jobs").json()["jobs"]} == {"done"}

    def test_that_fails_has_the_problem_and_what_was_added_before(self, served):
        archive = zip_of({"0.txt": TEXT.encode(), "1.txt": b"Eve came."})
        served.put("/v1/documents/all.zip%2F1", {"text": TEXT})
        response = served.post("/v1/files", files={"file": ("all.zip", archive)}, headers=ASYNC)
        job = ended(served, accepted(response))
        assert (job.state, job.problem.status, job.problem.kind) == ("failed", 409, "NameTakenError")
        assert "all.zip/0" in served.library

    def test_that_is_cancelled_stops_and_adds_nothing(self, held):
        served, hold = held
        running, waiting = (
            accepted(served.put(f"/v1/documents/{name}", {"text": TEXT}, headers=ASYNC)) for name in "ab"
        )
        assert hold.begun.wait(30)
        for job in (waiting, running):
            assert served.call("DELETE", f"/v1/jobs/{job.id}").status_code == 200
            assert ended(served, job).state == "cancelled"
            # Once more changes nothing.
            assert served.call("DELETE", f"/v1/jobs/{job.id}").json()["state"] == "cancelled"
        hold.go.set()
        # Their places are free a moment after they say that they have ended.
        sent = []
        wait_until(
            lambda: (
                sent.append(served.put("/v1/documents/c", {"text": TEXT}, headers=ASYNC))
                or sent[-1].status_code != 503
            )
        )
        job = accepted(sent[-1])
        assert ended(served, job).state == "done"
        assert served.call("DELETE", f"/v1/jobs/{job.id}").json()["state"] == "done"
        assert ["a" in served.library, "b" in served.library, "c" in served.library] == [False, False, True]

    def test_more_than_the_limit_is_refused(self, held, refused):
        served, _ = held
        for name in "ab":
            accepted(served.put(f"/v1/documents/{name}", {"text": TEXT}, headers=ASYNC))
        refused(served.put("/v1/documents/c", {"text": TEXT}, headers=ASYNC), 503)

    @pytest.mark.parametrize("job_id", ["0" * 32, "x", "..%2f..", "0" * 31 + "%00"])
    def test_that_is_not_there_is_404(self, served, refused, job_id):
        refused(served.get(f"/v1/jobs/{job_id}"), 404)
        refused(served.call("DELETE", f"/v1/jobs/{job_id}"), 404)

    def test_a_short_change_does_not_wait_for_one(self, held):
        served, hold = held
        long = accepted(served.put("/v1/documents/long", {"text": TEXT}, headers=ASYNC))
        assert hold.begun.wait(30)
        response = served.post("/v1/documents/0/append", {"text": TEXT})
        assert (response.status_code, state_of(served, long).state) == (200, "running")


class TestAFolderOfJobs:
    @pytest.fixture
    def kept(self, tmp_path):
        opened = Jobs(tmp_path, 9)
        yield opened
        opened.close()

    def run(self, kept):
        job = kept.submit("a", lambda running: None)
        wait_until(lambda: kept.get(job.id).ended)
        return job

    def test_forgets_jobs_that_ended_long_ago_or_many_jobs_ago(self, kept, monkeypatch):
        monkeypatch.setattr(jobs, "_MOST_KEPT", 2)
        ids = [self.run(kept).id for _ in range(4)]
        assert [job.id for job in kept.all()] == ids[2:]
        monkeypatch.setattr(jobs, "_KEPT", -1.0)
        assert kept.all() == []
        with pytest.raises(ProblemError, match="no such job"):
            kept.get(ids[-1])

    def test_forgets_older_jobs_if_the_changes_of_all_are_long(self, kept, monkeypatch):
        """A list of 256 jobs of 10,000 documents each would take the server seconds."""
        ids = [self.run(kept).id for _ in range(4)]
        monkeypatch.setattr(jobs, "_MOST_BYTES", 1)
        assert [job.id for job in kept.all()] == ids[3:]

    def test_knows_that_the_process_of_a_job_has_ended(self, kept, monkeypatch):
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
        job = wire.Job("0" * 32, "a", "running", attar.results.datetime.now())
        monkeypatch.setattr(os, "getpid", lambda: child)
        kept.write(job)
        told = kept.get(job.id)
        assert (told.state, told.problem.status) == ("failed", 503)


@pytest.mark.slow
class TestWithAClient:
    def test_long_texts_and_files_are_added_as_short_ones_are(self, listen):
        seen, text = [], TEXT * 3_000
        with attar.Client(listen().url) as client:
            assert client.add("long", text).change == "added"
            (change,) = client.add_file(
                text.encode(), "file.txt", progress=lambda what, done, total: seen.append((done, total))
            )
            assert (change.name, change.change) == ("file", "added")
            assert seen[-1] == (len(text), len(text))
            assert client.append("file", text).change == "appended"
            with pytest.raises(NameTakenError, match="long"):
                client.add("long", text + TEXT)

    def test_a_job_that_was_cancelled_or_interrupted_adds_nothing(self, make, listen, monkeypatch):
        made = make()
        hold = Hold(made.library, monkeypatch, "add_many", can_be_stopped=True)
        server = listen(made)

        def interrupt(what, done, total):
            raise KeyboardInterrupt

        with attar.Client(server.url) as client, attar.Client(server.url) as other:
            with pytest.raises(KeyboardInterrupt):
                client.add_file((TEXT * 3_000).encode(), "a.txt", progress=interrupt)

            def cancel(what, done, total):
                for job in other._sender.http.get("/v1/jobs").json()["jobs"]:
                    other._sender.http.delete(f"/v1/jobs/{job['id']}")

            with pytest.raises(UnavailableError, match="the job was cancelled"):
                client.add_file((TEXT * 3_000).encode(), "b.txt", progress=cancel)
            hold.go.set()
            assert len(client) == 2

    def test_a_server_stops_though_a_job_would_take_minutes(self, start, folder):
        running = start()
        running.wait_for("startup complete")
        with attar.Client(running.url) as client:
            reply = client._sender.http.put("/v1/documents/long", json={"text": TEXT * 50_000})
            path = f"/v1/jobs/{reply.json()['id']}"
            wait_until(lambda: client._sender.http.get(path).json().get("done", 0) > 0)
            assert client._sender.http.get(path).json()["state"] == "running"
        assert running.stop(signal.SIGTERM) in (0, -signal.SIGTERM)
        assert "Traceback" not in "".join(running.lines)
        with attar.Library(folder, read_only=True) as library:
            assert len(library) == 0
