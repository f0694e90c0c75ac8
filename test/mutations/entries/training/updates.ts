/** Updates that are made once, and to the same bits. */

import type { Mutation } from '../../mutation.ts';

const KILLED = 'the GPU worker is killed during an update';
const AT_ONCE = 'two executions of one update end at the same time, or one comes late';
const ENGINE = "the engine's thread dies";
const FAILED =
  'an update fails on all its tries (a full disk, an engine that dies each time, a torn checkpoint), or a record of the run does';
const BY_HAND = 'one batch of a run, or one group, is terminated or cancelled by hand';
const OTHER_ROLLOUTS =
  'a run ends in the middle of an update and is started again, and its step trains on other rollouts';
const UPDATE_INPUT_TEST = 'test/activities/update/update-input.test.ts';
const HELD_WORK_TEST = 'test/workflows/failures/held-work.test.ts';
const UPDATE_TEST = 'test/trainer/update.test.ts';
const SHARDED_UPDATER_TEST = 'test/trainer/sharded/sharded-updater.test.ts';
const LOST_CRITIC_PARTS_TEST = 'test/trainer/sharded/lost-critic-parts.test.ts';
const EMBEDDED_ENGINE_TEST = 'test/trainer/sampler/embedded-engine.test.ts';
const ENDING_WHEN_LOST_TEST = 'test/workers/ending-when-lost.test.ts';

export const updates: readonly Mutation[] = [
  {
    name: 'what a killed attempt left stays',
    fault: KILLED,
    file: 'trainer/checkpoints/checkpoint.ts',
    before: 'await removePartials(dir);\n',
    after: '',
    tests: [{ file: UPDATE_TEST, test: 'files of a killed attempt are neither used as a checkpoint nor kept' }],
  },
  {
    name: 'a finished update is made again',
    fault: KILLED,
    file: 'trainer/update.ts',
    before: 'if (recorded !== undefined && isMadeFrom(recorded, request.input)) {',
    after: "if (recorded !== undefined && request.toDir === '') {",
    tests: [{ file: UPDATE_TEST, test: 'a repeated update trains nothing and returns the recorded metrics' }],
  },
  {
    name: 'moments begin at zero in each process',
    fault: KILLED,
    file: 'trainer/resident-policy.ts',
    before: 'return known === undefined ? AdamW.fresh(layout) : AdamW.load(layout, known.moments, known.steps);',
    after: 'return known === undefined ? AdamW.fresh(layout) : AdamW.fresh(layout);',
    tests: [{ file: UPDATE_TEST, test: 'four updates in one process end in the same bits as four in four' }],
  },
  {
    name: 'an update shuffles otherwise each time',
    fault: KILLED,
    file: 'trainer/training/prepare-update.ts',
    before: 'const epochs = planUpdate(items, algorithm, `update ${toVersion}`, shards);',
    after: 'const epochs = planUpdate(items, algorithm, `update ${toVersion} ${Math.random()}`, shards);',
    tests: [{ file: UPDATE_TEST, test: 'four updates in one process end in the same bits as four in four' }],
  },
  {
    name: 'a checkpoint is written in place',
    fault: AT_ONCE,
    file: 'trainer/checkpoints/checkpoint.ts',
    before: '=> `${dir}.partial-${process.pid}-${Math.random().toString(36).slice(2)}`;',
    after: '=> dir;',
    tests: [{ file: UPDATE_TEST, test: 'a later attempt changes no byte of the checkpoint that an earlier one wrote' }],
  },
  {
    name: 'of two plans that are ready at once the last one stands',
    fault: AT_ONCE,
    file: 'trainer/sharded/sealed-file.ts',
    before: 'await link(aside, file);',
    after: 'await rename(aside, file);',
    tests: [
      {
        file: SHARDED_UPDATER_TEST,
        test: 'two workers whose plans are ready at the same moment both receive the plan that is kept',
      },
    ],
  },
  {
    name: 'an update that comes late clears away the one after it',
    fault: AT_ONCE,
    file: 'activities/update/update.ts',
    before: 'clearUpdates(input.runDir, step)',
    after: 'clearUpdates(input.runDir)',
    tests: [
      {
        file: 'test/activities/update/sharded-update.test.ts',
        test: 'that is asked for once more, late, leaves what was made of the step after it',
      },
    ],
  },
  {
    name: 'a part whose step another execution has taken fails',
    fault: AT_ONCE,
    file: 'trainer/sharded/lost-state.ts',
    before: 'if (await isDone(at, round).catch(() => false)) return;\n',
    after: '',
    tests: [
      {
        file: LOST_CRITIC_PARTS_TEST,
        test: 'that another worker has taken meanwhile, with what it was reading cleared away, is over',
      },
    ],
  },
  {
    name: 'a shard that is there is made again',
    fault: KILLED,
    file: 'trainer/sharded/sharded-updater.ts',
    before: 'if ((await isDone(at, round)) || (await this.#shard(at, round, shard)) !== undefined) return;',
    after: 'if (await isDone(at, round)) return;',
    tests: [{ file: SHARDED_UPDATER_TEST, test: 'an existing shard is not made again, and a torn one is' }],
  },
  {
    name: 'what a killed step has left stays until the update ends',
    fault: KILLED,
    file: 'trainer/sharded/sharded-updater.ts',
    before: 'await this.#clear(at, round);\n',
    after: '',
    tests: [
      { file: SHARDED_UPDATER_TEST, test: 'files left by a step that was killed after writing its state are removed' },
    ],
  },
  {
    name: 'who comes second fails',
    fault: AT_ONCE,
    file: 'trainer/checkpoints/checkpoint.ts',
    before: 'if (first !== undefined && isMadeFrom(first, record.input)) return { record: first, written: false };',
    after: '',
    tests: [{ file: UPDATE_TEST, test: 'two attempts at once: one is written, both report it' }],
  },
  {
    name: 'who comes second reports its own weights',
    fault: AT_ONCE,
    file: 'trainer/checkpoints/checkpoint.ts',
    before: 'return { record: first, written: false };',
    after: 'return { record, written: false };',
    tests: [{ file: UPDATE_TEST, test: 'a later attempt changes no byte of the checkpoint that an earlier one wrote' }],
  },
  {
    name: 'what came second stays aside',
    fault: AT_ONCE,
    file: 'trainer/checkpoints/checkpoint.ts',
    before: 'await rm(aside, { recursive: true, force: true });\n    const first',
    after: 'const first',
    tests: [{ file: UPDATE_TEST, test: 'a later attempt changes no byte of the checkpoint that an earlier one wrote' }],
  },
  {
    name: 'an update that failed on all its tries ends the run',
    fault: FAILED,
    file: 'workflows/training/run-pause.ts',
    before: 'this.#breaks && !CancellationScope',
    after: 'this.#breaks && CancellationScope',
    tests: [
      {
        file: HELD_WORK_TEST,
        test: 'an update that failed on all its attempts pauses a run (sync), shows why, and is made again once',
      },
      {
        file: 'test/workflows/failures/held-update.test.ts',
        test: 'an update that met a torn checkpoint on all its attempts ends in the same weights',
      },
    ],
  },
  {
    name: 'a record that failed on all its tries ends the run',
    fault: FAILED,
    file: 'workflows/training/training.ts',
    before:
      'this.untilMended(`the record of step ${step}`, () =>\n      orchestrator.recordStep({ ...this.folder, record, policy, sha256, keep, workedMs: this.workedMs, ...overlap }),\n    ',
    after:
      'orchestrator.recordStep({ ...this.folder, record, policy, sha256, keep, workedMs: this.workedMs, ...overlap }',
    tests: [{ file: HELD_WORK_TEST, test: 'recordStep that is not made within its day pauses the run' }],
  },
  {
    name: 'an update that no retry mends is waited for',
    fault: FAILED,
    file: 'workflows/failures/mendable.ts',
    before: "retryState === 'NON_RETRYABLE_FAILURE' &&",
    after: "retryState === 'CANCEL_REQUESTED' &&",
    tests: [
      { file: HELD_WORK_TEST, test: 'an update that fails for code of the user that throws ends the run', hangs: true },
    ],
  },
  {
    name: "what a loss of one's own throws is the machines' fault",
    fault: FAILED,
    file: 'trainer/algorithms/own-code.ts',
    before: 'if (error instanceof LossRefused) throw error;',
    after: 'if (error instanceof Error) throw error;',
    tests: [{ file: 'test/trainer/algorithms/own-code.test.ts', test: "an error of a user's own loss is final" }],
  },
  {
    name: 'a batch that was ended by hand ends its run',
    fault: BY_HAND,
    file: 'workflows/training/training.ts',
    before: 'await this.untilMended(`the batch ${drawn.name}`, () => this.#batches.rollOut(given, step));',
    after: 'await this.#batches.rollOut(given, step);',
    tests: [{ file: HELD_WORK_TEST, test: 'a run (sync) whose step-1 somebody ends by hand (terminate)' }],
  },
  {
    name: 'a group that was cancelled ends its run',
    fault: BY_HAND,
    file: 'workflows/training/overlap/async-pipeline.ts',
    before: 'if (mendable && this.#host.breaks && !this.#closing) {',
    after: 'if (mendable && this.#host.breaks && this.#closing) {',
    tests: [{ file: HELD_WORK_TEST, test: 'a run (async) whose group-2 somebody ends by hand (cancel)' }],
  },
  {
    name: 'a batch that is a unit does not report that it was cancelled',
    fault: BY_HAND,
    file: 'workflows/batch/report-batch-end.ts',
    before: 'await report(notRolledOut(unit, error));',
    after: 'void notRolledOut(unit, error);',
    tests: [{ file: HELD_WORK_TEST, test: 'a run (async) whose group-2 somebody ends by hand (cancel)' }],
  },
  {
    name: 'a group that was cancelled is not begun again',
    fault: BY_HAND,
    file: 'workflows/training/overlap/async-pipeline.ts',
    before: 'if (!(await isThere())) return false;\n      await sleep',
    after: 'if (!(await isThere())) return true;\n      await sleep',
    tests: [{ file: HELD_WORK_TEST, test: 'a run (async) whose group-2 somebody ends by hand (cancel)', hangs: true }],
  },
  {
    name: 'weights of other rollouts are taken for those of the step',
    fault: OTHER_ROLLOUTS,
    file: 'trainer/checkpoints/checkpoint.ts',
    before: 'input === undefined || record.input === input;',
    after: 'input === undefined || record.version >= 0;',
    tests: [
      {
        file: UPDATE_INPUT_TEST,
        test: 'is used if it was made from the same rollouts, and made again if it was made from others',
      },
      { file: UPDATE_INPUT_TEST, test: 'is made again by shards too' },
    ],
  },
  {
    name: 'weights that are on record are made again',
    fault: OTHER_ROLLOUTS,
    file: 'activities/update/update-input.ts',
    before: 'if ((await store.get(keys.update(run, step))) === undefined) await',
    after: 'if ((await store.get(keys.update(run, step))) !== null) await',
    tests: [{ file: UPDATE_INPUT_TEST, test: 'of an update that was recorded meanwhile stays' }],
  },
  {
    name: 'what is in the place of a recorded update is used, whatever it is',
    fault: OTHER_ROLLOUTS,
    file: 'activities/update/update-input.ts',
    before: 'there !== undefined && there.sha256 !== sha256',
    after: "there !== undefined && there.sha256 === ''",
    tests: [{ file: UPDATE_INPUT_TEST, test: 'is refused if another one is recorded' }],
  },
  {
    name: 'what waits for a thread that ended waits on',
    fault: ENGINE,
    file: 'trainer/embedded/embedded-engine.ts',
    before: 'for (const { reject } of this.#pending.values()) reject(this.#lost);\n',
    after: '',
    tests: [{ file: EMBEDDED_ENGINE_TEST, test: 'fails waiting and later requests with EngineLost', hangs: true }],
  },
  {
    name: 'a thread that ended is asked all the same',
    fault: ENGINE,
    file: 'trainer/embedded/embedded-engine.ts',
    before: 'if (this.#lost !== undefined) {',
    after: 'if (this.#lost !== undefined && this.#next < 0) {',
    tests: [{ file: EMBEDDED_ENGINE_TEST, test: 'fails waiting and later requests with EngineLost', hangs: true }],
  },
  {
    name: 'the process outlives its engine',
    fault: ENGINE,
    file: 'workers/roles/ending-when-lost.ts',
    before: 'if (error instanceof EngineLost) end();',
    after: '',
    tests: [{ file: ENDING_WHEN_LOST_TEST, test: 'ends the process when its thread is gone' }],
  },
  {
    name: 'a run does not hear that its unit was terminated',
    fault: BY_HAND,
    file: 'workflows/training/overlap/units.ts',
    before: 'this.#host.unitEnded({ number',
    after: 'void ({ number',
    tests: [{ file: HELD_WORK_TEST, test: 'a run (async) whose group-2 somebody ends by hand (terminate)' }],
  },
];
