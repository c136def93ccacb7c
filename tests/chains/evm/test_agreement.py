"""What more than half of the nodes say is so; who says otherwise is named, and asked last from then on."""

import pytest

from chains.port import ChainUnavailable, Contradiction
from chains.rpc.agreement import are_outvoted, confirmed_by_two, find_agreed, is_seen, is_unanimous, most_common
from chains.rpc.node import Identity
from tests.support.fake_nodes import Node
from tests.support.unreliable_nodes import nodes_at, says

HEIGHT = [("eth_blockNumber",)]


def height(answers: list[str]) -> int:
    return int(answers[0], 16)


@pytest.fixture
def saying(make_node):
    """Return a function that makes nodes which say these heights; None: one that is away."""

    def make(*heights: int | None) -> list[Node]:
        made = [make_node() for _ in heights]
        for node, number in zip(made, heights, strict=True):
            node.answers = {"eth_chainId": "0x1", "eth_blockNumber": hex(number or 0)}
            if number is None:
                node.respond = says(503, b"")
        return made

    return make


@pytest.mark.parametrize(
    ("heights", "agreed"),
    [
        ([5], 5),
        ([5, 5], 5),
        ([5, 6], None),
        ([5, None], None),
        ([5, 5, 6], 5),
        ([6, 5, 5], 5),
        ([5, 5, None], 5),
        ([5, 6, None], None),
        ([5, None, None], None),
        ([5, 6, 7], None),
        ([5, 5, 6, 6], None),
        ([5, 5, 6, 7], None),
        ([5, 5, 5, 6], 5),
        ([5, 5, 6, 6, 6], 6),
    ],
)
def test_more_than_half_of_those_that_reply_and_two_at_least_are_believed(saying, heights, agreed):
    nodes = nodes_at(*saying(*heights))

    if agreed is None:
        with pytest.raises(ChainUnavailable):
            nodes.read_agreed(HEIGHT, height)
        assert nodes.agreement.take_contradictions() == []
    else:
        assert nodes.read_agreed(HEIGHT, height) == agreed
        others = [number for number, said in enumerate(heights, 1) if said not in (agreed, None)]
        assert nodes.agreement.take_contradictions() == [Contradiction(number, "eth_blockNumber") for number in others]
    assert nodes.agreement.take_contradictions() == []


@pytest.mark.parametrize(("heights", "is_so"), [([5, 5, 5], True), ([5, 5, 6], False), ([5, 5, None], True)])
def test_all_that_reply_must_say_what_is_agreed_on_by_all(saying, heights, is_so):
    nodes = nodes_at(*saying(*heights))

    found = nodes.agreement.find(nodes.read_replies(HEIGHT, height), "it", by_all=True)

    assert found == (5 if is_so else None)


def test_nothing_is_found_where_too_few_reply_or_none_agree(saying):
    for heights in ([5, None, None], [5, 6, 7]):
        nodes = nodes_at(*saying(*heights))
        assert nodes.agreement.find(nodes.read_replies(HEIGHT, height), "it") is None


def test_a_node_that_contradicted_the_others_is_named_in_the_log_by_its_number_and_asked_last(saying, caplog):
    made = saying(6, 5, 5)
    nodes = nodes_at(*made, chain="base")
    assert nodes.read(HEIGHT, height) == 6

    nodes.read_agreed(HEIGHT, height)

    assert nodes.read(HEIGHT, height) == 5
    assert "base, node 1 of 3 contradicts the others about eth_blockNumber" in caplog.messages
    assert not any(node.url in caplog.text for node in made)
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_of_two_that_contradicted_the_others_the_one_that_did_lately_is_asked_last(saying):
    made = saying(6, 5, 5)
    nodes = nodes_at(*made)
    nodes.read_agreed(HEIGHT, height)
    made[0].answers["eth_blockNumber"], made[1].answers["eth_blockNumber"] = "0x7", "0x8"
    made[2].answers["eth_blockNumber"] = "0x7"
    nodes.read_agreed(HEIGHT, height)
    for number, node in enumerate(made, 1):
        node.answers["eth_blockNumber"] = hex(number)

    assert [reply.said for reply in nodes.read_replies(HEIGHT, height)] == [3, 1, 2]


def test_a_node_of_another_chain_is_named_where_there_are_others(saying):
    made = saying(5, 5, 5)
    made[1].answers["eth_chainId"] = "0x5"
    nodes = nodes_at(*made, identity=Identity("eth_chainId", 1))

    assert nodes.read_agreed(HEIGHT, height) == 5
    assert nodes.agreement.take_contradictions() == [Contradiction(2, "the chain that it belongs to")]


# --- A node that is silent about something ----------------------------------------------------------------------------
def test_a_node_that_never_answers_one_question_is_asked_the_others_and_seldom_this_one(saying):
    (node,) = saying(5)
    now = [0.0]
    nodes = nodes_at(node, clock=lambda: now[0])

    def respond(body):
        return (503, b"") if body["method"] == "eth_getLogs" else node.tell(body)

    node.respond = respond
    asked, answered = 0, 0
    for _ in range(120):
        now[0] += 1
        before = len(node.requests)
        for method in ("eth_getLogs", "eth_blockNumber"):
            try:
                nodes.ask([(method,)])
                answered += 1
            except ChainUnavailable:
                pass
        asked += [body["method"] for body in node.requests[before:]].count("eth_getLogs")

    # Every second at first, then after 15 seconds each time; what comes with it has to wait for a moment only.
    assert asked < 14
    assert answered > 100


# --- The values -------------------------------------------------------------------------------------------------------
def test_values_that_cannot_be_hashed_are_agreed_on_too():
    assert find_agreed([[5], [6], [5]], 2) == [5]
    assert find_agreed([[5], [6]], 2) is None
    assert find_agreed([], 1) is None
    assert is_unanimous([[5], [5]], 2)
    assert not is_unanimous([[5]], 2)
    assert most_common([[6], [5], [5]]) == [5]
    assert most_common([[6], [5]]) == [6]


@pytest.mark.parametrize(
    ("few", "replied", "is_so"),
    [(1, 1, False), (1, 2, False), (1, 3, True), (2, 3, False), (2, 4, False), (2, 5, True)],
)
def test_few_are_outvoted_by_two_others_that_are_more(few, replied, is_so):
    assert are_outvoted(few, replied) == is_so


@pytest.mark.parametrize(
    ("there", "replied", "was_seen", "is_so"),
    [
        (0, 1, True, False),
        (1, 1, False, True),
        (1, 2, False, True),
        (1, 3, False, False),
        (2, 3, False, True),
        (1, 3, True, True),
        (1, 4, False, False),
        (2, 4, False, True),
    ],
)
def test_half_of_the_nodes_see_a_transaction_and_any_of_them_one_that_was_seen(there, replied, was_seen, is_so):
    assert is_seen(there, replied, was_seen=was_seen) == is_so


@pytest.mark.parametrize(("said", "confirmed"), [([7], 7), ([7, 5], 5), ([9, 7, 5], 7), ([5, 9, 5], 5)])
def test_a_value_is_confirmed_by_two(said, confirmed):
    assert confirmed_by_two(said) == confirmed
