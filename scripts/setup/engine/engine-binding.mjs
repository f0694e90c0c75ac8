/**
 * The engine's native code: the package's binding against TensorFlow's library and, beside it, the sampler's decoder;
 * linked in place.
 */

import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync } from 'node:fs';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { run } from '../command.mjs';
import { hashInputs, makeDirectoryOnce, readJson, swapLink, writeWhole } from '../files.mjs';
import { findEngine } from './engine-package.mjs';
import { cacheDirectory, dependencyDirectory } from '../paths.mjs';
import { compiler } from '../steps/prerequisites.mjs';

/**
 * AVX2 and FMA, as every x86-64 server has had for ten years; products are added without rounding between, everywhere.
 */
const DECODER_FLAGS = [
  '-O3',
  '-std=c++17',
  '-ffp-contract=fast',
  '-fno-math-errno',
  ...(process.arch === 'x64' ? ['-march=x86-64-v3'] : []),
];

/**
 * Builds the binding once for this library, these sources (`source`: the engine's package) and this compiler line.
 * Returns the folder that holds it.
 */
export async function makeEngineBinding(root, source, library) {
  const headers = requiredPackage(root, 'node-api-headers');
  const decoder = join(root, 'trainer', 'native');
  const inputs = [
    [source, 'binding'],
    [headers, 'include'],
    [root, 'trainer/native'],
  ]
    .map(([base, name]) => hashInputs([join(base, name)], base))
    .join();
  const key = createHash('sha256')
    .update(inputs)
    .update(JSON.stringify([library.wheels, DECODER_FLAGS]))
    .digest('hex')
    .slice(0, 16);
  // The binding looks for the library at ../../deps/lib from itself, in the cache as in the package.
  const path = join(library.path, '..', `lib-${key}`);
  await makeDirectoryOnce(path, async (aside) => {
    const out = join(aside, 'napi-v8');
    mkdirSync(out);
    await run(compiler(), compilerArguments(source, headers, library.path, join(out, 'tfjs_binding.node')));
    await run(compiler(), decoderArguments(decoder, headers, join(out, 'longhaul_decoder.node')));
    return { inputs };
  });
  return path;
}

/** Points the package at the library and the binding. Returns whether anything changed. */
export function linkEngine(source, library, binding) {
  const deps = swapLink(library.path, join(source, 'deps'));
  return swapLink(binding, join(source, 'lib')) || deps;
}

/** Loads the binding once for each build of it and Node. Returns TensorFlow's version. */
export async function verifyEngine(source, node, binding) {
  const path = join(binding, `verified-${process.platform}-node-${node.version}.json`);
  const known = readJson(path);
  if (known !== undefined) return known.version;
  const version = versionIn(await run(node.path, ['-e', VERIFY, source], childOptions(process.env)));
  writeWhole(path, JSON.stringify({ version }));
  return version;
}

/** Loads the binding in a child; TensorFlow's version, or `undefined` when it does not load or multiplies wrongly. */
export function loadEngine(root, node, env = process.env) {
  const source = findEngine(root, cacheDirectory(env));
  if (source === undefined) return undefined;
  const result = spawnSync(node.path, ['-e', VERIFY, source], {
    ...childOptions(env),
    encoding: 'utf8',
    timeout: 60_000,
  });
  try {
    return versionIn(result.stdout);
  } catch {
    return undefined;
  }
}

function childOptions(env) {
  return { env: { ...env, TF_CPP_MIN_LOG_LEVEL: '2' } };
}

function versionIn(printed) {
  const found = JSON.parse(printed.trim().split('\n').at(-1));
  if (found.product.join() !== '19,22,43,50') throw new Error(`the engine multiplied wrongly: ${found.product}`);
  return found.version;
}

function compilerArguments(source, headers, library, out) {
  const sources = readdirSync(join(source, 'binding'))
    .filter((name) => name.endsWith('.cc'))
    .sort();
  return [
    '-shared',
    '-fPIC',
    '-O2',
    '-std=c++17',
    '-DNAPI_VERSION=8',
    `-I${join(source, '..')}`,
    `-I${source}`,
    `-I${join(library, 'include')}`,
    `-I${join(headers, 'include')}`,
    ...sources.map((name) => join(source, 'binding', name)),
    '-o',
    out,
    `-L${join(library, 'lib')}`,
    '-l:libtensorflow.so.2',
    '-l:libtensorflow_framework.so.2',
    '-Wl,-rpath,$ORIGIN/../../deps/lib',
  ];
}

function decoderArguments(source, headers, out) {
  return [
    '-shared',
    '-fPIC',
    ...DECODER_FLAGS,
    '-DNAPI_VERSION=8',
    `-I${join(headers, 'include')}`,
    join(source, 'binding.cc'),
    '-o',
    out,
    '-pthread',
  ];
}

function requiredPackage(root, name) {
  const directory = dependencyDirectory(name, root);
  if (directory === undefined) throw new Error(`the package ${name} is not installed`);
  return directory;
}

/** The library was written for an older Node: two helpers that it calls are put back first. */
const VERIFY = `
const util = require('util');
util.isNullOrUndefined ??= (value) => value === null || value === undefined;
util.isArray ??= Array.isArray;
console.log = console.info = () => {};
const tf = require(process.argv[1]);
const product = tf.matMul(tf.tensor2d([[1, 2], [3, 4]]), tf.tensor2d([[5, 6], [7, 8]]));
const version = tf.backend().binding.TF_Version;
process.stdout.write(JSON.stringify({ version, product: Array.from(product.dataSync()) }) + '\\n');
`;
