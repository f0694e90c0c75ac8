/**
 * `code_interpreter`: runs a program in the task's sandbox, each call in a process of its own. It prints what the code
 * printed, and the value of its last expression.
 */

import { z } from 'zod';
import { bashObservation } from './bash.ts';
import { DEFAULT_MAX_CHARACTERS, makeTool } from '../tool.ts';

const OUTPUT_BYTES = 256 << 10;
const MOST_CODE = 256 << 10;

/** Reads the code from standard input in base64, so that no shell reads it. */
const PYTHON = `
import ast, base64, os, sys
source = base64.b64decode(sys.stdin.read()).decode()
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
sys.stdin = open(0)
sys.argv[:] = [""]
sys.excepthook = lambda kind, error, trace: __import__("traceback").print_exception(kind, error, trace and trace.tb_next)
tree = ast.parse(source, "code.py")
last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
space = {"__name__": "__main__", "__builtins__": __builtins__}
__import__("linecache").cache["code.py"] = (len(source), None, source.splitlines(True), "code.py")
exec(compile(tree, "code.py", "exec"), space)
if last is not None:
    value = eval(compile(ast.Expression(last.value), "code.py", "eval"), space)
    if value is not None:
        print(value)
`.trim();

const FENCED = /^\s*`{3}[\w+-]*[^\S\n]*\n([\s\S]*?)(?:\n?`{3}\s*)?$/u;

/** The code without the fence around it. */
export function withoutFence(code: string): string {
  return FENCED.exec(code)?.[1] ?? code;
}

const quoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

const options = z.strictObject({
  /** Seconds of one call. */
  seconds: z.number().min(1).max(3600).default(30),
  /** Address space of the code's process. */
  memoryMiB: z.int().min(64).max(65_536).default(1024),
});

/** The shell command that runs code, which it reads in base64 from what `from` gives as a redirection. */
const RUNNERS: Readonly<Record<string, (from: string) => string>> = {
  python: (from) => `exec python3 -c ${quoted(PYTHON)} ${from}`,
  bash: (from) => `bash /dev/fd/9 </dev/null 9< <(base64 -d ${from}\n)`,
};

export const codeInterpreter = makeTool<z.infer<typeof options>>({
  name: 'code_interpreter',
  description:
    'Runs code and returns what it prints, and the value of its last expression. Nothing but files remains from call ' +
    'to call. There is no network.',
  parameters: {
    code: { type: 'string', description: 'The code to run.' },
    language: { type: 'string', enum: ['python', 'bash'], description: 'The language of the code. Default: python.' },
  },
  required: ['code'],
  options,
  async run(
    args,
    sandbox,
    { callId, timeoutMs, maxCharacters = DEFAULT_MAX_CHARACTERS, options: { seconds, memoryMiB } },
  ) {
    const code = withoutFence(args.text('code'));
    const language = args.optionalText('language') ?? 'python';
    if (code.length > MOST_CODE) throw args.wrong('code', `must have at most ${MOST_CODE} characters.`);
    const limit = Math.min(seconds * 1000, timeoutMs);
    const base64 = Buffer.from(code)
      .toString('base64')
      .replaceAll(/.{1,1000}/gu, '$&\n');
    const from = `<<'LONGHAUL_CODE'\n${base64}\nLONGHAUL_CODE`;
    const command = `ulimit -v ${memoryMiB * 1024}; ${RUNNERS[language]?.(from) ?? ''}`;
    const result = await sandbox.exec({ callId, command, timeoutMs: limit, outputLimit: OUTPUT_BYTES, fresh: true });
    return bashObservation(result, limit, maxCharacters);
  },
});
