"""
Python values as JSON, with their types. The process of the tests and the process of a policy's code send them to each
other. Both sides are bounded: a value that is too large or too deep is refused.
"""

import builtins
import collections
import decimal
import fractions

MOST_NODES = 400_000
MOST_DEPTH = 100
LONGEST_ITERATION = 100_000
MOST_BITS = 1 << 22
SAFE = 1 << 53


class Refused(Exception):
    """The value cannot be sent."""


def encode(value, reference=None, own=None):
    """`reference`: for a value of another type, what the other side calls it. `own`: encodes the sender's own types."""
    left = [MOST_NODES]

    def all_of(items, depth):
        return [one(item, depth + 1) for item in items]

    def one(value, depth):
        left[0] -= 1
        if left[0] < 0 or depth > MOST_DEPTH:
            raise Refused("the value is too large")
        known = own(value) if own else None
        if known is not None:
            return known
        if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
            # A number of numpy is a number.
            value = value.item()
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            left[0] -= len(value) // 16
            return str(value)
        if isinstance(value, int):
            if value.bit_length() > MOST_BITS:
                raise Refused("the number is too long")
            return int(value) if -SAFE < value < SAFE else {"i": hex(value)}
        if isinstance(value, float):
            return {"f": repr(float(value))}
        if isinstance(value, complex):
            return {"c": [repr(value.real), repr(value.imag)]}
        if isinstance(value, (bytes, bytearray)):
            left[0] -= len(value) // 8
            return {"b": bytes(value).hex()}
        if isinstance(value, fractions.Fraction):
            return {"q": str(value)}
        if isinstance(value, decimal.Decimal):
            return {"D": str(value)}
        if isinstance(value, list):
            return {"l": all_of(value, depth)}
        if isinstance(value, tuple):
            return {"t": all_of(value, depth)}
        if isinstance(value, frozenset):
            return {"F": all_of(value, depth)}
        if isinstance(value, set):
            return {"S": all_of(value, depth)}
        if isinstance(value, collections.deque):
            return {"Q": all_of(value, depth)}
        if isinstance(value, range):
            return {"r": [hex(value.start), hex(value.stop), hex(value.step)]}
        if isinstance(value, dict):
            return {"d": [[one(key, depth + 1), one(item, depth + 1)] for key, item in value.items()]}
        if isinstance(value, type) and getattr(builtins, value.__name__, None) is value:
            return {"T": value.__name__}
        if hasattr(value, "__next__"):
            items = []
            for item in value:
                if len(items) == LONGEST_ITERATION:
                    raise Refused("the iterator does not end")
                items.append(one(item, depth + 1))
            return {"I": items}
        return {"o": type(value).__name__[:100], "at": reference if depth == 0 else None}

    return one(value, 0)


def decode(given, foreign):
    """`foreign(entry)` makes what stands here for a value of the other side's own types."""

    def all_of(items):
        return [one(item) for item in items]

    def one(given):
        if not isinstance(given, dict):
            return given
        (kind, body), *_ = given.items()
        if kind == "i":
            return int(body, 16)
        if kind == "f":
            return float(body)
        if kind == "c":
            return complex(*map(float, body))
        if kind == "b":
            return bytes.fromhex(body)
        if kind == "q":
            return fractions.Fraction(body)
        if kind == "D":
            return decimal.Decimal(body)
        if kind == "l":
            return all_of(body)
        if kind == "t":
            return tuple(all_of(body))
        if kind == "F":
            return frozenset(all_of(body))
        if kind == "S":
            return set(all_of(body))
        if kind == "Q":
            return collections.deque(all_of(body))
        if kind == "r":
            return range(*(int(number, 16) for number in body))
        if kind == "d":
            return {one(key): one(item) for key, item in body}
        if kind == "T":
            found = getattr(builtins, body)
            return found if isinstance(found, type) else None
        if kind == "I":
            return iter(all_of(body))
        return foreign(given)

    return one(given)
