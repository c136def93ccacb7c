"""Requests as bytes that no document allows: each is answered, in the one envelope, as the document says."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import Phase, given, note, seed, settings
from hypothesis import strategies as st

from ledger.receipts import verify
from tests.fuzz.document import Document, Sent
from tests.fuzz.options import AGAIN, EXTRA_MINUTES, SEED
from tests.fuzz.strategies import body_headers, headers, path_segments, payment_bodies, plain_payments, queries, spliced
from tests.support.wire import ask

# Bodies of 64 KiB are among them; the keys, which are new each time, decide how many.
pytestmark = [pytest.mark.filterwarnings("ignore:Generating overly large repr"), pytest.mark.long(30)]
# Some thirty are tried in a second; there are seven tests.
_EXAMPLES = 150 + int(EXTRA_MINUTES * 60 * 30 / 7)
_OF_ANOTHER = (
    b'{"agentId":"fuzz-agent/on-solana","service":"fuzz-payee-on-solana","amount":"0.01","asset":"SOL","reason":"r"}'
)
_METHODS = [b"HEAD", b"PUT", b"DELETE", b"PATCH", b"TRACE", b"QUERY", b"BREW"]
_RECIPIENTS = [b"base:0x8c2BD4bb4a413e7D4719c811a309b3Ac5877b474", b"evm-localnet:0x00", b"solana:\xc3\xa9"]


def by_chance(*strategies):
    """Run a function at once, with much that is drawn from these: nearly the same with the same seed.

    Hypothesis also draws from constants of the modules that were imported before. So a test asserts no more of what it
    has seen than is drawn often.
    """

    def run(function):
        def noted(drawn):
            note(f"Again: {AGAIN}")
            function(*drawn)

        bounds = settings(max_examples=_EXAMPLES, database=None, phases=[Phase.generate, Phase.shrink])
        seed(SEED)(bounds(given(st.tuples(*strategies))(noted)))()

    return run


@pytest.fixture(scope="module")
def desk(cast, stage):
    return Desk(cast, stage)


class Desk:
    """A server with its document, and keys of every kind."""

    def __init__(self, cast, url):
        self.url = url
        self.document = Document(url)
        self.key = cast.key.encode()
        self.keys = [
            *(key.encode() for key in cast.scoped.values()),
            *(key.encode() for key in cast.bound.values()),
            b"alw_" + b"0" * 38,
        ]
        self.with_key = [(b"Authorization", b"Bearer " + self.key)]
        self.published = json.loads(self.send(b"GET", b"/.well-known/allowance-keys.json").body)["keys"]

    def send(self, method, target, sent=(), body=b""):
        return ask(self.url, bytes(Sent(method, target, list(sent), body)))

    def ask(self, operation, *request):
        """Send a request and assert that the document describes its answer."""
        answer = self.send(*request)
        self.document.check(operation, answer)
        return answer


def test_whatever_is_asked_to_be_paid_is_answered_as_documented_and_kept_as_it_was_sent(desk):
    seen: Counter[int] = Counter()

    @by_chance(payment_bodies(), st.uuids())
    def pay(body, key):
        sent = [*desk.with_key, (b"Content-Type", b"application/json"), (b"Idempotency-Key", str(key).encode())]
        answer = desk.ask("requestPayment", b"POST", b"/v1/payments/request", sent, body)
        seen[answer.status] += 1
        if answer.status == 201 and "idempotent-replayed" not in answer.headers:
            assert_kept(desk, json.loads(answer.body), json.loads(body.decode("utf-8-sig")))

    assert {201, 400, 403} <= seen.keys(), seen


def test_whatever_headers_a_payment_has_it_is_answered_as_documented(desk):
    seen: Counter[int] = Counter()

    # Half of them plain: else hardly one is approved, and by chance none.
    @by_chance(
        st.booleans().flatmap(lambda is_plain: plain_payments() if is_plain else payment_bodies()),
        headers(desk.key, desk.keys),
        body_headers(),
    )
    def pay(body, sent, more):
        seen[desk.ask("requestPayment", b"POST", b"/v1/payments/request", sent + more, body).status] += 1

    assert {201, 400, 401, 415} <= seen.keys(), seen


def test_whatever_is_registered_is_answered_as_documented(desk):
    seen: Counter[int] = Counter()

    @by_chance(payment_bodies(), headers(desk.key, desk.keys), body_headers(), st.sampled_from(_RECIPIENTS))
    def register(body, sent, more, recipient):
        body = body.replace(b"agentId", b"name").replace(b"service", b"id").replace(b"metadata", b"webhookUrl")
        body = body.replace(b"fuzz-payee", b"fuzz-kiosk").replace(b'"reason":', b'"recipient":"%b","x":' % recipient)
        seen[desk.ask("registerService", b"POST", b"/v1/services", sent + more, body).status] += 1

    assert {200, 400, 401, 415} <= seen.keys(), seen


def test_whatever_the_log_is_asked_for_it_answers_as_documented(desk):
    seen: Counter[int] = Counter()

    @by_chance(queries(), headers(desk.key, desk.keys))
    def read(query, sent):
        page = desk.ask("listLogs", b"GET", b"/v1/logs?" + query, sent)
        seen[page.status] += 1
        for entry in json.loads(page.body)["data"] if page.status == 200 else ():
            verify(entry, desk.published)

    assert {200, 400, 401} <= seen.keys(), seen


def test_whatever_the_lists_are_asked_for_they_answer_as_documented(desk):
    seen: Counter[int] = Counter()

    @by_chance(queries(), headers(desk.key, desk.keys))
    def read(query, sent):
        for operation, path in (("listPayments", b"/v1/payments?"), ("listServices", b"/v1/services?")):
            seen[desk.ask(operation, b"GET", path + query, sent).status] += 1

    assert {200, 400, 401} <= seen.keys(), seen


def test_whatever_is_asked_with_the_key_of_one_agent_shows_and_pays_nothing_of_another(desk, cast):
    seen: Counter[int] = Counter()
    own, other = cast.bound
    with_key = [(b"Authorization", b"Bearer " + cast.bound[own].encode())]
    sent = [*desk.with_key, (b"Idempotency-Key", b"of another")]
    paid = json.loads(desk.send(b"POST", b"/v1/payments/request", sent, _OF_ANOTHER).body)["id"]
    entry = json.loads(desk.send(b"GET", b"/v1/payments/" + paid.encode(), sent).body)["logId"]

    @by_chance(payment_bodies(), st.uuids(), queries(), st.sampled_from([own.encode(), other.encode()]))
    def ask(body, key, query, agent):
        named = [*with_key, (b"Idempotency-Key", str(key).encode())]
        for answer in (
            desk.ask("requestPayment", b"POST", b"/v1/payments/request", named, body),
            desk.ask("listLogs", b"GET", b"/v1/logs?" + query, with_key),
            desk.ask("getBudget", b"GET", b"/v1/agents/%b/budget" % agent, with_key),
            desk.ask("getPayment", b"GET", b"/v1/payments/%b" % paid.encode(), with_key),
            desk.ask("getPaymentProof", b"GET", b"/v1/payments/%b/proof" % paid.encode(), with_key),
            desk.ask("listPayments", b"GET", b"/v1/payments?" + query, with_key),
            desk.ask("getLogEntry", b"GET", b"/v1/logs/%b" % entry.encode(), with_key),
            desk.ask("listServices", b"GET", b"/v1/services?" + query, with_key),
        ):
            seen[answer.status] += 1
            assert other.encode() not in answer.body, answer

    assert {200, 201, 400, 403, 404} <= seen.keys(), seen


def test_whatever_stands_in_a_path_is_answered_as_documented(desk):
    seen: Counter[int] = Counter()

    @by_chance(path_segments(), headers(desk.key, desk.keys), st.sampled_from(_METHODS))
    def read(segment, sent, method):
        seen[desk.ask("getBudget", b"GET", b"/v1/agents/%b/budget" % segment, sent).status] += 1
        seen[desk.ask("getPayment", b"GET", b"/v1/payments/%b" % segment, sent).status] += 1
        seen[desk.ask("getPaymentProof", b"GET", b"/v1/payments/%b/proof" % segment, sent).status] += 1
        seen[desk.ask("getLogEntry", b"GET", b"/v1/logs/%b" % segment, sent).status] += 1
        seen[desk.ask("getService", b"GET", b"/v1/services/%b" % segment, sent).status] += 1
        desk.document.check_any(desk.send(b"GET", b"/v1/" + segment, sent))
        of_lists = {200, 403} if method == b"HEAD" else set()
        assert desk.send(method, b"/v1/" + segment, sent).status in {401, 404, 405} | of_lists

    assert {200, 401, 403, 404, 405} <= seen.keys(), seen


def test_whatever_bytes_come_for_a_request_they_are_answered_or_the_connection_ends(desk):
    seen: Counter[int] = Counter()
    sent = [*desk.with_key, (b"Idempotency-Key", b"spliced"), (b"Content-Type", b"application/json")]
    request = bytes(Sent(b"POST", b"/v1/payments/request", sent, _OF_ANOTHER))

    @by_chance(spliced(request))
    def send(data):
        answer = ask(desk.url, data, ends=True)  # nobody waits for the rest of what has become longer
        # The first, where they became two requests.
        answer = replace(answer, body=answer.body[: int(answer.headers.get("content-length", 0))])
        seen[answer.status] += 1
        # What is no HTTP, the server below us refuses by itself.
        if answer.status and (answer.body or answer.status not in (400, 431)):
            desk.document.check_any(answer)

    # Some were HTTP all the same, and got as far as our own answers.
    assert seen.keys() - {0, 400}, seen


def assert_kept(desk, shown, sent):
    """Assert that the log tells of a payment what was sent, in a genuine receipt."""
    page = desk.ask("listLogs", b"GET", b"/v1/logs?limit=1&agentId=" + sent["agentId"].encode(), desk.with_key)
    (entry,) = json.loads(page.body)["data"]
    assert entry["paymentId"] == shown["id"]
    verify(entry, desk.published)
    for member in ("agentId", "service", "amount", "asset", "reason"):
        assert entry[member] == sent[member]
    assert entry["metadata"] == sent.get("metadata")
