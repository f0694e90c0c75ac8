/** The bug families, each with its maker of drafts. */

import type { DraftMaker, Family } from '../draft.ts';
import { missingBaseCase } from './missing-base-case.ts';
import { missingReturn } from './missing-return.ts';
import { offByOne } from './off-by-one.ts';
import { swappedArguments } from './swapped-arguments.ts';
import { wrongComparison } from './wrong-comparison.ts';
import { wrongConstant } from './wrong-constant.ts';
import { wrongKey } from './wrong-key.ts';
import { wrongOperator } from './wrong-operator.ts';

export const draftMakers: Readonly<Record<Family, DraftMaker>> = {
  'wrong-operator': wrongOperator,
  'off-by-one': offByOne,
  'swapped-arguments': swappedArguments,
  'missing-return': missingReturn,
  'wrong-constant': wrongConstant,
  'missing-base-case': missingBaseCase,
  'wrong-key': wrongKey,
  'wrong-comparison': wrongComparison,
};
