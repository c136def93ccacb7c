"""The story that the demo plays: five agents and a team, five services, two chains, and all that a policy can say."""

import secrets
from dataclasses import replace
from decimal import Decimal

import base58
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from foundation.kernel.assets import Asset
from policy.key_operations import create_api_key
from policy.limits import Limits
from policy.operations import pause_agent, resume_agent, set_policy, switch_signer
from services.models import Service, ServiceStatus
from services.operations import approve_service
from services.webhooks.operations import reveal_secrets
from workshop.demo.asking import evaluate
from workshop.demo.client import Api
from workshop.demo.conversation import converse
from workshop.demo.customer import Deposit
from workshop.demo.evidence import show_log
from workshop.demo.paid_page import PaidPage, can_be_paid_for
from workshop.demo.payee import Payee
from workshop.demo.person import ask_a_person
from workshop.demo.processes import Processes
from workshop.demo.promises import Order, Refusal, Registration
from workshop.demo.screen import Screen
from workshop.demo.seed import COMPUTE, EVM, LIBRARY, RESEARCH, SOLANA, STAFF, TRAVEL, make_agent, next_run
from workshop.demo.steps import Steps
from workshop.demo.team import HOTELS, TEAM, share_a_budget

WEATHER, TRANSLATION, GPU, UNKNOWN = "weather-api", "translation-api", "gpu-hours", "no-such-service"
INFERENCE, ARCHIVE, REPORTS = "inference-api", "news-archive", "reports"
USDC, EURC, SOL, PYUSD = Asset.USDC, Asset.EURC, Asset.SOL, Asset.PYUSD
_AN_HOUR_S = 3600
_PENDING, _APPROVED = "pending_approval", "approved"
_TODAY = {"limit": "10.00", "spent": "6.25", "requested": "4.00", "remaining": "3.75"}
_WEATHER_RECIPIENT = f"{EVM}:0x57ea7ae200000000000000000000000000000001"
_TRANSLATION_RECIPIENT = f"{EVM}:0x7ab51a7e00000000000000000000000000000002"


def play(api: Api, screen: Screen, processes: Processes, mcp_url: str) -> Payee:
    """Play the story once; the screen counts the steps that came out as promised. `mcp_url`: where `mcp` answers.

    Returns the payee that receives webhooks: its receiver stays up with the other processes.

    Raises:
        ChildEndedError: a process has ended.
    """
    run = next_run()
    screen.heading(f"The story, run {run}: every step is a request over HTTP")
    steps = Steps(api, screen, run, processes.check)
    payee = Payee(WEATHER, run, screen, api, processes)
    research = make_agent(f"{RESEARCH}-{run}", USDC, "5", "10", "20")
    travel = make_agent(f"{TRAVEL}-{run}", EURC, "50", "100", "200")
    compute = make_agent(f"{COMPUTE}-{run}", SOL, "1", "2", "5")
    library = make_agent(f"{LIBRARY}-{run}", PYUSD, "50", "100", "200")
    hotels = make_agent(f"{HOTELS}-{run}", EURC, "50", "100", "200")
    steps.note(f"{research}: at most 5 USDC a payment, 10 in 24 hours, 20 in 7 days")
    steps.note(f"{travel} and {hotels}: at most 50 EURC a payment, 100 in 24 hours, 200 in 7 days")
    steps.note(f"{compute}: at most 1 SOL a payment, 2 in 24 hours, 5 in 7 days")
    steps.note(f"{library}: at most 50 PYUSD a payment, 100 in 24 hours, 200 in 7 days")

    steps.fund([Deposit(research, "100", USDC, EVM)])
    _pay_once(steps, screen, payee, research)
    others = [(travel, "20", EURC, EVM), (compute, "2", SOL, SOLANA), (library, "20", PYUSD, SOLANA)]
    others.append((hotels, "10", EURC, EVM))
    steps.fund([Deposit(*one) for one in others])
    _pay_in_another_asset(steps, travel)
    _pay_on_another_chain(steps, compute, library)
    _approve_a_payee(steps, research)
    today = Refusal(422, "budget_exceeded", "under_daily_limit", _TODAY, waits=True)
    evaluate(api, screen, Order(research, GPU, "4.00", USDC), today)
    steps.pay_refused(f"{research} asks for 4.00 USDC more today", Order(research, GPU, "4.00", USDC), today)
    _meet_the_limits(steps, research, travel)
    ask_a_person(steps, api, screen, Order(travel, TRANSLATION, "6.00", EURC), above="5")
    team = make_agent(f"{TEAM}-{run}", EURC, "50", "5", "50")
    steps.note(f"{team}: at most 50 EURC a payment, 5 in 24 hours, 50 in 7 days, for all that are under it")
    pays, asks = (Order(agent, TRANSLATION, amount, EURC) for agent, amount in ((travel, "1.00"), (hotels, "4.50")))
    share_a_budget(steps, team, pays, asks)
    _stop_and_go(steps, research)

    steps.check_budget(research, balance="92.25", spentToday="7.75", spentThisWeek="7.75", policyRevision="polrev_2")
    steps.check_budget(compute, balance="1.75", spentToday="0.25", spentThisWeek="0.25", policyRevision="polrev_1")
    for payment in steps.unsettled():
        steps.settle(payment)
    _pay_for_a_page(steps, PaidPage(REPORTS, screen, api, processes), research)
    _, key = create_api_key(name=f"{library}, a model", agent_id=library, expires_in_s=_AN_HOUR_S, by=STAFF)
    converse(screen, mcp_url, key, Order(library, ARCHIVE, "1.50", PYUSD), processes.check)
    show_log(api, screen, [research, travel, compute, library, hotels])
    return payee


def _pay_once(steps: Steps, screen: Screen, payee: Payee, research: str) -> None:
    # Its webhook URL is of this run alone, so that it has to be approved in every run: see _approve_a_payee.
    steps.register(Registration(WEATHER, "Weather API", _WEATHER_RECIPIENT, USDC, payee.url), {_PENDING})
    shown = steps.act_as_staff(f"shows {WEATHER} the secret of its webhooks", lambda: reveal_secrets(WEATHER, by=STAFF))
    if shown:
        payee.start_receiver(next(iter(shown)))
    # From here on it receives events, also those that could not be delivered in an earlier run.
    steps.act_as_staff(f"approves {WEATHER}", lambda: approve_service(WEATHER, by=STAFF))
    first = steps.pay(Order(research, WEATHER, "1.25", USDC))
    steps.settle(first)
    screen.line(f"\n     The first payment is settled {screen.elapsed_s():.1f} s after the start.")
    payee.check_webhooks(first)
    steps.replay(first)
    steps.conflict(first, "2.50")
    promised = Refusal(
        422, "budget_exceeded", "under_max_payment", {"limit": "5.00", "requested": "6.00", "remaining": "5.00"}
    )
    steps.pay_refused(f"{research} asks for 6.00 USDC in one payment", Order(research, WEATHER, "6.00", USDC), promised)


def _pay_in_another_asset(steps: Steps, travel: str) -> None:
    translation = Registration(TRANSLATION, "Translation API", _TRANSLATION_RECIPIENT, EURC)
    steps.register(translation, {_PENDING, _APPROVED})
    # In a later run the earlier approval still covers the same registration.
    if not Service.objects.filter(pk=TRANSLATION, status=ServiceStatus.APPROVED).exists():
        steps.act_as_staff(f"approves {TRANSLATION}", lambda: approve_service(TRANSLATION, by=STAFF))
    steps.pay(Order(travel, TRANSLATION, "12.50", EURC))


def _pay_on_another_chain(steps: Steps, compute: str, library: str) -> None:
    # Nobody has these accounts yet, in every run: what they hold in the end is what they were paid.
    inference = Registration(INFERENCE, "Inference API", f"{SOLANA}:{_new_solana_address()}", SOL)
    steps.register(inference, {_PENDING})
    steps.act_as_staff(f"approves {INFERENCE}", lambda: approve_service(INFERENCE, by=STAFF))
    least = {"limit": "0.00089088", "requested": "0.0005"}
    too_little = Refusal(
        403, "service_not_payable", "service_payable", least, says="would hold less than 0.00089088 SOL"
    )
    dust = Order(compute, INFERENCE, "0.0005", SOL)
    steps.wait_until_seen(dust)
    steps.pay_refused(f"{compute} pays too little for an account to exist", dust, too_little)
    steps.pay(Order(compute, INFERENCE, "0.25", SOL))
    # A token of Token-2022; SOL is held wrapped, under the older Token program.
    archive = Registration(ARCHIVE, "News archive", f"{SOLANA}:{_new_solana_address()}", PYUSD)
    steps.register(archive, {_PENDING})
    steps.act_as_staff(f"approves {ARCHIVE}", lambda: approve_service(ARCHIVE, by=STAFF))
    steps.pay(Order(library, ARCHIVE, "2.50", PYUSD))


def _approve_a_payee(steps: Steps, research: str) -> None:
    # An approval covers one exact registration: with another recipient the service is pending again, in every run.
    recipient = f"{EVM}:0x{secrets.token_hex(20)}"
    not_approved = Refusal(403, "service_not_approved", "service_approved")
    steps.register(Registration(GPU, "GPU hours", recipient, USDC), {_PENDING})
    steps.pay_refused(f"{research} pays {GPU} before it is approved", Order(research, GPU, "5.00", USDC), not_approved)
    steps.act_as_staff(f"approves {GPU}", lambda: approve_service(GPU, by=STAFF))
    steps.pay(Order(research, GPU, "5.00", USDC))
    steps.pay_refused(f"{research} pays somebody unknown", Order(research, UNKNOWN, "1.00", USDC), not_approved)


def _pay_for_a_page(steps: Steps, page: PaidPage, research: str) -> None:
    if not can_be_paid_for():
        steps.note("No page is paid for: the local tokens are of an earlier release. `make clean` makes new ones.")
        return
    steps.register(Registration(REPORTS, "Reports", page.recipient, USDC), {_PENDING})
    steps.act_as_staff(f"approves {REPORTS}", lambda: approve_service(REPORTS, by=STAFF))
    page.open()
    page.fetch(research, f"{research}-report")


def _meet_the_limits(steps: Steps, research: str, travel: str) -> None:
    def tighten(present: Limits) -> Limits:
        return replace(present, weekly_limit=Decimal(8))

    steps.act_as_staff("lowers the weekly limit to 8 USDC", lambda: set_policy(research, change=tighten, by=STAFF))
    weekly = {"limit": "8.00", "spent": "6.25", "requested": "2.00", "remaining": "1.75"}
    promised = Refusal(
        422, "budget_exceeded", "under_weekly_limit", weekly | {"policyRevision": "polrev_2"}, waits=True
    )
    steps.pay_refused(f"{research} asks for 2.00 USDC more this week", Order(research, GPU, "2.00", USDC), promised)

    short = {"requested": "10.00", "remaining": "7.50"}
    promised = Refusal(422, "budget_exceeded", "balance_covers_payment", short)
    steps.pay_refused(f"{travel} asks for more than it has", Order(travel, TRANSLATION, "10.00", EURC), promised)


def _stop_and_go(steps: Steps, research: str) -> None:
    steps.act_as_staff(f"pauses {research}", lambda: pause_agent(research, by=STAFF))
    paused = Refusal(403, "agent_paused", "agent_active")
    steps.pay_refused("A paused agent pays nothing", Order(research, WEATHER, "1.00", USDC), paused)
    steps.act_as_staff(f"resumes {research}", lambda: resume_agent(research, by=STAFF))
    steps.pay(Order(research, WEATHER, "1.00", USDC))

    away = Refusal(503, "policy_signer_unavailable", "policy_signer_available")
    try:
        steps.act_as_staff("takes the policy signer out of service", lambda: switch_signer(is_signing=False, by=STAFF))
        refused = steps.pay_refused("Without a signer nothing is paid", Order(research, WEATHER, "0.50", USDC), away)
    finally:
        steps.act_as_staff("puts the policy signer back in service", lambda: switch_signer(is_signing=True, by=STAFF))
    steps.note("The same Idempotency-Key again: what was not evaluated is not remembered.")
    steps.pay(Order(research, WEATHER, "0.50", USDC), key=refused.key)


def _new_solana_address() -> str:
    return base58.b58encode(Ed25519PrivateKey.generate().public_key().public_bytes_raw()).decode()
