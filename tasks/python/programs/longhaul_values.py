"""What all kinds of environments return: numbers, metrics and messages, checked."""

import math


class Wrong(Exception):
    """The environment does not do what one must do."""


def number_of(value, what):
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise Wrong("%s is %r, and must be a number" % (what, value)) from None
    if not math.isfinite(number):
        raise Wrong("%s is %r, and must be finite" % (what, value))
    return number


def numbers_in(given):
    """As SkyRL-Gym aggregates them: numbers and booleans, and nothing else."""
    if not isinstance(given, dict):
        raise Wrong("the metrics are %r, and must be a dictionary" % (given,))
    found = {}
    for name, value in given.items():
        try:
            number = float(value) if not isinstance(value, (str, bytes)) else math.nan
        except (TypeError, ValueError):
            continue
        if math.isfinite(number):
            found[str(name)] = number
    return found


def messages_in(given, what):
    if given is None:
        return []
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    messages = []
    for one in given:
        one = one if isinstance(one, dict) else dict(one)
        role, content = one.get("role", "user"), one.get("content")
        if not isinstance(content, str):
            raise Wrong("%s has a message without text: %r" % (what, one))
        messages.append({"role": role if role in ("system", "user", "assistant") else "user", "content": content})
    return messages
