/** Hunts programs that wait forever or answers that nobody wants, at a door that fails: the door and the rollout are stubs. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { ModelCall } from '../../../protocol/gateway.ts';
import type { GenerateRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import type { DoorNews, Sandbox, SandboxDoor } from '../../../sandboxes/sandbox.ts';
import type { GatewayDeps } from '../../../servers/gateway/rollout-gateway.ts';
import { openDoor } from '../../../servers/gateway/serve-door.ts';
import { openSqliteStore } from '../../../store/sqlite-store.ts';
import type { Store } from '../../../store/store.ts';

const attempt = { run: 'r', rollout: 'door', attempt: 1, task: 't' };
let dir = '';
let store: Store;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-gateway-'));
  store = openSqliteStore(join(dir, 'store'));
});
afterEach(async () => {
  await store.close();
  rmSync(dir, { recursive: true });
});

function stubDoor(answer: SandboxDoor['answer']) {
  const coming: DoorNews[] = [];
  const door: SandboxDoor = {
    open: async (port) => await Promise.resolve(port),
    news: async () => {
      await sleep(5);
      return coming.splice(0);
    },
    answer,
  };
  const send = (connection: number, text: string) =>
    coming.push({ connection, chunk: Buffer.from(text), from: 0, ended: false, full: false, gone: false });
  const leave = (connection: number) =>
    coming.push({ connection, chunk: Buffer.alloc(0), from: 0, ended: true, full: false, gone: true });
  return { sandbox: { door } as unknown as Sandbox, send, leave };
}

const asks = (key: string, text: string) => {
  const body = JSON.stringify({ messages: [{ role: 'user', content: text }] });
  const head = `POST /v1/chat/completions HTTP/1.1\r\nauthorization: Bearer ${key}\r\ncontent-length: ${body.length}`;
  return `${head}\r\n\r\n${body}`;
};

/** The rollout: it answers each call when `held` has ended. */
function rolloutStub(calls: ModelCall[], held: Promise<void> = Promise.resolve()): GatewayDeps {
  const executeUpdate = async (_: string, { args: [call] }: { args: [ModelCall] }) => {
    calls.push(call);
    const turn = calls.length;
    await held;
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
  };
  return { store, client: { workflow: { getHandle: () => ({ executeUpdate }) } } } as unknown as GatewayDeps;
}

it('an answer that the sandbox did not take is sent again', async () => {
  const taken = Promise.withResolvers<string>();
  let failures = 2;
  const { sandbox, send } = stubDoor(async (_, bytes) => {
    failures -= 1;
    if (failures >= 0) throw new Error('not reached');
    taken.resolve(Buffer.from(bytes).toString());
    return await Promise.resolve(true);
  });
  const door = await openDoor(sandbox, attempt, rolloutStub([]));
  const stop = new AbortController();
  const served = door.serve(stop.signal);
  send(1, asks(door.variables['OPENAI_API_KEY'] ?? '', 'hi'));
  expect(await taken.promise).toMatch(/^HTTP\/1\.1 200 OK/u);
  stop.abort();
  await served;
});
