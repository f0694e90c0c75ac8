/** The set-up as a list of steps, each idempotent and each printed with its time; one set-up at a time per cache. */

import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { installDependencies } from './dependencies.mjs';
import { linkEngine, makeEngineBinding, verifyEngine } from './engine-binding.mjs';
import { engineVariant, makeEngineLibrary } from './engine-library.mjs';
import { cacheDirectory, packageRoot } from './paths.mjs';
import { findNode } from './pinned-node.mjs';
import { checkPrerequisites } from './prerequisites.mjs';
import { withLock } from './process-lock.mjs';
import { projectStep } from './project-step.mjs';
import { makeTemporal } from './temporal.mjs';

/** Does all of it. `say` gets a line per step. Returns the Node that runs the project. */
export async function setUp({ root = packageRoot, cache = cacheDirectory(), env = process.env, say }) {
  const step = timed(say);
  await step('prerequisites', async () => (checkPrerequisites(env), 'all found'));
  const waiting = (holder) => say(`set-up  another set-up (pid ${holder.pid}, since ${holder.since}) is at work: waiting`);
  return withLock(join(cache, 'setup.lock'), waiting, async () => {
    // With the lock held, a download that is there was cut short.
    rmSync(join(cache, 'downloads'), { recursive: true, force: true });
    await step('dependencies', () => installDependencies(root));
    const node = await step('node', async () => requiredNode(root), (found) => `${found.version}${found.pinned ? '' : ' (not the pinned one)'}`);
    const library = await step('engine library', () => makeEngineLibrary(cache, engineVariant(env)), (made) => Object.keys(made.wheels)[0]);
    const binding = await step('engine binding', () => makeEngineBinding(root, library), () => 'built for this library');
    await step('engine', async () => {
      const swapped = linkEngine(root, library, binding);
      return `TensorFlow ${await verifyEngine(root, node, binding)}${swapped ? ', linked' : ''}`;
    });
    await projectSteps({ root, cache, node, step });
    await step('temporal', () => makeTemporal(cache, env));
    return node;
  });
}

async function projectSteps({ root, cache, node, step }) {
  const words = (done) => (done.cached ? 'as its sources' : 'made');
  const call = (module, name, inputs, args) => () => projectStep({ root, cache, node, module, name, inputs, args });
  if (existsSync(join(root, 'sandboxes/supervisor/build.ts'))) {
    const made = call('sandboxes/supervisor/build.ts', 'buildSupervisor', ['sandboxes/supervisor'], [join(cache, 'supervisor')]);
    await step('sandbox supervisor', made, words);
  }
  if (existsSync(join(root, 'workers/workflow-bundle.ts'))) {
    const inputs = ['workflows', 'agents', 'tasks', 'trainer', 'store', 'package-lock.json'];
    await step('workflow bundle', call('workers/workflow-bundle.ts', 'buildWorkflowBundle', inputs), words);
  }
}

function requiredNode(root) {
  const node = findNode(root);
  if (node === undefined) throw new Error(`no Node >= 22.18 for ${process.platform} on ${process.arch} among the dependencies`);
  return node;
}

function timed(say) {
  return async (name, work, words = (result) => result) => {
    const start = performance.now();
    const result = await work();
    const seconds = ((performance.now() - start) / 1000).toFixed(1);
    say(`set-up  ${name.padEnd(20)} ${seconds.padStart(6)} s   ${words(result)}`);
    return result;
  };
}
