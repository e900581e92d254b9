/** The results of a workspace's live messages. Recipients are counted at their first attempt. */
export type Figures = {
	/** Recipients with an attempt, without those refused because of this installation. */
	readonly attempted: number;
	/** Those of them whose address does not accept mail, now or later. */
	readonly hard: number;
	/** Recipients whose message a mail server accepted. */
	readonly delivered: number;
	/** Those of them who reported the message as spam. */
	readonly complained: number;
};

export const figureNames = ['attempted', 'hard', 'delivered', 'complained'] as const satisfies ReadonlyArray<
	keyof Figures
>;

/** The time windows for judging a workspace: 24 hours and 7 days. */
export const spans = ['day', 'week'] as const;
export type Span = (typeof spans)[number];
export type Windows = Readonly<Record<Span, Figures>>;

/** Rates from 0 to 1: hard bounces among attempted recipients, and complaints among delivered ones. */
export type ReputationLevel = {readonly bounces: number; readonly complaints: number};

/** The rates from which a workspace is warned and paused. */
export type ReputationLimits = {readonly warn: ReputationLevel; readonly pause: ReputationLevel};

/** R7.2: the rates at which large providers suspend accounts. */
export const defaultReputationLimits: ReputationLimits = {
	warn: {bounces: 0.05, complaints: 0.001},
	pause: {bounces: 0.1, complaints: 0.005},
};
