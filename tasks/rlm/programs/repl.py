"""The REPL of the environment `rlm`: one process of the task's sandbox, which keeps variables from turn to turn.

`repl.py launch FOLDER` starts it and prints what it holds. `repl.py send FOLDER` hands it the request in FOLDER and
prints its reply. A reply is the end of a block, or a question to a model: the block waits until the next request
brings the answers. So whoever asks the model may be lost at any time: the block still waits.
"""

import builtins
import contextlib
import io
import json
import os
import signal
import socket
import sys
import threading
import traceback
import types

NOT_RUNNING, ENDED = 90, 91
# Characters that the policy sees of a block, as SkyRL-Gym counts them.
MOST_SHOWN = 20_000
# Characters of an answer, and of the prompts of one call.
MOST_ANSWER = 1_000_000

# What a block may use of Python's built-in names. The others do not exist, or are None.
ALLOWED = """print len str int float list dict set tuple bool type isinstance issubclass enumerate zip map filter sorted
reversed range min max sum abs round any all pow divmod chr ord hex bin oct repr ascii format hash id iter next slice
callable hasattr getattr setattr delattr dir vars bytes bytearray memoryview complex object super property staticmethod
classmethod Exception BaseException ValueError TypeError KeyError IndexError AttributeError FileNotFoundError OSError
IOError RuntimeError NameError ImportError StopIteration AssertionError NotImplementedError ArithmeticError LookupError
Warning""".split()
BLOCKED = "__import__ open input eval exec compile globals locals".split()
QUERIES = "llm_query llm_query_batched rlm_query rlm_query_batched".split()
RESERVED = ["FINAL_VAR", "SHOW_VARS", "context", *QUERIES]
SHOWN_TYPES = (str, int, float, bool, list, dict, tuple)


class Late(TimeoutError):
    """The block has had its time."""


class Clock:
    """The time of a block. It stands while a model is asked."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.in_block = False
        signal.signal(signal.SIGALRM, self.ring)

    def ring(self, *_):
        if self.in_block:
            raise Late()

    def start(self):
        self.in_block = True
        signal.setitimer(signal.ITIMER_REAL, self.seconds)

    def stop(self):
        self.in_block = False
        signal.setitimer(signal.ITIMER_REAL, 0)

    @contextlib.contextmanager
    def stands(self):
        left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            yield
        finally:
            # 0: it has rung already, and the block caught that.
            if left > 0 and self.in_block:
                signal.setitimer(signal.ITIMER_REAL, left)


class Text(io.TextIOBase):
    """A stream that keeps the beginning of what is written, and counts the rest."""

    def __init__(self, most):
        super().__init__()
        self.most, self.parts, self.kept, self.length = most, [], 0, 0

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self.length += len(text)
        part = text[: self.most - self.kept]
        if part:
            self.parts.append(part)
            self.kept += len(part)
        return len(text)

    def writable(self):
        return True

    def __str__(self):
        return "".join(self.parts)


class Door:
    """
    Where requests come in. A question ends one request, and the next one brings its answers: so threads of a block ask
    one after the other, and a block ends when nobody waits for answers.
    """

    def __init__(self, listener):
        self.listener = listener
        self.connection = None
        self.lock = threading.Lock()
        self.in_block = False

    def begin(self):
        request = self.receive()
        self.in_block = True
        return request

    def ask(self, prompts):
        """None if no block runs: a thread of an earlier one asks."""
        with self.lock:
            if not self.in_block:
                return None
            self.reply({"ask": prompts})
            return self.receive()["answers"]

    def end(self, value):
        with self.lock:
            self.in_block = False
            self.reply(value)

    def receive(self):
        self.connection, _ = self.listener.accept()
        chunks = []
        while chunk := self.connection.recv(1 << 16):
            chunks.append(chunk)
        return json.loads(b"".join(chunks))

    def reply(self, value):
        try:
            self.connection.sendall(json.dumps(value).encode())
        except OSError:
            pass  # Whoever asked is gone.
        self.connection.close()


def traceback_of(error):
    """Of the block's own frames."""
    try:
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
            frames = frames.tb_next
        lines = traceback.format_exception(type(error), error, frames)
        # A syntax error has no frame of the block.
        return "".join(lines if frames is not None else ["Traceback (most recent call last):\n", *lines])
    except BaseException:
        return f"{type(error).__name__}\n"


class Repl:
    def __init__(self, setup, context, tools, door):
        self.door = door
        self.clock = Clock(setup["seconds"])
        self.queries_left = self.most_queries = setup["mostQueries"]
        allowed = vars(builtins) if setup["builtins"] == "all" else {name: getattr(builtins, name) for name in ALLOWED}
        blocked = {} if setup["builtins"] == "all" else dict.fromkeys(BLOCKED)
        # Names that no block can change for the next one.
        self.scaffold = {
            "__builtins__": {**allowed, **blocked},
            "__name__": "__main__",
            "FINAL_VAR": self.final_var,
            "SHOW_VARS": self.show_vars,
        }
        if setup["hasModel"]:
            self.scaffold.update({name: getattr(self, name) for name in QUERIES})
        self.variables = {}
        for name, value in tools.items():
            (self.scaffold if callable(value) else self.variables)[name] = value
        self.variables["context_0"] = self.variables["context"] = context
        self.live = None
        self.final = None

    # What a block may call.

    def final_var(self, variable_name):
        if not isinstance(variable_name, str):
            self.final = str(variable_name)
            return self.final
        name = variable_name.strip().strip("\"'")
        if name in self.live:
            self.final = str(self.live[name])
            return self.final
        there = self.created()
        known = f"Available variables: {list(there)}." if there else "No variables have been created yet."
        text = f"Error: Variable '{name}' not found. {known} Assign it in a block BEFORE calling FINAL_VAR on it."
        print(text)
        return text

    def show_vars(self):
        there = {name: type(value).__name__ for name, value in self.created().items()}
        return f"Available variables: {there}" if there else "No variables created yet. Use ```repl``` blocks for that."

    def created(self):
        return {k: v for k, v in self.live.items() if not k.startswith("_") and k not in self.scaffold}

    def llm_query(self, prompt, model=None):
        return self.llm_query_batched([prompt])[0]

    def llm_query_batched(self, prompts, model=None):
        """The answers of a model, in order. What went wrong is an answer, too."""
        failed = "Error: LM query failed - "
        prompts = list(prompts)
        if not prompts:
            return []
        if not all(isinstance(prompt, str) for prompt in prompts):
            return [failed + "a prompt must be a str"] * len(prompts)
        if sum(map(len, prompts)) > MOST_ANSWER:
            return [failed + f"the prompts have more than {MOST_ANSWER} characters"] * len(prompts)
        if len(prompts) > self.queries_left:
            return [failed + f"a turn may make {self.most_queries} queries"] * len(prompts)
        self.queries_left -= len(prompts)
        with self.clock.stands():
            answers = self.door.ask(prompts)
        if answers is None:
            return [failed + "its block has ended"] * len(prompts)
        return [one["text"] if "text" in one else failed + one["error"] for one in answers]

    def rlm_query(self, prompt, model=None, context=None):
        return self.rlm_query_batched([prompt], context_list=[context])[0]

    def rlm_query_batched(self, prompts, model=None, context_list=None):
        """As in SkyRL-Gym without child agents: the model is asked. It has no REPL that could hold a context."""
        prompts = list(prompts)
        if any(context is not None for context in context_list or []):
            text = "Error: RLM query failed - there are no child agents: put the context into the prompt"
            return [text] * len(prompts)
        return self.llm_query_batched(prompts)

    # What the environment calls.

    def execute(self, code, most=MOST_SHOWN + 1):
        """Runs code. Variables are kept if it ends well; otherwise those of before are."""
        out, err = Text(most), Text(most)
        names = {**self.scaffold, **self.variables}
        self.live = names
        self.final = None
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                self.clock.start()
                try:
                    exec(compile(code, "<string>", "exec"), names, names)
                finally:
                    self.clock.stop()
            for name, value in names.items():
                if name not in self.scaffold and not name.startswith("_"):
                    self.variables[name] = value
            self.variables["context"] = self.variables["context_0"]
        except Late:
            err.write(f"Timeout after {int(self.clock.seconds)} seconds\n")
        except BaseException as error:
            err.write(traceback_of(error))
        self.live = None
        return out, err

    def shown(self, out, err):
        parts = [(f"\n{text}", text.length + 1) for text in (out, err) if text.length > 0]
        names = [
            name
            for name, value in self.variables.items()
            if not name.startswith("_") and isinstance(value, SHOWN_TYPES)
        ]
        if names:
            line = f"REPL variables: {names}\n"
            parts.append((line, len(line)))
        if not parts:
            return "No output"
        length = sum(length for _, length in parts) + 2 * (len(parts) - 1)
        text = "\n\n".join(text for text, _ in parts)
        return text if length <= MOST_SHOWN else f"{text[:MOST_SHOWN]}... + [{length - MOST_SHOWN} chars...]"

    def turn(self, code, variable):
        """`variable`: the name in the message's own FINAL_VAR, or None."""
        self.queries_left = self.most_queries
        out, err = self.execute(code)
        final = self.final
        shown = self.shown(out, err)
        if not final and variable is not None:
            printed, _ = self.execute(f"print(FINAL_VAR({variable!r}))", MOST_ANSWER)
            final = str(printed).strip()
            if "Variable '" in final and "' not found" in final and "FINAL_VAR" in final:
                final = None
        return {"shown": shown, "final": (final or None) and final[:MOST_ANSWER]}


def context_in(payload):
    """A text that is a JSON object is a dictionary."""
    if isinstance(payload, str):
        try:
            decoded = json.loads(payload)
        except ValueError:
            return payload
        if isinstance(decoded, dict):
            return decoded
    return payload


def size_of(chunk):
    return len(chunk if isinstance(chunk, str) else json.dumps(chunk))


def lengths_of(context):
    if isinstance(context, str):
        return [len(context)]
    if isinstance(context, dict):
        return [size_of(chunk) for chunk in context.values()]
    return [len(str(chunk)) for chunk in context] if isinstance(context, list) else [len(repr(context))]


def tools_in(path, context):
    """The public names of the task's own file: functions, and plain values. `__all__` names others."""
    if not os.path.exists(path):
        return {}
    module = types.ModuleType("tools")
    module.context = context
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), "tools.py", "exec"), module.__dict__)
    public = {k: v for k, v in vars(module).items() if not k.startswith("_") and k != "context"}
    own = {
        name: value
        for name, value in public.items()
        if isinstance(value, SHOWN_TYPES) or (callable(value) and getattr(value, "__module__", None) == "tools")
    }
    tools = {name: getattr(module, name) for name in getattr(module, "__all__", own)}
    taken = sorted(set(tools) & set(RESERVED))
    if taken:
        raise ValueError(f"tools.py defines {', '.join(taken)}, which the REPL has itself: rename it")
    return tools


def described(name, value):
    doc = (value.__doc__ or "").strip() if callable(value) else ""
    kind = "A custom function" if callable(value) else f"A custom {type(value).__name__} value"
    return f"- `{name}`: {doc.splitlines()[0] if doc else kind}"


def serve(folder, listener, ready):
    door = Door(listener)
    try:
        with open(f"{folder}/setup.json", encoding="utf-8") as file:
            setup = json.load(file)
        with open(f"{folder}/context.json", encoding="utf-8") as file:
            context = context_in(json.load(file))
        tools = tools_in(f"{folder}/tools.py", context)
        repl = Repl(setup, context, tools, door)
        lines = [described(name, value) for name, value in tools.items()]
        ready({"context": type(context).__name__, "lengths": lengths_of(context), "tools": lines})
    except BaseException as error:
        ready({"error": traceback_of(error)[-2000:]})
        return
    while True:
        request = door.begin()
        door.end(repl.turn(request["run"], request["variable"]))


def launch(folder):
    path = f"{folder}/socket"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen()
    reader, writer = os.pipe()
    if os.fork() > 0:
        os.close(writer)
        with os.fdopen(reader, "rb") as said:
            sys.stdout.buffer.write(said.read())
        return
    os.close(reader)
    # A session of its own: what a call leaves in its group ends with the call.
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)

    def ready(value):
        with os.fdopen(writer, "wb") as out:
            out.write(json.dumps(value).encode())

    serve(folder, listener, ready)


def send(folder):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(f"{folder}/socket")
    except OSError:
        sys.exit(NOT_RUNNING)
    with open(f"{folder}/request.json", "rb") as file:
        try:
            connection.sendall(file.read())
            connection.shutdown(socket.SHUT_WR)
            reply = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        except OSError:
            reply = b""
    if not reply:
        sys.exit(ENDED)
    sys.stdout.buffer.write(reply)


if __name__ == "__main__":
    {"launch": launch, "send": send}[sys.argv[1]](sys.argv[2])
