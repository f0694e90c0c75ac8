/** Hunts a task folder that is read wrongly, or that is taken although a sandbox cannot hold what it asks for. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readDockerfile } from '../../../tasks/harbor/dockerfile.ts';
import { harbor, harborOptions } from '../../../tasks/harbor/environment.ts';
import { readTaskToml } from '../../../tasks/harbor/task-toml.ts';
import { filled } from '../../../tasks/harbor/templates.ts';

let dir: string;
beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'longhaul-harbor-')));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function write(files: Record<string, string>): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    writeFileSync(join(dir, path), text);
  }
}

const io = { path: (_name: string, path: string) => join(dir, path) };
const open = async (more: Record<string, unknown> = {}) =>
  await harbor.open(harborOptions.parse({ data: { test: '.' }, ...more }), io);
const load = async (more: Record<string, unknown> = {}) => await (await open(more)).load('test', 0);
const minimal = (toml: string, more: Record<string, string> = {}) =>
  write({ 'one/task.toml': toml, 'one/instruction.md': 'Do it.\n', 'one/tests/test.sh': 'exit 0\n', ...more });

describe('task.toml', () => {
  it('limits become resources; older spellings are read; unknown keys are ignored', async () => {
    minimal(
      'version = "1.0"\nodd = 1\n[environment]\ncpus = 2\nmemory = "2G"\nstorage = "512M"\n[verifier]\ntimeout_sec = 30\n[future]\nx = 1',
    );
    const task = await load();
    expect(task.resources).toEqual({ memoryMiB: 2048, diskMiB: 512, cpus: 2, setUpSeconds: 600, gradeSeconds: 630 });
    expect(task.gradedIn).toBe('agents');
    expect(task.messages[0]?.content).toBe('Do it.');
    expect((await load({ most: { memoryMiB: 256, diskMiB: 64, cpus: 1 } })).resources).toMatchObject({
      memoryMiB: 256,
      diskMiB: 64,
      cpus: 1,
    });
  });

  it.each([
    ['[environment]\nallow_internet = true', 'environment.allow_internet'],
    ['[environment]\nnetwork_mode = "public"', 'environment.network_mode'],
    ['[agent]\nnetwork_mode = "allowlist"', 'agent.network_mode'],
    ['[verifier.environment]\nallow_internet = true', 'verifier.environment.allow_internet'],
  ])('a network is refused by the place that asks for it: %s', async (toml, field) => {
    minimal(toml);
    await expect(load()).rejects.toThrow(
      new RegExp(`${field.replaceAll('.', '\\.')}.*no network.*options\\.network: drop`, 'su'),
    );
    await expect(load({ network: 'drop' })).resolves.toMatchObject({
      tools: expect.arrayContaining(['bash', 'finish']),
    });
  });

  it.each([
    '[environment]\nallow_internet = false',
    '[environment]\nnetwork_mode = "no-network"\nallow_internet = true',
    '',
  ])('no network is what a sandbox has: %s', async (toml) => {
    minimal(toml);
    await expect(load()).resolves.toBeDefined();
  });

  it('what is wrong is said with file, field and remedy', () => {
    const read = (text: string) => () => readTaskToml(text, 'task.toml');
    expect(read('x = ')).toThrow(/task\.toml.*mend its TOML/su);
    expect(read('[environment]\nmemory = "much"')).toThrow(/environment\.memory.*much/su);
    expect(read('[environment]\ngpus = 1')).toThrow(/environment\.gpus.*no GPU/su);
    expect(read('[environment]\nos = "windows"')).toThrow(/environment\.os/u);
    expect(read('[[steps]]\nname = "../up"')).toThrow(/steps\.0\.name/u);
    expect(read('[verifier]\ntimeout_sec = -1')).toThrow(/verifier\.timeout_sec/u);
  });
});

it('folders: those with a task, by name, with a digest that follows their files', async () => {
  minimal('', {
    'two/task.yaml': 'instruction: Two.\nparser_name: pytest\n',
    'two/run-tests.sh': 'pytest\n',
    'no/readme': '',
  });
  const both = await open();
  expect(both.splits).toEqual({ test: 2 });
  expect(both.label?.('test', 1)).toBe('two');
  expect((await open({ except: ['one'] })).splits).toEqual({ test: 1 });
  expect((await open({ tasks: ['one'] })).digest).not.toBe(both.digest);
  expect((await both.load('test', 1)).messages[0]?.content).toBe('Two.');
  await expect(both.load('test', 2)).rejects.toThrow(/there is no task/u);
  await expect(open({ tasks: ['none'] })).rejects.toThrow(/name folders/u);
  const before = (await open()).digest;
  write({ 'one/tests/test.sh': 'exit 1\n' });
  expect((await open()).digest).not.toBe(before);
  rmSync(join(dir, 'one/tests'), { recursive: true });
  await expect((await open()).load('test', 0)).rejects.toThrow(/tests\/test\.sh/u);
});

it('templates: a value, a default, or a refusal that names the variable', async () => {
  expect(filled('a ${X} ${Y:-y} ${Z:-} $X', { X: '1' }, 'f')).toBe('a 1 y  $X');
  expect(filled('${X:-d}', { X: '' }, 'f')).toBe('d');
  expect(() => filled('${toString}', {}, 'f')).toThrow(/env: \{ toString/u);
  minimal('[environment.env]\nKEY = "${KEY}"\nMODE = "${MODE:-fast}"\n[verifier.env]\nSEED = "${SEED:-7}"');
  await expect(load()).rejects.toThrow(/environment\.env\.KEY.*\$\{KEY\}.*env: \{ KEY/su);
  expect((await load({ env: { KEY: 'k' } })).sandboxes?.['main']?.env).toEqual({ KEY: 'k', MODE: 'fast' });
});

it('a Dockerfile: the last stage, its variables and folder, what it copies, and what needs a build', () => {
  const read = readDockerfile(
    [
      'ARG V=1',
      'FROM a AS first',
      'ENV A=1',
      'RUN x',
      'FROM b:$V',
      'ENV B="two words" C=3',
      'ENV D four  five',
      'WORKDIR /srv',
      'WORKDIR in',
      '# COPY no /no',
      'COPY --chown=1:1 src/ ./',
      'COPY one two/ /abs/',
      'RUN <<EOF',
      'COPY not /this',
      'EOF',
      'COPY --from=first /x /y',
      'CMD ["run", "it"]',
    ].join('\n'),
  );
  expect(read).toEqual({
    from: 'b:1',
    env: { B: 'two words', C: '3', D: 'four  five' },
    workdir: '/srv/in',
    command: ['run', 'it'],
    copies: [
      { from: ['src/'], to: '/srv/in/' },
      { from: ['one', 'two/'], to: '/abs/' },
    ],
    built: ['RUN <<EOF', 'COPY --from=first /x /y'],
  });
  expect(readDockerfile('FROM x\nENTRYPOINT ["a"]\nCMD b c').command).toEqual(['a', '/bin/sh', '-c', 'b c']);
  expect(readDockerfile('FROM x\nRUN a && \\\n  # why\n  b\nENV Z=1').env).toEqual({ Z: '1' });
});

it('files: what a Dockerfile copies lies where it says, and what needs an image is refused', async () => {
  minimal('', {
    'one/environment/Dockerfile': 'FROM x\nWORKDIR /work\nCOPY data/ ./d/\nCOPY a.txt /data/b.txt\n',
    'one/environment/data/x/y': 'y',
    'one/environment/a.txt': 'a',
  });
  const { sandboxes } = await load({ image: 'files' });
  const main = sandboxes?.['main'];
  expect(main?.files.map(({ path }) => path)).toEqual(['/work/d/x/y', '/data/b.txt']);
  expect(main).toMatchObject({ workdir: '/work', folders: ['/tests', '/logs', '/solution', '/data'] });
  expect(main?.image).toBeUndefined();
  write({ 'one/environment/Dockerfile': 'FROM x\nRUN apt-get install y\n' });
  await expect(load({ image: 'files' })).rejects.toThrow(/RUN apt-get install y.*needs an image/su);
  const built = (await load()).sandboxes?.['main'];
  expect(built).toMatchObject({
    image: expect.stringMatching(/^longhaul-task:[0-9a-f]{24}$/u),
    profile: 'swe',
    build: { dockerfile: 'Dockerfile' },
  });
  write({ 'one/environment/new': '' });
  expect((await load()).sandboxes?.['main']?.image).not.toBe(built?.image);
  expect((await load({ image: 'registry.example/{name}:1' })).sandboxes?.['main']?.image).toBe(
    'registry.example/one:1',
  );
});

it('a compose file: further services become sandboxes that reach each other; what a sandbox cannot be is refused', async () => {
  const compose = (more: string) =>
    `services:\n  main:\n    environment: { A: "\${A:-1}" }\n  store:\n    build: ./store\n    healthcheck: { test: ["CMD", "true"] }\n${more}`;
  minimal('', {
    'one/environment/Dockerfile': 'FROM x\n',
    'one/environment/store/Dockerfile': 'FROM x\nWORKDIR /s\nCMD ["serve", "it\'s"]\n',
    'one/environment/docker-compose.yaml': compose(''),
  });
  const { sandboxes } = await load();
  expect(sandboxes?.['main']).toMatchObject({ network: 'task', env: { A: '1' } });
  expect(sandboxes?.['store']).toMatchObject({ network: 'task', workdir: '/s' });
  expect(sandboxes?.['store']?.setup).toContain(`setsid 'serve' 'it'\\''s'`);
  for (const [more, word] of [
    ['    privileged: true\n', /no privileges/u],
    ['    volumes: ["data:/data"]\n', /share no folders/u],
    ['  Other_One: { image: x, command: y }\n', /reached by its name/u],
    ['  other: { image: x }\n', /give the service a command/u],
  ] as const) {
    write({ 'one/environment/docker-compose.yaml': compose(more) });
    await expect(load(), more).rejects.toThrow(word);
  }
});

it('steps, the older layout, and how each is solved', async () => {
  write({
    'one/task.toml': 'multi_step_reward_strategy = "final"\n[[steps]]\nname = "a"\n[[steps]]\nname = "b"\n',
    'one/steps/a/instruction.md': 'First.',
    'one/steps/a/tests/test.sh': '',
    'one/steps/a/solution/solve.sh': 'true',
    'one/steps/b/instruction.md': 'Then.',
    'one/tests/test.sh': '',
    'two/task.yaml': 'instruction: Old.\nparser_name: pytest\nmax_test_timeout_sec: 9\n',
    'two/run-tests.sh': '',
    'two/solution.yaml': '- command: echo a\n  block: true\n- echo b\n',
  });
  const steps = await load();
  expect(steps.messages[0]?.content).toMatch(/^Step 1 of 2\..*First\.$/su);
  expect(steps.agent).toEqual({ type: 'tools', options: { message: 'step' } });
  expect(steps.tools).not.toContain('finish');
  const old = await (await open()).load('test', 1);
  expect(old.resources?.gradeSeconds).toBe(609);
  const ctx = { key: 'k', signal: new AbortController().signal };
  expect(await old.oracle?.(ctx)).toMatchObject([
    { toolCalls: [{ name: 'bash', arguments: { command: 'echo a' } }] },
    { toolCalls: [{ name: 'bash', arguments: { command: 'echo b' } }] },
    { toolCalls: [{ name: 'finish' }] },
  ]);
  expect((await steps.oracle?.(ctx))?.at(-1)?.content).toBe('Step a is done.');
  write({ 'two/task.yaml': 'instruction: Old.\nparser_name: odd\n' });
  await expect((await open()).load('test', 1)).rejects.toThrow(/parser_name/u);
});
