/** Hunts programs that wait forever or answers that nobody wants, at a door that fails: the door and the rollout are stubs. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { WorkflowUpdateFailedError } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { BUDGET_SPENT, type ModelCall } from '../../../protocol/gateway.ts';
import type { GenerateRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import type { DoorNews, Sandbox, SandboxDoor } from '../../../sandboxes/sandbox.ts';
import type { GatewayRequest } from '../../../servers/gateway/http-message.ts';
import { type GatewayDeps, RolloutGateway } from '../../../servers/gateway/rollout-gateway.ts';
import type { CallClient } from '../../../servers/gateway/send-call.ts';
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

it('a call whose guest is gone before its rollout heard of it is never sent', async () => {
  const held = Promise.withResolvers<void>();
  const calls: ModelCall[] = [];
  const answered = new Set<number>();
  const { sandbox, send, leave } = stubDoor(async (connection) => {
    answered.add(connection);
    return await Promise.resolve(true);
  });
  const door = await openDoor(sandbox, attempt, rolloutStub(calls, held.promise));
  const stop = new AbortController();
  const served = door.serve(stop.signal);
  const key = door.variables['OPENAI_API_KEY'] ?? '';
  for (let i = 1; i <= 10; i += 1) send(i, asks(key, `call ${i}`));
  const isStored = async () => (await store.get(keys.call(attempt, 'door-10'))) !== undefined;
  while (calls.length < 8 || !(await isStored())) await sleep(10);
  const waiting = [9, 10].find((i) => !calls.some(({ call }) => call === `door-${i}`)) ?? 0;
  leave(waiting);
  await sleep(50);
  held.resolve();
  while (answered.size < 9) await sleep(10);
  await sleep(50);
  expect(calls).toHaveLength(9);
  expect(calls.map(({ call }) => call)).not.toContain(`door-${waiting}`);
  stop.abort();
  await served;
});

describe('a gateway', () => {
  const request = (key: string, text: string): GatewayRequest => ({
    method: 'POST',
    path: '/v1/chat/completions',
    headers: new Map([['authorization', `Bearer ${key}`]]),
    body: Buffer.from(JSON.stringify({ messages: [{ role: 'user', content: text }] })),
  });
  const { signal } = new AbortController();

  it('whose rollout takes no further call stores none, and answers those that have a turn', async () => {
    const calls: ModelCall[] = [];
    const deps = rolloutStub(calls);
    const before = await RolloutGateway.open(attempt, deps);
    expect((await before.answer('first', request(before.key, 'a'), signal)).status).toBe(200);
    const failure = ApplicationFailure.create({ type: BUDGET_SPENT, message: 'all' });
    const refused: ModelCall[] = [];
    const executeUpdate = async (_: string, { args: [call] }: { args: [ModelCall] }) => {
      refused.push(call);
      await Promise.reject(new WorkflowUpdateFailedError('refused', failure));
    };
    const client = { workflow: { getHandle: () => ({ executeUpdate }) } } as unknown as CallClient;
    const gateway = await RolloutGateway.open(attempt, { store, client });
    for (const call of ['second', 'third', 'fourth']) {
      const { status, body } = await gateway.answer(call, request(gateway.key, call), signal);
      expect([status, body]).toEqual([429, expect.stringContaining('insufficient_quota')]);
    }
    expect(refused.map(({ call }) => call)).toEqual(['second']);
    expect(await store.get(keys.call(attempt, 'third'))).toBeUndefined();
    expect((await gateway.answer('first', request(gateway.key, 'a'), signal)).status).toBe(200);
  });

  it('looks through the turns only for a call that was stored before', async () => {
    let lists = 0;
    const counted = new Proxy(store, {
      get: (target, name) => {
        if (name === 'list') lists += 1;
        const value: unknown = Reflect.get(target, name);
        return typeof value === 'function' ? (value.bind(target) as unknown) : value;
      },
    });
    const gateway = await RolloutGateway.open(attempt, { ...rolloutStub([]), store: counted });
    await gateway.answer('first', request(gateway.key, 'a'), signal);
    expect(lists).toBe(0);
    await gateway.answer('first', request(gateway.key, 'a'), signal);
    expect(lists).toBe(1);
  });

  it('repeats of a request what was read, and not without a bound', async () => {
    const gateway = await RolloutGateway.open(attempt, rolloutStub([]));
    const asking = (description: string, unread: string): GatewayRequest => {
      const tool = { type: 'function', name: 'f', description, parameters: {}, unread };
      const body = { model: 'm', input: 'hi', tools: [tool], stream: true, store: false };
      return { ...request(gateway.key, ''), path: '/v1/responses', body: Buffer.from(JSON.stringify(body)) };
    };
    const read = await gateway.answer('one', asking('read', 'x'.repeat(900_000)), signal);
    expect(read.status).toBe(200);
    expect(read.body.length).toBeLessThan(100_000);
    const large = await gateway.answer('two', asking('x'.repeat(900_000), ''), signal);
    expect([large.status, large.body]).toEqual([400, expect.stringContaining('send shorter tools')]);
  });

  it('reads a request once, however often its store fails', async () => {
    let failures = 1;
    const failing = new Proxy(store, {
      get: (target, name) => {
        if (name === 'get' && failures-- > 0) throw new Error('locked');
        const value: unknown = Reflect.get(target, name);
        return typeof value === 'function' ? (value.bind(target) as unknown) : value;
      },
    });
    const gateway = await RolloutGateway.open(attempt, { ...rolloutStub([]), store: failing });
    const given = request(gateway.key, 'a');
    let reads = 0;
    const watched = {
      ...given,
      get body() {
        reads += 1;
        return given.body;
      },
    };
    expect((await gateway.answer('first', watched, signal)).status).toBe(200);
    expect([failures < 0, reads]).toEqual([true, 1]);
  });
});
