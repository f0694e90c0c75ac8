/** The search attributes of Longhaul's workflows: every cluster that runs them must know all of these. */

export const SEARCH_ATTRIBUTES = {
  LonghaulRun: 'Keyword',
  LonghaulStep: 'Int',
  LonghaulTask: 'Keyword',
  LonghaulGroup: 'Keyword',
  LonghaulStage: 'Keyword',
  LonghaulPolicyVersion: 'Int',
  LonghaulReward: 'Double',
  LonghaulFinish: 'Keyword',
  LonghaulFailure: 'Keyword',
} as const;
