/** The set-up as a list of idempotent steps, each reported with its time. Only one set-up runs per cache at a time. */

import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { installDependencies } from './dependencies.mjs';
import { linkEngine, makeEngineBinding, verifyEngine } from '../engine/engine-binding.mjs';
import { engineVariant, makeEngineLibrary } from '../engine/engine-library.mjs';
import { makeEnginePackage } from '../engine/engine-package.mjs';
import { cacheDirectory, packageRoot } from '../paths.mjs';
import { findNode } from '../pinned-node.mjs';
import { checkPrerequisites } from './prerequisites.mjs';
import { withLock } from '../process-lock.mjs';
import { projectStep } from './project-step.mjs';
import { makeTemporal } from '../temporal/temporal.mjs';

/** Runs all steps. `say` gets a line per step, `onStep` the same as data. Returns the Node that runs the project. */
export async function setUp({
  root = packageRoot,
  cache = cacheDirectory(),
  env = process.env,
  say,
  onStep = () => undefined,
}) {
  const step = timed(say, onStep);
  await step('prerequisites', async () => (checkPrerequisites(env), 'all found'));
  const waiting = (holder) =>
    say(`set-up  waiting: another set-up is running (pid ${holder.pid}, since ${holder.since})`);
  return withLock(join(cache, 'setup.lock'), waiting, async () => {
    // This process has the lock: downloads that exist now were interrupted.
    rmSync(join(cache, 'downloads'), { recursive: true, force: true });
    await step('dependencies', () => installDependencies(root));
    const node = await step(
      'node',
      async () => requiredNode(root),
      (found) => `${found.version}${found.pinned ? '' : ' (not the pinned one)'}`,
    );
    const library = await step(
      'engine library',
      () => makeEngineLibrary(cache, engineVariant(env)),
      (made) => Object.keys(made.wheels)[0],
    );
    const source = await step(
      'engine package',
      () => makeEnginePackage(root, cache, library),
      () => 'as locked',
    );
    const binding = await step(
      'engine binding',
      () => makeEngineBinding(root, source, library),
      () => 'built for this library',
    );
    await step('engine', async () => {
      const swapped = linkEngine(source, library, binding);
      return `TensorFlow ${await verifyEngine(source, node, binding)}${swapped ? ', linked' : ''}`;
    });
    await projectSteps({ root, cache, node, step });
    await step('temporal', () => makeTemporal(cache, env));
    return node;
  });
}

/** A clone runs TypeScript directly, an installed package its built JavaScript. */
async function projectSteps({ root, cache, node, step }) {
  const words = (done) => (done.cached ? 'as its sources' : 'made');
  const isClone = existsSync(join(root, 'workers', 'workflow-bundle.ts'));
  const module = (name) => (isClone ? `${name}.ts` : join('dist', `${name}.js`));
  const call = (name, of, inputs, args) => () =>
    projectStep({ root, cache, node, module: module(of), name, inputs, args });
  await step(
    'sandbox supervisor',
    call('buildSupervisor', 'sandboxes/supervisor/build', ['sandboxes/supervisor'], [join(cache, 'supervisor')]),
    words,
  );
  const inputs = isClone ? ['protocol', 'workflows', 'package-lock.json'] : ['dist', 'package.json'];
  await step('workflow bundle', call('buildWorkflowBundle', 'workers/workflow-bundle', inputs), words);
}

function requiredNode(root) {
  const node = findNode(root);
  if (node === undefined)
    throw new Error(`the dependencies contain no Node >= 22.18 for ${process.platform} on ${process.arch}`);
  return node;
}

function timed(say, onStep) {
  return async (name, work, words = (result) => result) => {
    const start = performance.now();
    const result = await work();
    const seconds = (performance.now() - start) / 1000;
    say(`set-up  ${name.padEnd(20)} ${seconds.toFixed(1).padStart(6)} s   ${words(result)}`);
    onStep({ name, seconds, result: words(result) });
    return result;
  };
}
