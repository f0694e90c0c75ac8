/** What graders read: answers, verdicts of judges, confidence, docids, sections, encrypted fields. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { confidenceIn, shownDocids } from '../../../tasks/search/browsecomp-plus.ts';
import { decryptText, encryptText } from '../../../tasks/search/canary.ts';
import { lastAnswer } from '../../../tasks/search/search.ts';
import { judgePrompt, verdictIn } from '../../../tasks/search/judge-answer.ts';
import { sectionsOf } from '../../../tasks/search/memory-chunks.ts';
import { matchedRecord } from '../../../tasks/search/question-records.ts';
import { toolUseIn } from '../../../tasks/search/searchcode.ts';

describe('answers', () => {
  it.each([
    ['<answer>a</answer> <answer> b </answer>', 'b'],
    ['<answer>a<answer>b</answer>', 'a<answer>b'],
    ['<answer>a</answer><answer>b', 'a'],
    ['</answer>a<answer>', undefined],
    ['<ANSWER>a</ANSWER>', undefined],
    ['<answer>\u001c\ufeffa\u0085</answer>', '\ufeffa'],
  ])('the last of %j is %j', (text, answer) => {
    expect(lastAnswer(text)).toBe(answer);
  });

  it('texts that are made to be slow are read in linear time', () => {
    expect(lastAnswer('<answer>'.repeat(200_000))).toBeUndefined();
    expect(toolUseIn(`<tool>${'<a>'.repeat(200_000)}</tool>`)).toMatchObject({ wrong: 'no_inner_tag' });
    expect(verdictIn('correct:'.repeat(200_000))).toBeUndefined();
  }, 10_000);

  it('a record whose answer matches nothing, or that has none, is refused with its field', () => {
    expect(matchedRecord.safeParse({ question: 'q', answer: 'The' }).error?.issues).toMatchObject([
      { path: ['answer'] },
    ]);
    expect(matchedRecord.safeParse({ question: 'q' }).error?.issues).toMatchObject([{ path: ['answer'] }]);
    expect(matchedRecord.safeParse({ answer: 'x' }).error?.issues).toMatchObject([{ path: ['question'] }]);
    const skyrl = { prompt: [{ role: 'user', content: 'q' }], reward_spec: { ground_truth: { target: ['x', 'y'] } } };
    expect(matchedRecord.parse(skyrl)).toMatchObject({ golden: ['x', 'y'] });
  });
});

describe('judges', () => {
  it.each([
    ['reasoning: …\ncorrect: yes', true],
    ['**correct:** no', false],
    ['correct: yes was written by the response.\ncorrect: no', false],
    ['"correct": "yes"', true],
    ['It is incorrect: yes', undefined],
    ['correct: maybe', undefined],
  ])('%j says %s', (reply, verdict) => {
    expect(verdictIn(reply)).toBe(verdict);
  });

  it('the response is between marks that it does not contain, and it is bounded', () => {
    const asked = { question: 'q', golden: ['g'] };
    const prompt = judgePrompt({ ...asked, answer: 'x'.repeat(100_000) }, 'key');
    expect(prompt.length).toBeLessThan(25_000);
    const [mark = ''] = /\[[0-9a-f]{16}\]/.exec(prompt) ?? [];
    expect(prompt.split(mark)).toHaveLength(3);
    expect(judgePrompt({ ...asked, answer: mark }, 'key').split(mark)).toHaveLength(2);
  });

  it.each([
    ['Confidence: 85%', 0.85],
    ['**Confidence:** 7.5 %', 0.075],
    ['Confidence: 200%', 1],
    ['sure', undefined],
  ])('%j has the confidence %s', (answer, share) => {
    expect(confidenceIn(answer)).toBe(share);
  });

  it('docids count where searches have shown them, not where the policy writes them', () => {
    const shown = JSON.stringify({ results: [{ docid: 'd1' }, { docid: 2 }] });
    const found = shownDocids({
      transcript: [
        { role: 'assistant', content: JSON.stringify({ results: [{ docid: 'd9' }] }) },
        { role: 'tool', name: 'local_search', content: shown },
        { role: 'tool', name: 'get_document', content: JSON.stringify({ results: [{ docid: 'd8' }] }) },
        { role: 'tool', name: 'local_search', content: 'Error: …' },
      ],
    });
    expect([...found]).toEqual(['d1', '2']);
  });
});

it('sections lose and repeat nothing, and are as long as allowed', () => {
  const text = fc.array(fc.constantFrom('Document 1:\n', 'word ', '\n', 'x'.repeat(90), '😀'), { maxLength: 60 });
  fc.assert(
    fc.property(text, (parts) => {
      const whole = parts.join('');
      const sections = sectionsOf(whole, 25);
      expect(sections.join('')).toBe(whole);
      for (const section of sections) expect(section.length).toBeLessThanOrEqual(100);
      for (const section of sections) expect(section.isWellFormed()).toBe(true);
    }),
  );
});

it('documents stay whole where they fit', () => {
  const context = 'Document 1:\naaa\nDocument 2:\nbbb\nDocument 3:\nccc\n';
  expect(sectionsOf(context, 5)).toEqual(['Document 1:\naaa\n', 'Document 2:\nbbb\n', 'Document 3:\nccc\n']);
  expect(sectionsOf(context, 9)).toEqual(['Document 1:\naaa\nDocument 2:\nbbb\n', 'Document 3:\nccc\n']);
});

it('what was encrypted is read with its canary alone', () => {
  const hidden = encryptText('Émile Zola 😀', 'canary');
  expect(hidden).not.toMatch(/Zola/);
  expect(decryptText(hidden, 'canary')).toBe('Émile Zola 😀');
  expect(decryptText(hidden, 'another')).not.toBe('Émile Zola 😀');
  expect(decryptText('plain text, no code!', 'canary')).toBeUndefined();
});
