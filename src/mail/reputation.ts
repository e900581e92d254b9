/** The results of a workspace's real mail: recipients, by their first try. */
export type Figures = {
	/** Recipients that were tried, without those that were refused because of us. */
	readonly attempted: number;
	/** Those of them with an address that takes no mail, now or later. */
	readonly hard: number;
	/** Recipients with mail that a host accepted. */
	readonly delivered: number;
	/** Those of them that were reported as spam. */
	readonly complained: number;
};

export const figureNames = ['attempted', 'hard', 'delivered', 'complained'] as const satisfies ReadonlyArray<
	keyof Figures
>;

/** The windows that a workspace is judged by: 24 hours, 7 days. */
export const spans = ['day', 'week'] as const;
export type Span = (typeof spans)[number];
export type Windows = Readonly<Record<Span, Figures>>;

/** Shares, 0 to 1: of hard bounces in what was attempted, of complaints in what was delivered. */
export type ReputationLevel = {readonly bounces: number; readonly complaints: number};

/** From which shares on a workspace is warned of, and paused. */
export type ReputationLimits = {readonly warn: ReputationLevel; readonly pause: ReputationLevel};

/** R7.2: what large providers suspend accounts at. */
export const defaultReputationLimits: ReputationLimits = {
	warn: {bounces: 0.05, complaints: 0.001},
	pause: {bounces: 0.1, complaints: 0.005},
};
