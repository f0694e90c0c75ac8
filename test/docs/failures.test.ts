/** Hunts documentation of failures that has come apart from the table that the code reads. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { withFailureMapping } from '../../activities/failure-mapping.ts';
import { parseTaskId } from '../../tasks/swe-mini/problem.ts';
import { readModelConfig } from '../../trainer/model/describe-policy.ts';
import { ChatTemplate } from '../../trainer/tokenizer/chat-template.ts';
import {
  BUDGET,
  classOfError,
  FAILURES,
  FINAL_ERRORS,
  LOST_WORKERS,
  OUTAGE_SECONDS,
  RETRIES,
  type FailurePolicy,
} from '../../protocol/failure-policy.ts';
import { root } from './markdown.ts';

const page = readFileSync(join(root, 'docs/failures.md'), 'utf8');
const recoveries = { resume: 'resumes', restart: 'restarts', mask: 'is masked', hold: 'holds' } as const;

function row(name: string, { detected, retried, recovery, breaks, remedy }: FailurePolicy): string {
  const tries = retried.map((place) => `${place} (${RETRIES[place].attempts})`).join(', ') || 'never';
  return `| \`${name}\` | ${detected} | ${tries} | ${recoveries[recovery]} | ${breaks ? 'yes' : 'no'} | ${remedy} |`;
}

describe('docs/failures.md', () => {
  it.each(Object.entries(FAILURES))('has the row of %s as the code has it', (name, policy) => {
    expect(page).toContain(row(name, policy));
  });

  it('tells budgets, back-off and the limit of an outage as they are', () => {
    for (const { firstMs, factor, longestMs } of Object.values(RETRIES))
      expect([firstMs, factor, longestMs]).toEqual([500, 2, 10_000]);
    expect(page).toContain('after 0.5 s, and then twice as long each time, up to 10 s');
    expect(page).toContain(`${LOST_WORKERS} workers may be lost`);
    expect(page).toContain(
      `${BUDGET.restores} sandboxes of an attempt are restored, and a rollout has ${BUDGET.attempts} attempts`,
    );
    expect([OUTAGE_SECONDS, page.includes('a week (`OUTAGE_SECONDS`)')]).toEqual([7 * 86_400, true]);
  });
});

describe('the table', () => {
  it('names every error of one class alone, and retries none of those that are final', async () => {
    const errors = Object.values(FAILURES).flatMap((policy) => policy.errors);
    expect(new Set(errors).size).toBe(errors.length);
    for (const name of errors) {
      const thrown = Object.assign(new Error('why'), { name });
      const failure = await withFailureMapping(() => Promise.reject(thrown)).catch((error: unknown) => error);
      expect(failure).toMatchObject({ type: name, nonRetryable: FINAL_ERRORS.includes(name) });
      expect(FAILURES[classOfError(name)].errors).toContain(name);
    }
    expect(classOfError('WhoKnows')).toBe('internal');
  });

  it('has what is wrong with a task or a policy itself as bad input, not as a bug of ours', async () => {
    const policy = mkdtempSync(join(tmpdir(), 'longhaul-no-policy-'));
    writeFileSync(join(policy, 'config.json'), JSON.stringify({ model_type: 'mamba' }));
    const calls: Array<() => Promise<unknown>> = [
      async () => parseTaskId('swe-mini-train-01'),
      () => readModelConfig(policy),
      async () =>
        new ChatTemplate("{{ raise_exception('no system role') }}", {}).render({
          messages: [],
          tools: null,
          variables: {},
        }),
    ];
    for (const call of calls) {
      const failure = await withFailureMapping(call).catch((error: unknown) => error);
      expect(failure).toMatchObject({ type: 'UserInputError', nonRetryable: true });
    }
    rmSync(policy, { recursive: true });
  });

  it('never resumes or restarts what a retry of the same call could cure first', () => {
    for (const { recovery, retried } of Object.values(FAILURES))
      if (recovery === 'resume' || recovery === 'restart') expect(retried).toEqual([]);
  });
});
