/**
 * The MCP server of a built-in tool: a Python program that comes into the sandbox with the first call, and runs for as
 * long as the sandbox lives. Every exchange with it is journalled there.
 */

import type { Sandbox } from '../../sandboxes/sandbox.ts';
import { callTool } from './client.ts';

/** The end of each program: it answers requests by its `answer(name, arguments)`, one at a time. */
const MAIN = String.raw`

def main():
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        method, params = request["method"], request.get("params", {})
        if method == "initialize":
            result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}
        elif method == "tools/list":
            result = {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]}
        else:
            result = {"content": [{"type": "text", "text": answer(params["name"], params["arguments"])}]}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)


main()
`;

export interface OwnServer {
  /** Of the tool that it belongs to. */
  readonly name: string;
  /** Its folder in the sandbox. */
  readonly folder: string;
  /** Python, which imports `json` and `sys` and defines `answer(name, arguments)`, a text. */
  readonly program: string;
}

export interface OwnServerCall {
  readonly sandbox: Sandbox;
  /** Prefix of the journal's keys. */
  readonly callId: string;
  readonly timeoutMs: number;
}

/**
 * What the server answers. It gets `limit` too, the seconds of the call: past them everything in the sandbox would be
 * stopped, so its own limits must be below. Errors: those of the sandbox.
 */
export async function askOwnServer(
  { name, folder, program }: OwnServer,
  tool: string,
  given: Readonly<Record<string, unknown>>,
  { sandbox, callId, timeoutMs }: OwnServerCall,
): Promise<string> {
  const args = { ...given, limit: timeoutMs / 1000 };
  const path = `${folder}/server.py`;
  const content = Buffer.from(`${program}${MAIN}`);
  const { error } = await sandbox.write({ callId: `${callId}#server`, path, content, note: '' });
  if (error !== undefined) return `Error: the server of ${name} cannot be written: ${error}`;
  const spec = { command: ['python3', '-I', '-S', path] };
  return await callTool({ sandbox, server: name, spec, tool, args, callId, timeoutMs, startsQuietly: true });
}
