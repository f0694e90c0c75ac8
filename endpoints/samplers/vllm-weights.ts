/**
 * Weights on vLLM: adapters by `/v1/load_lora_adapter` under a name that has the version; whole ones by reloading them
 * while the server is paused, between two labels: one of the push under way, then one of the weights.
 *
 * Source: vllm 0.33.0, vllm/entrypoints/serve/lora, serve/dev/rpc and rl/online. A label is set apart from the weights,
 * so the order makes it true: label of the push, pause, weights, empty cache, label of the weights, resume.
 *
 * A reload that fails leaves the model without weights, and the next sample ends the server (model_loader/reload): it
 * is given those that it was started with, or stays paused.
 */

import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { EndpointError } from '../endpoint-error.ts';
import { adapterName, type Checkpoint, checkUnchanged, outdated } from './checkpoint.ts';
import {
  checkLabels,
  type PushedWeights,
  refuseBackward,
  refuseOtherBase,
  spans,
  checkedAnswer,
  UNKNOWN,
  WrongVersion,
} from './pushed-weights.ts';
import type { SamplerServer } from './sampler-server.ts';

const REMEDY = 'start vLLM 0.33 or later with VLLM_SERVER_DEV_MODE=1, or give an adapter as the checkpoint';
const ADAPTER_REMEDY = 'start vLLM with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1';
const FOLDER_REMEDY = 'give a folder that the server can read (at=), with an adapter of the model that it serves';
const LOADING = 'loading';
const ABANDON_MS = 5000;
/** So often a push says that its process lives. Others wait for half of their patience without a word. */
const RENEW_MS = 400;
const info = z.object({ weight_version: z.string() });
const paused = z.object({ is_paused: z.boolean() });
/** `root` of a model without a parent is what the server was started with. */
const models = z.object({
  data: z.array(z.object({ id: z.string(), root: z.string().nullish(), parent: z.string().nullish() })),
});
const done = z.object({ success: z.boolean() });
const named = z.object({ model: z.string() });
const labelled = z.object({ choices: z.array(z.object({ weight_versions: spans })).min(1) });

const modelsOf = async (server: SamplerServer, signal: AbortSignal) =>
  checkedAnswer(models, await server.get('v1/models', signal), '/v1/models', REMEDY).data;

const namesOf = async (server: SamplerServer, signal: AbortSignal): Promise<string[]> =>
  (await modelsOf(server, signal)).map(({ id }) => id);

async function labelOf(server: SamplerServer, signal: AbortSignal): Promise<string> {
  return checkedAnswer(info, await asked(server.get('weight_info', signal), REMEDY), '/weight_info', REMEDY)
    .weight_version;
}

/** A server without the routes of developers was never given whole weights. */
function noneIfMissing(error: unknown): string {
  if (error instanceof EndpointError && (error.status === 404 || error.status === 405)) return '';
  throw error;
}

/** A route that is missing is a setting of the server: the error says which. vLLM answers 404 for a folder too. */
async function asked<T>(answer: Promise<T>, remedy: string, ofFolder = remedy): Promise<T> {
  return answer.catch((error: unknown) => {
    if (!(error instanceof EndpointError) || (error.status !== 404 && error.status !== 405)) throw error;
    const lacks = /(Not Found|Method Not Allowed)$/.test(error.message);
    const { status } = error;
    throw new EndpointError('protocol', `${error.message}: ${lacks ? remedy : ofFolder}`, { status });
  });
}

async function pushAdapter(server: SamplerServer, checkpoint: Checkpoint, signal: AbortSignal): Promise<void> {
  const name = adapterName(checkpoint);
  for (const one of outdated(await namesOf(server, signal), checkpoint))
    await server.post('v1/unload_lora_adapter', { lora_name: one }, signal).catch(() => signal.throwIfAborted());
  try {
    const body = { lora_name: name, lora_path: checkpoint.folder };
    await asked(server.post('v1/load_lora_adapter', body, signal), ADAPTER_REMEDY, FOLDER_REMEDY);
  } catch (error) {
    // Another process was first, or this one before it was killed.
    if (!(await namesOf(server, signal)).includes(name)) throw error;
  }
  try {
    await checkUnchanged(checkpoint);
  } catch (error) {
    await server
      .post('v1/unload_lora_adapter', { lora_name: name }, AbortSignal.timeout(ABANDON_MS))
      .catch(() => undefined);
    throw error;
  }
}

const rename = (server: SamplerServer, label: string, signal: AbortSignal) =>
  server.post('update_weight_version', { new_version: label }, signal);

const isOf = (label: string | undefined, mark: string): boolean =>
  label === mark || label?.startsWith(`${mark} `) === true;

const reload = (server: SamplerServer, folder: string, signal: AbortSignal) =>
  server.post('collective_rpc', { method: 'reload_weights', kwargs: { weights_path: folder } }, signal);

/** Ends without a label of the weights if another push has begun: that one is complete or is repeated. */
async function pushWhole(server: SamplerServer, checkpoint: Checkpoint, signal: AbortSignal): Promise<void> {
  const mark = `${LOADING} ${checkpoint.label} ${randomBytes(6).toString('hex')}`;
  const push = { hasReloaded: false };
  try {
    await loadBetweenLabels(server, checkpoint, mark, push, signal);
  } catch (error) {
    if (await abandon(server, mark, push.hasReloaded, signal)) throw error;
    const { message } = error as Error;
    throw new EndpointError(
      'unavailable',
      `${message}: ${server.address} stays paused, since it could not be given the weights that it was started with. ` +
        'Start it again, or give a checkpoint that it can load',
      { cause: error },
    );
  }
}

/**
 * The next caller need not wait for this push, and the server's other callers are answered again: by the weights
 * that it was started with, if others were to be loaded. They are of no version, and no policy uses them. `false` if
 * the server must not sample, and stays paused. What it does not take is left to those who come next, and wait.
 */
async function abandon(
  server: SamplerServer,
  mark: string,
  hasReloaded: boolean,
  signal: AbortSignal,
): Promise<boolean> {
  const brief = AbortSignal.timeout(ABANDON_MS);
  if (!isOf(await labelOf(server, brief).catch(() => undefined), mark)) return true;
  // Who gave up the push does not wait as long as a load may take.
  const own = signal.aborted ? brief : signal;
  const isWhole = !hasReloaded || (await renewing(server, mark, own, restored(server, own)));
  const last = AbortSignal.timeout(ABANDON_MS);
  if (!isOf(await labelOf(server, last).catch(() => undefined), mark)) return true;
  await rename(server, UNKNOWN, last).catch(() => undefined);
  if (isWhole) await server.post('resume', {}, last).catch(() => undefined);
  return isWhole;
}

/** Whether the server has the weights again that it was started with. */
async function restored(server: SamplerServer, signal: AbortSignal): Promise<boolean> {
  try {
    const first = (await modelsOf(server, signal)).find(({ parent }) => typeof parent !== 'string')?.root;
    if (typeof first !== 'string') return false;
    await reload(server, first, signal);
    await server.post('reset_prefix_cache', {}, signal);
    return true;
  } catch {
    return false;
  }
}

/**
 * Does `work`, and meanwhile changes the label's last word, so that those who wait see that the push continues. Ends
 * when no such change is under way. A label of another push is left as it is.
 */
async function renewing<T>(server: SamplerServer, mark: string, signal: AbortSignal, work: Promise<T>): Promise<T> {
  const ended = new AbortController();
  const renew = async (): Promise<void> => {
    for (let n = 1; ; n += 1) {
      await sleep(RENEW_MS, undefined, { signal: ended.signal });
      // A server that cannot answer now cannot answer those who wait either.
      const label = await labelOf(server, signal).catch(() => undefined);
      if (isOf(label, mark) && !ended.signal.aborted)
        await rename(server, `${mark} ${n}`, signal).catch(() => undefined);
    }
  };
  const renewals = renew().catch(() => undefined);
  try {
    return await work;
  } finally {
    ended.abort();
    await renewals;
  }
}

async function loadBetweenLabels(
  server: SamplerServer,
  checkpoint: Checkpoint,
  mark: string,
  push: { hasReloaded: boolean },
  signal: AbortSignal,
): Promise<void> {
  const { folder, label } = checkpoint;
  await rename(server, mark, signal);
  // Both last: the first one until all answers under way are complete.
  await renewing(server, mark, signal, server.post('pause?mode=wait', {}, signal));
  if (!isOf(await labelOf(server, signal), mark)) return;
  push.hasReloaded = true;
  await renewing(server, mark, signal, reload(server, folder, signal));
  await checkUnchanged(checkpoint);
  const { success } = checkedAnswer(
    done,
    await server.post('reset_prefix_cache', {}, signal),
    '/reset_prefix_cache',
    REMEDY,
  );
  if (!success) throw new EndpointError('unavailable', `${server.address} kept its prefix cache of earlier weights`);
  if (!isOf(await labelOf(server, signal), mark)) {
    // Which weights were loaded last is unknown: nobody may take them for those of the other push.
    await rename(server, UNKNOWN, signal);
    return;
  }
  await rename(server, label, signal);
  await server.post('resume', {}, signal);
}

export const vllmWeights: PushedWeights = {
  async look(server, checkpoint, signal) {
    if (checkpoint.isAdapter) {
      const base = await labelOf(server, signal).catch(noneIfMissing);
      refuseOtherBase(base.split(' ')[1] ?? base, checkpoint, server);
      return (await namesOf(server, signal)).includes(adapterName(checkpoint))
        ? { is: 'ready' }
        : { is: 'behind', has: 'no such adapter' };
    }
    const has = await labelOf(server, signal);
    refuseBackward(has, checkpoint, server);
    if (has.startsWith(`${LOADING} `)) return { is: 'loading', mark: has };
    if (has !== checkpoint.label) return { is: 'behind', has };
    // A push that was killed after its last label left it paused.
    const { is_paused: isPaused } = checkedAnswer(paused, await server.get('is_paused', signal), '/is_paused', REMEDY);
    if (isPaused) await server.post('resume', {}, signal);
    return { is: 'ready' };
  },

  push: (server, checkpoint, signal) =>
    checkpoint.isAdapter ? pushAdapter(server, checkpoint, signal) : pushWhole(server, checkpoint, signal),

  request: (checkpoint) =>
    checkpoint.isAdapter ? { model: adapterName(checkpoint) } : { return_weight_versions: true },

  check(answer, checkpoint) {
    if (checkpoint.isAdapter) {
      const { model } = checkedAnswer(named, answer, 'the completion', ADAPTER_REMEDY);
      if (model !== adapterName(checkpoint)) throw new WrongVersion(`${model} sampled the answer`);
      return;
    }
    const { choices } = checkedAnswer(labelled, answer, 'the completion', REMEDY);
    const labels = choices.flatMap(({ weight_versions: all }) => all);
    checkLabels(labels, checkpoint);
    if (labels.length === 0) throw new WrongVersion('the server does not say which weights sampled the answer');
  },
};
