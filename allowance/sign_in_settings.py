"""Settings of sign-in, for django-allauth and django-axes. What operators may set is in `allowance.settings`."""

from datetime import timedelta

AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "staff.sign_in.backends.StaffBackend"]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "admin:index"

# --- Accounts: made by an Administrator, never by whoever comes along -------------------------------------------------
ACCOUNT_ADAPTER = "staff.sign_in.adapters.AccountAdapter"
ACCOUNT_FORMS = {"login": "staff.sign_in.forms.LoginForm", "change_password": "staff.sign_in.forms.ChangePasswordForm"}
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_LOGOUT_REDIRECT_URL = "account_login"
# A cookie that ends with the browser; `staff.sign_in.sessions` ends the session itself.
ACCOUNT_SESSION_REMEMBER = False
# How long the code may be asked for after the password.
ACCOUNT_LOGIN_TIMEOUT = int(timedelta(minutes=5).total_seconds())
# allauth counts in a cache of one process: `staff.sign_in.throttling` counts in the database, for all.
ACCOUNT_RATE_LIMITS = False
PASSWORD_RESET_TIMEOUT = int(timedelta(days=1).total_seconds())

# --- The second factor ------------------------------------------------------------------------------------------------
MFA_ADAPTER = "staff.sign_in.adapters.SecondFactorAdapter"
MFA_FORMS = {
    "authenticate": "staff.sign_in.forms.CodeForm",
    "activate_totp": "staff.sign_in.forms.FirstCodeForm",
}
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
MFA_TOTP_ISSUER = "Allowance"
# A step of 30 s before and after: clocks differ. `staff.sign_in.codes` takes each code once, and none before it.
MFA_TOTP_TOLERANCE = 1
MFA_RECOVERY_CODES_SHOW_ONCE = True
MFA_RATE_LIMITS = False
# `staff.reauthentication` asks instead, everywhere by the same rule.
MFA_REAUTHENTICATION_REQUIRED = False

# --- Throttling: `staff.sign_in.throttling` has the limits ------------------------------------------------------------
AXES_HANDLER = "staff.sign_in.throttling.Throttle"
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_CLIENT_IP_CALLABLE = "staff.sign_in.throttling.network_of"
AXES_LOCKOUT_CALLABLE = "staff.sign_in.throttling.answer_locked_out"
AXES_ENABLE_ADMIN = False
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_VERBOSE = False

# --- Single sign-on ---------------------------------------------------------------------------------------------------
SOCIALACCOUNT_ADAPTER = "staff.sign_in.single_sign_on.SingleSignOnAdapter"
SOCIALACCOUNT_AUTO_SIGNUP = False
