"""
Runs a policy's code, and then calls on it, each with its arguments. Arguments: a file with sources, of which
the first that compiles is run; a file with a list of calls; and the descriptor for answers, one line a call. Nothing
that says which answers are right is in this process or in its sandbox.
"""

import json
import os
import sys
import types

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from solve_stdin import prepared  # noqa: E402
from typed_values import decode, encode  # noqa: E402

del sys.path[0]
answers = os.fdopen(int(sys.argv[3]), "w")


def answer(**fields):
    answers.write(json.dumps(fields) + "\n")
    answers.flush()


def error_of(error):
    names = [base.__name__ for base in type(error).__mro__ if issubclass(base, BaseException)]
    try:
        message = str(error)[:300]
    except BaseException:
        message = ""
    return {"error": names[:8], "message": message}


def load(sources, prelude, name):
    refused = None
    for source in sources:
        try:
            code = compile(source, "answer.py", "exec", dont_inherit=True)
            break
        except BaseException as error:
            refused = refused or error
    else:
        raise refused
    module = types.ModuleType(name)
    sys.modules[name] = module
    if prelude:
        prepared(module.__dict__)
    exec(code, module.__dict__)
    return module


def run(module, calls):
    values = []

    def resolve(on):
        target = values[on["at"]] if "at" in on else on.get("name")
        if "name" in on:
            builtin = module.__builtins__ if isinstance(module.__builtins__, dict) else vars(module.__builtins__)
            target = vars(module)[on["name"]] if on["name"] in vars(module) else builtin[on["name"]]
        for name in on.get("path", []):
            target = getattr(target, name)
        return target

    foreign = resolve
    for number, call in enumerate(calls):
        try:
            target = resolve(call["on"])
            after = {}
            if call["do"] == "get":
                value = getattr(target, call["attribute"])
            elif call["do"] == "set":
                value = setattr(target, call["attribute"], decode(call["value"], foreign))
            elif "lines" in call:
                value = target(*[json.loads(line) for line in call["lines"]])
            else:
                given = [decode(item, foreign) for item in call["args"]]
                value = target(*given, **{name: decode(item, foreign) for name, item in call["kwargs"].items()})
                after = changes(given, call["args"])
            values.append(value)
            answer(value=encode(value, reference=number), **after)
        except BaseException as error:
            if len(values) == number:
                values.append(None)
            answer(**error_of(error))


def changes(given, before):
    """What the call did to lists, dictionaries and sets that it was given."""
    after = {}
    for place, value in enumerate(given):
        if isinstance(value, (list, dict, set)):
            now = encode(value)
            if now != before[place]:
                after[str(place)] = now
    return {"changed": after} if after else {}


def main():
    with open(sys.argv[1]) as sources, open(sys.argv[2]) as calls:
        sources, calls = json.load(sources), json.load(calls)
    try:
        module = load(sources["sources"], sources["prelude"], sources["name"])
    except BaseException as error:
        answer(loaded=False, **error_of(error))
        return
    answer(loaded=True)
    run(module, calls)


main()
