/**
 * Training data from files of records: every record is read, checked and encoded before training starts. Records of
 * the evaluation are never trained on, nor are equal ones.
 */

import { createHash } from 'node:crypto';
import type { z } from 'zod';
import { shuffled } from '../../trainer/data/batching.ts';
import type { TokenSequence } from '../../trainer/model/token-batch.ts';
import type { Tokenizer } from '../../trainer/tokenizer/load-tokenizer.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { NO_RECORDS } from '../../tasks/data/bad-record.ts';
import { readRecords } from '../../tasks/data/read-records.ts';
import { type Chat, chatSchema, type RecordForm } from './chat-records.ts';
import { chatRenderer, chatSequences } from './chat-sequences.ts';

export interface RecordSettings extends RecordForm {
  readonly files: readonly string[];
  readonly evaluation?: { readonly share?: number | undefined; readonly files?: readonly string[] | undefined };
}

/** Longer sequences are refused, left out, or cut at their end. */
export type TooLong = 'refuse' | 'skip' | 'cut';

export interface EncodeSettings {
  readonly tokenizer: Tokenizer;
  readonly maxTokens: number;
  readonly tooLong: TooLong;
  readonly seed: number;
}

/** Typed arrays: a large file has millions of tokens. */
interface PackedSequence {
  readonly tokens: Int32Array;
  readonly mask: Uint8Array;
}

/** The sequences of one record. */
interface Encoded {
  /** Equal for equal chats. */
  readonly key: string;
  readonly sequences: readonly PackedSequence[];
  readonly isSkipped: boolean;
}

export interface SourceCounts {
  readonly records: number;
  /** Records that are left out since they are too long. */
  readonly skipped: number;
  readonly sequences: number;
  readonly tokens: number;
  /** Number of tokens that count. */
  readonly targets: number;
}

export interface RecordSource {
  /** SHA-256 over the files. */
  readonly digest: string;
  readonly train: SourceCounts;
  readonly evaluation: SourceCounts;
  /** Number of records of one epoch. */
  readonly size: number;
  /** The sequences of record `n` of the shuffled epochs. */
  readonly sequences: (n: number) => readonly TokenSequence[];
  readonly evaluationSequences: readonly TokenSequence[];
}

const packed = ({ tokens, mask }: TokenSequence): PackedSequence => ({
  tokens: Int32Array.from(tokens),
  mask: Uint8Array.from(mask),
});
const unpacked = ({ tokens, mask }: PackedSequence): TokenSequence => ({
  tokens: Array.from(tokens),
  mask: Array.from(mask),
});

/** A chat as its sequences. Its issues name what makes it unusable. */
function encodedSchema(form: RecordForm, settings: EncodeSettings): z.ZodType<Encoded> {
  const { tokenizer, maxTokens, tooLong, seed } = settings;
  const refuse = (context: z.core.$RefinementCtx, message: string): void =>
    context.addIssue({ code: 'custom', message });
  return chatSchema(form).transform((chat: Chat, context): Encoded => {
    const key = createHash('sha256')
      .update(`${seed} ${JSON.stringify(chat)}`)
      .digest('hex');
    let sequences: TokenSequence[] = [];
    try {
      sequences = chatSequences(tokenizer, chat);
    } catch (error) {
      refuse(context, (error as Error).message);
    }
    const longest = Math.max(0, ...sequences.map(({ tokens }) => tokens.length));
    if (longest <= maxTokens) return { key, sequences: sequences.map(packed), isSkipped: false };
    if (tooLong === 'skip') return { key, sequences: [], isSkipped: true };
    if (tooLong === 'refuse')
      refuse(
        context,
        `it has ${longest} tokens, of at most ${maxTokens}; raise maxTokens, or set tooLong: skip or cut`,
      );
    const cut = sequences.map(({ tokens, mask }) => ({
      tokens: tokens.slice(0, maxTokens),
      mask: mask.slice(0, maxTokens),
    }));
    const left = cut.filter(({ mask }) => mask.includes(1));
    return { key, sequences: left.map(packed), isSkipped: left.length === 0 };
  });
}

/** Errors: those of `openRecords`. */
async function readAll<Row>(field: string, files: readonly string[], schema: z.ZodType<Row>) {
  const read = [];
  for (const file of files) {
    const records = await readRecords(file, schema);
    if (records.rows.length === 0) throw new UserInputError(field, file, NO_RECORDS);
    read.push(records);
  }
  return { digests: read.map(({ digest }) => digest), rows: read.flatMap(({ rows }) => rows) };
}

/** The records with the smallest keys: a random choice by the seed, in which equal records stay together. */
function chosenKeys(rows: readonly Encoded[], share: number): ReadonlySet<string> {
  const keys = [...new Set(rows.map(({ key }) => key))].sort();
  return new Set(keys.slice(0, Math.ceil(keys.length * share)));
}

function countsOf(rows: readonly Encoded[]): SourceCounts {
  const sequences = rows.flatMap((row) => row.sequences);
  return {
    records: rows.length,
    skipped: rows.filter(({ isSkipped }) => isSkipped).length,
    sequences: sequences.length,
    tokens: sequences.reduce((sum, { tokens }) => sum + tokens.length, 0),
    targets: sequences.reduce((sum, { mask }) => sum + mask.subarray(1).reduce((all, one) => all + one, 0), 0),
  };
}

/** The order of each epoch, made when it is first needed. */
function epochOrder(name: string, size: number, seed: number): (n: number) => number {
  let known: { readonly epoch: number; readonly order: readonly number[] } | undefined;
  return (n) => {
    const epoch = Math.floor(n / size);
    if (known?.epoch !== epoch) known = { epoch, order: shuffled(size, `sft ${seed} ${name} epoch ${epoch}`) };
    return known.order[n % size] ?? 0;
  };
}

/** Errors: `BadRecord`, and those of reading the files; `UserInputError` for a file without records. */
export async function openRecords(
  name: string,
  records: RecordSettings,
  settings: EncodeSettings,
): Promise<RecordSource> {
  const schema = encodedSchema(records, settings);
  const all = await readAll(`data.${name}.files`, records.files, schema);
  const separate = await readAll(`data.${name}.evaluation.files`, records.evaluation?.files ?? [], schema);
  const { share } = records.evaluation ?? {};
  const held = share === undefined ? new Set(separate.rows.map(({ key }) => key)) : chosenKeys(all.rows, share);
  const evaluated = share === undefined ? separate.rows : all.rows.filter(({ key }) => held.has(key));
  const trained = all.rows.filter(({ key }) => !held.has(key));
  const usable = trained.filter(({ isSkipped }) => !isSkipped);
  const at = epochOrder(name, usable.length, settings.seed);
  return {
    digest: createHash('sha256')
      .update(JSON.stringify([all.digests, separate.digests]))
      .digest('hex'),
    train: countsOf(trained),
    evaluation: countsOf(evaluated),
    size: usable.length,
    sequences: (n) => (usable[at(n)]?.sequences ?? []).map(unpacked),
    evaluationSequences: evaluated.flatMap(({ sequences }) => sequences).map(unpacked),
  };
}

/** The chats of the training files as texts, from which a tokenizer is learned. Errors: as `openRecords`. */
export async function textsOf(
  name: string,
  records: RecordSettings,
  template: Tokenizer['template'],
  most: number,
): Promise<string[]> {
  const { rows } = await readAll(`data.${name}.files`, records.files, chatSchema(records));
  return rows.slice(0, most).map((chat) => chatRenderer({ template }, chat)(chat.turns.length, false));
}
