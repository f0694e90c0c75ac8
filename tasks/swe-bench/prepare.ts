/**
 * The set-up of a sandbox: its repository is built anew from one commit. It holds what that commit reaches and nothing
 * else: no remote, no later commit, no reference but the branch and tags of earlier commits, no log of references, no
 * hook and no setting of the image. What the image changed after that commit is a commit of its own on top of it, so
 * that a diff against the top has the agent's changes alone. The agent's and the grader's sandboxes are set up alike.
 */

import { quoteForShell } from '../../agents/tools/search.ts';
import type { Instance } from './instance.ts';

/** File within `.git` that names the commit that the agent starts from. */
export const START = 'longhaul-start';
/** Folder of a recipe's files in a sandbox; its environment is beside it. The collection of a diff empties /tmp. */
export const RECIPE = '/tmp/recipe';
export const RECIPE_VENV = '/tmp/venv';
/** Where a bug's patch is, until the set-up has applied it. */
export const BUG = '/tmp/bug.diff';

/** `keep`: the commits before. `squash`: one commit without parents. */
export type History = 'keep' | 'squash';

const IDENTITY = [
  'export GIT_AUTHOR_NAME=longhaul GIT_AUTHOR_EMAIL=longhaul@localhost GIT_AUTHOR_DATE=2024-01-01T00:00:00Z',
  'export GIT_COMMITTER_NAME=longhaul GIT_COMMITTER_EMAIL=longhaul@localhost GIT_COMMITTER_DATE=2024-01-01T00:00:00Z',
  'export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_ATTR_NOSYSTEM=1 GIT_CONFIG_COUNT=0',
].join('\n');

/** Copies the commits that `BASE` reaches; says in `$base` which commit that is, empty if there is none. */
const KEEP = [
  'base=$(git --git-dir="$old" rev-parse --verify --quiet "$BASE^{commit}" 2>/dev/null || true)',
  'if [ -n "$base" ]; then',
  '  if [ -f "$old/shallow" ]; then cp "$old/shallow" "$new/shallow"; fi',
  '  if printf "%s\\n" "$base" | git --git-dir="$old" pack-objects --revs --quiet --delta-base-offset ' +
    '--threads=1 "$new/objects/pack/pack" >/dev/null 2>&1; then',
  '    git --git-dir="$old" for-each-ref --merged="$base" ' +
    "--format='%(if)%(*objectname)%(then)%(*objectname)%(else)%(objectname)%(end) %(refname)' refs/tags " +
    '2>/dev/null > "$new/packed-refs" || rm -f "$new/packed-refs"',
  '  else base=; rm -rf "$new/objects/pack" "$new/shallow"; mkdir "$new/objects/pack"; fi',
  'fi',
].join('\n');

/** Everything in the workspace is one commit on top of `$base`, unless it equals it. */
const COMMIT = [
  'find . -mindepth 2 -name .git -not -path "./.git/*" -prune -exec rm -rf {} +',
  'rm -rf .git && mv "$new" .git',
  'if [ -n "$base" ]; then git read-tree "$base"; fi',
  'git add -A >/dev/null 2>&1',
  'tree=$(git write-tree)',
  'if [ -z "$base" ] || [ "$tree" != "$(git rev-parse "$base^{tree}")" ]; then',
  '  base=$(git commit-tree "$tree" ${base:+-p "$base"} -m "State of the environment")',
  'fi',
  'git update-ref refs/heads/main "$base"',
  'rm -rf .git/logs .git/FETCH_HEAD .git/ORIG_HEAD',
  `printf "%s\\n" "$base" > .git/${START}`,
].join('\n');

/** Commits that are stored, but not before the start: there is none by construction, and this says so. */
const VERIFY = [
  'stored=$(git cat-file --batch-all-objects --batch-check="%(objecttype)" | grep -c "^commit$" || true)',
  'reached=$(git rev-list --count "$base")',
  'tags=$(git cat-file --batch-all-objects --batch-check="%(objecttype)" | grep -c "^tag$" || true)',
  'if [ "$stored" != "$reached" ] || [ "$tags" != 0 ] || [ -n "$(git remote)" ]; then',
  '  echo "the repository still holds $stored commits, $reached of them before the start, and $tags tags"; exit 1',
  'fi',
].join('\n');

function applyBug({ bug }: Instance): string {
  return bug === undefined
    ? ''
    : `git apply --whitespace=nowarn ${BUG} || { echo "the patch with the bug does not apply"; exit 1; }\nrm -f ${BUG}`;
}

/**
 * Unpacks a recipe, and installs its wheels without a network: by pip, which may be a wheel itself, into an environment
 * of its own. The sources are installed as editable. No wheel stays.
 */
export function installRecipe(workdir: string, venv: string): string {
  return [
    `cd ${quoteForShell(workdir)}`,
    `tar -xzf ${RECIPE}/src.tar.gz --strip-components=1`,
    `if [ -f ${RECIPE}/requirements.txt ]; then`,
    // Found before the environment is made, which may come first in PATH and has no pip.
    '  python=$(command -v python3)',
    `  "$python" -m venv --without-pip ${venv}`,
    `  wheel=$(ls ${RECIPE}/wheels/pip-*.whl 2>/dev/null | head -n 1)`,
    `  if [ -n "$wheel" ]; then pip() { ${venv}/bin/python "$wheel/pip" "$@"; }; ` +
      `else pip() { "$python" -m pip --python ${venv}/bin/python "$@"; }; fi`,
    `  install() { pip install --quiet --no-index --find-links ${RECIPE}/wheels --no-cache-dir ` +
      '--disable-pip-version-check --no-build-isolation "$@"; }',
    `  install -r ${RECIPE}/requirements.txt`,
    `  if [ -f pyproject.toml ] || [ -f setup.py ]; then install --no-deps -e .; fi`,
    'fi',
    `rm -rf ${RECIPE}`,
  ].join('\n');
}

export interface Preparation {
  readonly workdir: string;
  readonly history: History;
  /** What makes the workspace before git does, such as a recipe's. */
  readonly before?: string;
  /** Paths that the agent must not see: hidden tests that an image brings along. */
  readonly hidden?: readonly string[];
}

/** The set-up, for a shell in the workspace as the sandbox's user. It is the same for the same instance. */
export function setUpScript(instance: Instance, { workdir, history, before = '', hidden = [] }: Preparation): string {
  const { baseCommit } = instance;
  const keeps = history === 'keep' && baseCommit !== undefined;
  const hides = hidden.map((path) => {
    const quoted = quoteForShell(path);
    return (
      `rm -rf ${quoted} 2>/dev/null || true; if [ -e ${quoted} ]; ` +
      'then echo ' +
      `${quoteForShell(
        `${path} has hidden tests, and only root can remove it: make an image without it, ` +
          'and name the image with it as gradeImage',
      )}; ` +
      'exit 1; fi'
    );
  });
  return [
    'set -eu',
    IDENTITY,
    before,
    `cd ${quoteForShell(workdir)}`,
    ...hides,
    applyBug(instance),
    'old=$PWD/.git',
    'if [ -f "$old" ]; then old=$(git rev-parse --absolute-git-dir); fi',
    'new=$(mktemp -d "$PWD/.git-XXXXXXXX")',
    'mkdir -p "$new/objects/pack" "$new/objects/info" "$new/refs/heads" "$new/refs/tags"',
    'echo "ref: refs/heads/main" > "$new/HEAD"',
    String.raw`printf "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n" > "$new/config"`,
    'base=',
    ...(keeps ? [`BASE=${baseCommit}`, KEEP] : []),
    COMMIT,
    VERIFY,
  ]
    .filter((line) => line !== '')
    .join('\n');
}
