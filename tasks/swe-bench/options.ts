/** The options of `swe_bench`. Absent ones follow from the records. */

import { z } from 'zod';
import { recordOptions } from '../data/record-options.ts';
import { SOURCES } from './instance.ts';
import { unknownParser } from './parsers/index.ts';
import { PLACEHOLDERS, unknownIn } from './sources.ts';

const text = z.string().min(1, 'give a text, or leave it out');
const template = text.refine((value) => unknownIn(value).length === 0, {
  error: ({ input }) =>
    `there is no {${unknownIn(String(input))[0] ?? ''}}; ` +
    `give one of ${PLACEHOLDERS.map((name) => `{${name}}`).join(', ')}`,
});
const whole = z.int().positive();

export const options = z
  .strictObject({
    ...recordOptions,
    /** What the records are. Absent: each record says it. */
    source: z.enum(SOURCES).optional(),
    /** Name of the image, with names in braces. Absent: the record's, or by the rule of its source. */
    image: template.optional(),
    /** Name of the image that grades, if the agent's lacks the hidden tests (R2E-Gym). */
    gradeImage: template.optional(),
    /** A folder with a recipe for each instance, in place of images. */
    recipe: text.optional(),
    /** A folder with the files of each instance that its tests need and a patch cannot carry. */
    assets: text.optional(),
    workdir: z
      .string()
      .regex(/^\/[\w./-]+$/u, 'give an absolute path')
      .optional(),
    /** Folders of programs, before the system's. */
    path: z.array(z.string().regex(/^\/[^:\0]*$/u, 'give absolute paths')).optional(),
    /** Further variables of the sandboxes. */
    env: z.record(z.string(), z.string()).default({}),
    /** Runs the tests; `{files}` are those of the test patch. */
    testCommand: text.optional(),
    logParser: text
      .refine((name) => unknownParser(name) === undefined, { error: ({ input }) => unknownParser(String(input)) ?? '' })
      .optional(),
    evalType: z.enum(['pass_and_fail', 'fail_only']).optional(),
    /** Of the repository that the agent sees. SWE-smith's is always squashed: its last commit is the bug. */
    history: z.enum(['keep', 'squash']).default('keep'),
    /** Whether the discussion of the issue is shown. */
    hints: z.boolean().default(false),
    tools: z.array(text).min(1).default(['bash', 'str_replace_editor', 'search', 'finish']),
    memoryMiB: whole.default(2048),
    diskMiB: whole.default(2048),
    processes: whole.default(512),
    cpus: z.number().positive().optional(),
    setUpSeconds: whole.default(1200),
    /** For one grading: the tests, and if they gave no result, a control. */
    gradeSeconds: whole.min(60).default(1800),
  })
  .refine(({ image, recipe }) => image === undefined || recipe === undefined, {
    path: ['recipe'],
    error: 'give an image or a recipe, not both',
  })
  .refine(({ gradeImage, recipe }) => gradeImage === undefined || recipe === undefined, {
    path: ['gradeImage'],
    error: 'leave it out: a recipe has no image',
  });

export type Options = z.infer<typeof options>;
