/**
 * Hunts ways out of a sandbox through its door, and ways to break who answers it: a real sandbox, its supervisor and the
 * real reader of requests; the rollout behind is a stub that records what it is asked.
 * Not asserted: sampling; see test/workflows/rollout/gateway-rollout.test.ts.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import type { ModelCall } from '../../../protocol/gateway.ts';
import type { GenerateRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import type { Sandbox } from '../../../sandboxes/sandbox.ts';
import { gatewayKey, type GatewayDeps } from '../../../servers/gateway/rollout-gateway.ts';
import { openDoor } from '../../../servers/gateway/serve-door.ts';
import { openSqliteStore } from '../../../store/sqlite-store.ts';
import { openBench, sh, specOf } from '../harness.ts';

const bench = await openBench();
const dir = mkdtempSync(join(tmpdir(), 'longhaul-door-'));
const store = openSqliteStore(join(dir, 'store'));
const attempt = { run: 'r', rollout: 'door', attempt: 1, task: 't' };
const calls: ModelCall[] = [];
let turn = 0;
const deps = {
  store,
  client: {
    workflow: {
      getHandle: () => ({
        executeUpdate: async (_: string, { args: [call] }: { args: [ModelCall] }) => {
          calls.push(call);
          turn += 1;
          await store.putOnce(keys.generate(attempt, turn), {
            appended: [],
            sampled: [1],
            logprobs: [-1],
            version: 0,
            reset: false,
            end: 'stop',
            parsed: { kind: 'no-call', content: 'fine' },
            call: { call: call.call, asked: call.asked, follows: 0, promptTokens: 1 },
          } satisfies GenerateRecord);
          return { turn };
        },
      }),
    },
  },
} as unknown as GatewayDeps;

let sandbox: Sandbox;
let variables: Readonly<Record<string, string>>;
let stop = new AbortController();

/** Another worker takes the door. */
async function serve(): Promise<void> {
  stop.abort();
  stop = new AbortController();
  const door = await openDoor(sandbox, attempt, deps);
  ({ variables } = door);
  door.serve(stop.signal).catch(() => undefined);
}
beforeAll(async () => {
  sandbox = await bench.provider.create(specOf('door'));
  await serve();
});
afterEach(() => {
  calls.length = 0;
});
afterAll(async () => {
  stop.abort();
  await store.close();
  rmSync(dir, { recursive: true });
});

/** Sends bytes, and prints the status line of the answer. `body` is Python with `s`, a connected socket, and `KEY`. */
async function attack(body: string): Promise<string> {
  const url = variables['OPENAI_BASE_URL'] ?? '';
  const port = new URL(url).port;
  const program = `
import socket, time, json, os
KEY = "${variables['OPENAI_API_KEY']}"
GOOD = json.dumps({"messages": [{"role": "user", "content": "hi"}]})
def connect():
    return socket.create_connection(("127.0.0.1", ${port}), 30)
def read(s):
    data = b""
    try:
        while True:
            chunk = s.recv(65536)
            if not chunk: break
            data += chunk
    except OSError: pass
    return data.split(b"\\r\\n")[0].decode() if data else "nothing"
def post(path="/v1/chat/completions", key=KEY, body=GOOD, extra="", host="127.0.0.1:${port}", method="POST"):
    s = connect()
    s.sendall(f"{method} {path} HTTP/1.1\\r\\nhost: {host}\\r\\nauthorization: Bearer {key}\\r\\n{extra}content-length: {len(body)}\\r\\n\\r\\n{body}".encode())
    return read(s)
s = connect()
${body}`;
  await sandbox.write({
    callId: `write-${Math.random()}`,
    path: '/workspace/attack.py',
    content: Buffer.from(program),
    note: '',
  });
  const { output } = await sh(sandbox, 'python3 attack.py', { fresh: true, timeoutMs: 100_000 });
  return output.trim();
}

it('answers a call of its own rollout', async () => {
  expect(await attack('print(post())')).toBe('HTTP/1.1 200 OK');
  expect(calls).toHaveLength(1);
});

it('lets nobody through to another path, host or rollout', async () => {
  const other = await gatewayKey({ ...attempt, rollout: 'other' }, store);
  const printed = await attack(`
print(post(key="${other}"))
print(post(key=""))
print(post(key="x" * 9000))
print(post(path="/v1/completions"))
print(post(path="/v1/../../etc/passwd"))
print(post(path="http://169.254.169.254/latest"))
print(post(path="//example.org/"))
print(post(method="CONNECT", path="example.org:443"))
print(post(host="example.org"))
print(post(method="DELETE"))`);
  expect(printed.split('\n').map((line) => line.split(' ')[1])).toEqual([
    '401',
    '401',
    '401',
    '404',
    '404',
    '403',
    '403',
    '403',
    '421',
    '405',
  ]);
  expect(calls).toEqual([]);
  // Nothing else of the network is there: not by name, not by address.
  const network = await sh(
    sandbox,
    `for at in 10.0.0.1 169.254.169.254 1.1.1.1; do timeout 2 bash -c "echo > /dev/tcp/$at/80" 2>/dev/null && echo reached; done; echo done`,
  );
  expect(network.output.trim()).toBe('done');
});

it('smuggles nothing: what two readers could read in two ways is refused', async () => {
  const printed = await attack(`
def raw(text):
    s = connect()
    s.sendall(text.replace("KEY", KEY).encode("latin1"))
    return read(s)
head = "POST /v1/chat/completions HTTP/1.1\\r\\nhost: localhost\\r\\nauthorization: Bearer KEY\\r\\n"
print(raw(head + "content-length: 5\\r\\ntransfer-encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n"))
print(raw(head + "content-length: 5\\r\\ncontent-length: 6\\r\\n\\r\\nabcdef"))
print(raw(head + "content-length : 5\\r\\n\\r\\nabcde"))
print(raw(head + "x: 1\\r\\n y: 2\\r\\n\\r\\n"))
print(raw(head + "x: 1\\ny: 2\\r\\n\\r\\n"))
print(raw(head + "content-length: -1\\r\\n\\r\\n"))
print(raw(head + "content-length: 2\\r\\n\\r\\n{}GET /v1/models HTTP/1.1\\r\\n\\r\\n"))
print(raw(head + "transfer-encoding: chunked\\r\\n\\r\\nzz\\r\\n0\\r\\n\\r\\n"))
print(raw(head + "transfer-encoding: gzip, chunked\\r\\n\\r\\n0\\r\\n\\r\\n"))
print(raw(head + "authorization: Bearer other\\r\\n\\r\\n"))
print(raw("GET /v1/models HTTP/0.9\\r\\n\\r\\n"))
print(raw("\\0\\1\\2\\r\\n\\r\\n"))`);
  const statuses = printed.split('\n').map((line) => line.split(' ')[1]);
  expect(statuses).toEqual(['400', '400', '400', '400', '400', '400', '400', '400', '501', '400', '400', '400']);
  expect(calls).toEqual([]);
});

it('a body in chunks is read; bodies and headers that are too large are refused', async () => {
  const printed = await attack(`
head = f"POST /v1/chat/completions HTTP/1.1\\r\\nhost: localhost\\r\\nauthorization: Bearer {KEY}\\r\\n"
s.sendall((head + "transfer-encoding: chunked\\r\\n\\r\\n").encode())
for part in (GOOD[:9], GOOD[9:]):
    s.sendall(f"{len(part):x}\\r\\n{part}\\r\\n".encode()); time.sleep(0.05)
s.sendall(b"0\\r\\n\\r\\n")
print(read(s))
s = connect(); s.sendall((head + "content-length: 99999999\\r\\n\\r\\n").encode()); print(read(s))
s = connect(); s.sendall(b"GET / HTTP/1.1\\r\\n" + b"x: y\\r\\n" * 20000); print(read(s))
s = connect()
try:
    s.sendall((head + "transfer-encoding: chunked\\r\\n\\r\\n").encode())
    for _ in range(64): s.sendall(b"10000\\r\\n" + b"x" * 65536 + b"\\r\\n")
except OSError: pass
print(read(s))
print(post(body=json.dumps({"messages": [{"role": "user", "content": "[" * 100000}]})))
print(post(body="[" * 200000))`);
  expect(printed.split('\n').map((line) => line.split(' ')[1])).toEqual(['200', '413', '431', '413', '200', '400']);
});

it('floods and connections that say nothing cost nobody else: the next call is answered', async () => {
  const printed = await attack(`
silent = []
for _ in range(40):
    c = socket.socket(); c.setblocking(False)
    try: c.connect(("127.0.0.1", s.getpeername()[1]))
    except BlockingIOError: pass
    silent.append(c)
time.sleep(0.2)
for c in silent: c.close()
s.close()
statuses = [post(path="/v1/models", method="GET", body="") for _ in range(150)]
print(sorted(set(line.split(" ")[1] for line in statuses)))
time.sleep(2)
print(post())`);
  expect(printed).toMatch(/'200'.*\nHTTP\/1\.1 200 OK$/u);
  expect((await sh(sandbox, 'echo alive')).output).toBe('alive\n');
});

it('answers that nobody reads do not fill the supervisor: the oldest are cut, the next call is answered', async () => {
  const printed = await attack(`
import select
tool = {"type": "function", "name": "t", "description": "x" * 300000, "parameters": {}}
long = json.dumps({"model": "m", "input": "hi", "stream": True, "tools": [tool]})
unread = []
for _ in range(24):
    c = socket.socket()
    c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    c.connect(s.getpeername())
    c.sendall(f"POST /v1/responses HTTP/1.1\\r\\nauthorization: Bearer {KEY}\\r\\ncontent-length: {len(long)}\\r\\n\\r\\n{long}".encode())
    assert select.select([c], [], [], 60)[0]
    unread.append(c)
rss = [line.split()[1] for line in open("/proc/1/status") if line.startswith("VmRSS")][0]
print(post())
print(rss)`);
  const [, kib] = /^HTTP\/1\.1 200 OK\n(\d+)$/u.exec(printed) ?? [];
  expect(Number(kib), printed).toBeLessThan(10 * 1024);
});

it('a program that closes its side for writing gets its answer', async () => {
  const printed = await attack(`
request = f"POST /v1/chat/completions HTTP/1.1\\r\\nauthorization: Bearer {KEY}\\r\\ncontent-length: {len(GOOD)}\\r\\n\\r\\n{GOOD}".encode()
def half(parts, pause):
    s = connect()
    for part in parts:
        s.sendall(part); time.sleep(pause)
    s.shutdown(socket.SHUT_WR)
    return read(s)
print(half([request], 0), half([request], 0.5), half([request[:40], request[40:]], 0.5))
print(half([request.replace(b"chat/completions", b"completions")], 0), half([request[:-1]], 0))`);
  expect(printed.match(/HTTP\/1\.1 \d+/gu)?.map((line) => line.split(' ')[1])).toEqual([
    '200',
    '200',
    '200',
    '404',
    '400',
  ]);
});

it('a call that its worker did not answer is answered by the next worker, and gets one answer', async () => {
  stop.abort();
  const printed = attack('print(post())');
  await serve();
  expect(await printed).toBe('HTTP/1.1 200 OK');
  expect(calls).toHaveLength(1);
});

it('a long request that ended before its worker came is read to its end', async () => {
  stop.abort();
  const printed = attack(`
body = GOOD + " " * ((1 << 20) - len(GOOD))
s.sendall(f"POST /v1/chat/completions HTTP/1.1\\r\\nauthorization: Bearer {KEY}\\r\\ncontent-length: {len(body)}\\r\\n\\r\\n{body}".encode())
s.shutdown(socket.SHUT_WR)
print(read(s))`);
  await sleep(3000);
  await serve();
  expect(await printed).toBe('HTTP/1.1 200 OK');
});

it('survives the end of everything of the policy', async () => {
  await sh(sandbox, 'kill -9 -1');
  expect(await attack('print(post())')).toBe('HTTP/1.1 200 OK');
});
