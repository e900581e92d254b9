/** Jobs for a thread, in the order in which it does them. */
export type ToWorker<Job> = {readonly kind: 'work'; readonly jobs: readonly Job[]};

/** What came of them, in the same order; several messages may answer one. */
export type FromWorker<Result> = {readonly kind: 'done'; readonly results: readonly Result[]};

/** Slots of the memory shared with a thread: how many jobs it has begun since its start, and whether it is at one. */
export const progress = {begun: 0, working: 1, slots: 2} as const;
