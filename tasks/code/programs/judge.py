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
import types
import unittest

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


class Solution(types.ModuleType):
    """The policy's code as a module, for tests that import it."""

    def __init__(self, session, names):
        super().__init__("solution")
        self.longhaul_session = session
        self.__all__ = names

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Remote(self.longhaul_session, {"name": name})


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


def unbound(record):
    """The names that the tests read and nothing in them binds."""
    tests = [tree_of(source) for source in [record["setup"], *record["tests"]]]
    nodes = [node for tree in tests for node in ast.walk(tree)]
    read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    bound |= {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    return sorted(read - bound)


def names_of(record, namespace, session):
    """Binds each name of the tests that the policy's code must define."""
    own = {node.name for node in tree_of(record["reference"]).body if hasattr(node, "name")}
    for name in unbound(record):
        if name not in own and (name in namespace or hasattr(builtins, name)):
            continue
        if name not in own and name in getattr(sys, "stdlib_module_names", ()):
            namespace[name] = importlib.import_module(name)
        else:
            namespace[name] = Remote(session, {"name": name})


def outcome_of(test):
    """The exception that a test raised, or None."""
    try:
        test()
    except unittest.SkipTest:
        return None
    except BaseException as error:
        return error
    return None


def of_case(case):
    """The tests of a unittest.TestCase."""

    def run_one(test):
        result = unittest.TestResult()
        test.run(result)
        for _, text in [*result.errors, *result.failures]:
            raise AssertionError(text.strip().split("\n")[-1])

    for test in unittest.defaultTestLoader.loadTestsFromTestCase(case):
        yield lambda test=test: run_one(test)


def of_class(kind):
    if hasattr(kind, "setup_method") or hasattr(kind, "setup_class"):
        raise Broken("%s has a set-up of pytest's" % kind.__name__)
    for name in [name for name in dir(kind) if name.startswith("test")]:
        plain(getattr(kind, name), 1)
        yield lambda name=name: getattr(kind(), name)()


def plain(function, own):
    """Refuses what only pytest itself can call."""
    code = getattr(function, "__code__", None)
    if getattr(function, "pytestmark", None) or code is None or code.co_argcount > own or code.co_flags & 0x80:
        raise Broken("%s has marks, fixtures or is asynchronous" % getattr(function, "__name__", "a test"))


def collected(namespace):
    """The tests of a file, as pytest names them."""
    tests = []
    for name, value in list(namespace.items()):
        if isinstance(value, type) and issubclass(value, unittest.TestCase):
            tests += of_case(value)
        elif isinstance(value, type) and name.startswith("Test"):
            tests += of_class(value)
        elif isinstance(value, types.FunctionType) and name.startswith("test"):
            plain(value, 0)
            tests.append(value)
    if not tests:
        raise Broken("the file has no tests")
    return tests


def run_file(record, session):
    """A file that imports the code as `solution`: a program, which must end well, or tests for pytest."""
    builtin = dir(builtins)
    sys.modules["solution"] = Solution(session, [name for name in unbound(record) if name not in builtin])
    module = main_module("__main__" if record["as"] == "program" else "test_solution", session)
    exec(compiled(record["tests"][0], "test_solution.py"), module.__dict__)
    if record["as"] == "program":
        return
    # Each test may go on without the answers that another one waits for.
    failed = [error for error in map(outcome_of, collected(module.__dict__)) if error is not None]
    if failed and not session.calls:
        raise failed[0]


def main_module(name, session):
    module = sys.modules[name] = types.ModuleType(name)
    module.longhaul_pending = session.pending
    return module


def ended_well(work):
    """Runs a program: it may end itself, with the exit code 0."""
    try:
        work()
    except SystemExit as error:
        if error.code not in (None, 0):
            raise


def run(record, session):
    kind = record.get("as")
    if kind in ("program", "pytest"):
        ended_well(lambda: run_file(record, session))
    elif kind == "functional":
        ended_well(lambda: run_tests(record, session, main_module("__main__", session).__dict__))
    else:
        run_tests(record, session, {"__name__": "tests", "longhaul_pending": session.pending})


def run_tests(record, session, namespace):
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
    out, marker = os.dup(1), sys.argv[3]
    os.dup2(2, 1)
    sys.argv = ["test_solution.py"]
    text = json.dumps(said(record, session))
    with os.fdopen(out, "w") as file:
        file.write("\n%s%s\n" % (marker, text))


main()
