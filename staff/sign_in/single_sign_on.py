"""Sign-in with a provider of OpenID Connect."""

from allauth.socialaccount.adapter import DefaultSocialAccountAdapter


class SingleSignOnAdapter(DefaultSocialAccountAdapter):
    """Let those in who have an account here."""
