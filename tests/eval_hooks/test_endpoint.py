"""Endpoints: a server that misbehaves in every way costs tries, never an answer, and is never asked twice in vain."""

import base64
import io
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from PIL import Image

from eval_hooks import endpoint as endpoints
from eval_hooks.endpoint import Endpoint, EndpointError, Prompt, ask, request_body

SHEET = np.arange(12 * 10 * 3, dtype=np.uint8).reshape(12, 10, 3)
MESSAGES = [{"role": "user", "content": [{"type": "text", "text": "before"}, {"type": "image"}]}]


def answer(text="gold", reason="stop", tokens=5):
    """What a good server says."""
    return {
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": reason}],
        "usage": {"prompt_tokens": 10, "completion_tokens": tokens},
    }


class Server(ThreadingHTTPServer):
    """Says what it is told to, one request after the other, and the good answer from then on."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = []
        self.asked = []
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()
        self.hold = None
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.asked.append((self.path, dict(self.headers), body))
            said = server.script.pop(0) if server.script else {}
            server.at_once += 1
            server.most_at_once = max(server.most_at_once, server.at_once)
        if server.hold:
            server.hold.wait(timeout=10)
        try:
            if said.get("hang"):
                said["hang"].wait(timeout=10)
            if said.get("close"):
                self.connection.close()
                return
            text = said.get("text", json.dumps(said.get("json", answer())))
            self.send_response(said.get("status", 200))
            self.send_header("Content-Type", said.get("type", "application/json"))
            for name, value in said.get("headers", {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            for byte in text.encode() if said.get("slow") else ():
                self.wfile.write(bytes([byte]))
                said["slow"].wait(timeout=0.05)
            self.wfile.write(b"" if said.get("slow") else text.encode())
        except OSError:  # the client has given up on this try
            pass
        finally:
            with server.lock:
                server.at_once -= 1

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(endpoints, "FIRST_WAIT_S", 0.001)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    running = Server()
    yield running
    running.shutdown()
    running.server_close()


def told(server, count=1, **how):
    """(usage, {number: completion}) of asking that many prompts."""
    answers = {}

    def deliver(number, completion):
        assert number not in answers
        answers[number] = completion

    def prompt(number):
        return Prompt([{"role": "user", "content": [{"type": "text", "text": str(number)}]}], [], 50)

    usage = ask(Endpoint(server.url, "some-model", **how), count, prompt, deliver)
    return usage, answers


def test_a_request_holds_the_images_bit_for_bit_in_their_places():
    body = request_body(Endpoint("http://x/v1", "m", extra={"reasoning_effort": "low"}), Prompt(MESSAGES, [SHEET], 7))
    before, image = body["messages"][0]["content"]
    assert before == {"type": "text", "text": "before"}
    kind, _, data = image["image_url"]["url"].partition(",")
    assert kind == "data:image/png;base64"
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(base64.b64decode(data)))), SHEET)
    assert (body["model"], body["max_tokens"], body["reasoning_effort"]) == ("m", 7, "low")
    assert "max_tokens" not in request_body(Endpoint("http://x/v1", "m"), Prompt(MESSAGES, [SHEET], None))


def test_a_field_that_is_none_is_left_out():
    """As of models that take max_completion_tokens only, and no temperature."""
    extra = {"temperature": None, "max_tokens": None, "max_completion_tokens": 9}
    body = request_body(Endpoint("http://x/v1", "m", extra=extra), Prompt(MESSAGES, [SHEET], 7))
    assert body.keys() == {"model", "messages", "max_completion_tokens"}


def test_answers_come_with_their_reason_and_tokens(server):
    server.script = [{"json": answer("one", "stop", 3)}, {"json": answer("two", "length", 50)}]
    usage, answers = told(server, 2, concurrency=1)
    assert [(a.text, a.finish_reason, a.num_tokens) for a in answers.values()] == [
        ("one", "stop", 3), ("two", "length", 50),
    ]  # fmt: skip
    assert (usage.requests, usage.prompt_tokens, usage.completion_tokens, usage.unanswered) == (2, 20, 53, 0)
    assert server.asked[0][0] == "/v1/chat/completions"


@pytest.mark.parametrize(
    ("trouble", "name"),
    [
        ({"status": 429, "headers": {"Retry-After": "0"}}, "status 429"),
        ({"status": 500}, "status 500"),
        ({"status": 503, "headers": {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}}, "status 503"),
        ({"close": True}, "RemoteProtocolError"),
        ({"text": '{"choices": [{"mess'}, "damaged JSON"),
        ({"text": "<html>wait</html>", "type": "text/html"}, "content type"),
        ({"json": {"choices": []}}, "no choice"),
        ({"json": []}, "no choice"),
        ({"text": json.dumps(answer(tokens=5)).replace("5", "1e999")}, "damaged JSON"),
        ({"text": "[" * 100_000}, "damaged JSON"),
        ({"json": {"choices": [{"message": {"content": None}, "finish_reason": "stop"}]}}, "no text"),
    ],
)
def test_what_may_pass_is_tried_again_and_counted(server, trouble, name):
    server.script = [trouble, trouble]
    usage, answers = told(server)
    assert answers[0].text == "gold"
    assert dict(usage.troubles) == {name: 2}
    assert (usage.requests, usage.unanswered) == (3, 0)
    assert f"{name} 2" in usage.describe()


def test_a_server_that_does_not_answer_in_time_is_asked_again(server):
    released = threading.Event()
    server.script = [{"hang": released}]
    usage, answers = told(server, timeout_s=0.3)
    released.set()
    assert answers[0].text == "gold"
    assert dict(usage.troubles) == {"timeout": 1}


def test_a_server_that_keeps_a_request_alive_byte_by_byte_is_asked_again(server):
    """As proxies do, with spaces, while a model thinks."""
    server.script = [{"slow": threading.Event()}]
    usage, answers = told(server, timeout_s=0.5)
    assert answers[0].text == "gold"
    assert dict(usage.troubles) == {"timeout": 1}


def test_after_the_last_try_a_prompt_is_unanswered_and_the_others_are_not(server):
    server.script = [{"status": 500}] * 3
    usage, answers = told(server, 3, retries=2, concurrency=1)
    assert (sorted(answers), usage.unanswered, usage.requests) == ([1, 2], 1, 5)


@pytest.mark.parametrize("status", [401, 403, 404, 405])
def test_a_refusal_for_good_stops_at_once_and_never_shows_the_key(server, status, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key-123")
    server.script = [{"status": status, "text": "unknown: secret-key-123"}] * 9
    with pytest.raises(EndpointError, match=f"got status {status} from .* for model some-model: 'unknown: ") as refused:
        told(server, 9, concurrency=1)
    assert "secret" not in str(refused.value)
    assert len(server.asked) == 1
    assert server.asked[0][1]["Authorization"] == "Bearer secret-key-123"


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_prompt_that_is_refused_is_counted_and_the_others_are_asked(server, status):
    server.script = [{"status": status, "text": "a filter"}, {}, {"status": status}]
    usage, answers = told(server, 5, concurrency=1)
    assert (sorted(answers), usage.unanswered, usage.requests) == ([1, 3, 4], 2, 5)
    assert usage.troubles == {f"status {status}": 2}


def test_where_each_prompt_is_refused_asking_ends_with_the_servers_words(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key-123")
    server.script = [{}] + [{"status": 400, "text": "no images, secret-key-123"}] * 20
    with pytest.raises(EndpointError, match=r"got status 400 .*no images, \.\.\..*fields of endpoint\.extra"):
        told(server, 20, concurrency=1)
    assert len(server.asked) == 1 + endpoints.FEWEST_FAILED


def test_a_server_that_is_dead_is_not_asked_for_hours(server):
    server.script = [{"status": 503}] * 1000
    with pytest.raises(EndpointError, match=r"no answer to 3 prompts in a row .*status 503 6.*run the same command"):
        told(server, 500, concurrency=1, retries=1)


@pytest.mark.parametrize(
    ("message", "reason", "text"),
    [
        ({"content": None, "refusal": "I will not"}, "stop", "I will not"),
        ({"content": None}, "content_filter", ""),
        ({"content": None, "tool_calls": [{"id": "x"}]}, "tool_calls", ""),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "stop", "ab"),
    ],
)
def test_whatever_a_model_says_instead_of_an_answer_is_its_answer(server, message, reason, text):
    server.script = [{"json": {"choices": [{"message": message, "finish_reason": reason}]}}]
    usage, answers = told(server)
    assert (answers[0].text, answers[0].finish_reason, usage.requests) == (text, "stop", 1)


def test_blanks_around_a_key_are_not_sent_and_other_characters_are_refused(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", " key-1\n")
    told(server)
    assert server.asked[0][1]["Authorization"] == "Bearer key-1"
    for key in ("käse", "a\nb"):
        monkeypatch.setenv("OPENAI_API_KEY", key)
        with pytest.raises(EndpointError, match="OPENAI_API_KEY: got characters that no key has") as refused:
            told(server)
        assert key not in str(refused.value)


def test_a_key_at_the_end_of_what_is_shown_is_not_shown_in_part(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key-123")
    server.script = [{"status": 401, "text": "x" * (endpoints.SHOWN_CHARACTERS - 6) + "secret-key-123"}]
    with pytest.raises(EndpointError) as refused:
        told(server)
    assert "secret" not in str(refused.value)


def test_no_key_is_sent_where_there_is_none(server):
    told(server)
    assert "Authorization" not in server.asked[0][1]


def test_no_more_requests_are_under_way_than_allowed(server):
    server.hold = threading.Event()
    threading.Timer(0.5, server.hold.set).start()
    _, answers = told(server, 7, concurrency=3)
    assert len(answers) == 7
    assert server.most_at_once == 3


def test_budgets_of_requests_and_tokens_end_the_asking(server):
    usage, answers = told(server, 5, concurrency=1, max_requests=2)
    assert (len(answers), usage.requests, usage.unanswered) == (2, 2, 3)
    usage, answers = told(server, 5, concurrency=1, max_total_tokens=31)
    assert (len(answers), usage.tokens, usage.unanswered) == (3, 45, 2)


def test_what_the_budget_leaves_out_is_not_drawn(server):
    made = []

    def prompt(number):
        made.append(number)
        return Prompt([{"role": "user", "content": [{"type": "text", "text": str(number)}]}], [], 50)

    ask(Endpoint(server.url, "m", concurrency=1, max_requests=2), 100, prompt, lambda number, completion: None)
    assert made == [0, 1]


def test_thoughts_that_took_all_tokens_are_a_truncated_answer_and_asked_once(server):
    server.script = [{"json": answer(None, "length", 50)}]
    usage, answers = told(server)
    assert (answers[0].text, answers[0].finish_reason, answers[0].num_tokens) == ("", "length", 50)
    assert (usage.requests, usage.tokens) == (1, 60)


def test_tokens_of_answers_without_text_count_against_the_budget(server):
    server.script = [{"json": answer(None, "stop", 50)}] * 9
    usage, answers = told(server, max_total_tokens=100)
    assert (usage.requests, usage.tokens, answers) == (2, 120, {})
