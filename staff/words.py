"""Write what the audit holds in words for people."""

# Where the words do not follow from the name. All others do: agent.paused is "Agent paused".
_ACTIONS = {
    "api_key.issued": "API key issued",
    "api_key.revoked": "API key revoked",
    "webhook.secret_shown": "Signing secret shown",
    "webhook.secret_rotated": "Signing secret rotated",
}


def name_action(action: str) -> str:
    """Name an action: `agent.paused` is "Agent paused"."""
    return _ACTIONS.get(action) or action.replace(".", " ").replace("_", " ").capitalize()
