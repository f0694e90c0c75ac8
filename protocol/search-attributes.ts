/** Typed keys of Longhaul's search attributes, for workflows. */

import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';

export const runKey = defineSearchAttributeKey('LonghaulRun', SearchAttributeType.KEYWORD);
export const stepKey = defineSearchAttributeKey('LonghaulStep', SearchAttributeType.INT);
export const taskKey = defineSearchAttributeKey('LonghaulTask', SearchAttributeType.KEYWORD);
export const groupKey = defineSearchAttributeKey('LonghaulGroup', SearchAttributeType.KEYWORD);
export const stageKey = defineSearchAttributeKey('LonghaulStage', SearchAttributeType.KEYWORD);
export const policyVersionKey = defineSearchAttributeKey('LonghaulPolicyVersion', SearchAttributeType.INT);
export const rewardKey = defineSearchAttributeKey('LonghaulReward', SearchAttributeType.DOUBLE);
export const finishKey = defineSearchAttributeKey('LonghaulFinish', SearchAttributeType.KEYWORD);
export const failureKey = defineSearchAttributeKey('LonghaulFailure', SearchAttributeType.KEYWORD);
