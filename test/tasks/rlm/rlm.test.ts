/**
 * Hunts what SkyRL-Gym's `rlm` does and this one does not: a REPL whose variables stay, a model that blocks ask, and
 * answers. Real sandboxes; the model is a function of the test. Not asserted: times.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Attempt, RECORD, taskOf } from './attempt.ts';

const LONG = 600_000;
const echo = (question: string): string => `response:${question}`;
const block = (code: string, after = ''): string => `I look.\n\`\`\`repl\n${code}\n\`\`\`\n${after}`;
const withModel = async (options: Record<string, unknown> = {}, answer = echo): Promise<Attempt> =>
  Attempt.begin(await taskOf({ model: 'helper', ...options }), answer);
const without = async (options: Record<string, unknown> = {}): Promise<Attempt> => Attempt.begin(await taskOf(options));

describe('the REPL', { timeout: LONG }, () => {
  it('keeps the variables of blocks that end well, and the context', async () => {
    const attempt = await without();
    expect(await attempt.run('x = 1\n_y = 2\nprint(context)')).toBe(
      'Code executed:\n```python\nx = 1\n_y = 2\nprint(context)\n```\n\nREPL output:\n\n' +
        "The capital of France is Paris.\n\n\nREPL variables: ['context_0', 'context', 'x']\n",
    );
    expect(await attempt.run('x = 5\nz = 6\n1 / 0')).toMatch(/line 3, in <module>\nZeroDivisionError.*'x'\]/su);
    expect(await attempt.run('print(x, SHOW_VARS())')).toContain("1 Available variables: {'context_0': 'str'");
    expect(await attempt.run('print(_y)')).toContain("NameError: name '_y' is not defined");
    expect(await attempt.run('del x\ncontext = 3\nFINAL_VAR = 4\nw = 7')).toContain("'x', 'w'");
    expect(await attempt.run('print(x, context, FINAL_VAR)')).toMatch(/1 The capital of France is Paris\. <bound/u);
    expect(await attempt.run('def f():\n  return v')).not.toContain("'f'");
    expect(await attempt.run('v = 1\nf()')).toContain("NameError: name 'v' is not defined");
  });

  it('has neither files nor imports, unless the task gives all of Python', async () => {
    const attempt = await without();
    for (const code of ['import os', 'open("/etc/passwd")', 'eval("1")'])
      expect(await attempt.run(code)).toContain("TypeError: 'NoneType' object is not callable");
    expect(await attempt.run('class A: pass')).toContain('NameError: __build_class__ not found');
    const whole = await without({ builtins: 'all' });
    expect(await whole.run('import math\nclass A: pass\nprint(math.floor(2.5))')).toContain('\n2\n');
  });

  it('cuts output at 20,000 characters, and counts the rest', async () => {
    const attempt = await without();
    const said = await attempt.run('print("x" * 3_000_000)');
    expect(said).toMatch(/x\.\.\. \+ \[2980045 chars\.\.\.\]$/u);
    expect(said.length).toBeLessThan(20_200);
  });

  it('ends a block in time; what cannot be interrupted ends the REPL, which starts again', async () => {
    const attempt = await without({ seconds: 1 });
    await attempt.run('x = 1');
    expect(await attempt.run('while True: pass')).toMatch(/Timeout after 1 seconds\n.*'x'\]/su);
    expect(await attempt.run('max(range(10 ** 15))')).toMatch(/Timeout after 1 seconds\. It was started again/u);
    expect(await attempt.run('print(x)')).toContain("NameError: name 'x' is not defined");
    expect(await attempt.run('print(context)')).toContain('Paris');
  });

  it('that a block has ended starts again, and the policy is told', async () => {
    const attempt = await without({ builtins: 'all' });
    await attempt.run('x = 1');
    expect(await attempt.run('import os\nos._exit(3)')).toContain('The REPL ended. It was started again');
    await attempt.run('x = 2');
    // Its door is shut before the reply: what is killed between two blocks, without a race.
    await attempt.run(
      'import os, __main__\nreply = __main__.Door.reply\ndef last(door, value):\n  door.listener.close()\n' +
        '  reply(door, value)\n  os._exit(3)\n__main__.Door.reply = last',
    );
    const said = await attempt.run('print("again")');
    expect(said).toContain('again');
    expect(said).toContain('[The REPL had ended, and was started again without its variables.]');
  });

  it('has the functions and values of a file of the task, and refuses names of its own', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'longhaul-rlm-'));
    const tools = join(folder, 'tools.py');
    const source =
      'import re\nLIMIT = 3\ndef words():\n  """Lists the words."""\n  return re.findall("\\\\w+", context)\n';
    writeFileSync(tools, source);
    const task = await taskOf({ tools }).finally(() => rmSync(folder, { recursive: true }));
    const attempt = await Attempt.begin(task);
    const [system] = await attempt.start();
    expect(system?.content).toMatch(/\n4\. .*\n- `LIMIT`: A custom int value\n- `words`: Lists the words\.\n/u);
    expect(system?.content).not.toContain('`re`');
    await attempt.run('words = 1\nLIMIT = 9');
    expect(await attempt.run('print(words()[:LIMIT])')).toContain("['The', 'capital', 'of', 'France', 'is', 'Paris']");
    const wrong = join(tmpdir(), `longhaul-rlm-${process.pid}.py`);
    writeFileSync(wrong, 'def llm_query(): pass\n');
    const refused = await taskOf({ tools: wrong }).finally(() => rmSync(wrong));
    await expect(Attempt.begin(refused)).rejects.toMatchObject({
      name: 'ReplFailed',
      message: expect.stringContaining('tools.py defines llm_query, which the REPL has itself') as string,
    });
  });
});

describe('the context', { timeout: LONG }, () => {
  const sizeOf = async (record: Record<string, unknown>): Promise<string | undefined> => {
    const attempt = await Attempt.begin(await taskOf({}, { ...RECORD, extra_info: {}, ...record }));
    return (await attempt.start())[1]?.content;
  };

  it('is a text, a dictionary, a list, or the query itself', async () => {
    expect(await sizeOf({ context: 'añb' })).toMatch(/is a str with 3 characters.*\[3\]/u);
    const json = JSON.stringify({ a: 'xyz', b: [1, 'é'] });
    expect(await sizeOf({ extra_info: { context_text: json } })).toMatch(/is a dict with 16 characters.*\[3, 13\]/u);
    expect(await sizeOf({ context: ['ab', 1.5] })).toMatch(/is a list with 5 characters.*\[2, 3\]/u);
    expect(await sizeOf({ context: '[1, 2]' })).toMatch(/is a str with 6 characters/u);
    expect(await sizeOf({})).toMatch(/is a str with 30 characters/u);
  });
});

describe('a model that blocks ask', { timeout: LONG }, () => {
  it('is offered in the prompt, and there, only if the task has one', async () => {
    const [system] = await (await withModel()).start();
    for (const name of ['llm_query', 'llm_query_batched', 'rlm_query', 'rlm_query_batched'])
      expect(system?.content).toContain(`\`${name}(`);
    const attempt = await without();
    expect(JSON.stringify(await attempt.start())).not.toContain('llm_query');
    for (const name of ['llm_query', 'rlm_query_batched'])
      expect(await attempt.run(`${name}("x")`)).toContain(`NameError: name '${name}' is not defined`);
  });

  it('answers single prompts and several, in their order', async () => {
    const judges: unknown[] = [];
    const attempt = await withModel({}, (question, ...[judge]: readonly unknown[]) => {
      judges.push(judge);
      return echo(question);
    });
    const said = await attempt.run('a = llm_query("hello")\nb = llm_query_batched(["x", "y", "x"])\nprint(a, b)');
    expect(said).toContain("response:hello ['response:x', 'response:y', 'response:x']");
    expect(judges).toEqual(Array(4).fill('helper'));
    expect(await attempt.run('print(llm_query_batched([]), b[1])')).toContain('[] response:y');
    expect(await attempt.run('print([llm_query(str(i)) for i in range(5)])')).toContain("'response:4']");
  });

  it('answers rlm_query as SkyRL-Gym without child agents does, and refuses a context for them', async () => {
    const attempt = await withModel();
    expect(await attempt.run('print(rlm_query("a"), rlm_query_batched(["b", "c"]))')).toContain(
      "response:a ['response:b', 'response:c']",
    );
    expect(await attempt.run('print(rlm_query("a", context="b"))')).toContain(
      'Error: RLM query failed - there are no child agents',
    );
  });

  it('that refuses a question is an answer, and the others have theirs', async () => {
    const refusal = Object.assign(new Error('too long'), { name: 'QuestionRefused' });
    const attempt = await withModel(
      {},
      (question) => (question === 'bad' ? Promise.reject(refusal) : echo(question)) as string,
    );
    expect(await attempt.run('print(llm_query_batched(["a", "bad", "c"]))')).toContain(
      "['response:a', 'Error: LM query failed - too long', 'response:c']",
    );
    expect(await attempt.run('print(llm_query(3))')).toContain('Error: LM query failed - a prompt must be a str');
  });

  it('is asked a bounded number of prompts in a turn', async () => {
    const attempt = await withModel({ mostQueries: 2 });
    const said = await attempt.run(
      'print(llm_query("a"), llm_query_batched(["b", "c"]), llm_query("d"), llm_query("e"))',
    );
    expect(said).toContain("response:a ['Error: LM query failed - a turn may make 2 queries'");
    expect(said).toContain('response:d Error: LM query failed - a turn may make 2 queries');
    expect(await attempt.run('print(llm_query("f"))')).toContain('response:f');
  });

  it('is there again after a block has overwritten it', async () => {
    const attempt = await withModel();
    await attempt.run("llm_query = lambda prompt: 'hijacked'");
    expect(await attempt.run('print(llm_query("a"))')).toContain('response:a');
  });

  it('answers threads of a block, also one that asks when its block has ended', async () => {
    const attempt = await withModel({ builtins: 'all' });
    const pool = 'from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as pool:\n  ';
    expect(await attempt.run(`${pool}print(list(pool.map(llm_query, "abcdef")))`)).toContain(
      "['response:a', 'response:b', 'response:c', 'response:d', 'response:e', 'response:f']",
    );
    const late = 'import threading\nsaid = []\ngo = threading.Event()\n';
    await attempt.run(`${late}threading.Thread(target=lambda: (go.wait(), said.append(llm_query("x")))).start()`);
    // The thread asks in this block, or when it has ended: then it is told so.
    await attempt.run('go.set()');
    let told = '';
    for (let i = 0; i < 100 && !told.includes('query failed') && !told.includes('response:x'); i += 1)
      told = await attempt.run('import time\ntime.sleep(0.05)\nprint(said)');
    expect(told).toMatch(/\['(?:response:x|Error: LM query failed - its block has ended)'\]/u);
  });

  it('cannot be asked by a block that forges the question of a task without one', async () => {
    const attempt = await Attempt.begin(await taskOf({ builtins: 'all' }), echo);
    const forged =
      'import gc\ndoor = next(o for o in gc.get_objects() if type(o).__name__ == "Door")\nprint(door.ask(["x"]))';
    expect(await attempt.run(forged)).toContain('It was started again without its variables');
  });

  it('may take longer than a block', async () => {
    const slow = (question: string) =>
      new Promise<string>((resolve) => setTimeout(() => resolve(echo(question)), 2500));
    const attempt = await Attempt.begin(await taskOf({ model: 'helper', seconds: 1 }), slow);
    expect(await attempt.run('print(llm_query("a"))')).toContain('response:a');
  });
});

describe('a turn', { timeout: LONG }, () => {
  it('without a block is told so, whatever answer it gives', async () => {
    const attempt = await without();
    const { messages, done } = await attempt.step('FINAL(Paris)');
    expect(done).toBeUndefined();
    expect(messages[0]?.content).toContain('There is no ```repl``` block');
    expect(messages[1]).toMatchObject({ role: 'user', ephemeral: true });
    expect(messages[1]?.content).toContain('"What is the capital of France?"');
  });

  it.each([
    ['a text', block('x = 1', 'FINAL(the Paris)'), 'the Paris', 1],
    ['a variable', block("x = ' Paris '", 'FINAL_VAR(x)'), 'Paris', 1],
    ['a variable inside of the block', block("x = ' Paris '\nFINAL_VAR('x')"), ' Paris ', 1],
    ['a value inside of the block', block('FINAL_VAR([1, 2])'), '[1, 2]', 0],
    ['before the block fails', block('FINAL_VAR(7)\n1 / 0'), '7', 0],
    ['the context', block('x = 1', 'FINAL_VAR(context)'), 'The capital of France is Paris.', 0],
    ['nothing at all', block('x = 1', 'FINAL()'), '', 0],
  ])('answers with %s', async (_, message, answer, reward) => {
    const attempt = await without();
    expect(await attempt.step(message)).toMatchObject({ state: { answer }, messages: [], done: true });
    expect(await attempt.grade()).toMatchObject({ reward, passed: reward === 1, metrics: { finalValueSet: 1 } });
  });

  it('that names a variable which is not there, or an empty one, goes on', async () => {
    const attempt = await without();
    const { messages, done } = await attempt.step(block('x = 1', 'FINAL_VAR(y)\nFINAL(Paris)'));
    expect(done).toBeUndefined();
    expect(messages[0]?.content).toContain("REPL variables: ['context_0', 'context', 'x']");
    expect(await attempt.run('FINAL_VAR("y")')).toContain("Error: Variable 'y' not found. Available variables: [");
    expect((await attempt.step(block('e = ""\nFINAL_VAR("e")'))).done).toBeUndefined();
  });

  it('is the last one by the task or by the record, and then there is no answer', async () => {
    const attempt = await Attempt.begin(await taskOf({ maxTurns: 9 }, { ...RECORD, max_turns: 2 }));
    expect((await attempt.step(block('x = 1'))).done).toBeUndefined();
    expect(await attempt.step(block('x = 1'))).toMatchObject({ state: { turns: 2, answer: null }, done: true });
    expect(await attempt.grade()).toMatchObject({ reward: 0, metrics: { turnsUsed: 2, finalValueSet: 0 } });
  });

  it.each([
    ['any', 'Rome', 1],
    ['em', 'The city of Paris', 0],
    ['contains', 'The city of Paris', 1],
    ['f1', 'of Paris', 2 / 3],
  ])('is graded by %s', async (grader, said, reward) => {
    const attempt = await without({ grader });
    await attempt.step(block('x = 1', `FINAL(${said})`));
    expect(await attempt.grade()).toMatchObject({ reward: expect.closeTo(reward) as number });
  });

  it('is graded by a judge', async () => {
    const attempt = await Attempt.begin(await taskOf({ grader: 'judge' }), (_, judge) => `${judge}\ncorrect: yes`);
    await attempt.step(block('x = 1', 'FINAL(the French capital)'));
    expect(await attempt.grade()).toMatchObject({ reward: 1 });
  });
});

describe('a worker that is lost', { timeout: LONG }, () => {
  it('in the middle of a block: the block runs once, and waits for the answers', async () => {
    let asked = 0;
    let isUp = false;
    const attempt = await withModel({}, (question) => {
      asked += 1;
      if (!isUp && question === 'second') throw new Error('the worker is gone');
      return echo(question);
    });
    await attempt.run('runs = [0]');
    const message = block('runs[0] += 1\nprint(llm_query("first"), llm_query("second"), runs)');
    await expect(attempt.step(message)).rejects.toThrow('the worker is gone');
    isUp = true;
    const again = await attempt.step(message, attempt.turn);
    expect(again.messages[0]?.content).toContain('response:first response:second [1]');
    expect(asked).toBe(4);
    expect(await attempt.run('print(runs)')).toContain('[1]');
  });

  it('after a block: the step is the same, and runs nothing', async () => {
    const attempt = await without();
    const before = attempt.state;
    const message = block('n = SHOW_VARS()\nprint(n)');
    const first = await attempt.step(message);
    attempt.state = before;
    expect(await attempt.step(message, attempt.turn)).toEqual(first);
  });
});
