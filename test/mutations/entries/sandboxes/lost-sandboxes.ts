/** Sandboxes that are lost, and what goes on in their place. */

import type { Mutation } from '../../mutation.ts';

const START_TEST = 'test/activities/init/restored-start.test.ts';
const LOST = 'a sandbox is killed, or its first process';
const DAEMON = 'the Docker daemon is killed';
const RESTORED_ROLLOUT_TEST = 'test/workflows/rollout/restored-rollout.test.ts';
const RESTORE_TEST = 'test/activities/init/restore.test.ts';
const SNAPSHOT_TEST = 'test/activities/init/from-snapshot.test.ts';
const SNAPSHOTS_TEST = 'test/sandboxes/snapshot.test.ts';
const SWE_TEST = 'test/sandboxes/docker/swe-snapshot.test.ts';
const EFFECTS_TEST = 'test/activities/agent-run/tool-effects.test.ts';
const RESTORED_MCP_TEST = 'test/activities/agent-run/mcp.test.ts';
const WORKFLOWS_TEST = 'test/workflows/workflows.test.ts';
const TRAPS_TEST = 'test/sandboxes/docker/traps.test.ts';
const PODMAN_TEST = 'test/sandboxes/podman/life.test.ts';

export const lostSandboxes: readonly Mutation[] = [
  {
    name: 'a sandbox on whose socket nobody listens is not taken for lost',
    fault: LOST,
    file: 'sandboxes/supervisor/client.ts',
    before: 'if (GONE.has(code)) throw new SandboxLost(`sandbox ${this.sandboxId} is gone (${code})`);\n',
    after: '',
    tests: [
      {
        file: RESTORED_ROLLOUT_TEST,
        test: 'continues from its turn after its sandboxes were killed between two calls and during one',
      },
    ],
  },
  {
    name: 'a restored sandbox has run nothing',
    fault: LOST,
    file: 'activities/agent-run/tool-calls.ts',
    before: 'for (const [turn, record] of turns) {',
    after: 'for (const [turn, record] of turns.slice(turns.length)) {',
    tests: [{ file: RESTORE_TEST, test: 'has run the recorded calls again in their order' }],
  },
  {
    name: 'what changed nothing in a sandbox is run again in its successor',
    fault: LOST,
    file: 'activities/agent-run/tool-calls.ts',
    before: '?.notRun || !isReplayed(call, tools)) continue;',
    after: '?.notRun) continue;',
    tests: [{ file: EFFECTS_TEST, test: 'gets the calls again that change a sandbox, and no other ones' }],
  },
  {
    name: "a restored sandbox's MCP servers are not started",
    fault: LOST,
    file: 'activities/init/restore.ts',
    before: 'if (task.mcp) await startMcp(input, task.mcp, mainOf(sandboxes));\n',
    after: '\n',
    tests: [{ file: RESTORED_MCP_TEST, test: 'is started as the lost one was' }],
  },
  {
    name: 'what only read is believed without its answer',
    fault: LOST,
    file: 'activities/agent-run/tool-calls.ts',
    before: 'return !record.untouched || record.messages[index]?.content === content;',
    after: 'return index >= 0 || record.messages[index]?.content === content;',
    tests: [{ file: RESTORE_TEST, test: 'show by their answers that a sandbox is unchanged' }],
  },
  {
    name: "a restored sandbox's digest is not compared",
    fault: LOST,
    file: 'activities/agent-run/tool-calls.ts',
    before: 'if (now !== digest',
    after: 'if (now === undefined',
    tests: [{ file: RESTORE_TEST, test: 'whose state differs is given up' }],
  },
  {
    name: 'what was never known of a lost sandbox is taken for equal',
    fault: LOST,
    file: 'activities/agent-run/tool-calls.ts',
    before: 'digest === undefined && !untouched',
    after: 'turns.length === 0',
    tests: [{ file: RESTORE_TEST, test: 'cannot be verified if the lost one' }],
  },
  {
    name: 'what the lost sandbox answered in the middle of a turn is not run in its successor',
    fault: LOST,
    file: 'activities/agent-run/tool-calls.ts',
    before: "if (known && isElsewhere && isReplayed(call, tools)) await run(call, turn, index, 'replay', acting);",
    after: '',
    tests: [{ file: RESTORE_TEST, test: 'continues in the middle of a turn' }],
  },
  {
    name: 'a turn that ended elsewhere is taken for one that ended here',
    fault: LOST,
    file: 'activities/agent-run/tool-calls.ts',
    before: 'return restored !== undefined && restored.turn >= turn;',
    after: 'return true;',
    tests: [
      { file: RESTORE_TEST, test: 'a turn that ended in the lost sandbox after all is replayed before the next one' },
    ],
  },
  {
    name: 'a restored sandbox is restored again',
    fault: LOST,
    file: 'activities/init/restore.ts',
    before: 'if (await store.get<RestoredRecord>(keys.restored(id))) {',
    after: 'if (id === undefined) {',
    tests: [{ file: RESTORE_TEST, test: 'that was lost in its turn is not made again under the same name' }],
  },
  {
    name: "the lost sandbox's lease is kept",
    fault: LOST,
    file: 'activities/init/restore.ts',
    before: 'await endAll(provider, (id) => store.releaseLease(id), lost);',
    after: 'await endAll(provider, async () => void store, lost);',
    tests: [{ file: RESTORE_TEST, test: 'has run the recorded calls again in their order', hangs: true }],
  },
  {
    name: 'a lost sandbox restarts its rollout',
    fault: LOST,
    file: 'workflows/rollout/rollout-loop.ts',
    before: '= limits.maxRestores)\n     ',
    after: ' 1)',
    tests: [{ file: WORKFLOWS_TEST, test: 'continues in its turn, in a restored sandbox, when its sandbox is lost' }],
  },
  {
    name: 'an attempt that begins again samples with other noise',
    fault: LOST,
    file: 'workflows/rollout/rollout-stages.ts',
    before: '${input.task}/${input.sample}/${turn}`,',
    after: '${input.task}/${input.sample}/${attempt.attempt}/${turn}`,',
    tests: [{ file: WORKFLOWS_TEST, test: 'starts again if its sandbox cannot be restored' }],
  },
  {
    name: 'what cannot be restored fails its rollout',
    fault: LOST,
    file: 'workflows/rollout/rollout-loop.ts',
    before: 'if (state.attempt < limits.maxAttempts) return { ...initialState, attempt: state.attempt + 1 };\n',
    after: '',
    tests: [{ file: WORKFLOWS_TEST, test: 'starts again if its sandbox cannot be restored' }],
  },
  {
    name: 'sandboxes are restored without a limit',
    fault: LOST,
    file: 'protocol/failure-policy.ts',
    before: 'export const BUDGET = { restores: 3, attempts: 3 } as const;',
    after: 'export const BUDGET = { restores: 3, attempts: 4 } as const;',
    tests: [
      {
        file: WORKFLOWS_TEST,
        test: 'ends as failed, without a reward and without a sandbox, when sandboxes keep being lost',
      },
    ],
  },
  {
    name: 'a container that does not run is not taken for lost',
    fault: DAEMON,
    file: 'sandboxes/docker/exec-channel.ts',
    before:
      '(\n    statusOf(error) === 404 || /is not running/iu.test(said) || (statusOf(error) === 409 && !/is paused/iu.test(said))\n  )',
    after: 'statusOf(error) === 404',
    tests: [{ file: TRAPS_TEST, test: 'that is paused may go on; one that was killed or removed is lost' }],
  },
  {
    name: "a container of Podman's that does not run is not taken for lost",
    fault: DAEMON,
    file: 'sandboxes/docker/exec-channel.ts',
    before: 'return !(await isPaused(engine, container));',
    after: 'return false;',
    tests: [{ file: PODMAN_TEST, test: 'that is paused may go on; one that was killed or removed is lost' }],
  },
  {
    name: "a container that Podman has under a sandbox's name is in the way for ever",
    fault: LOST,
    file: 'sandboxes/docker/engine.ts',
    before: 'statusOf(error) === 409 || (statusOf(error) === 500 && /name is already in use/iu.test(String(error)));',
    after: 'statusOf(error) === 409;',
    tests: [{ file: PODMAN_TEST, test: 'adopts a container of ours whose record was lost, where it can be reached' }],
  },
  {
    name: 'a daemon that says nothing is waited for',
    fault: DAEMON,
    file: 'sandboxes/docker/engine.ts',
    before: 'return await Promise.race([work, late]);',
    after: 'return await work;',
    tests: [
      { file: TRAPS_TEST, test: 'that falls silent, in a stream or a call, does not hold anybody up', hangs: true },
    ],
  },
  {
    name: 'a restored sandbox lacks what start made',
    fault: LOST,
    file: 'activities/init/restore.ts',
    before: 'await repeatStart(stepping);',
    after: '',
    tests: [{ file: START_TEST, test: 'has run start again before the recorded calls, and the record of start stays' }],
  },
  {
    name: 'calls whose effects a snapshot holds are run again',
    fault: LOST,
    file: 'activities/agent-run/tool-calls.ts',
    before: 'if (turn <= after) continue;',
    after: '',
    tests: [
      { file: SNAPSHOT_TEST, test: 'is restored from its last snapshot, and only the calls after it are run again' },
    ],
  },
  {
    name: 'a sandbox in which processes run has a snapshot',
    fault: LOST,
    file: 'sandboxes/snapshot.ts',
    before: "return left === '' ? undefined :",
    after: "return left !== '-' ? undefined :",
    tests: [
      { file: SNAPSHOT_TEST, test: 'in which a process ran has no snapshot, and has all its calls run again' },
      { file: SNAPSHOTS_TEST, test: 'a process whose parent has ended' },
    ],
  },
  {
    name: 'a snapshot is taken of sandboxes in which the next turn may have begun',
    fault: LOST,
    file: 'activities/agent-run/snapshots.ts',
    before: 'if (none === CHANGED || (await store.get(keys.generate(attempt, turn + 1))) !== undefined) return;',
    after: 'if (none === CHANGED) return;',
    tests: [{ file: SNAPSHOT_TEST, test: 'if the next turn is recorded: what acts in it may have begun' }],
  },
  {
    name: 'sandboxes that an interrupted restore left are mixed with new ones',
    fault: LOST,
    file: 'activities/agent-run/snapshots.ts',
    before: 'if (!there.every(Boolean)) await destroyAll(specs, provider);',
    after: 'if (there.length === 0) await destroyAll(specs, provider);',
    tests: [{ file: SNAPSHOT_TEST, test: 'of which an interrupted restore left some are all made anew' }],
  },
  {
    name: 'what was removed from an image is there again in a restored sandbox',
    fault: LOST,
    file: 'sandboxes/snapshot.ts',
    before: 'await removeAgain(sandbox, snapshot.removed ?? []);',
    after: 'await removeAgain(sandbox, []);',
    tests: [{ file: SWE_TEST, test: 'brings back what was made, changed and removed' }],
  },
  {
    name: 'a snapshot lacks what was written into files of other users',
    fault: LOST,
    file: 'sandboxes/image-changes.ts',
    before: "if (others !== undefined && others !== '')",
    after: "if (others !== undefined && others === '-')",
    tests: [{ file: SWE_TEST, test: 'into a file of another user' }],
  },
  {
    name: 'a snapshot lacks files of other users that were moved',
    fault: LOST,
    file: 'sandboxes/image-changes.ts',
    before: `    each(added, '! -uid "$UID" -print'),\n`,
    after: '',
    tests: [{ file: SWE_TEST, test: 'by moving a file of another user' }],
  },
  {
    name: 'a snapshot ends after its first piece',
    fault: LOST,
    file: 'sandboxes/snapshot-archive.ts',
    before: '    if (end.readUInt32LE() < size) {',
    after: '    if (end.length > 0) {',
    tests: [
      {
        file: SNAPSHOTS_TEST,
        test: 'has the same pieces each time, and nothing stays behind, also of a try that died',
      },
    ],
  },
];
