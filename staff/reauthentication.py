"""Ask people for their second factor or password again before money, keys and secrets."""

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.http import urlencode

from staff.sign_in.forms import ProofForm
from staff.sign_in.proofs import note_proof, proved_lately
from staff.sign_in.single_sign_on import address_of_sign_on
from staff.sign_in.throttling import one_attempt

_NOT_SENT_AGAIN = frozenset({"csrfmiddlewaretoken", "proof"})


def reauthenticate_first(request: HttpRequest) -> HttpResponse | None:
    """Return the page on which somebody has to prove first who they are, or None if they did so lately.

    What they sent is in that page: it comes again with the proof, and only then anything is done. So nothing is kept
    here meanwhile, and nothing is done twice.
    """
    if proved_lately(request):
        return None
    if request.method != "POST":
        return HttpResponseRedirect(
            f"{reverse('account_reauthenticate')}?{urlencode({'next': request.get_full_path()})}"
        )
    form = ProofForm(request, request.POST if "proof" in request.POST else None)
    return None if is_proof(request, form) else ask_for_proof(request, form)


def is_proof(request: HttpRequest, form: ProofForm) -> bool:
    """Check what was sent as a proof, which is one attempt, and note it if it is right."""
    if not form.is_bound:
        return False
    with one_attempt(request):
        is_right = form.is_valid()
    if is_right:
        note_proof(request)
    return is_right


def ask_for_proof(request: HttpRequest, form: ProofForm) -> HttpResponse:
    """Show the form of the proof, with what else was sent."""
    sent = [(name, value) for name, values in request.POST.lists() if name not in _NOT_SENT_AGAIN for value in values]
    onward = request.GET.get("next") or request.get_full_path()
    context = {
        **admin.site.each_context(request),
        "title": "Confirm that it is you",
        "form": form,
        "sent": sent,
        "single_sign_on": "" if form.can_be_filled else address_of_sign_on(onward, again=True),
    }
    return TemplateResponse(request, "account/reauthenticate.html", context)
