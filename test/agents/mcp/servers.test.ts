/**
 * Hunts a call to an MCP server that is made twice, an answer that is lost or belongs to another call, and a server
 * whose end or nonsense is not told: a small server in Python, in a real sandbox.
 */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { callTool, startServer } from '../../../agents/mcp/client.ts';
import { checkServers, type McpSandboxServer as McpServer } from '../../../agents/mcp/server.ts';
import { mcpTools, startServers } from '../../../agents/mcp/tools.ts';
import { runToolCall } from '../../../agents/tools/run-tool-call.ts';
import type { Tool } from '../../../agents/tools/tool.ts';
import type { Sandbox } from '../../../sandboxes/sandbox.ts';
import { COUNTER } from '../../support/mcp-counter.ts';
import { eventually, openBench, sh, specOf } from '../../sandboxes/harness.ts';

const bench = await openBench();
const agents = join(import.meta.dirname, '../../../agents');
const counter: McpServer = { command: ['python3', '/workspace/counter.py'] };
/** There are no servers over HTTP. */
const none = () => {
  throw new Error('not asked');
};
let made = 0;
let calls = 0;

async function sandboxWith(source = COUNTER): Promise<Sandbox> {
  made += 1;
  const files = [{ path: 'counter.py', content: source }];
  return bench.provider.create(
    specOf(`mcp-${made}`, { files, limits: { memoryMiB: 512, processes: 64, diskMiB: 256 } }),
  );
}

const asked = (sandbox: Sandbox, tool: string, args: object, more: { callId?: string; timeoutMs?: number } = {}) => {
  calls += 1;
  const { callId = `mcp-call-${calls}`, timeoutMs = 60_000 } = more;
  return { sandbox, server: 'counter', spec: counter, tool, args: { ...args }, callId, timeoutMs };
};
const call = async (...given: Parameters<typeof asked>): Promise<string> => await callTool(asked(...given));

describe('a server in a sandbox', () => {
  it('lists its tools, all pages of them, and keeps its state from call to call', async () => {
    const sandbox = await sandboxWith();
    const tools = await startServer(sandbox, 'counter', counter, 's');
    expect(tools.map(({ name, description, readOnly }) => [name, description, readOnly])).toEqual([
      ['add', 'Adds to the total.', false],
      ['do', '', false],
      ['total.show', 'Shows it.', true],
    ]);
    expect(await call(sandbox, 'add', { by: 2 })).toBe('total 2');
    await sh(sandbox, 'echo "a command between two calls"; exit 3');
    expect(await call(sandbox, 'add', { by: 40 })).toBe('total 42');
    expect(await call(sandbox, 'total.show', {})).toBe('{"total":42}');
  });

  it('is given calls that are checked, under names that every API takes', async () => {
    const sandbox = await sandboxWith();
    const servers = { counter: { ...counter, tools: ['add', 'total.show'] } };
    const box = new Map<string, Tool>(
      mcpTools(servers, await startServers(sandbox, servers, 's'), none).map((tool) => [
        tool.schema.function.name,
        tool,
      ]),
    );
    expect([...box.keys()]).toEqual(['counter__add', 'counter__total_show']);
    const use = (name: string, given: object) => {
      calls += 1;
      const asked = { name, arguments: { ...given } };
      return runToolCall(asked, [...box.keys()], sandbox, { callId: `mcp-${calls}`, timeoutMs: 60_000 }, box);
    };
    expect(await use('counter__add', { by: '3' })).toEqual({ content: 'total 3' });
    expect(await use('counter__add', { by: 0 })).toEqual({
      content: 'Error: by 0: must be at least 1.',
      refused: true,
    });
    expect(await use('counter__add', {})).toMatchObject({ refused: true });
    expect(await use('counter__total_show', {})).toEqual({ content: '{"total":3}' });
    expect(await use('counter__do', {})).toMatchObject({ refused: true });
    expect([...box.values()].map((tool) => tool.onlyReads({ name: 'x', arguments: {} }))).toEqual([false, true]);
  });

  it('answers a repeated call from the journal, and counts it once', async () => {
    const sandbox = await sandboxWith();
    await startServer(sandbox, 'counter', counter, 's');
    const again = { callId: 'twice' };
    expect([await call(sandbox, 'add', { by: 5 }, again), await call(sandbox, 'add', { by: 5 }, again)]).toEqual([
      'total 5',
      'total 5',
    ]);
    expect(await startServer(sandbox, 'counter', counter, 's')).toHaveLength(3);
    expect(await call(sandbox, 'total.show', {})).toBe('{"total":5}');
  });

  it('is attached to by a worker that comes after one that was killed during a call', async () => {
    const sandbox = await sandboxWith();
    await startServer(sandbox, 'counter', counter, 's');
    const given = { ...asked(sandbox, 'do', { what: 'sleep 3' }, { callId: 'slow' }), sandbox: undefined };
    const program = `
      ${bench.program}
      import { callTool } from '${agents}/mcp/client.ts';
      const sandbox = await provider.connect(${JSON.stringify(sandbox.id)});
      process.stdout.write('calling');
      await callTool({ ...JSON.parse(process.argv[1]), sandbox });`;
    const worker = spawn(process.execPath, ['--input-type=module', '-e', program, JSON.stringify(given)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const dead = new Promise((resolve) => worker.once('exit', resolve));
    await new Promise((resolve) => worker.stdout.once('data', resolve));
    // The message was read by the server, and the answer is not there yet.
    const sent = '/tmp/.longhaul-mcp/counter/sent';
    await eventually('the call was sent', async () => {
      const { kind } = await sandbox.read(sent, 1);
      return kind === 'file' ? true : undefined;
    });
    worker.kill('SIGKILL');
    await dead;
    expect(await call(sandbox, 'do', { what: 'sleep 3' }, { callId: 'slow' })).toBe('slept, total 1');
    expect(await call(sandbox, 'total.show', {})).toBe('{"total":1}');
  });

  it('has its folder and its variables, and gets long requests and answers whole', async () => {
    const sandbox = await sandboxWith();
    const spec = { ...counter, cwd: '/tmp', env: { GREETING: "it's $HOME" } };
    await startServer(sandbox, 'counter', spec, 's');
    expect(await callTool({ ...asked(sandbox, 'do', { what: 'place' }), spec })).toBe("/tmp it's $HOME");
    expect(await call(sandbox, 'do', { what: `é\n"'${'y'.repeat(300_000)}` })).toBe('300004');
    expect(await call(sandbox, 'do', { what: 'long 1000000' })).toBe('x'.repeat(1_000_000));
    expect(await call(sandbox, 'do', { what: 'long 5000000' })).toBe(
      'Error: the MCP server counter (python3 /workspace/counter.py) answered the call with more than can be read',
    );
    expect(await call(sandbox, 'add', { by: 1 })).toBe('total 1');
  });

  it('may ask the client, and its answers become text', async () => {
    const sandbox = await sandboxWith();
    await startServer(sandbox, 'counter', counter, 's');
    expect(await call(sandbox, 'do', { what: 'ask' })).toBe('{} -32601');
    expect(await call(sandbox, 'do', { what: 'wrong' })).toBe('Error: no such thing');
    expect(await call(sandbox, 'missing', {})).toBe('Error: Unknown tool: missing');
    expect(await call(sandbox, 'do', { what: 'picture' })).toBe(
      '[image image/png, 4 characters of base64]\ninner\n[resource file:///b]',
    );
  });
});

describe('a server that', () => {
  it('ends during a call is named with its command and its last words; the next call starts it again', async () => {
    const sandbox = await sandboxWith();
    await startServer(sandbox, 'counter', counter, 's');
    await call(sandbox, 'add', { by: 5 });
    expect(await call(sandbox, 'do', { what: 'die 3' })).toBe(
      'Error: the MCP server counter (python3 /workspace/counter.py) ended before it answered the call, with code 3: so it ends',
    );
    const after = '[the MCP server counter had ended with code 3: so it ends\nit was started again]\n';
    expect(await call(sandbox, 'add', { by: 1 }, { callId: 'after' })).toBe(`${after}total 1`);
    expect(await call(sandbox, 'add', { by: 1 }, { callId: 'after' })).toBe(`${after}total 1`);
    expect(await call(sandbox, 'add', { by: 1 })).toBe('total 2');
  });

  it('is ended with everything else by a command over its time is started again', async () => {
    const sandbox = await sandboxWith();
    await startServer(sandbox, 'counter', counter, 's');
    await call(sandbox, 'add', { by: 5 });
    await sh(sandbox, 'sleep 60', { timeoutMs: 200 });
    expect(await call(sandbox, 'add', { by: 1 })).toBe(
      '[the MCP server counter had ended by a signal or with everything else that ran\nit was started again]\ntotal 1',
    );
  });

  it('does not answer in time is reported as any command is', async () => {
    const sandbox = await sandboxWith();
    await startServer(sandbox, 'counter', counter, 's');
    expect(await call(sandbox, 'do', { what: 'sleep 60' }, { timeoutMs: 500 })).toBe(
      '[timed out after 0.5 s; everything was stopped]',
    );
    expect(await call(sandbox, 'add', { by: 1 })).toMatch(/was started again\]\ntotal 1$/u);
  });

  it('writes what is no message is named with that line, and its later answers are not taken for others', async () => {
    const sandbox = await sandboxWith();
    await startServer(sandbox, 'counter', counter, 's');
    expect(await call(sandbox, 'do', { what: 'nonsense' })).toBe(
      'Error: the MCP server counter (python3 /workspace/counter.py) answered tools/call with a line that is no JSON-RPC message ("Listening on stdout!"): stdout is for messages alone',
    );
    expect(await call(sandbox, 'add', { by: 1 })).toBe('total 1');
  });

  it.each<[string, McpServer, string, RegExp]>([
    [
      'is not there',
      { command: ['no-such-server'] },
      '',
      /\(no-such-server\) ended before .*with code 127: .*no-such-server/s,
    ],
    ['has no folder', { ...counter, cwd: '/nowhere' }, '', /with code 1: .*\/nowhere/s],
    ['ends at once', counter, 'raise SystemExit("bad configuration")', /with code 1: bad configuration/],
    ['refuses', { ...counter, env: { GREETING: 'refuse' } }, COUNTER, /refused initialize: not today/],
    ['speaks something else', counter, 'print("HTTP/1.1 200", flush=True)\ninput()', /no JSON-RPC message \("HTTP/],
    [
      'answers without a revision',
      counter,
      'import json\nprint(json.dumps({"id": json.loads(input())["id"], "result": {}}), flush=True)\ninput()',
      /without a protocolVersion/,
    ],
    ['lacks a tool', { ...counter, tools: ['subtract'] }, COUNTER, /has no tool subtract; it has add, do, total\.show/],
  ])('%s is an error with its name and command', async (_, spec, source, message) => {
    const sandbox = await sandboxWith(source);
    const thrown = await startServers(sandbox, { helper: spec }, 's').catch((error: unknown) => error);
    expect(thrown).toMatchObject({ name: 'McpFailed', message: expect.stringMatching(message) as string });
    expect((thrown as Error).message).toMatch(`the MCP server helper (${spec.command.join(' ')}) `);
  });
});

it.each([
  [{ a__b: counter }, true, /^mcp\.a__b: "a__b" cannot be used; give a name of letters/],
  [{ a: { command: [] } }, true, /^mcp\.a\.command: \[\] cannot be used; give a list of texts/],
  [{ a: { ...counter, env: { 'A=B': 'c' } } }, true, /^mcp\.a\.env: /],
  [{ a: counter }, false, /^mcp\.a: .* cannot be used; give the task a sandbox/],
])('%j is refused when its task is loaded', (servers, hasSandbox, message) => {
  expect(() => checkServers(servers as never, hasSandbox)).toThrow(message);
});
