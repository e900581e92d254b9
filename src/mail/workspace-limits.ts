/** The maximum number of each item in a workspace. An operator of the installation can change it per workspace. */
export const defaultLimits = {
	topics: 1000,
	/** Part of the topics. The preference page lists all of them. */
	public_topics: 200,
	inbound_addresses: 1000,
	domains: 1000,
	/** Revoked and expired keys do not count. */
	keys: 1000,
	alerts: 50,
	templates: 2000,
	/** Layouts and partials together. */
	layouts: 200,
} as const;

/** The highest limit for public topics: with the longest names and descriptions, such a preference page has 2 MB. */
export const maxPublicTopics = 500;

export type LimitName = keyof typeof defaultLimits;
export type WorkspaceLimits = Readonly<Record<LimitName, number>>;

export const limitNames = Object.keys(defaultLimits) as LimitName[];

/** Returns the name for people, such as `public topics`. */
export const limitWords = (name: LimitName): string => name.replaceAll('_', ' ');

/** @param text the JSON object of a workspace's row; `null` if it has the defaults */
export function readLimits(text: string | null): WorkspaceLimits {
	return {...defaultLimits, ...JSON.parse(text ?? '{}')};
}

/** Changes limits; `null` resets one to its default. */
export function changeLimits(
	text: string | null,
	changes: {readonly [Name in LimitName]?: number | null},
): string | null {
	const overrides = Object.entries({...JSON.parse(text ?? '{}'), ...changes}).filter(([, value]) => value !== null);
	return overrides.length === 0 ? null : JSON.stringify(Object.fromEntries(overrides));
}
