"""Ask people for their second factor or password again before money, keys and secrets."""

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.http import urlencode

from foundation.console.kept import address_of, keep
from staff.sign_in.forms import ProofForm
from staff.sign_in.proofs import note_proof, proved_lately
from staff.sign_in.single_sign_on import address_of_sign_on
from staff.sign_in.throttling import one_attempt


def reauthenticate_first(request: HttpRequest) -> HttpResponse | None:
    """Return a redirect to where somebody has to prove first who they are, or None if they did so lately.

    From there they come back. What they sent is kept meanwhile, but for passwords; it is shown to them again, and done
    once they send it again: a proof does nothing by itself.
    """
    if proved_lately(request):
        return None
    back = keep(request) if request.method == "POST" else address_of(request)
    return HttpResponseRedirect(f"{reverse('account_reauthenticate')}?{urlencode({'next': back})}")


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
    """Show the form of the proof; what was wrong with one is said there."""
    if form.is_bound:
        for sentence in form.errors.get("proof", ()):
            messages.error(request, str(sentence))
        return HttpResponseRedirect(request.get_full_path())
    onward = request.GET.get("next", "")
    context = {
        **admin.site.each_context(request),
        "title": "Confirm that it is you",
        "form": form,
        "single_sign_on": "" if form.can_be_filled else address_of_sign_on(onward, again=True),
    }
    return TemplateResponse(request, "account/reauthenticate.html", context)
