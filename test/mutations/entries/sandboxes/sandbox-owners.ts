/**
 * Sandboxes that are half-made or change hands, whose owner has ended, or that workers would look for in different
 * places.
 */

import type { Mutation } from '../../mutation.ts';

const HALF_MADE = 'a worker dies while it makes a sandbox';
const TERMINATED = 'a run is terminated from outside';
const SEVERAL = 'a task has several sandboxes: there is no room for all, or one is lost or cannot be made';
const HANDED_OVER = 'a warm sandbox is taken while another process sweeps unknown containers';
const BUSY = 'a worker starts on a machine so busy that bubblewrap does not answer in time';
const CLOCK = "the machine's clock is set, ahead or back";
const WAITS =
  "a turn waits for longer than a sandbox lives unused (GPU workers are down, an evaluation waits for an update, a host's worker or the orchestrator is gone)";
const SEVERAL_TEST = 'test/activities/init/several-sandboxes.test.ts';
const SQLITE_TEST = 'test/store/sqlite-store.test.ts';
const INIT_TEST = 'test/activities/init/init.test.ts';
const LIFECYCLE_TEST = 'test/sandboxes/lifecycle.test.ts';
const DOCKER_LIFECYCLE_TEST = 'test/sandboxes/docker/lifecycle.test.ts';
const SWEEP_TEST = 'test/sandboxes/sweep.test.ts';
const SANDBOX_PROVIDER_TEST = 'test/workers/sandbox-provider.test.ts';
const OWNER_LIVES_TEST = 'test/workers/lease-owner.test.ts';
const LEASE_OWNER_TEST = 'test/workers/lease-owner.test.ts';
const KEEP_WAITING_TEST = 'test/sandboxes/keep-waiting.test.ts';

export const sandboxOwners: readonly Mutation[] = [
  {
    name: 'each execution makes a sandbox of its own',
    fault: HALF_MADE,
    file: 'activities/init/init.ts',
    before: 'const sandbox = attemptKey(input);\n  const { placed, ref } = ',
    after:
      'const sandbox = `${attemptKey(input)}.${await deps.store.begun(`init:${attemptKey(input)}`)}`;\n  const { placed, ref } = ',
    tests: [{ file: INIT_TEST, test: 'gives an attempt its one sandbox, however often it is asked' }],
  },
  {
    name: 'what could not be made keeps its lease',
    fault: HALF_MADE,
    file: 'activities/init/init.ts',
    before: 'if (mayEnd && !(await holdsWork(error, input, signal, deps))) await unmake(ref, deps);',
    after: '',
    tests: [{ file: INIT_TEST, test: 'because it could not be made, neither lease nor remains stay' }],
  },
  {
    name: 'a sandbox that answers is not adopted',
    fault: HALF_MADE,
    file: 'sandboxes/supervised/provider.ts',
    before: 'if (await this.clientOf(spec.id).answers()) {',
    after: 'if (!isBeingMade(folder) && (await this.clientOf(spec.id).answers())) {',
    tests: [
      { file: LIFECYCLE_TEST, test: 'adopts a live sandbox of the same id, from this process or another', hangs: true },
    ],
  },
  {
    name: 'what a dead maker left is not cleared away',
    fault: HALF_MADE,
    file: 'sandboxes/supervised/provider.ts',
    before: 'if (!isBeingMade(folder) || Date.now() > deadline) await this.launcher.end(folder);',
    after: "if (!isBeingMade(folder) || Date.now() > deadline) throw new SandboxUnavailable('somebody made it');",
    tests: [{ file: LIFECYCLE_TEST, test: 'takes a half-made one of a dead maker for nothing' }],
  },
  {
    name: 'a group that stood still when its run was terminated is not told that the run goes on',
    fault: TERMINATED,
    file: 'workflows/pause-relay.ts',
    before: 'isPaused: !this.#paused, resumed: 0 });',
    after: 'isPaused: this.#paused, resumed: 0 });',
    tests: [
      { file: 'test/workflows/pause-relay.test.ts', test: 'a child from before receives the newest signal' },
      {
        file: 'test/workflows/training/restart.test.ts',
        test: 'a group that was paused before its run was terminated continues',
        hangs: true,
      },
    ],
  },
  {
    name: 'the sweeper does not ask whether owners live',
    fault: TERMINATED,
    file: 'sandboxes/sweep.ts',
    before: 'if (ownerLives === undefined) return dead;',
    after: 'if (ownerLives === undefined || host !== undefined) return dead;',
    tests: [{ file: SWEEP_TEST, test: 'ends at once what belongs to an owner that has ended' }],
  },
  {
    name: 'the sweeper does not ask again before it ends anything',
    fault: TERMINATED,
    file: 'sandboxes/sweep.ts',
    before: 'const stillDead = owner !== undefined && (await options.ownerLives?.(owner)) === false;',
    after: 'const stillDead = owner !== undefined;',
    tests: [{ file: SWEEP_TEST, test: 'spares what belongs to an owner that was started again meanwhile' }],
  },
  {
    name: 'a lease that ran out is not swept',
    fault: TERMINATED,
    file: 'sandboxes/sweep.ts',
    before: 'return [...new Set([...expired, ...ended.filter((id) => !live.has(id))])];',
    after: 'return ended.filter((id) => !live.has(id));',
    tests: [{ file: SWEEP_TEST, test: 'ends what expired, keeps what is held' }],
  },
  {
    name: 'an attempt that acted before gets a fresh sandbox without what it did',
    fault: TERMINATED,
    file: 'activities/init/init.ts',
    before: '(await store.list(keys.answers(input))).length > 0 ||',
    after: '(await store.list(keys.answers(input))).length < 0 ||',
    tests: [{ file: INIT_TEST, test: 'is lost with it, and takes no place on the host' }],
  },
  {
    name: 'who was terminated is taken for alive',
    fault: TERMINATED,
    file: 'workers/lease-owner.ts',
    before: "'CANCELLED', 'TERMINATED', 'TIMED_OUT'",
    after: "'CANCELLED', 'TIMED_OUT'",
    tests: [{ file: OWNER_LIVES_TEST, test: 'is known to have ended when it was terminated' }],
  },
  {
    name: 'who cannot be asked is taken for dead',
    fault: TERMINATED,
    file: 'workers/lease-owner.ts',
    before: 'return true;',
    after: 'return false;',
    tests: [{ file: OWNER_LIVES_TEST, test: 'counts as alive if Temporal does not answer' }],
  },
  {
    name: 'a rollout waits with some of its sandboxes',
    fault: SEVERAL,
    file: 'store/sqlite-store.ts',
    before: 'if (n + leases.length > room.leases ||',
    after: 'if (n >= room.leases ||',
    tests: [
      { file: SQLITE_TEST, test: 'of several are taken all or none, by number and by memory' },
      { file: SEVERAL_TEST, test: 'in places is taken for all at once: nobody holds a half', hangs: true },
    ],
  },
  {
    name: 'memory that a host does not have is waited for',
    fault: SEVERAL,
    file: 'activities/init/init.ts',
    before: '  mustFit(all, input.task, room);\n',
    after: '',
    tests: [{ file: SEVERAL_TEST, test: 'that no host has, in memory, is refused at once', hangs: true }],
  },
  {
    name: 'only the sandbox of the tools is renewed while its rollout waits',
    fault: SEVERAL,
    file: 'sandboxes/keep-waiting.ts',
    before: "mainSandboxOf(id) === mainSandboxOf(newest.get(owner)?.id ?? '')",
    after: 'id === newest.get(owner)?.id',
    tests: [{ file: KEEP_WAITING_TEST, test: 'renews all sandboxes of a rollout’s task' }],
  },
  {
    name: 'records are looked through once before a container is removed',
    fault: HANDED_OVER,
    file: 'sandboxes/docker/launcher.ts',
    before: 'if (this.recordedClaims().has(claim)) continue;\n',
    after: '',
    tests: [
      {
        file: DOCKER_LIFECYCLE_TEST,
        test: 'spares the container of a warm sandbox that another process takes while records are listed',
      },
    ],
  },
  {
    name: 'each of several workers chooses what isolates sandboxes',
    fault: BUSY,
    file: 'workers/sandbox-provider.ts',
    before: 'if (agrees(written, settings)) return undefined;\n',
    after: '',
    tests: [{ file: SANDBOX_PROVIDER_TEST, test: 'is given one choice by processes that start at once' }],
  },
  {
    name: 'bubblewrap that is late does not work',
    fault: BUSY,
    file: 'workers/sandbox-provider.ts',
    before: "(await tryBubblewrap(withinMs)) === 'fails'",
    after: "(await tryBubblewrap(withinMs)) !== 'works'",
    tests: [{ file: SANDBOX_PROVIDER_TEST, test: 'keeps it on a machine so busy that a trial is late' }],
  },
  {
    name: 'a lease is told by the clock alone',
    fault: CLOCK,
    file: 'sandboxes/lease-time.ts',
    before: 'return boot !== undefined && boot === time.boot ?',
    after: 'return boot !== undefined && boot === until ?',
    tests: [
      {
        file: SWEEP_TEST,
        test: 'ends nothing that is held when the clock is set ahead, nor keeps what has run out when it is set back',
      },
    ],
  },
  {
    name: 'a lease does not say when it ends since the boot',
    fault: CLOCK,
    file: 'sandboxes/lease-time.ts',
    before: "detail: boot === undefined ? '' :",
    after: "detail: boot !== undefined ? '' :",
    tests: [
      {
        file: SWEEP_TEST,
        test: 'ends nothing that is held when the clock is set ahead, nor keeps what has run out when it is set back',
      },
    ],
  },
  {
    name: 'the sweeper only ends sandboxes',
    fault: WAITS,
    file: 'sandboxes/sweep.ts',
    before: '      if (kept) await keepWaiting({ ...options, ...kept });\n',
    after: '',
    tests: [
      { file: KEEP_WAITING_TEST, test: 'a sandbox whose owner waits outlives its time to live, by its sweeper alone' },
    ],
  },
  {
    name: 'each sandbox that nobody uses is kept',
    fault: WAITS,
    file: 'sandboxes/keep-waiting.ts',
    before: 'if (await options.ownerWaits(lease.owner)) await renew',
    after: 'await options.ownerWaits(lease.owner);\n    await renew',
    tests: [{ file: KEEP_WAITING_TEST, test: 'skips owners that do not wait' }],
  },
  {
    name: 'a sandbox that its rollout has left is kept',
    fault: WAITS,
    file: 'sandboxes/keep-waiting.ts',
    before: 'return inUse(leases).filter(',
    after: 'return leases.filter(',
    tests: [{ file: KEEP_WAITING_TEST, test: 'renews only the sandbox that a rollout used last' }],
  },
  {
    name: 'a lease that was released comes back',
    fault: WAITS,
    file: 'sandboxes/keep-waiting.ts',
    before: '  if (!(await store.leases(SANDBOX_LEASE)).some((lease) => lease.id === id)) return;\n',
    after: '',
    tests: [
      { file: KEEP_WAITING_TEST, test: 'renews no lease of a lost sandbox, and none that was released meanwhile' },
    ],
  },
  {
    name: 'a turn that nobody samples needs no sandbox',
    fault: WAITS,
    file: 'workers/lease-owner.ts',
    before: "new Set([\n  'generate',",
    after: 'new Set([',
    tests: [{ file: LEASE_OWNER_TEST, test: 'a rollout that waits for sampling or tools needs its sandbox' }],
  },
  {
    name: 'who waits for a sandbox keeps the one that it gave up',
    fault: WAITS,
    file: 'workers/lease-owner.ts',
    before: "new Set([\n  'generate',",
    after: "new Set([\n  'prepare',\n  'generate',",
    tests: [{ file: LEASE_OWNER_TEST, test: 'a rollout that waits for sampling or tools needs its sandbox' }],
  },
  {
    name: 'who was terminated before a worker took its task waits for ever',
    fault: WAITS,
    file: 'workers/lease-owner.ts',
    before: '      if (ENDED.has(described.status.name)) return false;\n',
    after: '',
    tests: [
      {
        file: LEASE_OWNER_TEST,
        test: 'a rollout that was terminated before a worker took its first task does not wait',
      },
    ],
  },
];
