/** A small MCP server in Python, which counts in its memory alone, and misbehaves on request. */

export const COUNTER = String.raw`
import json, os, sys, time

total = 0


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def schema(**properties):
    return {"type": "object", "properties": properties, "required": list(properties)}


NUMBER = {"type": "integer", "minimum": 1}
PAGES = [
    [{"name": "add", "description": "Adds to the total.", "inputSchema": schema(by=NUMBER)}],
    [
        {"name": "do", "inputSchema": schema(what={"type": "string"})},
        {"name": "total.show", "description": "Shows it.", "inputSchema": {"type": "object"},
         "annotations": {"readOnlyHint": True}},
    ],
]


def call(name, given):
    global total
    if name == "add":
        total += given["by"]
        return {"content": [{"type": "text", "text": f"total {total}"}]}
    if name == "total.show":
        return {"content": [], "structuredContent": {"total": total}}
    what = given["what"]
    if what.startswith("sleep"):
        time.sleep(float(what.split()[1]))
        total += 1
        return {"content": [{"type": "text", "text": f"slept, total {total}"}]}
    if what.startswith("die"):
        print("so it ends", file=sys.stderr)
        os._exit(int(what.split()[1]))
    if what == "nonsense":
        print("Listening on stdout!", flush=True)
    if what == "wrong":
        return {"content": [{"type": "text", "text": "no such thing"}], "isError": True}
    if what == "place":
        return {"content": [{"type": "text", "text": f"{os.getcwd()} {os.environ.get('GREETING')}"}]}
    if what.startswith("long"):
        return {"content": [{"type": "text", "text": "x" * int(what.split()[1])}]}
    if what == "ask":
        send({"method": "notifications/message", "params": {"level": "info", "data": "asking"}})
        send({"id": "p", "method": "ping"})
        pong = json.loads(sys.stdin.readline())
        send({"id": 7, "method": "roots/list"})
        roots = json.loads(sys.stdin.readline())
        return {"content": [{"type": "text", "text": f"{pong['result']} {roots['error']['code']}"}]}
    if what == "picture":
        return {"content": [{"type": "image", "mimeType": "image/png", "data": "AAAA"},
                            {"type": "resource", "resource": {"uri": "file:///a", "text": "inner"}},
                            {"type": "resource_link", "uri": "file:///b"}]}
    return {"content": [{"type": "text", "text": str(len(what))}]}


for line in sys.stdin:
    message = json.loads(line)
    method, key, params = message.get("method"), message.get("id"), message.get("params", {})
    if method == "initialize":
        if os.environ.get("GREETING") == "refuse":
            send({"id": key, "error": {"code": -32000, "message": "not today"}})
            continue
        send({"id": key, "result": {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}})
    elif method == "tools/list":
        page = int(params.get("cursor", 0))
        more = {"nextCursor": str(page + 1)} if page + 1 < len(PAGES) else {}
        send({"id": key, "result": {"tools": PAGES[page], **more}})
    elif method == "tools/call":
        if params["name"] == "missing":
            send({"id": key, "error": {"code": -32602, "message": "Unknown tool: missing"}})
        else:
            send({"id": key, "result": call(params["name"], params["arguments"])})
`;
