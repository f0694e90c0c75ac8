/** What each family of records takes for granted: the names of its images, its workspace, and its programs. */

import type { Instance, Source } from './instance.ts';

export interface SourceRules {
  /** Name of the image, by the family's own rule. `undefined`: only the record can say it. */
  image(instance: Instance): string | undefined;
  readonly workdir: string;
  /** Folders of programs, before the system's. */
  readonly path: readonly string[];
  /** What the agent must not see in an image. */
  readonly hidden: readonly string[];
}

const CONDA = ['/opt/miniconda3/envs/testbed/bin', '/opt/miniconda3/condabin', '/opt/miniconda3/bin'];
const inTestbed = { workdir: '/testbed', path: CONDA, hidden: [] };

/** The images that SkyRL takes. Its `EVAL_DOCKER_IMAGE_PREFIX` is the option `image` here. */
const evaluated = ({ id }: Instance): string =>
  `docker.io/xingyaoww/sweb.eval.x86_64.${id.replaceAll('__', '_s_')}`.toLowerCase();

export const RULES: Readonly<Record<Source, SourceRules>> = {
  'swe-bench': { ...inTestbed, image: evaluated },
  'swe-gym': { ...inTestbed, image: evaluated },
  'swe-smith': {
    ...inTestbed,
    image: ({ image }) =>
      image === undefined ? undefined : image.includes('/') ? image : `jyangballin/${image.replaceAll('__', '_1776_')}`,
  },
  'r2e-gym': {
    workdir: '/testbed',
    path: ['/testbed/.venv/bin'],
    hidden: ['/r2e_tests', '/testbed/r2e_tests', '/testbed/run_tests.sh'],
    image: ({ image }) => image,
  },
};

/** What a template may name, in braces. */
export const PLACEHOLDERS = ['instance_id', 'docker_id', 'skyrl_id', 'repo', 'version', 'image_name'] as const;

function valueOf(name: string, { id, repo, version, image = '' }: Instance): string {
  switch (name) {
    case 'docker_id':
      return id.replaceAll('__', '_1776_').toLowerCase();
    case 'skyrl_id':
      return id.replaceAll('__', '_s_').toLowerCase();
    case 'repo':
      return repo.replace('/', '__');
    case 'version':
      return version;
    case 'image_name':
      return image;
    default:
      return id;
  }
}

/** Fills in a template such as `swebench/sweb.eval.x86_64.{docker_id}`. */
export const filled = (template: string, instance: Instance): string =>
  template.replaceAll(/\{([a-z_]+)\}/gu, (_, name: string) => valueOf(name, instance));

/** The names in braces that no template may have. */
export const unknownIn = (template: string): string[] =>
  [...template.matchAll(/\{([^}]*)\}/gu)].flatMap(([, name = '']) =>
    (PLACEHOLDERS as readonly string[]).includes(name) ? [] : [name],
  );

/**
 * A full name in the record counts before the family's rule. Files of other container tools (`.sif`) are no images.
 */
export function imageOf(instance: Instance, template: string | undefined): string | undefined {
  if (template !== undefined) return filled(template, instance);
  const { image, source } = instance;
  const isName = image !== undefined && source !== 'swe-smith' && !image.startsWith('/') && !image.endsWith('.sif');
  return isName ? image : RULES[source].image(instance);
}
