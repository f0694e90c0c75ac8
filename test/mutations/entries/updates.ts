/** Updates that are made once, and to the same bits. */

import type { Mutation } from '../mutation.ts';

const KILLED = 'the GPU worker is killed during an update';
const AT_ONCE = 'two executions of one update end at the same time, or one comes late';
const SHARDS = 'the files of an update in shards are removed or cut short';
const VERSIONS = 'GPU workers of two versions meet in an update in shards';
const ENGINE = "the engine's thread dies";
const TEMPERATURES = 'turns of one update were sampled at different temperatures, or not at 1';
const TEMPERATURE_TEST = 'test/trainer/training/temperature.test.ts';
const FAILED =
  'an update fails on all its tries (a full disk, an engine that dies each time, a torn checkpoint), or a record of the run does';
const BY_HAND = 'one batch of a run, or one group, is terminated or cancelled by hand';
const UNIT = 'the unit of rollouts above a batch is terminated by hand, where rollouts and updates overlap';
const RESTART_TEST = 'test/workflows/training/restart.test.ts';
const OTHER_ROLLOUTS =
  'a run ends in the middle of an update and is started again, and its step trains on other rollouts';
const UPDATE_INPUT_TEST = 'test/activities/update/update-input.test.ts';
const HELD_WORK_TEST = 'test/workflows/failures/held-work.test.ts';
const UPDATE_TEST = 'test/trainer/update.test.ts';
const SHARDED_UPDATER_TEST = 'test/trainer/sharded/sharded-updater.test.ts';
const SHARDED_CRITIC_TEST = 'test/trainer/sharded/sharded-critic.test.ts';
const KNOWN_PLAN_TEST = 'test/trainer/sharded/known-plan.test.ts';
const PLAN_FILE_TEST = 'test/trainer/sharded/plan-file.test.ts';
const GPU_POOL_TEST = 'test/workflows/gpu-pool.test.ts';
const EMBEDDED_ENGINE_TEST = 'test/trainer/sampler/embedded-engine.test.ts';
const ENDING_WHEN_LOST_TEST = 'test/workers/ending-when-lost.test.ts';

export const updates: readonly Mutation[] = [
  {
    name: 'what a killed attempt left stays',
    fault: KILLED,
    file: 'trainer/checkpoints/checkpoint.ts',
    before: 'await removePartials(dir);\n',
    after: '',
    tests: [{ file: UPDATE_TEST, test: 'what a killed attempt left is neither taken for made nor kept' }],
  },
  {
    name: 'a finished update is made again',
    fault: KILLED,
    file: 'trainer/update.ts',
    before: 'if (recorded !== undefined && isMadeFrom(recorded, request.input)) {',
    after: "if (recorded !== undefined && request.toDir === '') {",
    tests: [{ file: UPDATE_TEST, test: 'asked again it trains nothing and returns what was recorded' }],
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
    file: 'trainer/update.ts',
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
    tests: [
      { file: UPDATE_TEST, test: 'an attempt that ends after another one changes no byte of what that one wrote' },
    ],
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
        test: 'of two that have their plans ready at the same moment both are told the one that stands',
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
        file: SHARDED_CRITIC_TEST,
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
    tests: [{ file: SHARDED_UPDATER_TEST, test: 'a shard that is there is not made again, and a torn one is' }],
  },
  {
    name: 'what a killed step has left stays until the update ends',
    fault: KILLED,
    file: 'trainer/sharded/sharded-updater.ts',
    before: 'await this.#clear(at, round);\n',
    after: '',
    tests: [
      {
        file: SHARDED_UPDATER_TEST,
        test: 'what a step that was killed after its state was written has left is cleared away',
      },
    ],
  },
  {
    name: 'a state between two steps that is lost is waited for',
    fault: SHARDS,
    file: 'trainer/sharded/lost-state.ts',
    before: 'if (!(error instanceof CheckpointTorn) || !isOwn(at, error.dir)) throw error;',
    after: 'if (!(error instanceof CheckpointTorn) || isOwn(at, error.dir)) throw error;',
    tests: [{ file: SHARDED_CRITIC_TEST, test: 'a state between two rounds that is lost' }],
  },
  {
    name: 'a state without its record is read as a model that was never trained',
    fault: SHARDS,
    file: 'trainer/sharded/lost-state.ts',
    before: 'if ((await readVerifiedRecord(dir)) === undefined) throw',
    after: "if ((await readVerifiedRecord(dir)) === undefined && dir === '') throw",
    tests: [{ file: SHARDED_CRITIC_TEST, test: "the policy's, without its record: its moments would begin at zero" }],
  },
  {
    name: 'an update whose plan is gone fails its run',
    fault: SHARDS,
    file: 'workflows/training/apply-update.ts',
    before: 'if (!isPlanLost(error) || plans >= PLANS',
    after: 'if (isPlanLost(error) || plans >= PLANS',
    tests: [
      { file: GPU_POOL_TEST, test: 'whose files were taken away half-way is laid down again, three times at most' },
    ],
  },
  {
    name: 'a plan in memory counts though its file is gone',
    fault: SHARDS,
    file: 'trainer/sharded/known-plan.ts',
    before: ' && held.stamp === (await planStamp(dir))) return',
    after: ') return',
    tests: [{ file: KNOWN_PLAN_TEST, test: 'does not go on with its plan where another one took its place' }],
  },
  {
    name: 'a folder that goes while a shard is made is taken for a fault of the disk',
    fault: SHARDS,
    file: 'trainer/sharded/sharded-updater.ts',
    before: 'await checkPlanned(at);\n      throw error;',
    after: 'throw error;',
    tests: [{ file: KNOWN_PLAN_TEST, test: 'finds it out too when that happens while it makes another' }],
  },
  {
    name: 'a plan of another version is read as if it were ours',
    fault: VERSIONS,
    file: 'trainer/sharded/plan-file.ts',
    before: 'if (format !== PLAN_FORMAT) throw',
    after: 'if (format === undefined) throw',
    tests: [{ file: PLAN_FILE_TEST, test: 'of format 2 is refused by all that read it, with what helps' }],
  },
  {
    name: 'a torn shard is added as it is',
    fault: SHARDS,
    file: 'trainer/sharded/sealed-file.ts',
    before: 'if (digest.length < DIGEST_BYTES || !digestOf(content).equals(digest)) return undefined;',
    after: 'if (digest.length < DIGEST_BYTES || content.length < 1000) return undefined;',
    tests: [
      { file: SHARDED_UPDATER_TEST, test: 'makes torn, missing and foreign shards again where they are added up' },
    ],
  },
  {
    name: 'logits are not divided by the temperature',
    fault: TEMPERATURES,
    file: 'trainer/learner.ts',
    before: 'temperatures === undefined ? plain : div(plain, temperatures)',
    after: 'plain',
    tests: [
      { file: TEMPERATURE_TEST, test: 'an update of what was sampled at 0.6 finds the policy that sampled' },
      { file: TEMPERATURE_TEST, test: 'an update of what was sampled at 1.7 finds the policy that sampled' },
    ],
  },
  {
    name: 'gradients are not divided by the temperature',
    fault: TEMPERATURES,
    file: 'trainer/learner.ts',
    before: 'forward.temperatures === undefined ? dHidden : div(dHidden, forward.temperatures)',
    after: 'dHidden',
    tests: [{ file: TEMPERATURE_TEST, test: 'the gradient is that of finite differences' }],
  },
  {
    name: 'passes are not told of temperatures',
    fault: TEMPERATURES,
    file: 'trainer/training/plan.ts',
    before: '...(temperatures && { temperatures })',
    after: '...(temperatures && {})',
    tests: [{ file: TEMPERATURE_TEST, test: 'an update of what was sampled at 0.6 finds the policy that sampled' }],
  },
  {
    name: 'a turn does not say its temperature',
    fault: TEMPERATURES,
    file: 'activities/generate/sample-ids.ts',
    before: '    temperature: sampling.temperature,\n',
    after: '',
    tests: [
      { file: 'test/activities/generate/generate.test.ts', test: 'keeps the temperature 0.6 that it was sampled at' },
    ],
  },
  {
    name: 'what does not say its temperature is taken for 1',
    fault: TEMPERATURES,
    file: 'activities/update/training-data.ts',
    before: 'turns.every(saysTemperature) ? 1 : await configuredTemperature(input, store)',
    after: 'turns.every(saysTemperature) ? 1 : 1 + 0 * (await configuredTemperature(input, store))',
    tests: [
      {
        file: 'test/activities/update/configured-temperature.test.ts',
        test: 'what the run was configured with when the step began',
      },
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
    tests: [
      { file: UPDATE_TEST, test: 'an attempt that ends after another one changes no byte of what that one wrote' },
    ],
  },
  {
    name: 'what came second stays aside',
    fault: AT_ONCE,
    file: 'trainer/checkpoints/checkpoint.ts',
    before: 'await rm(aside, { recursive: true, force: true });\n    const first',
    after: 'const first',
    tests: [
      { file: UPDATE_TEST, test: 'an attempt that ends after another one changes no byte of what that one wrote' },
    ],
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
        test: 'an update that failed on all its tries pauses a run (sync), says why, and is made again once',
      },
      {
        file: 'test/workflows/failures/held-update.test.ts',
        test: 'an update that met a torn checkpoint on all its tries ends in the same weights',
      },
    ],
  },
  {
    name: 'a record that failed on all its tries ends the run',
    fault: FAILED,
    file: 'workflows/training/training.ts',
    before:
      'this.untilMended(`the record of step ${step}`, () =>\n      orchestrator.recordStep({ ...this.folder, record, policy, sha256, keep, ...overlap }),\n    ',
    after: 'orchestrator.recordStep({ ...this.folder, record, policy, sha256, keep, ...overlap }',
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
    tests: [{ file: 'test/trainer/algorithms/own-code.test.ts', test: 'what a loss of one own throws is final' }],
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
    tests: [{ file: HELD_WORK_TEST, test: 'a run (async) whose group-2/unit somebody ends by hand (cancel)' }],
  },
  {
    name: 'a group that was cancelled is not begun again',
    fault: BY_HAND,
    file: 'workflows/training/overlap/async-pipeline.ts',
    before: 'if (!(await isThere())) return false;\n      await sleep',
    after: 'if (!(await isThere())) return true;\n      await sleep',
    tests: [
      { file: HELD_WORK_TEST, test: 'a run (async) whose group-2/unit somebody ends by hand (cancel)', hangs: true },
    ],
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
        test: 'is taken where it was made from the same rollouts, and made again where it was made from others',
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
    tests: [{ file: UPDATE_INPUT_TEST, test: 'of an update that was put on record meanwhile stays' }],
  },
  {
    name: 'what is in the place of a recorded update is used, whatever it is',
    fault: OTHER_ROLLOUTS,
    file: 'activities/update/update-input.ts',
    before: 'there !== undefined && there.sha256 !== sha256',
    after: "there !== undefined && there.sha256 === ''",
    tests: [{ file: UPDATE_INPUT_TEST, test: 'is refused where another one is on record' }],
  },
  {
    name: 'what waits for a thread that ended waits on',
    fault: ENGINE,
    file: 'trainer/embedded/embedded-engine.ts',
    before: 'for (const { reject } of this.#pending.values()) reject(this.#lost);\n',
    after: '',
    tests: [{ file: EMBEDDED_ENGINE_TEST, test: 'fails what waited, and everything after it, as lost', hangs: true }],
  },
  {
    name: 'a thread that ended is asked all the same',
    fault: ENGINE,
    file: 'trainer/embedded/embedded-engine.ts',
    before: 'if (this.#lost !== undefined) {',
    after: 'if (this.#lost !== undefined && this.#next < 0) {',
    tests: [{ file: EMBEDDED_ENGINE_TEST, test: 'fails what waited, and everything after it, as lost', hangs: true }],
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
    fault: UNIT,
    file: 'workflows/training/overlap/units.ts',
    before: 'if (error instanceof ChildWorkflowFailure && error.cause instanceof TerminatedFailure) terminated();',
    after: 'void [error, terminated, ChildWorkflowFailure, TerminatedFailure];',
    tests: [
      { file: RESTART_TEST, test: 'a group that was terminated begins again without being looked for', hangs: true },
    ],
  },
  {
    name: 'a batch does not tell that its unit was terminated',
    fault: UNIT,
    file: 'workflows/batch.ts',
    before: 'await getExternalWorkflowHandle(unitOf)\n    .signal(unitMissedSignal)\n    .catch(() => undefined)',
    after: 'void [getExternalWorkflowHandle, unitMissedSignal]',
    tests: [
      { file: RESTART_TEST, test: 'is told of by its batch', hangs: true },
      {
        file: 'test/workflows/late-words.test.ts',
        test: 'a batch that is cancelled while its last failure is put on record tells the run',
      },
    ],
  },
];
