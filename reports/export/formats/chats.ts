/** Chat records: `chats.jsonl`, a line each, or `chats.parquet`, typed, in row groups of a bounded size. */

import { join } from 'node:path';
import { LineFile } from '../export-files.ts';
import { type ChatRecord, recordsOf } from './chat-record.ts';
import type { ChatWriter, Placed } from './format.ts';

/** Characters of a row group's records, about. */
const GROUP_CHARACTERS = 8_000_000;

/** `put`: writes one record. */
function chatWriter(file: string, put: (record: ChatRecord) => Promise<void>, close: () => Promise<void>): ChatWriter {
  let first = 0;
  return {
    async add(group) {
      const placed: Placed[] = [];
      for (const rollout of group.rollouts) {
        const records = recordsOf(rollout, group);
        for (const record of records) await put(record);
        placed.push({ file, first, rows: records.length });
        first += records.length;
      }
      return placed;
    },
    close,
  };
}

export async function jsonlWriter(folder: string): Promise<ChatWriter> {
  const lines = await LineFile.create(join(folder, 'chats.jsonl'));
  return chatWriter(
    'chats.jsonl',
    (record) => lines.add(record),
    () => lines.close(),
  );
}

type Element = Readonly<Record<string, unknown>> & { readonly name: string };

const text = (name: string, repetition = 'OPTIONAL'): Element => ({
  name,
  type: 'BYTE_ARRAY',
  converted_type: 'UTF8',
  repetition_type: repetition,
});
const struct = (name: string, children: readonly Element[][], repetition = 'OPTIONAL'): Element[] => [
  { name, repetition_type: repetition, num_children: children.length },
  ...children.flat(),
];
const list = (name: string, element: readonly Element[]): Element[] => [
  { name, repetition_type: 'OPTIONAL', num_children: 1, converted_type: 'LIST' },
  { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
  ...element,
];

const COLUMNS: ReadonlyArray<readonly [keyof ChatRecord, Element[]]> = [
  [
    'messages',
    list(
      'messages',
      struct('element', [
        [text('role')],
        [text('content')],
        [text('name')],
        [text('tool_call_id')],
        list(
          'tool_calls',
          struct('element', [[text('id')], [text('type')], struct('function', [[text('name')], [text('arguments')]])]),
        ),
        [{ name: 'weight', type: 'INT32', repetition_type: 'OPTIONAL' }],
      ]),
    ),
  ],
  ['tools', [text('tools')]],
  ['reward', [{ name: 'reward', type: 'DOUBLE', repetition_type: 'OPTIONAL' }]],
  ['passed', [{ name: 'passed', type: 'BOOLEAN', repetition_type: 'OPTIONAL' }]],
  ['reason', [text('reason')]],
  ['masked', [text('masked')]],
  ['metadata', [text('metadata')]],
];

/** `tools` and `metadata` differ from record to record: they are JSON texts. */
const cellOf = (record: ChatRecord, name: keyof ChatRecord): unknown => {
  const value = record[name];
  if (name === 'tools' || name === 'metadata') return JSON.stringify(value);
  if (name !== 'messages') return value;
  return record.messages.map((message) => ({
    role: message.role,
    content: message.content,
    name: message.name ?? null,
    tool_call_id: message.tool_call_id ?? null,
    tool_calls: message.tool_calls ?? null,
    weight: message.weight ?? null,
  }));
};

export async function parquetWriter(folder: string): Promise<ChatWriter> {
  // Loaded here: most processes write none.
  const { ParquetWriter, fileWriter } = await import('hyparquet-writer');
  const schema = struct(
    'root',
    COLUMNS.map(([, elements]) => elements),
    'REQUIRED',
  );
  const writer = new ParquetWriter({
    writer: fileWriter(join(folder, 'chats.parquet')),
    schema: schema as unknown as ConstructorParameters<typeof ParquetWriter>[0]['schema'],
    createdBy: 'longhaul',
  });
  let records: ChatRecord[] = [];
  let characters = 0;
  const flush = async (): Promise<void> => {
    if (records.length === 0) return;
    const columnData = COLUMNS.map(([name]) => ({ name, data: records.map((record) => cellOf(record, name)) }));
    await writer.write({ columnData, rowGroupSize: records.length });
    [records, characters] = [[], 0];
  };
  const put = async (record: ChatRecord): Promise<void> => {
    records.push(record);
    characters += JSON.stringify(record).length;
    if (characters >= GROUP_CHARACTERS) await flush();
  };
  return chatWriter('chats.parquet', put, async () => {
    await flush();
    await writer.finish();
  });
}
