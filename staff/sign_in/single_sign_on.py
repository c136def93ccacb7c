"""Sign-in with a provider of OpenID Connect: it says who somebody is, and we whether they have an account.

Nobody is let in by an account of the provider alone: each time its verified address has to be that of active staff.
"""

import logging
from typing import Any

from allauth.account.adapter import get_adapter
from allauth.account.utils import perform_login
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.internal import jwtkit
from allauth.socialaccount.models import SocialApp, SocialLogin
from allauth.socialaccount.providers.base.constants import AuthProcess
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from axes.handlers.proxy import AxesProxyHandler
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_login_failed
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode
from requests import RequestException

from foundation.environment.single_sign_on import PROVIDER_ID
from foundation.kernel.repeated_logs import log_once_a_minute
from staff.sign_in.proofs import limit_proof, note_second_factor
from staff.sign_in.sessions import NOTICE
from staff.sign_in.throttling import one_attempt

log = logging.getLogger(__name__)
_FAILED = "Single sign-on did not work. Try again, or sign in with your password."
_NO_ACCOUNT = "No active account here has your address, or the provider has not verified it. Ask an Administrator."
_KIND = "single sign-on"


class SingleSignOnAdapter(DefaultSocialAccountAdapter):
    """Decide whom the provider's word lets in."""

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        told = sociallogin.account.extra_data
        user = _find_account(told["id_token"], told.get("userinfo") or {})
        if user is None:
            raise ImmediateHttpResponse(_refuse(request, _NO_ACCOUNT))
        methods = told["id_token"].get("amr")
        if isinstance(methods, list) and "mfa" in methods:
            note_second_factor(request, user.pk)
        answer = perform_login(request, user, email_verification="none", redirect_url=sociallogin.state.get("next"))
        limit_proof(request, told["id_token"].get("auth_time"))
        raise ImmediateHttpResponse(answer)

    def on_authentication_error(self, request: HttpRequest, *_args: Any, **_options: Any) -> None:
        raise ImmediateHttpResponse(_refuse(request, _FAILED))


class Provider(OpenIDConnectOAuth2Adapter):
    """The provider, of which everything is verified that it says."""

    def _decode_id_token(self, app: SocialApp, id_token: str) -> Any:
        """Verify the token's signature, too: allauth would leave that to TLS."""
        told = self.openid_config
        if told["issuer"].rstrip("/") != settings.OIDC_ISSUER.rstrip("/"):
            raise OAuth2Error("The provider says that it is another one.")
        return jwtkit.verify_and_decode(
            credential=id_token,
            keys_url=told["jwks_uri"],
            issuer=told["issuer"],
            audience=app.client_id,
            lookup_kid=jwtkit.lookup_kid_jwk,
        )

    def complete_login(self, request: HttpRequest, app: SocialApp, token: Any, **options: Any) -> Any:
        if not options["response"].get("id_token"):
            raise OAuth2Error("The provider gave no ID token.")
        login = super().complete_login(request, app, token, **options)
        told = login.account.extra_data
        if told["userinfo"].get("sub") != told["id_token"].get("sub"):
            raise OAuth2Error("The provider speaks of two people.")
        return login


def begin(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Lead to the provider; with `again` it shall ask who somebody is even if it knows already."""
    _require_provider()
    onward = request.GET.get("next", "")
    next_url = onward if get_adapter().is_safe_url(onward) else None
    parameters = {"prompt": "login", "max_age": "0"} if "again" in request.GET else {}
    provider = Provider(request, provider_id).get_provider()
    try:
        answer: HttpResponse = provider.redirect(request, AuthProcess.LOGIN, next_url=next_url, auth_params=parameters)
    except (RequestException, KeyError, ValueError) as error:  # it does not answer, or not as it should
        log_once_a_minute(log, logging.WARNING, "The provider of single sign-on is away: %s", type(error).__name__)
        return _lead_back(request, _FAILED)
    return answer


def come_back(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Take the provider's answer, which is one attempt."""
    _require_provider()
    with one_attempt(request):
        if not AxesProxyHandler.is_allowed(request, {"kind": _KIND}):
            request.axes_locked_out = True  # type: ignore[attr-defined]
            return HttpResponse()
        answer: HttpResponse = OAuth2CallbackView.adapter_view(Provider(request, provider_id))(request)
    return answer


def address_of_sign_on(onward: str = "", *, again: bool = False) -> str:
    """Give the address at which single sign-on begins; "" if there is no provider."""
    if not settings.OIDC_ISSUER:
        return ""
    query = {**({"next": onward} if onward else {}), **({"again": "1"} if again else {})}
    return f"{reverse('openid_connect_login', args=[PROVIDER_ID])}?{urlencode(query)}"


def _find_account(token: dict[str, Any], info: dict[str, Any]) -> User | None:
    """Find the one active account of staff that has the verified address."""
    told = info if "email" in info else token
    address = told.get("email")
    if not isinstance(address, str) or not address or told.get("email_verified") not in (True, "true"):
        return None
    # To a database that ignores case, letters such as the dotless i are those of ASCII.
    found = User.objects.filter(email__iexact=address, is_active=True, is_staff=True)[:2]
    is_one = len(found) == 1 and (address.isascii() or found[0].email == address)
    return found[0] if is_one else None


def _refuse(request: HttpRequest, words: str) -> HttpResponse:
    user_login_failed.send(sender=__name__, credentials={"username": "", "kind": _KIND}, request=request)
    return _lead_back(request, words)


def _lead_back(request: HttpRequest, words: str) -> HttpResponse:
    request.session[NOTICE] = words
    return HttpResponseRedirect(reverse("account_login"))


def _require_provider() -> None:
    if not settings.OIDC_ISSUER:
        raise Http404
