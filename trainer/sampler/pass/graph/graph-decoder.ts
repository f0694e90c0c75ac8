/** TensorFlow's graph as a decoder. It computes the rows of a pass in groups of similar width, within `PassLimits`. */

import { NonFiniteLogits, sampleToken } from '../../sample-token.ts';
import type { Decoder, DecoderKind, PassResult, PassRow } from '../decoder.ts';
import {
  type BatchRow,
  type CacheLayout,
  nullPage,
  pageSize,
  paddedWidth,
  planBatch,
  wantedLogits,
} from './batch-plan.ts';
import { DecoderSession } from './decoder-session.ts';
import { type PassLimits, passLimits } from './pass-limits.ts';
import { GRAPH_LAYOUT } from '../../cache/cache-budget.ts';
import { gathered } from '../../../model/weights.ts';
import { SamplerModel } from './sampler-model.ts';

/** At most so many rows, and padded prompt tokens, in one call of the graph. */
const wanted: PassLimits = { maxRows: 64, prefillTokens: 512 };

/** A part of a row for one call. */
interface Piece {
  readonly row: number;
  readonly part: BatchRow;
}

/** Rows cut into pieces of at most `most` tokens: the first piece of each row, then the second pieces, and so on. */
function piecesOf(rows: readonly PassRow[], most: number): Piece[][] {
  const rounds: Piece[][] = [];
  rows.forEach(({ tokens, from, count, blocks, want }, row) => {
    for (let at = 0; at < count; at += most) {
      const part = {
        pages: blocks,
        tokens,
        from: from + at,
        count: Math.min(most, count - at),
        every: want === 'every',
      };
      (rounds[at / most] ??= []).push({ row, part });
    }
  });
  return rounds;
}

/** Pages that the row starts to fill in this pass. */
const freshPages = ({ from, count, blocks }: PassRow): number[] =>
  blocks.filter((_, page) => page * pageSize >= from && page * pageSize < from + count);

/** The first of `pieces` and others of similar width, as many as one call takes. Single tokens have their own calls. */
function group(pieces: readonly Piece[], layout: CacheLayout, { maxRows, prefillTokens }: PassLimits): Piece[] {
  const chosen: Piece[] = [];
  let [first, widest] = [0, 0];
  for (const piece of pieces) {
    const width = paddedWidth(layout, piece.part.count);
    if (chosen.length === 0) first = width;
    if ((width === 1) !== (first === 1) || width > 2 * first || first > 2 * width) continue;
    const room = width === 1 ? chosen.length < maxRows : Math.max(widest, width) * (chosen.length + 1) <= prefillTokens;
    if (chosen.length > 0 && !room) continue;
    widest = Math.max(widest, width);
    chosen.push(piece);
  }
  return chosen;
}

function resultOf({ want }: PassRow, logits: readonly Float32Array[]): PassResult {
  const last = logits.at(-1);
  if (typeof want !== 'object' || last === undefined) return { logits: want === 'nothing' ? [] : logits };
  try {
    const { temperature, uniform, limit } = want;
    return { drawn: sampleToken(last, limit, { temperature, topK: 0, topP: 1, maxTokens: 1 }, uniform) };
  } catch (error) {
    if (error instanceof NonFiniteLogits) return { drawn: undefined };
    throw error;
  }
}

export class GraphDecoder implements Decoder<SamplerModel> {
  readonly #session: DecoderSession;
  readonly #limits: PassLimits;
  /** True once keys or values were NaN: reused pages may still hold them, and a masked position gives 0 times NaN. */
  #isTainted = false;

  constructor(session: DecoderSession, limits: PassLimits) {
    this.#session = session;
    this.#limits = limits;
  }

  forward(model: SamplerModel, rows: readonly PassRow[]): PassResult[] {
    const logits = rows.map((): Float32Array[] => []);
    if (this.#isTainted) this.#clear(rows.flatMap(freshPages));
    for (let pieces of piecesOf(rows, Math.min(pageSize, this.#limits.prefillTokens))) {
      while (pieces.length > 0) {
        const chosen = group(pieces, this.#session.layout, this.#limits);
        this.#call(model, chosen, logits);
        pieces = pieces.filter((piece) => !chosen.includes(piece));
      }
    }
    return rows.map((row, i) => resultOf(row, row.want === 'every' ? (logits[i] ?? []) : (logits[i]?.slice(-1) ?? [])));
  }

  copyBlock(from: number, to: number): void {
    this.#session.copyPages([from], [to]);
  }

  dispose(): void {
    this.#session.dispose();
  }

  #call(model: SamplerModel, pieces: readonly Piece[], logits: readonly Float32Array[][]): void {
    const found = this.#session.forward(
      model,
      planBatch(
        this.#session.layout,
        pieces.map(({ part }) => part),
      ),
    );
    const vocabulary = model.config.vocabSize;
    let at = 0;
    for (const { row, part } of pieces) {
      for (let rest = wantedLogits(part); rest > 0; rest--) {
        // If a hidden state contains NaN, every logit of its row is NaN.
        this.#isTainted ||= !Number.isFinite(found[at * vocabulary]);
        logits[row]?.push(found.subarray(at * vocabulary, ++at * vocabulary));
      }
    }
  }

  #clear(pages: readonly number[]): void {
    if (pages.length > 0)
      this.#session.copyPages(
        pages.map(() => nullPage(this.#session.layout)),
        pages,
      );
  }
}

export function graphDecoderKind(): DecoderKind<SamplerModel> {
  return {
    ...GRAPH_LAYOUT,
    model: async (config, weights, positions) => new SamplerModel(config, await gathered(weights), { positions }),
    decoder: (config, positions, blocks) => {
      const layout = { pages: blocks, kvHeads: config.kvHeads, group: config.heads / config.kvHeads };
      return new GraphDecoder(new DecoderSession(config, positions, layout), passLimits(config, wanted));
    },
  };
}
