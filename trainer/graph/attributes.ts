/** Attributes of the decoder's ops, all over float32 values and int32 indices. */

import type { Attributes } from './graph-builder.ts';

const float = { type: 'float32' } as const;
const int = { type: 'int32' } as const;
const no = { bool: false } as const;

export const attributes = {
  elementwise: { T: float },
  matMul: { T: float, transpose_a: no, transpose_b: no },
  batchMatMul: { T: float, adj_x: no, adj_y: no },
  batchMatMulTransposed: { T: float, adj_x: no, adj_y: { bool: true } },
  reshape: { T: float, Tshape: int },
  transpose: { T: float, Tperm: int },
  gather: { Tparams: float, Tindices: int, Taxis: int, batch_dims: { int: 0 } },
  segment: { T: float, Tindices: int },
  max: { T: float, Tidx: int, keep_dims: { bool: true } },
  splitInTwo: { T: float, Tlen: int, num_split: { int: 2 } },
  fill: { T: float, index_type: int },
  read: { dtype: float },
  assign: { dtype: float },
  gatherVariable: { dtype: float, Tindices: int, batch_dims: { int: 0 }, validate_indices: no },
  scatterPlaces: { T: float, Tindices: int, use_locking: no },
  scatterRows: { dtype: float, Tindices: int },
} as const satisfies Readonly<Record<string, Attributes>>;
