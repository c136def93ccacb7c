"""`GET /v1/services` and `GET /v1/services/{id}`."""

from dataclasses import replace

import pytest

from foundation.kernel.assets import Asset
from services.models import Service
from services.operations import Registration, approve_service, disable_service, register_service, reject_service
from tests.support.answers import INSTANT, error_of, faulty_params
from tests.support.factories import make_agent, make_service, new_address, new_name
from tests.support.local_ids import LOCALNET
from tests.support.log_reads import ids
from tests.support.trees import make_child

PATH = "/v1/services"
MEMBERS = ["id", "name", "recipient", "asset", "status", "createdAt"]


def make_named(name, *, approved=True):
    register_service(Registration(id=name, name="A", recipient=f"evm-localnet:{new_address()}", asset=Asset.USDC))
    return approve_service(name, by="test") if approved else Service.objects.get(pk=name)


@pytest.fixture
def payees(db):
    """Services of every kind, by what is special about them."""
    made = {kind: make_service() for kind in ("approved", "not on the list", "disabled", "moved")}
    made["in another asset"] = make_service(asset=Asset.EURC)
    made["pending"] = make_service(approved=False)
    made["rejected"] = make_service(approved=False)
    reject_service(made["rejected"].id, by="test", reason="No.")
    disable_service(made["disabled"].id, by="test")
    moved = made["moved"]
    register_service(
        Registration(id=moved.id, name=moved.name, recipient=f"evm-localnet:{new_address()}", asset=Asset.USDC)
    )
    return made


@pytest.fixture
def choosy(payees):
    """An agent whose policy names all of them but one."""
    return make_agent(services=[payee.id for kind, payee in payees.items() if kind != "not on the list"])


def everything(client, query):
    found, cursor = [], None
    while True:
        response = client.get(PATH, {"limit": 100, **query, **({"cursor": cursor} if cursor else {})})
        found += ids(response)
        cursor = response.json()["nextCursor"]
        if cursor is None:
            return found


# --- The list
def test_an_agent_sees_only_what_all_above_it_may_pay_too(api, db):
    for_all, for_root, tagged = make_service(), make_service(), make_service(tags=["data"])
    root = make_agent(services=[for_all.id, for_root.id], allowed_tags=("data",))
    leaf = make_child(make_child(root), services=[for_all.id, tagged.id, make_service().id])

    assert ids(api.get(PATH, {"agentId": leaf.id})) == sorted([for_all.id, tagged.id])


def test_an_agent_sees_what_it_may_pay_now(api, client_of, payees, choosy):
    response = api.get(PATH, {"agentId": choosy.id})

    (shown,) = response.json()["data"]
    assert response.json()["nextCursor"] is None
    assert list(shown) == MEMBERS
    service = payees["approved"]
    assert (shown["id"], shown["name"], shown["recipient"]) == (service.id, service.name, service.recipient)
    assert (shown["asset"], shown["status"]) == ("USDC", "approved")
    assert INSTANT.fullmatch(shown["createdAt"])
    assert client_of(agent=choosy).get(PATH).json() == response.json()


def test_every_service_that_is_listed_is_paid_and_no_other(client_of, payees, choosy):
    client = client_of(agent=choosy)
    listed = ids(client.get(PATH))

    for kind, service in payees.items():
        asked = {"agentId": choosy.id, "service": service.id, "amount": "0.01", "asset": "USDC", "reason": "R"}
        assert (client.pay(asked).status_code == 201) == (service.id in listed), kind


def test_an_agent_without_a_list_may_pay_every_approved_service_in_its_asset(api, payees):
    agent, other = make_agent(), make_agent(asset=Asset.EURC)

    may, may_other = (everything(api, {"agentId": one.id}) for one in (agent, other))

    assert {payees["approved"].id, payees["not on the list"].id} <= set(may)
    assert payees["in another asset"].id in may_other
    for kind in ("pending", "rejected", "disabled", "moved", "in another asset"):
        assert payees[kind].id not in may
    assert payees["approved"].id not in may_other


def test_what_is_not_served_here_is_not_listed_nor_shown_as_payable(api, client_of, payees, settings):
    agent = make_agent()
    moved, paid_so = payees["approved"], payees["not on the list"]
    Service.objects.filter(pk=moved.pk).update(chain="eip155:1", approved_recipient=f"eip155:1:{moved.address}")
    client = client_of(agent=agent, scopes=["payments"])

    for listed in (everything(api, {}), everything(client, {})):
        assert moved.id not in listed
        assert paid_so.id in listed
    error_of(client.get(f"{PATH}/{moved.id}"), 404, "service_not_found")
    assert api.get(f"{PATH}/{moved.id}").json()["status"] == "approved"

    served = settings.CHAINS[LOCALNET]
    settings.CHAINS = {**settings.CHAINS, LOCALNET: replace(served, left_out=frozenset({Asset.USDC}))}
    assert paid_so.id not in everything(client, {})
    assert payees["in another asset"].id in everything(api, {})
    settings.CHAINS = {}
    assert everything(api, {}) == []


def test_without_an_agent_every_approved_service_is_listed_by_id(api, client_of, payees):
    for client in (api, client_of(scopes=["payments"]), client_of(scopes=["services"])):
        found = everything(client, {})

        assert found == sorted(found)
        assert {payees[kind].id for kind in ("approved", "not on the list", "in another asset")} <= set(found)
        assert not {payees[kind].id for kind in ("pending", "rejected", "disabled", "moved")} & set(found)


def test_an_agent_whose_list_is_empty_may_pay_nobody(api, payees):
    assert ids(api.get(PATH, {"agentId": make_agent(services=[]).id})) == []


@pytest.mark.parametrize("scopes", [["payments"], ["services"], ["payments", "services"]])
def test_a_bound_key_sees_its_own_agents_services_only(client_of, payees, choosy, scopes):
    client, other = client_of(agent=choosy, scopes=scopes), make_agent()

    assert ids(client.get(PATH)) == ids(client.get(PATH, {"agentId": choosy.id})) == [payees["approved"].id]
    for name in (other.id, "nobody"):
        error_of(client.get(PATH, {"agentId": name}), 403, "insufficient_scope")


@pytest.mark.parametrize("path", [PATH, f"{PATH}/x"])
def test_another_scope_is_not_enough(client_of, path):
    error = error_of(client_of(scopes=["budgets", "logs"]).get(path), 403, "insufficient_scope")

    assert "payments or services" in error["message"]


def test_pages_hold_every_service_once_and_stay_stable(api):
    names = sorted(new_name("page") for _ in range(5))
    for name in [*names[:2], *names[3:]]:
        make_named(name)
    agent = make_agent(services=names)
    query = {"agentId": agent.id, "limit": 2}
    first = api.get(PATH, query)
    make_named(names[2])

    second = api.get(PATH, {**query, "cursor": first.json()["nextCursor"]})

    assert ids(first) + ids(second) == names[:4]
    assert ids(api.get(PATH, {**query, "cursor": second.json()["nextCursor"]})) == names[4:]
    cursor = first.json()["nextCursor"]
    for wrong in ({}, {"agentId": make_agent().id}):
        assert faulty_params(api.get(PATH, {**wrong, "cursor": cursor})) == ["cursor"]
    assert faulty_params(api.get("/v1/payments", {"agentId": agent.id, "cursor": cursor})) == ["cursor"]
    assert faulty_params(api.get(PATH, {**query, "cursor": cursor[:-1]})) == ["cursor"]


@pytest.mark.parametrize("query", ["agentId=%00", "limit=0", "limit=%00", "limit=x", "cursor=%00", "cursor=x"])
def test_what_a_query_cannot_mean_is_400(api, query):
    assert faulty_params(api.get(f"{PATH}?{query}")) == [query.partition("=")[0]]


# --- One service
def test_a_key_that_registers_services_reads_each_of_them(client_of, payees):
    for client in (client_of(scopes=["services"]), client_of(agent=make_agent(services=[]), scopes=["services"])):
        for service in payees.values():
            shown = client.get(f"{PATH}/{service.id}").json()
            assert list(shown) == MEMBERS
            assert (shown["id"], shown["status"]) == (service.id, Service.objects.get(pk=service.id).status)


def test_a_key_that_only_pays_reads_what_its_agent_may_pay(client_of, payees, choosy):
    client = client_of(agent=choosy, scopes=["payments"])
    answers = {kind: client.get(f"{PATH}/{service.id}") for kind, service in payees.items()}

    assert answers.pop("approved").status_code == 200
    unknown = client.get(f"{PATH}/nobody")
    for response in answers.values():
        error_of(response, 404, "service_not_found")
        assert response.content == unknown.content


def test_a_key_of_no_agent_that_only_pays_reads_every_approved_service(client_of, payees):
    client = client_of(scopes=["payments"])

    assert client.get(f"{PATH}/{payees['in another asset'].id}").status_code == 200
    error_of(client.get(f"{PATH}/{payees['pending'].id}"), 404, "service_not_found")


@pytest.mark.parametrize("form", ["{}", "{}/"])
@pytest.mark.parametrize("name", ["a/b", "a//b", "a:b@c+d", "a.b-c_d", "request/proof"])
def test_an_id_may_hold_slashes(api, name, form):
    make_named(name := f"{new_name('s')}/{name}")

    assert api.get(f"{PATH}/{form.format(name)}").json()["id"] == name
    assert api.get(f"{PATH}/{name.replace('/', '%2F')}").json()["id"] == name


def test_an_id_that_ends_with_a_slash_is_not_taken_for_the_one_without(api):
    name = new_name("s")
    make_named(name)
    assert api.get(f"{PATH}/{name}/").json()["id"] == name

    make_named(f"{name}/")

    assert api.get(f"{PATH}/{name}").json()["id"] == name
    assert api.get(f"{PATH}/{name}/").json()["id"] == api.get(f"{PATH}/{name}//").json()["id"] == f"{name}/"


@pytest.mark.parametrize(
    "name", ["nobody", "%00", "a%00b", "%ff", "%ed%a0%80", "\u00fc", "a%0A", "/", "//", "..", "'--", "x" * 5000, "%20"]
)
def test_a_service_of_any_other_name_is_404(api, name):
    error_of(api.get(f"{PATH}/{name}"), 404, "service_not_found")


def test_a_service_is_read_and_not_changed_at_its_own_address(api, service):
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        error_of(api.send(method, f"{PATH}/{service.id}"), 405, "method_not_allowed")
