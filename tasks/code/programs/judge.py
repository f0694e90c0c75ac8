"""
Runs the tests of a problem, in a sandbox that no code of a policy enters. What the tests call is elsewhere: a call
whose answer is not known yet is written down, and the tests go on for as long as they can without it. Arguments: the
record's file, the file of the known answers, and a marker. Prints, after the marker, the calls to make next, or what
the tests say.
"""

import ast
import builtins
import collections
import importlib
import json
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from typed_values import Refused, decode, encode  # noqa: E402

MOST_CALLS = 20_000


class Needed(BaseException):
    """The tests cannot go on without an answer."""


class Broken(BaseException):
    """The tests cannot be run. Without any answer of the policy's code, they themselves are at fault."""

    first = None

    def __init__(self, why):
        super().__init__(why)
        Broken.first = Broken.first or why


class Session:
    """
    The calls of the tests. A known answer belongs to the same call of the same count: tests that went on without an
    answer may have left calls out, which they make in a later round.
    """

    def __init__(self, known):
        self.known = known
        self.places = collections.defaultdict(collections.deque)
        for place, item in enumerate(known):
            self.places[json.dumps(item["call"], sort_keys=True)].append(place)
        self.calls = []
        self.made = 0

    def pending(self):
        return bool(self.calls)

    def call(self, **call):
        self.made += 1
        if self.made > MOST_CALLS:
            raise Needed() if self.calls else Broken("the tests make more than %d calls" % MOST_CALLS)
        places = self.places[json.dumps(call, sort_keys=True)]
        if not places:
            self.calls.append(call)
            return Pending(self, len(self.known) + len(self.calls) - 1), {}
        answer = self.known[places.popleft()]["answer"]
        if "error" in answer:
            raise error_of(answer)
        value = decode(answer["value"], lambda given: Remote(self, {"at": given.get("at")}))
        return value, {int(place): item for place, item in answer.get("changed", {}).items()}


def error_of(answer):
    for name in answer["error"]:
        kind = getattr(builtins, name, None)
        if isinstance(kind, type) and issubclass(kind, Exception):
            try:
                return kind(answer["message"])
            except Exception:
                continue
    return Exception(answer["message"])


class Remote:
    """A function, class or object of the policy's code. It equals itself alone: its own methods say nothing here."""

    def __init__(self, session, on):
        object.__setattr__(self, "session", session)
        object.__setattr__(self, "on", on)

    def __call__(self, *args, **kwargs):
        session, on = object.__getattribute__(self, "session"), object.__getattribute__(self, "on")
        try:
            given = [encode(item, own=reference_of) for item in args]
            named = {name: encode(item, own=reference_of) for name, item in kwargs.items()}
        except Refused as error:
            raise Broken("an argument cannot be sent: %s" % error)
        value, changed = session.call(do="call", on=on, args=given, kwargs=named)
        for place, item in changed.items():
            put_back(args[place], decode(item, lambda _: Remote(session, {"at": None})))
        return value

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        session = object.__getattribute__(self, "session")
        return session.call(do="get", on=object.__getattribute__(self, "on"), attribute=name)[0]

    def __setattr__(self, name, value):
        session = object.__getattribute__(self, "session")
        encoded = encode(value, own=reference_of)
        session.call(do="set", on=object.__getattribute__(self, "on"), attribute=name, value=encoded)

    def __eq__(self, other):
        mine = object.__getattribute__(self, "on")
        return isinstance(other, Remote) and mine.get("at") is not None and mine == object.__getattribute__(other, "on")

    def __hash__(self):
        return hash(json.dumps(object.__getattribute__(self, "on")))


class Pending(Remote):
    """The answer of a call that was not made yet."""

    def __init__(self, session, number):
        super().__init__(session, {"at": number})

    def __bool__(self):
        raise Needed()

    def __eq__(self, other):
        raise Needed()

    __hash__ = Remote.__hash__


def reference_of(value):
    if isinstance(value, Remote):
        on = object.__getattribute__(value, "on")
        if on.get("at", 0) is None:
            raise Refused("it is inside of another value")
        return {"at": on["at"]} if "at" in on else {"name": on["name"]}
    if isinstance(value, type) and value.__module__ == "builtins":
        return None
    if callable(value):
        raise Refused("it is a function or class of the tests")
    return None


def put_back(mine, now):
    if isinstance(mine, list) and isinstance(now, list):
        mine[:] = now
    elif isinstance(mine, (dict, set)) and type(mine) is type(now):
        mine.clear()
        mine.update(now)


class Soft(ast.NodeTransformer):
    """An assertion that follows a call without an answer does not end the tests."""

    def visit_Assert(self, node):
        text = "try:\n    pass\nexcept BaseException:\n    if not longhaul_pending(): raise"
        (wrapped,) = ast.parse(text).body
        wrapped.body = [node]
        return ast.copy_location(wrapped, node)


def compiled(source, name):
    tree = Soft().visit(ast.parse(source.replace("\r\n", "\n"), name))
    return compile(ast.fix_missing_locations(tree), name, "exec", dont_inherit=True)


def tree_of(source):
    try:
        return ast.parse(source.replace("\r\n", "\n"))
    except SyntaxError:
        return ast.Module(body=[], type_ignores=[])


def imports_of(source, namespace):
    for node in tree_of(source).body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            try:
                exec(compile(ast.Module(body=[node], type_ignores=[]), "imports", "exec"), namespace)
            except ImportError:
                pass


def names_of(record, namespace, session):
    """Binds each name of the tests that the policy's code must define."""
    own = {node.name for node in tree_of(record["reference"]).body if hasattr(node, "name")}
    tests = [tree_of(source) for source in [record["setup"], *record["tests"]]]
    nodes = [node for tree in tests for node in ast.walk(tree)]
    read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    bound |= {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    for name in sorted(read - bound):
        if name not in own and (name in namespace or hasattr(builtins, name)):
            continue
        if name not in own and name in getattr(sys, "stdlib_module_names", ()):
            namespace[name] = importlib.import_module(name)
        else:
            namespace[name] = Remote(session, {"name": name})


def run(record, session):
    namespace = {"__name__": "tests", "longhaul_pending": session.pending}
    imports_of(record["reference"], namespace)
    if record["helpers"]:
        try:
            exec(compile(record["helpers"], "helpers.py", "exec", dont_inherit=True), namespace)
        except SyntaxError:
            imports_of(record["helpers"], namespace)
    entry = record["entry"]
    if entry:
        namespace[entry] = Remote(session, {"name": entry})
    else:
        names_of(record, namespace, session)
    for number, source in enumerate([record["setup"], *record["tests"]]):
        exec(compiled(source, "test %d" % number if number else "setup"), namespace)
    if entry:
        namespace["check"](namespace[entry])


def said(record, session):
    random.seed(0)
    try:
        run(record, session)
    except Needed:
        pass
    except BaseException as error:
        if not session.calls:
            where = error.__traceback__
            while where.tb_next:
                where = where.tb_next
            place = "%s, line %d" % (where.tb_frame.f_code.co_filename, where.tb_lineno)
            kind = "failed" if session.known else "broken"
            return {kind: "%s: %s (%s)" % (type(error).__name__, str(error)[:300], place)}
    if Broken.first and not session.known:
        return {"broken": Broken.first}
    if session.calls:
        return {"calls": session.calls}
    if not session.made:
        return {"broken": "the tests call nothing"}
    return {"passed": True}


def main():
    with open(sys.argv[1]) as record, open(sys.argv[2]) as known:
        record, session = json.load(record), Session(json.load(known))
    out = os.dup(1)
    os.dup2(2, 1)
    text = json.dumps(said(record, session))
    with os.fdopen(out, "w") as file:
        file.write("\n%s%s\n" % (sys.argv[3], text))


main()
