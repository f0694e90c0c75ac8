/**
 * The server of the desktop, in Python: an X server without a screen (Xvfb) as a child process, input by xdotool, and
 * pictures from the frame buffer, which Xvfb keeps in a file. It speaks the Model Context Protocol over stdin and
 * stdout. The tool `open` is for environments: it is never offered to a policy.
 */

export const DESKTOP_SERVER = String.raw`
import json, os, re, shutil, struct, subprocess, sys, time, zlib

HOME = "/tmp/.longhaul-computer"
DISPLAY, WIDTH, HEIGHT = ":77", 800, 600
START_S, PROGRAM_S, SETTLE_S, QUIET_S = 30, 10, 3, 0.2
MOST_WINDOWS, MOST_TITLE = 20, 100
BUTTONS = {"left": "1", "middle": "2", "right": "3"}
WHEEL = {"up": "4", "down": "5", "left": "6", "right": "7"}
KEYS = {"enter": "Return", "return": "Return", "esc": "Escape", "escape": "Escape", "tab": "Tab", "space": "space",
        "backspace": "BackSpace", "delete": "Delete", "arrowup": "Up", "arrowdown": "Down", "arrowleft": "Left",
        "arrowright": "Right", "up": "Up", "down": "Down", "left": "Left", "right": "Right", "home": "Home", "end": "End",
        "pageup": "Prior", "pagedown": "Next", "control": "ctrl", "ctrl": "ctrl", "alt": "alt", "shift": "shift",
        "meta": "super", "super": "super"}


class Failed(Exception):
    """What the policy reads."""


def missing(program, package):
    raise Failed("there is no desktop in this sandbox: its image needs the program %s (Debian: %s)" % (program, package))


def environment():
    return dict(os.environ, DISPLAY=DISPLAY, HOME=HOME, XDG_CACHE_HOME=HOME)


def xdotool(*args):
    try:
        ran = subprocess.run(["xdotool", *args], env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, timeout=PROGRAM_S)
    except subprocess.TimeoutExpired:
        raise Failed("the desktop does not answer")
    return ran.returncode, ran.stdout.decode("utf-8", "replace"), ran.stderr.decode("utf-8", "replace")


def did(*args):
    code, out, err = xdotool(*args)
    if code != 0:
        raise Failed("the desktop refused it: %s" % (err.strip() or "xdotool %s" % args[0])[:300])
    return out


class Desktop:
    def __init__(self):
        if not shutil.which("Xvfb"):
            missing("Xvfb", "xvfb")
        if not shutil.which("xdotool"):
            missing("xdotool", "xdotool")
        os.makedirs(HOME, exist_ok=True)
        for old in (HOME + "/Xvfb_screen0", "/tmp/.X77-lock"):
            if os.path.exists(old):
                os.unlink(old)
        self.log = open(HOME + "/xvfb.log", "ab")
        screen = "%dx%dx24" % (WIDTH, HEIGHT)
        self.process = subprocess.Popen(
            ["Xvfb", DISPLAY, "-screen", "0", screen, "-fbdir", HOME, "-nolisten", "tcp", "-noreset", "-ac"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=environment())
        end = time.monotonic() + START_S
        while time.monotonic() < end and self.process.poll() is None:
            if os.path.exists(HOME + "/Xvfb_screen0") and xdotool("getmouselocation")[0] == 0:
                return
            time.sleep(0.05)
        said = open(HOME + "/xvfb.log", "rb").read()[-300:].decode("utf-8", "replace").strip()
        self.process.kill()
        raise Failed("the desktop did not start: %s" % said)

    def alive(self):
        return self.process.poll() is None

    def frame(self):
        with open(HOME + "/Xvfb_screen0", "rb") as file:
            return file.read()

    def settle(self):
        """Waits until the picture is the same for a moment. A picture that never rests is taken as it is."""
        end, last, since = time.monotonic() + SETTLE_S, None, time.monotonic()
        while time.monotonic() < end:
            now = zlib.crc32(self.frame())
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since >= QUIET_S:
                return
            time.sleep(0.05)

    def screenshot(self):
        data = self.frame()
        size, _, _, _, width, height, _, order, _, _, _, bits, line = struct.unpack(">13I", data[:52])
        colors = struct.unpack(">I", data[76:80])[0]
        if bits != 32 or order != 0:
            raise Failed("the frame buffer has a form that is not known")
        pixels = data[size + 12 * colors:][:line * height]
        rgb = bytearray(3 * len(pixels) // 4)
        rgb[0::3], rgb[1::3], rgb[2::3] = pixels[2::4], pixels[1::4], pixels[0::4]
        step = 3 * line // 4
        rows = b"".join(b"\0" + rgb[y * step:y * step + 3 * width] for y in range(height))

        def chunk(kind, content):
            return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

        header = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
        png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 6)) + chunk(b"IEND", b"")
        with open(HOME + "/screenshot.new", "wb") as file:
            file.write(png)
        os.replace(HOME + "/screenshot.new", HOME + "/screenshot")


def title(window):
    code, out, _ = xdotool("getwindowname", window)
    return re.sub(r"\s+", " ", out).strip()[:MOST_TITLE] if code == 0 else ""


def numbers(text):
    return dict(line.split("=", 1) for line in text.split("\n") if "=" in line)


def windows():
    """Id, title and place of the visible windows that have a title, the lowest first."""
    code, out, _ = xdotool("search", "--onlyvisible", "--maxdepth", "2", "--name", ".+")
    found = []
    for window in out.split()[:MOST_WINDOWS] if code == 0 else ():
        name = title(window)
        code, out, _ = xdotool("getwindowgeometry", "--shell", window)
        place = numbers(out)
        if code == 0 and name and place.get("WIDTH", "0").isdigit():
            found.append((window, name, place))
    return found


def view(desktop):
    mouse = numbers(did("getmouselocation", "--shell"))
    focus = xdotool("getwindowfocus")[1].strip()
    listed = windows()
    at = [(int(place["X"]), int(place["Y"]), int(place["WIDTH"]), int(place["HEIGHT"])) for _, _, place in listed]
    mx, my = int(mouse.get("X", 0)), int(mouse.get("Y", 0))
    under = [name for (_, name, _), (x, y, w, h) in zip(listed, at) if x <= mx < x + w and y <= my < y + h]
    focused = next((name for window, name, _ in listed if window == focus), under[-1] if under else "none")
    lines = ["Screen: %d x %d. Pointer: %d, %d." % (WIDTH, HEIGHT, mx, my), "Focused: %s" % focused, "Windows:"]
    lines += ["- %s: %d x %d at %d, %d" % (name, w, h, x, y) for (_, name, _), (x, y, w, h) in zip(listed, at)]
    return "\n".join(lines if listed else lines[:-1] + ["There are no windows."])


def point(args, x="x", y="y"):
    at = args.get(x), args.get(y)
    if not all(isinstance(each, (int, float)) for each in at):
        raise Failed("%s and %s must be given" % (x, y))
    if not (0 <= at[0] < WIDTH and 0 <= at[1] < HEIGHT):
        raise Failed("%s, %s is not on the screen of %d x %d" % (at[0], at[1], WIDTH, HEIGHT))
    return str(int(at[0])), str(int(at[1]))


def press(keys):
    parts = [part for part in re.split(r"(?<=.)\+", keys) if part]
    names = [KEYS.get(part.lower(), part) for part in parts]
    if not names or not all(re.fullmatch(r"[A-Za-z0-9_]+|[^\w\s]", name) for name in names):
        raise Failed("%r is no key: give one like Enter, Tab, a, ctrl+s" % keys)
    names = ["U%04X" % ord(name) if re.fullmatch(r"[^\w\s]", name) else name for name in names]
    code, _, err = xdotool("key", "--", "+".join(names))
    if code != 0 or "No such key" in err:
        raise Failed("%r is no key: give one like Enter, Tab, a, ctrl+s" % keys)


def act(desktop, args):
    action = args["action"]
    if action in ("click", "double_click"):
        button = BUTTONS[args.get("button") or "left"]
        did("mousemove", *point(args), "click", "--repeat", "2" if action == "double_click" else "1", "--delay", "60", button)
    elif action == "move":
        did("mousemove", *point(args))
    elif action == "drag":
        (x, y), (to_x, to_y) = point(args), point(args, "to_x", "to_y")
        half = str((int(x) + int(to_x)) // 2), str((int(y) + int(to_y)) // 2)
        did("mousemove", x, y, "mousedown", "1", "sleep", "0.05", "mousemove", *half, "sleep", "0.05",
            "mousemove", to_x, to_y, "sleep", "0.05", "mouseup", "1")
    elif action == "scroll":
        at = ("mousemove", *point(args)) if args.get("x") is not None else ()
        did(*at, "click", "--repeat", str(max(1, min(50, int(args.get("amount") or 3)))), "--delay", "20",
            WHEEL[args["direction"]])
    elif action == "type":
        text = args["text"]
        if len(text) > 2000:
            raise Failed("text has %d characters: give at most 2000" % len(text))
        for begin in range(0, len(text), 200):
            did("type", "--delay", "8", "--", text[begin:begin + 200])
    elif action == "press":
        press(args["keys"])
    elif action == "wait":
        time.sleep(min(10, max(0, float(args.get("seconds") or 1))))
    desktop.settle()
    if action == "screenshot":
        desktop.screenshot()
    return view(desktop)


def opened(desktop, args):
    """Starts a program, and waits until it has a window."""
    log = open(HOME + "/program.log", "ab")
    program = subprocess.Popen(args["command"], cwd=args.get("folder") or "/tmp", env=environment(),
                               stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    end = time.monotonic() + float(args.get("limit") or 60) / 2
    while time.monotonic() < end and program.poll() is None:
        if windows():
            desktop.settle()
            return "opened"
        time.sleep(0.1)
    said = open(HOME + "/program.log", "rb").read()[-300:].decode("utf-8", "replace").strip()
    raise Failed("the program has no window: %s" % (said or "it is too slow"))


state = {"desktop": None}


def answer(name, args):
    note = ""
    try:
        desktop = state["desktop"]
        if desktop is None or not desktop.alive():
            if os.path.exists(HOME + "/began"):
                note = "[the desktop was started again: its windows are lost]\n"
            desktop = state["desktop"] = Desktop()
            open(HOME + "/began", "w").close()
        return note + (opened if name == "open" else act)(desktop, args)
    except Failed as error:
        return note + "Error: %s" % error
`;
