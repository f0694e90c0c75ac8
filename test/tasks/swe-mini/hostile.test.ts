/**
 * Hunts policies that earn more than their work, or avoid grading: a rollout whose diff cannot be taken, or whose
 * grader fails, is masked instead of graded, so a policy must not be able to cause either. It does not repeat
 * `grade.test.ts`.
 */

import { beforeAll, describe, expect, it } from 'vitest';

import type { ExecCall, Sandbox, SandboxProvider, SandboxSpec } from '../../../sandboxes/sandbox.ts';
import * as one from './one-task.ts';
import { makeProblem } from '../../../tasks/swe-mini/problem.ts';
import type { Verdict } from '../../../protocol/stages.ts';
import { openBench, sh } from '../../sandboxes/harness.ts';

const { provider, kind } = await openBench();
const taskId = 'swe-mini-held-out-5';
const problem = makeProblem(taskId);
const source = problem.modules.find(({ path }) => path === problem.path)?.source ?? '';
const fixed = source.replace(problem.fix.old, () => problem.fix.new);
const writes = (path: string, content: string): string => `cat > ${path} <<'END_OF_FILE'\n${content}\nEND_OF_FILE`;
const FIX = writes(problem.path, fixed);
let runs = 0;
/** Time limit for seconds of processor time on a busy machine. */
const LONG = 300_000;

/** Divides the time limits and budgets of its commands, for attacks that use up any limit. */
function stricter({
  clock = 1,
  processor = 1,
}: {
  readonly clock?: number;
  readonly processor?: number;
}): SandboxProvider {
  const limited = (call: ExecCall): ExecCall => ({
    ...call,
    timeoutMs: call.timeoutMs / clock,
    ...(call.cpuMs && { cpuMs: call.cpuMs / processor }),
  });
  const create = async (spec: SandboxSpec): Promise<Sandbox> => {
    const sandbox = await provider.create(spec);
    const exec = sandbox.exec.bind(sandbox);
    return Object.assign(sandbox, { exec: (call: ExecCall) => exec(limited(call)) });
  };
  return {
    name: provider.name,
    create,
    connect: (id) => provider.connect(id),
    destroy: (id) => provider.destroy(id),
    list: () => provider.list(),
  };
}
const LITTLE = stricter({ processor: 5 });
const LITTLE_AND_SHORT = stricter({ processor: 5, clock: 5 });

async function diffAfter(command: string, by = provider as SandboxProvider): Promise<string> {
  runs += 1;
  const id = `hostile-${runs}`;
  const sandbox = await by.create(await one.specOf(taskId, id));
  await sh(sandbox, command);
  const diff = Buffer.from(await one.collect(taskId, sandbox, provider)).toString();
  sandbox.close();
  await provider.destroy(id);
  return diff;
}

async function verdictOn(diff: string, by = provider as SandboxProvider): Promise<Verdict> {
  runs += 1;
  return one.grade(taskId, Buffer.from(diff), by, `hostile-grade-${runs}`);
}

async function rewardOf(diff: string, by?: SandboxProvider): Promise<number | string> {
  const verdict = await verdictOn(diff, by);
  return verdict.code === 'graded' ? verdict.reward : verdict.code;
}

let good: string;
beforeAll(async () => {
  good = await diffAfter(FIX);
});

const python = (program: string): string => `${writes('/tmp/p.py', program)}\npython3 /tmp/p.py`;
/** Starts the program in the background: it runs when this command has ended. */
const background = (program: string): string =>
  `${writes('/tmp/p.py', program)}\n(setsid python3 /tmp/p.py >/dev/null 2>&1 &); sleep 0.3`;

describe('the diff is taken, and is the fix, whatever the agent left behind', () => {
  it.each([
    [
      'hooks that never end',
      'for h in post-index-change pre-commit reference-transaction; do printf "#!/bin/sh\\nsleep 1000\\n" > .git/hooks/$h; chmod +x .git/hooks/$h; done',
      'mkdir -p .git/hooks',
    ],
    [
      'filters, text conversions and merge drivers that never end',
      'for f in clean smudge process; do git config filter.e.$f "sleep 1000"; done; git config diff.e.textconv "sleep 1000"; git config diff.e.command "sleep 1000"; echo "* filter=e diff=e merge=e" > .git/info/attributes',
      'mkdir -p .git/info',
    ],
    [
      'programs that git asks',
      'for k in core.fsmonitor core.pager core.sshCommand core.editor core.askPass diff.external gpg.program core.alternateRefsCommand; do git config $k "sleep 1000"; done; git config core.hooksPath /tmp; git config include.path /dev/zero; git config core.attributesFile /tmp/fifo; mkfifo /tmp/fifo',
      'true',
    ],
    [
      'pipes where git reads',
      'rm .git/config .git/index; mkfifo .git/config .git/index .git/info .git/packed-refs .git/commondir .gitattributes; rm -f .git/shallow; mkfifo .git/shallow',
      'true',
    ],
    [
      'links where git reads',
      'rm -rf .git/info .git/index; ln -s /dev/zero .git/index; ln -s /dev/zero .gitattributes; ln -s / everything; ln -s .. parent; ln -s loop loop',
      'true',
    ],
    [
      'variables of the shell',
      'export GIT_DIR=/tmp GIT_EXTERNAL_DIFF="sleep 1000" GIT_INDEX_FILE=/dev/zero PATH=/tmp LD_PRELOAD=/tmp/x.so BASH_ENV=/tmp/x; git() { :; }; export -f git',
      'true',
    ],
    [
      'links to a terminal where git reads',
      'mkdir -p .git/objects/info; for f in .git/objects/info/alternates .git/objects/info/commit-graph .gitignore .gitattributes; do ln -sf /dev/ptmx $f; done',
      'true',
    ],
    [
      'a repository in a folder of the workspace that leads to one',
      'mkdir -p x/objects x/refs/heads y; echo ref: refs/heads/m > x/HEAD; ln -s /dev/ptmx x/refs/heads/m; echo gitdir: ../x > y/.git',
      'true',
    ],
    [
      'repositories in folders of the workspace, without a commit and with one',
      'for d in new old; do git init -q $d; echo x > $d/f; done; cd old; git add f; git commit -qm old; cd ..',
      'true',
    ],
    [
      'pipes and links in folders that are shut',
      'mkdir -p .git/objects/info shut; mkfifo .git/objects/info/alternates shut/.gitignore; chmod 555 .git/objects/info shut',
      'true',
    ],
    [
      'a full /tmp',
      'mkdir /tmp/shut; cat /dev/zero > /tmp/shut/full; chmod 000 /tmp/shut/full; chmod 500 /tmp/shut',
      'true',
    ],
  ])('%s', async (_, command, before) => {
    const diff = await diffAfter(`${before}; ${FIX}\n{ ${command}; } 2>/dev/null`);
    expect(diff).toContain(good);
  });

  it.each([
    [
      'kills whatever it may',
      'import os, time\nwhile True:\n  try: os.kill(-1, 9)\n  except OSError: pass\n  time.sleep(0.001)',
    ],
    [
      'holds every process',
      'import os, time\nwhile True:\n  try:\n    if os.fork() == 0: time.sleep(100)\n  except OSError: time.sleep(0.01)',
    ],
    [
      'makes pipes of the files',
      `import os, time\nwhile True:\n  for f in (".gitattributes", ".gitignore", ".git/config"):\n    try: os.path.exists(f) and os.unlink(f); os.mkfifo(f)\n    except OSError: pass`,
    ],
  ])('a process that %s', async (_, program) => {
    expect(await diffAfter(`${FIX}\n${background(program)}`)).toContain(`+++ b/${problem.path}`);
  });

  it('endless files and endless diffs are no diff', async () => {
    const many = await diffAfter(`${FIX}\nmkdir many; seq -f "many/%.0f" 21000 | xargs touch 2>/dev/null`);
    // A container's own limit on files is lower: then it is a normal diff.
    expect(many.startsWith('no diff: more than 20000 files') || many.startsWith(good)).toBe(true);
    const long = await diffAfter(`${FIX}\nhead -c 3000000 /dev/urandom > noise`);
    expect(long.length).toBeLessThan(1000);
    expect(await rewardOf(long)).toBe(0);
  });
});

/** Each of them takes hours to read. */
describe('content that expands beyond what was written is no diff', { timeout: LONG }, () => {
  it.each([
    [
      'one file under many names',
      python(
        'import os\nopen("many", "wb").write(b"x" * (20 << 20))\nfor n in range(4000): os.link("many", "many%d" % n)',
      ),
    ],
    [
      'trees of trees of trees',
      // Each tree holds ten entries of the next one, down to an empty one, in place of a folder of the commit. Git
      // trusts their names.
      python(
        [
          'import hashlib, os, subprocess, zlib',
          'def keep(kind, body, name=None):',
          '  raw = b"%s %d\\0" % (kind, len(body)) + body',
          '  name = name or hashlib.sha1(raw).hexdigest()',
          '  os.makedirs(".git/objects/" + name[:2], exist_ok=True)',
          '  path = ".git/objects/%s/%s" % (name[:2], name[2:])',
          '  if os.path.exists(path): os.unlink(path)',
          '  open(path, "wb").write(zlib.compress(raw))',
          '  return name',
          'tree = keep(b"tree", b"")',
          'def of(tree): return b"".join(b"40000 %d\\0" % n + bytes.fromhex(tree) for n in range(10))',
          'for _ in range(12): tree = keep(b"tree", of(tree))',
          'keep(b"tree", of(tree), subprocess.check_output(["git", "ls-tree", "-d", "HEAD"], text=True).split()[2])',
        ].join('\n'),
      ),
    ],
  ])('%s', async (_, command) => {
    const diff = await diffAfter(`${FIX}\n${command}`, LITTLE);
    expect(diff).toMatch(/^no diff: reading the workspace takes more than 4 s/u);
    expect(await verdictOn(diff)).toMatchObject({
      code: 'graded',
      reward: 0,
      reason: expect.stringContaining('processor time'),
    });
  });
});

/** Nests folders with the longest names until there is no room, and returns to the first folder. */
const nested = (place: string, depth: number, name = 'd'.repeat(250)): string =>
  python(
    `import os\nos.chdir("${place}")\ntry:\n  for n in range(${depth}):\n    os.mkdir("${name}"); os.chdir("${name}")\n    if n % 50 == 0: open("f", "w").close()\nexcept OSError: pass`,
  );

/**
 * A program that builds their paths takes hours: each level costs the length of its path, so all levels cost its
 * square.
 */
describe('folders nested beyond any path', { timeout: LONG }, () => {
  it('in the workspace are no diff: 0, never a rollout without a reward', async () => {
    const diff = await diffAfter(`${FIX}\n${nested('.', 6000)}`);
    expect(diff).toMatch(/^no diff: .*nested more than 100 deep/u);
    expect(await verdictOn(diff)).toMatchObject({
      code: 'graded',
      reward: 0,
      reason: expect.stringContaining('nested'),
    });
  });

  it.each([
    ['where git has its room', 'true', () => `${nested('/tmp', 6000)}\n${nested('/dev/shm', 6000)}`],
    ['in a repository within the workspace', 'mkdir -p sub/.git', () => nested('sub/.git', 6000)],
    ['in folders that are shut', 'mkdir /tmp/shut', () => `${nested('/tmp/shut', 2000)}\nchmod 000 /tmp/shut`],
  ])('%s are removed, and the diff is the fix', async (_, before, command) => {
    expect(await diffAfter(`${FIX}\n${before}\n${command()}`)).toContain(good);
  });

  it('up to the allowed depth are in the diff', async () => {
    const path = Array.from({ length: 90 }, () => 'deep').join('/');
    expect(await diffAfter(`${FIX}\nmkdir -p ${path}; echo x > ${path}/file`)).toContain(`+++ b/${path}/file`);
  });
});

/** A diff that makes a file. */
const adds = (path: string, lines: readonly string[], mode = '100644'): string =>
  [
    `diff --git a/${path} b/${path}`,
    `new file mode ${mode}`,
    '--- /dev/null',
    `+++ b/${path}`,
    `@@ -0,0 +1,${lines.length} @@`,
    ...lines.map((line) => `+${line}`),
    '',
  ].join('\n');
const linksTo = (path: string, target: string): string =>
  `${adds(path, [target], '120000').trimEnd()}\n\\ No newline at end of file\n`;

/**
 * Git searches for the second hunk at each line of a file that matches it almost everywhere: many seconds of processor
 * time.
 */
const slow = (): string => {
  const [lines, alike] = [200_000, 140_000];
  const file = adds(
    'x',
    Array.from({ length: lines }, () => 'a'),
  );
  return `${file}diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -100,${alike + 2} +100,${alike + 2} @@\n${' a\n'.repeat(alike)}-c\n+b\n a\n`;
};

// Git and Python handle a diff in the same way in both kinds of sandboxes.
if (kind === 'bubblewrap')
  describe('a diff that was made by hand is graded, and earns what its fix earns', { timeout: LONG }, () => {
    const shadow = [
      'import os, sys, unittest',
      'unittest.TestCase.assertEqual = lambda *a: None',
      'print("\\nlonghaul results\\n" + "True\\n" * 100)',
      'sys.exit(0)',
    ];
    it.each([
      [
        'with modules that Python might start with',
        1,
        () =>
          [
            'conftest.py',
            'sitecustomize.py',
            'usercustomize.py',
            'unittest.py',
            'importlib.py',
            'sys.py',
            'x.pth',
            'pyvenv.cfg',
          ]
            .map((path) => adds(path, shadow))
            .join('') + good,
      ],
      [
        'with files that git might heed',
        1,
        () =>
          adds('.gitattributes', ['* filter=e text eol=crlf working-tree-encoding=UTF-16']) +
          adds('.gitmodules', ['[submodule "x"]', '\tpath = x', '\turl = ext::sleep 1000', '\tupdate = !sleep 1000']) +
          good,
      ],
      [
        'with a result of its own',
        1,
        () =>
          ['reward.txt', 'result.json', 'logs/verifier/reward.txt'].map((path) => adds(path, ['1'])).join('') + good,
      ],
      [
        'with links out of the tree, that nothing follows',
        1,
        () => linksTo('out', '/etc/passwd') + linksTo('up', '../../tmp/driver.py') + good,
      ],
      ['that writes through its own link', 0, () => linksTo('t', '/tmp') + adds('t/driver.py', shadow) + good],
      ['that writes into .git', 0, () => adds('.git/config', ['[core]', '\tfsmonitor = sleep 1000']) + good],
      ['that writes outside by an absolute path', 0, () => adds('/tmp/driver.py', shadow) + good],
      ['that writes outside by way of its parent', 0, () => adds('../tmp/driver.py', shadow) + good],
      ['that takes the package for a link', 0, () => linksTo(`${problem.package}/__init__.py`, '/tmp/driver.py')],
      [
        'that is binary noise',
        0,
        () => `diff --git a/x b/x\nnew file mode 100644\nGIT binary patch\nliteral 99999999\n${'z'.repeat(60)}\n\n`,
      ],
      ['that git would try to apply for long', 0, slow, LITTLE],
      [
        'that is a million lines',
        0,
        () =>
          adds(
            'x',
            Array.from({ length: 100_000 }, () => 'abcdefg'),
          ),
      ],
    ] as Array<[string, number, () => string, SandboxProvider?]>)('%s: %i', async (_, reward, diff, by) => {
      expect(await rewardOf(diff(), by)).toBe(reward);
    });
  });

describe('graded code cannot end, starve or outlast its grader: 0, never masked', { timeout: LONG }, () => {
  const module = (text: string): string => {
    const lines = `${source}\n${text}`.split('\n');
    const before = source.split('\n');
    return [
      `diff --git a/${problem.path} b/${problem.path}`,
      `--- a/${problem.path}`,
      `+++ b/${problem.path}`,
      `@@ -1,${before.length - 1} +1,${lines.length} @@`,
      ...before.slice(0, -1).map((l) => `-${l}`),
      ...lines.map((l) => `+${l}`),
      '',
    ].join('\n');
  };
  it.each([
    [
      'kills all that it may, its shell first',
      'import os\nos.fork()\nos.setsid()\nwhile True:\n  try: os.kill(-1, 9)\n  except OSError: pass',
    ],
    [
      'kills its judge from a process of its own, and goes on',
      'import os\nif os.fork() == 0:\n  if os.fork() == 0:\n    os.setsid()\n    for _ in range(300000):\n      try: os.kill(-1, 9)\n      except OSError: pass\n    os._exit(0)',
    ],
    ['takes all memory', 'x = []\nwhile True: x.append(bytearray(1 << 20))'],
    ['takes all processes', 'import os\nfor _ in range(100):\n  try: os.fork()\n  except OSError: pass\nos._exit(0)'],
    ['prints without end', 'import sys\nfor _ in range(20000): sys.stdout.write("longhaul results\\n" * 100)'],
    [
      'patches what its judge uses',
      'import sys, builtins, importlib\nsys.stdout = open("/dev/null", "w")\nbuiltins.repr = builtins.getattr = lambda *a: 1\nimportlib.import_module = None\nsys.settrace(lambda *a: None)',
    ],
    [
      "reads its judge's frame",
      'import sys\nf = sys._getframe()\nwhile f.f_back: f = f.f_back\nf.f_globals["out"] = ["True"] * 100\nf.f_globals["ask"] = lambda *a: None',
    ],
    ['takes all its processor time, and leaves none to be late with', 'import time\nwhile True: pass', LITTLE],
    [
      'is late, having taken most of its processor time',
      'import time\nwhile time.process_time() < 0.2: pass\ntime.sleep(1000)',
      LITTLE_AND_SHORT,
    ],
    [
      'exits as if all were well',
      'import sys, atexit, os\natexit.register(lambda: (sys.stdout.write("\\nlonghaul results\\n" + "True\\n" * 100), sys.stdout.flush(), os._exit(0)))\nsys.exit(0)',
    ],
  ] as Array<[string, string, SandboxProvider?]>)('that %s', async (_, text, by) => {
    const verdict = await verdictOn(module(text), by);
    expect(verdict).toMatchObject({ code: 'graded', reward: 0 });
    expect(verdict.reason).not.toContain('apply');
  });
});
