/**
 * `node scripts/swe-images.ts BASE RECIPES [TAG]`: builds an image of each recipe in the folder RECIPES, without a
 * network, on the image BASE (Debian or Ubuntu with python3, python3-venv, python3-pip, git and procps). TAG is
 * `longhaul-swe/{instance_id}` by default; docs/tasks/swe-bench.md says what a recipe is.
 */

import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { installRecipe, RECIPE } from '../tasks/swe-bench/prepare.ts';

const WORKDIR = '/testbed';
const VENV = '/venv';

const [base, recipes, tag = 'longhaul-swe/{instance_id}'] = process.argv.slice(2);
if (base === undefined || recipes === undefined) {
  process.stderr.write('usage: node scripts/swe-images.ts BASE RECIPES [TAG]\n');
  process.exit(2);
}

const dockerfile = (from: string): string =>
  [`FROM ${from}`, `COPY . ${RECIPE}/`, `RUN mkdir -p ${WORKDIR} && bash -eu ${RECIPE}/install.sh`, ''].join('\n');

function build(id: string, from: string, folder: string): string {
  const image = tag.replaceAll('{instance_id}', id).toLowerCase();
  const context = mkdtempSync(join(tmpdir(), 'longhaul-recipe-'));
  try {
    cpSync(join(folder, id), context, { recursive: true });
    writeFileSync(join(context, 'Dockerfile'), dockerfile(from));
    writeFileSync(join(context, 'install.sh'), installRecipe(WORKDIR, VENV));
    writeFileSync(join(context, '.dockerignore'), 'Dockerfile\n.dockerignore\n');
    const { status } = spawnSync('docker', ['build', '--network', 'none', '--tag', image, context], {
      stdio: ['ignore', 'inherit', 'inherit'],
      // Debian's client has no builder of its own.
      env: { DOCKER_BUILDKIT: '0', ...process.env },
    });
    if (status !== 0)
      throw new Error(`the image of ${id} was not built: docker build ended with ${status ?? 'a signal'}`);
    return image;
  } finally {
    rmSync(context, { recursive: true, force: true });
  }
}

for (const id of readdirSync(recipes).toSorted()) process.stdout.write(`${build(id, base, recipes)}\n`);
