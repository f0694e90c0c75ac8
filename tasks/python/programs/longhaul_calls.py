"""
Tools by schema, in text. The policy reads the schemas in its system message, and writes calls in Hermes' form:
`<tool_call>` around JSON with `name` and `arguments`. What a tool returned is in `<tool_response>`, in a message of the
user.
"""

import json

from longhaul_values import Wrong

OPEN, CLOSE = "<tool_call>", "</tool_call>"
FORM = OPEN + '\n{"name": NAME, "arguments": {"P": value}}\n' + CLOSE
decoder = json.JSONDecoder()


def field(one, name):
    return one.get(name) if isinstance(one, dict) else getattr(one, name, None)


def schemas_of(tools):
    """The schemas of tools, as JSON, one a line."""
    lines = []
    for tool in tools or []:
        name, parameters = field(tool, "name"), field(tool, "parameters")
        if not isinstance(name, str) or not isinstance(parameters, dict):
            raise Wrong("a tool has no name and parameters: %r" % (tool,))
        function = {"name": name, "description": field(tool, "description") or "", "parameters": parameters}
        lines.append(json.dumps({"type": "function", "function": function}, ensure_ascii=False))
    return "\n".join(lines)


def with_tools(messages, schemas):
    """The first messages, with the tools in the system message."""
    if not schemas:
        return messages
    text = (
        "# Tools\n\nYou can call these functions. Each line is the JSON schema of one:\n<tools>\n%s\n</tools>\n\n"
        "Write a call as JSON, with the function's name and its arguments. A message may have several calls:\n%s"
    ) % (schemas, FORM)
    if messages and messages[0]["role"] == "system":
        return [{"role": "system", "content": messages[0]["content"] + "\n\n" + text}, *messages[1:]]
    return [{"role": "system", "content": text}, *messages]


def call_at(text, start):
    """The name and the arguments of the call whose body starts here, and where it ends. Name "": it cannot be read."""
    while start < len(text) and text[start].isspace():
        start += 1
    try:
        value, end = decoder.raw_decode(text, start)
    except ValueError:
        value, end = None, start
    close = text.find(CLOSE, end)
    close = len(text) if close < 0 else close
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or text[end:close].strip():
        return "", text[start:close].strip(), close
    given = value.get("arguments", {})
    return value["name"], given if isinstance(given, str) else json.dumps(given), close


def calls_in(text):
    """What a message says before its first call, and its calls. Those in its thoughts are none."""
    at = text.find(OPEN, text.rfind("</think>") + 1)
    said = text if at < 0 else text[:at].rstrip()
    calls = []
    while at >= 0:
        name, arguments, end = call_at(text, at + len(OPEN))
        calls.append((name, arguments))
        at = text.find(OPEN, end)
    return said, calls


def text_in(content):
    """The text of a message; what has other parts stays as it is."""
    if isinstance(content, (list, tuple)) and all(field(part, "type") == "text" for part in content):
        return "".join(field(part, "text") for part in content)
    return content


def call_text(call):
    name, arguments = json.dumps(field(call, "name")), field(call, "arguments")
    return '%s\n{"name": %s, "arguments": %s}\n%s' % (OPEN, name, arguments, CLOSE)


def in_text(messages):
    """Messages of `verifiers`, dictionaries or objects, as ones of text. Returns of tools in a row are one message."""
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    said, before = [], None
    for one in messages:
        role, content = field(one, "role"), text_in(field(one, "content"))
        calls = [call_text(call) for call in field(one, "tool_calls") or []]
        if calls:
            content = "\n".join([content, *calls] if content else calls)
        if role == "tool":
            content = "<tool_response>\n%s\n</tool_response>" % (content,)
        if role == "tool" and before == "tool":
            said[-1]["content"] += "\n" + content
        else:
            said.append({"role": "user" if role == "tool" else role, "content": content})
        before = role
    return said
